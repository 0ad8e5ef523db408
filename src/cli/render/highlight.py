"""Highlight streamed code line by line, in the terminal's own colours.

Most of Pygments' lexers can resume: this module keeps their state at the end of a line and lexes each line once. It
lexes a line again with the next one where a token that spans lines may have begun, such as a comment. Lexers that
cannot resume get up to MAX_CONTEXT_CHARS of the preceding lines each time.
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
from rich.style import Style
from rich.syntax import Syntax

from ...security.text.sanitize import sanitize
from .colours import Colours
from .wrap import TAB_COLUMNS

MAX_CONTEXT_CHARS = 2000  # of the preceding lines that are lexed again
MAX_CHARS = 100_000  # longer code is not highlighted
OPENER = re.compile(r"/\*|<!--|<<|\(\*|\{-|#[\"=]|```|<(?:script|style|\?)")  # of tokens that may span lines
Token = tuple[Any, str]  # type and text


class StylePainter:
    """Text in a style of rich. `system`: the terminal's colours; None for no escapes at all."""

    def __init__(self, system: ColorSystem | None, colours: Colours) -> None:
        self._system = system
        self.colours = colours

    def __call__(self, text: str, style: Style) -> str:
        if not self._system:
            return text
        if not self.colours.are_shown:
            style = style.without_color
        return style.render(text, color_system=self._system)


class CodeHighlighter:
    """Highlights one block of code."""

    def __init__(self, language: str, painter: StylePainter) -> None:
        self._lexer = _find_lexer(language or "text")
        self._painter = painter
        self._theme = Syntax.get_theme(painter.colours.code)
        lex = type(self._lexer).get_tokens_unprocessed
        self._is_resumable = lex in (RegexLexer.get_tokens_unprocessed, ExtendedRegexLexer.get_tokens_unprocessed)
        self._state = ["root"]
        self._before: list[str] = []  # lines since that state

    def highlight(self, new: Iterable[str], *, keep: bool) -> list[str]:
        """The highlighted lines. `keep`: the next call continues after them."""
        lines = [*self._before, *(sanitize(line).expandtabs(TAB_COLUMNS) for line in new)]
        start, text = len(self._before), "".join(f"{line}\n" for line in lines)
        if len(text) > MAX_CHARS:
            return [line.rstrip() for line in lines[start:]]
        tokens, state = self._tokenize(text)
        if keep:
            self._keep(lines, len(text), tokens, state)
        coloured = list(self._paint(tokens))
        return [*coloured, *([""] * len(lines))][start : len(lines)]

    def _keep(self, lines: list[str], length: int, tokens: Sequence[Token], state: list[str]) -> None:
        """Remember where the next call continues: `length` characters of text end in that state of the lexer."""
        self._before = lines
        is_over = length > MAX_CONTEXT_CHARS or _is_settled(tokens, nested=len(state) > 1)
        if self._is_resumable and is_over:
            self._state, self._before = state, []
        while len(self._before) > 1 and sum(map(len, self._before)) > MAX_CONTEXT_CHARS:
            del self._before[: len(self._before) // 2]

    def _tokenize(self, text: str) -> tuple[list[Token], list[str]]:
        """Returns the tokens, and the lexer's state after them."""
        if self._is_resumable:
            context = LexerContext(text, 0, [*self._state])
            try:
                return _tokenize_from(self._lexer, context), context.stack
            except TypeError:  # a callback of the lexer does not support a context
                self._is_resumable = False
        return list(self._lexer.get_tokens(text)), []

    def _paint(self, tokens: Sequence[Token]) -> Iterator[str]:
        """Yield coloured lines. Adjacent tokens of one colour share an escape."""
        line: list[str] = []
        for style, group in groupby(tokens, lambda token: self._theme.get_style_for_token(token[0])):
            for piece in "".join(text for _, text in group).splitlines(keepends=True):
                bare = piece.rstrip("\n")
                painted = bare
                if bare.strip():
                    painted = self._painter(bare, style)
                line.append(painted)
                if bare != piece:
                    yield "".join(line).rstrip()
                    line = []


@lru_cache(maxsize=32)
def _find_lexer(language: str) -> Any:
    syntax = Syntax("", language)
    return syntax.lexer or syntax.default_lexer


def _is_settled(tokens: Sequence[Token], *, nested: bool) -> bool:
    """Whether the lexer's state suffices to resume. `nested`: the state itself marks an open token."""
    last = tokens[-1][0] if tokens else Error
    if last in Comment or (last in String and not nested):
        return False
    bare = "".join(text for kind, text in tokens if kind not in Comment and kind not in String)
    return not OPENER.search(bare) and all(kind not in Error for kind, _ in tokens)


def _tokenize_from(lexer: Any, context: Any) -> list[Token]:
    """Raises TypeError if the lexer cannot resume."""
    tokens: list[Token] = []
    for _, kind, text in ExtendedRegexLexer.get_tokens_unprocessed(lexer, context=context):
        tokens.append((kind, text))
        if len(tokens) > 2 * len(context.text):  # a callback that does not advance the context
            raise TypeError
    return tokens
