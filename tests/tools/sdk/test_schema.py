"""Which type hints a tool may have, and the schemas that they become."""

from __future__ import annotations

import json
import subprocess
import sys
import typing
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union
from uuid import UUID

import msgspec
import pytest

from src.providers.vllm import fits_openai_strict
from src.tools import Registry, ToolContext, registry_of, tool
from src.tools.sdk.schema import make_schema
from src.types.messages import ToolCall
from src.types.tool_schema import describe_type, format_signature, to_strict
from tests.each import check_rows
from tests.sources import ROOT


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    ONE = 1
    TWO = "two"


@dataclass
class Half:
    """A dataclass that is not made of its fields alone."""

    width: InitVar[int]


UserId = NewType("UserId", str)
AdminId = NewType("AdminId", UserId)


class Place(TypedDict):
    """Where something is."""

    city: Annotated[str, "Its name"]
    floor: int


class Search(Place, total=False):
    """More keys that may be left out."""

    radius: float


@dataclass
class Parcel:
    """What is sent."""

    weight: float
    labels: list[str] = field(default_factory=list)
    note: str | None = None
    secret: str = field(default="", init=False)


@dataclass
class Chain:
    """A type that holds itself."""

    following: Chain | None = None


STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}

HINTS = [
    (str, STRING, "string"),
    (int, INTEGER, "integer"),
    (float, {"type": "number"}, "number"),
    (bool, {"type": "boolean"}, "boolean"),
    (list[str], {"type": "array", "items": STRING}, "array of string"),
    (list[list[int]], {"type": "array", "items": {"type": "array", "items": INTEGER}}, "array of array of integer"),
    (dict[str, int], {"type": "object", "additionalProperties": INTEGER}, "object"),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, '"a" | "b"'),
    (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, "1 | 2"),
    (int | None, {"anyOf": [INTEGER, NULL]}, "integer | null"),
    (
        Optional[str],  # noqa: UP045 - it is written so, too
        {"anyOf": [STRING, NULL]},
        "string | null",
    ),
    (Annotated[str, "A name"], {"type": "string", "description": "A name"}, "string"),
    (list[Annotated[str, "A name"]], {"type": "array", "items": {"type": "string", "description": "A name"}}, None),
    (date, {"type": "string", "format": "date"}, "string (date)"),
    (datetime, {"type": "string", "format": "date-time"}, "string (date-time)"),
    (Colour, {"type": "string", "enum": ["red", "blue"]}, '"red" | "blue"'),
    (Level, {"type": "integer", "enum": [1, 2]}, "1 | 2"),
    (set[int], {"type": "array", "items": INTEGER}, "array of integer"),
    (Sequence[str], {"type": "array", "items": STRING}, "array of string"),
    (Mapping[str, int], {"type": "object", "additionalProperties": INTEGER}, "object"),
    (tuple[int, ...], {"type": "array", "items": INTEGER}, "array of integer"),
    (tuple[int, int], {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2}, "array of integer"),
    (
        tuple[int, str],
        {"type": "array", "items": {"anyOf": [INTEGER, STRING]}, "minItems": 2, "maxItems": 2},
        "array of integer | string",
    ),
    (int | str, {"anyOf": [INTEGER, STRING]}, "integer | string"),
    (Union[int, str, None], {"anyOf": [INTEGER, STRING, NULL]}, "integer | string | null"),
    (UUID, {"type": "string", "format": "uuid"}, None),
    (Decimal, {"type": "number"}, "number"),
    (Path, STRING, "string"),
    (list, {"type": "array"}, "array"),
    (
        typing.List,  # noqa: UP006 - it is written so, too
        {"type": "array"},
        "array",
    ),
    (dict, {"type": "object"}, "object"),
    (dict[str, Any], {"type": "object"}, "object"),
    (list[Any], {"type": "array"}, "array"),
    (
        Annotated[int, msgspec.Meta(gt=0), "How many"],
        {**INTEGER, "exclusiveMinimum": 0, "description": "How many"},
        None,
    ),
    (Annotated[str, msgspec.Meta(min_length=2, max_length=5)], {**STRING, "minLength": 2, "maxLength": 5}, None),
    (Annotated[list[int], msgspec.Meta(max_length=5)], {"type": "array", "items": INTEGER, "maxItems": 5}, None),
    (UserId, STRING, "string"),
    (AdminId, STRING, "string"),
]


