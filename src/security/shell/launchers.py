"""Words by which a command that has no row runs what it is given: a rule must name them for the command to run unasked.

Source: the manuals of the programs. Programs that do nothing but run others are in src/security/shell/harmless.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_FD = "-x -X --exec --exec-batch"
_JAVASCRIPT = "-e -p -r --eval --print --require --import --loader --experimental-loader"
_COPY = "-S -o -F -D"
_GO = "-exec -toolexec -vettool"
_PAGER = "--pager"
_TAR = (
    "-I -F --use-compress-program --to-command --checkpoint-action --rsh-command --rmt-command --info-script"
    " --new-volume-script"
)

# Options, long ones in any abbreviation and short ones in any cluster; sub-commands; a dot alone: all that begins so;
# two colons: all that holds them (git runs a program to reach such an address).
RUNNERS: Mapping[str, str] = {
    "ack": _PAGER,
    "ag": _PAGER,
    "bat": _PAGER,
    "batcat": _PAGER,
    "bsdtar": _TAR,
    "bun": f"{_JAVASCRIPT} x exec",
    "bundle": "exec",
    "cargo": "--config",
    "clang": "-fplugin -B",
    "deno": "eval repl",
    "docker": "exec run",
    "fd": _FD,
    "fdfind": _FD,
    "gawk": "-e -i -l --source --include --load",
    "gcc": "-wrapper -fplugin -specs -B",
    "go": _GO,
    "git": "::",
    "ip": "netns vrf -b -batch",
    "kubectl": "exec run debug",
    "lua": "-e -l",
    "make": "-E --eval",
    "man": "-P -H --pager --html",
    "node": _JAVASCRIPT,
    "npm": "exec x explore --script-shell --shell",
    "perl": "-e -E -M -m -n -p -d",
    "php": "-r -B -R -E",
    "pip": "--python",
    "pnpm": "exec dlx",
    "poetry": "run",
    "podman": "exec run",
    "pypy3": "-c",
    "python": "-c",
    "python2": "-c",
    "python3": "-c",
    "rsync": "-e --rsh --rsync-path",
    "ruby": "-e -r",
    "scp": _COPY,
    "sftp": _COPY,
    "split": "--filter",
    "sqlite3": "-cmd -init .",
    "tar": _TAR,
    "uv": "run tool",
    "wget": "-e --execute --use-askpass",
    "yarn": "exec dlx node",
    "zip": "-T -TT --test --unzip-command",
}
BUNDLED = ("tar", "bsdtar")  # their first word is a cluster of options without a dash, too


def running(name: str, words: Sequence[str]) -> str:
    """The first of the words by which a command runs what it is given, or ""."""
    known = RUNNERS.get(name, "").split()
    for at, word in enumerate(words):
        is_bundle = at == 0 and name in BUNDLED and not word.startswith("-")
        if any(_is(option, f"-{word}" if is_bundle else word) for option in known):
            return word
    return ""


def _is(option: str, word: str) -> bool:
    head = word.partition("=")[0]
    if option == ".":
        return word.startswith(".")
    if option == "::":
        return option in word
    if option.startswith("--"):
        return len(head) > 2 and option.startswith(head)
    if option.startswith("-") and len(option) == 2:
        return word.startswith("-") and not word.startswith("--") and option[1] in head
    return head in (option, f"-{option}")
