"""Running a command: its output, its limits, and that none of its processes is left afterwards.

Whether a process still lives is seen by a pipe it holds: reading says "try again" while anyone can write. One that
was killed may take a while to be gone where the machine is busy, so that the end of the pipe is waited for.
"""

from __future__ import annotations

import gc
import os
import select
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Timer, get_ident

import pytest

from src.errors import ToolError
from src.tools import REGISTRY, ToolContext
from src.tools.process import run as run_module
from src.tools.process import supervisor
from src.tools.process.run import HeldInterrupts, describe_exit, run_live
from src.tools.sdk.output_store import Outputs
from src.types.messages import ToolCall, ToolResult
from src.types.sandbox import Launch
from tests.thorough import sample, take_turns
from tests.waiting import ONE_HAS_ENDED, PATIENCE_S, try_clocks

HOLD = "exec 3>alive; "  # everything the command starts after this holds the pipe
ENDED = "; what it left running in the background was ended]"


@pytest.fixture
def somebody_lives(workspace: Path) -> Iterator[Callable[[], bool]]:
    os.mkfifo(workspace / "alive")
    reader = os.open(workspace / "alive", os.O_RDONLY | os.O_NONBLOCK)

    def look() -> bool:
        for _ in range(2):
            try:
                return os.read(reader, 1) != b""
            except BlockingIOError:
                select.select([reader], [], [], 10)
        return True

    yield look
    os.close(reader)


