"""Render Markdown blocks as terminal lines, with rich and Pygments. Only a full terminal loads this module.

All text is shown: HTML, entities, references and images stay text, and a link shows its target. The output is
sanitized again, so the only escapes in a line are colours.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, cast

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, ListItem, Markdown, TableElement
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from ...security.text.sanitize import sanitize
from .blocks import Block
from .colours import DARK, Colours
from .highlight import CodeHighlighter, StylePainter
from .incremental import IncrementalText

MAX_DEPTH = 16  # levels of lists and quotes; a deeper block is shown as written
MIN_COLUMN_WIDTH = 5  # with the space between two; a table that does not fit is shown as written
MAX_BLOCK_CHARS = 100_000  # a longer block is shown as written
_CELL_MARKS = re.compile(r"[\s|\\>]")  # stand between cells, make a bar part of one, or quote the row
BREAKS = {"softbreak": " ", "hardbreak": "\n"}
PARSER = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["strikethrough", "table"])
    .disable(["reference", "entity", "image", "html_block", "html_inline"])
)


def _show_titles(state: StateCore) -> None:
    """Put the title of a link behind its target, as it is written: neither rich nor a terminal shows it."""
    for token in (child for inline in state.tokens for child in inline.children or []):
        if title := token.attrs.pop("title", ""):
            token.attrs["href"] = f'{token.attrs["href"]} "{title}"'


PARSER.core.ruler.push("titles", _show_titles)


class TooNarrow(Exception):
    """A terminal does not hold the columns of a table."""


class _Code(CodeBlock):
    """Code without a background, which would pad it with blanks that are copied with it. Shows the language."""

    info = ""

    @classmethod
    def create(cls, markdown: Markdown, token: Any) -> _Code:
        block = cls(token.info.partition(" ")[0] or "text", markdown.code_theme)
        block.info = token.info.strip()
        return block

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.info:
            yield Text(f"```{self.info}", style="dim")
        yield Syntax(
            str(self.text).rstrip(), self.lexer_name, theme=self.theme, background_color="default", word_wrap=True
        )


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, Any]] = {}  # left-aligned


class _ListItem(ListItem):
    """A list item that keeps the full stop of its number: an answer of `42.` is a list item, too."""

    def render_number(
        self,
        console: Console,
        options: ConsoleOptions,
        number: int,
        last_number: int,  # noqa: ARG002 - rich passes it
    ) -> RenderResult:
        width = len(f"{number}. ")
        style = console.get_style("markdown.item.number")
        lines = console.render_lines(self.elements, options.update(width=options.max_width - width), style=self.style)
        for index, line in enumerate(lines or [[]]):
            yield Segment(" " * width if index else f"{number}. ", style)
            yield from line
            yield Segment("\n")


class _Rule(HorizontalRule):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="dim")


class _Table(TableElement):
    """A table whose cells are folded, where rich would cut them. Raises TooNarrow."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in cast("Iterable[Table]", super().__rich_console__(console, options)):
            if len(table.columns) * MIN_COLUMN_WIDTH > options.max_width:
                raise TooNarrow
            for column in table.columns:
                column.overflow = "fold"
            yield table


class _Markdown(Markdown):
    elements: ClassVar[dict[str, Any]] = {**Markdown.elements, "fence": _Code, "code_block": _Code, "hr": _Rule}
    elements.update(heading_open=_Heading, list_item_open=_ListItem, table_open=_Table)

    def __init__(self, tokens: Sequence[Any], code_theme: str) -> None:
        self.markup, self.parsed = "", list(tokens)
        self.code_theme = self.inline_code_theme = code_theme
        self.justify, self.style, self.hyperlinks, self.inline_code_lexer = None, "none", False, None


def _make_theme(accent: str) -> Theme:
    return Theme(
        {
            "markdown.h1": "bold underline",
            "markdown.h2": "bold underline",
            "markdown.h3": "bold",
            "markdown.code": accent,
            "markdown.block_quote": "dim",
            "markdown.item.bullet": accent,
            "markdown.item.number": accent,
        }
    )


def _has_lost_cells(tokens: Iterable[Any], text: str) -> bool:
    """Whether a row of a table has more cells than its head: the parser drops what is too many."""
    lines, row, cells, is_head = text.split("\n"), "", "", False
    for token in tokens:
        if token.type == "tr_open":
            row, cells, is_head = lines[token.map[0]], "", False
        elif token.type == "th_open":  # it may stand behind the mark of a list, and loses nothing
            is_head = True
        elif token.type == "inline":
            cells += token.content
        elif token.type == "tr_close" and not is_head and _CELL_MARKS.sub("", row) != _CELL_MARKS.sub("", cells):
            return True
    return False


