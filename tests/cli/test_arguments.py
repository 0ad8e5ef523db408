"""The errors for a wrong command line."""

import pytest

from src.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["docter"], "there is no command docter; the nearest is doctor."),
        (["sessions", "serch"], "there is no action serch; the nearest is search."),
        (["--profile", "asks"], "there is no --profile asks; the nearest is ask."),
        (["--profile", "x"], "there is no --profile x; choose one of read-only, ask, workspace, full."),
        (["--profle", "ask"], "there is no option --profle; the nearest is --profile."),
        (["doctor", "--demo"], "--demo is an option of vllm-bot itself, and stands before the command."),
        (["--demo", "doctor"], "doctor has no demo; `vllm-bot --demo` is a chat without a server."),
        (["--max-turns", "0"], "expected a whole number, 1 or more, got '0'"),
        (["--max-tokens", "1.5"], "expected a whole number, 1 or more, got '1.5'"),
        (["--timeout", "-1"], "expected a number, 0.01 or more, got '-1'"),
        (["--timeout", "nan"], "expected a number, 0.01 or more, got 'nan'"),
        (["sessions", "clean", "--days", "-1"], "expected a number, 0 or more, got '-1'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_on_the_command_line_has_two_lines(words, said, capsys):
    with pytest.raises(SystemExit) as left:
        main(words)
    lines = capsys.readouterr().err.splitlines()
    assert left.value.code == 2
    assert (said in lines[0], len(lines)) == (True, 2)
    assert "--help` says what there is" in lines[1]
