"""The last turns, drawn again."""

import io

import pytest

from src.agent.compaction import SUMMARY
from src.agent.loop import FINAL_ANSWER_PROMPT
from src.cli.chat.resume import MAX_ANSWER_CHARS, MAX_ITEMS, draw_last_turns
from src.cli.render.plain import PlainScreen
from src.types.messages import SystemMessage, ToolCall, ToolResult, ToolResults, UserMessage
from tests.doubles import says


def draw(*messages):
    shown = io.StringIO()
    draw_last_turns(PlainScreen(shown, shown, thoughts=False, styled=False), [SystemMessage("s"), *messages])
    return shown.getvalue()


def call(number):
    return ToolCall(f"c{number}", "read", {"path": f"{number}.txt"})


def test_questions_answers_and_calls_are_drawn_as_in_the_chat():
    results = ToolResults((ToolResult("c1", "read", "text", "1\tx"), ToolResult("c2", "read", "error", "no such file")))
    turn = UserMessage("look"), says("I look.", call(1), call(2)), results, says("Found."), UserMessage("and?")
    assert draw(*turn) == (
        '\n> look\nI look.\n  read(path="1.txt") -> 1\tx\n  read(path="2.txt") -> error: no such file\nFound.\n\n> and?\n\n'
    )


def test_only_the_last_turns_are_drawn():
    turns = [each for number in range(5) for each in (UserMessage(f"q{number}"), says(f"a{number}"))]
    assert draw(*turns) == "  (2 earlier turns not shown)\n\n> q2\na2\n\n> q3\na3\n\n> q4\na4\n\n"


def test_of_many_calls_the_last_are_drawn():
    results = [ToolResults((ToolResult(f"c{number}", "read", "text", "x"),)) for number in range(100)]
    steps = [each for number, result in enumerate(results) for each in (says("", call(number)), result)]
    shown = draw(UserMessage("look"), *steps)
    assert shown.count("read(") == MAX_ITEMS
    assert 'path="99.txt"' in shown
    assert shown.startswith("\n> look\n")


def test_of_a_long_question_its_beginning_is_drawn_and_what_was_typed_of_one_with_files():
    assert draw(UserMessage("\n".join("abcdefghijkl"))).endswith("  j\n  (2 more lines)\n\n")
    assert draw(UserMessage("see @a\n\nContent of a: ...", typed="see @a")) == "\n> see @a\n\n"


@pytest.mark.parametrize(("before", "fence"), [("```\n", "```\n"), ("```\n```\n", "\n")])
def test_of_a_long_answer_its_end_is_drawn_and_code_stays_code(before, fence):
    shown = draw(UserMessage("q"), says(before + "line\n" * 3000))
    assert len(shown) < MAX_ANSWER_CHARS + 100
    assert f"characters before this are not shown]\n\n{fence}line\nline\n" in shown


def test_what_the_program_said_to_the_model_is_no_question():
    assert draw(UserMessage(SUMMARY.format(summary="x")), FINAL_ANSWER_PROMPT, says("Done.")) == "Done.\n\n"


def test_no_escape_of_an_old_conversation_reaches_the_terminal():
    assert "\x1b" not in draw(UserMessage("\x1b[31mred"), says("\x1b[2Jgone"))


def test_of_an_empty_conversation_nothing_is_drawn():
    assert draw() == ""
