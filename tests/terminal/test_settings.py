"""Settings as a person meets them: the first start, the file, servers by name. On a full terminal."""

from __future__ import annotations

import json

import pytest

from src.app.candidates import USUAL_PORTS
from src.config import BASE_URLS
from tests.thorough import only_thorough

from .terminal import Server, Terminal

NOWHERE = "http://localhost:9/v1"


@pytest.fixture
def start(tmp_path):
    """Opens a terminal on a home with these settings."""
    opened = []
    file = tmp_path / ".config" / "vllm-bot" / "config.json"

    def start(settings, *options, **environment):
        file.parent.mkdir(parents=True)
        if settings:
            file.write_text(json.dumps(settings))
        opened.append(Terminal(tmp_path, None, columns=120, options=options, **environment))
        opened[-1].file = file
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.__exit__()


def messages(request):
    return [message["content"] for message in request["messages"] if message["role"] != "system"]


@pytest.fixture
def no_server(monkeypatch):
    """No server is found, whatever runs on this machine."""
    monkeypatch.setitem(BASE_URLS, "vllm", NOWHERE)
    for port in [*USUAL_PORTS]:
        monkeypatch.delitem(USUAL_PORTS, port)


@pytest.mark.usefixtures("no_server")
def test_a_fresh_install_asks_for_the_address_completes_it_and_saves_it(start):
    with Server(["H"], ["Hello."], models=("tiny",)) as server:  # the first finds out how tools are called
        chat = start({"vllm": {"base_url": NOWHERE}})
        chat.shows(r"Where is your server\?")
        chat.line("127.0.0.1:9")
        chat.shows(r"No server answers at 127\.0\.0\.1:9")
        chat.line(server.url.removeprefix("http://").removesuffix("/v1"))
        chat.shows(f"The server is at {server.url}")
        chat.shows("Saved as vllm.base_url in")
        chat.prompts()
        chat.line("hi")
        chat.shows("^Hello.$")
    assert json.loads(chat.file.read_text()) == {"vllm": {"base_url": server.url}}


@pytest.mark.parametrize("door", ["option", pytest.param("environment", marks=only_thorough)])
def test_an_address_without_scheme_and_path_is_completed_said_once_and_answers(start, door):
    with Server(["H"], ["Hello."], models=("tiny",)) as server:  # the first finds out how tools are called
        where = server.url.removeprefix("http://").removesuffix("/v1")
        chat = start({}, "-u", where) if door == "option" else start({}, VLLM_BASE_URL=where)
        chat.shows(rf"The server is at {server.url} \(given: {where}\)")
        chat.prompts()
        chat.line("hi")
        chat.shows("^Hello.$")
        assert chat.everything.count("is at http") == 1
    assert not chat.file.exists()


def test_what_the_owner_of_a_model_wants_is_in_each_request(start):
    vllm = {"top_p": 0.9, "stop": ["END"], "extra_body": {"priority": 3}, "chat_template_kwargs": {"a": 1}}
    models = {"ti*": {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "low"}}
    with Server(["Hello."]) as server:
        chat = start({"vllm": {**vllm, "base_url": server.url}, "models": models}, "-m", "tiny")
        chat.prompts()
        chat.line("hi")
        chat.shows("^Hello.$")
    sent = {"top_p": 0.9, "stop": ["END"], "priority": 3, "top_k": 20, "reasoning_effort": "low"}
    assert sent.items() <= server.requests[0].items()
    assert server.requests[0]["chat_template_kwargs"] == {"enable_thinking": False}


def test_model_switches_the_server_and_keeps_the_conversation(start):
    with Server(["From big."], ["Back."]) as big, Server(["From small."], models=("mini",)) as small:
        where = small.url.removeprefix("http://").removesuffix("/v1")
        servers = {"big": {"base_url": big.url, "model": "tiny"}, "small": {"base_url": where}}
        chat = start({"servers": servers})
        chat.prompts()
        chat.line("one")
        chat.shows("^From big.$")
        chat.prompts()
        chat.line("/model small")
        chat.shows(f"mini at small \\({small.url}\\) now answers")
        chat.prompts()
        chat.line("two")
        chat.shows("^From small.$")
        chat.prompts()
        chat.line("/model big:other")
        chat.shows("other at big")
        chat.prompts()
        chat.line("three")
        chat.shows("^Back.$")
    assert messages(small.requests[0]) == ["one", "From big.", "two"]
    assert messages(big.requests[1]) == ["one", "From big.", "two", "From small.", "three"]
    assert [each["model"] for each in (*big.requests, *small.requests)] == ["tiny", "other", "mini"]


class TestThinking:
    def test_think_sets_what_the_template_reads_and_the_status_line_shows_it(self, start):
        with Server(["One."], ["Two."], models=("org/Qwen3-8B",)) as server:
            vllm = {"base_url": server.url, "chat_template_kwargs": {"mine": 1}}
            chat = start({"vllm": vllm}, "-m", "org/Qwen3-8B")
            chat.prompts()
            chat.line("/think off")
            chat.shows('think off: org/Qwen3-8B is sent .*"enable_thinking": false')
            chat.shows("Qwen3-8B  think off  ")
            chat.prompts()
            chat.line("hi")
            chat.shows("^One.$")
            chat.prompts()
            chat.line("/think high")
            chat.shows("Qwen3-8B cannot be set to high; /think on, off")
            chat.prompts()
            chat.line("/think")
            chat.shows("think off; /think on, off")
            chat.prompts()
            chat.line("/think on")
            chat.prompts()
            chat.line("more")
            chat.shows("^Two.$")
        sent = [each["chat_template_kwargs"] for each in server.requests]
        assert sent == [{"mine": 1, "enable_thinking": False}, {"mine": 1, "enable_thinking": True}]

    @only_thorough
    def test_of_an_unknown_model_it_says_so(self, start):
        with Server() as server:
            chat = start({"vllm": {"base_url": server.url}}, "-m", "tiny")
            chat.prompts()
            chat.line("/think off")
            chat.shows("Nothing is known of how tiny is told to think")


class TestTheFirstMessage:
    def test_words_that_are_no_command_start_a_chat_with_them(self, start):
        with Server(["Done."]) as server:
            chat = start({}, "-u", server.url, "-m", "tiny", "fix", "the test", "--mode", "edits")
            chat.shows("^> fix the test$")
            chat.shows("^Done.$")
            chat.prompts()
            chat.shows("mode edits")
        assert messages(server.requests[0]) == ["fix the test"]


def test_without_a_model_the_only_one_is_taken_and_how_it_calls_tools_is_found_out(start):
    with Server(["H"], models=("tiny",)) as server:
        chat = start({"vllm": {"base_url": server.url}})
        chat.shows("model +tiny, .*native tool calls")
        chat.prompts()
    assert len(server.requests) == 1  # "Hello", with one token


@only_thorough
def test_tokens_show_what_the_server_had_in_its_cache(start):
    usage = {"prompt_tokens": 900, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 600}}
    with Server(["Hello.", {"usage": usage}]) as server:
        chat = start({"vllm": {"base_url": server.url}}, "-m", "tiny")
        chat.prompts()
        chat.line("hi")
        chat.shows("^Hello.$")
        chat.prompts()
        chat.line("/tokens")
        chat.shows("600 of the last prompt's 900 were in the server's cache")
