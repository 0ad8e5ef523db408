"""`vllm-bot sessions`, and one question that continues a session."""

import json

import pytest

from src.cli.main import main
from tests.doubles import ScriptedServer


@pytest.fixture
def run(tmp_path, capsys):
    """The program with these arguments: its exit code, and what it printed."""

    def run(*arguments):
        return main(["--workspace", str(tmp_path), *arguments]), capsys.readouterr()

    return run


def asked(run, question, answer, *options):
    with ScriptedServer([{"content": answer}, {"finish": "stop"}]) as server:
        code, _ = run("-p", question, "-u", server.url, "-m", "tiny", *options)
        assert code == 0
        return [message["content"] for message in server.requests[0]["messages"] if message["role"] == "user"]


def test_one_question_goes_on_with_the_last_session(run):
    asked(run, "My name is Ann.", "Hello Ann.")
    assert asked(run, "Who am I?", "Ann.", "--resume") == ["My name is Ann.", "Who am I?"]


def test_without_resume_each_question_is_a_session_of_its_own(run):
    asked(run, "a", "1")
    assert asked(run, "b", "2") == ["b"]
    code, shown = run("sessions", "--json")
    assert code == 0
    assert sorted(json.loads(line)["title"] for line in shown.out.splitlines()) == ["a", "b"]


def test_they_are_listed_and_searched(run):
    asked(run, "What of wheat?", "Wheat is grown.")
    _, shown = run("sessions")
    assert "1 turn   What of wheat?" in shown.out
    code, shown = run("sessions", "search", "grown")
    assert code == 0 and "model: Wheat is grown." in shown.out
    code, shown = run("sessions", "search", "xyzzy")
    assert (code, shown.out) == (1, "")
    assert shown.err == "No session contains all these words; `vllm-bot sessions` lists them.\n"


@pytest.mark.parametrize("content", [b"", b"\x00\xff{rubbish\n"])
def test_a_file_that_is_no_journal_is_listed_with_the_reason(run, state_folder, content):
    asked(run, "a", "1")
    (folder,) = state_folder.glob("*/sessions")
    (folder / "odd.jsonl").write_bytes(content)
    (listed,) = [line for line in run("sessions")[1].out.splitlines() if line.startswith("odd ")]
    assert listed.endswith("  ! is not the journal of a session")
    assert '"problem": "is not the journal of a session"' in run("sessions", "--json")[1].out


def test_one_is_shown_and_exported(run, tmp_path):
    asked(run, "What of wheat?", "Wheat is grown.")
    assert "## You\n\nWhat of wheat?" in run("sessions", "show")[1].out
    assert json.loads(run("sessions", "export", "--format", "json")[1].out)["messages"]
    assert run("sessions", "export", "--format", "html", "--out", str(tmp_path / "x.html"))[0] == 0
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")


def test_what_steers_a_terminal_is_not_shown(run):
    asked(run, "go", "red \x1b[31mtext")
    assert "\x1b" not in run("sessions", "show")[1].out


def test_a_beginning_or_a_typo_deletes_nothing(run):
    asked(run, "What of wheat?", "Wheat is grown.")
    session = json.loads(run("sessions", "--json")[1].out)["id"]
    assert run("sessions", "delete", session[:6])[0] == 1
    assert run("sessions", "delete", session, "nothing")[0] == 1
    assert session in run("sessions")[1].out


def test_they_are_deleted(run):
    asked(run, "a", "1")
    (line,) = run("sessions", "--json")[1].out.splitlines()
    session = json.loads(line)["id"]
    assert run("sessions", "clean", "--days", "1")[1].out == ""
    assert run("sessions", "delete", session)[1].out == f"deleted {session}\n"
    assert "There is no session yet" in run("sessions")[1].err


def test_one_that_there_is_not_is_an_error(run):
    asked(run, "a", "1")
    code, shown = run("sessions", "show", "xyzzy")
    assert code == 1
    assert "no session 'xyzzy'" in shown.err
