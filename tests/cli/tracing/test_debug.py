import logging

import pytest

from src.cli.tracing.debug import Debug
from src.types.events import Completed, TurnStarted
from src.types.messages import MalformedCall, Response, ToolCall, Usage

NATIVE = ToolCall("a", "read", {"path": "file.txt"})
TEXT = ToolCall("a", "read", {"path": "file.txt"}, "text")


def traced(capsys, *events, level=1, secret=""):
    debug = Debug(level, [secret])
    for event in events:
        debug.trace(event)
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.splitlines()


def test_a_stop_reason_of_the_providers_own(capsys):
    assert traced(capsys, Completed(Response((), "other", provider_stop_reason="refusal"))) == [
        "[DEBUG] Stop reason: other (refusal)"
    ]


def test_a_native_call(capsys):
    lines = traced(capsys, TurnStarted(1), Completed(Response((NATIVE,), "tool_use", Usage(7, 3))))
    assert lines == [
        "[DEBUG] Iteration 1",
        "[DEBUG] Function calling format detected: 1 calls",
        "[DEBUG] Tool calls: [{'name': 'read', 'args': {'path': 'file.txt'}}]",
        "[DEBUG] Stop reason: tool_use, 7 tokens in, 3 out",
    ]


def test_a_text_call(capsys):
    assert traced(capsys, Completed(Response((TEXT,), "tool_use")))[:2] == [
        "[DEBUG] Tool calls found: 1  (text-based parsing)",
        "[DEBUG] Tool calls: [{'name': 'read', 'args': {'path': 'file.txt'}}]",
    ]


def test_how_a_call_was_recovered(capsys):
    call = ToolCall("a", "read", {}, "hermes", ("trailing comma",))
    assert "[DEBUG] read: format hermes, repaired: trailing comma" in traced(capsys, Completed(Response((call,))))


def test_that_a_call_was_guessed(capsys):
    call = ToolCall("a", "read", {}, "text", guessed=True)
    assert "[DEBUG] read: format text, guessed" in traced(capsys, Completed(Response((call,))))


def test_a_malformed_call_and_its_reason(capsys):
    call = MalformedCall("a", "read", "{", "It has no end.", "text")
    assert "[DEBUG] Malformed call (text): It has no end." in traced(capsys, Completed(Response((call,))))


def test_nothing_without_debug(capsys):
    assert traced(capsys, TurnStarted(1), Completed(Response((NATIVE,))), level=0) == []


def test_the_key_is_in_no_line(capsys):
    call = ToolCall("a", "exec", {"command": "echo sekret"})
    assert "sekret" not in "".join(traced(capsys, Completed(Response((call,))), secret="sekret"))


@pytest.fixture
def client_log():
    log = logging.getLogger("src.transport")
    yield log
    log.handlers.clear()
    log.setLevel(logging.NOTSET)


def test_level_two_shows_bodies_without_the_key(capsys, client_log):
    Debug(2, ["sekret"])
    client_log.debug("POST %s", "key=sekret")
    assert capsys.readouterr().err == "[DEBUG] POST key=[redacted]\n"


def test_level_one_shows_no_bodies(capsys, client_log):
    Debug(1)
    client_log.debug("POST")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("level", "shown"), [(0, ""), (1, "[DEBUG] Passed over.\n"), (2, "[DEBUG] Passed over.\n")])
def test_what_was_passed_over_is_shown_from_level_one_on(capsys, level, shown):
    Debug(1)
    Debug(level)  # the last one made counts
    logging.getLogger("src.providers").debug("Passed over.")
    assert capsys.readouterr().err == shown
    Debug(0)
