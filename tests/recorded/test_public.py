"""The names that programs import are those of commit 6e7a888, with the same fields and parameters."""

from __future__ import annotations

import inspect

import src
from src import parsing
from src.app.library.options import Sampling
from src.tools import TOOL_DEFINITIONS
from tests.each import check_rows

NAMES = [
    "Agent", "tool", "ToolContext", "TextDelta", "ReasoningDelta", "CallStarted", "CallDenied", "CallFinished", "Notice",
    "Completed", "Request", "Answer", "BotError", "Cancelled", "ToolError", "__version__",
]  # fmt: skip
FIELDS = {
    "TextDelta": ["text"],
    "ReasoningDelta": ["text"],
    "CallStarted": ["call"],
    "CallDenied": ["call", "reason"],
    "CallFinished": ["call", "result"],
    "Notice": ["text"],
    "Completed": ["response"],
    "Request": ["call", "reason", "revise", "preview", "rule", "reviews"],
    "Answer": ["allowed", "message", "always", "arguments"],
}
CONNECT = {
    "base_url": "http://localhost:8000/v1",
    "model": "",
    "tools": (),
    "approve": None,
    "system": "You are a helpful assistant. Use the tools to look and to act, rather than guessing.",
    "api_key": "",
    "provider": "vllm",
    "workspace": ".",
    "max_tool_turns": 10,
}
CONTEXT = [
    "clock", "end_run", "for_call", "for_run", "get", "logger", "raise_if_cancelled", "resolve", "wait_for",
]  # fmt: skip


def list_parameters(function):
    return {name: each.default for name, each in inspect.signature(function).parameters.items() if name != "self"}


def test_the_package_has_these_names():
    assert [name for name in NAMES if name not in src.__all__] == []
    assert all(hasattr(src, name) for name in NAMES)


@check_rows("name", FIELDS)
def test_a_value_has_these_fields(name):
    kind = getattr(src, name)
    assert list(getattr(kind, "_fields", None) or kind.__struct_fields__)[: len(FIELDS[name])] == FIELDS[name]


def test_an_agent_is_connected_with_these_parameters():
    assert CONNECT.items() <= list_parameters(src.Agent.connect).items()
    assert Sampling.__annotations__.keys() >= {"temperature", "max_tokens"}  # which are now among these
    assert [list(list_parameters(each)) for each in (src.Agent.answer, src.Agent.ask, src.Agent.cancel)] == [
        ["question", "tool_choice", "schema", "raise_on_limit"],  # these came later
        ["question", "tool_choice", "schema"],
        [],
    ]


def test_a_tool_is_made_with_these_parameters():
    assert list_parameters(src.tool) == {
        "function": None, "name": "", "description": "", "risk": "high", "preview": None,
    }  # fmt: skip
    assert [name for name in CONTEXT if not hasattr(src.ToolContext, name)] == []


def test_an_error_has_a_message_and_a_hint():
    error = src.BotError("a", "b")
    assert (error.message, error.hint, error.exit_code, str(error)) == ("a", "b", 1, "a\nb")
    assert issubclass(src.Cancelled, src.BotError) and issubclass(src.ToolError, src.BotError)


def test_the_parser_is_called_as_before():
    tools = TOOL_DEFINITIONS
    text = 'Look. TOOL_CALL: {"name": "read", "args": {"path": "a",}}'
    found = parsing.extract_tool_calls(text, tools)
    (call,) = found.calls
    assert (found.content.strip(), found.malformed, found.reasoning) == ("Look.", (), "")
    assert (call.name, call.arguments, call.origin) == ("read", {"path": "a"}, "text")
    assert call.repaired == ("trailing comma",)
    parser = parsing.StreamParser(tools)
    assert parsing.gathered([*parser.feed(text), *parser.close()]) == found
