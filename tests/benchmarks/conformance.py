"""The parser under `canitoolcall`, an independent conformance suite for parsers of tool calls and thoughts.

    pip install canitoolcall
    python -m tests.benchmarks.conformance [--fixtures PATH ...]

Its fixtures, from nine families of models, are parsed whole and in pieces by its own strategies; its own checks say
what passes. The parser is told neither the model nor its format, but the thought that a prompt has opened.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ADAPTER = "tests.benchmarks._conformance_adapter:ParserAdapter"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "canitoolcall", "run", "--engine", ADAPTER, "--out", folder, "--jobs", "2"]
        subprocess.run([*command, *sys.argv[1:]], check=False)  # it fails where a fixture does
        found = list(Path(folder).rglob("*.json"))
        if not found:
            sys.exit("This needs the package canitoolcall: pip install canitoolcall")
        cases = json.loads(found[0].read_text(encoding="utf-8"))["cases"]
    for case in cases:
        failed = [check for check in case["checks"] if check["status"] == "fail"]
        if case["status"] == "fail" and failed:
            print(case["fixture_id"], failed[0]["check"], str(failed[0].get("detail"))[:150])
    print(dict(Counter(case["status"] for case in cases)), "of", len(cases))


if __name__ == "__main__":
    main()