SHOWN = [
    ("echo hi", "hi\n[exit code 0]"),
    ("printf hi", "hi\n[exit code 0]"),
    ("true", "[exit code 0]"),
    ("echo bad; exit 3", "bad\n[exit code 3]"),
    ("echo out; echo err >&2; echo out", "out\nerr\nout\n[exit code 0]"),
    ("cat", "[exit code 0]"),
    ("read answer; echo $?", "1\n[exit code 0]"),
    ("kill -KILL $$", "[killed by SIGKILL]"),
    (r"printf 'a\377b\000c'", "a\ufffdb\ufffdc\n[exit code 0]"),
    ("exec >&- 2>&-; exit 7", "[exit code 7]"),
    ("", "[exit code 0]"),
    ("echo 'a b' | wc -c && echo done", "4\ndone\n[exit code 0]"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("command", "shown"), sample(SHOWN, 2, 1))
def test_output_and_exit_code_are_shown(command, shown, run):
    result = run("exec", command=command)
    assert (result.kind, result.value.replace("       ", "")) == ("text", shown)


@pytest.mark.parametrize(
    ("command", "ending", "exit_code", "has_failed"),
    [
        ("echo [exit code 1]", "exit code 0", 0, False),
        ("exit 3", "exit code 3", 3, True),
        ("kill -KILL $$", "killed by SIGKILL", -9, True),
    ],
)
def test_a_result_carries_how_its_command_ended(command, ending, exit_code, has_failed, run):
    result = run("exec", command=command)
    stored = ToolResult.from_dict(result.to_dict())
    for each in (result, stored):
        assert (each.ending, each.exit_code, each.has_command_failed) == (ending, exit_code, has_failed)


def test_a_command_runs_in_a_python_without_pidfd_open(run, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert run("exec", command="echo hello; exit 3").value == "hello\n[exit code 3]"


def test_a_command_that_looks_like_an_option_is_still_a_command(run):
    assert "[exit code 127]" in run("exec", command="-x").value


def test_a_command_cannot_read_what_is_typed(run):
    typed, keyboard = os.pipe()
    os.write(keyboard, b"typed\n")
    os.close(keyboard)
    before = os.dup(0)
    os.dup2(typed, 0)
    try:
        assert run("exec", command="cat").value == "[exit code 0]"
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(typed)


def test_it_runs_in_the_workspace(run, workspace):
    assert run("exec", command="pwd -P").value == f"{workspace.resolve()}\n[exit code 0]"


def test_a_command_gets_the_environment_of_its_context_and_no_other(workspace, monkeypatch):
    monkeypatch.setenv("CANARY", "x")
    ctx = ToolContext(workspace, {"PATH": os.environ["PATH"], "A": "b"})
    shown = REGISTRY.run(ToolCall("1", "exec", {"command": "env"}), ctx).value
    assert "A=b\n" in shown
    assert "CANARY" not in shown


REFUSED = [
    ("", "echo a\0b", "neither a NUL nor a lone surrogate"),
    ("", "echo \ud800", "neither a NUL nor a lone surrogate"),
    ("/dev/null/none", "echo hi", "could not be started"),
]


@pytest.mark.parametrize(("folder", "command", "said"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_cannot_be_run_is_an_error(folder, command, said, workspace):
    ctx = ToolContext(workspace / folder, {"PATH": "/usr/bin:/bin"})
    result = REGISTRY.run(ToolCall("1", "exec", {"command": command}), ctx)
    assert result.kind == "error"
    assert said in result.value


def test_a_command_longer_than_the_system_takes_is_an_error(workspace):
    ctx = ToolContext(workspace, {"PATH": "/usr/bin:/bin"})
    result = REGISTRY.run(ToolCall("1", "exec", {"command": "echo " + "x" * 3_000_000}), ctx)
    assert result.kind == "error"
    assert "could not be started" in result.value


def test_a_command_whose_output_cannot_be_stored_runs_all_the_same(run, workspace):
    (workspace / "file").touch()
    result = run("exec", {"outputs": Outputs(workspace / "file" / "outputs")}, command="echo hi")
    assert (result.value, result.ref) == ("hi\n[exit code 0]", "")


def test_what_is_cut_out_of_the_middle_has_a_reference(run, tmp_path):
    result = run("exec", {"outputs": Outputs(tmp_path / "o"), "exec_max_output": 20}, command="seq 1 1000")
    assert f'characters cut out of the middle: tool_output_cache(ref_id="{result.ref}") ...]' in result.value


def test_the_model_reads_how_much_of_an_output_was_stored(run, tmp_path):
    outputs = Outputs(tmp_path / "o", max_output_bytes=100)
    result = run("exec", {"outputs": outputs, "exec_max_output": 20}, command="seq 1 1000")
    assert "cut out of the middle; the first 100 bytes of all: tool_output_cache" in result.value


# In a sandbox


class RecordingSandbox:
    """Runs commands as they are, and records what is called at their end."""

    kind = description = "recording"

    def __init__(self, notes: tuple[str, ...] = (), before_exec: Callable[[], None] | None = None) -> None:
        self.calls: list[str] = []
        self._notes = notes
        self._before_exec = before_exec

    def launch(self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], access: str = "write") -> Launch:
        def tidy_up() -> tuple[str, ...]:
            self.calls.append("tidy_up")
            return self._notes

        return Launch(argv, environment, self._before_exec, (), lambda: self.calls.append("settle"), tidy_up)


class BrokenSandbox(RecordingSandbox):
    def launch(self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], access: str = "write") -> Launch:
        raise OSError("no room")


@pytest.mark.parametrize("command", ["echo hi", "sleep 60 & echo hi", "exec >&-; sleep 60"])
def test_a_sandbox_is_told_of_the_end_and_what_it_did_is_shown(command, run):
    sandbox = RecordingSandbox(("protected, put back as it was: a",))
    shown = run("exec", {"sandbox": sandbox, "exec_timeout": 1}, command=command).value
    assert sandbox.calls == ["settle", "tidy_up"]
    assert shown.endswith("; protected, put back as it was: a]")


def test_a_sandbox_that_cannot_be_made_ready_is_an_error(run):
    result = run("exec", {"sandbox": BrokenSandbox()}, command="echo hi")
    assert result.value == "Error executing tool: the sandbox could not be made ready: no room"


def test_limits_that_cannot_be_set_are_an_error_after_which_the_sandbox_tidies_up(run):
    def fail() -> None:
        raise OSError

    sandbox = RecordingSandbox(before_exec=fail)
    result = run("exec", {"sandbox": sandbox}, command="echo hi")
    assert result.value.endswith("could not be started: the sandbox or its limits could not be set")
    assert sandbox.calls == ["settle", "tidy_up"]


# Time, and who is left

OUTLASTING = [
    ("a child", "sleep 60"),
    ("a grandchild", "(sleep 60; true); true"),
    ("many", "for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; wait"),
    ("one with a group of its own", "set -m; sleep 60 & wait"),
    ("one that is stopped", "sleep 60 & kill -STOP $!; wait"),
    ("one that ignores the request to end", "trap '' TERM; sleep 60; sleep 60"),
    ("one that shows nothing any more", "exec >&- 2>&-; sleep 60"),
    ("one that never stops talking", "yes"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("command", sample([row[1] for row in OUTLASTING], 3))
def test_at_the_timeout_the_command_and_all_it_started_are_killed(command, run, somebody_lives):
    result = run("exec", {"exec_timeout": 0.5}, command=f"{HOLD}{command}")
    assert result.value.endswith("[timed out after 0.5 s, and was killed]")
    assert not somebody_lives()


def test_what_a_command_showed_before_the_timeout_is_kept(run):
    def run_into(factor):
        timeout = 0.5 * factor
        shown = run("exec", {"exec_timeout": timeout}, command="echo begun; sleep 3600").value
        assert shown == f"begun\n[timed out after {timeout:g} s, and was killed]"

    try_clocks(run_into)


LEFT = [
    ("holding the pipe", "sleep 60 & echo done", "done\n[exit code 0" + ENDED),
    ("with its output elsewhere", "sleep 60 >/dev/null 2>&1 & echo done", "done\n[exit code 0" + ENDED),
    ("out of sight", "(sleep 60 &); echo done; exit 4", "done\n[exit code 4" + ENDED),
    ("against hangups", "nohup sleep 60 >/dev/null 2>&1 & echo done", "done\n[exit code 0" + ENDED),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("command", "shown"), sample([row[1:] for row in LEFT], 2, 1))
def test_background_processes_of_a_command_are_ended_and_reported(command, shown, run, somebody_lives):
    assert run("exec", command=HOLD + command).value == shown
    assert not somebody_lives()


def test_a_background_process_that_has_ended_is_not_reported(run):
    assert run("exec", command=f"{ONE_HAS_ENDED}; echo done").value == "done\n[exit code 0]"


def test_one_that_made_itself_a_new_session_is_ended_too(run, workspace, somebody_lives):
    assert run("exec", command=HOLD + "setsid sleep 60 & echo done").value == "done\n[exit code 0" + ENDED
    assert not somebody_lives()


def test_what_is_still_on_its_way_when_the_shell_ends_is_shown(run, monkeypatch):
    for module in (run_module, supervisor):
        monkeypatch.setattr(module, "LINGER_S", PATIENCE_S)
    assert run("exec", command="(sleep 0.05; echo late) & echo soon").value.startswith("soon\nlate\n[exit code 0")


HEARD = "head -c 300000 /dev/zero; "  # more than a pipe holds: when this has ended, somebody is reading
CTRL_C = f"kill -INT {os.getpid()}; "
INTERRUPTED = {
    "the shell": f"{HEARD}{CTRL_C}sleep 60",
    "a child": f"{HEARD}sleep 60 & {CTRL_C}sleep 60",
    "while it prints": f"yes & {HEARD}{CTRL_C}wait",
    "with its output closed": f"{HEARD}exec >&- 2>&-; {CTRL_C}sleep 60",
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", sample([*INTERRUPTED], 2, 1))
def test_ctrl_c_kills_all_of_it_and_passes_on(name, run, somebody_lives):
    with heeding_ctrl_c(), pytest.raises(KeyboardInterrupt):
        run("exec", command=HOLD + INTERRUPTED[name])
    assert not somebody_lives()


def test_a_second_ctrl_c_waits_until_all_of_it_is_killed(run, somebody_lives):
    """It sends the second when it is asked to end."""
    with heeding_ctrl_c(), pytest.raises(KeyboardInterrupt):
        run("exec", command=f"{HOLD}trap '{CTRL_C}' TERM; {HEARD}{CTRL_C}while :; do sleep 60; done")
    assert not somebody_lives()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("seconds", "number"),
    take_turns(
        sample([0.0001, 0.0005, 0.001, 0.002, 0.003, 0.005], 2),
        [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT],
    ),
)
def test_an_interrupt_while_the_command_is_started_leaves_nothing(seconds, number, run, somebody_lives):
    run("exec", command="true")  # an interrupted import would leave a file open
    with pytest.raises(KeyboardInterrupt), interrupt_after(seconds, number):
        run("exec", {"exec_timeout": 5}, command=HOLD + "sleep 60")
    assert not somebody_lives()


def test_a_command_runs_in_any_thread(run):
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(run, "exec", command="echo hi").result().value == "hi\n[exit code 0]"


@contextmanager
def heeding_ctrl_c() -> Iterator[None]:
    """A shell that starts the tests in its background has them ignore it; so does a callback of the collector."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupt_after(seconds: float, number: signal.Signals) -> Iterator[None]:
    """Send a signal that raises KeyboardInterrupt to this thread."""
    before = signal.signal(number, signal.default_int_handler)
    timer = Timer(seconds, signal.pthread_kill, (get_ident(), number))
    with heeding_ctrl_c():
        timer.start()
        try:
            yield
        finally:
            timer.join()
            signal.signal(number, before)


# The user's own commands


@pytest.fixture
def live(workspace: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    def run(command: str, grace_s: float = 60) -> tuple[int, str]:
        pieces: list[bytes] = []
        code = run_live(["/bin/sh", "-c", command], workspace, os.environ, pieces.append, grace_s)
        return code, b"".join(pieces).decode()

    with heeding_ctrl_c():
        yield run


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("echo out; echo err >&2; exit 3", 3, "out\nerr\n"),
        ("pwd -P", 0, "{workspace}\n"),
        ("kill -KILL $$", -signal.SIGKILL, ""),
        ("exec >&- 2>&-; exit 7", 7, ""),
        ("(sleep 0.4; echo late) & echo soon", 0, "soon\nlate\n"),
    ],
)
def test_a_live_command_gives_its_output_and_its_code(command, code, output, live, workspace):
    assert live(command) == (code, output.format(workspace=workspace.resolve()))


def test_live_output_comes_while_the_command_runs(workspace):
    """It ends only once the first piece has come."""
    (workspace / "go").touch()
    command = ["/bin/sh", "-c", "echo begun; while [ -e go ]; do sleep 0.01; done; echo ended"]
    pieces: list[bytes] = []

    def take(data: bytes) -> None:
        pieces.append(data)
        (workspace / "go").unlink(missing_ok=True)

    assert run_live(command, workspace, os.environ, take) == 0
    assert pieces == [b"begun\n", b"ended\n"]


def test_a_live_command_reads_the_programs_stdin(live):
    typed, keyboard = os.pipe()
    os.write(keyboard, b"typed\n")
    os.close(keyboard)
    before = os.dup(0)
    os.dup2(typed, 0)
    try:
        assert live("cat") == (0, "typed\n")
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(typed)


def test_ctrl_c_interrupts_a_live_command_which_may_still_say_something(live, somebody_lives):
    code, output = live(f"{HOLD}trap 'echo stopped; exit 5' INT; {CTRL_C}kill -INT $$; while :; do sleep 0.01; done")
    assert (code, output) == (5, "stopped\n")
    assert not somebody_lives()


IGNORING = {
    "alone": "trap '' INT TERM; " + CTRL_C + "while :; do sleep 1; done",
    "with its output closed": "trap '' INT TERM; exec >&- 2>&-; " + CTRL_C + "while :; do sleep 1; done",
    "in a child": "(trap '' INT; exec sleep 60) & " + CTRL_C + "wait",
    "after its shell": "(trap '' INT; exec sleep 60) & " + CTRL_C + "kill -INT $$; wait",
    "while it prints": "trap '' INT TERM; " + CTRL_C + "yes",
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", sample([*IGNORING], 2))
def test_a_live_command_that_ignores_ctrl_c_is_killed(name, live, somebody_lives):
    code, _ = live(HOLD + IGNORING[name], grace_s=0.2)
    assert code < 0
    assert not somebody_lives()


def test_a_second_ctrl_c_ends_the_grace(workspace, somebody_lives):
    """Without that the test would take an hour."""
    command = ["/bin/sh", "-c", f"{HOLD}trap '' INT; while :; do echo; sleep 0.01; done"]
    with heeding_ctrl_c():
        code = run_live(command, workspace, os.environ, lambda _: signal.raise_signal(signal.SIGINT), 3600)
    assert code == -signal.SIGKILL
    assert not somebody_lives()


def test_a_live_command_whose_output_cannot_be_shown_is_ended(workspace, somebody_lives):
    def fail(_: bytes) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_live(["/bin/sh", "-c", f"{HOLD}echo hi; sleep 60"], workspace, os.environ, fail)
    assert not somebody_lives()


def test_a_live_command_that_cannot_be_started_is_an_error(workspace):
    with pytest.raises(ToolError, match="could not be started"):
        run_live(["/dev/null/none"], workspace, os.environ, bytes)


@pytest.mark.parametrize(
    ("code", "words"), [(0, "exit code 0"), (-9, "killed by SIGKILL"), (-99, "killed by signal 99")]
)
def test_a_code_is_described(code, words):
    assert describe_exit(code) == words


# Signals that wait while a process is started and ended


@pytest.fixture
def received():
    """The signals whose handlers ran; each handler raises KeyboardInterrupt."""
    numbers = []

    def handle(number, _):
        numbers.append(number)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    yield numbers
    for each, handler in before.items():
        signal.signal(each, handler)


def test_a_signal_is_held_until_the_end_of_the_block(received):
    with pytest.raises(KeyboardInterrupt), HeldInterrupts():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert received == []
    assert received == [signal.SIGTERM]


def test_one_that_came_before_is_raised_where_signals_are_allowed(received):
    with HeldInterrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt), interrupts.allowed():
            pytest.fail("it was not raised")
    assert received == [signal.SIGTERM]


def test_after_the_first_that_is_allowed_the_next_ones_are_held_while_it_is_handled(received):
    with pytest.raises(KeyboardInterrupt), HeldInterrupts() as interrupts, interrupts.allowed():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)
            assert received == [signal.SIGTERM]
    assert received == [signal.SIGTERM, signal.SIGINT]


def test_a_ctrl_c_at_the_end_of_the_block_leaves_no_other_signal_held(received, monkeypatch):
    def interrupt_behind(number, handler, set_handler=signal.signal):
        set_handler(number, handler)
        if number == signal.SIGINT:
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt), HeldInterrupts():
        monkeypatch.setattr(signal, "signal", interrupt_behind)
    monkeypatch.undo()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert received == [signal.SIGINT, signal.SIGTERM]


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with HeldInterrupts() as interrupts, interrupts.allowed():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_it_does_nothing(received):
    def enter():
        with HeldInterrupts() as interrupts, interrupts.allowed():
            return True

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(enter).result()
    assert received == []


# Long output


def test_long_output_keeps_its_head_and_its_tail(run):
    shown = run("exec", {"exec_max_output": 20}, command="seq 1 1000").value
    assert shown == "1\n2\n3\n4\n5\n\n[... 3,873 characters cut out of the middle ...]\n\n999\n1000\n[exit code 0]"


def test_two_hundred_megabytes_pass_in_bounded_memory(run):
    shown = run("exec", {"exec_timeout": 60}, command="head -c 200000000 /dev/zero").value
    assert len(shown) < 31_000
    assert "[... 199,970,000 characters cut out of the middle ...]" in shown
