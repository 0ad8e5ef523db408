"""The command line: options in, exit code out. Only argparse is loaded up front."""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType

from .. import __version__
from .arguments import ArgumentParser, CommandParser, add_common, is_near, make_formatter, parse_number

RESEND_S = 0.01  # until a signal whose exit was dropped is sent again
EXIT_SIGNAL = 128  # and the signal's number, as a shell counts: SIGHUP 129, SIGTERM 143
MAX_ERROR_CHARS = 2000  # a server may send a whole page
# Objects made between two garbage collections. Python's 700 make start-up a fifth longer: imports leave no garbage.
GC_THRESHOLD_OBJECTS = 100_000

EPILOG = """\
exit codes: 0 answered, 1 error, 2 bad usage or configuration, 3 limit reached, 4 no server reached,
  5 a call was denied, 130 interrupted, 129 hung up, 143 terminated
environment: VLLM_BASE_URL, VLLM_MODEL, VLLM_API_KEY override the file; DEBUG=1 traces calls, DEBUG=2 bodies too
"""

# Name and description. The command's module is loaded only when the command is given. It has run_NAME(options), which
# returns the exit code, and may have add_NAME_options(parser), which adds the command's own options.
COMMANDS = {
    "doctor": "check the setup: what works, what does not, and what to do about it",
    "models": "list the models the server serves",
    "tools": "print the tool definitions sent to the model, as JSON",
    "config": "show the settings in force and where each comes from",
    "policy": "read tool calls from standard input and say whether they would be allowed",
    "serve": "answer other programs' requests in front of vLLM, so that every tool call lands",
    "launch": "run claude, codex, opencode or copilot on the server, through the gateway",
    "acp": "answer in an editor such as Zed, over the Agent Client Protocol",
    "mcp": "take tasks from other agents, over the Model Context Protocol",
    "batch": "run many tasks, each in a clean folder, here or on a Ray cluster",
    "eval": "find out which call path, settings and server flags this model does best with",
    "sessions": "list, search, show, export or delete past conversations",
}
SIMPLE = ("models", "tools", "config")  # commands that share a module
WITH_DEMO = ("serve", "batch")


def make_parser(commands: tuple[str, ...] = ()) -> ArgumentParser:
    """`commands`: the commands whose own options are added as well, which loads their modules."""
    parser = ArgumentParser(
        prog="vllm-bot",
        description="Chat with a model on a vLLM server that can read and edit your files and run commands.",
        epilog=EPILOG,
        formatter_class=make_formatter,
    )
    add = parser.add_argument
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
    add(
        "--max-turns", metavar="N", type=parse_number(int, 1), help="turns with tool calls before the model must answer"
    )
    add(
        "--max-tokens", metavar="N", type=parse_number(int, 1), help="total tokens the model may write for one question"
    )
    add("--json-schema", metavar="FILE", help="answer one question with JSON of this form, alone on standard output")
    add("--raw", action="store_const", const=True, help="leave escape sequences in an answer that goes to a pipe")
    add("--panel", action="store_const", const=True, help="have the models of review.models answer, and one sum up")
    add("--timeout", metavar="SECONDS", type=parse_number(float, 0.01), help="total time for one question")
    add(
        "--resume",
        metavar="SESSION",
        nargs="?",
        const="",
        help="continue a session by name or id; default: the last one in this folder (see docs/sessions.md)",
    )
    add_common(parser, None)
    add("--relearn", action="store_true", help="forget what was learned about servers and find it out again")
    add("--plain", action="store_true", help="plain output: no colours, nothing redrawn")
    add("--trace", metavar="FILE", help="append every event to FILE, one JSON object per line (see docs/tracing.md)")
    add("--demo", action="store_true", help="try it without a server: a scripted model, in a temporary folder")
    add("--version", action="version", version=f"vllm-bot {__version__}")
    _add_commands(parser, commands)
    return parser


def _add_commands(parser: ArgumentParser, commands: tuple[str, ...]) -> None:
    rows = parser.add_subparsers(
        dest="command",
        metavar="COMMAND",
        title="commands (COMMAND --help says more)",
        prog=parser.prog,
        parser_class=CommandParser,
    )
    for name, about in COMMANDS.items():
        description = f"{about[0].upper()}{about[1:]}."
        is_given = name in commands
        row = rows.add_parser(
            name, is_given=is_given, help=about, description=description, formatter_class=make_formatter
        )
        if is_given:
            add_common(row, argparse.SUPPRESS)  # given before or after the command's name
            getattr(_load_module(name), f"add_{name}_options", lambda _: None)(row)


def _load_module(command: str) -> ModuleType:
    from importlib import import_module

    name = "simple" if command in SIMPLE else command
    return import_module(f".commands.{name}", __package__)


