"""An approval that waits: the run ends at the call, and another agent goes on with the answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from src import LATER, Answer, AsyncServer, CallFinished, CallStarted, Cancelled, Conversation, Server, task, tool
from src.errors import BotError, ConfigError
from src.testing import ScriptedServer, call
from src.types.call_results import NOT_PERMITTED, UNKNOWN
from src.types.messages import Response, ToolCall, ToolResult, ToolResults, UserMessage
from tests.sources import ROOT
from tests.thorough import only_thorough

SENT: list[str] = []


@pytest.fixture(autouse=True)
def nothing_is_sent():
    SENT.clear()


@tool(risk="low")
def weather(city: str) -> str:
    """The weather in a city."""
    SENT.append(f"asked for {city}")
    return f"{city}: rain"


@tool
def send(to: str) -> str:
    """Send a mail."""
    SENT.append(to)
    return f"sent to {to}"


CALLS = [call("weather", city="Oslo"), call("send", to="ann"), call("weather", city="Rome"), call("send", to="bob")]
TOOLS = [weather, send]


def wait(request):
    return LATER


def repeat_results(messages):
    return " | ".join(message["content"] for message in messages if message["role"] == "tool")


def suspend() -> Conversation:
    """A conversation that ends in calls of which two wait, as another process reads it."""
    with ScriptedServer(CALLS) as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, approve=wait)
        agent.answer("Tell them.")
        return Conversation.from_json(agent.conversation.to_json())


def answer_all(agent, *answers):
    return {each.id: answer for each, answer in zip(agent.pending, answers, strict=True)}


def test_the_run_ends_at_the_first_call_that_waits_and_names_all_that_ask():
    with ScriptedServer(CALLS) as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, approve=wait)
        result = agent.answer("Tell them.")
    assert (result.stop_reason, result.is_complete) == ("pending", False)
    assert [dict(each.arguments) for each in result.pending] == [{"to": "ann"}, {"to": "bob"}]
    assert result.pending == agent.pending
    assert SENT == ["asked for Oslo"]


def test_another_agent_goes_on_with_the_answers():
    with ScriptedServer(repeat_results) as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=suspend())
        result = agent.resume(answer_all(agent, True, Answer(False, "Not Bob."))).finish()
    assert SENT == ["asked for Oslo", "ann", "asked for Rome"]
    told = 'Oslo: rain | sent to ann | Rome: rain | {"error":"Not run: Not Bob.","denied":true}'
    assert (result.text, result.stop_reason, agent.pending) == (told, "end_turn", ())


def test_a_conversation_that_was_resumed_can_be_stored_again():
    with ScriptedServer("Done.", "Gladly.") as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=suspend())
        agent.resume(answer_all(agent, True, True)).finish()
        assert Conversation.from_json(agent.conversation.to_json()) == agent.conversation
        assert str(agent.answer("Thanks.")) == "Gladly."


def test_an_answer_may_change_the_arguments():
    with ScriptedServer("Done.") as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=suspend())
        agent.resume(answer_all(agent, Answer(True, arguments={"to": "eve"}), False)).finish()
    assert SENT == ["asked for Oslo", "eve", "asked for Rome"]


def test_it_goes_on_without_native_calls():
    with ScriptedServer(CALLS, has_parser=False) as scripted, Server(scripted.url) as server:
        first = server.agent(TOOLS, approve=wait)
        first.answer("Tell them.")
        stored = first.conversation.to_dict()
    with ScriptedServer("Done.", has_parser=False) as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=stored)
        agent.resume(answer_all(agent, True, True)).finish()
        assert "sent to bob" in scripted.requests[-1]["messages"][-1]["content"]


def test_it_is_the_same_on_asyncio():
    async def wait_later(request):
        return LATER

    async def ask(url):
        async with AsyncServer(url) as server:
            result = await server.agent(TOOLS, approve=wait_later).answer("Tell them.")
            agent = server.agent(TOOLS, conversation=suspend())
            events = [event async for event in agent.resume(answer_all(agent, True, False))]
            return result, agent, events

    with ScriptedServer(CALLS, repeat_results) as scripted:
        result, agent, events = asyncio.run(ask(scripted.url))
    assert [dict(each.arguments) for each in result.pending] == [{"to": "ann"}, {"to": "bob"}]
    assert [event.call.name for event in events if isinstance(event, CallStarted)] == ["send", "weather"]
    assert "sent to ann" in agent.conversation.text


@pytest.mark.parametrize("choice", ["required", "none"])
def test_the_turn_that_goes_on_need_not_call_again(choice):
    with ScriptedServer("Done.") as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, tool_choice=choice, conversation=suspend())
        assert str(agent.resume(answer_all(agent, True, True)).finish()) == "Done."
        assert scripted.requests[-1].get("tool_choice", "auto") == "auto"
    assert SENT == ["asked for Oslo", "ann", "asked for Rome", "bob"]


def test_a_run_may_wait_more_than_once():
    with ScriptedServer(call("send", to="eve"), "Done.") as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, approve=wait, conversation=suspend())
        result = agent.resume(answer_all(agent, True, True)).finish()
        assert [dict(each.arguments) for each in result.pending] == [{"to": "eve"}]
        assert str(agent.resume(answer_all(agent, True)).finish()) == "Done."
    assert SENT[-3:] == ["asked for Rome", "bob", "eve"]


def test_a_later_call_with_the_same_id_is_not_answered_by_it():
    same = ToolCall("x", "send", {"to": "ann"})
    stored = Conversation([UserMessage("Go."), Response((same,), "tool_use"), ToolResults(())])
    with ScriptedServer(call("send", to="ann"), repeat_results) as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=stored)
        agent.resume({"x": True}).finish()
    assert SENT == ["ann"]


def test_answers_hold_for_their_own_run_only():
    with ScriptedServer(CALLS, "Done.") as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=suspend())  # the script gives its calls the same ids
        agent.resume(answer_all(agent, True, True))
        agent.answer("Never mind. What was it?")
    assert SENT == ["asked for Oslo", "asked for Oslo", "asked for Rome"]


def test_of_two_runs_that_resume_the_same_calls_only_one_goes_on():
    with ScriptedServer("Done.", "Again.") as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=suspend())
        first, second = (agent.resume(answer_all(agent, True, True)) for _ in range(2))
        first.finish()
        with pytest.raises(BotError, match="No call waits"):
            second.finish()
    assert agent.conversation.text == "Done."


def test_an_answer_in_a_form_is_read_after_it():
    with ScriptedServer('{"n": 1}') as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=suspend())
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        assert agent.resume(answer_all(agent, True, True), schema=schema).finish().value == {"n": 1}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "there is none to .*-1 .send."),
        ({"z": True}, "no call 'z' waits for an answer.\nThose that wait: .*-1 .send., .*-3 .send."),
        ([True], "expected the ids of calls with True, False or an Answer, not"),
    ],
)
def test_missing_and_foreign_answers_are_refused_and_nothing_has_run(answers, said):
    with ScriptedServer() as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=suspend())
        before = agent.conversation.to_dict()
        with pytest.raises(ConfigError, match=said):
            agent.resume(answers)
        assert (agent.conversation.to_dict(), SENT) == (before, ["asked for Oslo"])


@pytest.mark.parametrize("reply", ["yes", None, LATER])
def test_what_is_no_answer_is_refused(reply):
    with ScriptedServer() as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=suspend())
        with pytest.raises(ConfigError, match="expected True, False or an Answer"):
            agent.resume(answer_all(agent, True, reply))


def test_two_calls_of_one_id_cannot_be_told_apart():
    twins = ToolCall("x", "send", {"to": "ann"}), ToolCall("x", "send", {"to": "bob"})
    with ScriptedServer() as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=[UserMessage("Go."), Response(twins, "tool_use"), ToolResults(())])
        with pytest.raises(ConfigError, match="two calls have the id x"):
            agent.resume({"x": True})


def test_without_an_open_call_there_is_nothing_to_resume():
    said = pytest.raises(BotError, match="No call waits")
    with ScriptedServer() as scripted, Server(scripted.url) as server, said:
        server.agent(TOOLS).resume({})


def test_a_question_instead_of_an_answer_gives_every_open_call_a_result():
    with ScriptedServer("Fine.") as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=suspend())
        assert str(agent.answer("Never mind.")) == "Fine."
        sent = scripted.requests[-1]["messages"]
    assert [each["content"][:29] for each in sent if each["role"] == "tool"] == [
        "Oslo: rain", *['{"error":"This call was not run'[:29]] * 3,
    ]  # fmt: skip
    assert SENT == ["asked for Oslo"]


def test_a_turn_whose_first_call_waits_is_known_to_have_run_none():
    with ScriptedServer(call("send", to="ann"), "Fine.") as scripted, Server(scripted.url) as server:
        first = server.agent(TOOLS, approve=wait)
        first.answer("Tell Ann.")
        agent = server.agent(TOOLS, conversation=first.conversation.to_dict())
        assert len(agent.pending) == 1
        agent.answer("Never mind.")
    assert [each.value for each in agent.conversation[-3].results] == [NOT_PERMITTED]


def test_calls_that_are_resumed_take_the_results_that_name_them():
    calls = ToolCall("1", "send", {"to": "ann"}), ToolCall("2", "weather", {"city": "Oslo"})
    done = ToolResults((ToolResult("2", "weather", "text", "Oslo: sun"),))
    with ScriptedServer("Done.") as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=[UserMessage("Go."), Response(calls, "tool_use"), done])
        assert [each.id for each in agent.pending] == ["1"]
        agent.resume({"1": True}).finish()
    assert [each.value for each in agent.conversation[-2].results] == ["sent to ann", "Oslo: sun"]
    assert SENT == ["ann"]


def test_a_server_that_is_away_leaves_the_calls_waiting():
    with ScriptedServer() as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, "unknown", conversation=suspend())
        with pytest.raises(ConfigError):
            agent.resume(answer_all(agent, True, True)).finish()
        assert (len(agent.pending), SENT) == (2, ["asked for Oslo"])


def test_a_run_that_is_left_as_it_resumes_has_a_result_for_each_call():
    with ScriptedServer() as scripted, Server(scripted.url) as server:
        agent = server.agent(TOOLS, conversation=suspend())
        with pytest.raises(Cancelled):
            for event in agent.resume(answer_all(agent, True, True)):
                if isinstance(event, CallStarted):
                    agent.cancel()
        assert isinstance(agent.conversation[-1], ToolResults)
        assert [type(each) for each in agent.conversation[-1].results] == [ToolResult] * 4


def store_at(run, agent, kind):
    """The conversation as a program that is killed at this event of a call of send has stored it."""
    for event in run:
        if isinstance(event, kind) and event.call.name == "send":
            return Conversation.from_json(agent.conversation.to_json())
    raise AssertionError("There is no such event.")


@pytest.mark.parametrize("kind", [CallStarted, CallFinished])
def test_calls_of_a_process_that_was_killed_in_a_turn_wait_for_nothing_and_never_run_again(kind):
    with ScriptedServer(CALLS, repeat_results) as scripted, Server(scripted.url) as server:
        first = server.agent(TOOLS, approve=lambda request: True)
        stored = store_at(first.ask("Tell them."), first, kind)
        before = [*SENT]
        agent = server.agent(TOOLS, conversation=stored, approve=lambda request: True)
        assert agent.pending == ()
        with pytest.raises(BotError, match="No call waits"):
            agent.resume({})
        agent.answer("Go on.")
    assert before == SENT
    assert [each.value for each in agent.conversation[-3].results] == [UNKNOWN] * 4


@pytest.mark.parametrize("kind", [CallStarted, CallFinished])
def test_calls_of_a_process_that_was_killed_as_it_resumed_keep_the_results_that_were_recorded(kind):
    with ScriptedServer(repeat_results) as scripted, Server(scripted.url) as server:
        first = server.agent(TOOLS, conversation=suspend())
        stored = store_at(first.resume(answer_all(first, True, True)), first, kind)
        before = [*SENT]
        agent = server.agent(TOOLS, conversation=stored)
        assert agent.pending == ()
        agent.answer("Go on.")
    assert before == SENT
    assert [each.value for each in agent.conversation[-3].results] == ["Oslo: rain", *[UNKNOWN] * 3]


def test_a_call_of_a_subagent_cannot_wait():
    prompts = call("task", prompt="Mail Ann.", may_change=True), call("send", to="ann"), repeat_results, repeat_results
    with ScriptedServer(*prompts) as scripted, Server(scripted.url) as server:
        agent = server.agent([*TOOLS, task], approve=lambda request: request.call.name == "task" or LATER)
        assert "a subagent cannot wait" in str(agent.answer("Go."))


@only_thorough
@pytest.mark.parametrize("said", ["yes", "no"])
def test_the_example_goes_on_in_another_process(tmp_path, said):
    """Each start of it is a process of its own."""
    program = f"import sys, src; sys.modules['vllm_bot'] = src; sys.path[0] = {str(ROOT / 'docs' / 'examples')!r}\n"
    program += "import later; later.main(*sys.argv[1:])"

    def start(text, *turns):
        with ScriptedServer(*turns) as scripted:
            command = [sys.executable, "-c", program, str(tmp_path / "chat.json"), text, scripted.url]
            return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    asked = start("Tell Ann.", call("send_mail", to="ann", text="Rain."))
    assert asked.strip() == "waits for yes or no: send_mail {'to': 'ann', 'text': 'Rain.'}"
    told = {"yes": "sent to ann: Rain.", "no": "it was not approved"}
    assert told[said] in start(said, repeat_results)
