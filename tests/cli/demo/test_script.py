import pytest

from src.cli.demo.protocol import DemoRequest
from src.cli.demo.script import MARK, TOPICS, play_script
from tests.each import check_rows

EVERY = frozenset({"glob", "read", "edit", "exec"})


def ask(text):
    return {"role": "user", "content": text}


def answer(turn, result="done"):
    """A turn of the demo and what came of its call, as a native server has them."""
    return [{"role": "assistant", "content": turn.text}, {"role": "tool", "content": result}]


def play(question, result="done", tools=EVERY):
    """The turns that follow a question, until one calls nothing."""
    messages, turns = [ask(question)], []
    while not turns or turns[-1].calls:
        turns.append(play_script(DemoRequest(messages, tools, native=True)))
        messages += answer(turns[-1], result)
    return turns


@check_rows("question", ["tour", "hello", "what is here?", "read it", "please FIX it", "run it", ""])
def test_every_turn_says_that_it_is_a_demo(question):
    assert [turn for turn in play(question) if not turn.text.startswith(MARK)] == []


def test_the_tour_lists_reads_runs_edits_and_runs_again():
    calls = [name for turn in play("the tour, please") for name, _ in turn.calls]
    assert calls == ["glob", "read", "exec", "edit", "exec"]


@pytest.mark.parametrize(("question", "first"), [("tour", ["glob", "read"]), ("fix it", ["read"])])
def test_a_program_that_was_fixed_is_broken_again_before_it_is_fixed(question, first):
    turns = play(question, result='5 print(greet("world"))')
    calls = [call for turn in turns for call in turn.calls]
    assert [name for name, _ in calls[: len(first)]] == first
    edits = [(arguments["oldText"], arguments["newText"]) for name, arguments in calls if name == "edit"]
    assert edits == [("print(greet(", "print(great("), ("great(", "greet(")]


def test_it_ends_with_the_other_way_to_call_tools():
    assert "/path text" in play("tour")[-1].text
    text = play_script(DemoRequest([ask("run"), *answer(play("run")[0])], EVERY, native=False)).text
    assert "/path native" in text


def test_each_topic_is_asked_for_by_its_words():
    for topic in TOPICS:
        for word in topic.words:
            assert play(word)[0].calls == play(sorted(topic.words)[0])[0].calls


def test_other_words_are_answered_with_what_it_understands():
    (turn,) = play("What is the meaning of life?")
    assert "`tour`" in turn.text
    assert "vllm serve" in turn.text


def test_a_refusal_ends_the_topic():
    turns = play("tour", result='{"error": "Not run: the user said no."}')
    assert len(turns) == 2
    assert "You said no" in turns[1].text


def test_it_calls_no_tool_that_is_not_offered():
    assert play("list", tools=frozenset({"exec"}))[0].calls == (("exec", {"command": "ls"}),)
    assert play("read", tools=frozenset({"exec"}))[0].calls == ()


def test_on_the_text_path_tools_and_results_are_in_the_text():
    system = {"role": "system", "content": "## Available Tools\n\n- **read(path)**: Read."}
    messages = [system, ask("read"), {"role": "assistant", "content": "..."}, ask("Tool execution results:\n\n...")]
    assert play_script(DemoRequest(messages[:2], frozenset(), native=False)).calls == (("read", {"path": "greet.py"}),)
    assert play_script(DemoRequest(messages, frozenset(), native=False)).calls == ()


def test_content_in_parts_is_read():
    parts = {"role": "user", "content": [{"type": "text", "text": "tour"}]}
    assert play_script(DemoRequest([parts], EVERY, native=True)).calls
