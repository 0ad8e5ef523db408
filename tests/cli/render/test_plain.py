import fcntl
import io
import json
import os
import re
import struct
import termios
from contextlib import suppress

from msgspec.structs import replace
from rich.cells import cell_len

from src.cli.render.plain import PlainScreen, describe_result, format_call
from src.security.text.sanitize import reveal, sanitize
from src.types.events import CallFinished, CallStarted, Completed, Notice, ReasoningDelta, TextDelta
from src.types.messages import MalformedCall, Response, ToolCall, ToolResult
from tests.each import check_rows

READ = ToolCall("c", "read", {"path": "a.txt"})
DONE = Completed(Response(()))
STEERING = {
    "escape sequence": "\x1b[2Jx",
    "window title": "\x1b]0;t\x07x",
    "C1": "\x9b2Jx",
    "backspace and return": "a\b\rx",
    "right-to-left override": "a\u202ex",
    "isolate": "a\u2066x",
    "delete": "a\x7fx",
}


@check_rows("text", STEERING.values())
def test_nothing_that_steers_a_terminal_is_shown(text):
    assert not set(sanitize(text)) & set("\x1b\x07\x9b\b\r\u202e\u2066\x7f")
    assert sanitize(text).endswith("x")


@check_rows("text", STEERING.values())
def test_what_is_to_be_approved_shows_such_characters_as_escapes(text):
    assert reveal(text).isprintable()
    assert "\\" in reveal(text)


def test_lines_tabs_and_all_languages_are_shown_as_they_are():
    assert sanitize("日本語\tcafé\n🙂") == "日本語\tcafé\n🙂"


def test_a_call_line_shortens_long_arguments():
    line = format_call(ToolCall("c", "write", {"path": "a.txt", "content": "x" * 500}))
    assert line == 'write(path="a.txt", content=...)'


CALLS = [
    ("exec", {"command": "python -m pytest -q tests/security/sandbox tests/cli", "access": "write"}),
    ("edit", {"path": "src/security/permissions/policy.py", "oldText": "some words here", "newText": "other words"}),
    ("grep", {"pattern": "needle", "path": "src", "before": 2, "ignore_case": True}),
    ("todo_write", {"todos": [{"content": "first thing", "status": "pending"}]}),
    ("exec", {"command": "echo 日本語のとても長い文字列がここにあります"}),
]


@check_rows("columns", [20, 40, 60, 80])
@check_rows("name, arguments", CALLS)
def test_a_call_line_fits_and_cuts_no_word(name, arguments, columns):
    line = format_call(ToolCall("c", name, arguments), columns)
    assert len(line) <= columns
    whole = re.findall(r"\w+", json.dumps(arguments, ensure_ascii=False))
    assert [word for word in re.findall(r"[a-zA-Z_]+", line) if word not in (name, *whole)] == []


def test_the_longest_argument_of_a_call_is_shortened_first():
    call = ToolCall("c", "edit", {"path": "src/main.py", "oldText": "a few words that are long", "newText": "short"})
    assert format_call(call, 66) == 'edit(path="src/main.py", oldText="a few...", newText="short")'
    assert format_call(call, 55) == 'edit(path="src/main.py", oldText=..., newText="short")'
    assert format_call(call, 20) == 'edit("src/main.py")'
    assert format_call(call, 10) == "edit(...)"


def test_a_path_keeps_its_end():
    call = ToolCall("c", "edit", {"path": "src/security/permissions/policy.py", "oldText": "o" * 90})
    assert format_call(call, 39) == 'edit(path=".../policy.py", ...)'
    assert format_call(call, 80) == 'edit(path="src/security/permissions/policy.py", oldText=...)'
    assert format_call(ToolCall("c", "read", {"path": "a/" + "x" * 30}), 30) == 'read(path="...xxxxxxxxxxxxxx")'


def ran(printed, exit_code=0, notes=""):
    """The result of a command that ended with this code, and the notes behind it."""
    ending = f"exit code {exit_code}"
    return ToolResult("c", "exec", "text", f"{printed}[{ending}]{notes}", ending=ending, exit_code=exit_code)


JOB_END = "[background job 2 ended (exit code 1, after 2 s): make\nthe end of its output:\nboom]"


def tell_of_job(result: ToolResult) -> ToolResult:
    """The result with the end of a command in the background behind it."""
    return replace(result, value=f"{result.value}\n{JOB_END}", own_chars=len(result.text))


