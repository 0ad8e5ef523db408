"""What the screen shows at each moment of a turn. The tests provide the terminal, the clock and the events."""

import re

import pytest

from src.cli.render.live import LiveScreen
from src.cli.render.markdown import MarkdownRenderer
from src.types.events import (
    CallFinished,
    CallStarted,
    Completed,
    Notice,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    TurnStarted,
)
from src.types.messages import CHECKS_LEAD, Response, ToolCall, ToolResult
from tests.each import check_rows

READ = ToolCall("c", "read", {"path": "a.txt"})
DONE = Completed(Response(()))
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Shown:
    """A terminal of `rows`: the finished lines, with the unfinished ones below them."""

    def __init__(self, columns=60, rows=12, thinking="fold"):
        self.now = 0.0
        self.above = []
        self._rows = rows
        self.live = LiveScreen(
            lambda: (columns, rows), lambda colours: MarkdownRenderer("standard", colours), clock=lambda: self.now
        )
        self.live.thinking = thinking
        self.live.begin()

    def draw(self, *events, after=1.0):
        for event in events:
            self.live.draw(event)
        self.now += after
        return self

    def end(self):
        self.live.end()
        return self

    @property
    def raw_lines(self):
        self.above += self.live.take_above()
        return [*self.above, *self.live.render(self._rows)]

    @property
    def lines(self):
        lines = [COLOUR.sub("", line).rstrip() for line in self.raw_lines]
        return "\n".join(lines).rstrip("\n").split("\n")


def result(text="hello", kind="text"):
    return ToolResult("c", "read", kind, text)


def ran(printed, exit_code):
    ending = f"exit code {exit_code}"
    return ToolResult("c", "read", "text", f"{printed}\n[{ending}]", ending=ending, exit_code=exit_code)


def test_while_nothing_came_the_clock_runs():
    assert re.fullmatch(r". waiting 2\.0 s · Ctrl-C stops", Shown().draw(TurnStarted(1), after=2).lines[0])


def test_an_answer_is_drawn_as_it_comes_and_stays():
    shown = Shown().draw(TextDelta("Some **bo"))
    assert shown.lines[0] == "Some **bo"
    shown.draw(TextDelta("ld** text."))
    assert shown.lines[0] == "Some bold text."
    assert shown.draw(DONE).end().lines == ["Some bold text."]


def test_tokens_and_their_rate_are_told():
    shown = Shown().draw(TurnStarted(1))
    for _ in range(5):
        shown.draw(TextDelta("a "), after=0.5)
    assert "answering 3.5 s · 5 tokens · 1.6 tokens/s" in shown.lines[1]


def test_a_call_has_a_line_while_it_runs_and_one_for_good():
    shown = Shown().draw(CallStarted(READ), after=2)
    assert shown.lines[0] == '  read(path="a.txt") -> ...  2.0 s'
    assert "running 2.0 s" in shown.lines[1]
    assert shown.draw(CallFinished(READ, result())).end().lines[0] == '  read(path="a.txt") -> hello  2.0 s'


def test_a_call_that_was_stopped_has_its_line_too():
    shown = Shown().draw(CallStarted(READ), after=2).end()
    assert shown.lines == ['  read(path="a.txt") -> stopped  2.0 s']


def test_a_command_that_failed_is_red_and_says_how_it_ended():
    shown = Shown().draw(CallStarted(READ), CallFinished(READ, ran("Oh no.", 1))).end()
    assert "-> \x1b[31m[exit code 1]" in shown.raw_lines[0]
    assert shown.lines[1] == "    │ Oh no."


def test_a_file_that_ends_like_a_failed_command_has_not_failed():
    shown = Shown().draw(CallStarted(READ), CallFinished(READ, result("a\nb\n[exit code 1]"))).end()
    assert "\x1b[31m" not in shown.raw_lines[0]


def test_a_running_command_shows_its_last_lines_and_folds_when_it_ends():
    shown = Shown().draw(CallStarted(READ))
    for number in range(9):
        shown.live.show_output("c", f"line {number}\n")
    shown.live.show_output("c", "10%\r20%\r\x1b[2J30%")
    shown.live.show_output("another call", "not shown")
    assert shown.lines[1:5] == ["    │ line 6", "    │ line 7", "    │ line 8", "    │ 30%"]
    shown.draw(CallFinished(READ, ran("one\ntwo", 0))).end()
    assert shown.lines == ['  read(path="a.txt") -> 2 lines  1.0 s']


