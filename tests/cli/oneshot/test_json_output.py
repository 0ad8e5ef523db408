"""What --output prints is what the table of docs/scripts.md says. `python -m tests.cli.test_output` prints that table."""

import json
from pathlib import Path

import pytest

from src.cli.main import main
from src.cli.oneshot.json_output import LINES, format_end, format_event
from src.cli.oneshot.run_report import RunReport
from src.types.events import TextDelta
from tests.doubles import ScriptedServer

PAGE = Path(__file__).resolve().parents[3] / "docs" / "scripts.md"
TYPES = {
    str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array", type(None): "null"
}  # fmt: skip
HELLO = [{"reasoning": "Hm."}, {"content": "Hel"}, {"content": "lo"}, {"finish": "stop"}]
READ = [{"content": 'Reading.\nTOOL_CALL: {"name": "read", "args": {"path": "notes.txt"}}'}, {"finish": "stop"}]
WRITE = [{"content": 'TOOL_CALL: {"name": "write", "args": {"path": "new", "content": "x"}}'}, {"finish": "stop"}]
TASK = [{"content": 'TOOL_CALL: {"name": "task", "args": {"prompt": "Read the notes."}}'}, {"finish": "stop"}]
BROKEN = [{"content": 'TOOL_CALL: {"name": "read", "args": '}, {"finish": "stop"}]


@pytest.fixture
def lines(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("hello from notes\n")
    (tmp_path / "config.json").write_text("{}")

    def run(*answers, output="stream-json", options=()):
        with ScriptedServer(*answers) as server:
            where = ["-u", server.url, "-w", str(tmp_path), "-c", str(tmp_path / "config.json")]
            code = main([*where, "-p", "go", "--output", output, *options])
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def fits(line):
    """Whether a line has exactly the fields that the table names, each with a value of its types."""
    fields = LINES[line.pop("type")].fields
    return line.keys() == fields.keys() and all(
        TYPES[type(value)] in fields[name].holds or (type(value) is int and "number" in fields[name].holds)
        for name, value in line.items()
    )


def table() -> str:
    rows = ["| type | when | field | holds | what it is |", "|---|---|---|---|---|"]
    for kind, row in LINES.items():
        first = [f"`{kind}`", row.about]
        for name, field in row.fields.items():
            rows.append(f"| {' | '.join([*first, f'`{name}`', ', '.join(field.holds), field.about])} |")
            first = ["", ""]
    return "\n".join(rows)


def test_the_providers_own_stop_reason_is_told(lines):
    _, (*_, end) = lines([{"content": "Once"}, {"finish": "content_filter"}], output="json")
    assert (end["answer"], end["stop_reason"], end["provider_stop_reason"]) == ("Once", "other", "content_filter")
    assert end["error"] == "The server stopped the answer: content_filter."


def test_every_line_is_as_the_table_says_and_every_kind_occurs(lines):
    _, printed = lines(READ, WRITE, BROKEN, TASK, READ, HELLO, HELLO, options=["--max-turns", "4"])
    assert {line["type"] for line in printed} == LINES.keys()
    assert [line for line in printed if not fits(line)] == []


def test_the_first_says_what_answers_and_the_last_how_it_ended(lines):
    code, printed = lines(READ, HELLO)
    assert (printed[0]["type"], printed[0]["model"]) == ("start", "tiny")
    end = printed[-1]
    assert (code, end["exit_code"], end["answer"], end["calls"], end["turns"]) == (0, 0, "Hello", 1, 2)


def test_the_pieces_of_the_last_turn_are_the_answer(lines):
    _, printed = lines(HELLO)
    assert "".join(line["text"] for line in printed if line["type"] == "text") == printed[-1]["answer"]


def test_json_is_the_last_line_alone(lines):
    _, printed = lines(READ, HELLO, output="json")
    assert [line["type"] for line in printed] == ["end"]


@pytest.mark.parametrize(
    ("answers", "options", "code"),
    [
        ((HELLO,), (), 0),
        (((400, {"error": {"message": "no luck"}}),), (), 1),
        ((HELLO,), ("-w", "/nowhere"), 2),
        ((READ, HELLO), ("--max-turns", "1"), 3),
        ((WRITE, HELLO), (), 5),
        (([{"content": "Once"}, {"finish": "content_filter"}],), (), 1),
    ],
)
def test_the_exit_code_is_in_it(lines, answers, options, code):
    came, printed = lines(*answers, output="json", options=options)
    assert came == code
    assert [line["exit_code"] for line in printed] == [code]


@pytest.mark.parametrize("output", ["json", "stream-json"])
@pytest.mark.parametrize(
    ("options", "code", "error"),
    [
        (("--resume", "xyzzy"), 1, "no session"),
        (("--trace", "/nowhere/trace"), 2, "--trace"),
        (("--demo",), 2, "--demo"),
        (("-p", " "), 2, "empty"),
    ],
)
def test_what_goes_wrong_before_the_model_is_asked_is_the_last_line_too(lines, output, options, code, error):
    came, [line] = lines(HELLO, output=output, options=options)
    assert (came, line["exit_code"]) == (code, code)
    assert error in line["error"]
    assert fits(line)


def test_a_mistake_of_the_programs_own_is_the_last_line_too():
    last = json.loads(format_end(RunReport(), ZeroDivisionError("half")))
    assert last["error"] == "Unexpected ZeroDivisionError: half"
    assert RunReport().compute_exit_code(ZeroDivisionError()) == 1


@pytest.mark.parametrize("output", ["json", "text"])
def test_a_question_that_failed_has_not_the_answer_of_the_one_before(tmp_path, capsys, output):
    (tmp_path / "config.json").write_text("{}")
    with ScriptedServer(HELLO, (400, {"error": {"message": "no luck"}})) as server:
        where = ["-u", server.url, "-w", str(tmp_path), "-c", str(tmp_path / "config.json"), "-p", "go"]
        assert main(where) == 0
        assert "Hello" in capsys.readouterr().out
        assert main([*where, "--resume", "--output", output]) == 1
    assert "Hello" not in capsys.readouterr().out


def test_that_there_is_no_answer_is_in_it(lines):
    code, (end,) = lines(*[[{"finish": "stop"}]] * 2, output="json")
    assert (code, end["error"]) == (1, "The model ended its turn without saying anything.")


def test_an_error_is_in_it_with_what_to_do(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    where = ["-u", "http://127.0.0.1:9/v1", "-m", "tiny", "-c", str(tmp_path / "config.json")]
    assert main([*where, "-p", "go", "--output", "json"]) == 4
    printed = capsys.readouterr()
    end = json.loads(printed.out)
    assert fits(dict(end))
    assert end["exit_code"] == 4
    assert end["error"].startswith("No server at http://127.0.0.1:9/v1")
    assert printed.err.startswith("vllm-bot: No server at")


def test_what_is_printed_is_ascii_so_that_no_escape_of_a_models_reaches_a_terminal():
    escapes = "\x1b]0;pwned\x07 \x9b \u202e \ud800"
    printed = format_event(TextDelta(escapes))
    assert printed.isascii()
    assert printed.isprintable()
    assert json.loads(printed)["text"] == escapes


def test_a_chat_has_no_such_output(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert main(["--output", "json"]) == 2
    assert "--output works only with a question" in capsys.readouterr().err


def test_the_page_has_the_table():
    assert table() in PAGE.read_text(encoding="utf-8"), f"it should hold:\n{table()}"


if __name__ == "__main__":
    print(table())
