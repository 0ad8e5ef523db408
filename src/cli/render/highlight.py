"""Code as coloured lines, as it comes: each line is read once, after what is before it. Colours are the terminal's own.

Most of Pygments' lexers can go on where they left off: their state is kept at the end of a line, unless something may
have begun there that is one pattern over several lines, as many comments are; then it is read again with what follows.
The other lexers read some of what is before a line again each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from pygments.lexer import ExtendedRegexLexer, LexerContext, RegexLexer
from pygments.token import Comment, Error, String
from rich.color import ColorSystem
from rich.syntax import Syntax

from ...security.text.sanitize import plain

THEME = Syntax.get_theme("ansi_dark")
CONTEXT = 2000  # characters before a line that are read again, at the most
LONGEST = 100_000  # characters; what is longer has no colours
OPENER = re.compile(r"/\*|<!--|<<|\(\*|\{-|#[\"=]|```|<(?:script|style|\?)")  # of what ends some lines below
Token = tuple[Any, str]  # its type and text


class Coloured:
    """A block of code. `system`: the colours that there are; None where there are none."""

    def __init__(self, language: str, system: ColorSystem | None) -> None:
        self._lexer = _lexer(language or "text")
        self._system = system
        reads = type(self._lexer).get_tokens_unprocessed
        self._goes_on = reads in (RegexLexer.get_tokens_unprocessed, ExtendedRegexLexer.get_tokens_unprocessed)
        self._state = ["root"]
        self._before: list[str] = []  # the lines since then

    def lines(self, new: Iterable[str], *, keep: bool) -> list[str]:
        """`keep`: they are before what follows."""
        lines = [*self._before, *(plain(line).expandtabs(4) for line in new)]
        start, text = len(self._before), "".join(f"{line}\n" for line in lines)
        if len(text) > LONGEST:
            return [line.rstrip() for line in lines[start:]]
        tokens, state = self._read(text)
        if keep:
            self._before = lines
            self._shorten(state, len(text), _is_over(tokens, nested=len(state) > 1))
        painted = list(self._painted(tokens))
        return [*painted, *([""] * len(lines))][start : len(lines)]

    def _shorten(self, state: list[str], length: int, is_over: bool) -> None:
        """What is before is told by the lexer's state, or by as much of it as counts."""
        if self._goes_on and (is_over or length > CONTEXT):
            self._state, self._before = state, []
        while len(self._before) > 1 and sum(map(len, self._before)) > CONTEXT:
            del self._before[: len(self._before) // 2]

    def _read(self, text: str) -> tuple[list[Token], list[str]]:
        """The tokens, and the lexer's state after them."""
        if self._goes_on:
            context = LexerContext(text, 0, [*self._state])
            try:
                return _tokens(self._lexer, context), context.stack
            except TypeError:  # it has callbacks that know nothing of a context
                self._goes_on = False
        return list(self._lexer.get_tokens(text)), []

    def _painted(self, tokens: Sequence[Token]) -> Iterator[str]:
        """The lines. Neighbours of one colour are one piece."""
        line: list[str] = []
        for style, group in groupby(tokens, lambda token: THEME.get_style_for_token(token[0])):
            for piece in "".join(text for _, text in group).splitlines(keepends=True):
                bare = piece.rstrip("\n")
                line.append(style.render(bare, color_system=self._system) if self._system and bare.strip() else bare)
                if bare != piece:
                    yield "".join(line).rstrip()
                    line = []


@lru_cache(maxsize=32)
def _lexer(language: str) -> Any:
    syntax = Syntax("", language)
    return syntax.lexer or syntax.default_lexer


def _is_over(tokens: Sequence[Token], *, nested: bool) -> bool:
    """Whether nothing has begun that is told by no state. `nested`: the lexer is within something that is."""
    last = tokens[-1][0] if tokens else Error
    if last in Comment or (last in String and not nested):
        return False
    bare = "".join(text for kind, text in tokens if kind not in Comment and kind not in String)
    return not OPENER.search(bare) and all(kind not in Error for kind, _ in tokens)


def _tokens(lexer: Any, context: Any) -> list[Token]:
    """Raises TypeError where the lexer cannot go on."""
    tokens: list[Token] = []
    for _, kind, text in ExtendedRegexLexer.get_tokens_unprocessed(lexer, context=context):
        tokens.append((kind, text))
        if len(tokens) > 2 * len(context.text):  # a callback that does not say how far it came
            raise TypeError
    return tokens
