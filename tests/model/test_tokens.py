"""The path for tokens: rendered by the server, generated from tokens, read by our parser alone."""

import json

import pytest

from src.errors import ToolsDropped
from src.negotiation.call_path import TOOLS_DROPPED, CallPath, Reason
from src.types.events import TextDelta
from src.types.messages import SystemMessage, UserMessage
from tests.each import check_rows

from .test_model import HELLO, NATIVE_CALL, Served

RENDERED = {"token_ids": [1] * 200, "sampling_params": {}, "output_mode": "tokens", "stream": True}
HERMES = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
TOKENS = CallPath("tokens")
DISABLED = {
    "error": {"message": "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."}
}


def repeat():
    return [{"content": "So: "}, *[{"content": "and so on, "}] * 2000]


def count_on():
    return [{"content": " ".join(map(str, range(start, start + 100_000)))} for start in range(0, 800_000, 100_000)]


def generated(*texts):
    choices = [{"index": 0, "text": text, "token_ids": [5], "finish_reason": None} for text in texts]
    choices[-1]["finish_reason"] = "stop"
    lines = [json.dumps({"choices": [choice]}) for choice in choices]
    usage = {"prompt_tokens": 200, "completion_tokens": 400}  # far more than the text has: nothing is asked again
    lines += [json.dumps({"choices": [], "usage": usage}), "[DONE]"]
    return b"".join(f"data: {line}\n\n".encode() for line in lines)


def tokenize(asked):
    """A prompt that is longer with tools."""
    return {"tokens": [1] * (200 if "tools" in asked else 100), "max_model_len": 4096}


def hide_tools(_):
    return {"tokens": [1] * 100, "max_model_len": 4096}


class Rendering(Served):
    """A server that renders; `rendered` are the bodies that it was asked to."""

    def __init__(self, *answers, render=RENDERED, **options):
        self.rendered = []
        super().__init__(*answers, **{"tokenize": tokenize, "path": TOKENS} | options)
        self.client.aside["v1/chat/completions/render"] = self.client.aside["chat/completions/render"] = self.keep(
            render
        )

    def keep(self, render):
        def answer(asked):
            self.rendered.append(asked)
            return render(asked) if callable(render) else render

        return answer


def test_a_turn_is_one_render_and_one_request():
    served = Rendering(generated(HERMES[:9], HERMES[9:]), generated("Done."))
    response = served.ask()
    assert [(call.name, call.arguments) for call in response.calls] == [("read", {"path": "a.txt"})]
    assert response.calls[0].origin == "hermes"
    served.ask()
    assert len(served.rendered) == len(served.client.requests) == 2
    assert served.sent["token_ids"] == RENDERED["token_ids"]
    assert served.sent["output_mode"] == "text"
    assert served.notices == []


def test_the_prompt_is_rendered_with_the_tools_that_the_template_shows():
    served = Rendering(generated("Hi."))
    served.ask()
    (asked,) = served.rendered
    assert (asked["tool_choice"], asked["skip_special_tokens"]) == ("none", False)
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["read"]
    assert "return_token_ids" not in asked
    assert "Available Tools" not in asked["messages"][0]["content"]


def test_where_the_template_shows_no_tools_the_prompt_lists_them():
    served = Rendering(generated('TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'), tokenize=hide_tools)
    assert [call.origin for call in served.ask().calls] == ["text"]
    (asked,) = served.rendered
    assert "tools" not in asked
    assert "## Available Tools" in asked["messages"][0]["content"]


def test_a_thought_is_told_from_the_answer():
    served = Rendering(generated("<think>Hm.</think>", "Hello."))
    assert served.ask().text == "Hello."


def test_an_answer_without_tools_needs_no_tokens():
    served = Rendering(HELLO)
    served.ask(UserMessage("go"), tools=())
    assert served.rendered == []
    assert served.model.path.mode == "tokens"


@check_rows("status", [403, 404, 405, 501])
def test_a_server_without_the_endpoint_is_asked_once(status):
    served = Rendering(NATIVE_CALL, HELLO)
    del served.client.aside["chat/completions/render"]
    served.client.statuses = {"chat/completions/render": (status, DISABLED)}
    served.ask()
    served.ask()
    assert served.client.asked_aside.count("chat/completions/render") == 1
    assert (served.model.path.mode, served.model.path.reason) == ("native", Reason.NO_TOKENS)
    assert served.notices == []


def test_a_server_that_cannot_tell_its_prompts_is_not_asked():
    served = Served(HELLO, path=TOKENS)
    served.ask()
    assert "chat/completions/render" not in served.client.asked_aside
    assert served.model.path.mode == "native"


