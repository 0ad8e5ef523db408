"""A weak model's call: whether one is wanted is predicted, and the call is held to a schema."""

import pytest

from src.negotiation.call_path import TOOLS_HIDDEN, CallPath
from src.negotiation.tool_choice import MAX_PARAMETERS, make_question
from src.providers.openai import OpenAICodec
from src.providers.vllm import PROBE_TEXT
from src.types.messages import ToolCall, ToolResults, UserMessage
from tests.model.test_model import HELLO, READ, TEXT_EXCHANGE, Served

SMALL = 134_515_008
CALL = [{"content": '{"name": "read", "args": {"path": "a.txt"}}'}, {"finish": "stop"}]


def predict(**likely):
    """An answer of one token, with the log probabilities of these."""
    top = [{"token": token, "logprob": value} for token, value in likely.items()]
    choice = {"message": {"content": "x"}, "finish_reason": "length", "logprobs": {"content": [{"top_logprobs": top}]}}
    return 200, {"choices": [choice]}


class LlamaServer(Served):
    """As llama.cpp's: it renders prompts as text, tells the model's size, and knows `json_schema` only."""

    def __init__(self, *answers, parameters=SMALL, shows_tools=False, **options):
        super().__init__(*answers, **options)
        model = {"id": "tiny", "meta": {"n_params": parameters}}
        self.client.aside |= {
            "models": {"data": [model if parameters else {"id": "tiny"}]},
            "apply-template": lambda asked: {"prompt": f"go {'read' if shows_tools and 'tools' in asked else ''}"},
            "completions": lambda asked: {"choices": [{"text": f'"{PROBE_TEXT}"' if "json_schema" in asked else "Hi"}]},
        }


def test_where_a_tool_is_likelier_than_talk_a_call_is_held_to_its_schema():
    served = LlamaServer(predict(read=-0.5, talk=-2.0), CALL)
    assert [(call.name, call.arguments) for call in served.ask().calls] == [("read", {"path": "a.txt"})]
    (schema,) = served.sent["json_schema"]["anyOf"]
    assert schema["properties"]["name"] == {"const": "read"}
    assert "tools" not in served.sent and "structured_outputs" not in served.sent
    assert served.notices == [TOOLS_HIDDEN]


@pytest.mark.parametrize("likely", [{"talk": -0.1}, {"read": -1.1, "talk": -1.0}, {"other": -0.1}])
def test_where_it_is_not_the_model_is_offered_no_tools(likely):
    served = LlamaServer(predict(**likely), HELLO)
    assert served.ask().text == "Hello"
    assert "json_schema" not in served.sent
    assert "Available Tools" not in served.sent["messages"][0]["content"]


def test_a_call_that_it_makes_all_the_same_counts():
    served = LlamaServer(predict(talk=-0.1), CALL)
    assert [call.name for call in served.ask().calls] == ["read"]


def test_a_call_behind_results_is_of_no_tool():
    assert not LlamaServer(CALL).ask(UserMessage("go"), *TEXT_EXCHANGE).calls


def test_after_results_it_answers():
    served = LlamaServer(HELLO)
    served.ask(UserMessage("go"), *TEXT_EXCHANGE)
    assert isinstance(TEXT_EXCHANGE[-1], ToolResults)
    assert len(served.client.requests) == 1
    assert "json_schema" not in served.sent


def test_a_server_without_probabilities_is_asked_as_ever():
    served = LlamaServer((200, {"choices": [{"message": {"content": "talk"}}]}), HELLO)
    served.ask()
    assert "Available Tools" in served.sent["messages"][0]["content"]


@pytest.mark.parametrize("parameters", [None, MAX_PARAMETERS])
def test_a_model_that_is_not_known_to_be_weak_decides_by_itself(parameters):
    served = LlamaServer(HELLO, parameters=parameters)
    served.ask()
    assert "Available Tools" in served.sent["messages"][0]["content"]
    assert len(served.client.requests) == 1


def test_a_template_that_shows_the_tools_leaves_calls_to_the_server():
    served = LlamaServer(HELLO, shows_tools=True)
    served.ask()
    assert "tools" in served.sent
    assert served.model.path.template_shows_tools is True
    assert served.notices == []


def test_where_only_native_calls_are_wanted_a_template_changes_nothing():
    path = CallPath(order=("native",))
    assert path.learn_template(shows_tools=False).path.mode == "native"


def test_the_prediction_asks_for_one_token_after_examples_of_both():
    question = make_question("tiny", [READ], "Read it.")
    labels = {message.text for message in question.messages[2::2]}
    assert labels == {"read", "talk"}
    assert (question.max_tokens, question.messages[-1]) == (1, UserMessage("Read it."))
    encode = OpenAICodec(str).encode
    assert encode(make_question("tiny", [READ], "Read it.")) == encode(question)  # the server's prefix cache holds


def test_a_call_of_a_weak_model_is_one_of_the_text():
    response = LlamaServer(predict(read=-0.1), CALL).ask()
    assert isinstance(response.content[0], ToolCall)
    assert response.stop_reason == "tool_use"
