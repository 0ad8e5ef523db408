"""Servers that leave a user without tools, calls or the truth, unless what they do counts and not what they say."""

import json

import pytest
from msgspec.structs import replace

from src.errors import ServerError, StreamCut, WireError
from src.model.recovery import ASKING_AGAIN_NOTICE, ASKING_WHOLE_NOTICE, PART_LOST_NOTICE
from src.negotiation.call_path import LOST_CALLS, NO_STREAM, TEMPLATE_FAILED, TOOLS_DROPPED, TOOLS_LEFT_OUT, CallPath
from src.types.messages import UserMessage
from tests.doubles import stream_event
from tests.each import check_rows
from tests.model.test_model import CALL_TEXT, HELLO, NATIVE_CALL, NO_PARSER, READ, Served
from tests.model.test_tokens import tokenize
from tests.negotiation.test_evidence import complete_with

HERMES = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
USED = {"prompt_tokens": 200, "completion_tokens": 30}
IN_TEXT = [{"content": CALL_TEXT}, {"finish": "stop", "usage": USED}]
NOTHING = [{"finish": "stop", "usage": USED}]


def names(response):
    return [(call.name, call.arguments) for call in response.calls]


READ_A = [("read", {"path": "a.txt"})]


def test_one_that_drops_tools_on_none():
    first = b'data: {"choices": [], "prompt_token_ids":[%s]}\n\n' % b",".join([b"1"] * 100)
    served = Served(NO_PARSER, first, IN_TEXT, tokenize=tokenize)
    assert names(served.ask()) == READ_A
    assert "## Available Tools" in served.sent["messages"][0]["content"]
    assert served.notices[-1] == TOOLS_DROPPED


def test_one_that_ignores_unknown_fields():
    served = Served(IN_TEXT, path=CallPath("text"), completions=complete_with())
    served.client.aside["version"] = {"version": "0.10.2"}
    list(served.model.respond([UserMessage("go")], [READ], "required"))
    assert served.sent["messages"][-1]["content"] != "go"  # the call is asked for in words


def test_one_that_wants_the_fields_of_0_10():
    served = Served(IN_TEXT, path=CallPath("text"), completions=complete_with("guided_json"))
    served.client.aside["version"] = {"version": "0.10.2"}
    list(served.model.respond([UserMessage("go")], [READ], "required"))
    assert "guided_json" in served.sent
    assert "structured_outputs" not in served.sent


@pytest.mark.parametrize("status", [400, 422, 500])
def test_one_that_wraps_a_refusal(status):
    wrapped = {
        "error": {"message": f"litellm.APIConnectionError: OpenAIException - {NO_PARSER[1]['error']['message']}"}
    }
    served = Served((status, wrapped), IN_TEXT)
    assert names(served.ask()) == READ_A
    assert served.client.slept == []
    assert served.model.path.mode == "text"


def test_one_whose_token_ids_are_stripped():
    served = Served(NOTHING, tokenize=tokenize, completions={"choices": [{"text": HERMES, "finish_reason": "stop"}]})
    assert names(served.ask()) == READ_A
    assert served.notices[0] == ASKING_AGAIN_NOTICE


def test_one_behind_another_api_with_the_wrong_parser():
    whole = {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}], "usage": USED}
    served = Served(NOTHING, (200, whole), IN_TEXT, is_vllm=False)
    served.ask()
    assert served.notices == [ASKING_WHOLE_NOTICE, LOST_CALLS]
    assert names(served.ask()) == READ_A  # as the loop asks after an empty answer
    assert "tools" not in served.sent


def test_one_whose_tokenize_answers_for_another_model():
    count = {"tokens": [1] * 900, "max_model_len": 4096}
    whole = {"choices": [{"message": {"content": HERMES}, "finish_reason": "stop"}]}
    served = Served(NOTHING, (200, whole), tokenize=count, completions=complete_with())
    assert names(served.ask()) == READ_A
    assert "completions" not in served.client.asked_aside  # that prompt means nothing to this model


def test_half_a_stream():
    half = b'data: {"choices": [{"index": 0, "delta": {"content": "The heron"}}]}\n\n'
    served = Served(half)
    with pytest.raises(StreamCut):
        served.ask()


def test_half_an_answer_from_tokens():
    half = b'data: {"choices": [{"index": 0, "text": "The heron", "token_ids": [5]}]}\n\n'
    served = Served(half, tokenize=tokenize, path=CallPath("tokens"))
    served.client.aside["chat/completions/render"] = {"token_ids": [1] * 200, "sampling_params": {}}
    with pytest.raises(StreamCut):
        served.ask()


