"""TOOL_DEFINITIONS as other programs use it: a list to read, to send and to copy, which refuses every change."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from typing import Any

import pytest

from src.tools import TOOL_DEFINITIONS, Registry
from src.tools.sdk.registry import HOW_TO_ADD
from tests.each import check_rows


def weigh(parcel: str, scale: int = 1) -> str:
    """Weigh a parcel."""
    return f"{parcel} {scale}"


def make_registry() -> Registry:
    registry = Registry()
    registry.add(weigh)
    return registry


def find_parts(value: Any) -> list[Any]:
    """The value, and all lists and dicts in it."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    rest = [part for child in children for part in find_parts(child)]
    return [value, *rest] if isinstance(value, (dict, list)) else []


MORE = {"type": "function"}
ARGUMENTS = [
    *[(), (0,), ("type",), (MORE,), ([MORE],), (2,), (slice(None),)],
    *itertools.product((0, "type", slice(None)), (MORE, [MORE])),
]


@pytest.mark.parametrize("kind", [list, dict])
def test_no_method_changes_any_part_of_the_list(kind: type) -> None:
    tools = make_registry().openai_tools
    before = json.dumps(tools)
    parts = [part for part in find_parts(tools) if isinstance(part, kind)]
    assert len(parts) > 1
    for part, name, arguments in itertools.product(parts, dir(kind), ARGUMENTS):
        try:
            getattr(part, name)(*arguments)
        except Exception:  # noqa: BLE001 - it may be no method, or take other arguments
            continue
        finally:
            assert json.dumps(tools) == before, f"{name}{arguments}"


@check_rows(
    "change",
    [
        lambda: TOOL_DEFINITIONS.append({}),
        lambda: TOOL_DEFINITIONS.insert(0, {}),
        lambda: TOOL_DEFINITIONS.__iadd__([{}]),
        lambda: TOOL_DEFINITIONS.__imul__(2),
        lambda: TOOL_DEFINITIONS.sort(key=str),
        lambda: TOOL_DEFINITIONS.reverse(),
        lambda: TOOL_DEFINITIONS.__setitem__(slice(1), []),
        lambda: TOOL_DEFINITIONS.__delitem__(0),
        lambda: TOOL_DEFINITIONS[0].update(type="mine"),
        lambda: TOOL_DEFINITIONS[0]["function"].__setitem__("description", "mine"),
        lambda: TOOL_DEFINITIONS[0]["function"]["parameters"].__ior__({"x": 1}),
        lambda: TOOL_DEFINITIONS[0]["function"]["parameters"]["required"].append("x"),
    ],
)
def test_a_refused_change_says_how_to_add_a_tool(change: Any) -> None:
    before = json.dumps(TOOL_DEFINITIONS)
    with pytest.raises(TypeError) as refused:
        change()
    assert str(refused.value) == HOW_TO_ADD
    assert json.dumps(TOOL_DEFINITIONS) == before


def test_the_list_shares_nothing_with_the_registry() -> None:
    registry = make_registry()
    (definition,) = registry.definitions
    definition.parameters["required"].append("scale")  # type: ignore[index, union-attr]
    assert registry.openai_tools[0]["function"]["parameters"]["required"] == ["parcel"]


def test_the_list_grows_with_the_registry() -> None:
    registry = Registry()
    tools = registry.openai_tools
    registry.add(weigh)
    assert [each["function"]["name"] for each in tools] == ["weigh"]


@pytest.mark.parametrize("indent", [None, 1], ids=["C encoder", "Python encoder"])
def test_the_list_is_json(indent: int | None) -> None:
    tools = make_registry().openai_tools
    assert isinstance(tools, list) and isinstance(tools[0], dict)
    assert json.loads(json.dumps(tools, indent=indent)) == tools


@pytest.mark.parametrize("make", [copy.deepcopy, lambda tools: pickle.loads(pickle.dumps(tools))])
def test_a_whole_copy_is_plain_and_may_change(make: Any) -> None:
    tools = make_registry().openai_tools
    mine = make(tools)
    assert {type(part) for part in find_parts(mine)} == {list, dict}
    mine[0]["function"]["parameters"]["required"].append("scale")
    assert mine != tools


@check_rows("make", [copy.copy, list, list.copy, lambda tools: tools[:]])
def test_a_copy_of_the_list_may_change(make: Any) -> None:
    mine = make(make_registry().openai_tools)
    mine.append({})
    assert type(mine) is list


@check_rows("make", [copy.copy, dict, dict.copy, lambda entry: {**entry}, lambda entry: entry | {}])
def test_a_copy_of_an_entry_may_change(make: Any) -> None:
    mine = make(make_registry().openai_tools[0])
    mine["type"] = "mine"
    assert type(mine) is dict
