"""What a model reads of a command that its access made fail."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from src.tools import ToolContext
from src.tools.process.run_command import NO_LOOPBACK, NO_SEMAPHORES, USE_TMPDIR, explain_failure, run_command
from src.tools.sdk.output_store import ToolOutput
from src.tools.sdk.wiring import CommandReport
from src.types.sandbox import Launch
from tests.each import check_rows
from tests.thorough import sample

SANDBOX = SimpleNamespace(is_enforcing=True, has_loopback=True, has_network=lambda access: access == "network")
WITHOUT_LOOPBACK = SimpleNamespace(**{**vars(SANDBOX), "has_loopback": False})
READ = "the workspace is read-only for access=read; call again with access=write if the command must change files"
NETWORK = "there is no network for access=write; call again with access=network if the command needs it"
GUARDED = "nothing outside the workspace can be changed, nor what runs by itself, such as .git/config and .git/hooks"
LONG = "a failure that has nothing to do with it: assertion 1 == 2 in test_a.py\n" * 3


def explain(access: str, output: str = "", *, is_tool: bool = False, sandbox=SANDBOX, **report: str) -> str:
    context = ToolContext(Path("/")).rewire(sandbox=sandbox, report=CommandReport(**report))
    return explain_failure(access, ToolOutput(output, exit_code=1), context, is_tool=is_tool)


@pytest.mark.parametrize("output", ["", LONG, "INTERNAL ERROR, please report a bug"])
def test_with_read_the_words_are_said_whatever_the_program_says(output):
    assert explain("read", output).startswith(READ)


@check_rows(
    "access, output, expected",
    [
        ("write", "", NETWORK),
        ("write", f"{LONG}Could not resolve host: x", NETWORK),
        ("write", LONG, ""),
        ("write", f"{LONG}x: Read-only file system", GUARDED),
        ("write", f"{LONG}could not write config file .git/config: Device or resource busy", GUARDED),
        ("write", "mkdir: /etc/x: Permission denied", f"{GUARDED}; {NETWORK}"),
        ("network", "Could not resolve host: x", ""),
        ("outside", "Permission denied", ""),
    ],
)
def test_with_more_they_are_said_if_they_may_be_the_cause(access, output, expected):
    assert explain(access, output) == expected


REFUSED = "/bin/bash: line 1: /tmp/a.txt: Permission denied"


@pytest.mark.parametrize("access", ["read", "write"])
def test_for_a_refused_temporary_file_its_own_folder_is_named(access):
    assert USE_TMPDIR in explain(access, REFUSED)
    assert USE_TMPDIR not in explain(access, "a.txt: Permission denied")
    assert USE_TMPDIR not in explain(access, "reading /tmp/a.txt\nb: Permission denied")


SEMAPHORE = "    _multiprocessing.SemLock(\nPermissionError: [Errno 13] Permission denied"


@pytest.mark.parametrize("access", ["read", "write"])
def test_for_refused_semaphores_the_way_around_is_named(access):
    assert NO_SEMAPHORES in explain(access, SEMAPHORE)
    assert NO_SEMAPHORES not in explain(access, "a.txt: Permission denied")


FAILED_TESTS = "\n".join(
    ["test_a.py F", *["E   assert 1 == 2"] * 8, "FAILED test_a.py::test_a - assert 1 == 2", "1 failed"]
)


CAUSES = [
    (REFUSED, REFUSED, False),
    (
        "touch: cannot touch 'a': Read-only file system\nmake: *** Error 1",
        "touch: cannot touch 'a': Read-only",
        True,
    ),
    ("{workspace}/a: Permission denied", "a: Permission denied", True),
    (SEMAPHORE, "PermissionError: [Errno 13] Permission denied", False),
    ("assert 1 == 2", "", True),
    (FAILED_TESTS, "", False),
    (f"{FAILED_TESTS}\nsqlite3.OperationalError: attempt to write a readonly database", "", True),
    (f"{FAILED_TESTS}\njava.nio.file.AccessDeniedException: a", "", True),
    (f"{FAILED_TESTS}\nerror: could not create work tree dir 'x'", "", True),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("printed", "cause", "may_run_again"), sample(CAUSES, 2))
def test_the_line_that_names_a_refused_file_is_the_cause(tmp_path, printed, cause, may_run_again):
    sandbox = SimpleNamespace(
        **vars(SANDBOX), launch=lambda argv, _cwd, environment, _access: Launch(argv, environment)
    )
    context = ToolContext(tmp_path, environment={"PATH": "/usr/bin:/bin", "TEXT": printed.format(workspace=tmp_path)})
    report = CommandReport()
    words = ["/bin/sh", "-c", 'printf "%s\\n" "$TEXT"; exit 1']
    run_command(words, context.rewire(sandbox=sandbox, report=report), None)
    assert report.cause.startswith(cause)
    assert bool(report.cause) == bool(cause)
    assert report.named_none == may_run_again


@pytest.mark.parametrize("access", ["read", "write"])
def test_the_lack_of_a_loopback_is_named_where_the_program_speaks_of_the_network(access):
    refused = "listen EPERM: operation not permitted, socket"
    assert explain(access, refused, sandbox=WITHOUT_LOOPBACK).startswith(f"{NO_LOOPBACK}; ")
    assert NO_LOOPBACK not in explain(access, LONG, sandbox=WITHOUT_LOOPBACK)
    assert NO_LOOPBACK not in explain(access, refused)


def test_the_lack_of_a_loopback_is_not_said_of_the_network_of_the_machine():
    assert NO_LOOPBACK not in explain("network", "connection refused", sandbox=WITHOUT_LOOPBACK)


def test_where_nothing_else_is_offered_or_can_be_named_nothing_is_advised():
    assert explain("read", widest_access="read").endswith("; no other access is offered now")
    assert explain("read", is_tool=True) == "the workspace is read-only for this tool, and there is no network"
    assert explain("write", is_tool=True) == "there is no network for this tool"


@pytest.mark.parametrize(
    ("named", "has_loopback", "may_run_again"),
    [(None, True, True), ("read", True, False), ("write", True, False), (None, False, False)],
)
def test_only_a_command_that_named_no_access_may_run_again_with_more(tmp_path, named, has_loopback, may_run_again):
    """And only if more access may cure it."""
    sandbox = SimpleNamespace(
        is_enforcing=True,
        has_loopback=has_loopback,
        has_network=lambda _: False,
        launch=lambda argv, _cwd, environment, _access: Launch(argv, environment),
    )
    context = ToolContext(tmp_path, environment={"PATH": "/usr/bin:/bin"}).rewire(sandbox=sandbox)
    report = CommandReport()
    run_command(["/bin/sh", "-c", "echo socket: refused; exit 3"], context.rewire(report=report), named)
    assert (report.named_none, report.exit_code) == (may_run_again, 3)
