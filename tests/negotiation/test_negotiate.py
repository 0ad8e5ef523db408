"""What is sent after a refusal, whoever asks."""

from __future__ import annotations

from collections.abc import Set

import pytest
from msgspec.structs import replace

from src.errors import ServerError
from src.negotiation import CallPath
from src.negotiation.negotiate import negotiate
from src.types.effects import Aside

GRAMMAR = frozenset({"structured_outputs"})
BROKEN = ServerError("Internal error", status=500)
REFUSED = ServerError("No", status=400)


class ScriptedAsker:
    """Its requests are the optional fields they have; `answers`: a refusal or None, one for each request."""

    def __init__(self, *answers: ServerError | None, changes: int = 1) -> None:
        self.answers = list(answers)
        self.changes = changes
        self.prepared: list[CallPath] = []
        self.sent: list[tuple[frozenset[str], CallPath]] = []
        self.accepted: list[tuple[CallPath, frozenset[str]]] = []

    def prepare(self, path: CallPath) -> Aside[CallPath]:
        yield from ()
        self.prepared.append(path)
        return replace(path, written_format="hermes")

    def edit(self, path: CallPath, without: Set[str]) -> frozenset[str]:
        return (GRAMMAR | {"return_token_ids"}) - without - frozenset(path.disabled_fields)

    def list_optional_fields(self, body: frozenset[str]) -> frozenset[str]:
        return body

    def send(self, body: frozenset[str], path: CallPath) -> Aside[None]:
        yield from ()
        self.sent.append((body, path))
        if refusal := self.answers.pop(0):
            raise refusal

    def change(self, path: CallPath, refusal: ServerError, body: frozenset[str], without: Set[str]) -> Aside[CallPath]:
        yield from ()
        if not self.changes:
            raise refusal
        self.changes -= 1
        return path.disable_fields(["return_token_ids"])

    def accept(self, path: CallPath, without: Set[str]) -> None:
        self.accepted.append((path, frozenset(without)))


def run(asker: ScriptedAsker, **options: bool) -> list[frozenset[str]]:
    """The requests that were sent."""
    list(negotiate(asker, CallPath(), **options))
    return [body for body, _ in asker.sent]


def test_what_is_accepted_is_sent_once():
    asker = ScriptedAsker(None)
    assert run(asker) == [GRAMMAR | {"return_token_ids"}]
    assert asker.accepted == [(CallPath(written_format="hermes"), frozenset())]


def test_a_refusal_changes_the_path_of_the_next_request():
    asker = ScriptedAsker(REFUSED, None)
    assert run(asker) == [GRAMMAR | {"return_token_ids"}, GRAMMAR]
    assert asker.accepted[0][0].disabled_fields == ("return_token_ids",)


def test_each_path_is_prepared_before_it_is_used():
    asker = ScriptedAsker(REFUSED, None)
    run(asker)
    assert [path.disabled_fields for path in asker.prepared] == [(), ("return_token_ids",)]
    assert all(path.written_format for _, path in asker.sent)


def test_where_nothing_is_left_to_change_the_last_refusal_is_raised():
    asker = ScriptedAsker(ServerError("first", status=400), REFUSED)
    with pytest.raises(ServerError) as raised:
        run(asker)
    assert raised.value is REFUSED
    assert asker.accepted == []


def test_a_request_with_a_grammar_that_fails_is_sent_without_it():
    asker = ScriptedAsker(BROKEN, None)
    assert run(asker) == [GRAMMAR | {"return_token_ids"}, frozenset({"return_token_ids"})]
    assert asker.accepted[0][1] == GRAMMAR


def test_one_that_fails_without_its_grammar_too_is_refused_for_another_reason():
    asker = ScriptedAsker(BROKEN, BROKEN, changes=0)
    with pytest.raises(ServerError):
        run(asker)
    assert len(asker.sent) == 2


def test_a_failure_that_names_the_grammar_is_a_refusal_of_it():
    asker = ScriptedAsker(ServerError("No", status=500, body="Failed to compile the grammar"), None)
    assert run(asker) == [GRAMMAR | {"return_token_ids"}, GRAMMAR], "the asker has changed the path"


def test_where_the_grammar_is_not_in_doubt_a_failure_is_a_refusal():
    asker = ScriptedAsker(BROKEN, changes=0)
    with pytest.raises(ServerError):
        run(asker, doubts_grammar=False)
    assert len(asker.sent) == 1


def test_a_failure_inside_the_answer_is_not_blamed_on_the_grammar():
    broken = ServerError("Internal error", status=500)
    broken.in_answer = True
    asker = ScriptedAsker(broken, changes=0)
    with pytest.raises(ServerError):
        run(asker)
    assert len(asker.sent) == 1
