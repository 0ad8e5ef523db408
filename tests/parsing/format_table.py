"""The table of formats in docs/protocol.md, made from the table itself: python -m tests.parsing.format_table --write"""

import sys
from pathlib import Path

from src.parsing.formats.table import FORMATS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "protocol.md"
BEGIN, END = "<!-- formats: made by tests/parsing/format_table.py -->", "<!-- /formats -->"


def code(text):
    """Text as inline code in a table: fences inside need longer ones, bars and newlines must not show."""
    ticks = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    if "``" in text:
        ticks, pad = "````", " "
    return f"{ticks}{pad}{text}{pad}{ticks}".replace("\n", "⏎").replace("|", "\\|")


def table():
    rows = ["| # | `origin` | models | marker | body | vLLM parser | example |", "|---|---|---|---|---|---|---|"]
    for number, row in enumerate(FORMATS, 1):
        opener = code(row.opener) if row.opener else "none"
        rows.append(
            f"| {number} | {row.call_origin} | {row.family} | {opener} | {row.grammar} | {row.parser or 'none'} | {code(row.example)} |"
        )
    return "\n".join(rows)


def documented():
    """The table as the document has it."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip()


def write():
    text = DOCUMENT.read_text(encoding="utf-8")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    DOCUMENT.write_text(f"{text[:start]}\n{table()}\n{text[end:]}", encoding="utf-8")


if __name__ == "__main__":
    write() if "--write" in sys.argv else print(table())
