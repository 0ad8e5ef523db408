"""The commands of which the words alone say what they run. A closed list: every other command may run anything.

A rule that denies holds only for what can be read. `PLAIN` programs run nothing that they are given, whatever their
words are. Those of `SHAPES` do so only with words of a certain shape. `PROJECT` programs run the files of a project,
which is theirs to do, but no words. Sources: the manuals of the programs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from ...types.lazy_pattern import LazyPattern
from .reader import GLOB, ReadCommand, UnsafeToParse

_PLAIN = (
    "[ basename bc cat cd chgrp chmod chown cksum cmp column comm cp curl cut date df diff dirname du echo egrep expand"
    " false fgrep file fold free grep groups head hostname id jq join ln ls lscpu md5sum mkdir mktemp mv nl nproc"
    " nvidia-smi od paste printf ps pwd readlink realpath rev rm rmdir seq sha1sum sha256sum sha512sum sleep"
    " stat strings tac tail tee test touch tr tree true tsort uname uniq unlink unzip uptime wc which whoami xxd yes"
)
PLAIN = frozenset(_PLAIN.split())
ANY_WORDS = r"(?s:.*)"
_WORD = r"(?:[\w./:@%+,=^~<>!*? \[\]-]*\n)"  # no quotes, $, ;, |, &, braces or parentheses
_FILE = r"(?:(?!-)[\w./+@-]+\n)"
_FIND = (
    "-(?:name|iname|path|ipath|regex|iregex|type|maxdepth|mindepth|size|mtime|mmin|newer|user|perm|empty|not|and|or|a|o"
    "|prune|print|print0|true|false|L|H|P|E|delete|ls|xdev|mount|depth|follow|quit|links|inum|readable|writable|[0-9]+)"
)
_NO_DEBUGGER = r"(?:(?![^\n]*--(?:pdb|trace))[^\n]*\n)*"  # which runs what it is given as input
_SED_TEXT = r"(?:[^/\\\n]|\\[^\n])*"
_SED = rf"(?:[0-9,$]*[pd]|/{_SED_TEXT}/(?:,/{_SED_TEXT}/)?[pd]|[0-9,$]*s/{_SED_TEXT}/{_SED_TEXT}/[gpI0-9]*)\n"
_AWK = r"(?!-)[^|(@\n]*\n"  # no pipe, function or library
_GIT_FREE = (
    "status|log|diff|show|add|commit|branch|checkout|switch|restore|stash|tag|reset|revert|rm|mv|rev-parse|ls-files"
    "|ls-tree|cat-file|blame|describe|shortlog|reflog|merge-base|show-ref|remote|clean|rev-list|name-rev|whatchanged"
    "|diff-tree|diff-index|for-each-ref|symbolic-ref|check-ignore|count-objects|version"
)
_GIT_SYNC = (
    "-(?:[vqfnaub46]|-(?:all|prune|tags|force|force-with-lease|dry-run|set-upstream|delete|no-verify|rebase|no-rebase"
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
        r"config\n[\w-]+\.[\w.-]+\n",
    ],
    "rg": [r"(?:(?!--(?:pre|hostname|search-zip)|-[^-\n]*z)[^\n]*\n)*"],
    "sed": [rf"(?:-[nErsi]+\n)*(?:{_SED}|(?:-e\n{_SED})+){_FILE}*"],
    "sort": [r"(?:(?!--co)[^\n]*\n)*"],
    "tar": [rf"-?[cxt][zjJvp]*f\n{_FILE}(?:(?:-C\n)?{_FILE})*"],
    "type": [r"[^\n]*\n"],
    "zip": [rf"-[rq]+\n{_FILE}+"],
}
PROJECT: Mapping[str, str] = {
    **dict.fromkeys(("black", "eslint", "flake8", "isort", "jest", "mypy", "prettier", "pyright", "ruff"), ANY_WORDS),
    **dict.fromkeys(("tsc", "vitest"), ANY_WORDS),
    **dict.fromkeys(
        ("ctest", "nox", "tox"),
        r"(?:(?:-[VRELNepqrsvj0-9]+|--(?:output-on-failure|test-dir)|(?!-|e\n|exec\n)[\w./,-]+)\n)*",
    ),
    "pytest": _NO_DEBUGGER,
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
        r"(?:(?!-)[\w./+:@-]+\.py|-m\n(?:mypy|ruff|unittest|venv|pip|build|compileall|json\.tool|black))\n"
        rf"{_WORD}*|-m\npytest\n{_NO_DEBUGGER}|-V\n",
    ),
}
PREFIXES = LazyPattern(  # words before another command that runs with the rest
    r"(?:time|nohup|nice(?:\n-n\n?[0-9]+)?|timeout\n[0-9.]+[smhd]?|npx|(?:uv|poetry|pdm)\nrun|bundle\nexec"
    r"|(?P<more>xargs(?:\n(?:-0|-r|-t|-n\n?[0-9]+|-P\n?[0-9]+))*))\n"
)
FIND_EXEC = LazyPattern(r"(?<=\n)-exec\n((?:[^\n]+\n)+?)(?:;|\{\}\n\+)\n")
SETTING = LazyPattern(r"(?s)-[vR]|.*%[^%A-Za-z]*[hlLjzt]*n")  # printf -v, test -v, test -R, printf %n
SYSTEM_FOLDERS = ("/bin", "/usr/bin", "/usr/local/bin")


def list_programs(command: ReadCommand) -> list[Sequence[str]]:
    """The words of each program that a command runs: `timeout 5 ls` runs timeout and ls.

    Raises UnsafeToParse for a command that may run more than its words say.
    """
    has_pattern = any(word.is_glob and GLOB.match(word.text) for word in command.words)
    return _list_programs(command.texts, has_unknown_words=False, has_pattern=has_pattern)


def _list_programs(words: Sequence[str], *, has_unknown_words: bool, has_pattern: bool) -> list[Sequence[str]]:
    """`has_unknown_words`: the program gets words that are known only when it runs."""
    if not words:
        raise UnsafeToParse("it is not known what it runs")
    folder, name = posixpath.split(words[0])
    if folder and folder not in SYSTEM_FOLDERS:
        name = words[0]
    words = (name, *words[1:])
    text = "".join(f"{word}\n" for word in words)
    if prefix := PREFIXES.match(text):
        rest, unknown = words[prefix[0].count("\n") :], has_unknown_words or prefix["more"] is not None
        return [words, *_list_programs(rest, has_unknown_words=unknown, has_pattern=has_pattern)]
    if name in PLAIN:
        if name in ("printf", "test", "[") and any(map(SETTING.match, words)):
            raise UnsafeToParse(f"{name} may set a variable with these words")  # PATH, or 'a[$(x)]'
        return [words]
    programs: list[Sequence[str]] = [words]
    for each in _check_shape(words, text, has_unknown_words=has_unknown_words, has_pattern=has_pattern):
        programs += _list_programs(each.split("\n")[:-1], has_unknown_words=True, has_pattern=False)
    return programs


def _check_shape(words: Sequence[str], text: str, *, has_unknown_words: bool, has_pattern: bool) -> Sequence[str]:
    """The commands that `find` runs. Raises UnsafeToParse unless it is known what the words make the program do."""
    name = words[0]
    if has_pattern:
        raise UnsafeToParse("a pattern may stand for an option")
    if any("\n" in word for word in (words[1:3] if name == "git" else words)):
        raise UnsafeToParse("a word has several lines")
    inner: list[str] = []
    if name == "find":
        inner, text = FIND_EXEC.findall(text), FIND_EXEC.sub("", text)
    arguments = text.removeprefix(f"{name}\n")
    shapes = [*filter(None, (*SHAPES.get(name, ()), PROJECT.get(name)))]
    if shapes:
        shapes.append(r"--version\n")
    if has_unknown_words or not any(re.fullmatch(shape, arguments) for shape in shapes):
        raise UnsafeToParse(f"it is not known what {name[:60]!a} may run with these words")
    return inner
