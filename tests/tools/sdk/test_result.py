"""What a tool returned becomes a result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID

import pytest

from src.errors import ToolError
from src.tools import ToolContext, tool
from src.tools.sdk.output_store import Outputs
from src.tools.sdk.result import MAX_SHOWN_BYTES, Media, store_and_truncate, to_outcome, truncate
from src.types.messages import ToolResult
from tests.each import check_rows

LINE = "a line of some length\n"
PICTURE = Media(b"\x89PNG", "image/png")
BLOCK = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}

CASES = [
    ("words", ("text", "words")),
    ({"a": (1, None)}, ("data", {"a": [1, None]})),
    (["a", "b"], ("data", ["a", "b"])),
    (None, ("data", None)),
    (PICTURE, ("multimodal", [BLOCK])),
    (["See:", PICTURE, {"k": 1}], ("multimodal", [{"type": "text", "text": "See:"}, BLOCK, {"type": "text", "text": '{"k": 1}'}])),
]  # fmt: skip


@check_rows("value, expected", CASES)
def test_what_is_returned_has_one_kind(value, expected):
    assert to_outcome(value)[:2] == expected


def test_an_image_that_is_too_large_is_left_out_and_told():
    left_out = "[left out: an image of 4,000,000 bytes; one may have 3,750,000. Make it smaller first]"
    said = [{"type": "text", "text": left_out}, {"type": "text", "text": "See:"}]
    assert to_outcome([Media(bytes(4_000_000), "image/png"), "See:"])[:2] == ("multimodal", said)


class Colour(Enum):
    RED = "red"


@dataclass
class Trip:
    city: str
    when: date


class Pydantic:
    """What is asked of a pydantic model."""

    def model_dump(self, *, mode):
        return {"mode": mode}


class Number:
    """A number of numpy."""

    def tolist(self):
        return 4


OBJECTS = [
    (Trip("Oslo", date(2026, 11, 22)), {"city": "Oslo", "when": "2026-11-22"}),
    ([Trip("Oslo", date(2026, 11, 22))], [{"city": "Oslo", "when": "2026-11-22"}]),
    (Pydantic(), {"mode": "json"}),
    ({"a": {1}}, {"a": [1]}),
    (date(2026, 11, 22), "2026-11-22"),
    ({Colour.RED: Colour.RED}, {"red": "red"}),
    (Path("a/b"), "a/b"),
    (b"ab", "YWI="),
    (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (Decimal("1.10"), "1.10"),
    (Number(), 4),
]


@check_rows("value, expected", OBJECTS)
def test_objects_that_have_a_form_in_json_are_data(value, expected):
    assert to_outcome(value)[:2] == ("data", expected)


def test_what_has_none_is_an_error_of_which_the_program_is_told(caplog):
    def look() -> object:
        """Look."""
        return {"a": object()}

    outcome = tool(look).execute({}, ToolContext(Path("/")))
    assert outcome.kind == "error"
    assert "a tool cannot return an object of the type object; return a str, JSON, a dataclass" in outcome.value
    assert "the result of look cannot be sent" in caplog.text


def test_media_that_no_model_takes_are_refused():
    with pytest.raises(ToolError, match="application/pdf"):
        to_outcome(Media(b"%PDF", "application/pdf"))
    with pytest.raises(ToolError, match="the image is empty"):
        to_outcome(Media(b"", "image/png"))


# What the model sees of a long one


@pytest.fixture
def store(tmp_path: Path) -> Outputs:
    return Outputs(tmp_path / "state" / "outputs")


def whole(store: Outputs, ref: str) -> str:
    with store.open(ref) as file:
        return file.read().decode()


def result(value: object, kind: str = "text") -> ToolResult:
    return ToolResult("call-1", "read", kind, value)


def test_where_nothing_can_be_stored_the_tool_goes_on_without(tmp_path):
    (tmp_path / "file").touch()
    store = Outputs(tmp_path / "file" / "outputs")
    assert store_and_truncate(result("short"), store) == result("short")
    assert store_and_truncate(result(LINE * 9_999), store).value.endswith(
        "the rest could not be stored: ask for less at once]"
    )


def test_what_is_short_is_shown_as_it_is_and_not_stored(store, tmp_path):
    for value, kind in (("one\n", "text"), ({"a": [1]}, "data"), ("wrong", "error")):
        assert store_and_truncate(result(value, kind), store) == result(value, kind)
    assert not (tmp_path / "state").exists()


def test_a_long_text_is_cut_at_a_whole_line_with_a_hint_to_read_on(store):
    shown = store_and_truncate(result(LINE * 10_000), store)
    text, _, note = shown.value.partition("[cut: ")
    assert text == LINE * (MAX_SHOWN_BYTES // len(LINE))
    assert note == (
        f"{len(text):,} of 220,000 bytes are shown; read on with "
        f'tool_output_cache(ref_id="{shown.ref}", offset={len(text) // len(LINE) + 1}) '
        "or search with tool_output_cache_grep]"
    )
    assert whole(store, shown.ref) == LINE * 10_000


def test_one_endless_line_is_cut_between_characters():
    shown = truncate("x" + "é" * MAX_SHOWN_BYTES, "o00000000")
    assert shown.startswith("x" + "é" * ((MAX_SHOWN_BYTES - 1) // 2) + "\n[cut: ")


def test_data_that_is_too_long_is_shown_as_lines_of_json(store):
    shown = store_and_truncate(result(["x" * 100] * 2_000, "data"), store)
    assert shown.kind == "text"
    assert shown.value.startswith('[\n "xxx')
    assert whole(store, shown.ref).count("\n") == 2_001


def test_an_error_stays_one(store):
    assert store_and_truncate(result(LINE * 9_999, "error"), store).kind == "error"


def test_an_image_is_left_as_it_is(store):
    image = result([{"type": "image", "data": "x" * MAX_SHOWN_BYTES * 2, "mimeType": "image/png"}], "multimodal")
    assert store_and_truncate(image, store) is image


def test_a_tools_result_is_cut_with_a_store_and_without_one(run, store, workspace):
    (workspace / "a.txt").write_text("x")
    assert run("exec", {"outputs": store, "exec_max_output": 10**6}, command=f"yes '{LINE[:-1]}' | head -n 9999").ref
    assert len(run("exec", {"exec_max_output": 10**6}, command="yes | head -n 99999").value) < MAX_SHOWN_BYTES + 200
