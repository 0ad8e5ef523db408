"""-p --panel through the whole program; the servers are scripted."""

import json

import pytest

from src.cli.main import main
from tests.doubles import ScriptedServer


def says(text):
    return [{"content": text}, {"finish": "stop"}]


@pytest.fixture
def ask(tmp_path, capsys):
    def run(*options, members=("one", "two"), chair="", summary="Both agree."):
        with (
            ScriptedServer(says("Yes."), says(summary)) as first,
            ScriptedServer(says("No."), says(summary)) as second,
            ScriptedServer(says(summary)) as own,
        ):
            rows = [{"base_url": each.url, "model": name} for name, each in zip(members, (first, second), strict=False)]
            (tmp_path / "config.json").write_text(json.dumps({"review": {"models": rows, "chair": chair}}))
            words = ["-c", str(tmp_path / "config.json"), "-w", str(tmp_path), "-u", own.url, "-p", "Is it?", "--panel"]
            code = main([*words, *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err, [first, second, own]

    return run


def find_question(server):
    return next(request for request in server.requests if "messages" in request)["messages"][-1]["content"]


def test_the_answers_are_shown_and_the_chats_own_model_sums_up(ask):
    code, out, err, (first, _, own) = ask()
    assert (code, out) == (0, "Both agree.\n")
    assert "one at" in err
    assert "Yes." in err
    assert "No." in err
    assert find_question(first) == "Is it?"
    assert "Yes." in find_question(own)
    assert "Is it?" in find_question(own)


def test_a_named_model_sums_up(ask):
    code, out, _, (_, second, own) = ask(chair="two")
    assert (code, out) == (0, "Both agree.\n")
    assert "Yes." in [request for request in second.requests if "messages" in request][-1]["messages"][-1]["content"]
    assert not [request for request in own.requests if "messages" in request]


def test_without_models_it_says_where_to_name_them(ask):
    code, _, err, _ = ask(members=())
    assert code == 2
    assert "review.models" in err


def test_a_chair_that_is_no_member_is_an_error(ask):
    code, _, err, _ = ask(chair="three")
    assert code == 2
    assert "it is one of one, two" in err