def test_a_reasoning_parser_that_takes_everything():
    served = Served([{"reasoning": HERMES}, {"finish": "stop", "usage": USED}])
    assert names(served.ask()) == READ_A


def test_a_template_that_raises():
    raised = (400, {"error": {"message": "This model only supports single tool-calls at once!"}})
    served = Served(raised, IN_TEXT)
    assert names(served.ask()) == READ_A
    assert served.notices == [TEMPLATE_FAILED]


def test_one_that_drops_tools_in_a_stream_and_strips_token_ids():
    """Its answer has been shown when the size of its prompt comes; the next prompt lists the tools."""
    toolless = [{"content": "I have no tools."}, {"finish": "stop", "usage": {"prompt_tokens": 100}}]
    served = Served(toolless, IN_TEXT, tokenize=tokenize)
    assert served.ask().text == "I have no tools."
    assert served.notices == [TOOLS_LEFT_OUT]
    assert names(served.ask()) == READ_A
    assert "## Available Tools" in served.sent["messages"][0]["content"]
    assert served.notices == []


def test_one_whose_tokenize_refuses_tools():
    served = Served(NATIVE_CALL, tokenize=lambda asked: {"error": "no"} if asked.get("tools") else tokenize(asked))
    assert names(served.ask()) == READ_A
    assert "## Available Tools" in served.sent["messages"][0]["content"]  # as they might not be shown


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": None}])
def test_one_that_counts_nothing(usage):
    served = Served([NATIVE_CALL[0], {"finish": "tool_calls", "usage": usage}], tokenize=tokenize)
    assert names(served.ask()) == READ_A
    assert (len(served.client.requests), served.notices) == (1, [])


@pytest.mark.parametrize("said", ["", "I will read it."])
def test_one_that_announces_calls_and_sends_an_empty_list(said):
    whole = {"choices": [{"message": {"content": said, "tool_calls": []}, "finish_reason": "tool_calls"}]}
    served = Served([{"content": said, "tool_calls": []}, {"finish": "tool_calls"}], (200, whole), is_vllm=False)
    served.ask()
    assert served.notices == [ASKING_WHOLE_NOTICE, PART_LOST_NOTICE if said else LOST_CALLS]


def test_one_that_announces_a_call_and_sends_one_without_a_name():
    nameless = {"tool_calls": [{"index": 0, "id": None, "function": None}]}
    whole = {"choices": [{"message": {"content": HERMES}, "finish_reason": "stop"}]}
    assert names(Served([nameless, {"finish": "tool_calls"}], (200, whole), is_vllm=False).ask()) == READ_A


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning_text", "thinking"])
def test_one_that_names_thoughts_otherwise_and_takes_everything_for_one(field):
    assert names(Served([{field: HERMES}, {"finish": "stop", "usage": USED}]).ask()) == READ_A


@check_rows(
    "refusal",
    [
        {"error": {"message": "tool_choice is not supported"}},
        {"error": {"message": "Unrecognized request argument supplied: tools"}},
        {"detail": [{"loc": ["body", "tools"], "msg": "Extra inputs are not permitted"}]},
    ],
)
@check_rows("status", [400, 422])
def test_one_that_does_not_know_the_fields_of_tools(status, refusal):
    served = Served((status, refusal), IN_TEXT)
    assert names(served.ask()) == READ_A
    assert "tools" not in served.sent


def test_one_that_refuses_fields_and_does_not_say_which():
    served = Served((422, {"error": {"message": "Extra inputs are not permitted"}}), NATIVE_CALL)
    assert names(served.ask()) == READ_A
    assert "return_token_ids" not in served.sent
    assert served.notices == []


@check_rows(
    "reason",
    [
        "Failed to call a function. See 'failed_generation'.",  # Groq's own parser
        "Invalid 'tools': array too long.",
        "Invalid schema for function 'read': 'default' is not permitted.",
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "messages: text content blocks must be non-empty",
    ],
)
def test_one_that_refuses_what_only_native_calls_have(reason):
    served = Served((400, {"error": {"message": reason}}), IN_TEXT)
    assert names(served.ask()) == READ_A
    assert "tools" not in served.sent


def test_one_whose_other_refusal_speaks_of_tools_is_asked_once_more_and_nothing_is_learned():
    refused = (400, {"error": {"message": "The organization may not use this tool."}})
    served = Served(refused, refused)
    with pytest.raises(ServerError, match="may not use"):
        served.ask()
    assert served.model.path.mode == "native"


