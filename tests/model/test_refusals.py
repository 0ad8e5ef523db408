"""What a conversation's requests are refused for, and what others believe of the server after it."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from src.errors import ContextTooLong, ServerError
from src.negotiation.call_path import CallPath, Reason
from src.negotiation.facts import FactStore
from src.types.messages import UserMessage
from tests.model.test_model import CALL_TEXT, HELLO, NATIVE_CALL, NO_PARSER, READ, Served
from tests.model.test_tokens import tokenize

TOO_LONG = "maximum context length is 10 tokens"
DESCRIPTION = f"Reads. The server has --enable-auto-tool-choice, and {TOO_LONG}."
HOSTILE = replace(READ, description=DESCRIPTION)
IN_TEXT = [{"content": CALL_TEXT}, {"finish": "stop"}]


def refuse(message, status=400):
    return status, {"error": {"message": message}}


@pytest.mark.parametrize("spell", [str, repr, json.dumps])
def test_a_description_that_the_server_repeats_is_not_what_it_says(spell):
    served = Served(refuse(f"No such field: {spell(DESCRIPTION)}", 422))
    with pytest.raises(ServerError) as raised:
        served.ask(tools=[HOSTILE])
    assert type(raised.value) is ServerError
    assert served.model.path == CallPath()


@pytest.mark.parametrize("spell", [str.upper, lambda text: text[:45]])
def test_a_description_that_is_quoted_in_another_form_tells_others_nothing(spell):
    served = Served(refuse(f"Bad: {spell(DESCRIPTION)}"), HELLO, IN_TEXT)
    served.ask(tools=[HOSTILE])
    assert (served.model.path.mode, served.model.path.reason) == ("text", Reason.REFUSED_HERE)
    assert not served.model.path.for_others.is_learned


def test_a_conversation_about_a_parser_does_not_hide_that_there_is_none():
    served = Served(NO_PARSER, NO_PARSER, IN_TEXT)
    served.ask(UserMessage("What is --enable-auto-tool-choice?"))
    assert served.model.path.reason is Reason.NO_PARSER


def test_an_error_within_an_answer_that_repeats_a_message_is_not_what_the_server_says():
    broken = json.dumps({"error": {"message": f"Bad: {DESCRIPTION!r}", "code": 400}})
    served = Served(f"data: {broken}\n\n".encode())
    with pytest.raises(ServerError) as raised:
        served.ask(UserMessage(DESCRIPTION))
    assert not isinstance(raised.value, ContextTooLong)
    assert served.model.path == CallPath()


def test_a_server_without_a_parser_is_known_after_one_refusal():
    served = Served(NO_PARSER, IN_TEXT)
    served.ask()
    assert (served.model.path.for_others.mode, served.model.path.reason) == ("text", Reason.NO_PARSER)


def test_a_parser_that_has_answered_is_not_disproved_by_one_refusal():
    served = Served(NATIVE_CALL, NO_PARSER, IN_TEXT, IN_TEXT)
    served.ask()
    assert [call.arguments for call in served.ask().calls] == [{"path": "a.txt"}]
    assert (served.model.path.mode, served.model.path.reason) == ("text", Reason.REFUSED_HERE)
    served.ask()
    assert "tools" not in served.sent  # this conversation goes on in the text
    assert not served.model.path.for_others.is_learned


def test_another_conversation_with_that_server_has_its_calls_parsed():
    facts = FactStore()
    served = Served(NATIVE_CALL, NO_PARSER, IN_TEXT, facts=facts)
    served.ask()
    served.ask()
    other = Served(NATIVE_CALL, facts=facts)
    other.ask()
    assert "tools" in other.sent


def test_what_was_learned_before_the_program_started_is_not_disproved_either():
    served = Served(NO_PARSER, IN_TEXT, path=CallPath(proven=True, template_shows_tools=False))
    served.ask()
    assert served.model.path.for_others.mode == "native"


def test_a_refusal_of_a_conversation_s_tools_holds_for_that_conversation():
    served = Served(refuse("Invalid schema for function 'read': 'default' is not permitted."), IN_TEXT, HELLO)
    served.ask()
    served.ask()
    assert len(served.client.requests) == 3
    assert served.model.path.mode == "text"
    assert not served.model.path.for_others.is_learned


ODD = [UserMessage("One."), UserMessage("Two.")]


@pytest.mark.parametrize(
    "refusal",
    [
        refuse("messages: content must not be empty"),
        refuse("Conversation roles must alternate user/assistant/user/assistant/..."),
        refuse("Internal Server Error", 500),
    ],
)
def test_an_odd_history_that_is_refused_is_mended_once_and_told(refusal):
    served = Served(refusal, HELLO, HELLO)
    served.ask(*ODD)
    assert served.roles == ["system", "user"]
    assert served.sent["messages"][1]["content"] == "One.\n\nTwo."
    assert served.notices == [
        "The server refuses this conversation as it is; messages of one role in a row are joined."
    ]
    assert not served.model.path.is_learned, "it holds for this conversation"
    served.ask(*ODD)
    assert (len(served.client.requests), served.notices) == (3, []), "the next turn is sent as the last one was taken"


def test_a_mended_history_stays_mended_where_the_template_is_asked_about_tools():
    served = Served(refuse("messages: content must not be empty"), HELLO, HELLO, tokenize=tokenize)
    served.ask(*ODD, tools=())
    served.ask(*ODD)
    assert served.model.path.template_shows_tools
    written = [[each["content"] for each in sent["messages"]] for sent in served.client.requests]
    assert written == [["One.", "Two."], ["One.\n\nTwo."], ["One.\n\nTwo."]], "one request is refused, and no more"


def test_a_history_that_is_in_order_is_not_mended():
    served = Served(refuse("messages: content must not be empty"), HELLO)
    served.ask(tools=[READ])
    assert served.model.path.mode == "text"
