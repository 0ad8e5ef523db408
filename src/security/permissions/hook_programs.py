"""The user's own programs that hear of calls: before one, after one, and at the end of a turn.

A hook gets a JSON object on standard input. Before a call it may deny it or have it ask, and never allow it: what a
policy refuses or asks about stays so. A program that exits with code 0 and prints nothing has nothing to say; one that
exits with 2 denies, for the reason on its standard error. A hook before a call that fails in another way has the call
ask: a guard that is broken lets nothing pass unseen.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import which
from tempfile import TemporaryFile
from threading import Thread
from typing import Any

from msgspec import Struct

from ...errors import ConfigError
from ...types.messages import JSON, ToolCall, ToolResult
from ...types.strict_json import loads_strict
from .hooks import HookEvent, HookReport, HookVerdict
from .rules import check_faults

KEYS = ("command", "tools", "timeout")
TIMEOUT_S = 60.0
MAX_TIMEOUT_S = 3600.0
EXIT_DENIED = 2  # as of Claude Code's hooks
MAX_OUTPUT_BYTES = 64_000
MAX_REASON_CHARS = 2_000
DECISIONS = ("deny", "ask")
ANSWER_KEYS = ("decision", "reason", "note")  # the last one is for after a call


class Hook(Struct, frozen=True):
    """A row of `hooks`. `tools` are patterns of names; of `turn_end` there are none."""

    command: tuple[str, ...]
    tools: tuple[str, ...] = ("*",)
    timeout: float = TIMEOUT_S

    @property
    def name(self) -> str:
        """The last part of its program, or of the script behind it."""
        script = next((word for word in self.command[1:] if "/" in word), self.command[0])
        return Path(script).name


class HookFailed(Exception):
    """A hook gave no valid answer; the message says why."""


def parse_hooks(rows: Mapping[HookEvent, Sequence[Mapping[str, Any]]]) -> dict[HookEvent, tuple[Hook, ...]]:
    """Raises ConfigError, which names the invalid row."""
    return {
        event: tuple(_parse_hook(f"hooks.{event}[{number}]", event, row) for number, row in enumerate(listed))
        for event, listed in rows.items()
    }


def _parse_hook(place: str, event: HookEvent, row: Mapping[str, Any]) -> Hook:
    check_faults(place, _list_faults(event, row))
    words, tools, timeout = row["command"], row.get("tools", ("*",)), row.get("timeout", TIMEOUT_S)
    if isinstance(words, str):
        words = [words]
    program = which(words[0])
    if not program:
        raise ConfigError(
            f"{place}: there is no program {words[0]!r}",
            f"Write its arguments apart: {json.dumps(words[0].split())}" if " " in words[0] else "",
        )
    return Hook((program, *words[1:]), tuple(tools), float(timeout))


def _list_faults(event: HookEvent, row: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    for key in row:
        is_unknown = key not in KEYS or (key == "tools" and event == "turn_end")
        yield is_unknown, f"there is no key {key!r}; a hook has {', '.join(KEYS)}"
    command, tools, timeout = row.get("command"), row.get("tools", ["*"]), row.get("timeout", TIMEOUT_S)
    is_command = bool(command) and (isinstance(command, str) or _is_list_of_words(command))
    yield not is_command, "command is a program, or a list of it and its arguments"
    is_list = _is_list_of_words(tools)
    yield not is_list, 'tools is a list of names, such as ["exec", "write"]; leave it out for all'
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    in_bounds = is_number and 0 < timeout <= MAX_TIMEOUT_S
    yield not in_bounds, f"timeout is a number of seconds, at most {MAX_TIMEOUT_S:g}"


def _is_list_of_words(value: object) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(word, str) and word for word in value)


class HookPrograms:
    """`environment` is that of the programs, which run in the workspace. `get_session` gives the session's id."""

    def __init__(
        self,
        hooks: Mapping[HookEvent, Sequence[Hook]],
        workspace: Path,
        environment: Mapping[str, str],
        get_session: Callable[[], str] = str,
    ) -> None:
        self._hooks = hooks
        self._workspace = workspace
        self._environment = environment
        self._get_session = get_session
        self._running: set[subprocess.Popen[bytes]] = set()

    def find(self, event: HookEvent, tool: str = "") -> list[Hook]:
        """Those that hear of this event, for a call of this tool."""
        return [
            hook
            for hook in self._hooks.get(event, ())
            if not tool or any(fnmatchcase(tool, pattern) for pattern in hook.tools)
        ]

    def judge(self, call: ToolCall, mode: str) -> Future[HookVerdict]:
        """What the hooks say to a call before it runs. One that denies is the last that is asked."""
        about = self._describe("before_call", mode) | _describe_call(call)

        def work() -> HookVerdict:
            verdict = HookVerdict()
            for hook in self.find("before_call", call.name):
                new = self._ask(hook, about)
                if new.action == "deny":
                    return new
                if not verdict.action:
                    verdict = new
            return verdict

        return _start(work)

    def tell_result(self, call: ToolCall, result: ToolResult, mode: str) -> Future[HookReport]:
        """What the hooks add to the result of a call that ran."""
        about = self._describe("after_call", mode) | _describe_call(call)
        about |= {"result": result.text, "failed": result.kind == "error"}
        return _start(lambda: self._tell(self.find("after_call", call.name), about))

    def tell_end(self, answer: str, mode: str) -> Future[HookReport]:
        """What the hooks say at the end of a turn that was not interrupted."""
        about = self._describe("turn_end", mode) | {"answer": answer}
        return _start(lambda: self._tell(self.find("turn_end"), about))

    def end(self) -> None:
        """End the programs that run, whose results are no longer needed."""
        for process in list(self._running):
            _kill(process)

    def _describe(self, event: HookEvent, mode: str) -> dict[str, JSON]:
        return {"event": event, "session": self._get_session(), "workspace": str(self._workspace), "mode": mode}

    def _ask(self, hook: Hook, about: Mapping[str, JSON]) -> HookVerdict:
        try:
            output = self._run(hook, about)
            if output.is_denied:
                return HookVerdict("deny", f"hook {hook.name}: {output.reason}")
            decision = output.read()
            if unknown := [key for key in decision if key not in ANSWER_KEYS]:  # such as a misspelled decision
                raise HookFailed(f"it printed the key {unknown[0][:80]!r}, and there are {', '.join(ANSWER_KEYS)}")
            if "decision" not in decision:
                return HookVerdict()
            if decision["decision"] not in DECISIONS:
                raise HookFailed(f"its decision is {decision['decision']!r}, and there are deny and ask")
            reason = str(decision.get("reason") or "it gave no reason")[:MAX_REASON_CHARS]
            return HookVerdict(decision["decision"], f"hook {hook.name}: {reason}")
        except HookFailed as error:
            return HookVerdict("ask", f"hook {hook.name} failed: {error}")

    def _tell(self, hooks: Sequence[Hook], about: Mapping[str, JSON]) -> HookReport:
        notes, failures = [], []
        for hook in hooks:
            try:
                output = self._run(hook, about)
                note = output.reason if output.is_denied else output.read().get("note", "")
                if note:
                    notes.append(f"hook {hook.name}: {str(note)[:MAX_REASON_CHARS]}")
            except HookFailed as error:
                failures.append(f"The hook {hook.name} failed: {error}.")
        return HookReport(tuple(notes), tuple(failures))

    def _run(self, hook: Hook, about: Mapping[str, JSON]) -> _Output:
        """Raises HookFailed."""
        with TemporaryFile() as stdin, TemporaryFile() as out, TemporaryFile() as err:  # pipes may fill, or stay open
            stdin.write(json.dumps(about).encode())
            stdin.seek(0)
            try:
                process = subprocess.Popen(  # noqa: S603 - the user's own program, and no shell reads the words
                    hook.command,
                    cwd=self._workspace,
                    env=self._environment,
                    stdin=stdin,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise HookFailed(f"it cannot be started: {getattr(error, 'strerror', None) or error}") from error
            self._running.add(process)
            try:
                code = process.wait(hook.timeout)
            except subprocess.TimeoutExpired:
                _kill(process)
                raise HookFailed(f"it took longer than {hook.timeout:g} seconds") from None
            finally:
                self._running.discard(process)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read(MAX_OUTPUT_BYTES).decode(errors="replace").strip())
        output = _Output(code, *texts)
        if code not in (0, EXIT_DENIED):
            raise HookFailed(output.describe_failure())
        return output