@check_rows("hint, schema, name", HINTS)
def test_a_type_hint_has_one_schema_and_one_name(hint, schema, name):
    assert make_schema(hint) == schema
    assert name is None or describe_type(schema) == name


REFUSED = [
    Any, object, None, bytes, set, tuple, list[bytes], dict[int, str], date | str, Literal[1, "a"],
    list[int] | set[int], Parcel | Place, set[list[int]], Mixed, Half, Literal[None], Annotated[str, 5], Annotated[str, "a", "b"], "no hint",
]  # fmt: skip


@check_rows("hint", REFUSED)
def test_any_other_hint_is_refused(hint):
    with pytest.raises(TypeError):
        make_schema(hint)


WAYS_OUT = [
    (set, "write what it holds: set[str]"),
    (Any, "write the type that the function needs, such as str or dict[str, str]"),
    (complex, "the type complex; write str, int, float, bool, date"),
    (date | str, "date and str look the same in JSON, where two of them are of the type string; write one"),
    (dict[int, str], "write dict[str, ...]"),
    ([str], "[<class 'str'>] is a value and no type; write list[str] or dict[str, str]"),
    ({"a": int}, "is a value and no type; write list[str] or dict[str, str]"),
    (Annotated[str, msgspec.Meta(gt=1)], "gt is no limit of a string; check it in the function"),
    (Annotated[str, msgspec.Meta(pattern="a+")], "Annotated takes one description, a string, and limits"),
    (tuple[()], "write what it holds: tuple[int, ...]"),
    (Annotated[int, []], "Annotated takes one description, a string"),
    (Half, "Half is no plain dataclass; write one of plain fields, or a pydantic BaseModel"),
]


@check_rows("hint, said", WAYS_OUT)
def test_a_refusal_names_tool_and_parameter_and_says_what_to_write_instead(hint, said):
    def take(what) -> str:
        """Take it."""
        return ""

    take.__annotations__["what"] = hint
    with pytest.raises(TypeError) as error:
        tool(take)
    assert str(error.value).startswith("take(what): ")
    assert said in str(error.value)