class MarkdownRenderer:
    """Renders blocks as lines. `depth`: "standard", "256", "truecolor", or None for no escapes at all."""

    def __init__(self, depth: str | None, colours: Colours = DARK) -> None:
        system: Any = depth or "standard"
        theme = _make_theme(colours.accent)
        self._console = Console(
            file=io.StringIO(), force_terminal=True, color_system=system, theme=theme, width=80, height=25
        )
        self._options = self._console.options
        self._paint = StylePainter(COLOR_SYSTEMS[depth] if depth else None, colours)
        self._highlighter = CodeHighlighter("", self._paint)
        self._block, self._thought = IncrementalText(), IncrementalText(markdown=False)

    def render_block(self, block: Block, width: int) -> list[str]:
        """The block, wrapped to `width` columns. The terminal wraps code, so that it can be copied unchanged."""
        if block.kind in ("opener", "closer"):
            self._highlighter = CodeHighlighter(block.language, self._paint)
            return [self._join([Segment(block.text or "```", self._console.get_style("dim"))])]
        if block.kind == "code":
            return self.render_code([block])
        text = block.text.rstrip("\n")
        if (lines := self._block.extend(text, width)) is not None:
            return lines
        try:
            return self._block.remember(text, width, self._render_markdown(text, width))
        except Exception:  # noqa: BLE001 - a foreign renderer over untrusted text: show it as written
            return self._wrap(text, width)

    def render_code(self, blocks: Iterable[Block], *, keep: bool = True) -> list[str]:
        """Highlighted lines of code. `keep`: the next call continues after them."""
        return self._highlighter.highlight([block.text for block in blocks], keep=keep)

    def wrap(self, text: str, width: int) -> list[str]:
        """The text as it is, wrapped to `width` columns."""
        lines = self._thought.extend(text, width)
        if lines is not None:
            return lines
        return self._thought.remember(text, width, self._wrap(text, width))

    def _render_markdown(self, text: str, width: int) -> list[str]:
        if len(text) > MAX_BLOCK_CHARS:
            return self._wrap(text, width)
        tokens = PARSER.parse(text)
        if any(token.level > MAX_DEPTH for token in tokens) or _has_lost_cells(tokens, text):
            return self._wrap(text, width)
        is_paragraph = [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
        if is_paragraph:
            return self._render(self._render_inline(tokens[1].children or []), width)
        return self._render(_Markdown(tokens, self._paint.colours.code), width)

    def _render_inline(self, tokens: Sequence[Any]) -> Text:
        """Render a paragraph, which most blocks are, as rich does but in half the time."""
        text, styles, links = Text(), [Style.null()], []
        for token in tokens:
            if token.type == "link_open":
                links.append(str(token.attrs["href"]))
                styles.append(styles[-1] + self._get_style("link"))
            elif token.nesting == 1:
                styles.append(styles[-1] + self._get_style(token.tag))
            elif token.nesting == -1:
                styles.pop()
                if token.type == "link_close":
                    text.append(" (", styles[-1]).append(links.pop(), styles[-1] + self._get_style("link_url"))
                    text.append(")", styles[-1])
            elif token.type == "code_inline":
                text.append(token.content, styles[-1] + self._get_style("code"))
            else:
                text.append(BREAKS.get(token.type, token.content), styles[-1])
        return text

    def _get_style(self, name: str) -> Style:
        return self._console.get_style(f"markdown.{name}")

    def _wrap(self, text: str, width: int) -> list[str]:
        return self._render(Text(text), width)

    def _render(self, what: Any, width: int) -> list[str]:
        options = self._options.update(width=max(width, 10))
        lines = [self._join(line) for line in self._console.render_lines(what, options, pad=False)]
        while lines and not lines[-1]:
            lines.pop()
        while lines and not lines[0]:
            del lines[0]
        return lines

    def _join(self, segments: Iterable[Segment]) -> str:
        pieces = [(sanitize(each.text), each.style) for each in segments if not each.control]
        while pieces and not pieces[-1][0].strip():
            pieces.pop()
        if pieces:
            pieces[-1] = (pieces[-1][0].rstrip(), pieces[-1][1])
        return "".join(self._paint(text, style) if style else text for text, style in pieces).replace("\n", "")