def denied(text: str, reply: str = "") -> ToolResult:
    return ToolResult("c", "read", "error", text, is_denied=True, reply=reply)


@check_rows(
    "result, line",
    [
        (ToolResult("c", "read", "text", "one line\n"), "one line"),
        (ToolResult("c", "read", "text", "a\nb\nc"), "3 lines"),
        (ToolResult("c", "read", "text", ""), "nothing"),
        (ToolResult("c", "read", "text", "x" * 100), "1 line, 100 characters"),
        (ToolResult("c", "count", "data", {"n": 1}), '{"n": 1}'),
        (ToolResult("c", "read", "error", "Error executing tool: gone\nmore"), "error: gone"),
        (
            ToolResult("c", "edit", "error", "Wrong arguments for edit: path is missing. Usage: edit(path: string)"),
            "error: path is missing",
        ),
        (denied("Not run: the user said no."), "Not run: the user said no."),
        (denied("Not run: the user said no. Ask what to do."), "Not run: the user said no"),
        (denied("Not run: he did not, and said: a. B.", reply="a. B."), "Not run: a. B."),
        (denied("Not run: no. It tells, and said: so."), "Not run: no"),
        (
            ToolResult(
                "c", "exec", "text", "up\n[it runs in the background as job 3; `kill %3` ends it; you will be told]"
            ),
            "up [background job 3]",
        ),
        (
            ToolResult(
                "c", "exec", "text", "[the user sent it to the background: it runs in the background as job 3; x]"
            ),
            "[background job 3]",
        ),
        (
            tell_of_job(ToolResult("c", "exec", "text", "[it runs in the background as job 2; x]")),
            "[background job 2]",
        ),
        (tell_of_job(ran("Oh\n", 1)), "[exit code 1]"),
        (tell_of_job(ran("Oh\n")), "Oh"),
        (tell_of_job(ToolResult("c", "write", "text", "Created a: 2 characters")), "Created a: 2 characters"),
        (ran(f"{JOB_END}\n", 1), "[exit code 1] 3 lines"),
        (ToolResult("c", "write", "text", "Created a: 2 characters [sha256 0f]"), "Created a: 2 characters"),
        (
            ToolResult("c", "edit", "text", "Changed a: 1 [sha256 0f]\n--- a\n+++ b\n-x\n+y\n+z\n"),
            "changed +2 -1 lines",
        ),
        (
            ToolResult(
                "c", "edit", "text", '[The user changed the arguments to {"a": 1}]\nChanged a\n--- a\n+++ b\n-x\n+y\n'
            ),
            "changed +1 -1 lines",
        ),
        (ran("Hello\n"), "Hello"),
        (ran(""), "[exit code 0]"),
        (ran("Oh\n", 1), "[exit code 1]"),
        (ToolResult("c", "read", "text", "Oh\nOh\n[exit code 1]"), "2 lines [exit code 1]"),
        (ran("Hi\n", notes="\n[it failed with access=read, and was run again with access=write]"), "Hi"),
        (ran("Oh\n", 1, "\n[no network]"), "[exit code 1]"),
        (ran("[a]\n[b]\n"), "2 lines"),
        (ToolResult("c", "exec", "text", "[a]\n[b]"), "[a] [b]"),
        (ran("..\n==== 10 passed in 0.1s ====\n"), "10 passed in 0.1s"),
        (ran("a.py\nb.py\n"), "2 lines"),
        (ran("a: ok\nAll checks passed!\n"), "All checks passed!"),
        (ToolResult("c", "todo_write", "text", "[x] read\n[~] write\n[ ] run"), "1 of 3 done"),
    ],
)
def test_an_outcome_is_one_short_line(result, line):
    assert describe_result(result) == line


def drawn(*events, thoughts=False, styled=False, clean=None):
    answer, aside = io.StringIO(), io.StringIO()
    screen = PlainScreen(answer, aside, thoughts=thoughts, styled=styled, clean=clean)
    for event in events:
        screen.draw(event)
    return answer.getvalue(), aside.getvalue()


def test_the_answer_and_everything_else_go_to_two_streams():
    result = ToolResult("c", "read", "text", "hello")
    answer, aside = drawn(
        TextDelta("Looking."),
        DONE,
        CallStarted(READ),
        CallFinished(READ, result),
        TextDelta("It says "),
        TextDelta("hello"),
        DONE,
    )
    assert answer == "Looking.\nIt says hello\n"
    assert aside == '  read(path="a.txt") -> hello\n'


