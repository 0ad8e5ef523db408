"""Random command lines of everything a shell knows: those that the policy lets run are run, and must do no harm.

    python -m tests.fuzz.policy [how many] [seed]

They run under bash in a folder of traps, behind bubblewrap where there is one, so that a hole does no harm. It ends
with exit code 1 at the first that wrote a file or showed something of outside.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from src.security.permissions.policy import Policy
from src.security.shell.option_table import FIND, ROWS, list_options
from src.types.messages import ToolCall
from tests.security.ground import build, effect

PATH = "/usr/local/bin:/usr/bin:/bin"
NAMES = tuple(name for name in ROWS if not name.startswith("git"))
ALLOWED = (*NAMES, "find")
INSIDE = [
    "a.txt",
    "b.txt",
    "src",
    "src/main.py",
    "notes.md",
    ".",
    "./a.txt",
    "quiet",
    "quiet/plain.txt",
    "src/../a.txt",
    "traps",
    "'my",
    "file.txt'",
    "nosuch",
]
OUTSIDE = [
    "../outside/secret.txt",
    "../outside",
    "..",
    "/",
    "/etc/passwd",
    "link_out",
    "link_file",
    "link_out/secret.txt",
    "traps/up",
    "traps/.dot",
    "traps/etc",
    "traps/proc/outside/secret.txt",
    "~/.ssh/id_rsa",
    "~",
    "/proc/self/cwd/../outside",
    "/proc/self/environ",
    "/dev/zero",
    "src/../../outside",
    "traps/here/../outside",
    "traps/here/link_file",
    "traps/up/outside/secret.txt",
]
GLOBS = [
    "*",
    "*.txt",
    "?.txt",
    "[ab].txt",
    "*/",
    "*/*",
    "../*",
    "../outside/*",
    "link*/*",
    "l*/s*",
    "traps/*",
    "traps/-*",
    ".*",
    ".*/*",
    ".??*",
    "[.]*",
    "[.][.]/*",
    "tr*/.*/*",
    "traps/u*/o*",
    "traps/pro*/o*/*",
    "src/*.py",
    "*/plain.txt",
    "*/secret.txt",
    "li?k_file",
    "[!x]*",
    "[k-m]*",
    "?[i]nk_*",
]
REPLACED = [
    "$HOME",
    "${HOME}",
    "$(touch${IFS}pwned)",
    "`touch",
    "pwned`",
    "$((1+1))",
    "{a.txt,../outside/secret.txt}",
    "$'\\x2e\\x2e'",
    "<(touch",
    "pwned)",
    '"$(touch',
    'pwned)"',
    "$VLLM_API_KEY",
    "${!VLLM*}",
    "~root",
    "~+/..",
    "a=~",
    '"${x:=$(touch',
    'pwned)}"',
]
JOINS = (" | ", " && ", " || ", "; ", "\n", " |& ", ";", "|", "&&", " & ", " ;; ", "\r", "\n\n", " \\\n", "&", " |\n")
REDIRECTIONS = (
    (
        "2>/dev/null 2>&1 >/dev/null >&2 &>/dev/null < a.txt <a.txt < ../outside/secret.txt <link_file > pwned >>pwned >|pwned"
        " 1<>pwned >&pwned &>pwned 2>pwned 3>pwned <<<x <<<$HOME {fd}>pwned 2>&pwned >/dev/null/x >'/dev/null' >/dev/../pwned"
    )
    .replace("< a", "<~a")
    .replace("< .", "<~.")
    .replace("> p", ">~p")
    .split()
)
WRAPPED = (
    "env {}",
    "command {}",
    "exec {}",
    "eval '{}'",
    "({})",
    "{{ {}; }}",
    "if true; then {}; fi",
    "! {}",
    "! ({})",
    "({}); cat link_file",
    "({}) && ls",
    "({}) | cat",
    "time {}",
    "time -p {}",
    "timeout 5 {}",
    "nice -n 1 {}",
    "stdbuf -oL {}",
    "LC_ALL=C {}",
    "LANG=C TZ=UTC {}",
    "cd src && {}",
    "cd src; {}",
    "(cd src && {0}); {0}",
    "cd quiet && cd .. && {}",
    "bash -c '{}'",
    "X=1 {}",
    "PATH=bin:$PATH {}",
    "{} # x",
    "# x\n{}",
    "cat <<E\n{}\nE",
    "cat <<'E'\nx\nE\n{}",
    "f() {{ {}; }}; f",
    "while {}; do break; done",
    "echo {} | sh",
    "echo {} | xargs touch",
    "coproc {}",
    "[[ {} ]]",
    "alias ls='{}'\nls",
)
OTHERS = (
    "touch",
    "./cat",
    "bin/ls",
    "$PWD/bin/ls",
    "c\\at",
    "'cat'",
    "rm",
    "sh",
    "tee",
    "xargs",
    "cd",
    "printf",
    "test",
    "сat",
)
UNPERMITTED = (
    "-exec touch pwned ;", "-exec touch pwned \\;", "-delete", "-fprint pwned", "-ok touch pwned \\;", "-fls pwned", "-o pwned",
    "-opwned", "--output=pwned", "--outpu=pwned", "--compress-program=./evil.sh", "--files0-from=list0", "--files0-f=list0",
    "-f ../outside/secret.txt", "-f../outside/secret.txt", "--file=../outside/secret.txt", "--pre=./evil.sh", "-T.", "-L", "-R",
    "-H", "-follow", "--dereference-rec", "--files-from list0", "-files0-from list0", "-i", "-w ../outside/secret.txt",
    "-5c ../outside/secret.txt", "-n1 ../outside/secret.txt", "-e x -- ../outside/secret.txt", "-s@../outside/secret.txt",
    "-samefile ../outside/secret.txt", "-newer ../outside/secret.txt", "--exclude-from=../outside/secret.txt", "--to-file=link_file",
    "--from-file ../outside/secret.txt", "-C pwned", "-m ../outside/secret.txt", "-r../outside/secret.txt", "--reference=link_file",
)  # fmt: skip


SCRIPTS = (
    "alpha", "''", ".", "-e x", "1p", "$p", "'1,5p'", "s/a/b/", "e", "w pwned", "1e", "r link_file", "'s/a/b/w pwned'", "s/a/b/e",
    "'s|a|touch pwned|e'", "-e p -e 'w pwned'", "'/a/,/b/p'", "'1!d; $p'", "'{print $1}'", "'NR>1'", "'{print > $1}'",
    "'{print $1 | $2}'", "'/a/ {print $0, NR}'", "'{s+=$1} END {print s}'", "'{print $1 > NR}'", "'BEGIN{system(1)}'",
    "'{getline < $1; print}'", "'%s\\n'", "'%n'", "-f", "-d", "'! -e'", "-v",
)  # fmt: skip


def list_command_lines(rng: random.Random) -> Iterator[str]:
    while True:
        line = make_element(rng)
        while rng.random() < 0.3:
            line += rng.choice(JOINS) + make_element(rng)
        if rng.random() < 0.1:
            line = rng.choice(WRAPPED).format(line)
        if rng.random() < 0.15:
            line = mutate(line, rng)
        yield line


def make_element(rng: random.Random) -> str:
    """A simple command, a change of folders before one, or a group of such."""
    kind = rng.random()
    if kind < 0.08:
        return f"cd {make_operand(rng)}{rng.choice((' && ', '; ', ' || ', chr(10), ' | '))}{make_command(rng)}"
    if kind < 0.13:
        return f"({make_element(rng)}{rng.choice(('', '; ' + make_command(rng)))})"
    if kind < 0.16:
        return f"{rng.choice(('! ', 'time ', 'timeout 9 ', 'nice ', 'command ', 'TZ=UTC '))}{make_element(rng)}"
    return make_command(rng)


def make_command(rng: random.Random) -> str:
    name = rng.choice(ALLOWED) if rng.random() < 0.95 else rng.choice(OTHERS)
    words = [name]
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 3))):
        words.append(make_option(name, rng))
    if name in ("grep", "rg", "sed", "awk", "printf", "test", "[") and rng.random() < 0.8:
        words.append(rng.choice(SCRIPTS))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        words.append(make_operand(rng))
    if rng.random() < 0.15:
        words.insert(rng.randrange(len(words) + 1), rng.choice(REDIRECTIONS).replace("~", " ", 1))
    if name == "[":
        words.append("]")
    if rng.random() < 0.1:
        rng.shuffle(words)
    return " ".join(words)


def make_option(name: str, rng: random.Random) -> str:
    if rng.random() < 0.2:
        return rng.choice(UNPERMITTED)
    if name == "find":
        word = rng.choice(list(FIND))
        takes = FIND[word].takes
        return word if takes == "nothing" else f"{word} {make_operand(rng) if takes == 'path' else make_value(rng)}"
    known = list_options(ROWS[name]) if name in ROWS else {}
    if not known or rng.random() < 0.1:
        return f"-{rng.choice('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789')}"
    word = rng.choice(list(known))
    if known[word] in ("flags", "follow"):
        return word
    joined = "=" if word.startswith("--") else ""
    between = rng.choice((joined, " "))
    return f"{word}{between}{make_operand(rng) if rng.random() < 0.3 else make_value(rng)}"


def make_value(rng: random.Random) -> str:
    return rng.choice(
        ("1", "5", "+2", "'*.txt'", "x", "none", "1k", "always", "f", "%s", "'%p\\n'", "1,2", "time", "',", "c", "u+r")
    )


def make_operand(rng: random.Random) -> str:
    kinds = ((INSIDE, 5.0), (OUTSIDE, 2.0), (GLOBS, 2.0), (REPLACED, 0.6))
    return rng.choice(rng.choices([each for each, _ in kinds], [weight for _, weight in kinds])[0])


def mutate(line: str, rng: random.Random) -> str:
    at = rng.randrange(len(line) + 1)
    return line[:at] + rng.choice(("'", '"', "\\", "''", '""', "\\\n", "\n", "#", " #", "\t", "$", "~", "{", "[", "*", "!", "\xa0", ";", "&", "|", "<", ">", "(", ")", "`")) + line[at:]  # fmt: skip


def find_harm(how_many: int, seed: int, base: Path, before: tuple[str, ...] = ()) -> tuple[int, int, str]:
    """How many lines were made, how many of these ran, and the first that did harm."""
    workspace = build(base, traps=True)
    policy = Policy(workspace, allowed_commands=ALLOWED, path=PATH)
    ran = 0
    for made, line in enumerate(list_command_lines(random.Random(seed)), start=1):
        call = ToolCall("1", "exec", {"command": line})
        if policy.decide(call, "high").action == "allow":
            ran += 1
            if what := effect(line, base, before=before):
                return made, ran, f"{what}: {line!r}"
        if made == how_many:
            return made, ran, ""
    return 0, 0, ""


if __name__ == "__main__":
    count, start = (
        (int(each) for each in (*sys.argv[1:], "20000", "0")[:2]) if len(sys.argv) != 2 else (int(sys.argv[1]), 0)
    )
    with tempfile.TemporaryDirectory() as folder:
        bwrap = shutil.which("bwrap")
        behind = (
            (bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", folder, folder)
            if bwrap
            else ()
        )
        lines, runs, harm = find_harm(count, start, Path(folder), behind)
        print(f"{lines:,} lines, {runs:,} ran, {harm or 'none did harm'}")
        sys.exit(bool(harm))
