"""Connections as the settings describe them."""

from __future__ import annotations

from contextlib import suppress

import pytest

from src.app.connect import Connections
from src.config import BASE_URLS, Settings
from src.config.settings import ReviewSettings, VllmSettings
from src.errors import BotError, ConfigError, ServerError
from src.transport import Timeouts
from src.transport.copilot import CopilotClient
from tests.doubles import ScriptedServer
from tests.faults.scripts import body
from tests.faults.server import FaultServer


def connect(server, **options) -> Connections:
    return Connections(Settings(vllm=VllmSettings(base_url=server.url, **options)), lambda _: None)


def test_a_tighter_limit_replaces_only_longer_ones():
    settings = Settings(vllm=VllmSettings(timeout=0.5))
    assert Connections(settings).make_client(within=2.0)._deadline.limits == Timeouts(2.0, 2.0, 0.5, 2.0, 2.0)


def test_models_are_listed_with_their_context_where_it_is_known():
    with ScriptedServer(models=("big", "small")) as server:
        assert connect(server).list_models() == {"big": None, "small": None}


def test_a_reviewer_answers_with_its_text_unless_it_was_cut_off():
    whole, cut = [{"content": "APPROVE: fine"}, {"finish": "stop"}], [{"content": "APPR"}, {"finish": "length"}]
    with ScriptedServer(whole, cut) as server:
        row = {"base_url": server.url, "model": "tiny"}
        board = Connections(Settings(review=ReviewSettings(models=(row,)))).make_review_board()
        (reviewer,) = board.reviewers
        assert [reviewer.ask("May it run?"), reviewer.ask("May it run?")] == ["APPROVE: fine", ""]


def test_a_limited_model_tries_nothing_twice():
    failure = (500, {"error": {"message": "no luck"}})
    with ScriptedServer(failure, failure) as server:
        model = connect(server).make_model("tiny", within=5.0)
        with pytest.raises(ServerError):
            list(model.respond([]))
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("places", "sent"), [({}, None), ({"vllm.base_url": "command line: vllm.base_url"}, "Bearer sekret")]
)
def test_the_default_address_gets_the_key_only_if_it_was_named(places, sent, monkeypatch):
    with FaultServer(body("{}")) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        monkeypatch.setitem(BASE_URLS, "vllm", url)
        settings = Settings(vllm=VllmSettings(base_url=url, api_key="sekret"), places=places)
        with Connections(settings).make_client() as client, client.open("GET", "anything"):
            pass
    assert server.requests[0].headers.get("authorization") == sent


def test_a_reviewer_gets_its_own_key_at_the_default_address():
    reviewer = {"base_url": BASE_URLS["vllm"], "model": "r", "api_key": "sekret"}
    board = Connections(Settings(review=ReviewSettings(models=(reviewer,)))).make_review_board()
    assert [each.model._client._api_key for each in board.reviewers] == ["sekret"]


def test_a_reviewer_without_an_address_is_at_its_providers_own():
    def make(**row):
        review = ReviewSettings(models=({"model": "r", **row},))
        return Connections(Settings(review=review)).make_review_board().reviewers[0]

    assert make(provider="anthropic").model._client.base_url == BASE_URLS["anthropic"]
    assert isinstance(make(provider="copilot").model._client, CopilotClient)
    with pytest.raises(ConfigError, match="vertex has no address of its own; r needs a base_url"):
        make(provider="vertex")


def test_a_reviewer_may_be_a_server_by_name_with_its_own_key_and_headers(monkeypatch):
    with FaultServer(body("{}")) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        small = VllmSettings(base_url=url, model="mini", api_key="theirs", headers={"X-Team": "a"})
        main = VllmSettings(base_url="http://127.0.0.1:9/v1", api_key="ours", headers={"X-Main": "b"}, top_k=3)
        review = ReviewSettings(models=({"server": "small"}, {"base_url": url, "model": "m"}))
        settings = Settings(vllm=main, server="vllm", servers={"vllm": main, "small": small}, review=review)
        for reviewer in Connections(settings).make_review_board().reviewers:
            with suppress(BotError):
                reviewer.ask("May it run?")
    named, placed = server.requests
    assert (named.headers["authorization"], named.headers["x-team"]) == ("Bearer theirs", "a")
    assert "x-main" not in named.headers | placed.headers
    assert "authorization" not in placed.headers
    assert b"top_k" not in named.body + placed.body
