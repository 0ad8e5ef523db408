"""The decorator `tool`: it makes a Tool and registers nothing, and a Tool is called as its function is."""

from __future__ import annotations

import asyncio
import copy
import inspect
import weakref
from functools import partial
from pathlib import Path

import pytest

from src import tool
from src.tools import TOOL_DEFINITIONS, Tool, ToolContext, registry_of
from src.types.messages import ToolCall
from tests.each import check_rows

CTX = ToolContext(Path("/"))


def weather(city: str, days: int = 1) -> str:
    """The weather in a city.

    This is for programmers.
    """
    return f"{city}: rain for {days}"


def test_it_registers_nothing():
    before = list(TOOL_DEFINITIONS)
    tool(weather)
    assert before == TOOL_DEFINITIONS


def test_a_notebook_cell_may_run_twice():
    for _ in range(2):
        agent_tools = registry_of([tool(risk="low")(weather)])
    assert agent_tools.run(ToolCall("1", "weather", {"city": "Oslo"}), CTX).value == "Oslo: rain for 1"


def test_a_tool_may_have_the_name_of_one_of_the_program():
    assert registry_of([tool(weather, name="read")]).signature("read") == "read(city: string, days?: integer)"


def test_calling_it_calls_the_function():
    assert tool(weather)("Oslo", days=2) == "Oslo: rain for 2"


def test_calling_an_async_one_gives_what_is_awaited():
    async def fetch(city: str) -> str:
        """Fetch the weather."""
        return city.upper()

    assert asyncio.run(tool(fetch)("Oslo")) == "OSLO"


def test_it_is_described_as_its_function_is():
    made = tool(weather)
    assert (made.__name__, made.__doc__) == ("weather", weather.__doc__)
    assert inspect.signature(made) == inspect.signature(weather)
    assert repr(made) == "<Tool weather(city: string, days?: integer)>"


def test_a_copy_is_described_alike():
    assert inspect.signature(copy.copy(tool(weather))) == inspect.signature(weather)
    assert copy.copy(tool(weather)).__name__ == "weather"


def test_it_may_be_referenced_weakly():
    made = tool(weather)
    assert weakref.ref(made)() is made


def test_name_and_description_may_be_given():
    made = tool(name="forecast", description="What  comes.")(weather)
    assert (made.definition.name, made.definition.description) == ("forecast", "What comes.")


def test_a_tool_may_be_made_of_a_tool():
    assert tool(tool(weather), risk="low", name="forecast").risk == "low"


def test_a_bound_method_is_a_tool():
    class Station:
        city = "Oslo"

        def measure(self, unit: str) -> str:
            """Measure."""
            return f"{self.city} {unit}"

    assert tool(Station().measure).execute({"unit": "K"}, CTX).value == "Oslo K"


def test_what_has_no_name_of_its_own_is_a_tool_once_it_is_given_one():
    made = tool(partial(weather, days=3), name="long_weather", description="The weather of three days.")
    assert made.execute({"city": "Oslo"}, CTX).value == "Oslo: rain for 3"


def yielding(city: str):
    """Yield."""
    yield city


class Box:
    def method(self, city: str) -> str:
        """A method."""
        return city


WRONG = [
    (5, "a tool is a function, and 5 is not one"),
    (partial(weather), "a tool's name matches"),
    (lambda city: city, "'<lambda>' does not; give one: tool(..., name=...)"),
    (yielding, "yielding: a tool returns its result, and this function yields; return a list"),
    (Box.method, "method(self): a method becomes a tool when it belongs to an object: tool(thing.method)"),
]


@check_rows("function, said", WRONG)
def test_what_is_no_function_is_refused_with_what_to_do(function, said):
    with pytest.raises(TypeError) as error:
        tool(function)
    assert said in str(error.value)


TYPED = """
from typing_extensions import assert_type  # mypy brings it
from vllm_bot import tool
from vllm_bot.tools import Tool

@tool
def bare(city: str, days: int = 1) -> str:
    '''Bare.'''
    return city

@tool(risk="low", name="other")
def called(city: str) -> list[int]:
    '''Called.'''
    return []

@tool
async def awaited(city: str) -> float:
    '''Awaited.'''
    return 1.0

@tool()
async def awaited_too(city: str) -> float:
    '''Awaited.'''
    return 1.0

async def use() -> None:
    assert_type(await awaited("Oslo"), float)
    assert_type(await awaited_too(city="Oslo"), float)

assert_type(bare("Oslo", days=2), str)
assert_type(called("Oslo"), list[int])
tools: list[Tool] = [bare, called, awaited]
"""
UNTYPED = """
from vllm_bot import tool

@tool
def bare(city: str) -> str:
    '''Bare.'''
    return city

bare(5)
bare(town="Oslo")
number: int = bare("Oslo")
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("text", "errors"), [(TYPED, 0), (UNTYPED, 3)], ids=["right", "wrong"])
def test_types_stay_intact_under_a_strict_type_checker(text, errors, list_type_errors):
    assert len(list_type_errors(text)) == errors


def test_a_tool_made_by_hand_is_callable_too():
    definition = tool(weather).definition
    assert Tool(definition, weather)("Oslo") == "Oslo: rain for 1"