def test_calls_that_run_together_have_a_line_each():
    other = ToolCall("d", "read", {"path": "b.txt"})
    started = [CallStarted(READ), CallStarted(other)]
    finished = [CallFinished(call, ToolResult(call.id, "read", "text", "hello")) for call in (READ, other)]
    assert drawn(*started, *finished)[1] == '  read(path="a.txt") -> hello\n  read(path="b.txt") -> hello\n'


def test_a_call_that_never_began_has_its_line_too():
    refused = denied("Not run: no.")
    assert drawn(CallFinished(READ, refused))[1] == '  read(path="a.txt") -> Not run: no.\n'


def test_a_malformed_call_is_named_as_far_as_it_can_be():
    call = MalformedCall("c", "", "{", "It has no end.")
    assert drawn(CallFinished(call, ToolResult("c", "", "error", "It has no end.")))[1].startswith(
        "  unreadable call -> "
    )


def test_on_a_terminal_why_a_call_failed_is_shown_whole():
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    reason = "there is no parameter newTxt, and three others are missing"
    with os.fdopen(reader, "rb", 0) as terminal, os.fdopen(writer, "w") as aside:
        screen = PlainScreen(io.StringIO(), aside, thoughts=False, styled=False)
        screen.draw(CallFinished(ToolCall("c", "edit", {"path": "a"}), ToolResult("c", "edit", "error", reason)))
        shown = b""
        while not shown.endswith(b"missing\r\n"):  # a terminal hands on line by line
            shown += terminal.read(4096)
        lines = shown.decode().splitlines()
    assert lines == [
        '  edit(path="a")',
        "    -> error",
        "    | there is no parameter newTxt,",
        "    | and three others are missing",
    ]


def test_on_a_terminal_each_line_fits_however_long_a_name_or_a_word_is():
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    call = ToolCall("c", "x" * 100, {"text": "日本語" * 30})
    shown = b""
    with os.fdopen(reader, "rb", 0) as terminal:
        with os.fdopen(writer, "w") as aside:
            screen = PlainScreen(io.StringIO(), aside, thoughts=False, styled=False)
            for event in (CallFinished(call, ToolResult("c", "", "text", "日本語" * 15)), Notice("y" * 60)):
                screen.draw(event)
            screen.put("\n".join(screen.unfold()))
        with suppress(OSError):  # a terminal whose other end is closed ends with EIO
            while piece := terminal.read(4096):
                shown += piece
    lines = shown.decode().splitlines()
    assert max(map(cell_len, lines)) <= 40
    assert lines[0].startswith("  xxx")
    assert all(line.startswith(("    ->", "! y", "  | ", "  xxx", "    : ")) for line in lines[1:])


def test_a_notice_in_the_middle_of_a_line_starts_its_own():
    answer, aside = drawn(TextDelta("Half"), Notice("cut\nhere"))
    assert (answer, aside) == ("Half\n", "! cut\n! here\n")


def test_reasoning_is_dim_on_a_terminal_and_not_shown_elsewhere():
    assert drawn(ReasoningDelta("hm"), TextDelta("x"), thoughts=True, styled=True) == ("x", "\x1b[2mhm\x1b[0m\n")
    assert drawn(ReasoningDelta("hm"), TextDelta("x")) == ("x", "")


@check_rows(
    "hidden",
    ["\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u3164", "\u2800", "\ufe0f", "\U000e0041", "\u2028", "\u00a0"],
)
def test_what_is_to_be_approved_shows_what_has_no_shape(hidden):
    assert hidden not in reveal(f"ls{hidden}x")


def test_an_escape_that_was_written_differs_from_one_that_was_revealed():
    assert reveal("a\x1bb") != reveal("a\\x1bb\x00")
    assert reveal("C:\\x1b") == "C:\\x1b"


def test_how_a_command_ended_is_on_its_line():
    assert describe_result(ran("a\nb\n", 1)) == "[exit code 1] 2 lines"


def test_what_makes_the_answer_harmless_may_be_given():
    assert drawn(TextDelta("a\x1b[1mb"))[0] == "ab"
    assert drawn(TextDelta("a\x1b[1mb"), clean=str)[0] == "a\x1b[1mb"


def test_a_call_is_on_one_line_whatever_its_names_are():
    call = ToolCall("c", "re\rad\u202e", {"k\n\x08": 1})
    assert format_call(call) == "re\\rad\\u202e(k\\n\\x08=1)"