@check_rows("answer", [(404, {"detail": "Not Found"}), (403, DISABLED), (400, {"error": {"message": "no output_mode"}}), b"<html></html>",
                                    b'data: {"choices": [{"index": 0, "token_ids": [5]}]}\n\n'])  # fmt: skip
def test_a_server_that_does_not_generate_is_asked_otherwise(answer):
    served = Rendering(answer, HELLO)
    assert served.ask().text == "Hello"
    assert served.model.path.mode == "native"


def test_a_page_in_place_of_a_prompt_steps_down():
    served = Rendering(HELLO, render="<html>")
    assert served.ask().text == "Hello"
    assert served.model.path.mode == "native"


def test_a_prompt_without_its_tools_steps_down():
    served = Rendering(HELLO, render={**RENDERED, "token_ids": [1] * 100})
    served.ask()
    assert served.model.path.mode == "native"


def test_a_longer_conversation_is_counted_as_a_whole():
    served = Rendering(generated("Hi."))
    served.ask(SystemMessage("Be brief."), UserMessage("go"), UserMessage("on"))
    assert served.model.path.proven


class TestTemplate:
    """With tool_choice none a server may drop the tools: the size of the prompt shows it."""

    PATH = CallPath("template", template_shows_tools=True)

    def test_the_first_event_tells_and_nothing_of_that_answer_is_shown(self):
        first = b'data: {"choices": [], "prompt_token_ids":[%s]}\n\n' % b",".join([b"1"] * 100)
        blind = first + b'data: {"choices": [{"delta": {"content": "I have no tools."}}]}\n\n'
        served = Served(blind, HELLO, tokenize=tokenize, path=self.PATH)
        assert served.ask().text == "Hello"
        assert served.notices == [TOOLS_DROPPED]
        assert "".join(event.text for event in served.events if isinstance(event, TextDelta)) == "Hello"
        assert served.model.path.mode == "text"

    def test_the_usage_tells_where_the_first_event_does_not(self):
        blind = [
            {"content": "I have no tools."},
            {"finish": "stop", "usage": {"prompt_tokens": 100, "completion_tokens": 5}},
        ]
        served = Served(blind, HELLO, tokenize=tokenize, path=self.PATH)
        assert served.ask().text == "Hello"
        assert "".join(event.text for event in served.events if isinstance(event, TextDelta)) == "Hello"

    def test_a_prompt_with_its_tools_is_counted_once(self):
        usage = {"prompt_tokens": 200, "completion_tokens": 1}
        answer = [{"content": "Hello there, friend"}, {"finish": "stop", "usage": usage}]
        served = Served(answer, answer, tokenize=tokenize, path=self.PATH)
        served.ask()
        assert served.model.path.proven
        counted = served.client.asked_aside.count("tokenize")
        served.ask()
        assert served.client.asked_aside.count("tokenize") == counted

    def test_a_server_that_tells_no_size_is_believed(self):
        served = Served(HELLO, tokenize=tokenize, path=self.PATH)
        assert served.ask().text == "Hello"
        assert not served.model.path.proven

    @check_rows("make_answer, reason", [(repeat, "repetition"), (count_on, "max_tokens")])
    def test_an_answer_that_is_ended_before_its_prompt_is_known_is_shown(self, make_answer, reason):
        served = Served(make_answer(), tokenize=tokenize, path=self.PATH)
        response = served.ask()
        shown = "".join(event.text for event in served.events if isinstance(event, TextDelta))
        assert response.stop_reason == reason
        assert response.text
        assert shown.startswith(response.text)

    def test_nothing_is_shown_of_an_answer_that_breaks_before_its_prompt_is_known(self):
        broken = b'data: {"choices": [{"delta": {"content": "Once. TOOL_"}}]}\n\n'
        broken += b'data: {"error": {"message": "the engine died", "code": 500}}\n\n'
        served = Served(broken, HELLO, tokenize=tokenize, path=self.PATH)
        assert served.ask().text == "Hello"
        assert "".join(event.text for event in served.events if isinstance(event, TextDelta)) == "Hello"

    def test_with_no_other_way_in_the_order_the_user_is_told(self):
        served = Served([{"finish": "stop", "usage": {"prompt_tokens": 100, "completion_tokens": 5}}], tokenize=tokenize,
                        path=CallPath("template", template_shows_tools=True, order=("template",)))  # fmt: skip
        with pytest.raises(ToolsDropped):
            served.ask()
