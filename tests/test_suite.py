"""What no test may do: bound time, trace, sleep, or set its own number of examples."""

from __future__ import annotations

import re
from pathlib import Path

from tests.each import check_rows

TESTS = Path(__file__).parent
ELSEWHERE = ("benchmarks", "live", "fuzz", "recorded")
FILES = [path for path in sorted(TESTS.rglob("*.py")) if path.relative_to(TESTS).parts[0] not in ELSEWHERE]
HERE = Path(__file__).name
# What is not allowed, and the files that have it nevertheless.
FORBIDDEN = {
    r"\bsettrace\b": (),
    r"\b(process_time|perf_counter|thread_time|getrusage)\b": ("cpu.py",),  # which reports it
    r"\btime\.monotonic\(\)": ("waiting.py", "terminal.py", "killing.py"),  # what hangs ends; how long a run takes
    r"\btime\.sleep\(": ("mcp_server.py", "killing.py"),  # a server that is slow; a kill after a random time
    r"\bmax_examples\b": ("thorough.py",),
}


@check_rows("pattern", FORBIDDEN)
def test_no_test_does_it(pattern):
    files = [path for path in FILES if path.name not in (*FORBIDDEN[pattern], HERE)]
    assert [str(path.relative_to(TESTS)) for path in files if re.search(pattern, path.read_text("utf-8"))] == []
