"""Pictures of the screen for the README, made from the demo: `python -m tests.terminal.pictures` draws them anew.

What differs from run to run, or with each change of a tool (folder, port, times, tokens), is replaced, and the advice for
machines without bubblewrap is left out, so that a test can compare them with the program.
"""

from __future__ import annotations

import io
import re
import tempfile
from itertools import groupby
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.text import Text

from src.cli.chat.open import BETTER_SANDBOX

from .terminal import ROOT, Terminal

FOLDER = ROOT / "docs" / "pictures"
COLUMNS, ROWS = 100, 40  # nothing scrolls away; empty rows are left out
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)  # loads nothing from elsewhere
VARYING = (
    (r"vllm-bot-demo-\w+", "vllm-bot-demo"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:8000"),
    (r"\b\d+\.\d s\b", "0.1 s"),
    (r"context [\d,]+ of 32,768 \(\d+%\)", "context 2,000 of 32,768 (6%)"),
    (r"tokens [\d,]+ in", "tokens 3,800 in"),
)


def draw_pictures() -> dict[str, str]:
    """SVG by file name."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Terminal(Path(folder), None, options=["--demo"], columns=COLUMNS, rows=ROWS, prepare=_use_usual_folder) as chat,
    ):
        chat.prompts()
        chat.line("fix it")
        chat.shows(r"Run it\? \[y/N\]")
        return {"question.svg": render_screen(chat)}


def _use_usual_folder() -> None:
    """Have the demo make its files in /tmp, whatever folder the tests have."""
    tempfile.tempdir = "/tmp"


def render_screen(chat: Terminal) -> str:
    """The screen as SVG, with its colours."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for row, line in enumerate(chat.text.splitlines()):
        if BETTER_SANDBOX in line:
            continue
        console.print(_render_row(chat, row), no_wrap=True, overflow="crop")
    return console.export_svg(title="vllm-bot --demo", unique_id="vllm-bot", code_format=FORMAT)


def _render_row(chat: Terminal, row: int) -> Text:
    cells = chat.screen.buffer[row]
    shown = [cells[column] for column in range(max(cells, default=-1) + 1)]
    text = Text()
    for (color, bold, italic), run in groupby(shown, lambda cell: (cell.fg, cell.bold, cell.italics)):
        text.append("".join(cell.data for cell in run), Style(color=_convert(color), bold=bold, italic=italic))
    for pattern, constant in VARYING:
        while (found := re.search(pattern, text.plain)) and found[0] != constant:
            style = text.get_style_at_offset(Console(), found.start())
            text = Text.assemble(text[: found.start()], (constant, style), text[found.end() :])
    text.rstrip()
    return text


def _convert(color: str) -> str | None:
    """A colour of pyte by rich's name."""
    if color == "default":
        return None
    if re.fullmatch("[0-9a-f]{6}", color):
        return f"#{color}"
    return color.replace("brown", "yellow").replace("bright", "bright_")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, svg in draw_pictures().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
