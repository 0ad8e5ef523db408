"""What a server is asked before a request, and what it is not asked."""

from __future__ import annotations

from msgspec.structs import replace

from src.errors import ServerError
from src.negotiation.call_path import GRAMMAR_FIELD, THOUGHTS_FIELD, CallPath, Reason
from src.negotiation.facts import FactStore, ServedModel
from src.negotiation.formats.written_format import PROBE, PROBE_CALL, PROBE_TOOL
from src.negotiation.path_learner import PathLearner
from src.negotiation.server import ServerApi
from src.providers.base import ChatRequest
from src.providers.openai import OpenAICodec
from src.transport.driver import run
from tests.doubles import ScriptedClient

SERVED = ServedModel("http://scripted/v1", "tiny", "0.32.0")
HERMES = f'{PROBE[0].text}\n<tool_call>\n{{"name": "{PROBE_CALL.name}", "arguments": {{"city": "Oslo"}}}}\n</tool_call>'
TEMPLATE = CallPath("template", template_shows_tools=True)


def count(asked):
    """One token a message, and one a thought, as a template that shows all."""
    return {"tokens": [1] * sum(1 + ("reasoning" in each) for each in asked["messages"]), "max_model_len": 512}


class Learner:
    """One for all requests to a server. `asked`: its other addresses that were asked."""

    def __init__(self, **aside):
        self.client = ScriptedClient(**aside)
        self.facts = FactStore()
        server = ServerApi(OpenAICodec(str), SERVED.address, self.facts, is_vllm=True)
        self.learner = PathLearner(
            server, self.facts, SERVED, lambda messages, _: ChatRequest("tiny", messages, [PROBE_TOOL])
        )

    @property
    def asked(self):
        return self.client.asked_aside

    def learn_history(self, path, *, thoughts=(), gaps=(), has_late_system=False):
        asking = self.learner.learn_history(path, thoughts, gaps, has_late_system=has_late_system)
        return run(asking, self.client)

    def learn_format(self, path):
        return run(self.learner.learn_format(path), self.client)


def test_a_history_that_needs_nothing_asks_nothing():
    learner, path = Learner(), CallPath()
    assert learner.learn_history(path, thoughts=[False], gaps=[False]) is path
    assert learner.asked == []


def test_a_template_that_shows_a_thought_is_asked_with_one_and_without():
    learner = Learner(tokenize=count)
    assert learner.learn_history(CallPath(), thoughts=[False, True]).shows_thoughts
    assert learner.asked == ["tokenize"] * 2


def test_a_server_that_tells_nothing_of_thoughts_is_asked_once_and_nothing_is_believed():
    learner = Learner()
    for _ in range(2):
        assert learner.learn_history(CallPath(), thoughts=[True]).shows_thoughts is None
    assert learner.asked == ["tokenize"]


def test_of_thoughts_that_the_server_refuses_nothing_is_asked():
    learner = Learner(tokenize=count)
    learner.learn_history(CallPath().disable_fields([THOUGHTS_FIELD]), thoughts=[True])
    learner.learn_history(CallPath("tokens"), thoughts=[True])
    assert learner.asked == []


def test_of_thoughts_in_a_turn_that_avoids_the_parser_nothing_is_asked():
    learner = Learner(tokenize=count)
    path = learner.learn_history(CallPath().for_text_turn, thoughts=[True])
    assert (path.reason, path.shows_thoughts, learner.asked) == (Reason.PARSER_FAILED, None, [])


def test_a_late_system_message_that_the_template_refuses_goes_first_in_each_later_request():
    def tokenize(asked):
        if [each["role"] for each in asked["messages"]].count("system") > 1:
            raise refusal
        return count(asked)

    refusal = ServerError("System message must be at the beginning.", status=400)
    learner = Learner(tokenize=tokenize)
    for _ in range(2):  # whatever became of the first request
        assert learner.learn_history(CallPath(), has_late_system=True).system_first
    assert learner.asked == ["tokenize"] * 2


def test_where_the_server_tells_nothing_of_a_late_system_message_a_refusal_may():
    learner = Learner()
    for _ in range(2):
        assert not learner.learn_history(CallPath(), has_late_system=True).system_first
    assert learner.asked == ["tokenize"]


def test_blanks_before_a_call_are_asked_for_where_calls_are_sent_as_calls():
    learner = Learner(tokenize=count, detokenize={"prompt": "That is easy to look up.\n<tool_call>"})
    assert learner.learn_history(CallPath("text"), gaps=[True]).call_gap is None
    assert learner.learn_history(CallPath(), gaps=[True]).call_gap == "\n"


def test_the_format_is_asked_for_once_the_template_is_in_use():
    learner = Learner(tokenize=count, detokenize={"prompt": HERMES})
    tokens = CallPath("tokens", template_shows_tools=True)
    for path in (CallPath(), CallPath("text"), tokens, TEMPLATE.disable_fields([GRAMMAR_FIELD])):
        assert learner.learn_format(path) is path
    assert learner.asked == []
    for path in (TEMPLATE, replace(tokens, proven=True)):
        learned = learner.learn_format(path)
        assert learned.written_format == "hermes"
        assert learner.learn_format(learned) is learned
