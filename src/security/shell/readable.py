"""The commands of which the words alone say what they run. A closed list: every other command may run anything.

A rule that denies holds only for what can be read. `PLAIN` programs run nothing that they are given, whatever their
words are. Those of `SHAPES` do so only with words of a certain shape. `PROJECT` programs run the files of a project,
which is theirs to do, but no words. Sources: the manuals of the programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...types.lazy_pattern import LazyPattern
from .reader import GLOB, ReadCommand, UnsafeToParse

_PLAIN = (
    "[ basename cat cd chgrp chmod chown cksum cmp column comm cp curl cut date df diff dirname du echo egrep expand"
    " false fgrep file fold free grep groups head hostname id jq join ln ls lscpu md5sum mkdir mktemp mv nl nproc"
    " nvidia-smi od paste printf ps pwd readlink realpath rev rm rmdir seq sha1sum sha256sum sha512sum sleep"
    " stat strings tac tail tee test touch tr tree true tsort uname uniq unlink uptime wc which whoami xxd yes"
)
PLAIN = frozenset(_PLAIN.split())
ANY_WORDS = r"(?s:.*)"
_WORD = r"(?:[\w./:@%+,=^~<>!*? \[\]-]*\n)"  # no quotes, $, ;, |, &, braces or parentheses
_FILE = r"(?:(?!-)[\w./+:@-]+\n)"
_FIND = (
    "-(?:name|iname|path|ipath|regex|iregex|type|maxdepth|mindepth|size|mtime|mmin|newer|user|perm|empty|not|and|or|a|o"
    "|prune|print|print0|true|false|L|H|P|E|delete|ls|xdev|mount|depth|follow|quit|links|inum|readable|writable|[0-9]+)"
)
_SED_TEXT = r"(?:[^/\\\n]|\\[^\n])*"
_SED = rf"(?:[0-9,$]*[pd]|/{_SED_TEXT}/(?:,/{_SED_TEXT}/)?[pd]|[0-9,$]*s/{_SED_TEXT}/{_SED_TEXT}/[gpI0-9]*)\n"
_AWK = r"\{ ?print \$(?:[0-9]+|NF)(?:, ?\$(?:[0-9]+|NF))* ?\}\n"
_GIT_FREE = (
    "status|log|diff|show|add|commit|branch|checkout|switch|restore|stash|tag|reset|revert|rm|mv|rev-parse|ls-files"
    "|ls-tree|cat-file|blame|describe|shortlog|reflog|merge-base|show-ref|remote|clean|rev-list|name-rev|whatchanged"
    "|diff-tree|diff-index|for-each-ref|symbolic-ref|check-ignore|count-objects|version"
)
_GIT_SYNC = (
    "-(?:[vqfnau46]|-(?:all|prune|tags|force|force-with-lease|dry-run|set-upstream|delete|no-verify|rebase|no-rebase"
    "|ff-only|no-ff|ff|verbose|quiet|depth|depth=[0-9]*|branch|recurse-submodules|single-branch|no-edit|squash|abort"
    "|continue|atomic|follow-tags|porcelain|progress|no-tags|heads|bare))"
)
# What follows the name of a program that runs nothing with such words. Each word ends with a line end here.
SHAPES: Mapping[str, Sequence[str]] = {
    "awk": [rf"(?:-F\n?[^\n]{{1,3}}\n)?{_AWK}{_FILE}*"],
    "command": [r"-v\n[^\n]*\n"],
    "find": [rf"(?:(?:{_FIND}|[^-\n(!][^\n]*|[!()])\n)*"],
    "git": [
        rf"(?:(?:--no-pager|-P|-C\n[^\n]*)\n)*(?:{_GIT_FREE})\n{ANY_WORDS}",
        rf"(?!clone\n(?:[^\n]*\n)*-u\n)(?:push|fetch|pull|clone|merge|init|ls-remote|cherry-pick|rebase)\n(?:(?:{_GIT_SYNC}|(?!-|ext:)[^\n]*)\n)*",
        r"grep\n(?:(?:-(?:[ivwnlcEFPho]+|-name-only|-count|-cached|-untracked|-|e)|[^-\n][^\n]*)\n)*",
        r"(?:worktree|submodule)\n(?:list|status)\n(?:[^\n]*\n)*",
        r"config\n(?:(?:--(?:get|list|get-all|get-regexp|global|local|show-origin)|-l)\n)+(?:[\w.-]+\n)?",
        r"--version\n",
    ],
    "rg": [
        r"(?:(?:-[a-yA-Z0-9]+|--(?:files|hidden|no-ignore|type|glob|count|json|line-number)(?:=[^\n]*)?|[^-\n][^\n]*)\n)*"
    ],
    "sed": [rf"(?:-[nEr]+\n)*(?:{_SED}|(?:-e\n{_SED})+){_FILE}*"],
    "sort": [r"(?:(?:-[^-\n][^\n]*|[^-\n][^\n]*)\n)*"],
    "tar": [rf"-?[cxt][zjJvp]*f\n{_FILE}(?:(?:-C\n)?{_FILE})*"],
    "type": [r"[^\n]*\n"],
    "unzip": [rf"(?:-[lqo]+\n)?{_FILE}"],
    "zip": [rf"-[rq]+\n{_FILE}+"],
}
PROJECT: Mapping[str, str] = {
    **dict.fromkeys(("black", "ctest", "eslint", "flake8", "isort", "jest", "mypy", "prettier", "pyright"), ANY_WORDS),
    **dict.fromkeys(("pytest", "ruff", "tsc", "vitest", "tox", "nox"), ANY_WORDS),
    "cargo": rf"(?:build|b|test|t|check|c|clippy|fmt|run|r|doc|tree|clean|bench|update|metadata)\n{_WORD}*",
    "go": rf"(?:build|test|vet|mod|fmt|run|list|version|env|generate|install|get)\n(?:(?!-+\w*(?:exec|tool)){_WORD})*",
    "make": r"(?:(?:-[jkns][0-9]*|-C|(?!-)[\w./-]+|[A-Z_]+=[\w.-]*)\n)*",
    **dict.fromkeys(
        ("npm", "pnpm", "yarn"), rf"(?:test|run|ci|install|i|ls|start|build|outdated|audit|view)\n{_WORD}*"
    ),
    "node": rf"(?!-)[\w./+:@-]+\.[cm]?js\n{_WORD}*",
    **dict.fromkeys(("pip", "pip3"), rf"(?:install|list|show|freeze|check|uninstall|download)\n{_WORD}*"),
    **dict.fromkeys(
        ("python", "python3"),
        r"(?:(?!-)[\w./+:@-]+\.py|-m\n(?:pytest|mypy|ruff|unittest|venv|pip|build|compileall|json\.tool|tox|black))\n"
        rf"{_WORD}*",
    ),
}
PREFIXES = LazyPattern(  # words before another command that runs with the rest
    r"(?:time|nohup|nice(?:\n-n\n?[0-9]+)?|timeout\n[0-9.]+[smhd]?"
    r"|(?P<more>xargs(?:\n(?:-0|-r|-t|-n\n?[0-9]+|-P\n?[0-9]+))*))\n"
)
SYSTEM_FOLDERS = ("/bin/", "/usr/bin/", "/usr/local/bin/")


def require_readable(command: ReadCommand) -> Sequence[str]:
    """The words of what runs. Raises UnsafeToParse for a command that may run more than its words say."""
    words, gets_more = list(command.texts), False
    while found := PREFIXES.match(_join(words)):
        del words[: found[0].count("\n")]
        gets_more = gets_more or found["more"] is not None  # words that are known only when it runs
    if not words:
        raise UnsafeToParse(f"it is not known what {command.name} runs")
    if words[0].startswith(SYSTEM_FOLDERS):
        words[0] = words[0].rpartition("/")[2]
    name, rest = words[0], words[1:]
    if name in PLAIN:
        if name in ("printf", "test", "[") and any("$(" in word or "`" in word for word in rest):
            raise UnsafeToParse(f"{name} may run what is in its words")  # printf -v 'a[$(x)]'
        return words
    if any(word.is_glob and GLOB.match(word.text) for word in command.words):
        raise UnsafeToParse("a pattern may stand for an option")
    if any("\n" in word for word in (rest[:2] if name == "git" else rest)):
        raise UnsafeToParse("a word has several lines")
    shapes = [*SHAPES.get(name, ()), *((PROJECT[name],) if name in PROJECT else ())]
    if gets_more or not any(re.fullmatch(shape, _join(rest)) for shape in shapes):
        raise UnsafeToParse(f"it is not known what {name[:60]!a} may run with these words")
    return words


def _join(words: Sequence[str]) -> str:
    return "".join(f"{word}\n" for word in words)
