"""What a refusal changes, whoever asks."""

from __future__ import annotations

import pytest

from src.errors import ParserFailed, ServerError, TemplateRejected, ToolsUnsupported
from src.negotiation.call_path import CallPath
from src.negotiation.downgrade import avoid_parser, choose_downgrade
from src.negotiation.facts import FactStore, ServedModel

SERVED = ServedModel("http://server", "tiny", "")
FIELDS = frozenset({"return_token_ids"})
ROLES = TemplateRejected("Roles must alternate", status=400, body="Roles must alternate")
OTHER = ServerError("No", status=400, body="No")
SCHEMA = ServerError("No", status=400, body="Invalid schema for function read")
FIELD = ServerError("No", status=400, body="unknown field return_token_ids")


def change(refusal, *odd, path=CallPath(), are_tools_ours=True):  # noqa: B008 - it cannot be changed
    return choose_downgrade(path, refusal, odd, FIELDS, are_tools_ours=are_tools_ours).path


def test_a_refusal_of_messages_mends_an_odd_history_and_leaves_the_path():
    mended = change(ROLES, "roles")
    assert (mended, mended.mended) == (CallPath(), True)


def test_of_a_history_in_order_it_changes_the_path():
    assert change(ROLES).alternate


def test_a_refusal_that_names_a_field_is_about_that_field_in_an_odd_history_too():
    changed = change(FIELD, "roles")
    assert (changed.disabled_fields, changed.mended) == (("return_token_ids",), False)


def test_a_refusal_that_nothing_else_explains_may_be_about_an_odd_history():
    assert change(OTHER, "roles").mended
    with pytest.raises(ServerError):
        change(OTHER)


def test_a_refusal_of_schemas_is_about_tools_of_ours_in_a_history_in_order_only():
    assert change(SCHEMA).mode == "text"
    assert change(SCHEMA, "roles").mended
    with pytest.raises(ServerError):
        change(SCHEMA, are_tools_ours=False)


def test_an_error_inside_an_answer_is_not_about_the_history():
    broken = TemplateRejected("Roles must alternate", status=400)
    broken.in_answer = True
    assert change(broken, "roles").alternate


def test_a_refusal_of_tools_leaves_an_odd_history_as_it_is():
    assert not change(ToolsUnsupported("No parser", status=400), "roles").mended


def test_a_failed_parser_moves_the_turn_to_text_and_counts():
    facts = FactStore()
    avoided = avoid_parser(facts, SERVED, CallPath(), ParserFailed("Cannot parse"), may_ask_again=True)
    assert avoided.path == CallPath().for_text_turn
    assert facts.parser_records.get(SERVED).failures == (True,)


def test_a_turn_that_may_not_be_asked_again_keeps_its_failure_which_counts_all_the_same():
    facts = FactStore()
    with pytest.raises(ParserFailed):
        avoid_parser(facts, SERVED, CallPath(), ParserFailed("Cannot parse"), may_ask_again=False)
    assert facts.parser_records.get(SERVED).failures == (True,)


def test_a_failure_on_another_path_says_nothing_of_the_native_one():
    facts = FactStore()
    avoid_parser(facts, SERVED, CallPath("template"), ParserFailed("Cannot parse"), may_ask_again=True)
    assert facts.parser_records.get(SERVED).failures == ()
