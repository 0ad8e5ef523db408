"""What msgspec reads in one step and what is read field by field, where an event is not as documented, is the same."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.errors import WireError
from src.providers.wire_json import StructReader, WireStruct, dump_json, encode_body, load_json, to_struct
from tests.each import check_rows


class Inner(WireStruct, rename="camel"):
    first_word: str | None = None
    rest: Any = None


class Outer(WireStruct):
    name: str | None = None
    size: int | None = None
    flag: bool | None = None
    numbers: list[int] | None = None
    inner: Inner | None = None
    inners: list[Inner] | None = None


READER = StructReader(Outer)
TEXTS = st.text(max_size=6) | st.sampled_from(["\u2028", '"', "\\", "🙂", "x" * 300])
INNERS = st.fixed_dictionaries(
    {}, optional={"firstWord": TEXTS | st.none(), "rest": TEXTS | st.lists(st.integers(0, 9))}
)
OUTERS = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXTS | st.none(),
        "size": st.integers(),
        "flag": st.booleans(),
        "numbers": st.lists(st.integers(0, 2**70), max_size=3),
        "inner": INNERS | st.none(),
        "inners": st.lists(INNERS, max_size=3),
        "unknown": TEXTS,
    },
)


@given(OUTERS, st.booleans())
def test_an_event_as_documented_reads_the_same_in_one_step_and_field_by_field(value, ascii_only):
    data = json.dumps(value, ensure_ascii=ascii_only).encode(errors="replace")
    assert READER.read(data) == to_struct(json.loads(data), Outer)


@check_rows(
    "event, read",
    [
        (b'{"name": 7, "size": 3}', Outer(size=3)),
        (b'{"name": ["a"], "size": "3"}', Outer()),
        (b'{"numbers": [1, "2", 3]}', Outer(numbers=[1, 3])),
        (b'{"numbers": 1, "name": "a"}', Outer("a")),
        (b'{"inner": [], "inners": [null, 3, {"firstWord": "a"}]}', Outer(inners=[Inner("a")])),
        (b'{"inner": {"firstWord": 1, "rest": NaN}, "name": "a"}', Outer("a", inner=Inner(rest=math.nan))),
        (b'{"name": "\\ud83d"}', Outer("\ud83d")),
        (b'{"name": "a\xff"}', Outer("a�")),
        (b'{"unknown": {"deep": [1e999]}, "name": "a"}', Outer("a")),
        (b"[1]", Outer()),
        (b"null", Outer()),
    ],
)
def test_of_any_other_event_the_fields_that_fit_are_read(event, read):
    assert repr(READER.read(event)) == repr(read)  # NaN is not equal to itself


def test_an_event_that_is_no_object_is_logged(caplog):
    caplog.set_level("DEBUG", "src.providers")
    READER.read(b"[1]")
    assert "not an object: list" in caplog.text


@check_rows("data", [b"", b"{oops", b"[" * 100_000, b'{"name": "a"'])
def test_what_is_no_json_is_an_error_that_quotes_it(data):
    with pytest.raises(WireError, match="not JSON: ") as caught:
        READER.read(data)
    assert len(caught.value.message) < 200
    with pytest.raises(WireError):
        load_json(data)


def test_numbers_that_json_does_not_have_are_sent_as_null():
    assert dump_json({"a": [math.nan, math.inf, 1.5]}) == '{"a":[null,null,1.5]}'


@check_rows("items", [[], [b"1"], [b"1", b"2"], [b"1", b"2", b"3"]])
def test_a_body_begins_with_its_list_and_goes_on_with_the_objects(items):
    body = encode_body("messages", items, b'{"model":"tiny"}', b'{"tools":[]}')
    assert body == b'{"messages":[%s],"model":"tiny","tools":[]}' % b",".join(items)