@pytest.mark.parametrize(
    "reason",
    ["Streaming is not supported when tools are used.", "This model doesn't support tool use in streaming mode."],
)
def test_one_that_does_not_stream_calls(reason):
    whole = {"choices": [{"message": {"content": HERMES}, "finish_reason": "stop"}]}
    served = Served((400, {"error": {"message": reason}}), (200, whole))
    assert names(served.ask()) == READ_A
    assert (served.sent["stream"], len(served.sent["tools"]), served.notices[0]) == (False, 1, NO_STREAM)


def test_one_that_refuses_max_tokens_for_its_other_name():
    refusal = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    served = Served((400, {"error": {"message": refusal}}), NATIVE_CALL, max_tokens=500)
    assert names(served.ask()) == READ_A
    assert (served.sent.get("max_tokens"), served.sent["max_completion_tokens"]) == (None, 500)


def test_one_that_has_the_tools_under_a_namespace():
    call = {"index": 0, "id": "n1", "function": {"name": "functions.read", "arguments": '{"path": "a.txt"}'}}
    served = Served([{"tool_calls": [call]}, {"finish": "tool_calls"}])
    assert names(served.ask()) == READ_A
    assert len(served.client.requests) == 1


def test_one_that_answers_with_a_page():
    with pytest.raises(WireError, match="Sign in"):
        Served(b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>").ask()


def test_one_that_ends_a_stream_without_saying_so_after_its_finish_reason():
    ended = b"".join(map(stream_event, NATIVE_CALL))
    assert names(Served(ended).ask()) == READ_A


def test_what_they_have_in_common_costs_an_ordinary_server_nothing():
    served = Served(NATIVE_CALL, HELLO)
    served.ask()
    served.ask()
    assert len(served.client.requests) == 2
    assert json.dumps(served.notices) == "[]"


class Restarted:
    """A server whose prompts have these numbers of tokens; what was learned before it was started anew is known."""

    def __init__(self, path, *answers, shown=2000, hidden=100, **options):
        count = lambda asked: {"tokens": [1] * (shown if asked.get("tools") else hidden), "max_model_len": 9000}  # noqa: E731
        path = replace(path, template_shows_tools=True, proven=True)
        self.served = Served(*answers, tokenize=count, path=path, **options)

    def ask(self):
        return self.served.ask(tools=[replace(READ, description="Read a file. " * 300)])


def send_prompt(tokens):
    return b'data: {"choices": [], "prompt_token_ids":[%s]}\n\n' % b",".join([b"1"] * tokens)


def test_one_that_was_restarted_and_drops_tools_on_none():
    restarted = Restarted(CallPath("template"), send_prompt(60), send_prompt(100), IN_TEXT)
    assert names(restarted.ask()) == READ_A
    assert restarted.served.notices == [TOOLS_DROPPED]
    assert "## Available Tools" in restarted.served.sent["messages"][0]["content"]


@pytest.mark.parametrize("mode", ["native", "template"])
def test_one_that_was_restarted_with_a_template_that_shows_no_tools(mode):
    prompts = [send_prompt(60), *([send_prompt(100)] if mode == "template" else [])]
    restarted = Restarted(CallPath(mode), *prompts, IN_TEXT, shown=100)
    assert names(restarted.ask()) == READ_A
    assert "## Available Tools" in restarted.served.sent["messages"][0]["content"]


def test_one_that_was_restarted_and_shows_the_size_of_its_prompt_last():
    toolless = [{"content": "I have no tools."}, {"finish": "stop", "usage": {"prompt_tokens": 60}}]
    restarted = Restarted(CallPath("template"), toolless, IN_TEXT, hidden=60)
    assert restarted.ask().text == "I have no tools."
    assert restarted.served.notices == [TOOLS_LEFT_OUT]
    assert names(restarted.ask()) == READ_A


def test_what_was_proven_is_doubted_once():
    """A tokenizer with longer tokens than others: the same prompt as before."""
    answers = [[{"content": "Hi"}, {"finish": "stop", "usage": {"prompt_tokens": 40}}] for _ in range(3)]
    restarted = Restarted(CallPath("template"), *answers, shown=40, hidden=10)
    restarted.ask()
    counted = restarted.served.client.asked_aside.count("tokenize")
    restarted.ask()
    restarted.ask()
    assert len(restarted.served.client.requests) == 3
    assert restarted.served.client.asked_aside.count("tokenize") == counted
    assert restarted.served.model.path.mode == "template"
