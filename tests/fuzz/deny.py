"""Random command lines under a rule that denies a program: those that are clear of it are run, and must not run it.

    python -m tests.fuzz.deny [how many] [seed]

They run under bash behind bubblewrap, where the denied program is a script that leaves a mark. It ends with exit
code 1 at the first line that is judged clear and leaves the mark.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path

from src.security.shell.deny import judge_line

DENIED = "xdeny"
_PIECES = (
    "xdeny xde ny echo cat printf test [ ] cd time nohup timeout 1 xargs -n1 -I{} find . -name -exec ; & | && || |& ( ) { }"
    " ! > >> < << <<- <<< >& &> 2>&1 a.txt out E ' \" \\ $ ` ~ * ? [x] {} {a,b} $( <( = x=xdeny PATH=. LANG=C LC_ALL=x -v"
    " 'a[$(xdeny)]' if then fi for in do done while case esac function xdeny() eval alias git status -c sort -e sed"
    ' 1e awk # -- - a[$(xdeny)] $x "$x" ${x:-`xdeny`} coproc exec command -p builtin type let (( )) [[ ]] 3 @ % ^ : ,'
)
PIECES = _PIECES.split()
BLANKS = (" ", " ", " ", "", "\n", "\t", "\\\n", "\r", "\xa0", "\v")
MANY = 20_000
LINES = (
    "echo xdeny; cat a.txt",
    "echo 'a xdeny' | cat",
    "cat <<'E'\nxdeny\nE\nls",
    'echo "a; xdeny" && ls xdeny',
    "(cd . && echo # xdeny\n ls) > out",
    "cat a.txt > xdeny || echo \\; xdeny",
    "find . -name xdeny -print",
    "timeout 1 echo xdeny & ls",
    "printf xdeny 2>&1 | head -n 1",
    "echo a.txt | xargs -n1 echo xdeny",
    "test -f xdeny || [ -f xdeny ] ; echo",
    "git log --grep xdeny",
)


def make_line(random_source: random.Random) -> str:
    """A harmless line with a few pieces put into it anywhere."""
    line = random_source.choice(LINES)
    for _ in range(random_source.randint(1, 4)):
        at = random_source.randint(0, len(line))
        piece = random_source.choice(PIECES) if random_source.random() < 0.6 else ""
        line = line[:at] + random_source.choice(("", *BLANKS)) + piece + random_source.choice(BLANKS) + line[at:]
    return line


def leaves_mark(line: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        bin_folder, here = Path(folder, "bin"), Path(folder, "ws")
        bin_folder.mkdir()
        here.mkdir()
        (here / "a.txt").write_text("xdeny\n")
        program = bin_folder / DENIED
        program.write_text(f"#!/bin/sh\n: > {folder}/mark\n")
        program.chmod(0o755)
        words = ["bwrap", "--ro-bind", "/", "/", "--bind", folder, folder, "--dev", "/dev", "--unshare-all"]
        subprocess.run(
            [*words, "--die-with-parent", "--chdir", str(here), "--", "timeout", "2", "bash", "-c", "--", line],
            env={"PATH": f"{bin_folder}:/usr/bin:/bin", "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return Path(folder, "mark").exists()


def main(arguments: list[str]) -> int:
    many, seed = (int(arguments[0]) if arguments else MANY), (int(arguments[1]) if len(arguments) > 1 else 1)
    random_source = random.Random(seed)
    clear = 0
    for _ in range(many):
        line = make_line(random_source)
        if "\0" in line or judge_line(line, (DENIED,)).verdict != "clear":
            continue
        clear += 1
        if leaves_mark(line):
            print(f"{line!r} is judged clear and runs {DENIED}")
            return 1
    print(f"{many} lines, {clear} of them clear and run: none ran {DENIED}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
