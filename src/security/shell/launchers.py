"""Programs that run other programs (`env`, `xargs`), and options by which others do (`tar --to-command`).

A rule allows such a command only if it names these words.

Source: the manuals of the programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_SHELLS = "sh bash dash zsh ksh mksh fish csh tcsh busybox toybox rbash"
_LAUNCHERS = (
    "env xargs nice nohup timeout time sudo doas su runuser setsid stdbuf ionice chrt taskset chroot unshare nsenter"
    " strace ltrace gdb watch parallel flock script expect ssh systemd-run firejail bwrap prlimit setpriv npx uvx pipx"
    " bunx entr unbuffer catchsegv dbus-run-session xvfb-run fakeroot proot nsjail vi vim nvim view ex ed emacs nano"
    " less more most"
)
_SHELL_BUILTINS = (
    ". source eval exec command builtin export declare typeset local readonly alias unalias hash enable trap set shopt"
    " let test [ printf read mapfile readarray getopts unset cd pushd popd dirs umask ulimit bind complete compgen"
    " compopt history fc coproc exit return logout break continue shift suspend disown"
)
SHELLS = frozenset(_SHELLS.split())
LAUNCHERS = SHELLS | frozenset(_LAUNCHERS.split())
SHELL_BUILTINS = frozenset(_SHELL_BUILTINS.split())  # they run their words, or change what later words mean

# Programs -> options, long ones in any abbreviation and short ones in any cluster, and sub-commands. A dot stands for
# all words that begin with one, two colons for all that contain them (git runs a program to reach such an address).
_RUNNERS = {
    "ack ag bat batcat": "--pager",
    "bsdtar tar": (
        "-I -F --use-compress-program --to-command --checkpoint-action --rsh-command --rmt-command"
        " --info-script --new-volume-script"
    ),
    "bun": "-e -p -r --eval --print --require --import --loader --experimental-loader x exec",
    "bundle": "exec",
    "cargo": "--config",
    "clang": "-fplugin -B",
    "deno": "eval repl",
    "docker podman": "exec run",
    "fd fdfind": "-x -X --exec --exec-batch",
    "gawk": "-e -i -l --source --include --load",
    "gcc": "-wrapper -fplugin -specs -B",
    "git": "::",
    "go": "-exec -toolexec -vettool",
    "ip": "netns vrf -b -batch",
    "kubectl": "exec run debug",
    "lua": "-e -l",
    "make": "-E --eval",
    "man": "-P -H --pager --html",
    "node": "-e -p -r --eval --print --require --import --loader --experimental-loader",
    "npm": "exec x explore --script-shell --shell",
    "perl": "-e -E -M -m -n -p -d",
    "php": "-r -B -R -E",
    "pip": "--python",
    "pnpm": "exec dlx",
    "poetry": "run",
    "pypy3 python python2 python3": "-c",
    "rsync": "-e --rsh --rsync-path",
    "ruby": "-e -r",
    "scp sftp": "-S -o -F -D",
    "split": "--filter",
    "sqlite3": "-cmd -init .",
    "uv": "run tool",
    "wget": "-e --execute --use-askpass",
    "yarn": "exec dlx node",
    "zip": "-T -TT --test --unzip-command",
}
RUNNERS: Mapping[str, Sequence[str]] = {
    name: words.split() for names, words in _RUNNERS.items() for name in names.split()
}
BUNDLED = ("tar", "bsdtar")  # their first word is a cluster of options even without a dash


def find_runner(name: str, words: Sequence[str]) -> str:
    """The first word that makes the program run what it is given, or ""."""
    for at, word in enumerate(words):
        is_bundle = at == 0 and name in BUNDLED and not word.startswith("-")
        if any(_is_option(option, f"-{word}" if is_bundle else word) for option in RUNNERS.get(name, ())):
            return word
    return ""


def _is_option(option: str, word: str) -> bool:
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