CONVERTED = [  # hint, what a model sends, what the function gets
    (int, 2.0, 2),
    (float, 2, 2.0),
    (date, "2026-11-22", date(2026, 11, 22)),
    (datetime, "2026-11-22T10:30:00", datetime(2026, 11, 22, 10, 30)),
    (datetime, "2026-11-22T10:30:00Z", datetime(2026, 11, 22, 10, 30, tzinfo=timezone.utc)),
    (Colour, "red", Colour.RED),
    (Level, 2.0, Level.HIGH),
    (tuple[int, str], [1.0, "a"], (1, "a")),
    (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    (set[int], [1, 1.0, 2], {1, 2}),
    (int | str, 5.0, 5),
    (int | str, "5", "5"),
    (float | str, 5, 5.0),
    (list[Colour | None], ["red", None], [Colour.RED, None]),
    (dict[str, date], {"a": "2026-11-22"}, {"a": date(2026, 11, 22)}),
    (Mapping[str, int], {"a": 1.0}, {"a": 1}),
    (Annotated[date, "When"], "2026-11-22", date(2026, 11, 22)),
    (UserId, "u1", "u1"),
    (Path, "a/b.txt", Path("a/b.txt")),
    (list[Path], ["a"], [Path("a")]),
    (UUID, "00000000-0000-0000-0000-000000000005", UUID(int=5)),
    (Decimal, 1.1, Decimal("1.1")),
    (dict[str, Any], {"a": [1, None]}, {"a": [1, None]}),
    (list, [1, "a"], [1, "a"]),
]


@check_rows("hint, sent, value", CONVERTED)
def test_a_value_arrives_in_the_type_of_the_hint(hint, sent, value):
    assert take_value(hint, sent) == repr(value)


MISFITS = [
    (date, "22.11.2026", 'what: expected a date such as 2026-11-22, got string "22.11.2026"'),
    (datetime, "now", 'what: expected a date and time such as 2026-11-22T10:30:00+01:00, got string "now"'),
    (Colour, "green", 'what: expected "red" | "blue", got string "green"'),
    (tuple[int, str], ["a", 1], "what[0]: Expected `int`, got `str`"),
    (list[date], ["2026-11-22", "x"], "what[1]: expected a date such as 2026-11-22"),
    (int | str, 2.5, "what: expected integer | string, got number 2.5"),
    (Annotated[int, msgspec.Meta(gt=0)], 0, "what: expected integer more than 0, got integer 0"),
    (Annotated[str, msgspec.Meta(min_length=2)], "a", 'what: expected string of at least 2 characters, got string "a"'),
    (UUID, "five", 'what: Invalid UUID, got string "five"'),
]


@check_rows("hint, sent, said", MISFITS)
def test_a_value_of_another_type_is_answered_with_what_is_expected(hint, sent, said):
    answer = take_value(hint, sent)
    assert answer.startswith(f"Wrong arguments for take: {said}")


def take_value(hint: object, sent: object) -> str:
    """What a tool with a parameter of this hint gets, or what the model is told."""

    def take(what) -> str:
        """Take it."""
        return repr(what)

    take.__annotations__["what"] = hint
    return str(tool(take).execute({"what": sent}, ToolContext(Path("/"))).value)


def test_a_tool_with_a_wrong_date_is_refused_before_its_approval_is_asked_for():
    def remind(when: date) -> str:
        """Remind."""
        return ""

    wrong = registry_of([remind]).check(ToolCall("1", "remind", {"when": "soon"}))
    assert wrong.value.endswith('got string "soon". Usage: remind(when: string (date))')


def test_an_object_that_refuses_its_values_is_a_wrong_argument():
    @dataclass
    class Even:
        number: int

        def __post_init__(self):
            if self.number % 2:
                raise ValueError("it is odd")

    assert "what: it is odd" in take_value(Even, {"number": 1})


class TestPydanticModels:
    @pytest.fixture
    def models(self):
        """An order, which holds a customer; neither is known to the library."""
        pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
        customer = pydantic.create_model(
            "Customer", name=(Annotated[str, pydantic.Field(description="Whole name")], ...), since=(date | None, None)
        )
        order = pydantic.create_model(
            "Order",
            customer=(customer, ...),
            count=(Annotated[int, pydantic.Field(ge=1)], 1),
            size=(Literal["S"], "S"),
            spot=(tuple[int, int], (0, 0)),
        )
        return order, customer

    def test_its_schema_is_flat(self, models):
        assert make_schema(models[0]) == {
            "type": "object",
            "properties": {
                "customer": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "description": "Whole name"},
                        "since": {"type": "string", "format": "date"},
                    },
                    "required": ["name"],
                    "additionalProperties": False,
                },
                "count": {"type": "integer", "minimum": 1},
                "size": {"type": "string", "enum": ["S"]},
                "spot": {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2},
            },
            "required": ["customer"],
            "additionalProperties": False,
        }

    def test_the_function_gets_an_object_of_it(self, models):
        order, customer = models
        sent = {"customer": {"name": "Ann", "since": "2026-11-22"}, "count": 2.0}
        made = order(customer=customer(name="Ann", since=date(2026, 11, 22)), count=2)
        assert take_value(order, sent) == repr(made)
        assert take_value(list[order], [sent]) == repr([made])
        assert take_value(order | None, sent) == repr(made)

    def test_what_it_refuses_is_a_wrong_argument_with_its_place(self, models):
        sent = {"customer": {"name": "Ann", "since": "soon"}}
        assert "what: customer.since: Input should be a valid date" in take_value(models[0], sent)

    def test_one_that_holds_itself_is_written_out_a_few_times_and_checked_whole(self):
        pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
        hints = {"next": "Node | None", "number": int}
        node = type("Node", (pydantic.BaseModel,), {"__annotations__": hints, "__module__": __name__, "next": None})
        node.model_rebuild(_types_namespace={"Node": node})
        assert "$ref" not in json.dumps(make_schema(node))
        sent = {"number": 1}
        for number in range(2, 8):
            sent = {"number": number, "next": sent}
        assert take_value(node, sent) == repr(node.model_validate(sent))
        sent["next"]["next"]["next"]["next"]["next"] = {"number": "x"}
        assert "what: next.next.next.next.next.number: Input should be a valid integer" in take_value(node, sent)

    def test_its_field_may_limit_a_parameter(self):
        pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
        hint = Annotated[int, pydantic.Field(ge=1, description="How many")]
        assert make_schema(hint) == {"type": "integer", "minimum": 1, "description": "How many"}

    def test_a_union_with_another_type_is_refused(self, models):
        with pytest.raises(TypeError, match="stands in no union but with None"):
            make_schema(models[0] | int)

    def test_without_such_a_model_pydantic_is_not_loaded(self):
        code = "import sys, src.tools; assert 'pydantic' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def optional(path: str, offset: int = 1, limit: Annotated[int | None, "How many"] = None) -> str:
    """Show."""
    return json.dumps([path, offset, limit])


