"""The command line: options in, exit code out. Only argparse is loaded up front."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType

from .. import __version__

TYPE_CHECKING = False  # `typing` takes as long to load as all of this
if TYPE_CHECKING:
    from typing import NoReturn

EXIT_INTERRUPTED = 130
EXIT_SIGNAL = 128  # and the signal's number, as a shell counts: SIGHUP 129, SIGTERM 143
LARGEST = 1e9  # number that an option takes
LONGEST_ERROR = 2000  # characters: a server may send a whole page

EPILOG = """\
exit codes: 0 answered, 1 error, 2 bad usage or configuration, 3 limit reached, 4 no server reached,
  5 a call was denied, 130 interrupted, 129 hung up, 143 terminated
environment: VLLM_BASE_URL, VLLM_MODEL, VLLM_API_KEY override the file; DEBUG=1 traces calls, DEBUG=2 bodies too
"""

# Name and description. The module of the same name in this folder is loaded only when the command is given. It has
# arguments(parser), which adds the command's own options, and run(given), which returns the exit code.
COMMANDS = {
    "doctor": "check the setup: what works, what does not, and what to do about it",
    "models": "list the models the server serves",
    "tools": "print the tool definitions sent to the model, as JSON",
    "config": "show the settings in force and where each comes from",
    "policy": "read tool calls from standard input and say whether they would be allowed",
    "sessions": "list, search, show, export or delete past conversations",
}


class Options(argparse.ArgumentParser):
    """Says in two lines what is wrong, and what was probably meant."""

    words: Sequence[str] = ()  # what is parsed

    def error(self, message: str) -> NoReturn:
        import re  # only for a mistake

        known = re.findall("--[a-z-]+", self.format_help())
        if wrong := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            what = message.partition(":")[0].removeprefix("argument ")
            kind = f"{what.lower()} {wrong[1]}" if what.isupper() else f"{what} {wrong[1]}"
            names = re.findall("[a-z-]+", wrong[2])
            message = f"there is no {kind}{_nearest(wrong[1], names) or '; choose one of ' + ', '.join(names)}"
            if what == "COMMAND":  # it may be the value of an option that is none
                options = [word.partition("=")[0] for word in self.words if word.startswith("--")]
                unknown = [word for word in options if not any(each.startswith(word) for each in known)]
                message = f"unrecognized arguments: {unknown[0]}" if unknown else message
        if wrong := re.match("unrecognized arguments: (--[^ =]+)", message):
            message = f"there is no option {wrong[1]}{_nearest(wrong[1], known)}"
        ask = "" if " " in self.prog else "; -p TEXT asks one question"
        self.exit(2, f"{self.prog}: {message}.\n`{self.prog} --help` says what there is{ask}.\n")


def _nearest(wrong: str, names: list[str]) -> str:
    import difflib

    words = {each.lstrip("-"): each for each in names}
    near = difflib.get_close_matches(wrong.lstrip("-"), words, n=1)
    return f"; the nearest is {words[near[0]]}" if near else ""


def parser(commands: tuple[str, ...] = ()) -> Options:
    """`commands`: the commands whose own options are added as well, which loads their modules."""
    options = Options(
        prog="vllm-bot",
        description="Chat with a model on a vLLM server that can read and edit your files and run commands.",
        epilog=EPILOG,
        formatter_class=_formatter,
    )
    add = options.add_argument
    add(
        "-p",
        "--prompt",
        metavar="TEXT",
        help="answer one question and exit; piped input is added as material",
    )
    add("-y", "--yes", action="store_true", help="run write, edit and exec without asking first")
    add(
        "--output", choices=("text", "json", "stream-json"), help="output format for one question (see docs/scripts.md)"
    )
    add("--max-turns", metavar="N", type=number(int, 1), help="turns with tool calls before the model must answer")
    add("--max-tokens", metavar="N", type=number(int, 1), help="total tokens the model may write for one question")
    add("--timeout", metavar="SECONDS", type=number(float, 0.01), help="total time for one question")
    add(
        "--resume",
        metavar="SESSION",
        nargs="?",
        const="",
        help="continue a session by name or id; default: the last one in this folder (see docs/sessions.md)",
    )
    _add_common(options, None)
    add("--relearn", action="store_true", help="forget what was learned about servers and find it out again")
    add("--plain", action="store_true", help="plain output: no colours, nothing redrawn")
    add("--trace", metavar="FILE", help="append every event to FILE, one JSON object per line (see docs/tracing.md)")
    add("--demo", action="store_true", help="try it without a server: a scripted model, in a temporary folder")
    add("--version", action="version", version=f"vllm-bot {__version__}")
    rows = options.add_subparsers(dest="command", metavar="COMMAND", title="commands (COMMAND --help says more)")
    for name, about in COMMANDS.items():
        row = rows.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}.", formatter_class=_formatter
        )
        if name in commands:
            _add_common(row, argparse.SUPPRESS)  # given before or after the command's name
            _module(name).arguments(row)
    return options


def _formatter(prog: str) -> argparse.HelpFormatter:
    """As wide as argparse's own, which would load shutil and its archive modules to find the width."""
    try:
        columns = max(int(os.environ.get("COLUMNS", "")), 0)
    except ValueError:
        columns = 0
    if not columns:
        with suppress(AttributeError, ValueError, OSError):  # standard output is closed, or no terminal
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
    return argparse.RawDescriptionHelpFormatter(prog, width=(columns or 80) - 2)


