"""Work that takes its time, as a person has it on a full terminal: many turns, commands in the background, undo."""

from __future__ import annotations

import json
import signal

import pytest

from src.tools.process.proc import DEAD, list_descendants, list_processes
from src.transport.http import find_free_port

from ..processes import read_process_file
from ..sandboxes import make_machine
from ..security.sandbox.conftest import KINDS, WITHOUT_LOOPBACK, explain_unusable
from ..thorough import is_thorough, only_thorough, take_turns
from ..waiting import FETCH, wait_until
from .test_chat import call

AUTO = ["--mode", "auto"]
WRITES = 117 if is_thorough() else 20
MODES = ["ask", "edits", "auto"]  # a kind of sandbox is tried in one of these, in turns; with many examples in all


@pytest.fixture
def machine(kind, tmp_path):
    """A machine with that kind of sandbox."""
    if why := explain_unusable(kind):
        pytest.skip(why)
    (tmp_path / "bin").mkdir()
    return make_machine(kind, tmp_path / "bin")


@pytest.fixture
def chat(open_chat, tmp_path):
    """Opens a wide chat with these settings."""

    def start(*scripts, settings=None, **options):
        if settings:
            file = tmp_path / ".config" / "vllm-bot" / "config.json"
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps(settings))
        return open_chat(*scripts, columns=100, **options)

    return start


class TestManyTurns:
    @only_thorough
    def test_many_calls_in_mode_auto_end_without_a_stop_or_a_question(self, chat, tmp_path):
        calls = [call("write", path="n.txt", content=str(number)) for number in range(WRITES)]
        commands = [call("exec", command=f"echo {number} > c.txt", access="write") for number in range(3)]
        chat = chat(*([each] for each in [*calls, *commands]), ["All done."], options=AUTO)
        chat.line("count")
        chat.shows("^All done.$")
        assert len(chat.server.requests) == WRITES + 4
        assert (tmp_path / "work" / "c.txt").read_text() == "2\n"
        assert not any(word in chat.everything for word in ("?", "Stopped"))

    def test_at_a_limit_that_was_set_the_user_is_asked_whether_to_go_on(self, chat):
        scripts = [[call("read", path=f"{number}.txt")] for number in range(4)]
        chat = chat(*scripts, ["So far."], settings={"agent": {"max_tool_turns": 2}})
        chat.line("read them")
        chat.shows(r"called tools for 2 turns[\s\S]*Go on\? \[Y/n\]")
        chat.keys("\r")
        chat.shows(r"called tools for 4 turns[\s\S]*Go on\? \[Y/n\] *$")
        chat.line("n")
        chat.shows("asking for a summary")
        chat.shows("^So far.$")
        assert [each["tool_choice"] for each in chat.server.requests] == ["auto"] * 4 + ["none"]


class TestInTheBackground:
    @only_thorough
    @pytest.mark.parametrize(("kind", "mode"), take_turns(KINDS, MODES))
    def test_a_server_is_reached_by_the_next_call_listed_shown_and_ended(self, kind, mode, chat, machine, tmp_path):
        if not machine.has_loopback:
            pytest.skip("the system gives no network namespaces")
        port = find_free_port()  # for where no sandbox has a network of its own
        server = f"python3 -u -m http.server {port} --bind 127.0.0.1"
        fetch = f"{FETCH} 127.0.0.1:{port}/page.txt 600"
        chat = chat(
            [call("exec", command=server, background=True)],
            [call("exec", command=fetch)],
            ["It runs."],
            ["I see."],
            options=["--mode", mode],
            prepare=machine.before,
            PATH=machine.path,
        )
        (tmp_path / "work" / "page.txt").write_text("the heron stands\n")
        chat.line("serve")
        chat.shows("^It runs.$")
        assert "runs in the background as job 1" in result_of(chat, 1)
        assert "the heron stands" in result_of(chat, 2)
        chat.prompts()
        chat.line("/jobs")
        chat.shows(rf"^    1  running for \d+ s: {server[:40]}")
        chat.prompts()
        chat.line("/jobs 1")
        chat.shows(r'^  .*"GET /page.txt HTTP/1.1" 200')
        chat.prompts()
        chat.line("/jobs end 1")
        chat.shows(r"^  1  it was ended, after \d+ s")
        chat.prompts()
        chat.line("and?")
        chat.shows("^I see.$")
        assert "Background job 1" not in chat.everything
        assert "background job 1 ended (it was ended" in chat.server.requests[-1]["messages"][-1]["content"]

    @only_thorough
    @pytest.mark.parametrize(("kind", "mode"), take_turns([WITHOUT_LOOPBACK], MODES))
    def test_where_there_is_no_loopback_the_model_is_told_how_to_get_one_and_nobody_is_asked(
        self, kind, mode, chat, machine
    ):
        port = find_free_port()
        calls = [
            call("exec", command=f"python3 -u -m http.server {port} --bind 127.0.0.1", background=True),
            call("exec", command=f"{FETCH} 127.0.0.1:{port}/ 1"),
        ]
        scripts = [[each] for each in calls]
        options = ["--mode", mode]
        chat = chat(*scripts, ["I see."], options=options, prepare=machine.before, PATH=machine.path)
        chat.line("serve")
        chat.shows("^I see.$")
        assert "no network here, not even loopback: install bubblewrap" in result_of(chat, 2)
        assert "?" not in chat.everything

    def test_ctrl_b_sends_the_command_that_runs_there_and_the_model_goes_on(self, chat, tmp_path):
        chat = chat(
            [call("exec", command="echo up; while [ ! -e go ]; do sleep 0.01; done; echo seen")],
            ["It goes on."],
            ["I see."],
        )
        chat.line("go")
        chat.shows(r"exec\(.*\) -> \.\.\.")
        wait_until(lambda: somebody_runs(chat.child.pid, b"echo up"), "the command did not begin")
        chat.keys("\x02")
        chat.shows("^It goes on.$")
        assert "the user sent it to the background: it runs in the background as job 1" in result_of(chat, 1)
        chat.prompts()
        chat.keys("and?")
        chat.shows("^> and[?]$")
        (tmp_path / "work" / "go").touch()
        chat.shows(r"^! Background job 1 ended \(exit code 0, after \d+ s\)[^>]*\n> and[?]$")
        chat.line("")
        chat.shows("^I see.$")
        assert chat.everything.count("Background job 1") == 1
        assert "seen" in chat.server.requests[-1]["messages"][-1]["content"]

    @only_thorough
    def test_nothing_survives_the_program(self, chat, tmp_path):
        chat = chat([call("exec", command="echo $$; sleep 600", background=True)], ["It runs."])
        chat.line("go")
        chat.shows("^It runs.$")
        chat.prompts()
        sleeping = somebody_sleeps(chat.child.pid)
        assert sleeping
        chat.line("/exit")
        chat.shows("Ended with the chat: background job 1")
        assert chat.ends() == 0
        assert not any(map(is_alive, sleeping))

    @only_thorough
    def test_nothing_survives_a_kill_either_and_resume_tells_the_model(self, chat, tmp_path):
        first = chat([call("exec", command="echo $$; sleep 600", background=True)], ["It runs."], ["It is gone."])
        first.line("go")
        first.shows("^It runs.$")
        first.prompts()
        sleeping = somebody_sleeps(first.child.pid)
        assert sleeping
        first.child.kill(signal.SIGKILL)
        first.ends()
        wait_until(lambda: not any(map(is_alive, sleeping)), "the command survived the program")
        second = chat(["Then again."], options=["--resume", ""])
        second.shows("Commands in the background ended with the program")
        second.line("and?")
        second.shows("^Then again.$")
        assert "ended with the program: echo $$; sleep 600" in second.server.requests[0]["messages"][-1]["content"]


