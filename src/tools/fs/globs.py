"""Patterns as text: a glob as a regular expression, and the words that whatever matches an expression must hold.

Pure. The words let a search pass over most files without looking at their lines (search.py); where none can
be told, there are none, and every line is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...errors import ToolError

NESTED = 5  # braces in braces
LEAST = 2  # characters of a word worth looking for
FOLDED = re.compile("[iksIKS]")  # have a third case outside ASCII: İ, K (Kelvin), ſ


def of_glob(pattern: str) -> str:
    """The expression for whole paths relative to a folder, `/` between their parts.

    `**` is any number of folders; a pattern without `/` matches in every folder. Raises ToolError for one that
    leads out of the folder.
    """
    pattern = pattern.removeprefix("./")
    if pattern.startswith(("/", "~")) or ".." in re.split(r"[/{},]", pattern):
        raise ToolError(f"the pattern {pattern} leads outside", "Give one relative to the folder searched.")
    if "/" not in pattern.rstrip("/"):
        pattern = f"**/{pattern}"
    if pattern.endswith("/"):
        pattern += "**"
    return "".join(_parts(pattern, 0))


def _parts(pattern: str, depth: int) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        for token, piece in TOKENS:
            if found := token.match(pattern, at):
                yield piece
                at = found.end()
                break
        else:
            piece, at = _special(pattern, at, depth)
            yield piece


TOKENS = (  # what is recognised first
    (re.compile(r"(?:(?<=/)|^)\*\*/(?:\*\*/)*"), "(?:[^/]+/)*"),
    (re.compile(r"(?:(?<=/)|^)\*\*$"), ".+"),
    (re.compile(r"\*+"), "[^/]*"),
    (re.compile(r"\?"), "[^/]"),
)
CLASS = re.compile(r"\[([!^]|(?![!^]))(\][^\]/]*|[^\]/]+)\]")


def _special(pattern: str, at: int, depth: int) -> tuple[str, int]:
    """A class, braces, or one plain character; and where to go on."""
    if found := CLASS.match(pattern, at):
        inside = found[2].replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]").replace("^", r"\^")
        inside = inside.replace("&&", r"&\&").replace("||", r"|\|").replace("~~", r"~\~").replace("--", r"-\-")
        return f"(?!/)[{'^' if found[1] else ''}{inside}]", found.end()
    if pattern[at] == "{" and depth < NESTED and (end := _closing(pattern, at)):
        arms = ("".join(_parts(arm, depth + 1)) for arm in _arms(pattern[at + 1 : end]))
        return f"(?:{'|'.join(arms)})", end + 1
    if pattern[at] == "\\" and at + 1 < len(pattern):
        return re.escape(pattern[at + 1]), at + 2
    return re.escape(pattern[at]), at + 1


def _closing(pattern: str, start: int) -> int:
    """Where the brace opened at `start` is closed; 0 where it is not."""
    depth = 0
    for at in range(start, len(pattern)):
        depth += {"{": 1, "}": -1}.get(pattern[at], 0)
        if not depth:
            return at
    return 0


def _arms(inside: str) -> list[str]:
    arms, depth = [""], 0
    for character in inside:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and not depth:
            arms.append("")
        else:
            arms[-1] += character
    return arms


def words(pattern: str, *, ignore_case: bool) -> tuple[str, ...]:
    """ASCII words, one of which is in every line that the expression matches; none where it cannot be told.

    Looks at the alternatives of the outermost level, and in each at what stands outside groups and classes.
    """
    if DOUBTFUL.search(pattern):
        return ()
    found: list[str] = []
    for runs in _alternatives(pattern):
        pieces = [piece for run in runs for piece in (FOLDED.split(run) if ignore_case else [run])]
        longest = max(pieces, key=len, default="")
        if len(longest) < LEAST:
            return ()
        found.append(longest)
    return tuple(dict.fromkeys(found))


def _alternatives(pattern: str) -> Iterator[list[str]]:
    """Of each alternative the runs of characters that stand for themselves."""
    runs, depth = [""], 0
    for token in TOKEN.finditer(pattern):
        text, required = token["text"], not token["quantifier"]
        depth += (text[0] == "(") - (text == ")")
        plain = text[-1] if text[0] == "\\" and not text[-1].isalnum() else text
        if depth == 0 and text == "|":
            yield runs
            runs = [""]
        elif depth == 0 and required and len(plain) == 1 and (plain != text or plain not in META) and plain in ASCII:
            runs[-1] += plain
        else:
            runs.append("")
    yield runs


META = frozenset("^$.|()[]?*+{}\\")
ASCII = frozenset(map(chr, range(0x20, 0x7F)))
TOKEN = re.compile(
    r"(?P<text>\\.|\[\^?\]?(?:\\.|[^\]\\\[])*\]|\(\?:|.)(?P<quantifier>(?:[?*+]|\{[^}]*\})*)",
    re.DOTALL,
)
# Groups with flags, names or a look around, nested classes, and escapes that go on: not followed here.
DOUBTFUL = re.compile(r"\(\?(?!:)|\[[^\]]*\[|\[\^?\]|\\[xuUNpPLgkGQ0-9<>]")


def is_plain(pattern: str) -> bool:
    """Whether a line that matches makes any text match that it is a line of, `^` and `$` being those of lines.

    So it is without what looks beyond a match, or keeps what it took.
    """
    return PLAIN.fullmatch(pattern) is not None


PLAIN = re.compile(
    r"""(?:(?:[^\\\[\](){}?*+|]|\(\?:|\((?!\?)|[)|]|\\[wWsSdDbt]|\\[^a-zA-Z0-9<>]   # characters, groups, escapes
        |\[\^?(?:\\[wWsSdDt]|\\[^a-zA-Z0-9]|[^\]\[\\])+\])                 # classes
        (?:(?:[?*+]|\{[0-9]+(?:,[0-9]*)?\})\??(?![?*+{]))?)*                   # how often, not possessively
    """,
    re.VERBOSE,
)
