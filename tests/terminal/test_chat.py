"""A chat on a full terminal, as a person has it: every key, in every state."""

import json
import os
import re
import signal
import stat
import termios
from pathlib import Path

import pytest

from src.cli.chat import loop
from tests.thorough import only_thorough
from tests.waiting import PATIENCE_S

from .terminal import Gate, Server, Terminal

CTRL_C, CTRL_D, CTRL_E, CTRL_J, CTRL_L = "\x03", "\x04", "\x05", "\n", "\x0c"
CTRL_O, CTRL_R, CTRL_X, CTRL_Z = "\x0f", "\x12", "\x18", "\x1a"
SHIFT_TAB = "\x1b[Z"
ALT_ENTER, UP, ESCAPE = "\x1b\r", "\x1b[A", "\x1b"


def call(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": f"call-{name}", "type": "function", "function": function}]}


@pytest.fixture
def chat(open_chat, tmp_path):
    """Opens a chat in a folder with these files."""

    def start(*scripts, files=None, **options):
        (tmp_path / "work").mkdir(exist_ok=True)
        for name, content in (files or {}).items():
            (tmp_path / "work" / name).write_text(content)
        return open_chat(*scripts, **options)

    return start


def asked(chat, number=-1):
    """What the user said last in a request to the server."""
    return [m["content"] for m in chat.server.requests[number]["messages"] if m["role"] == "user"][-1]


class TestAtThePrompt:
    def test_a_question_is_answered_and_the_next_can_be_asked(self, chat):
        chat = chat(["Hello **there**."], ["Again."], fresh=True)
        chat.line("hi")
        chat.shows("^Hello there.$")
        chat.prompts()
        chat.line("and?")
        chat.shows("^Again.$")
        chat.prompts()
        assert "**" not in chat.text

    @only_thorough
    def test_messages_of_several_lines(self, chat):
        chat = chat(["1"], ["2"], ["3"], ["4"])
        for number, typed in enumerate([f"a{ALT_ENTER}b", f"a{CTRL_J}b", "a\\\rb", '"""\ra\rb\r"""']):
            chat.line(typed)
            chat.shows(f"^{number + 1}$")
            chat.prompts()
            assert asked(chat) == "a\nb"

    def test_ctrl_c_clears_what_was_typed_then_hints_then_leaves(self, chat, monkeypatch):
        monkeypatch.setattr(loop, "EXIT_CONFIRM_S", PATIENCE_S)
        chat = chat()
        chat.keys("something")
        chat.shows("^> something")
        chat.keys(CTRL_C)
        chat.prompts()
        chat.keys(CTRL_C)
        chat.shows("Press Ctrl-C again")
        chat.prompts()
        chat.keys(CTRL_C)
        assert chat.ends() == 0

    @pytest.mark.parametrize(
        "keys", [CTRL_D, *(pytest.param(each, marks=only_thorough) for each in ("/exit\r", "/quit\r"))]
    )
    def test_it_is_left(self, chat, keys):
        chat = chat()
        chat.keys(keys)
        assert chat.ends() == 0

    def test_history_is_shared_by_chats_and_private_to_the_user(self, chat, tmp_path):
        first = chat(["1"])
        first.line("a question to find again")
        first.shows("^1$")
        first.prompts()
        first.keys(CTRL_D)
        first.ends()
        assert stat.S_IMODE((tmp_path / "state" / "vllm-bot" / "history").stat().st_mode) == 0o600

        second = chat(["2"], ["3"])
        second.keys(UP)
        second.shows("^> a question to find again")
        second.keys(CTRL_C)
        second.prompts()
        second.keys(f"{CTRL_R}to find")
        second.shows("a question to find again")
        second.keys("\r\r")
        second.shows("^2$")
        assert asked(second) == "a question to find again"

    def test_commands_and_paths_are_completed(self, chat):
        chat = chat(["1"], files={"notes.txt": "The heron.", "日本.txt": "x"})
        chat.keys("/sta")
        chat.shows("/status")
        chat.keys("\t")
        chat.shows("^> /status")
        chat.keys(f"{CTRL_C}what is in @no")
        chat.shows("@notes.txt")
        chat.keys("\t")
        chat.shows("^> what is in @notes.txt")
        chat.keys("\r")
        chat.shows("^> what is in @notes.txt")
        chat.keys("\r")
        chat.shows("^1$")
        assert asked(chat) == "what is in @notes.txt\n\nContent of notes.txt:\n```\nThe heron.\n```"

    @only_thorough
    def test_a_mention_is_found_anywhere_and_what_was_added_is_said(self, chat, tmp_path):
        chat = chat(["1"])
        (tmp_path / "work" / "deep" / "inner").mkdir(parents=True)
        (tmp_path / "work" / "deep" / "inner" / "scanner.py").write_text("x = 1\n")
        (tmp_path / "work" / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
        chat.keys("what is @scanner")
        chat.shows("@deep/inner/scanner.py")
        chat.keys("\t\r")
        chat.shows("^> what is @deep/inner/scanner.py")
        chat.line(f" and @dot.png and @nothing.txt and {tmp_path}/work/dot.png")
        chat.shows("^  deep/inner/scanner.py added: 1 line, 6 bytes$")
        chat.shows("^  dot.png added: image/png, 28 bytes$")
        chat.shows("^  nothing.txt: no such file, so nothing was added$")
        chat.shows("^1$")
        assert [part["type"] for part in asked(chat)] == ["text", "image_url", "text"]

    @only_thorough
    def test_a_conversation_is_picked_and_its_last_turns_are_drawn(self, chat):
        first = chat(["Hello **Ann**."])
        first.line("my name is Ann")
        first.shows("^Hello Ann.$")
        first.prompts()
        first.keys(CTRL_D)
        first.ends()
        second = chat(["Rain."], ["Ann."])
        second.line("the weather")
        second.shows("^Rain.$")
        second.prompts()
        second.line("/resume")
        second.shows("^> .*my name is Ann")
        second.keys("hello")
        second.shows("1 of 1")
        second.keys("\r")
        second.shows("1 turn, continued here.")
        second.shows("^> my name is Ann$")
        second.shows("^Hello Ann.$")
        second.prompts()
        second.line("who am I?")
        second.shows("^Ann.$")
        assert [m["content"] for m in second.server.requests[-1]["messages"][1:]] == [
            "my name is Ann",
            "Hello **Ann**.",
            "who am I?",
        ]

    @only_thorough
    def test_a_user_command_runs_and_the_model_sees_it_with_the_next_message(self, chat):
        chat = chat(["1"])
        chat.line("!echo one; printf '\\033[31mtwo\\033[0m\\n'; exit 3")
        chat.shows("^one$")
        chat.shows("^two$")
        chat.shows("exit code 3")
        chat.prompts()
        chat.line("and?")
        chat.shows("^1$")
        assert asked(chat).startswith("I ran this command:\n$ echo one;")
        assert asked(chat).endswith("one\ntwo\n[exit code 3]\n\nand?")

    def test_ctrl_c_ends_a_command_of_ones_own_and_not_the_chat(self, chat):
        chat = chat()
        chat.line("!echo begun; sleep 60")
        chat.shows("^begun$")
        chat.keys(CTRL_C)
        chat.shows("ended by SIG")
        chat.prompts()

    @pytest.mark.parametrize("after", ["", pytest.param("; true", marks=only_thorough)], ids=["alone", "in a shell"])
    def test_a_command_that_ignores_ctrl_c_is_killed_and_the_chat_goes_on(self, chat, after):
        chat = chat(["1"])
        chat.line(f"!sh -c 'trap \"\" INT TERM; echo begun; sleep 3600'{after}")
        chat.shows("^begun$")
        chat.keys(CTRL_C)
        chat.shows("ended by SIG")
        chat.prompts()
        chat.line("and?")
        chat.shows("^1$")

    def test_a_command_of_ones_own_asks_at_the_terminal_and_reads_what_is_typed(self, chat):
        chat = chat()
        chat.line("!printf 'Name? ' >/dev/tty; read name </dev/tty; echo it is $name")
        chat.shows("^Name\\?")
        chat.line("heron")
        chat.shows("^it is heron$")
        chat.prompts()

    @only_thorough
    def test_a_paste_of_ten_thousand_lines_is_one_message_and_a_note_in_the_line(self, chat):
        chat = chat(["1"])
        text = "\n".join(f"line {number} of what is pasted" for number in range(10_000))
        chat.keys(f"\x1b[200~{text}\x1b[201~")
        chat.shows(r"\[pasted text 1: 10,000 lines\]")
        chat.keys("\r")
        chat.shows("^1$")
        assert asked(chat) == text

    def test_a_line_from_the_editor_is_sent_by_enter(self, chat, tmp_path):
        editor = tmp_path / "editor"
        editor.write_text('#!/bin/sh\nprintf %s more >> "$1"\n')
        editor.chmod(0o700)
        chat = chat(["1"], VISUAL=str(editor))
        chat.keys(f"a{CTRL_X}{CTRL_E}")
        chat.shows("^> amore$")
        chat.keys("\r")
        chat.shows("^1$")
        assert asked(chat) == "amore"

    @only_thorough
    def test_a_short_paste_is_in_the_line_and_its_line_ends_send_nothing(self, chat):
        chat = chat(["1"])
        chat.keys("\x1b[200~a\r\nb\x1b[201~")
        chat.shows("^> a\n  b$")
        chat.keys("\r")
        chat.shows("^1$")
        assert asked(chat) == "a\nb"

    def test_japanese_is_typed_and_taken_back_by_characters(self, chat):
        chat = chat(["こんにちは。"])
        chat.keys("日本語🙂\x7f\x7f")
        chat.shows("^> 日 ?本 ?$")
        chat.keys("\r")
        chat.shows("こ ?ん ?に ?ち ?は")
        assert asked(chat) == "日本"

    @only_thorough
    def test_an_unknown_command_is_not_sent(self, chat):
        chat = chat()
        chat.line("/hlep")
        chat.shows("Did you mean /help")
        assert chat.server.requests == []

    @only_thorough
    def test_what_is_typed_before_the_prompt_is_there_is_sent_by_enter(self, tmp_path):
        with Server(["1"], ["2"]) as server, Terminal(tmp_path, server, fresh=True) as chat:
            chat.keys("early words\rmore of them")
            chat.shows("^1$")
            chat.shows("^> more of them")
            chat.keys("\r")
            chat.shows("^2$")
            assert [request["messages"][-1]["content"] for request in server.requests] == [
                "early words",
                "more of them",
            ]

    @only_thorough
    def test_the_line_below_says_how_full_the_context_is(self, chat):
        usage = {"prompt_tokens": 900, "completion_tokens": 100}
        chat = chat(["1", {"content": "", "usage": usage}])
        chat.line("hi")
        chat.shows(r"mode ask  tiny  native calls  context 1,000 of 4,000 \(25%\)")

    def test_ctrl_z_and_back_three_times(self, chat):
        chat = chat(["1"])
        chat.keys("typed")
        chat.shows("^> typed")
        for times in (1, 2, 3):
            chat.keys(CTRL_Z)
            chat._until(lambda: state_of(chat.child.pid) == "T", "it to stop")
            assert termios.tcgetattr(chat.child.child_fd)[3] & (termios.ECHO | termios.ICANON)
            chat._until(lambda: chat.raw.count("\x1b[?2004l") == chat.raw.count("\x1b[?2004h"), "the shell's pastes")
            os.kill(chat.child.pid, signal.SIGCONT)
            chat._until(lambda: chat.raw.count("\x1b[?2004h") > chat.raw.count("\x1b[?2004l"), "the prompt")
            assert not termios.tcgetattr(chat.child.child_fd)[3] & (termios.ECHO | termios.ICANON)
            chat.keys("\x1b[200~ on\x1b[201~")
            chat.shows(f"^> typed{' on' * times}$")
        chat.keys("\r")
        chat.shows("^1$")
        assert asked(chat) == "typed on on on"

    def test_enter_after_tab_runs_a_command_and_takes_a_file_into_the_message(self, chat):
        chat = chat(["Read."], files={"heron.txt": "grey", "heron.md": "blue"})
        chat.keys("/stat")
        chat.shows("/status .*show server")
        chat.keys("\t\r")
        chat.shows(r"(?s)^> /status$.*^  workspace ")
        chat.prompts()
        chat.keys("@hero")
        chat.shows("^ +@heron.txt *$")
        chat.keys("\t\t\r too\r")
        chat.shows("^Read.$")
        assert asked(chat).startswith("@heron.txt too\n")


class TestWhileTheModelWorks:
    @only_thorough
    def test_one_waits_with_a_clock_and_answers_with_a_rate(self, chat):
        waiting, answering = Gate(), Gate()
        chat = chat([waiting, "One ", "two ", "three ", answering, "four."])
        chat.line("hi")
        chat.shows(r"waiting \d+\.\d s .* Ctrl-C stops")
        waiting.set()
        chat.shows(r"answering \d+\.\d s · 3 tokens · \d+\.\d tokens/s")
        chat.shows("^One two three")
        answering.set()
        chat.shows("^One two three four.$")
        chat.prompts()
        assert "Ctrl-C stops" not in chat.text

    def test_ctrl_c_stops_the_answer_and_keeps_what_came_and_what_was_typed(self, chat):
        gate = Gate()
        chat = chat(["Half an ", "answer", gate], ["Go on."])
        chat.line("hi")
        chat.shows("^Half an answer")
        chat.keys("my next")
        chat.shows("^> my next")
        chat.keys(CTRL_C)
        chat.shows(r"^\(stopped\)$")
        chat.shows("^> my next$")
        chat.keys(" words\r")
        chat.shows("^Go on.$")
        roles = [(m["role"], m["content"]) for m in chat.server.requests[1]["messages"]]
        assert roles[-2:] == [("assistant", "Half an answer"), ("user", "my next words")]
        gate.set()

    @only_thorough
    def test_a_lone_escape_stops_it_too(self, chat):
        gate = Gate()
        chat = chat(["Half", gate])
        chat.line("hi")
        chat.shows("^Half")
        chat.keys(ESCAPE)
        chat.shows(r"^\(stopped\)$")
        chat.prompts()
        gate.set()

    def test_what_is_typed_while_a_command_runs_comes_after_it(self, chat):
        gate = Gate()
        chat = chat(*(["Yes."] for _ in range(4)), [gate, "All was well."])
        for number in range(4):
            chat.line(f"question {number}")
            chat.shows(f"question {number}\nYes.")
            chat.prompts()
        chat.line("/compact")
        assert gate.reached.wait(PATIENCE_S)
        chat.keys("/todos\r/exit\r")
        gate.set()
        chat.shows("The list is empty")
        chat.shows("^> /exit$")

    @pytest.fixture
    def start_turn(self, chat):
        """Opens a chat, asks "one", and returns it with the gate before which the answer waits."""

        def start(*more_scripts):
            gate = Gate()
            opened = chat([gate, "First."], *more_scripts)
            opened.line("one")
            assert gate.reached.wait(PATIENCE_S)
            return opened, gate

        return start

    def test_what_is_typed_is_the_next_message(self, start_turn):
        chat, gate = start_turn(["Second."], ["Third."])
        chat.keys("two\rthree\\\rlines\r")
        chat.shows("queued: two")
        chat.shows("queued: three ⏎ lines")
        gate.set()
        chat.shows("^Third.$")
        chat.prompts()
        assert [asked(chat, number) for number in range(3)] == ["one", "two", "three\nlines"]
        assert re.search("^First.\n\n> two\nSecond.$", chat.everything, re.M)

    @only_thorough
    def test_a_line_that_is_not_finished_stays_while_the_queue_is_answered(self, start_turn):
        chat, gate = start_turn(["Second."])
        chat.keys("two\rand a")
        chat.shows("^> and a")
        gate.set()
        chat.shows("^Second.$")
        chat.shows("context .*")
        chat.shows("^> and a$")

    def test_a_queued_message_is_taken_back_to_be_changed(self, start_turn):
        chat, gate = start_turn(["Second."])
        chat.keys(f"twx\r{UP}\x7fo")
        chat.shows("^> two")
        gate.set()
        chat.shows("^First.")
        chat.shows("^> two")
        assert len(chat.server.requests) == 1

    def test_after_ctrl_c_the_queue_waits_for_enter_and_its_items_stay_items(self, start_turn):
        chat, gate = start_turn(["Second."])
        chat.keys("/tokens\rtwo\r")
        chat.shows("queued: two")
        chat.keys(CTRL_C)
        chat.shows("queued, press Enter to send: /tokens")
        chat.shows(r"^\(stopped\)$")
        chat.keys("\r")
        chat.shows("^Second.$")
        chat.shows("^> /tokens\n  none counted yet$")
        assert asked(chat) == "two"
        gate.set()

    def test_what_is_typed_while_the_model_streams_is_edited_like_at_the_prompt(self, chat):
        gate = Gate()
        chat = chat(["Half", gate], ["Second."])
        chat.line("one")
        chat.shows("^Half")
        chat.keys("wo three\x01t\x1bf\x0b\x1b[Z/st")  # Ctrl-A, Alt-F, Ctrl-K, Shift-Tab
        chat.shows("^> two/st")
        chat.shows("^mode edits ")
        gate.set()
        chat.shows("^Half\n")
        chat.keys("\r")
        chat.shows("^Second.$")
        assert asked(chat) == "two/st"

    def test_a_command_typed_meanwhile_is_a_command(self, start_turn):
        chat, gate = start_turn()
        chat.line("/tokens")
        gate.set()
        chat.shows("none counted yet")
        assert len(chat.server.requests) == 1

    def test_ctrl_d_leaves_after_it(self, start_turn):
        chat, gate = start_turn()
        chat.keys(CTRL_D)
        chat.shows("queued: /exit")
        gate.set()
        assert chat.ends() == 0
        assert "First." in chat.everything

    @only_thorough
    def test_a_paste_meanwhile_is_one_message(self, start_turn):
        chat, gate = start_turn(["Second."])
        chat.keys("\x1b[200~a\rb\x1b[201~\r")
        chat.shows("queued: a ⏎ b")
        gate.set()
        chat.shows("^Second.$")
        assert asked(chat) == "a\nb"

    def test_a_long_answer_scrolls_by_whole_and_once(self, chat):
        words = [f"word{number} " for number in range(3000)]
        text = [w + ("\n\n" if n % 50 == 49 else "") for n, w in enumerate(words)]
        chat = chat(text)
        chat.line("hi")
        chat.shows("word2999")
        chat.prompts()
        shown = re.findall(r"word\d+", chat.everything)
        assert shown == [word.strip() for word in words]

    @only_thorough
    def test_a_table_taller_than_the_screen_is_whole_in_the_end(self, chat):
        rows = [f"| row{number} | {number} |\n" for number in range(60)]
        gate = Gate()
        chat = chat(["| a | b |\n|---|---|\n", *rows, gate, "\nAfter."])
        chat.line("hi")
        chat.shows("row59")
        gate.set()
        chat.shows("^After.")
        chat.prompts()
        assert re.findall(r"row\d+", chat.everything) == [f"row{number}" for number in range(60)]

    def test_the_window_is_resized_in_the_middle(self, chat):
        gate = Gate()
        chat = chat(["A first paragraph that is there.\n\n", "And one ", gate, "that ends."])
        chat.line("hi")
        chat.shows("And one")
        chat.resize(70, 24)  # all that is drawn fits still: pyte would not wrap it, as a terminal does
        gate.set()
        chat.shows("And one that ends.")
        chat.prompts()
        assert chat.everything.count("A first paragraph") == 1
        assert chat.everything.count("And one") == 1

    def test_a_thought_is_folded_to_a_line_and_opened_by_ctrl_o(self, chat):
        gate = Gate()
        chat = chat([{"reasoning_content": "Let me see.\nIt is so."}, gate, "So it is."])
        chat.line("hi")
        chat.shows("^It is so.")
        gate.set()
        chat.shows("^So it is.$")
        chat.shows(r"thought for \d+\.\d s, 6 words")
        chat.prompts()
        assert "It is so." not in chat.text
        chat.keys(CTRL_O)
        chat.shows("│ It is so.")

    @only_thorough
    def test_thoughts_can_stay_and_can_be_hidden(self, chat):
        thinks = [{"reasoning_content": "Hm, hm."}, "So."]
        chat = chat(thinks, thinks)
        chat.line("/thinking show")
        chat.line("hi")
        chat.shows("^Hm, hm.\n\nSo.$")
        chat.prompts()
        chat.line("/thinking hide")
        chat.line("hi")
        chat.shows("^> hi\nSo.$")

    def test_nothing_that_a_model_writes_steers_the_terminal(self, chat):
        evil = "a\x1b[2Jb\x1b]0;title\x07c\x1b]52;c;AAAA\x07d\u202ee\x9b31mf\rg &#x202e;"
        chat = chat([evil[:3], evil[3:9], evil[9:]], COLORFGBG="15;0")  # else the program asks the terminal itself
        chat.line("hi")
        chat.shows("^abcdef g &#x202e;$")
        chat.prompts()
        assert not re.search("\x1b\\]|\x1b\\[2J|[\x80-\x9f\u202e]", chat.raw)

    def test_it_is_killed_and_leaves_the_terminal_as_it_was(self, chat):
        number = signal.SIGTERM
        gate = Gate()
        chat = chat(["Half", gate])
        chat.line("hi")
        chat.shows("^Half")
        assert not termios.tcgetattr(chat.child.child_fd)[3] & termios.ECHO
        chat.child.kill(number)
        chat.is_sent("\x1b[?2004l")
        assert chat.ends() == 128 + number
        assert termios.tcgetattr(chat.child.child_fd)[3] & termios.ECHO
        assert "Traceback" not in chat.raw

    @only_thorough
    def test_ctrl_z_and_back(self, chat):
        gate = Gate()
        chat = chat(["Half ", gate, "and half."])
        chat.line("hi")
        chat.shows("^Half")
        chat.keys(CTRL_Z)
        chat._until(lambda: state_of(chat.child.pid) == "T", "it to stop")
        os.kill(chat.child.pid, signal.SIGCONT)
        gate.set()
        chat.shows("^Half and half.$")
        chat.prompts()


class TestPager:
    """More than a screen, which is asked for at the prompt."""

    PAGER = "sh -c 'sed -n 4p; printf \"the pager waits\"; head -n 1 </dev/tty'"

    @pytest.fixture
    def changed(self, chat):
        def start(pager):
            written = call("write", path="long.txt", content="".join(f"line {number}\n" for number in range(100)))
            started = chat([written], ["Done."], options=["--mode", "edits"], PAGER=pager)
            started.line("go")
            started.shows(r"80 more lines: Ctrl-O shows them")
            started.prompts()
            return started

        return start

    def test_a_long_diff_is_shown_in_it_in_colours(self, changed):
        chat = changed(self.PAGER)
        chat.line("/diff")
        chat.shows(r"^\+line 0\nthe pager waits$")
        assert "\x1b[32m+line 0\x1b[0m" in chat.raw
        assert "+line 99" not in chat.everything
        chat.keys("\r")
        chat.prompts()

    @only_thorough
    def test_ctrl_o_opens_its_text_in_it_and_what_was_typed_stays(self, changed):
        chat = changed(self.PAGER)
        chat.keys(f"typed{CTRL_O}")
        chat.shows("the pager waits$")
        chat.keys("\r")
        chat.shows("^> typed$")
        assert "line 99" not in chat.everything

    @only_thorough
    def test_one_that_cannot_be_started_is_told_below_the_lines(self, changed):
        chat = changed("/no/such/pager")
        chat.line("/diff")
        chat.shows(r"^\+line 99\n! The pager could not be started")

    @only_thorough
    def test_one_that_fails_is_told_below_the_lines(self, changed):
        chat = changed("false")
        chat.line("/diff")
        chat.shows(r"^\+line 99\n! The pager failed \(exit code 1\)")

    @only_thorough
    def test_one_of_blanks_is_none(self, changed):
        chat = changed(" ")
        chat.line("/diff")
        chat.shows(r"^\+line 99$")
        chat.prompts()


class TestWhileAToolRuns:
    @only_thorough
    def test_its_line_has_its_arguments_its_result_and_its_time(self, chat):
        chat = chat([call("read", path="notes.txt")], ["Seen."], files={"notes.txt": "The heron stands.\n"})
        chat.line("look")
        chat.shows(r'^  read\(path="notes.txt"\) -> .*  \d+\.\d s$')
        chat.shows("^Seen.$")
        chat.prompts()
        chat.keys(CTRL_O)
        chat.shows("│ .*The heron stands.")

    @pytest.fixture
    def running(self, chat):
        chat = chat([call("exec", command="echo $$; sleep 60")], ["Well."], options=["--yes"])
        chat.line("go")
        chat.shows(r'^  exec\(command="echo \$\$; sleep 60"\) -> \.\.\.  \d+\.\d s')
        return chat

    def test_its_clock_runs_and_ctrl_c_stops_it(self, running):
        running.shows(r"running [1-9]\d*\.\d s|running 0\.[5-9] s")
        running.keys(CTRL_C)
        running.shows(r"^\(stopped\)$")
        running.prompts()
        running.line("and?")
        running.shows("^Well.$")

    @only_thorough
    def test_its_last_lines_are_seen_while_it_runs_and_fold_when_it_ends(self, chat, tmp_path):
        command = "seq 20; while [ ! -e go ]; do sleep 0.05; done; seq 3"
        chat = chat([call("exec", command=command, access="write")], ["Well."], options=["--yes"])
        chat.line("go")
        chat.shows("^    │ 17\n    │ 18\n    │ 19\n    │ 20$")
        (tmp_path / "work" / "go").touch()
        chat.shows("^Well.$")
        chat.prompts()
        assert "│" not in chat.text
        assert "-> 23 lines" in chat.text

    @only_thorough
    def test_of_one_that_failed_the_last_three_lines_stay(self, chat):
        chat = chat([call("exec", command="seq 5; exit 3", access="write")], ["Well."], options=["--yes"])
        chat.line("go")
        chat.shows("^Well.$")
        chat.shows(r"-> \[exit code 3\] 5 lines.*\n    │ 3\n    │ 4\n    │ 5\n\nWell.$")

    @only_thorough
    def test_what_is_typed_is_kept(self, running):
        running.keys("next")
        running.shows("^> next")
        running.keys(CTRL_C)
        running.shows(r"^\(stopped\)$")
        running.shows("^> next$")


class TestAtAnApproval:
    @only_thorough
    def test_text_typed_before_the_question_does_not_answer_it(self, chat, tmp_path):
        gate = Gate()
        chat = chat([gate, call("write", path="new.txt", content="x\n")], ["Well."], ["Next."])
        chat.line("go")
        assert gate.reached.wait(PATIENCE_S)
        chat.keys("y\ry\r")
        chat.shows("queued: y")
        gate.set()
        chat.shows(r"Run it\? \[y/N\]")
        chat.line("n")
        chat.shows("the user said no")
        assert not (tmp_path / "work" / "new.txt").exists()

    def test_a_diff_is_shown_and_yes_runs_it(self, chat, tmp_path):
        chat = chat(
            [call("edit", path="a.txt", oldText="two", newText="2")], ["Done."], files={"a.txt": "one\ntwo\nthree\n"}
        )
        chat.line("go")
        chat.shows(r"^    \| -two\n    \| \+2$")
        chat.shows(r"Run it\? \[y/N\]")
        chat.line("y")
        chat.shows("^Done.$")
        assert (tmp_path / "work" / "a.txt").read_text() == "one\n2\nthree\n"
        assert "\x1b[32m" in chat.raw

    @only_thorough
    def test_the_whole_command_is_shown_and_changed_and_run(self, chat):
        chat = chat([call("exec", command="echo one", access="write")], ["Done."])
        chat.line("go")
        chat.shows("command: echo one")
        chat.shows(r"Run it\? \[y/N\]")
        chat.line("e")
        chat.shows("Change it to: echo one")
        chat.keys("\x17two\r")
        chat.shows(r"exec as you changed it[\s\S]*Run it\? \[y/N\]")
        chat.line("y")
        chat.shows("^Done.$")
        assert "two" in chat.server.requests[1]["messages"][-1]["content"]

    @only_thorough
    def test_words_go_to_the_model_instead(self, chat):
        chat = chat([call("exec", command="rm x", access="write")], ["As you like."])
        chat.line("go")
        chat.shows(r"Run it\? \[y/N\]")
        chat.line(": move it to trash instead 日本")
        chat.shows("^As you like.$")
        assert "move it to trash instead 日本" in chat.server.requests[1]["messages"][-1]["content"]

    @only_thorough
    def test_shift_tab_answers_where_the_next_mode_lets_the_call_pass(self, chat, tmp_path):
        chat = chat(
            [call("write", path="a.txt", content="x\n")],
            [call("exec", command="touch b", access="write")],
            ["Done."],
        )
        chat.line("go")
        chat.shows(r"m: all edits in this chat[\s\S]*Run it\? \[y/N\]")
        chat.keys(SHIFT_TAB)
        chat.shows(r"touch b[\s\S]*Run it\? \[y/N\]\nmode edits")
        assert (tmp_path / "work" / "a.txt").exists()
        chat.keys(SHIFT_TAB)
        chat.shows(r"Run it\? \[y/N\]\nmode auto")  # which answers nothing
        chat.line("n")
        chat.shows("^Done.$")
        assert not (tmp_path / "work" / "b").exists()

    @only_thorough
    def test_always_holds_from_now_on(self, chat):
        chat = chat(
            [call("exec", command="echo one", access="write")],
            ["1."],
            [call("exec", command="echo one", access="write")],
            ["2."],
        )
        chat.line("go")
        chat.shows("a: always; this adds the rule exec: this exact command")
        chat.shows(r"Run it\? \[y/N\]")
        chat.line("a")
        chat.shows("^1.$")
        chat.prompts()
        chat.line("again")
        chat.shows("^2.$")
        assert chat.everything.count("Run it?") == 1

    @only_thorough
    def test_ctrl_c_stops_the_turn(self, chat):
        chat = chat([call("exec", command="echo one", access="write")], ["Well."])
        chat.line("go")
        chat.shows(r"Run it\? \[y/N\]")
        chat.keys(CTRL_C)
        chat.shows(r"^\(stopped\)$")
        chat.prompts()

    @only_thorough
    def test_ctrl_d_is_a_no(self, chat):
        chat = chat([call("exec", command="echo one", access="write")], ["Well."])
        chat.line("go")
        chat.shows(r"Run it\? \[y/N\]")
        chat.keys(CTRL_D)
        chat.shows("the user said no")
        chat.shows("^Well.$")

    def test_a_question_that_the_model_wrote_itself_is_only_text(self, chat):
        chat = chat(["  Run it? [y/N] y\n"])
        chat.line("go")
        chat.shows(r"Run it\? \[y/N\] y")
        chat.prompts()


class TestTheScreen:
    ANSWER = "**bold** and `code`\n\n```python\nreturn 1\n```\n"

    @only_thorough
    def test_without_colours_everything_else_is_there(self, chat):
        chat = chat([self.ANSWER], [call("exec", command="exit 3", access="write")], ["Well."], NO_COLOR="1")
        chat.line("hi")
        chat.shows("^bold and code$")
        chat.prompts()
        chat.keys("/sta")
        chat.shows("^ /status ")
        chat.keys("\x17go\r")
        chat.shows(r"Run it\? \[y/N\]")
        chat.line("y")
        chat.shows("^Well.$")
        chat.prompts()
        assert "\x1b[1mbold\x1b[0m" in chat.raw
        assert not re.search(r"\x1b\[(?:\d+;)*(?:3\d|4\d|9\d|10\d)[;m]|\x1b\]11", chat.raw)

    @pytest.mark.parametrize(
        ("white", "keyword"), [("ffff", "34"), pytest.param("0000", "94", marks=only_thorough)], ids=["light", "dark"]
    )
    def test_the_terminal_is_asked_for_its_background_and_its_answer_is_no_key(self, tmp_path, white, keyword):
        with Server([self.ANSWER]) as server, Terminal(tmp_path, server) as chat:
            chat.is_sent("\x1b]11;?\x1b\\")
            chat.keys(f"\x1b]11;rgb:{white}/{white}/{white}\x1b\\")
            chat.prompts()
            chat.line("hi")
            chat.shows("^return 1$")
            chat.prompts()
            assert f"\x1b[{keyword}mreturn" in chat.raw

    @only_thorough
    def test_who_looks_elsewhere_is_called_at_a_question_and_at_the_end(self, chat, monkeypatch):
        monkeypatch.setattr("src.cli.chat.notify.ABSENCE_S", -1.0)
        command = call("exec", command="echo one", access="write")
        chat = chat([command], ["Well."], TERM_PROGRAM="WezTerm")
        chat.line("hi")
        chat.is_sent("\x1b]9;a call waits for your answer\x1b\\")
        chat.line("y")
        chat.is_sent("\x1b]9;the answer is there\x1b\\")

    @only_thorough
    def test_at_forty_columns_nothing_is_cut_in_a_word(self, chat):
        edit = call("edit", path="a.txt", oldText="a line that is long enough to be cut", newText="2")
        chat = chat([edit], ["Done."], files={"a.txt": "a line that is long enough to be cut\n"}, columns=40)
        chat.line("go")
        chat.shows(r"Run it\? \[y/N\]")
        chat.shows("^  n or a colon, and words: tell the\n  model what to do instead$")
        chat.line("y")
        chat.shows(r'^  edit\(path="a.txt", .*\)\n    -> changed \+1 -1 lines  \d+\.\d s$')
        chat.shows("^Done.$")


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@only_thorough
def test_what_debug_tells_does_not_disturb_the_drawing(chat):
    chat = chat(["One two."], DEBUG="2")  # of several pieces each is traced in between
    chat.line("hi")
    chat.shows("^One two.$")
    chat.prompts()
    chat.shows(r"^\[DEBUG\] Iteration 1$")
    chat.shows(r"^\[DEBUG\] Stop reason: end_turn")
    assert chat.everything.count("[DEBUG] Iteration") == 1