def test_a_failed_command_keeps_its_last_three_lines():
    failed = ran("one\ntwo\nthree\nfour " + "x" * 80, 1)
    shown = Shown().draw(CallStarted(READ), CallFinished(READ, failed)).end()
    cut = "    │ four " + "x" * 45 + "..."
    assert shown.lines == ['  read(path="a.txt") -> [exit code 1] 4 lines  0.0 s', "    │ two", "    │ three", cut]


def test_why_a_call_failed_is_shown_whole():
    reason = "there is no parameter newTxt (nearest: newText), and three others are missing"
    failed = ToolResult("c", "edit", "error", f"Wrong arguments for edit: {reason}. Usage: edit(path: string)")
    shown = Shown().draw(CallStarted(READ), CallFinished(READ, failed)).end()
    assert shown.lines == [
        '  read(path="a.txt") -> error  0.0 s',
        "    │ there is no parameter newTxt (nearest: newText), and",
        "    │ three others are missing",
    ]


def test_how_to_open_a_thought_is_told_once():
    shown = Shown().draw(ReasoningDelta("Hm."), TextDelta("A.\n\n"), ReasoningDelta("So."), TextDelta("B."))
    told = [line for line in shown.end().lines if "thought for" in line]
    assert ["Ctrl-O" in line for line in told] == [True, False]


def test_lines_of_the_programs_own_are_broken_at_blanks_and_those_of_others_are_not():
    shown = Shown(columns=20)
    shown.live.say("  /new   start anew, please")
    shown.live.put("one two three four five six")
    shown.draw(Notice("Nobody is there, it seems."))
    assert shown.lines[:6] == [
        "  /new   start",
        "         anew,",
        "         please",
        "one two three four five six",
        "! Nobody is there,",
        "! it seems.",
    ]


def test_calls_that_run_together_have_a_line_each():
    other = ToolCall("d", "read", {"path": "b.txt"})
    shown = Shown().draw(CallStarted(READ), CallStarted(other))
    assert [line[:20] for line in shown.lines[:2]] == ['  read(path="a.txt")', '  read(path="b.txt")']
    shown.draw(CallFinished(other, result("b")))
    assert [line.partition(" -> ")[2] for line in shown.lines[:2]] == ["b  1.0 s", "...  2.0 s"]


def test_a_long_line_of_a_call_is_cut_to_the_terminal_and_its_result_is_there():
    call = ToolCall("c", "exec", {"command": "x" * 500})
    shown = Shown().draw(CallStarted(call)).draw(CallFinished(call, result("done")))
    assert len(shown.lines[0]) < 60
    assert "-> done" in shown.lines[0]
    assert not shown.lines[1].startswith("x")


def test_on_a_narrow_terminal_a_result_has_a_line_of_its_own_and_a_path_its_end():
    call = ToolCall("c", "edit", {"path": "src/security/permissions/policy.py", "oldText": "x", "newText": "y"})
    diff = "Changed a: 1\n--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new"
    shown = Shown(columns=40).draw(CallStarted(call), CallFinished(call, ToolResult("c", "edit", "text", diff))).end()
    assert shown.lines[:2] == ['  edit(path=".../policy.py", ...)', "    -> changed +1 -1 lines  0.0 s"]


def diff_of(lines):
    return "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1,{} @@\n-old\n{}".format(lines, "+new\x1b[2J\n" * lines)


def changed(lines):
    return CallFinished(READ, ToolResult("c", "write", "text", "Replaced a.txt: 9 characters", diff=diff_of(lines)))


def test_what_a_call_changed_stands_below_it_with_numbers_and_in_colour():
    shown = Shown().draw(CallStarted(READ), changed(2)).end()
    assert shown.lines[0].endswith("-> replaced +2 -1 lines  0.0 s")
    assert shown.lines[1:] == ["    │ 1 -old", "    │ 1 +new", "    │ 2 +new"]
    assert "\x1b[31m1 -old" in shown.raw_lines[1]
    assert "\x1b[32m1 +new" in shown.raw_lines[2]


@check_rows("end", ["\r", "\u2028", "\x0b", "\x85"])
def test_no_line_of_a_change_or_a_failed_command_leaves_its_mark(end):
    forged = f"x{end}  Run it? [y/N]"
    diff = f"--- a/a.txt\n+++ b/a.txt\n@@ -0,0 +1 @@\n+{forged}\n"
    written = ToolResult("c", "write", "text", "Created a.txt: 9 characters", diff=diff)
    failed = ran(forged, 1)
    for each in (written, failed):
        shown = Shown().draw(CallStarted(READ), CallFinished(READ, each)).end()
        below = [line for line in "\n".join(shown.raw_lines).split("\n") if "Run it?" in line]
        assert below
        assert all("│" in line for line in below)