def result_of(chat, request):
    return chat.server.requests[request]["messages"][-1]["content"]


def somebody_sleeps(ancestor):
    return somebody_runs(ancestor, b"sleep\x00600")


def somebody_runs(ancestor, words):
    """The processes below this one with these words in their command line."""
    below = [each.pid for each in list_descendants(ancestor)]
    return [pid for pid in below if words in read_process_file(pid, "cmdline")]


def is_alive(pid):
    return any(each.pid == pid and each.state not in DEAD for each in list_processes())


class TestUndo:
    COMMAND = "echo 2 > a.txt; rm gone.txt; mkdir -p new/deep; echo x > new/deep/b.txt; chmod 755 run.sh; ln -sf b l"

    def test_what_a_command_changed_is_shown_undone_and_done_again(self, chat, tmp_path):
        work = tmp_path / "work"
        chat = chat([call("exec", command=self.COMMAND, access="write")], ["Done."], ["Again."], options=AUTO)
        (work / "a.txt").write_text("1\n")
        (work / "gone.txt").write_text("here\n")
        (work / "run.sh").write_text("#!/bin/sh\n")
        (work / "l").symlink_to("a")
        before = describe_tree(work)
        chat.line("go")
        chat.shows("^Done.$")
        after = describe_tree(work)
        assert before != after
        chat.prompts()
        chat.line("/diff 1")
        chat.shows(r"^-1\n\+2$")
        chat.shows("run.sh: mode 100644 is now 100755")
        chat.shows("^-here$")
        chat.prompts()
        chat.line("/undo")
        chat.shows("Undone: go")
        chat.shows("removed new/deep/b.txt")
        assert describe_tree(work) == before
        assert "may have changed something else" not in chat.everything
        chat.line("/redo")
        chat.shows("Done again: go")
        assert describe_tree(work) == after
        chat.line("and?")
        chat.shows("^Again.$")
        assert [each["content"] for each in chat.server.requests[-1]["messages"] if each["role"] == "user"] == [
            "go",
            "and?",
        ]

    @only_thorough
    def test_what_the_user_changed_since_is_named_and_stays(self, chat, tmp_path):
        chat = chat([call("exec", command="echo 2 > a.txt; echo 2 > b.txt", access="write")], ["Done."], options=AUTO)
        chat.line("go")
        chat.shows("^Done.$")
        (tmp_path / "work" / "a.txt").write_text("mine\n")
        chat.prompts()
        chat.line("/undo")
        chat.shows("! left a.txt alone: it has been changed since")
        chat.shows("removed b.txt")
        assert describe_tree(tmp_path / "work") == {"a.txt": (0o100644, b"mine\n")}
        chat.prompts()
        chat.line("/redo")
        chat.shows("Done again: go")
        chat.shows(r"! left a.txt alone[\s\S]*! left a.txt alone")
        assert (tmp_path / "work" / "b.txt").read_text() == "2\n"


def describe_tree(folder):
    """Each path with its mode, and the content of a file or the target of a link."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = str(path.readlink()) if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(folder))] = (0 if path.is_symlink() else path.lstat().st_mode, content)
    return found