def _add_common(options: argparse.ArgumentParser, default: str | None) -> None:
    """The options that the chat and every command share."""
    add = options.add_argument
    add(
        "-c",
        "--config",
        metavar="FILE",
        default=default,
        help="settings file, .json, .yaml or .yml (default: see docs/configuration.md)",
    )
    add("-u", "--base-url", metavar="URL", default=default, help="address of the server, e.g. http://localhost:8000/v1")
    add("-m", "--model", metavar="NAME", default=default, help="name of the model (default: the one the server serves)")
    add(
        "-w",
        "--workspace",
        metavar="DIR",
        default=default,
        help="the folder the tools work in (default: the current one)",
    )
    add(
        "--profile",
        choices=("read-only", "ask", "workspace", "full"),
        default=default,
        help="what may run when no rule applies (default: ask; see docs/security.md)",
    )
    add(
        "--allow",
        metavar="RULE",
        action="append",
        default=default,
        help="allow without asking: TOOL, exec:COMMAND or TOOL:PATH, e.g. `exec:git status`; may be repeated",
    )
    add(
        "--no-function-calling",
        action="store_true",
        default=default or False,
        help="do not send tools to the server; read calls from the model's text",
    )


def number(kind: Callable[[str], float], least: float) -> Callable[[str], float]:
    """What an option takes that is a number."""

    def read(text: str) -> float:
        with suppress(ValueError):
            if least <= (value := kind(text)) < LARGEST:
                return value
        name = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"expected {name}, {least:g} or more, got {text!r}")

    return read


def _module(name: str) -> ModuleType:
    from importlib import import_module

    return import_module(f".commands.{name}", __package__)


def main(arguments: list[str] | None = None, sleep: Callable[[float], None] = time.sleep) -> int:
    """`sleep` waits between attempts to reach the server."""
    words = sys.argv[1:] if arguments is None else arguments
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could come next; this does not return
        import argcomplete

        argcomplete.autocomplete(parser(tuple(COMMANDS)))
    options = parser(tuple(name for name in COMMANDS if name in words))
    options.words = words
    given = options.parse_args(words)
    # Loaded here so that --help and --version do not load it.
    from ..config import debug_level
    from ..errors import BotError, in_words
    from ..security.text.sanitize import sanitize
    from .oneshot.run import run

    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # input and models may contain anything
    debug = debug_level(os.environ)
    try:
        with leaving_on_signals():
            if given.command:
                return int(_module(given.command).run(given))
            return run(given, debug, sleep)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output is gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - the top of the terminal: one line, a traceback only under DEBUG
        if debug:
            import traceback

            traceback.print_exc()
        print(f"vllm-bot: {sanitize(in_words(error)[:LONGEST_ERROR])}", file=sys.stderr)
        return error.exit_code if isinstance(error, BotError) else 1


@contextmanager
def leaving_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit, so that started processes are ended and the session is saved."""
    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def leave(number: int, _: object) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)  # ignore repeats while cleaning up
        raise SystemExit(EXIT_SIGNAL + number)

    signals = [each for each in signals if signal.getsignal(each) != signal.SIG_IGN]  # leave nohup alone
    before = {each: signal.signal(each, leave) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
