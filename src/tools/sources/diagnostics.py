"""What the project's own checkers say of files that the model has changed: errors of those files only.

A checker is run where the project is configured for it, as a command with access=read: it runs code of the workspace.
All checkers of one round have MAX_S together, and one that did not end in time is not run again. What one reported of
a file is not told again before it changes; one that was not run, or did not end, changes nothing of that.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ...errors import ToolError
from ...types.file_names import escape_name
from ...types.messages import CHECKS_LEAD
from ..builtin.shell import SHELL
from ..sdk.context import ToolContext

MAX_S = 10.0
MAX_TOLD = 10  # errors in a note
MAX_ERROR_CHARS = 200
MAX_OUTPUT_CHARS = 200_000
MAX_CONFIG_BYTES = 100_000
PROGRAM_FOLDERS = ("node_modules/.bin", ".venv/bin", "venv/bin")
_NUMBER = re.compile(r"\d+")

Checks = Generator[str, bool, str]  # yields command lines, and is sent whether each may run with access=read; the note
Found = dict[Path, dict[str, list[str]]]  # errors by file and checker
Error = tuple[str, str]  # the path that the checker names, and its place with what is wrong
ReadErrors = Callable[[str], Iterable[Error]]


class Checker(Struct, frozen=True):
    """`configs`: files of a project that is checked by it, some only where they hold a text: `NAME:TEXT`.

    `words`: its command; the paths of the changed files follow if it `takes_files`.
    """

    name: str
    suffixes: tuple[str, ...]
    configs: tuple[str, ...]
    words: tuple[str, ...]
    read_errors: ReadErrors
    takes_files: bool = True


def _read_lines(pattern: str) -> ReadErrors:
    """A reader of output with a line for each error; `pattern` finds the path, the place and the rest."""
    regex = re.compile(pattern, re.MULTILINE)
    return lambda output: (
        (path, f"{place.replace(',', ':')}: {error}") for path, place, error in regex.findall(output)
    )


def _read_eslint(output: str) -> Iterator[Error]:
    start = output.find("[{")
    # what is no report tells of no errors
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        files, _ = json.JSONDecoder().raw_decode(output, max(start, 0))
        for file in files:
            for message in file["messages"]:
                rule = f" ({message['ruleId']})" if message.get("ruleId") else ""
                yield (
                    str(file["filePath"]),
                    f"{message.get('line', 1)}:{message.get('column', 1)}: {message['message']}{rule}",
                )


PYTHON = (".py", ".pyi")
TYPESCRIPT = (".ts", ".tsx", ".mts", ".cts")
ESLINT_CONFIGS = tuple(f"eslint.config.{end}" for end in ("js", "mjs", "cjs", "ts", "mts", "cts")) + tuple(
    f".eslintrc{end}" for end in ("", ".js", ".cjs", ".json", ".yml", ".yaml")
)
CHECKERS = (
    Checker(
        "ruff",
        PYTHON,
        ("ruff.toml", ".ruff.toml", "pyproject.toml:[tool.ruff"),
        ("ruff", "check", "--quiet", "--no-fix", "--force-exclude", "--output-format=concise", "--"),
        _read_lines(r"^(.+?):(\d+:\d+): (.*)"),
    ),
    Checker(
        "mypy",
        PYTHON,
        ("mypy.ini", ".mypy.ini", "pyproject.toml:[tool.mypy", "setup.cfg:[mypy"),
        ("mypy", "--no-error-summary", "--no-pretty", "--no-color-output", "--show-column-numbers", "--"),
        _read_lines(r"^(.+?):(\d+(?::\d+)?): (error: .*)"),
    ),
    Checker(
        "eslint",
        (".js", ".jsx", ".mjs", ".cjs", *TYPESCRIPT),
        (*ESLINT_CONFIGS, 'package.json:"eslintConfig"'),
        ("eslint", "--quiet", "--format=json", "--"),
        _read_eslint,
    ),
    Checker(
        "tsc",
        TYPESCRIPT,
        ("tsconfig.json",),
        ("tsc", "--noEmit", "--pretty", "false"),
        _read_lines(r"^(.+?)\((\d+,\d+)\): (error .*)"),
        takes_files=False,
    ),
    Checker(
        "cargo",
        (".rs",),
        ("Cargo.toml",),
        ("cargo", "check", "--quiet", "--offline", "--message-format=short"),
        _read_lines(r"^(.+?):(\d+:\d+): (error.*)"),
        takes_files=False,
    ),
)


class Diagnostics:
    """The checkers of one workspace, and what was told of its files."""

    def __init__(self, checkers: Sequence[Checker] = CHECKERS, max_s: float = MAX_S) -> None:
        self._checkers = checkers
        self.max_s = max_s  # seconds for all checkers of a round
        self._slow: set[tuple[str, Path]] = set()  # checkers that did not end in time, and where
        self._told: dict[tuple[Path, str], set[str]] = {}  # errors of a file by a checker, without numbers

    def check(self, files: Iterable[str], ctx: ToolContext) -> Checks:
        """A note on errors in these files, relative to the workspace; "" if there are none that are new.

        The files of added folders, with whole paths, are not checked: the user trusts the workspace alone.
        """
        root, left = ctx.workspace, self.max_s
        changed = {(root / name).resolve() for name in files if not name.startswith("/")}
        errors: Found = {file: {} for file in sorted(changed) if file.is_file()}
        for checker, folder, theirs, line in self._list_checks(errors, ctx):
            if not (yield line):
                continue
            started = time.monotonic()  # the wait for an answer does not count
            try:
                output = _run(line, ctx, left)
            except TimeoutError:
                self._slow.add((checker.name, folder))
                continue
            except ToolError:  # it had no time or cannot be started, or the user has stopped the answer
                continue
            finally:
                left -= time.monotonic() - started
            _add_errors(errors, checker, folder, theirs, output)
        return _describe([(file.relative_to(root), error) for file, error in self._select_new(errors)])

    def _list_checks(
        self, files: Iterable[Path], ctx: ToolContext
    ) -> Iterator[tuple[Checker, Path, Sequence[Path], str]]:
        """Each checker that is installed, with a project, its files and a command, but for those that were slow."""
        for checker in self._checkers:
            projects: dict[Path, list[Path]] = {}  # its files by the nearest folder that is configured for it
            for file in files:
                if file.suffix in checker.suffixes and (project := _find_project(checker, file, ctx.workspace)):
                    projects.setdefault(project, []).append(file)
            for folder, theirs in projects.items():
                line = _make_line(checker, folder, theirs, ctx)
                if line and (checker.name, folder) not in self._slow:
                    yield checker, folder, theirs, line

    def _select_new(self, found: Found) -> list[tuple[Path, str]]:
        new = []
        for file, by_checker in found.items():
            for checker, errors in by_checker.items():
                before = self._told.get((file, checker), set())
                self._told[file, checker] = {_NUMBER.sub("", error) for error in errors}
                new += [(file, error) for error in errors if _NUMBER.sub("", error) not in before]
        return new


def _add_errors(found: Found, checker: Checker, folder: Path, files: Iterable[Path], output: str) -> None:
    for file in files:
        found[file].setdefault(checker.name, [])
    for path, error in checker.read_errors(output):
        if (file := _resolve(folder, path)) in found:
            words = " ".join(error.splitlines())
            found[file].setdefault(checker.name, []).append(f"{words[:MAX_ERROR_CHARS]} [{checker.name}]")


def _resolve(folder: Path, path: str) -> Path:
    """The file of that name; the folder for what can be none, since a checker may print anything."""
    try:
        return (folder / path).resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, a NUL, a lone surrogate
        return folder


def _run(line: str, ctx: ToolContext, left: float) -> str:
    """What the command prints. Raises TimeoutError if it does not end in time, ToolError if it cannot be run."""
    from ..process.run import run  # start-up is measured

    if left <= 0:
        raise ToolError("the checkers before it took all the time")
    limits = ctx.rewire(
        exec_timeout=left,
        exec_max_output=MAX_OUTPUT_CHARS,
        outputs=None,
        chat_jobs=None,
        on_output=lambda *_: None,
    )
    done = run([SHELL, "-c", "--", line], limits, "read")
    if done.exit_code is None:
        raise TimeoutError
    return done.text


def _find_project(checker: Checker, file: Path, root: Path) -> Path | None:
    for folder in file.parents:
        if not folder.is_relative_to(root):
            return None
        if any(_has_config(folder, config) for config in checker.configs):
            return folder
    return None


def _has_config(folder: Path, config: str) -> bool:
    name, _, text = config.partition(":")
    try:
        if not text:
            return (folder / name).is_file()
        with (folder / name).open("rb") as file:
            return text.encode() in file.read(MAX_CONFIG_BYTES)
    except OSError:
        return False


def _make_line(checker: Checker, folder: Path, files: Sequence[Path], ctx: ToolContext) -> str:
    """The command line that checks files of a project; "" if the checker is not installed."""
    name, *options = checker.words
    if not (program := _find_program(name, folder, ctx)):
        return ""
    words = [program, *options]
    if checker.takes_files:
        words += [str(file.relative_to(folder)) for file in files]
    line = shlex.join(words)
    if folder != ctx.workspace:
        line = f"cd {shlex.quote(str(folder))} && {line}"
    return line


def _find_program(name: str, folder: Path, ctx: ToolContext) -> str:
    """The project's own program, else the one on the PATH of commands."""
    for place in (folder, *folder.parents):
        if not place.is_relative_to(ctx.workspace):
            break
        for programs in PROGRAM_FOLDERS:
            if shutil.which(str(place / programs / name)):
                return str(place / programs / name)
    return name if shutil.which(name, path=ctx.environment.get("PATH", "")) else ""


def _describe(errors: Sequence[tuple[Path, str]]) -> str:
    """A note for the model, which says that the change itself was made."""
    if not errors:
        return ""
    lines = [f"{escape_name(file)}:{error}" for file, error in errors[:MAX_TOLD]]
    if len(errors) > MAX_TOLD:
        lines.append(f"and {len(errors) - MAX_TOLD:,} more")
    return "\n".join([CHECKS_LEAD, *lines])