def nullable(value: int | None, other: int | None = 5) -> str:
    """Show."""
    return json.dumps([value, other])


def keyword(ctx: ToolContext, *, flag: bool = False) -> bool:
    """Show."""
    return flag


def test_what_has_no_default_is_required_and_nothing_else_is_allowed():
    schema = Registry().tool(optional).definition.parameters
    assert schema["required"] == ["path"]
    assert schema["additionalProperties"] is False


def test_a_parameter_that_defaults_to_none_is_described_as_a_plain_optional_one():
    schema = Registry().tool(optional).definition.parameters
    assert schema["properties"]["limit"] == {"type": "integer", "description": "How many"}


def test_a_default_of_none_makes_it_optional_whatever_the_hint_says():
    def find(limit: int = None) -> str:  # noqa: RUF013 - as people write it
        """Find it."""
        return str(limit)

    schema = Registry().tool(find).definition.parameters
    assert (schema["properties"]["limit"], schema.get("required", [])) == ({"type": "integer"}, [])


def test_the_signature_reads_as_a_person_would_write_it():
    tool = Registry().tool(optional)
    assert tool.signature == "optional(path: string, offset?: integer, limit?: integer)"
    assert Registry().tool(nullable).signature == "nullable(value: integer | null, other?: integer | null)"
    assert format_signature("done", {}) == "done()"


NULLS = [
    (optional, {"path": "a", "offset": None, "limit": None}, '["a", 1, null]'),
    (nullable, {"value": None, "other": None}, "[null, null]"),
    (nullable, {"value": None}, "[null, 5]"),
]


@pytest.mark.parametrize(("function", "arguments", "value"), NULLS)
def test_a_null_means_left_out_where_the_parameter_cannot_be_null(function, arguments, value, tmp_path):
    registry = Registry()
    registry.tool(function)
    result = registry.run(ToolCall("1", function.__name__, arguments), ToolContext(tmp_path))
    assert (result.kind, result.value) == ("text", value)


ENTRY = {"type": "object", "properties": {"a": {"enum": ["x", 1]}, "b": {}}, "required": ["a"]}
FOREIGN = [  # schemas as other people write them
    (ENTRY, '{a: "x" | 1, b?: any}'),
    ({"type": "array", "items": ENTRY}, 'array of {a: "x" | 1, b?: any}'),
    ({"type": "object", "properties": {"inner": ENTRY}}, "{inner?: object}"),
    ({"type": ["string", "null"]}, "string | null"),
    ({"type": "object", "properties": {}}, "object"),
    ({"type": "array"}, "array"),
    ({"type": "string", "enum": []}, "string"),
    ({"type": "object", "properties": 5, "required": 5}, "object"),
    (True, "any"),
    ({}, "any"),
]


@check_rows("schema, name", FOREIGN)
def test_any_schema_can_be_read_by_a_person(schema, name):
    assert describe_type(schema) == name


def test_the_context_is_injected_and_not_described(tmp_path):
    registry = Registry()
    tool = registry.tool(keyword)
    assert list(tool.definition.parameters["properties"]) == ["flag"]
    assert registry.run(ToolCall("1", "keyword", {"flag": True}), ToolContext(tmp_path)).value is True


def test_a_context_that_may_be_left_out_in_a_test_is_injected_too(tmp_path):
    def name(city: str, ctx: ToolContext | None = None) -> str:
        """Name it."""
        return f"{city} in {ctx and ctx.workspace}"

    made = tool(name)
    assert list(made.definition.parameters["properties"]) == ["city"]
    assert made("Oslo") == "Oslo in None"
    assert made.execute({"city": "Oslo"}, ToolContext(tmp_path)).value == f"Oslo in {tmp_path}"


def starred(*paths: str) -> str:
    """Show."""
    return ""


def double_starred(**paths: str) -> str:
    """Show."""
    return ""


