"""How much of the program a question runs through: functions called, and frames between `main` and a delta.

    python -m tests.benchmarks.calls [--program FOLDER] [--list]

One question with `-p` whose answer reads a file natively, and then a last word. Counted are distinct functions of src,
and its frames where the first piece of the answer is read. --list prints both by name, and of each function how often it
was called and by how many others; then how many there are in each module.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.benchmarks.measure import QUESTION, Row, make_environment, make_options, print_table
from tests.benchmarks.serving import serving

# Runs the program with what it is given behind the path of a report, to which it writes a line for each function.
WATCH = r"""
import inspect, sys, threading
from collections import Counter, defaultdict
report, program = sys.argv[1:3]
sys.path.insert(0, program)
root, calls, callers, frames = program + "/src/", Counter(), defaultdict(set), []

def note(frame, event, argument):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(root) or not code.co_flags & inspect.CO_OPTIMIZED:
        return  # the body of a module or of a class
    if not code.co_name.startswith("<"):  # a comprehension or a lambda
        calls[code] += 1
        callers[code].add(frame.f_back.f_code)
    if code.co_name == "feed" and code.co_filename.endswith("/response_assembler.py") and not frames:
        while frame:
            if frame.f_code.co_filename.startswith(root):
                frames.append(frame.f_code)
            frame = frame.f_back

threading.setprofile(note)
sys.setprofile(note)
from src.cli.main import main
try:
    main(sys.argv[3:])
finally:
    sys.setprofile(None)
    with open(report, "w") as file:
        def name(code):
            return f"{code.co_filename.removeprefix(root)} {code.co_name} {code.co_firstlineno}"

        for code, count in calls.items():
            print("function", name(code), f"called {count} times by {len(callers[code])}", file=file)
        for code in reversed(frames):
            print("frame", name(code), file=file)
"""


def watch_question(program: Path) -> list[str]:
    """The lines of the report."""
    with serving() as server, tempfile.TemporaryDirectory() as name:
        (Path(name) / "f0000.txt").write_text("one\n")
        report = Path(name) / "report.txt"
        command = [sys.executable, "-c", WATCH, str(report), str(program), "-p", QUESTION]
        command += ["--base-url", f"{server}/read,turns=1/v1", "--workspace", name, "--profile", "read-only"]
        subprocess.run(
            command, env=make_environment(Path(name)), stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        return report.read_text().splitlines()


def main() -> int:
    options = make_options(__doc__)
    options.add_argument("--list", action="store_true")
    given = options.parse_args()
    lines = watch_question(given.program.resolve())
    functions = [line for line in lines if line.startswith("function ")]
    if given.list:
        print(*sorted(functions), *lines[len(functions) :], sep="\n")
        for module, count in Counter(line.split()[1] for line in functions).most_common():
            print(f"{count:4} {module}")
    return print_table(
        [
            Row("functions called for -p with one native read", len(functions), "", bar=550),
            Row("frames where the delta arrives", len(lines) - len(functions), "", bar=18),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
