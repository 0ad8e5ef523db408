"""Blocks of Markdown as lines for a terminal, by rich and Pygments. Loaded where there is a terminal, and not before.

Everything is shown: HTML, entities, references and images stay the text they are, and a link shows where
it leads. What comes out is made plain once more, so that the only escapes in a line are the colours.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, ListItem, Markdown
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from ...security.text.sanitize import plain
from .blocks import Block
from .highlight import Coloured
from .incremental import Growing

CODE_THEME = "ansi_dark"  # the terminal's own colours
DEEPEST = 16  # levels of lists and quotes; what is deeper is shown as it is written
LONGEST = 100_000  # characters of one block; so is what is longer
BREAKS = {"softbreak": " ", "hardbreak": "\n"}
THEME = Theme(
    {
        "markdown.h1": "bold underline",
        "markdown.h2": "bold underline",
        "markdown.h3": "bold",
        "markdown.code": "cyan",
        "markdown.block_quote": "dim",
        "markdown.item.bullet": "cyan",
        "markdown.item.number": "cyan",
    }
)
PARSER = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["strikethrough", "table"])
    .disable(["reference", "entity", "image", "html_block", "html_inline"])
)


class _Code(CodeBlock):
    """Without a background: it would be padded to the width, and copied with the code. Its language is shown."""

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
    LEVEL_ALIGN: ClassVar[dict[str, Any]] = {}  # all to the left


class _ListItem(ListItem):
    """A numbered one with its full stop: an answer of `42.` is one, too."""

    def render_number(
        self,
        console: Console,
        options: ConsoleOptions,
        number: int,
        last_number: int,  # noqa: ARG002 - rich calls it
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


class _Markdown(Markdown):
    elements: ClassVar[dict[str, Any]] = {**Markdown.elements, "fence": _Code, "code_block": _Code, "hr": _Rule}
    elements.update(heading_open=_Heading, list_item_open=_ListItem)

    def __init__(self, tokens: Sequence[Any]) -> None:
        self.markup, self.parsed = "", list(tokens)
        self.code_theme = self.inline_code_theme = CODE_THEME
        self.justify, self.style, self.hyperlinks, self.inline_code_lexer = None, "none", False, None


class Painter:
    """Blocks to lines. `colours`: "standard", "256", "truecolor", or None for none at all."""

    def __init__(self, colours: str | None) -> None:
        system: Any = colours or "standard"
        self._console = Console(
            file=io.StringIO(), force_terminal=True, color_system=system, theme=THEME, width=80, height=25
        )
        self._options = self._console.options
        self._system = COLOR_SYSTEMS[colours] if colours else None
        self._coloured = Coloured("", self._system)
        self._block, self._thought = Growing(), Growing(markdown=False)

    def lines(self, block: Block, width: int) -> list[str]:
        """The block, wrapped to `width` columns. Code is not wrapped: the terminal does, and it is copied as it is."""
        if block.kind in ("opener", "closer"):
            self._coloured = Coloured(block.language, self._system)
            return [self._styled(block.text or "```", "dim")]
        if block.kind == "code":
            return self.code([block])
        text = block.text.rstrip("\n")
        if (grown := self._block.lines(text, width)) is not None:
            return grown
        try:
            return self._block.drawn(text, width, self._markdown(text, width))
        except Exception:  # noqa: BLE001 - a foreign renderer and anyone's text: it is shown as it was written
            return self._wrapped(text, width)

    def code(self, blocks: Iterable[Block], *, keep: bool = True) -> list[str]:
        """Lines of code, coloured by what is before them. `keep`: they are before what follows."""
        return self._coloured.lines([block.text for block in blocks], keep=keep)

    def wrapped(self, text: str, width: int) -> list[str]:
        """The text as it is."""
        grown = self._thought.lines(text, width)
        return grown if grown is not None else self._thought.drawn(text, width, self._wrapped(text, width))

    def _markdown(self, text: str, width: int) -> list[str]:
        if len(text) > LONGEST:
            return self._wrapped(text, width)
        tokens = PARSER.parse(text)
        if any(token.level > DEEPEST for token in tokens):
            return self._wrapped(text, width)
        is_paragraph = [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
        return self._drawn(self._inline(tokens[1].children or []) if is_paragraph else _Markdown(tokens), width)

    def _inline(self, tokens: Sequence[Any]) -> Text:
        """A paragraph, which most blocks are: as rich has it, in half the time."""
        text, styles, links = Text(), [Style.null()], []
        for token in tokens:
            if token.nesting == 1:
                links += [str(token.attrs["href"])] if token.type == "link_open" else []
                styles.append(styles[-1] + self._style("link" if token.type == "link_open" else token.tag))
            elif token.nesting == -1:
                styles.pop()
                if token.type == "link_close":
                    text.append(" (", styles[-1]).append(links.pop(), styles[-1] + self._style("link_url"))
                    text.append(")", styles[-1])
            elif token.type == "code_inline":
                text.append(token.content, styles[-1] + self._style("code"))
            else:
                text.append(BREAKS.get(token.type, token.content), styles[-1])
        return text

    def _style(self, name: str) -> Style:
        return self._console.get_style(f"markdown.{name}")

    def _wrapped(self, text: str, width: int) -> list[str]:
        return self._drawn(Text(text), width)

    def _drawn(self, what: Any, width: int) -> list[str]:
        options = self._options.update(width=max(width, 10))
        lines = [self._joined(line) for line in self._console.render_lines(what, options, pad=False)]
        while lines and not lines[-1]:
            lines.pop()
        while lines and not lines[0]:
            del lines[0]
        return lines

    def _joined(self, segments: Iterable[Segment]) -> str:
        pieces = [(plain(each.text), each.style) for each in segments if not each.control]
        while pieces and not pieces[-1][0].strip():
            pieces.pop()
        if pieces:
            pieces[-1] = (pieces[-1][0].rstrip(), pieces[-1][1])
        return "".join(
            style.render(text, color_system=self._system) if style and self._system else text for text, style in pieces
        ).replace("\n", "")

    def _styled(self, text: str, style: str) -> str:
        return self._joined([Segment(text, self._console.get_style(style))])
