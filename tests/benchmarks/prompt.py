"""What the shipped program sends: requests before the first chat request, tokens of the first prompt, shared prefixes.

    python -m tests.benchmarks.prompt [--program FOLDER] [--rig FOLDER]

Tokens are those of the rig's model (its chat template and tokenizer, by the rig's own Python): FOLDER/chatml and
FOLDER/venv. Without a rig those rows are skipped. A shared prefix is the share of the tokens of the turn before with
which the next prompt begins, and which a server therefore has in its cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.benchmarks.loop import make_files
from tests.benchmarks.measure import Row, ask_program, make_options, print_table, require_byte_code
from tests.benchmarks.serving import CHAT, fetch, serving

TOOL_TURNS = 4  # until the limit of turns
SMALL_CONTEXT = 20_000  # tokens, four bytes of a request each: some turns of `read` fill it
COMPACTED_READS = 40

# argv: the model's folder. Reads chat requests, a JSON list; prints the tokens of each prompt.
TOKENIZE = """
import json, sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
prompts = []
for body in json.load(sys.stdin):
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    text = tokenizer.apply_chat_template(
        body["messages"], tools=body.get("tools") or None, add_generation_prompt=True, tokenize=False)
    prompts.append(tokenizer(text, add_special_tokens=False)["input_ids"])
json.dump(prompts, sys.stdout)
"""


def tokenize(rig: Path, bodies: list[Any]) -> list[list[int]]:
    python = str(rig / "venv" / "bin" / "python")
    given = json.dumps(bodies)
    done = subprocess.run([python, "-c", TOKENIZE, str(rig / "chatml")], input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    prompts: list[list[int]] = json.loads(done.stdout)
    return prompts


def measure_shared(before: list[int], after: list[int]) -> float:
    """The percentage of `before` with which `after` begins."""
    same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    return 100 * (min(len(before), len(after)) if same is None else same) / len(before)


def request_rows(server: str, program: Path, workspace: Path, home: Path) -> Iterator[Row]:
    """With an empty state folder, and in the next run."""
    for what, bar in (("first run", 3.0), ("next run", 3.0)):
        url = f"{server}/read,turns=0,run={what.split()[0]}"
        ask_program(program, url, workspace, home)
        paths = [path for path, _, _ in fetch(f"{url}/log")]
        yield Row(f"requests before the first chat request, {what}", paths.index(CHAT), "", bar=bar)


def prompt_rows(server: str, program: Path, workspace: Path, home: Path, rig: Path) -> Iterator[Row]:
    for what, bar, options in (("native", 2_200.0, ()), ("text path", None, ("--no-function-calling",))):
        url = f"{server}/read,turns=0,of={what.split()[0]}"
        ask_program(program, url, workspace, home, *options)
        (tokens,) = tokenize(rig, fetch(f"{url}/bodies")[:1])
        yield Row(f"first prompt, {what}", len(tokens), "tokens", bar=bar)


def prefix_rows(server: str, program: Path, workspace: Path, home: Path, rig: Path) -> Iterator[Row]:
    for what, options, text in (("native", (), ""), ("text path", ("--no-function-calling",), ",text=1")):
        url = f"{server}/read,turns={TOOL_TURNS},counted=1{text}"
        ask_program(program, url, workspace, home, "--max-turns", str(TOOL_TURNS), *options)
        *_, before, last = tokenize(rig, fetch(f"{url}/bodies"))
        yield Row(f"prefix shared at the turn limit, {what}", measure_shared(before, last), "%", bar=95, is_least=True)
        url = f"{server}/read,turns={COMPACTED_READS},counted=1,context={SMALL_CONTEXT}{text}"
        (home / "config.json").write_text(json.dumps({"agent": {"max_tool_turns": 1000}}))
        ask_program(program, url, workspace, home, "--config", str(home / "config.json"), *options)
        prompts = tokenize(rig, fetch(f"{url}/bodies"))
        # The request for a summary is the first that does not begin with all of the turn before.
        shares = [measure_shared(before, after) for before, after in pairwise(prompts)]
        place = next((at for at, share in enumerate(shares) if share < 99), None)
        if place is None:
            print(f"no compaction, {what}: {len(prompts)} prompts of at most {max(map(len, prompts)):,} tokens")
            continue
        yield Row(f"prefix shared in compaction, {what}", shares[place], "%", bar=95, is_least=True)


def make_rows(program: Path, rig: Path) -> Iterator[Row]:
    with serving() as server, tempfile.TemporaryDirectory() as name:
        home = Path(name)
        workspace = make_files(home / "workspace", COMPACTED_READS)
        yield from request_rows(server, program, workspace, home)
        if not (rig / "chatml").is_dir() or not (rig / "venv").is_dir():
            print(f"there is no rig in {rig}: the rows that count tokens are skipped")
            return
        yield from prompt_rows(server, program, workspace, home, rig)
        yield from prefix_rows(server, program, workspace, home, rig)


def main() -> int:
    options = make_options(__doc__)
    options.add_argument("--rig", type=Path, default=Path.home() / "rig", metavar="FOLDER")
    given = options.parse_args()
    require_byte_code()
    return print_table(make_rows(given.program, given.rig))


if __name__ == "__main__":
    sys.exit(main())
