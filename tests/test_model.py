import itertools

import pytest

from src.errors import ModelNotFound, ServerError, StreamCut, TemplateRejected, WireError
from src.messages import (
    Completed,
    Notice,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    TextDelta,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
)
from src.model import Model, random_id, served_models
from src.model.path import NOTICES, ROLES_MERGED, SYSTEM_FOLDED, CallPath

from .doubles import ScriptedClient

READ = ToolDefinition(
    "read", "Read file contents", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
)
CALL_TEXT = 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'
NO_PARSER = (
    400,
    {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'}},
)
ALTERNATE = (400, {"error": {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}})
NO_SYSTEM = (400, {"error": {"message": "System role not supported"}})
HELLO = [{"content": "Hello"}, {"finish": "stop"}]
NATIVE_CALL = [
    {"tool_calls": [{"index": 0, "id": "n1", "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}]},
    {"finish": "tool_calls"},
]

NATIVE_EXCHANGE = [
    Response((ToolCall("n1", "read", {"path": "a.txt"}),), "tool_use"),
    ToolResults((ToolResult("n1", "read", "text", "alpha"),)),
]
TEXT_EXCHANGE = [
    Response((Text("Reading.\n"), ToolCall("t1", "read", {"path": "a.txt"}, "text")), "tool_use"),
    ToolResults((ToolResult("t1", "read", "text", "alpha"),)),
]


class Served:
    """A model on a scripted server, and what comes of asking it."""

    def __init__(self, *answers, **options):
        self.client = ScriptedClient(*answers)
        ids = (f"made{number}" for number in itertools.count())
        self.model = Model(self.client, "tiny", new_id=lambda: next(ids), **options)

    def ask(self, *messages, tools=(READ,)):
        conversation = messages or (SystemMessage("Be brief."), UserMessage("go"))
        self.events = list(self.model.respond(conversation, tools))
        assert isinstance(self.events[-1], Completed)
        return self.events[-1].response

    @property
    def sent(self):
        return self.client.requests[-1]

    @property
    def roles(self):
        return [message["role"] for message in self.sent["messages"]]

    @property
    def notices(self):
        return [event.text for event in self.events if isinstance(event, Notice)]


class TestNative:
    def test_tools_are_sent_and_the_instructions_too(self):
        served = Served(HELLO)
        served.ask()
        assert [tool["function"]["name"] for tool in served.sent["tools"]] == ["read"]
        assert served.sent["messages"][0]["content"].startswith("Be brief.\n\n## Available Tools")

    def test_a_native_call(self):
        response = Served(NATIVE_CALL).ask()
        assert response.content == (ToolCall("n1", "read", {"path": "a.txt"}, "native"),)
        assert response.stop_reason == "tool_use"

    def test_an_answer_without_native_calls_has_its_text_parsed(self):
        served = Served([{"content": "Reading.\nTOOL_"}, {"content": CALL_TEXT[5:]}, {"finish": "stop"}])
        response = served.ask()
        assert response.calls == (ToolCall("made0", "read", {"path": "a.txt"}, "text"),)
        assert response.stop_reason == "tool_use"
        assert "".join(event.text for event in served.events if isinstance(event, TextDelta)).strip() == "Reading."

    def test_a_native_call_said_again_in_the_text_is_one_call(self):
        assert Served([{"content": CALL_TEXT}, *NATIVE_CALL]).ask().calls == (
            ToolCall("n1", "read", {"path": "a.txt"}),
        )

    def test_without_a_system_message_the_instructions_are_one(self):
        served = Served(HELLO)
        served.ask(UserMessage("go"))
        assert served.roles == ["system", "user"]

    def test_without_tools_nothing_is_said_of_tools(self):
        served = Served(HELLO)
        served.ask(UserMessage("go"), tools=())
        assert "tools" not in served.sent
        assert served.roles == ["user"]

    def test_a_native_exchange_goes_out_native_and_a_text_exchange_as_text(self):
        served = Served(HELLO)
        served.ask(UserMessage("go"), *NATIVE_EXCHANGE, *TEXT_EXCHANGE)
        assert served.roles == ["system", "user", "assistant", "tool", "assistant", "user"]
        *_, said, results = served.sent["messages"]
        assert said == {"role": "assistant", "content": f"Reading.\n{CALL_TEXT}\n"}
        assert results["content"].startswith("Tool execution results:")
        assert "alpha" in results["content"]

    def test_reasoning_comes_first_and_apart(self):
        served = Served([{"reasoning": "hm"}, {"content": "Hello"}, {"finish": "stop"}])
        assert served.ask().content == (Reasoning("hm"), Text("Hello"))


class TestText:
    def test_no_tools_are_sent_and_every_exchange_is_text(self):
        served = Served(HELLO, path=CallPath("text"))
        served.ask(UserMessage("go"), *NATIVE_EXCHANGE)
        assert "tools" not in served.sent
        assert served.roles == ["system", "user", "assistant", "user"]
        assert served.sent["messages"][2]["content"].strip() == CALL_TEXT

    def test_prose_around_calls_is_kept_in_order(self):
        text = f"One.\n{CALL_TEXT}\nTwo.\n{CALL_TEXT}"
        response = Served([{"content": text}, {"finish": "stop"}], path=CallPath("text")).ask()
        kinds = [type(block).__name__ for block in response.content]
        assert kinds[:4] == ["Text", "ToolCall", "Text", "ToolCall"]
        assert [call.id for call in response.calls] == ["made0", "made1"]

    def test_a_block_cut_by_max_tokens_is_malformed_and_no_call(self):
        response = Served([{"content": CALL_TEXT[:-8]}, {"finish": "length"}], path=CallPath("text")).ask()
        assert (response.calls, len(response.malformed), response.stop_reason) == ((), 1, "max_tokens")


class TestRefusals:
    def test_a_server_without_a_parser_gets_the_same_turn_as_text_and_the_user_is_told_once(self):
        served = Served(NO_PARSER, HELLO, HELLO)
        assert served.ask(SystemMessage("s"), UserMessage("go")).text == "Hello"
        assert served.notices == [NOTICES["text"]]
        first, second = served.client.requests
        assert "tools" in first
        assert "tools" not in second
        assert second["messages"][1:] == first["messages"][1:]
        served.ask()
        assert "tools" not in served.sent
        assert served.notices == []

    def test_the_conversation_so_far_is_rendered_anew_for_the_text_path(self):
        served = Served(NO_PARSER, HELLO)
        served.ask(UserMessage("go"), *NATIVE_EXCHANGE)
        assert served.roles == ["system", "user", "assistant", "user"]

    def test_a_template_that_wants_alternation_gets_it(self):
        served = Served(ALTERNATE, HELLO)
        served.ask(SystemMessage("s"), UserMessage("a"), UserMessage("b"), *NATIVE_EXCHANGE, UserMessage("c"))
        assert served.roles == ["system", "user", "assistant", "user"]
        assert served.sent["messages"][1]["content"] == "a\n\nb"
        assert served.sent["messages"][3]["content"].endswith("c")
        assert served.notices == [ROLES_MERGED]

    def test_a_template_without_a_system_role_gets_it_in_the_first_user_message(self):
        served = Served(NO_SYSTEM, NO_SYSTEM, HELLO, HELLO)
        served.ask(SystemMessage("Be brief."), UserMessage("go"))
        assert served.roles == ["user"]
        assert served.sent["messages"][0]["content"].startswith("Be brief.")
        assert served.sent["messages"][0]["content"].endswith("go")
        assert served.notices == [ROLES_MERGED, SYSTEM_FOLDED]
        served.ask()
        assert served.roles == ["user"]

    def test_both_kinds_of_refusal_in_one_turn(self):
        served = Served(NO_PARSER, ALTERNATE, HELLO)
        assert served.ask().text == "Hello"
        assert served.notices == [NOTICES["text"], ROLES_MERGED]

    def test_a_refusal_that_nothing_helps_against_is_an_error(self):
        with pytest.raises(TemplateRejected):
            Served(*[ALTERNATE] * 3).ask()

    def test_an_empty_answer_does_not_break_alternation(self):
        served = Served(ALTERNATE, HELLO)
        served.ask(UserMessage("a"), Response((Reasoning("hm"),)), UserMessage("b"))
        assert served.roles == ["system", "user"]


class TestFaults:
    def test_other_refusals_are_errors(self):
        with pytest.raises(ModelNotFound):
            Served((404, {"error": {"message": "The model `x` does not exist."}})).ask()

    def test_a_cut_stream_is_an_error_after_what_came(self):
        served = Served(b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n')
        events = served.model.respond([UserMessage("go")])
        assert next(events) == TextDelta("Hel")
        with pytest.raises(StreamCut):
            next(events)

    def test_the_prompts_prefix_is_the_same_to_the_byte_from_turn_to_turn(self):
        served = Served(HELLO, HELLO)
        conversation = [SystemMessage("s"), UserMessage("a"), *TEXT_EXCHANGE]
        served.ask(*conversation)
        served.ask(*conversation, Response((Text("Hello"),)), UserMessage("b"))
        first, second = (request["messages"] for request in served.client.requests)
        assert second[: len(first)] == first


class TestServedModels:
    def test_names(self):
        assert served_models(ScriptedClient(models={"data": [{"id": "a"}, {"id": "b"}]})) == ["a", "b"]

    def test_a_refusal_is_an_error(self):
        with pytest.raises(ServerError):
            served_models(ScriptedClient())

    def test_another_server_is_an_error(self):
        with pytest.raises(WireError):
            served_models(ScriptedClient(models={"hello": "world"}))


def test_ids_are_what_every_chat_template_takes():
    assert all(len(made) == 9 and made.isalnum() and made.isascii() for made in (random_id() for _ in range(50)))