class _Output(Struct, frozen=True):
    """How a program ended, and what it printed on standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def is_denied(self) -> bool:
        return self.code == EXIT_DENIED

    @property
    def reason(self) -> str:
        return self.err[:MAX_REASON_CHARS] or f"exit code {EXIT_DENIED}"

    def read(self) -> dict[str, Any]:
        """The object that it printed; empty if it printed nothing. Raises HookFailed."""
        if not self.out:
            return {}
        try:
            value = loads_strict(self.out)
        except (ValueError, RecursionError) as error:
            raise HookFailed(f"it printed no JSON: {self.out[:80]!r}") from error
        if not isinstance(value, dict):
            raise HookFailed("it printed JSON that is no object")
        return value

    def describe_failure(self) -> str:
        ended = f"exit code {self.code}" if self.code > 0 else f"ended by signal {-self.code}"
        last = [line[:MAX_REASON_CHARS] for line in self.err.splitlines()[-1:]]
        return ": ".join([ended, *last])


def _describe_call(call: ToolCall) -> dict[str, JSON]:
    return {"tool": call.name, "arguments": dict(call.arguments)}


def _start(work: Callable[[], Any]) -> Future[Any]:
    """The result of work in a thread of its own, which does not keep this process from ending."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the future raises it
            future.set_exception(error)

    Thread(target=run, name="hook", daemon=True).start()
    return future


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End it with what it started in its session."""
    if process.poll() is None:  # else its id may belong to another process
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
