"""The outcome of an answer: what is asked once it has come, and which calls and which text its client gets."""

from __future__ import annotations

from msgspec.structs import replace

from src.negotiation.call_path import THOUGHTS_FIELD
from src.serve.chunks.guard import Ending
from src.serve.outcome import FinishedAnswer, decide_outcome, find_ask, write_ask
from src.serve.report import LandedCall
from src.types.messages import TEXT, MalformedCall, Reasoning, Response, Text, ToolCall
from tests.each import check_rows

THOUGHT = Reasoning("Hm.")
NOTHING = Response(())
FORM = {"type": "json_schema", "json_schema": {"schema": {"type": "object", "required": ["a"]}}}
JSON_TEXT = Text('{"a": 1}')

KNOWN = ToolCall("n1", "read", {"path": "a"})
UNKNOWN = ToolCall("n2", "cat", {"path": "a"})
CUT = ToolCall("n1", "read", {"path": "a and"})
IN_TEXT = ToolCall("t1", "read", {"path": "b"}, TEXT)
GUESSED = ToolCall("t2", "read", {"path": "b"}, TEXT, guessed=True)
ECHO = ToolCall("t3", "read", {"path": "b"}, TEXT, echo=True)
BAD = MalformedCall("t4", "read", "{", "Its braces are open.", TEXT)
BAD_NATIVE = MalformedCall("n1", "read", "{", "Its braces are open.")
STRANGE = MalformedCall("t5", "rm -rf", "{", "Its braces are open.", TEXT)
ANEW = ToolCall("m1", "read", {"path": "c"})


def finish(sent=(), own=None, whole=None, stop="end_turn", form=None, kept=""):
    """An answer with these blocks; what is not given is as the one before it. `kept`: its text without safe calls."""
    own = sent if own is None else own
    whole = own if whole is None else whole
    return FinishedAnswer(*(Response(tuple(each), stop, kept_text=kept) for each in (sent, own, whole)), ["read"], form)


ALL = ("unknown", "repair", "empty", "announced")


@check_rows(
    "answer, ask",
    [
        (finish([Text("Done.")]), ""),
        (finish([KNOWN]), ""),
        (finish([UNKNOWN]), "unknown"),
        (finish([KNOWN, UNKNOWN]), ""),
        (finish([BAD_NATIVE], whole=[CUT]), ""),
        (finish([Text("x")], [IN_TEXT]), ""),
        (finish([Text("x")], [IN_TEXT, BAD]), ""),
        (finish([Text("x")], [BAD]), "repair"),
        (finish([Text("x")], [GUESSED]), "repair"),
        (finish([Text("x")], [ECHO]), ""),
        (finish([Text("x")], [BAD], stop="max_tokens"), ""),
        (finish([THOUGHT]), "empty"),
        (finish([THOUGHT], whole=[Text("Hm.")]), "empty"),
        (finish([THOUGHT], whole=[IN_TEXT]), ""),
        (finish([Text("Let me look.")]), "announced"),
        (finish([JSON_TEXT], [GUESSED], form=FORM), ""),
    ],
)
def test_what_is_asked(answer, ask):
    assert find_ask(answer, ALL) == ask
    assert find_ask(answer, {*ALL} - {ask}) == ""


@check_rows(
    "answer, ask, messages",
    [
        (
            finish([THOUGHT, Text("{")], [THOUGHT, BAD]),
            "repair",
            [
                ("assistant", "Hm.{"),
                (
                    "user",
                    "Its braces are open. Nothing was run. Write the call again, correctly, and nothing else.",
                ),
            ],
        ),
        (
            finish([Text("x")], [GUESSED]),
            "repair",
            [
                ("assistant", "x"),
                (
                    "user",
                    "It is not certain that a call was meant, or what it was. Nothing was run. Write the call again, "
                    "correctly, and nothing else.",
                ),
            ],
        ),
        (
            finish([UNKNOWN]),
            "unknown",
            [("assistant", None), ("tool", "There is no such tool, and nothing was run. The tools are: read.")],
        ),
        (
            finish([Text("Let me look.")]),
            "announced",
            [
                ("assistant", "Let me look."),
                (
                    "user",
                    "You said what you would do next, and did not do it. Make the call now, or answer if nothing is left.",
                ),
            ],
        ),
    ],
)
def test_how_it_is_asked(answer, ask, messages):
    written = write_ask(ask, answer, shows_thoughts=True)
    assert [(each["role"], each["content"]) for each in written] == messages


def test_an_empty_answer_goes_back_with_its_thoughts_where_the_server_takes_them():
    assert write_ask("empty", finish([THOUGHT]), shows_thoughts=True)[0][THOUGHTS_FIELD] == "Hm."
    assert THOUGHTS_FIELD not in write_ask("empty", finish([THOUGHT]), shows_thoughts=False)[0]


