"""What may run without asking: reading, and the commands the user named. Everything else asks."""

from __future__ import annotations

import re
from typing import get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.messages import ToolCall
from src.security.approval import APPROVE_ALL, REFUSE_ALL, Request, decide
from src.tools.registry import Risk

ALLOWED = ("ls", "git status", "cat")


def action_on(command: object, allowed: tuple[str, ...] = ALLOWED) -> str:
    return decide("high", ToolCall("1", "exec", {"command": command}), allowed).action


def test_what_is_of_low_risk_runs_and_what_is_of_high_risk_asks():
    assert decide("low", ToolCall("1", "read", {"path": "a"})).action == "allow"
    assert decide("high", ToolCall("1", "write", {"path": "a"})).action == "ask"
    assert decide("high", ToolCall("1", "exec", {"command": "ls"})).action == "ask"


def test_a_risk_nobody_knows_asks():
    assert decide("none at all", ToolCall("1", "read", {})).action == "ask"


def test_the_type_checker_knows_every_risk_there_is():
    assert get_type_hints(decide)["risk"] == Risk


def test_allowed_commands_speak_of_exec_and_of_nothing_else():
    assert decide("high", ToolCall("1", "write", {"command": "ls", "path": "a"}), ALLOWED).action == "ask"


PLAIN = [
    "ls",
    "ls -la src",
    "cat a.txt",
    "ls   -l",
    "git status",
    "git status -s",
    "cat --number=3 a/b_c.py",
    "ls a@b:c,d+e%f",
]


@pytest.mark.parametrize("command", PLAIN)
def test_plain_words_that_begin_with_an_entrys_words_run(command):
    assert action_on(command) == "allow"


ASKING = {
    "another command": "rm -rf .",
    "a longer name": "lsof",
    "a path to the name": "./ls",
    "the entry's first word only": "git push",
    "the entry's words out of order": "status git",
    "fewer words than the entry": "git",
    "separator": "ls; touch pwned",
    "separator without blanks": "ls;touch pwned",
    "and": "ls && touch pwned",
    "or": "ls || touch pwned",
    "background": "ls & touch pwned",
    "pipe": "ls | tee pwned",
    "newline": "ls\ntouch pwned",
    "newline at the end": "ls\n",
    "carriage return": "ls\rtouch pwned",
    "line continuation": "ls \\\n; touch pwned",
    "substitution": "ls $(touch pwned)",
    "backquotes": "ls `touch pwned`",
    "process substitution": "cat <(touch pwned)",
    "variable": "ls $HOME",
    "blank by variable": "ls${IFS}-l",
    "redirect": "ls >pwned",
    "input redirect": "cat <a.txt",
    "here document": "cat <<E",
    "single quotes": "ls 'a b'",
    "double quotes": 'ls "a"',
    "backslash": "ls \\-l",
    "escaped newline": "l\\\ns",
    "star": "ls *",
    "question mark": "ls ?",
    "brackets": "ls [ab]",
    "braces": "ls {a,b}",
    "tilde": "ls ~",
    "history": "ls !!",
    "comment": "ls #x",
    "assignment before": "LD_PRELOAD=./evil.so ls",
    "group": "(ls)",
    "tab": "ls\t-l",
    "vertical tab": "ls\v-l",
    "NUL": "ls\0-l",
    "escape sequence": "ls \x1b[2J",
    "no-break space": "ls\u00a0-l",
    "zero-width space": "ls\u200b",
    "bidi override": "ls \u202e",
    "homoglyph": "l\u0455",
    "fullwidth semicolon": "ls\uff1b",
    "umlaut": "ls ü",
    "blank before": " ls",
    "blank after": "ls ",
    "nothing": "",
    "a blank": " ",
}


@pytest.mark.parametrize("command", ASKING.values(), ids=ASKING)
def test_anything_more_asks(command):
    assert action_on(command) == "ask"


@pytest.mark.parametrize("command", [None, 5, ["ls"], {"ls": 1}], ids=repr)
def test_a_command_that_is_no_string_asks(command):
    assert action_on(command) == "ask"


def test_no_command_asks():
    assert decide("high", ToolCall("1", "exec", {}), ALLOWED).action == "ask"


@pytest.mark.parametrize("entry", ["", " ", "\t"])
def test_an_empty_entry_allows_nothing(entry):
    assert action_on("ls", (entry,)) == "ask"


def test_without_entries_everything_asks():
    assert action_on("ls", ()) == "ask"


@settings(deadline=None)
@given(st.text(max_size=30))
def test_whatever_runs_unasked_is_plain_words(tail):
    if action_on("ls" + tail) == "allow":
        assert re.fullmatch(r"ls( +[\w./:,=@%+-]+)*", "ls" + tail, re.ASCII)


@settings(deadline=None)
@given(
    st.sampled_from(";&|<>$`\\\"'(){}[]*?~!#^\n\r\t\v\f\0"), st.sampled_from(["ls", "ls -l a", "git status"]), st.data()
)
def test_one_character_with_a_meaning_anywhere_is_enough_to_ask(character, command, data):
    at = data.draw(st.integers(0, len(command)))
    assert action_on(command[:at] + character + command[at:]) == "ask"


def test_who_approves_all_and_who_refuses_all():
    call = ToolCall("1", "exec", {"command": "ls"})
    assert APPROVE_ALL.approve(Request(call, "why")).allowed
    assert not REFUSE_ALL.approve(Request(call, "why")).allowed
    assert "--yes" in REFUSE_ALL.approve(Request(call, "why")).message


@pytest.mark.parametrize("risk", ["low", "high"])
def test_a_call_that_repeats_what_the_model_was_given_asks_whatever_its_risk(risk):
    call = ToolCall("c", "exec" if risk == "high" else "read", {"command": "ls"}, "text", echo=True)
    assert decide(risk, call, ["ls"]).action == "ask"
