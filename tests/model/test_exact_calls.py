"""What a model wrote goes back as it wrote it, byte for byte, wherever the wire allows it."""

import json

import pytest

from src.negotiation import CallPath
from src.parsing import render_call
from src.types.messages import Response, ToolCall, ToolResult, ToolResults, UserMessage
from tests.each import check_rows
from tests.model.test_thoughts import HELLO, Talk

ODD = '{"path":\n "\\u00e4.txt" }'
SPACED = '{"path": "ä.txt"}'


def answer_with(arguments):
    call = {"index": 0, "id": "n1", "function": {"name": "read", "arguments": arguments}}
    return [{"tool_calls": [call]}, {"finish": "tool_calls"}]


@pytest.mark.parametrize("arguments", [ODD, SPACED, '{"path":"a.txt"}'])
def test_the_arguments_of_a_native_call_go_back_as_the_model_wrote_them(arguments):
    talk = Talk(answer_with(arguments), HELLO).go_on()
    assert talk.sent["tool_calls"][0]["function"]["arguments"] == arguments


def test_what_the_model_wrote_in_the_usual_way_is_not_kept_twice():
    assert Talk(answer_with(SPACED)).ask().calls[0].written == ""


def test_what_the_model_wrote_survives_the_journal():
    call = Talk(answer_with(ODD)).ask().calls[0]
    assert ToolCall.from_dict(json.loads(json.dumps(call.to_dict()))).written == ODD


@check_rows(
    "text",
    [
        'Look.\n\n\nTOOL_CALL: {"name":"read","args":{"path":"a.txt"}}',
        '```\nTOOL_CALL: {"name": "read",\n  "args": {"path": "\\u00e4"}}\n```\n',
        'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}} TOOL_CALL: {"name": "read", "args": {"path": "b.txt"}}',
        'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}\n',
    ],
)
def test_an_answer_with_calls_in_its_text_goes_back_as_the_model_wrote_it(text):
    talk = Talk(
        [{"content": text[:9]}, {"content": text[9:]}, {"finish": "stop"}], HELLO, path=CallPath("text")
    ).go_on()
    assert talk.sent["content"] == text


def test_a_text_that_survives_the_journal_goes_back_as_it_was():
    text = 'TOOL_CALL: {"name":"read","args":{"path":"a.txt"}}'
    response = Talk([{"content": text}, {"finish": "stop"}], path=CallPath("text")).ask()
    assert Response.from_dict(json.loads(json.dumps(response.to_dict()))).written == text


def test_a_result_that_the_model_made_up_does_not_go_back():
    call = render_call(ToolCall("", "read", {"path": "a.txt"}))
    made_up = f"{call}\n\nTool execution results:\n\n[read]\n<tool_output>\nmade up\n</tool_output>\n"
    talk = Talk([{"content": made_up}, {"finish": "stop"}], HELLO, path=CallPath("text")).go_on()
    assert "made up" not in talk.sent["content"]


def test_a_native_call_that_cannot_be_read_goes_back_as_text_and_not_without_arguments():
    talk = Talk(answer_with('{"path": "a.txt", "path": }'), answer_with('{"path": "a.txt", "path": }'), HELLO)
    response = talk.ask()
    (malformed,) = response.malformed
    talk.messages.append(ToolResults((ToolResult(malformed.id, "read", "error", malformed.reason),)))
    talk.ask()
    *_, answer, results = talk.client.requests[-1]["messages"]
    assert answer["content"] == 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt", "path": }\n'
    assert (results["role"], results["content"][:23]) == ("user", "Tool execution results:")


@pytest.mark.parametrize(("name", "arguments"), [("fly", {"to": "Oslo"}), ("read", {"limit": 3})])
def test_a_wrong_call_in_the_model_s_own_format_goes_back_with_the_arguments_that_it_has(name, arguments):
    text = f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
    sent = send_malformed(text)
    assert json.loads(sent["tool_calls"][0]["function"]["arguments"]) == arguments
    assert sent["tool_calls"][0]["function"]["name"] == name


def test_a_call_in_the_model_s_own_format_that_cannot_be_read_goes_back_as_the_model_wrote_it():
    text = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt", "path": }}\n</tool_call>'
    sent = send_malformed(text)
    assert (sent["content"].strip(), "tool_calls" in sent) == (text, False)


def send_malformed(text):
    """The answer of a model that wrote this, as the next request has it."""
    answer = [{"content": text}, {"finish": "stop"}]
    talk = Talk(answer, answer, HELLO)
    response = talk.ask()
    talk.messages.append(
        ToolResults(tuple(ToolResult(each.id, each.name, "error", each.reason) for each in response.malformed))
    )
    talk.client.answers = [HELLO]
    talk.ask()
    return talk.client.requests[-1]["messages"][-2]


CALL = {"index": 0, "id": "n1", "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}
COUNTED = {"tokens": [1] * 5, "max_model_len": 9000}


class TestBlanksBeforeACall:
    """The server's parser leaves them in the text, and many templates write them anew."""

    def sent(self, text, gap, **options):
        answer = [{"content": text}, {"tool_calls": [CALL]}, {"finish": "tool_calls"}]
        prompt = {"prompt": f"assistant\nThat is easy to look up.{gap}<tool_call>"}
        talk = Talk(answer, HELLO, HELLO, tokenize=COUNTED, detokenize=prompt, **options).go_on()
        asked = talk.client.asked_aside.count("detokenize")
        talk.messages.append(UserMessage("Thanks."))
        talk.ask()
        assert talk.client.asked_aside.count("detokenize") == asked
        return talk.sent["content"]

    @check_rows(
        "text, gap, sent",
        [
            ("\n\n", "\n", ""),
            ("Look.\n", "\n", "Look."),
            ("Look.\n\n", "\n", "Look.\n"),
            ("Look.\n", "\n\n", "Look.\n"),
            ("\n\n", "", "\n\n"),
            ("Look. ", "", "Look. "),
        ],
    )
    def test_are_left_out_where_the_template_writes_them(self, text, gap, sent):
        assert self.sent(text, gap) == sent

    def test_stay_on_the_text_path(self):
        text = 'Look.\n\nTOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'
        talk = Talk([{"content": text}, {"finish": "stop"}], HELLO, path=CallPath("text", call_gap="\n")).go_on()
        assert talk.sent["content"] == text

    def test_stay_where_the_server_cannot_be_asked(self):
        answer = [{"content": "\n\n"}, {"tool_calls": [CALL]}, {"finish": "tool_calls"}]
        assert Talk(answer, HELLO).go_on().sent["content"] == "\n\n"


class TestControlTokens:
    """A server reads the words of its chat template wherever they stand."""

    def test_in_arguments_are_escaped_so_that_the_server_finds_none_after_reading_them(self):
        talk = Talk(answer_with('{"path": "<|im_end|>"}'), HELLO).go_on()
        read = json.loads(talk.sent["tool_calls"][0]["function"]["arguments"])
        assert read == {"path": "\\u003c|im_end|>"}

    def test_in_calls_of_the_text_are_escaped_and_the_call_is_the_same(self):
        text = 'TOOL_CALL: {"name": "read", "args": {"path": "<|im_end|>"}}'
        talk = Talk([{"content": text}, {"finish": "stop"}], HELLO, path=CallPath("text")).go_on()
        assert talk.sent["content"] == text.replace("<", "\\u003c")
        assert json.loads(talk.sent["content"].partition(": ")[2])["args"] == {"path": "<|im_end|>"}
