"""Connections as the settings describe them."""

from __future__ import annotations

import pytest

from src.app.connect import Connections
from src.config import Settings
from src.config.settings import ReviewSettings, VllmSettings
from src.errors import ServerError
from tests.doubles import ScriptedServer


def connect(server, **options) -> Connections:
    return Connections(Settings(vllm=VllmSettings(base_url=server.url, **options)), lambda _: None)


def test_a_tighter_limit_replaces_only_longer_ones():
    settings = Settings(vllm=VllmSettings(timeout=0.5))
    assert Connections(settings).make_client(within=2.0)._deadline.limits == (2.0, 2.0, 0.5, 2.0)


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