def main(arguments: list[str] | None = None, sleep: Callable[[float], None] = time.sleep) -> int:
    """`sleep` waits between attempts to reach the server."""
    if sys.stderr is None:  # closed; print would write to standard output instead
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    gc.set_threshold(GC_THRESHOLD_OBJECTS)
    atexit.register(gc.freeze)  # leaves nothing for the collection at the exit: the system frees all memory anyway
    try:
        try:
            run = _choose_run(_parse_options(sys.argv[1:] if arguments is None else arguments), sleep)
            with exit_on_signals():
                return run()
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - the top of the terminal: one line, a traceback only under DEBUG
            return _report_failure(error)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # else it fails while the interpreter ends
    except KeyboardInterrupt:  # also while modules load
        from ..errors import INTERRUPTED

        print(file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # whose reader is gone, as with `| head`
            print(f"vllm-bot: standard output: {error.strerror}.", file=sys.stderr)
        return 1


def _choose_run(options: argparse.Namespace, sleep: Callable[[float], None]) -> Callable[[], int]:
    """What the options ask for; it returns the exit code. Raises ConfigError."""
    # Loaded here so that --help and --version do not load it.
    from ..config import read_debug_level
    from ..errors import ConfigError
    from .oneshot.run import run

    if sys.stdout is None:
        raise ConfigError("Standard output is closed, so nothing could be shown.")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # input and models may contain anything
    if options.command:
        return partial(getattr(_load_module(options.command), f"run_{options.command}"), options)
    return partial(run, options, read_debug_level(os.environ), sleep)


def _report_failure(error: Exception) -> int:
    """Tell the user; returns the exit code."""
    from ..config import read_debug_level
    from ..errors import BotError, describe_error
    from ..security.text.sanitize import sanitize

    if read_debug_level(os.environ):
        import traceback

        traceback.print_exception(error)
    print(f"vllm-bot: {sanitize(describe_error(error)[:MAX_ERROR_CHARS])}", file=sys.stderr)
    return error.exit_code if isinstance(error, BotError) else 1


def _parse_options(words: list[str]) -> argparse.Namespace:
    """The options; `passed` are the words that `launch` passes to another program, `message` the first of a chat."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could come next; this does not return
        import argcomplete

        argcomplete.autocomplete(make_parser(tuple(COMMANDS)))
    parser = make_parser(tuple(name for name in COMMANDS if name in words))
    own, passed = words, list[str]()
    if "--" in words and "launch" in words[: words.index("--")]:
        own, passed = words[: words.index("--")], words[words.index("--") + 1 :]
    parser.words, message = _split_message(parser, own)
    options = parser.parse_args(parser.words)
    options.passed, options.message = passed, message
    if options.demo and options.command not in (None, *WITH_DEMO):
        parser.error(f"{options.command} has no demo; `vllm-bot --demo` is a chat without a server")
    return options


def _split_message(parser: ArgumentParser, words: list[str]) -> tuple[list[str], str]:
    """The options, and the first message of a chat: the words that are no options, unless they begin with a command."""
    own: list[str] = []
    message: list[str] = []
    takes_value = False
    for at, word in enumerate(words):
        if word == "--":
            message += words[at + 1 :]
            break
        is_option = word.startswith("-") and word != "-"
        (own if is_option or takes_value else message).append(word)
        takes_value = is_option and parser.takes_value(word)
    if not message or message[0] in COMMANDS or (len(message) == 1 and is_near(message[0], list(COMMANDS))):
        return words, ""  # argparse says what is wrong with a command that is spelled wrong
    return own, " ".join(message)


class _SignalExit(SystemExit):
    """The exit that a signal asks for. `on_drop` is called if it is dropped before it has arrived at the top.

    A handler runs wherever the main thread is. What it raises inside a finalizer, Python drops: see
    https://docs.python.org/3/reference/datamodel.html#object.__del__.
    """

    def __init__(self, number: int, on_drop: Callable[[int], None]) -> None:
        super().__init__(EXIT_SIGNAL + number)
        self._number, self._on_drop = number, on_drop

    def __del__(self) -> None:
        self._on_drop(self._number)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """SIGTERM, SIGHUP and SIGQUIT raise SystemExit, so that started processes are ended, the session is saved, and the
    terminal gets its modes back.
    """
    from ..signals import ENDING_SIGNALS  # --help loads the command line alone

    has_left = False

    def leave(number: int, _: object) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)  # ignore repeats while cleaning up
        raise _SignalExit(number, send_again)

    def send_again(number: int) -> None:
        if not has_left:
            from threading import Timer

            signal.signal(number, leave)
            Timer(RESEND_S, os.kill, (os.getpid(), number)).start()  # at once it would be inside the finalizer again

    signals = [each for each in ENDING_SIGNALS if signal.getsignal(each) != signal.SIG_IGN]  # leave nohup alone
    before = {each: signal.signal(each, leave) for each in signals}
    try:
        yield
    finally:
        has_left = True
        for each, handler in before.items():
            signal.signal(each, handler)
