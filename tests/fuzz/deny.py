"""Random command lines under a rule that denies a program: those that are clear of it are run, and must not run it.

    python -m tests.fuzz.deny [how many] [seed]

They run under bash behind bubblewrap, where the denied program is a script that leaves a mark. Lines with a redirection
are run as well, and must make no file that is not listed. It ends with exit code 1 at the first line that does.
"""

from __future__ import annotations

import posixpath
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from src.security.shell.match_line import match_line
from src.security.shell.written_files import list_written_files

DENIED = "xdeny"
_PIECES = (
    "xdeny xde ny echo cat printf test [ ] cd time nohup timeout 1 xargs -n1 -I{} find . -name -exec ; & | && || |& ( ) { }"
    " ! > >> < << <<- <<< >& &> 2>&1 a.txt out E ' \" \\ $ ` ~ * ? [x] {} {a,b} $( <( = x=xdeny PATH=. LANG=C LC_ALL=x -v"
    " 'a[$(xdeny)]' if then fi for in do done while case esac function xdeny() eval alias git status -c sort -e sed"
    ' 1e awk # -- - a[$(xdeny)] $x "$x" ${x:-`xdeny`} coproc exec command -p builtin type let (( )) [[ ]] 3 @ % ^ : ,'
)
_ENTERING = "cd d|cd d/e|cd ..|eval 'cd d'|f() { cd d; }; f|{ cd d; }|$x d|x=cd; $x d|sh -c 'ls > out'|env -C d|bash <<<|. ./enter"
PIECES = [*_PIECES.split(), *_ENTERING.split("|")]
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
    'echo "$(cat a.txt) > 1" > out "x"',
    "x=`cat a.txt`; echo $x > \"out\" 'b > c'",
    "cat <<E > out\n$(cat a.txt) > 1\nE\nls 2>&1 > b",
    "cd d; ls > out; cd e && ls > b",
    "for i in 1 2; do ls > out; cd d; done",
    "f() { ls > out; }; (f); cd d; f > b",
    "case $x in d) cd d;; *) ls > out;; esac; sh -c 'ls > b'",
    "cd d; bash <<'E'\nls > out\nE\nls > b",
    'if [[ a > b ]]; then (( 1 > 2 )); fi; sh -c "ls > out"',
)


def make_line(random_source: random.Random) -> str:
    """A harmless line with a few pieces put into it anywhere."""
    line = random_source.choice(LINES)
    for _ in range(random_source.randint(1, 4)):
        at = random_source.randint(0, len(line))
        piece = random_source.choice(PIECES) if random_source.random() < 0.6 else ""
        line = line[:at] + random_source.choice(("", *BLANKS)) + piece + random_source.choice(BLANKS) + line[at:]
    return line


class Outcome(NamedTuple):
    has_run: bool  # whether the denied program ran
    files: frozenset[str]  # those that were made


def run_line(line: str) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        bin_folder, here = Path(folder, "bin"), Path(folder, "ws")
        bin_folder.mkdir()
        (here / "d" / "e").mkdir(parents=True)
        (here / "a.txt").write_text("xdeny\n")
        (here / "enter").write_text("cd d\n")
        program = bin_folder / DENIED
        program.write_text(f"#!/bin/sh\n: > {folder}/mark\n")
        program.chmod(0o755)
        words = [
            shutil.which("bwrap") or "bwrap",
            "--ro-bind",
            "/",
            "/",
            "--bind",
            folder,
            folder,
            "--dev",
            "/dev",
            "--unshare-all",
        ]
        subprocess.run(
            [*words, "--die-with-parent", "--chdir", str(here), "--", "timeout", "2", "bash", "-c", "--", line],
            env={"PATH": f"{bin_folder}:/usr/bin:/bin", "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        made = {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()} - {"a.txt", "enter", "a.out"}
        return Outcome(Path(folder, "mark").exists(), frozenset(made))


def main(arguments: list[str]) -> int:
    many, seed = (int(arguments[0]) if arguments else MANY), (int(arguments[1]) if len(arguments) > 1 else 1)
    random_source = random.Random(seed)
    clear = writing = 0
    for _ in range(many):
        line = make_line(random_source)
        is_clear = match_line(line, (DENIED,)).verdict == "clear"
        listed = set(list_written_files(line))
        is_writing = ">" in line and None not in listed
        if "\0" in line or not (is_clear or is_writing):
            continue
        outcome = run_line(line)
        clear, writing = clear + is_clear, writing + is_writing
        if is_clear and outcome.has_run:
            print(f"{line!r} is judged clear and runs {DENIED}")
            return 1
        if is_writing and outcome.files - {posixpath.normpath(name) for name in listed if name}:
            print(f"{line!r} makes {sorted(outcome.files)}, and {listed} are listed")
            return 1
    print(f"{many} lines: none of {clear} clear ones ran {DENIED}, {writing} made only the files that are listed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