def positional(path: str, /) -> str:
    """Show."""
    return ""


def unhinted(path) -> str:
    """Show."""
    return ""


def unknown_hint(path: Nowhere) -> str:  # noqa: F821 - that is the case
    """Show."""
    return ""


def described_in_its_place(path: "the file to show") -> str:  # noqa: F722 - that is the case
    """Show."""
    return ""


def misnamed(path: typing.Strings) -> str:
    """Show."""
    return ""


def undescribed(path: str) -> str:
    return ""


@check_rows(
    "function",
    [
        starred,
        double_starred,
        positional,
        unhinted,
        unknown_hint,
        described_in_its_place,
        misnamed,
        undescribed,
    ],
)
def test_a_function_that_cannot_be_described_is_refused_by_name(function):
    with pytest.raises(TypeError, match=function.__name__):
        Registry().tool(function)


def send(parcel: Parcel, to: list[Place], search: Search) -> str:
    """Show."""
    return repr((parcel, to, search))


class TestObjects:
    def test_a_typed_dict_is_an_object_with_its_keys(self):
        assert make_schema(Search) == {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Its name"},
                "floor": {"type": "integer"},
                "radius": {"type": "number"},
            },
            "required": ["city", "floor"],
            "additionalProperties": False,
        }

    def test_a_dataclass_is_an_object_with_what_it_is_made_from(self):
        schema = make_schema(Parcel)
        assert list(schema["properties"]) == ["weight", "labels", "note"]
        assert schema["required"] == ["weight"]
        assert schema["properties"]["note"] == STRING

    def test_values_arrive_as_what_the_hints_promise(self, tmp_path):
        registry = Registry()
        registry.tool(send)
        arguments = {
            "parcel": {"weight": 2, "note": None},
            "to": [{"city": "Ulm", "floor": 1.0}],
            "search": {"city": "Ulm", "floor": 2, "radius": 3},
        }
        value = registry.run(ToolCall("1", "send", arguments), ToolContext(tmp_path)).value
        assert value == repr((Parcel(2.0), [{"city": "Ulm", "floor": 1}], {"city": "Ulm", "floor": 2, "radius": 3.0}))

    def test_what_is_wrong_in_one_is_named_by_its_place(self, tmp_path):
        registry = Registry()
        registry.tool(send)
        place = {"city": "Ulm", "floor": 1}
        arguments = {"parcel": {"weight": "2"}, "to": [place], "search": place}
        said = registry.run(ToolCall("1", "send", arguments), ToolContext(tmp_path)).value
        assert 'parcel.weight: expected number, got string "2"' in said

    def test_a_type_that_holds_itself_is_refused(self):
        def follow(chain: Chain) -> str:
            """Follow."""
            return ""

        with pytest.raises(TypeError, match=r"follow\(chain\): the type holds itself"):
            Registry().tool(follow)


class TestStrict:
    def test_every_property_is_required_and_null_stands_for_left_out(self):
        definition = Registry().tool(optional).definition
        strict = to_strict(definition.parameters)
        assert strict["required"] == ["path", "offset", "limit"]
        assert strict["properties"]["path"] == STRING
        assert strict["properties"]["offset"] == {"anyOf": [INTEGER, NULL]}
        assert strict["properties"]["limit"] == {"anyOf": [INTEGER, NULL], "description": "How many"}
        assert not fits_openai_strict(definition.parameters)
        assert fits_openai_strict(strict)

    def test_what_may_be_null_stays_as_it_is(self):
        strict = to_strict(Registry().tool(nullable).definition.parameters)
        assert strict["properties"]["other"] == {"anyOf": [INTEGER, NULL]}

    def test_it_holds_at_any_depth(self):
        assert fits_openai_strict(to_strict(Registry().tool(send).definition.parameters))
        assert to_strict(make_schema(list[Parcel]))["items"]["required"] == ["weight", "labels", "note"]

    def test_a_call_made_by_it_runs(self, tmp_path):
        registry = Registry()
        registry.tool(send)
        place = {"city": "Ulm", "floor": 1}
        arguments = {
            "parcel": {"weight": 2, "labels": None, "note": None},
            "to": [place],
            "search": {**place, "radius": None},
        }
        value = registry.run(ToolCall("1", "send", arguments), ToolContext(tmp_path)).value
        assert value == repr((Parcel(2.0), [place], place))
