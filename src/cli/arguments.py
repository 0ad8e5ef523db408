"""The options that all commands share, and the errors for wrong ones.

Only argparse is loaded up front, so that --help answers at once.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

TYPE_CHECKING = False  # `typing` takes as long to load as all of this
if TYPE_CHECKING:
    from typing import Any, NoReturn

MAX_NUMBER = 1e9  # an option takes less


class ArgumentParser(argparse.ArgumentParser):
    """Says in two lines what is wrong, and what was probably meant."""

    words: Sequence[str] = ()  # what is parsed

    def takes_value(self, word: str) -> bool:
        """Whether the word after this option is its value. An option may be abbreviated."""
        actions = self._option_string_actions
        fits = [each for each in actions if word.startswith("--") and each.startswith(word)]
        if word in actions:
            fits = [word]
        return len(fits) == 1 and actions[fits[0]].nargs in (None, "?")

    def error(self, message: str) -> NoReturn:
        spellings = re.findall("--[a-z-]+", self.format_help())
        if wrong := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            message = self._explain_choice(message, wrong[1], re.findall("[a-z-]+", wrong[2]), spellings)
        if wrong := re.match("unrecognized arguments: (--[^ =]+)", message):
            message = f"there is no option {wrong[1]}{_suggest(wrong[1], spellings)}"
            if wrong[1] in spellings:  # the chat's, behind a command's name
                message = f"{wrong[1]} is an option of {self.prog} itself, and stands before the command"
        ask = "" if " " in self.prog else "; -p TEXT asks one question"
        self.exit(2, f"{self.prog}: {message}.\n`{self.prog} --help` says what there is{ask}.\n")

    def _explain_choice(self, message: str, word: str, names: list[str], spellings: list[str]) -> str:
        """What is wrong with a word that is not one of these names."""
        what = message.partition(":")[0].removeprefix("argument ")
        if what == "COMMAND":  # it may be the value of an option that does not exist
            options = [each.partition("=")[0] for each in self.words if each.startswith("--")]
            for option in options:
                if not any(each.startswith(option) for each in spellings):
                    return f"unrecognized arguments: {option}"
        if what.isupper():
            what = what.lower()
        return f"there is no {what} {word}{_suggest(word, names) or '; choose one of ' + ', '.join(names)}"


class CommandParser(ArgumentParser):
    """The parser of a command. One that is not given is listed and parses nothing, so that it is left empty."""

    def __init__(self, *, is_given: bool = True, **options: Any) -> None:
        if is_given:
            super().__init__(**options)


def is_near(word: str, names: list[str]) -> bool:
    """Whether it is probably one of the names, misspelled."""
    import difflib

    return bool(difflib.get_close_matches(word, names, n=1, cutoff=0.7))


def _suggest(wrong: str, names: list[str]) -> str:
    import difflib

    words = {each.lstrip("-"): each for each in names}
    near = difflib.get_close_matches(wrong.lstrip("-"), words, n=1)
    return f"; the nearest is {words[near[0]]}" if near else ""


def make_formatter(prog: str) -> argparse.HelpFormatter:
    """As wide as argparse's own, which would load shutil and its archive modules to find the width."""
    try:
        columns = max(int(os.environ.get("COLUMNS", "")), 0)
    except ValueError:
        columns = 0
    if not columns:
        with suppress(AttributeError, ValueError, OSError):  # standard output is closed, or no terminal
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
    return argparse.RawDescriptionHelpFormatter(prog, width=(columns or 80) - 2)


def add_common(parser: argparse.ArgumentParser, default: str | None) -> None:
    """The options that the chat and every command share."""
    add = parser.add_argument
    add(
        "-c",
        "--config",
        metavar="FILE",
        default=default,
        help="settings file, .json, .yaml or .yml (default: see docs/configuration.md)",
    )
    add("-u", "--base-url", metavar="URL", default=default, help="address of the server: HOST, HOST:PORT or a URL")
    add("-m", "--model", metavar="NAME", default=default, help="name of the model (default: the one the server serves)")
    add(
        "-w",
        "--workspace",
        metavar="DIR",
        default=default,
        help="the folder the tools work in (default: the current one)",
    )
    add(
        "--add-dir",
        metavar="DIR",
        action="append",
        default=default,
        help="a further folder that tools read and change as the workspace; may be repeated",
    )
    add(
        "--mode",
        choices=("plan", "ask", "edits", "auto", "full"),
        default=default,
        help="what may run without asking (default: ask; see docs/security.md)",
    )
    add(
        "--profile",
        choices=("read-only", "ask", "workspace", "full"),
        default=default,
        help="the mode by its former name: read-only is plan, workspace is edits",
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


def parse_number(kind: Callable[[str], float], least: float) -> Callable[[str], float]:
    """The `type` of an option that takes a number, from `least` to MAX_NUMBER."""

    def read(text: str) -> float:
        with suppress(ValueError):
            if least <= (value := kind(text)) < MAX_NUMBER:
                return value
        name = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"expected {name}, {least:g} or more, got {text!r}")

    return read
