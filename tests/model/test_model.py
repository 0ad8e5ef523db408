import itertools
import json

import pytest
from msgspec.structs import replace

from src.app.endpoint import random_id
from src.errors import (
    BotError,
    ConnectFailed,
    ContextTooLong,
    ModelNotFound,
    ServerError,
    StreamCut,
    TemplateRejected,
    WireError,
)
from src.negotiation.call_path import NOTICES, ROLES_MERGED, SYSTEM_FOLDED, CallPath
from src.negotiation.history.mending import describe_mended
from src.providers.vllm import fits_openai_strict, fits_xgrammar
from src.types.events import Completed, Notice, PromptChanged, TextDelta
from src.types.messages import (
    Named,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tests.doubles import ScriptedClient, list_models, make_model
from tests.each import check_rows
from tests.providers.doubles import codec

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
        names = ("models", "tokenize", "detokenize", "completions", "v1/models")
        aside = {name: options.pop(name) for name in names if name in options}
        self.client = ScriptedClient(*answers, **aside)
        ids = (f"made{number}" for number in itertools.count())
        self.model = make_model(self.client, "tiny", new_id=lambda: next(ids), **options)

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
        served = Served(ALTERNATE, ALTERNATE, HELLO)
        served.ask(SystemMessage("s"), UserMessage("a"), UserMessage("b"), *NATIVE_EXCHANGE, UserMessage("c"))
        _, mended, _ = served.client.requests
        assert [each["role"] for each in mended["messages"]] == ["system", "user", "assistant", "tool", "user"]
        assert served.roles == ["system", "user", "assistant", "user"]
        assert served.sent["messages"][1]["content"] == "a\n\nb"
        assert served.sent["messages"][3]["content"].endswith("c")
        assert served.notices == [describe_mended(["roles"]), ROLES_MERGED]

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
    NO_MODEL = (404, {"error": {"message": "The model `x` does not exist."}})

    def test_other_refusals_are_errors(self):
        with pytest.raises(ModelNotFound):
            Served(self.NO_MODEL).ask()

    def test_where_the_server_has_but_one_model_it_is_taken_and_the_user_told(self):
        served = Served(self.NO_MODEL, HELLO, models={"data": [{"id": "big"}]})
        assert served.ask().text == "Hello"
        assert served.sent["model"] == served.model.name == "big"
        assert served.notices == ["The server has no model tiny; using big, the only one it serves."]

    def test_of_several_the_user_is_told_which_there_are(self):
        with pytest.raises(ModelNotFound) as raised:
            Served(self.NO_MODEL, models={"data": [{"id": "a"}, {"id": "b"}]}).ask()
        assert raised.value.hint == "It serves a, b: choose one with --model or vllm.model."

    def test_a_missing_v1_is_suggested_where_there_is_one(self):
        with pytest.raises(ServerError) as raised:
            Served((404, {"detail": "Not Found"}), **{"v1/models": {"data": [{"id": "a"}]}}).ask()
        assert raised.value.hint == "There is a server at http://scripted/v1/v1: set vllm.base_url to that."

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
        assert list_models(ScriptedClient(models={"data": [{"id": "a"}, {"id": "b"}]})) == ["a", "b"]

    def test_a_refusal_is_an_error(self):
        with pytest.raises(ServerError):
            list_models(ScriptedClient())

    def test_another_server_is_an_error(self):
        with pytest.raises(WireError):
            list_models(ScriptedClient(models={"hello": "world"}))


def test_ids_are_what_every_chat_template_takes():
    assert all(len(made) == 9 and made.isalnum() and made.isascii() for made in (random_id() for _ in range(50)))


class TestTemplatePath:
    @staticmethod
    def tokens(asked):
        return {"tokens": [1] * (200 if "tools" in asked else 20), "max_model_len": 4096}

    def test_a_server_without_a_parser_whose_template_shows_tools_is_sent_them_without_a_choice(self):
        served = Served(NO_PARSER, HELLO, tokenize=self.tokens)
        served.ask()
        assert served.sent["tool_choice"] == "none"
        assert served.sent["skip_special_tokens"] is False
        assert served.notices == [NOTICES["template"]]

    def test_a_call_in_the_models_own_format_is_found_and_sent_back_native(self):
        call = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
        served = Served([{"content": call}, {"finish": "stop"}], HELLO, path=CallPath("template"))
        response = served.ask()
        assert [(call.name, call.origin) for call in response.calls] == [("read", "hermes")]
        results = ToolResults((ToolResult(response.calls[0].id, "read", "text", "alpha"),))
        served.ask(UserMessage("go"), response, results)
        assert served.roles == ["user", "assistant", "tool"]

    def test_without_tools_there_is_no_choice(self):
        served = Served(HELLO, path=CallPath("template"))
        served.ask(UserMessage("go"), tools=())
        assert "tool_choice" not in served.sent


class TestWhetherTheTemplateShowsTheTools:
    """/tokenize tells, before the first request with tools."""

    def served(self, *answers, shown, **options):
        self.asked = []

        def tokenize(body):
            self.asked.append(body)
            return {"tokens": [1] * (200 if shown and "tools" in body else 20), "max_model_len": 4096}

        return Served(*answers, tokenize=tokenize, **options)

    def test_where_it_does_the_system_prompt_says_nothing_of_tools(self):
        served = self.served(HELLO, shown=True)
        served.ask()
        assert served.sent["messages"][0] == {"role": "system", "content": "Be brief."}
        assert [tool["function"]["name"] for tool in served.sent["tools"]] == ["read"]

    def test_where_it_does_not_the_system_prompt_lists_them(self):
        served = self.served(HELLO, shown=False)
        served.ask()
        assert served.sent["messages"][0]["content"].startswith("Be brief.\n\n## Available Tools")

    def test_two_prompts_are_compared_once_in_a_conversation(self):
        served = self.served(HELLO, HELLO, shown=True)
        served.ask()
        served.ask()
        assert ["tools" in body for body in self.asked] == [False, True]

    def test_a_server_that_cannot_tell_is_asked_once_and_its_model_told_of_the_tools(self):
        asked = []
        served = Served(HELLO, HELLO, tokenize=lambda body: asked.append(body) or {})
        for _ in range(2):
            served.ask()
            assert "## Available Tools" in served.sent["messages"][0]["content"]
        assert len(asked) == 1

    @pytest.mark.parametrize("shown", [True, False])
    def test_what_was_learned_is_not_asked_again(self, shown):
        first = self.served(HELLO, shown=shown)
        first.ask()
        path = CallPath.from_dict(first.model.path.to_dict())
        assert (path.template_shows_tools, path.is_learned) == (shown, True)
        served = self.served(HELLO, shown=shown, path=path)
        served.ask()
        assert self.asked == []

    def test_without_tools_nothing_is_asked(self):
        served = self.served(HELLO, shown=True)
        served.ask(tools=())
        assert self.asked == []


class TestToolChoice:
    def ask(self, served, choice, *messages):
        served.events = list(served.model.respond(messages or [UserMessage("go")], (READ,), choice))
        return served.events[-1].response

    @pytest.mark.parametrize("choice", ["auto", "none", "required"])
    def test_a_server_with_native_calls_is_sent_it(self, choice):
        served = Served(NATIVE_CALL)
        self.ask(served, choice)
        assert (served.sent["tool_choice"], len(served.sent["tools"])) == (choice, 1)

    def test_a_call_that_is_forced_on_the_text_path_is_forced_by_a_proven_grammar(self):
        proven = CallPath("text", grammar="structured_outputs")
        served = Served([{"content": CALL_TEXT}, {"finish": "stop"}], path=proven)
        self.ask(served, Named("read"))
        form = json.loads(served.sent["structured_outputs"]["structural_tag"])["format"]
        assert (form["at_least_one"], form["stop_after_first"]) == (True, True)
        assert served.sent["messages"][-1]["content"] == "go"
        assert served.notices == []

    def test_a_forced_call_has_a_grammar_where_the_template_shows_the_tools_beside_the_wish(self):
        served = Served([{"content": CALL_TEXT}, {"finish": "stop"}], path=CallPath("template"))
        self.ask(served, Named("read"))
        assert "at_least_one" in served.sent["structured_outputs"]["structural_tag"]

    @check_rows(
        "options",
        [
            {"path": CallPath("text"), "is_vllm": False},
            {"path": CallPath("text"), "constrained": "off"},
            {"path": CallPath("text", disabled_fields=["structured_outputs"])},
            {"path": CallPath("template")},
        ],
    )
    @check_rows("choice, wish", [("required", "at least one tool"), (Named("read"), "the tool read")])
    def test_where_the_server_cannot_force_it_the_model_is_asked_for_it(self, options, choice, wish):
        served = Served([{"content": CALL_TEXT}, {"finish": "stop"}], **options)
        self.ask(served, choice)
        assert wish in served.sent["messages"][-1]["content"]
        assert served.notices == []

    def test_that_no_call_came_is_told_before_the_end(self):
        served = Served(HELLO, HELLO, path=CallPath("text"))
        for choice, wanted in (("required", "a tool"), (Named("read"), "read")):
            self.ask(served, choice)
            assert served.events[-2] == Notice(f"The model was to call {wanted}, and did not.")

    def test_a_tool_that_is_not_offered_cannot_be_forced(self):
        served = Served()
        with pytest.raises(BotError, match="There is no tool list"):
            self.ask(served, Named("list"))
        assert served.client.requests == []

    def test_none_leaves_the_text_paths_prompt_as_it_is_and_sends_no_grammar(self):
        served = Served(HELLO, HELLO, path=CallPath("text"))
        self.ask(served, "auto")
        self.ask(served, "none")
        auto, none = served.client.requests
        assert auto["messages"] == none["messages"]
        assert "structured_outputs" not in none

    def test_with_none_calls_that_a_server_left_in_the_text_are_no_fault_of_its_parser(self):
        served = Served([{"content": '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>'}])
        served.client.answers[0].append({"finish": "stop"})
        assert [call.origin for call in self.ask(served, "none").calls] == ["hermes"]
        assert served.notices == []


class TestPromptChanged:
    LONG = (SystemMessage("s"), UserMessage("go"), *NATIVE_EXCHANGE)

    def changes(self, served):
        return [event.parts for event in served.events if isinstance(event, PromptChanged)]

    def test_a_conversation_goes_on_without_one(self):
        served = Served(HELLO, HELLO)
        served.ask(*self.LONG)
        served.ask(*self.LONG, UserMessage("more"))
        assert self.changes(served) == []

    def test_another_path_changes_the_system_prompt_and_the_tools(self):
        served = Served(HELLO, NO_PARSER, HELLO)
        served.ask(*self.LONG)
        served.ask(*self.LONG)
        assert self.changes(served) == [("path", "system prompt", "tools")]

    def test_other_tools_change_both(self):
        served = Served(HELLO, HELLO)
        served.ask(*self.LONG)
        served.ask(*self.LONG, tools=(READ, replace(READ, name="list")))
        assert self.changes(served) == [("system prompt", "tools")]


class TestOptions:
    def test_on_the_text_path_the_server_is_given_the_grammar(self):
        served = Served(HELLO, path=CallPath("text"))
        served.ask()
        assert "structural_tag" in served.sent["structured_outputs"]

    @pytest.mark.parametrize(("constrained", "sent"), [("auto", False), ("on", True)])
    def test_who_speaks_of_the_mark_is_left_free_to_name_it(self, constrained, sent):
        served = Served(HELLO, path=CallPath("text"), constrained=constrained)
        served.ask(UserMessage("What is TOOL_CALL: for?"))
        assert ("structured_outputs" in served.sent) is sent

    def test_a_user_who_wants_no_grammar_gets_none(self):
        served = Served(HELLO, path=CallPath("text"), constrained="off")
        served.ask()
        assert "structured_outputs" not in served.sent

    def test_a_server_that_cannot_compile_it_is_asked_without_and_the_user_not_bothered(self):
        served = Served((400, {"error": {"message": "Grammar error: no"}}), HELLO, HELLO, path=CallPath("text"))
        assert served.ask().text == "Hello"
        assert served.notices == []
        served.ask()
        assert "structured_outputs" not in served.sent

    def test_where_the_user_insists_its_refusal_is_an_error(self):
        refused = (400, {"error": {"message": "Grammar error: no"}})
        with pytest.raises(ServerError, match="Grammar"):
            Served(refused, path=CallPath("text"), constrained="on").ask()

    def test_a_server_that_is_no_vllm_is_sent_none_of_its_fields(self):
        served = Served(HELLO, is_vllm=False)
        served.ask()
        assert "return_token_ids" not in served.sent


class TestStrict:
    """Native calls held to their schemas by the server's grammar."""

    BROKEN = (500, {"error": {"message": "Internal Server Error"}})

    def served(self, *answers, **options):
        return Served(*answers, strict=fits_xgrammar, **options)

    def strict(self, served):
        return [tool["function"].get("strict", False) for tool in served.sent["tools"]]

    def test_where_only_its_full_form_can_be_strict_that_one_is_sent(self):
        plain = {"type": "object", "properties": {"at": {"type": "string"}}, "additionalProperties": False}
        tool = ToolDefinition("look", "Look.", plain, drops_nulls=True)
        served = Served([{"content": "hello"}, {"finish": "stop"}], strict=fits_openai_strict)
        served.ask(tools=[tool])
        assert self.strict(served) == [True]
        sent = served.sent["tools"][0]["function"]["parameters"]
        assert sent["required"] == ["at"]
        assert sent["properties"]["at"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}

    def test_a_tool_whose_schema_allows_it_is_sent_as_strict(self):
        served = self.served(HELLO)
        odd = replace(READ, parameters={"type": "object", "properties": {"path": {"pattern": "(?<!x)y"}}})
        served.ask(tools=(READ, odd))
        assert self.strict(served) == [True, False]

    @pytest.mark.parametrize("tag", ["<tool_call>", "[TOOL_CALLS]", "<|tool_calls_section_begin|><|tool_call_begin|>"])
    def test_none_where_the_conversation_is_about_the_tags_of_calls(self, tag):
        """The grammar would make a call of each that the model names."""
        served = self.served(HELLO, HELLO, HELLO)
        served.ask(UserMessage(f"What does {tag} mean?"))
        assert self.strict(served) == [False]
        read = ToolCall("a", "read", {"path": "a"})
        results = ToolResults((ToolResult("a", "read", "text", f"a file with {tag}"),))
        served.ask(UserMessage("go"), Response((read,)), results)
        assert self.strict(served) == [False]
        served.ask(UserMessage("import functools; what is a <tool>?"))
        assert self.strict(served) == [True]

    def test_tools_are_not_strict_where_the_server_reads_no_calls(self):
        served = self.served(HELLO, path=CallPath("template"))
        served.ask()
        assert self.strict(served) == [False]

    def test_a_server_that_cannot_is_asked_without_and_that_is_remembered(self):
        served = self.served((400, {"error": {"message": "Invalid grammar specification: 'triggers'"}}), HELLO)
        assert served.ask().text == "Hello"
        assert self.strict(served) == [False]
        assert served.model.path.disabled_fields == ("strict",)
        assert served.notices == []

    def test_one_that_fails_on_it_with_a_500_is_asked_without_at_once_and_with_it_the_next_time(self):
        served = self.served(self.BROKEN, HELLO, HELLO)
        assert served.ask().text == "Hello"
        assert self.strict(served) == [False]
        assert served.client.slept == []
        assert served.ask().text == "Hello"
        assert self.strict(served) == [True]
        assert served.model.path.disabled_fields == ()

    def test_that_it_fails_so_turn_after_turn_is_remembered(self):
        served = self.served(self.BROKEN, HELLO, self.BROKEN, HELLO)
        served.ask()
        served.ask()
        assert served.model.path.disabled_fields == ("strict",)

    def test_two_passing_faults_with_a_good_answer_between_them_are_not(self):
        served = self.served(self.BROKEN, HELLO, HELLO, self.BROKEN, HELLO)
        for _ in range(3):
            served.ask()
        assert served.model.path.disabled_fields == ()

    def test_a_500_that_speaks_of_the_grammar_is_remembered_at_once(self):
        served = self.served((500, {"error": {"message": "Failed to compile the grammar"}}), HELLO)
        served.ask()
        assert served.model.path.disabled_fields == ("strict",)

    def test_a_refusal_that_stays_without_it_was_not_about_it(self):
        refused = (400, {"error": {"message": "Unknown word: 'grammar'"}})
        served = self.served(refused, refused)
        with pytest.raises(ServerError, match="Unknown word"):
            served.ask()
        assert served.model.path.disabled_fields == ()

    def test_a_500_that_was_not_about_it_costs_one_question_more_and_nothing_is_learnt(self):
        served = self.served(self.BROKEN, self.BROKEN, HELLO)
        assert served.ask().text == "Hello"
        assert self.strict(served) == [True]
        assert len(served.client.slept) == 1
        assert served.model.path.disabled_fields == ()


class TestWholeAnswers:
    """`stream=False`."""

    WHOLE = {  # noqa: RUF012 - as a server answers
        "model": "tiny",
        "choices": [{"message": {"content": "Hello"}, "finish_reason": "stop", "token_ids": [5, 2]}],
    }

    def ask(self, **aside):
        served = Served((200, self.WHOLE), stream=False, **aside)
        served.ask()
        return served

    def test_are_asked_for_without_a_stream_and_what_only_a_stream_has(self):
        served = self.ask()
        assert served.sent["stream"] is False
        assert "stream_options" not in served.sent
        assert served.events[0] == TextDelta("Hello")

    def test_what_the_parser_lost_of_one_is_had_back_too(self):
        asked = []
        served = self.ask(detokenize=lambda body: asked.append(body) or {"prompt": "Hello <tool_call> there"})
        assert served.events[-1].response.text == "Hello <tool_call> there"
        assert asked[0]["tokens"] == [5]  # without the one that ends the turn


class TestContext:
    def served(self, *answers, prompt, **options):
        models = {"data": [{"id": "tiny", "max_model_len": 1000}]}
        tokenize = {"tokens": [1] * prompt, "max_model_len": 1000}
        return Served(*answers, models=models, tokenize=tokenize, **options)

    def test_max_tokens_is_cut_to_what_is_left_with_a_margin_of_one(self):
        served = self.served(HELLO, prompt=600, max_tokens=5000)
        served.ask()
        assert served.sent["max_tokens"] == 399

    def test_a_prompt_that_leaves_no_room_is_never_sent(self):
        served = self.served(prompt=990)
        with pytest.raises(ContextTooLong) as caught:
            served.ask()
        assert served.client.requests == []
        assert caught.value.excess > 0
        assert "990 tokens" in caught.value.message

    def test_a_prompt_that_is_sure_to_fit_is_not_counted(self):
        served = Served(HELLO, models={"data": [{"id": "tiny", "max_model_len": 100_000}]})
        assert served.ask().text == "Hello"

    def test_a_length_that_could_not_be_asked_for_is_asked_for_the_next_time(self):
        served = Served(HELLO, HELLO, models=ConnectFailed("No server."))
        served.ask()
        assert served.model.context_length is None
        served.client.aside["models"] = {"data": [{"id": "tiny", "max_model_len": 1000}]}
        assert served.model.context_length == 1000

    def test_the_tokens_of_a_prompt_are_counted_as_it_would_be_sent(self):
        served = self.served(prompt=77)
        assert served.model.measure_fill([UserMessage("go")], [READ]) == 0.077

    def test_without_a_known_length_the_server_decides(self):
        served = Served(HELLO, max_tokens=10**6)
        served.ask()
        assert served.sent["max_tokens"] == 10**6


def test_a_call_made_both_ways_is_one_whatever_the_order_of_its_arguments():
    text = 'TOOL_CALL: {"name": "read", "args": {"limit": 2, "path": "a"}}'
    native = {"index": 0, "id": "n1", "function": {"name": "read", "arguments": '{"path": "a", "limit": 2}'}}
    tool = replace(READ, parameters={"type": "object", "properties": {"path": {}, "limit": {}}})
    served = Served([{"content": text}, {"tool_calls": [native]}, {"finish": "tool_calls"}])
    assert [call.id for call in served.ask(UserMessage("go"), tools=(tool,)).calls] == ["n1"]


ANSWER_SCHEMA = {"type": "object", "properties": {"allow": {"type": "boolean"}}}


class TestAnswerSchema:
    def test_it_is_sent_where_the_api_has_a_field_for_it(self):
        served = Served(HELLO, answer_schema=ANSWER_SCHEMA)
        served.ask(tools=())
        form = served.client.requests[0]["response_format"]
        assert (form["type"], form["json_schema"]["schema"]) == ("json_schema", ANSWER_SCHEMA)

    def test_it_is_left_out_where_it_has_none(self):
        whole = {"content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"}
        served = Served((200, whole), answer_schema=ANSWER_SCHEMA, codec=codec("anthropic"), is_vllm=False)
        served.ask(tools=())
        assert "response_format" not in served.client.requests[0]


class TestAnAnswerWithoutEnd:
    """No answer is longer than 16 characters for each token of the context; it is ended as by max_tokens."""

    MODELS = {"data": [{"id": "tiny", "max_model_len": 4096}]}  # noqa: RUF012 - as a server answers
    LIMIT = 16 * 4096

    def served(self, make_delta):
        """No two pieces are the same, so that it is no repetition."""
        pieces = (f"{number} is a number. " for number in range(8000))
        return Served([make_delta(piece) for piece in pieces], models=self.MODELS)

    def test_text_is_ended_with_a_notice(self):
        served = self.served(lambda piece: {"content": piece})
        response = served.ask()
        assert response.stop_reason == "max_tokens"
        assert self.LIMIT < len(response.text) < self.LIMIT + 100
        assert [notice for notice in served.notices if notice.startswith("The answer was ended after 65,5")]

    def test_a_thought_is_ended(self):
        response = self.served(lambda piece: {"reasoning": piece}).ask()
        assert response.stop_reason == "max_tokens"
        assert self.LIMIT < len(response.content[0].text) < self.LIMIT + 100

    def test_a_call_is_ended_and_told_that_it_was_cut_off(self):
        call = lambda piece: {"tool_calls": [{"index": 0, "id": "n", "function": {"name": "read", "arguments": piece}}]}  # noqa: E731
        response = self.served(call).ask()
        (malformed,) = response.malformed
        assert "cut off" in malformed.reason
        assert response.calls == ()

    def test_one_that_ends_by_itself_is_left_alone(self):
        whole = "word " * 100
        served = Served(
            [{"content": whole}, {"finish": "stop"}], models={"data": [{"id": "tiny", "max_model_len": 5000}]}
        )
        assert (served.ask().text, served.notices) == (whole, [])