@check_rows(
    "answer, more, ending",
    [
        # Calls.
        (finish([KNOWN]), NOTHING, Ending([])),
        (finish([BAD_NATIVE], whole=[CUT]), NOTHING, Ending([], completed={0: CUT})),
        (finish([KNOWN], whole=[CUT]), NOTHING, Ending([], completed={0: CUT})),
        (finish([Text("x")], [IN_TEXT]), NOTHING, Ending([IN_TEXT])),
        (finish([Text("x")], [ECHO], kept="x"), NOTHING, Ending([])),
        (finish([Text("x")], [Text("y"), BAD], kept="x"), NOTHING, Ending([])),
        (finish([], whole=[IN_TEXT]), NOTHING, Ending([IN_TEXT], is_replaced=True)),
        (finish([KNOWN], whole=[KNOWN, IN_TEXT]), NOTHING, Ending([IN_TEXT])),
        # Those of another turn.
        (finish([Text("x")], [Text("y"), BAD], kept="x"), Response((ANEW,)), Ending([ANEW], "y", is_replaced=True)),
        (finish([UNKNOWN]), Response((ANEW,)), Ending([ANEW], is_replaced=True)),
        (finish([UNKNOWN]), NOTHING, Ending([])),
        (finish([THOUGHT]), Response((ANEW,)), Ending([ANEW])),
        (finish([Text("Let me look.")]), Response((ANEW, Text("So."))), Ending([ANEW])),
        # Text.
        (finish([Text("Done.")]), NOTHING, Ending([])),
        (finish([Text("Do")], whole=[Text("Done.")]), NOTHING, Ending([], "Done.")),
        (finish([Text("Do")], whole=[Text(" Do\n")]), NOTHING, Ending([])),
        (finish([THOUGHT]), Response((Text("Done."),)), Ending([], "Done.")),
        (finish([THOUGHT], whole=[Text("Hm.")]), NOTHING, Ending([])),
        (finish([Text("x")], [BAD], stop="max_tokens"), NOTHING, Ending([])),
        (finish([Text("x"), KNOWN], [Text("x"), BAD, KNOWN], stop="max_tokens"), NOTHING, Ending([])),
        # The client's form.
        (finish([JSON_TEXT], [GUESSED], form=FORM), NOTHING, Ending((), '{"a": 1}')),
        (finish([KNOWN, Text("x")], form=FORM), NOTHING, Ending([])),
    ],
)
def test_what_the_client_gets(answer, more, ending):
    outcome = decide_outcome(answer, "", more)
    assert replace(outcome.ending, calls=[*outcome.ending.calls]) == replace(ending, calls=[*ending.calls])
    assert not outcome.lacks_form


@check_rows(
    "answer, more, landed",
    [
        (finish([KNOWN]), NOTHING, [("read", "native")]),
        (finish([BAD_NATIVE], whole=[CUT]), NOTHING, [("read", "recovered")]),
        (finish([Text("x")], [IN_TEXT, BAD]), NOTHING, [("read", "text")]),
        (finish([], whole=[IN_TEXT]), NOTHING, [("read", "recovered")]),
        (finish([UNKNOWN]), Response((ANEW,)), [("read", "repaired")]),
        (finish([UNKNOWN]), NOTHING, [("cat", "native")]),
        (finish([Text("x")], [BAD]), Response((ANEW,)), [("read", "repaired")]),
        (finish([Text("x")], [BAD, STRANGE]), NOTHING, [("read", "lost"), ("", "lost")]),
        (finish([Text("x")], [BAD], stop="max_tokens"), NOTHING, []),
    ],
)
def test_how_calls_came(answer, more, landed):
    assert [(call.name, call.how) for call in decide_outcome(answer, "", more).landed] == landed


def test_fitted_values_are_counted_and_repairs_are_told():
    call = ToolCall("n1", "read", {"line": 1}, repaired=("fitted line to integer",))
    outcome = decide_outcome(finish([call]), "", NOTHING)
    assert outcome.landed == [LandedCall("read", "native", "native", "n1", ("fitted line to integer",))]
    assert outcome.guards == {"fit": 1}


@check_rows(
    "answer, more, content",
    [
        (finish([THOUGHT, KNOWN]), NOTHING, (THOUGHT, KNOWN)),
        (finish([Text("x")], [Text("y"), IN_TEXT, BAD]), NOTHING, (Text("y"), IN_TEXT)),
        (finish([BAD_NATIVE], whole=[CUT]), NOTHING, (CUT,)),
        (finish([UNKNOWN]), Response((ANEW,)), (ANEW,)),
        (finish([THOUGHT]), Response((Text("Done."),)), (THOUGHT, Text("Done."))),
    ],
)
def test_the_next_request_goes_on_with_what_the_client_got(answer, more, content):
    assert decide_outcome(answer, "", more).response.content == content


def test_a_text_without_the_client_s_form_is_replaced_by_one_that_has_it():
    answer = finish([THOUGHT, Text("1 is a.")], form=FORM)
    assert decide_outcome(answer, "", NOTHING).lacks_form
    outcome = decide_outcome(answer, "", NOTHING, '{"a": 1}')
    assert outcome.ending.text == '{"a": 1}'
    assert outcome.response.content == (THOUGHT, JSON_TEXT)


def test_a_text_whose_form_cannot_be_had_stays():
    assert decide_outcome(finish([Text("1 is a.")], form=FORM), "", NOTHING).ending.text is None