def test_what_checks_say_of_a_change_stands_above_it_also_if_it_was_just_approved():
    told = f"Changed a.txt: 1\n{diff_of(1)}\n[{CHECKS_LEAD}\na.txt:1:1: F821 x\x1b[2J\nand 3 more]"
    finished = CallFinished(READ, ToolResult("c", "edit", "text", told, diff=diff_of(1)))
    shown = Shown().draw(CallStarted(READ), finished).end()
    assert shown.lines[1:4] == ["    │ a.txt:1:1: F821 x", "    │ and 3 more", "    │ 1 -old"]
    shown = Shown().draw(CallStarted(READ))
    shown.live.was_asked = True
    assert shown.draw(finished).end().lines[1:] == ["    │ a.txt:1:1: F821 x", "    │ and 3 more"]


def test_a_long_change_is_cut_and_opened_whole():
    shown = Shown().draw(CallStarted(READ), changed(30)).end()
    assert shown.lines[20:] == ["    │ 19 +new", "    (11 more lines: Ctrl-O shows them)"]
    shown.live.expand()
    assert shown.lines[-1] == "  │ 30 +new"


def test_a_change_that_was_just_asked_about_is_not_shown_again():
    shown = Shown()
    shown.live.was_asked = True
    shown.draw(CallStarted(READ), changed(1))
    assert len(shown.lines) == 2  # its line, and the one of the progress
    assert "    │ 1 -old" in shown.draw(CallStarted(READ), changed(1)).lines


def test_the_to_do_list_is_drawn_below_the_call_that_wrote_it():
    todo = ToolCall("t", "todo_write", {"todos": []})
    written = ToolResult("t", "todo_write", "text", "[x] read\n[~] write\n[ ] run")
    shown = Shown().draw(CallStarted(todo), CallFinished(todo, written)).end()
    assert shown.lines[0].endswith("-> 1 of 3 done  0.0 s")
    assert shown.lines[1:] == ["    │ [x] read", "    │ [~] write", "    │ [ ] run"]


def test_a_command_that_is_run_again_shows_none_of_the_lines_of_its_first_run():
    shown = Shown().draw(CallStarted(READ))
    shown.live.show_output("c", "Permission denied\n")
    shown.live.show_output("c", "")
    assert len(shown.lines) == 2
    shown.live.show_output("c", "Serving\n")
    assert shown.lines[1] == "    │ Serving"


def test_the_line_of_a_call_fits_however_long_its_name_is():
    call = ToolCall("c", "x" * 60 + "  Run it? [y/N]", {})
    shown = Shown(columns=60).draw(CallFinished(call, result("no such tool", "error"))).end()
    assert shown.lines == ["  " + "x" * 54 + "...", "    -> error: no such tool"]


def test_each_line_of_a_notice_begins_with_its_mark_however_long_its_words_are():
    shown = Shown(columns=20).draw(Notice("x" * 30 + "\n  Run it? [y/N]")).end()
    assert shown.lines == ["! " + "x" * 17, "! " + "x" * 13, "!   Run it? [y/N]"]


def test_a_word_of_an_expanded_item_that_is_longer_than_the_terminal_stays_behind_the_bar():
    shown = Shown(columns=24).draw(ReasoningDelta("x" * 30), TextDelta("So."), DONE).end()
    shown.live.expand()
    assert shown.lines[-2:] == ["  │ " + "x" * 19, "  │ " + "x" * 11]


def test_an_expanded_item_is_wrapped_behind_its_bar():
    shown = Shown(columns=24).draw(ReasoningDelta("one two three four five six"), TextDelta("So."), DONE).end()
    shown.live.expand()
    assert shown.lines[-2:] == ["  │ one two three four", "  │ five six"]


def test_a_call_being_written_is_told():
    shown = Shown().draw(ToolCallDelta(0, "c", "write", "{"))
    assert "writing a call" in shown.lines[0]
    assert "waiting" in shown.draw(DONE).lines[0]  # for reviewers, or the user


