"""The names that programs import. They stay, in every version."""

from __future__ import annotations

import sys

import pytest

import src
from src import parsing
from src.types.messages import ToolCall
from tests.each import check_rows

PACKAGE = [
    "Server",
    "AsyncServer",
    "AsyncAgent",
    "Agent",
    "Run",
    "AsyncRun",
    "Result",
    "Conversation",
    "Model",
    "AsyncModel",
    "tool",
    "Tool",
    "ToolContext",
    "DependencyKey",
    "Media",
    "Timeouts",
    "Request",
    "Answer",
    "LATER",
    "Event",
    "TextDelta",
    "ReasoningDelta",
    "CallStarted",
    "CallDenied",
    "CallFinished",
    "Compacted",
    "LimitHit",
    "Notice",
    "Completed",
    "Message",
    "SystemMessage",
    "UserMessage",
    "Response",
    "ToolCall",
    "MalformedCall",
    "ToolResult",
    "ToolResults",
    "ToolDefinition",
    "ToolChoice",
    "Named",
    "Usage",
    "BotError",
    "Cancelled",
    "ConfigError",
    "LimitReached",
    "ToolError",
]


@check_rows("name", PACKAGE)
def test_the_package_offers(name):
    assert name in src.__all__
    assert getattr(src, name)


@pytest.mark.parametrize("name", ["StreamParser", "extract_tool_calls", "gathered"])
def test_the_parser_offers(name):
    assert name in parsing.__all__
    assert getattr(parsing, name)


def test_a_whole_answer_gives_content_calls_malformed_and_reasoning():
    found = parsing.extract_tool_calls("No call here.", ())
    assert (found.content, found.calls, found.malformed, found.reasoning) == ("No call here.", (), (), "")


def test_the_events_of_a_stream_in_sum_are_the_whole_answer():
    parser = parsing.StreamParser(())
    events = [*parser.feed("No "), *parser.feed("call."), *parser.close()]
    assert parsing.gathered(events).content == "No call."


def test_a_call_has_a_name_arguments_an_origin_and_repairs():
    call = ToolCall("1", "read", {"path": "a"})
    assert (call.name, call.arguments, call.origin, call.repaired) == ("read", {"path": "a"}, "native", ())


def test_the_call_of_a_result_has_arguments_even_if_none_could_be_read():
    assert src.MalformedCall("1", "read", "{", "cut").arguments == {}


def test_the_registry_is_a_list_of_openai_tools():
    from src.tools import TOOL_DEFINITIONS

    assert all(entry["type"] == "function" for entry in TOOL_DEFINITIONS)


def test_all_of_them_can_be_imported_where_aiohttp_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    names: dict[str, object] = {}
    exec("from src import *", names)
    assert {"Server", "tool", "__version__"} <= names.keys()
    assert "AsyncServer" not in names
