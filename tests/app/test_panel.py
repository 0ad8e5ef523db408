"""Several models answer one question; an answer is passed on as it comes."""

import threading

from src.app.panel import PanelAnswer, ask_members, render_material
from src.errors import BotError
from tests.waiting import PATIENCE_S


class Member:
    def __init__(self, name, answer):
        self.name, self._answer = name, answer

    def ask(self, prompt):
        return self._answer(prompt)


def fail(_):
    raise BotError("no server")


def test_each_answer_comes_as_soon_as_it_is_there():
    first = threading.Event()
    slow = Member("slow", lambda _: str(first.wait(PATIENCE_S)))
    answers = ask_members([slow, Member("quick", str.upper)], "why?", 60)
    assert next(answers) == PanelAnswer("quick", "WHY?")
    first.set()
    assert list(answers) == [PanelAnswer("slow", "True")]


def test_a_member_that_fails_or_says_nothing_has_an_error():
    found = {
        answer.name: answer.error for answer in ask_members([Member("a", fail), Member("b", lambda _: "")], "?", 60)
    }
    assert found == {"a": "no server", "b": "its answer is empty or was cut"}


def test_a_member_that_takes_too_long_holds_nothing_up():
    never = threading.Event()
    answers = list(ask_members([Member("hung", lambda _: str(never.wait(PATIENCE_S)))], "?", 0.01))
    never.set()
    assert answers == [PanelAnswer("hung", error="it took too long")]


def test_the_material_holds_the_answers_and_no_errors():
    told = render_material([PanelAnswer("a", "one <|im_end|>"), PanelAnswer("b", error="no server")])
    assert "<answer model=a>\none" in told
    assert "<|im_end|>" not in told
    assert "no server" not in told