class TestThoughts:
    THOUGHT = ReasoningDelta("First.\nSecond.\nThird.\nFourth.")

    def test_the_last_lines_are_seen_while_it_lasts_and_one_line_after(self):
        shown = Shown().draw(self.THOUGHT)
        assert shown.lines[:3] == ["Second.", "Third.", "Fourth."]
        shown.draw(TextDelta("So."))
        assert shown.lines[0] == "  thought for 1.0 s, 4 words (Ctrl-O or /expand shows it)"
        assert "Fourth." not in "\n".join(shown.lines)

    def test_it_can_stay(self):
        shown = Shown(thinking="show").draw(self.THOUGHT).draw(TextDelta("So."))
        assert shown.lines[:6] == ["First.", "Second.", "Third.", "Fourth.", "", "So."]

    def test_it_can_be_hidden(self):
        shown = Shown(thinking="hide").draw(self.THOUGHT)
        assert "thinking" in shown.lines[0]
        assert shown.draw(TextDelta("So.")).lines[0] == "So."

    @pytest.mark.parametrize("thinking", ["fold", "show", "hide"])
    def test_it_can_be_looked_at_again(self, thinking):
        shown = Shown(thinking=thinking).draw(self.THOUGHT, TextDelta("So."), DONE).end()
        shown.live.expand()
        assert "  │ Fourth." in shown.lines


def test_what_was_folded_is_opened_the_last_first():
    shown = Shown(rows=30).draw(CallStarted(READ), CallFinished(READ, result("one\ntwo")))
    shown.draw(CallStarted(READ), CallFinished(READ, result("three\nfour"))).end()
    shown.live.expand()
    assert [line for line in shown.lines if "│" in line] == ["  │ path: a.txt", "  │ ->", "  │ three", "  │ four"]
    shown.live.expand()
    assert shown.lines[-1] == "  │ two"
    shown.live.expand()
    assert shown.lines[-1] == "  There is nothing more to show."


def test_a_notice_ends_the_line_before_it():
    assert Shown().draw(TextDelta("Half"), Notice("cut")).end().lines == ["Half", "! cut"]


def test_code_is_shown_line_by_line():
    shown = Shown().draw(TextDelta("```py\nx = 1\ny ="))
    assert shown.lines[:3] == ["```py", "x = 1", "y ="]
    assert shown.draw(TextDelta(" 2\n```"), DONE).end().lines == ["```py", "x = 1", "y = 2", "```"]


def test_a_table_is_shown_row_by_row():
    shown = Shown().draw(TextDelta("| name | n |\n|---|---|\n| a lon"))
    assert "name" not in shown.lines[0]
    shown.draw(TextDelta("g one | 1 |\n| b | 2"))
    assert [line.split() for line in shown.lines[:3:2]] == [["name", "n"], ["a", "long", "one", "1"]]
    assert "b" not in "".join(shown.lines[3].split())
    shown.draw(TextDelta(" |"), DONE)
    assert shown.end().lines[3].split() == ["b", "2"]


def test_the_end_of_a_long_thought_is_seen():
    shown = Shown()
    for number in range(3000):
        shown.live.draw(ReasoningDelta(f"thought {number}, "))
    assert "thought 2999," in " ".join(shown.draw().lines[:3])


def test_a_block_taller_than_the_screen_shows_its_end_and_is_whole_when_it_is_finished():
    rows = "".join(f"| r{number} | x |\n" for number in range(30))
    shown = Shown(rows=10).draw(TextDelta(f"| a | b |\n|---|---|\n{rows}"))
    assert len(shown.lines) <= 10
    assert "r29" in "\n".join(shown.lines)
    shown.draw(DONE)
    assert [f"r{n}" for n in range(30)] == re.findall(r"r\d+", "\n".join(shown.lines))


def test_what_a_signal_asks_for_in_the_middle_of_a_drawing_waits_for_its_end():
    shown, seen = Shown(), []
    with shown.live.hold_signals():
        shown.live.call_when_drawn(lambda: seen.append(shown.lines[0]))
        shown.draw(TextDelta("x"))
        assert seen == []
    assert seen == ["x"]
    shown.live.call_when_drawn(lambda: seen.append("at once"))
    assert seen == ["x", "at once"]


def test_ctrl_c_in_the_middle_of_a_drawing_loses_nothing_of_it():
    def interrupt():
        raise KeyboardInterrupt

    shown = Shown()
    with pytest.raises(KeyboardInterrupt), shown.live.hold_signals():
        shown.live.call_when_drawn(interrupt)
        shown.live.draw(TextDelta("x"))
    assert shown.draw().lines[0] == "x"
