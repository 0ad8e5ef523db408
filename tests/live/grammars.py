"""Which formats a grammar holds a model of random weights to, on a server without flags.

    python -m tests.live.grammars BASE_URL [--calls 30] [FORMAT ...]

The model writes noise, so each valid call is the grammar's doing: forced by name, and, where the format has a marker,
begun by that marker in free text (a rule of the rig's has the model say it). A call counts if it fits its schema.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import fastjsonschema

from src.app.model import Model
from src.negotiation.call_path import CallPath
from src.negotiation.formats.structural_tags import find_format
from src.parsing.formats.table import FORMATS, Format
from src.types.events import Completed
from src.types.messages import Named, ToolDefinition, UserMessage

MAX_TOKENS = 1200
MAX_FREE_TOKENS = 400  # behind the call the model goes on with noise
ENUM = {"type": "string", "enum": ["fast", "slow", "very careful"]}
SET_MODE = ToolDefinition(
    "set_mode",
    "Set the mode.",
    {
        "type": "object",
        "properties": {
            "mode": ENUM,
            "count": {"type": "integer", "minimum": 1, "maximum": 10},
            "force": {"type": "boolean"},
            "tags": {"type": "array", "items": ENUM, "maxItems": 3},
            "note": {"type": "string", "maxLength": 20},
            "limit": {"type": ["integer", "null"]},
        },
        "required": ["mode", "count", "force"],
        "additionalProperties": False,
    },
)
LOOK = ToolDefinition(
    "look_around",
    "Look.",
    {
        "type": "object",
        "properties": {"where": ENUM, "deep": {"type": "boolean"}},
        "required": [],
        "additionalProperties": False,
    },
)
TOOLS = (SET_MODE, LOOK)
CHECKS = {tool.name: fastjsonschema.compile(dict(tool.parameters)) for tool in TOOLS}
ROWS = tuple(row for row in FORMATS if find_format(row.name) is row)


class Count(NamedTuple):
    valid: int
    wrong: int  # calls that do not fit, or cannot be read
    cut: int  # answers that reached max_tokens before a call was complete

    @property
    def is_clean(self) -> bool:
        return self.valid > 0 and not self.wrong


def list_rules() -> list[dict[str, Any]]:
    """Rules of the rig, by which the model says a format's marker, after which the grammar decides."""
    return [{"match": f"^Begin {row.name}$", "turns": [row.marker]} for row in ROWS if row.marker]


def count_calls(model: Model, row: Format, calls: int, *, forced: bool) -> Count:
    path = CallPath("template", template_shows_tools=True, written_format=row.name)
    found: Counter[str] = Counter()
    model.max_tokens = MAX_TOKENS if forced else MAX_FREE_TOKENS
    for number in range(calls):
        model.path = path
        choice = Named(TOOLS[number % 2].name) if forced else "auto"
        question = UserMessage(f"Noise {number}, please." if forced else f"Begin {row.name}")
        *_, last = model.respond([question], TOOLS, choice)
        assert isinstance(last, Completed)
        found[judge(last)] += 1
        assert "structured_outputs" not in model.path.disabled_fields, "the server refused the grammar"
    return Count(found["valid"], found["wrong"], found["cut"])


def judge(answer: Completed) -> str:
    response = answer.response
    if not response.calls:
        return "cut" if response.stop_reason in ("max_tokens", "repetition") else "wrong"
    try:
        for call in response.calls:
            CHECKS[call.name](dict(call.arguments))
    except fastjsonschema.JsonSchemaException:
        return "wrong"
    return "valid"


def make_table(model: Model, rows: tuple[Format, ...], calls: int) -> Iterator[tuple[Format, Count, Count | None]]:
    for row in rows:
        forced = count_calls(model, row, calls, forced=True)
        yield row, forced, count_calls(model, row, calls, forced=False) if row.marker else None


def connect(base_url: str, api_key: str = "") -> Model:
    return Model.connect(base_url, "tiny", api_key=api_key, temperature=1.0, max_tokens=MAX_TOKENS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base_url")
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("formats", nargs="*")
    given = parser.parse_args()
    rows = tuple(row for row in ROWS if not given.formats or row.name in given.formats)
    clean = 0
    print("| format | forced: valid / wrong / cut off | in free text |\n|---|---|---|")
    with connect(given.base_url) as model:
        for row, forced, free in make_table(model, rows, given.calls):
            clean += forced.is_clean and (free is None or free.is_clean)
            cells = [f"{each.valid} / {each.wrong} / {each.cut}" if each else "no marker" for each in (forced, free)]
            print(f"| {row.name} | {' | '.join(cells)} |", flush=True)
    print(f"\n{clean} of {len(rows)} formats: all calls fit their schemas")


if __name__ == "__main__":
    main()
