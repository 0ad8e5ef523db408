"""What came of a question."""

import inspect

import pytest

from src.app.library.result import RunRecord, raise_if_cut
from src.errors import LimitReached
from src.tools.sdk.dependencies import DependencyKey
from src.types.events import Completed
from src.types.messages import Reasoning, Response, Text
from tests.doubles import context


def test_without_an_answer_it_is_not_complete():
    result = RunRecord().make_result()
    assert (result.text, result.stop_reason, result.is_complete) == ("", "stuck", False)


def make_result(response):
    record = RunRecord()
    record.add(Completed(response))
    return record.make_result()


def test_a_thought_alone_is_no_answer():
    result = make_result(Response((Reasoning("Hm."),)))
    assert (result.stop_reason, result.is_complete) == ("no_answer", False)
    with pytest.raises(LimitReached, match="without saying anything") as caught:
        raise_if_cut(result)
    assert caught.value.result is result


def test_the_ending_of_an_answer_that_the_server_stopped_has_its_word():
    result = make_result(Response((Text("Once"),), "other", provider_stop_reason="content_filter"))
    assert result.ending == "The server stopped the answer: content_filter."


def test_a_whole_answer_needs_no_words_about_its_ending():
    assert make_result(Response((Text("Hi"),))).ending == ""


def test_it_is_no_awaitable_so_that_a_dependency_may_be_one():
    result = make_result(Response((Text("Hi"),)))
    with context().for_run() as ctx:
        assert ctx.get(DependencyKey("greeting", lambda: result, "run")) is result
    assert not inspect.isawaitable(result)
