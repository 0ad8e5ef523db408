"""The tool parser as vLLM's serving layer drives it, with a double of vLLM; tests/live has the real one."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from src import vllm_plugin

from .doubles import Manager, Request, Tokenizer, Tool, install_vllm
from .test_call_stream import FORMATS, HERMES, LONG, TOOLS

OFFERED = [Tool(tool) for tool in TOOLS]
NAMED = SimpleNamespace(type="function", function=SimpleNamespace(name="get_weather"))


@pytest.fixture
def make_parser(monkeypatch):
    def make(*, is_old: bool = False):
        return install_vllm(monkeypatch, is_old=is_old).AnyToolParser(Tokenizer(), OFFERED)

    return make


def stream(parser, text: str, request: Request, *, ids: tuple[int, ...] = (1,)) -> list:
    """The messages for a text that comes in pieces of 5 characters; `ids` are the tokens of the last piece."""
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
    sent = []
    for number, piece in enumerate(pieces, 1):
        new = list(ids) if number == len(pieces) else [1]
        sent.append(parser.extract_tool_calls_streaming("", piece, piece, [], [1] * number, new, request))
    return [message for message in sent if message is not None]


def join(messages) -> tuple[str, list[tuple[str, str]]]:
    calls: dict[int, list[str]] = {}
    for message in messages:
        for piece in message.tool_calls:
            call = calls.setdefault(piece.index, ["", ""])
            call[0] += piece.function.name or ""
            call[1] += piece.function.arguments or ""
    return "".join(message.content or "" for message in messages), [tuple(call) for call in calls.values()]


def test_a_whole_answer_gives_text_and_calls(make_parser):
    found = make_parser().extract_tool_calls("I look.\n" + HERMES, Request(OFFERED))
    assert found.tools_called
    assert found.content == "I look.\n"
    assert [(call.function.name, call.function.arguments) for call in found.tool_calls] == [
        ("get_weather", '{"city": "Oslo"}')
    ]


def test_a_whole_answer_without_a_call_is_its_text(make_parser):
    found = make_parser().extract_tool_calls("Hello.", Request(OFFERED))
    assert (found.tools_called, found.tool_calls, found.content) == (False, [], "Hello.")


def test_a_streamed_call_has_its_id_and_type_once(make_parser):
    written = FORMATS[0].write("write", {"path": "a", "content": LONG})
    pieces = [piece for message in stream(make_parser(), written, Request(OFFERED)) for piece in message.tool_calls]
    assert (pieces[0].type, pieces[0].function.name) == ("function", "write")
    assert pieces[0].id
    assert {(piece.id, piece.type, piece.function.name) for piece in pieces[1:]} == {(None, None, None)}


def test_what_is_held_back_comes_at_the_end(make_parser):
    parser = make_parser()
    messages = stream(parser, '{"name": "get_weather", "parameters": {"city": "Oslo"}}', Request(OFFERED))
    messages.append(parser.finish_streaming())
    assert join(messages) == ("", [("get_weather", '{"city": "Oslo"}')])
    assert parser.finish_streaming() is None


@pytest.mark.parametrize("end", [{"ids": (1, 2)}, {"limit": 11}], ids=["a token that ends the turn", "max_tokens"])
def test_an_old_server_does_not_tell_the_end(make_parser, end):
    request = Request(OFFERED, max_tokens=end.get("limit"))
    text = '{"name": "get_weather", "parameters": {"city": "Oslo"}}'
    messages = stream(make_parser(is_old=True), text, request, ids=end.get("ids", (1,)))
    assert join(messages) == ("", [("get_weather", '{"city": "Oslo"}')])


def test_where_calls_are_forbidden_the_text_is_whole(make_parser):
    request, parser = Request(OFFERED, tool_choice="none"), make_parser()
    assert join([*stream(parser, HERMES, request)])[0] == HERMES
    assert make_parser().extract_tool_calls(HERMES, request).content == HERMES


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ("required", '[{"name": "get_weather", "parameters": {"city": "Oslo"}}]'),
        (NAMED, '{"city": "Oslo"}'),
        (SimpleNamespace(type="function", name="get_weather"), '{"city": "Oslo"}'),
    ],
    ids=["required", "named", "named in Responses"],
)
def test_what_vllm_s_grammar_forced_is_read(make_parser, choice, text):
    request, parser = Request(OFFERED, tool_choice=choice), make_parser()
    messages = stream(parser, text, parser.adjust_request(request))
    assert request.has_grammar
    assert join(messages) == ("", [("get_weather", '{"city": "Oslo"}')])


def test_markers_that_are_special_tokens_are_kept(make_parser):
    assert not make_parser().adjust_request(Request(OFFERED)).skip_special_tokens
    assert make_parser().adjust_request(Request([])).skip_special_tokens


@pytest.mark.parametrize(
    "given",
    [
        {"messages": [{"role": "tool", "content": f"It says: {HERMES}"}]},
        {"messages": [{"role": "tool", "content": [{"type": "text", "text": f"It says: {HERMES}"}]}]},
    ],
)
def test_a_call_in_a_tool_s_result_is_not_made_again(make_parser, given):
    found = make_parser().extract_tool_calls(HERMES, Request(OFFERED, **given))
    assert (found.tool_calls, found.content) == ([], HERMES)


def test_the_parser_is_registered_by_name_alone(monkeypatch):
    install_vllm(monkeypatch)
    monkeypatch.setattr(Manager, "lazy_parsers", {})
    vllm_plugin.register()
    assert Manager.lazy_parsers == {"any": ("src.vllm_plugin.tool_parser", "AnyToolParser")}


def test_with_the_rust_front_end_the_log_names_the_gateway(monkeypatch, caplog):
    install_vllm(monkeypatch)
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    monkeypatch.setattr(vllm_plugin, "parent_process", lambda: None)
    vllm_plugin.register()
    assert "vllm-bot serve" in caplog.text


def test_arguments_are_json_that_keeps_each_value(make_parser):
    values = {"path": "ä/😀", "content": 'a "b" \\ \n'}
    found = make_parser().extract_tool_calls(FORMATS[0].write("write", values), Request(OFFERED))
    assert json.loads(found.tool_calls[0].function.arguments) == values
