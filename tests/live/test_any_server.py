"""What holds on any vLLM server, whatever model it serves: these run against VLLM_BOT_LIVE_URL as well."""

from __future__ import annotations

import asyncio

import pytest

from src.transport import Client
from src.transport.http import find_free_port
from src.types.events import Completed, TextDelta
from src.types.messages import UserMessage
from tests.doubles import list_models, make_core, make_model

from .rig import Server

GREETING = "Say hello, and nothing else."


def test_a_question_is_answered_on_standard_output_alone(program, any_server):
    answer = program.ask(any_server, GREETING)
    assert answer.stdout.strip()
    assert answer.stdout.endswith("\n")
    assert answer.code == 0


def test_a_question_may_come_on_standard_input(program, any_server):
    answer = program.pipe(any_server, GREETING)
    assert answer.stdout.strip()
    assert answer.code == 0


def test_an_empty_question_is_bad_usage(program, any_server):
    answer = program.pipe(any_server, "\n")
    assert (answer.stdout, answer.code) == ("", 2)
    assert answer.stderr.startswith("vllm-bot: The question is empty.\n")


class TestTheModel:
    @pytest.fixture
    def client(self, any_server):
        with Client(any_server.base_url, any_server.api_key) as client:
            yield client

    @pytest.fixture(params=["threads", "asyncio"])
    def model(self, client, any_server, request):
        """On both drivers."""
        name = list_models(client)[0]
        if request.param == "threads":
            yield make_model(client, name)
            return
        pytest.importorskip("aiohttp")
        from src.transport.async_http import AsyncClient
        from tests.bridge import BridgedModel

        loop, other = asyncio.new_event_loop(), AsyncClient(any_server.base_url, any_server.api_key)
        yield BridgedModel(loop, other, make_core(other.base_url, name))
        loop.run_until_complete(other.close())
        loop.close()

    def test_the_answer_comes_in_pieces_that_make_up_the_whole(self, model):
        *deltas, completed = model.respond([UserMessage("Count to four hundred.")])
        assert isinstance(completed, Completed)
        text = [event.text for event in deltas if isinstance(event, TextDelta)]
        assert len(text) > 10
        assert "".join(text) == completed.response.text

    def test_the_servers_count_of_tokens_is_kept(self, model):
        *_, completed = model.respond([UserMessage(GREETING)])
        usage = completed.response.usage
        assert usage.input_tokens > 0
        assert usage.output_tokens > 0

    def test_the_answer_names_its_model(self, model):
        *_, completed = model.respond([UserMessage(GREETING)])
        assert completed.response.model == model.name


class TestWhatIsNotThere:
    def test_a_server_is_told_in_one_message_with_the_way_to_start_one(self, program):
        address = f"http://127.0.0.1:{find_free_port()}/v1"
        answer = program.ask(Server("none", address), GREETING)
        assert (answer.stdout, answer.code) == ("", 4)
        *_, tried, hint = answer.stderr.splitlines()
        assert tried.startswith(f"vllm-bot: No server at {address}")
        assert "Connection refused" in tried
        assert "vllm serve MODEL --enable-auto-tool-choice --tool-call-parser PARSER" in hint

    def test_a_model_that_is_not_served_is_named_and_so_is_one_that_is(self, program, any_server):
        answer = program.ask(any_server, GREETING, "--model", "missing")
        with Client(any_server.base_url, any_server.api_key) as client:
            served = list_models(client)
        assert (answer.stdout, answer.code) == ("", 1)
        assert "missing" in answer.stderr
        assert served[0] in answer.stderr

    def test_an_address_without_v1_is_completed(self, program, any_server):
        address = any_server.base_url.removesuffix("/v1")
        with Client(any_server.base_url, any_server.api_key) as client:
            served = list_models(client)
        answer = program.ask(any_server, GREETING, "--model", served[0], "--base-url", address)
        assert answer.code == 0
        assert f"The server is at {any_server.base_url} (given: {address})." in answer.stderr
        assert "Traceback" not in answer.stderr
