"""Events as plain lines: the answer on one stream, everything else on the other.

Text from a model, a tool or a server is untrusted: its control, escape and bidi characters are removed before it
reaches the terminal. The only escapes written are this module's own.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import TextIO

from msgspec import Struct

from ...security.text.sanitize import Sanitizer, reveal, sanitize
from ...types.events import CallFinished, CallStarted, Completed, Event, Notice, ReasoningDelta, TextDelta
from ...types.lazy_pattern import LazyPattern
from ...types.messages import JSON, MEDIA, MalformedCall, ToolCall, ToolResult, join_block_texts, list_blocks
from .colours import NONE, Colours
from .details import DIM, MAX_DIFF_LINES, list_details, number_diff, read_todos, split_notes
from .diff import count_changes, get_diff
from .wrap import (
    ELLIPSIS,
    TAB_COLUMNS,
    cut_at_word,
    fold_line,
    mark_text,
    measure_at_most,
    split_at_columns,
    wrap_text,
)

DIM_ON, DIM_OFF = "\x1b[2m", "\x1b[0m"
MAX_FOLDED = 20  # results that /expand can show
NOTHING_FOLDED = "  There is nothing more to show."
EXIT_ZERO = "[exit code 0]"  # not worth showing
# The line in which test runners and linters sum up, such as `12 passed, 1 warning in 0.3s`
_SUMMARY = LazyPattern(
    r"(?i).*\b(\d+|no|all) ([\w.]+ ){0,3}(passed|failed|failures?|errors?|tests?|issues?|problems?|ok)\b.*|OK\b.*"
)
_WRONG_ARGUMENTS = LazyPattern(r"\AWrong arguments for [\w.-]+: (.*)\. Usage: .*")  # the rest is for the model
_NOTES = (  # for the model: words that each holds, its pattern, and what the user reads in its place
    ("[sha256 ", LazyPattern(r" ?\[sha256 [0-9a-f]+\]"), ""),
    (
        "it runs in the background",
        LazyPattern(r"\[(?:the user sent it to the background: )?it runs in the background as job (\d+);.*\]"),
        r"[background job \1]",
    ),
    (
        "[it failed ",
        LazyPattern(r"(?m)^\[it failed (?:with access=read|in the sandbox), and was run again.*\]$\n?"),
        "",
    ),
)
_CHANGED_BY_USER = LazyPattern(r"\A\[The user changed the arguments to .*\]\n")  # for the model
PATH_DESCRIPTIONS = {
    "tokens": "tool calls read from its tokens",
    "native": "native tool calls",
    "template": "tool calls read from its text (its template shows the tools)",
    "text": "tool calls in its text",
}
MIN_PATH_CHARS = 16  # of a path, rather than that it is one
MAX_SHORT_CHARS = 60  # of an argument or outcome on a call's line
MAX_LINE_CHARS = 10_000  # of a call's line that goes to no terminal


def format_call(call: ToolCall | MalformedCall, columns: int = 0, width: Callable[[str], int] = len) -> str:
    """A call, on one line of so many columns (0: any number)."""
    name = format_name(call)
    if isinstance(call, MalformedCall):
        return name
    room = MAX_LINE_CHARS
    if columns:
        room = columns - len(name) - len("()")
    return f"{name}({format_arguments(call, room, width)})"


def format_model(name: str) -> str:
    """A model's name; of the path of a file or folder, as llama.cpp names models, the last part."""
    if name.startswith("/"):
        name = name.rstrip("/").rpartition("/")[2]
    return sanitize(name)


def format_name(call: ToolCall | MalformedCall) -> str:
    return reveal(call.name, on_one_line=True) or "unreadable call"


def format_arguments(call: ToolCall | MalformedCall, columns: int, width: Callable[[str], int] = len) -> str:
    """The arguments on so many columns. The longest is shortened first, to whole words, and to `...` at last.

    A path is shortened last, and keeps its end. If even that is too wide, only the path or the first value is left.
    """
    if isinstance(call, MalformedCall) or not call.arguments:
        return ""
    values = {
        reveal(key, on_one_line=True): _cut_value(quote_value(value), MAX_SHORT_CHARS, width)
        for key, value in call.arguments.items()
    }
    if not isinstance(call.arguments.get("path"), str):
        shown = _fit_values(values, set(), columns, width)
        if width(shown) <= columns:
            return shown
        return _cut_value(quote_value(next(iter(call.arguments.values()))), columns, width)
    values["path"] = quote_value(call.arguments["path"])
    shown = _fit_values(values, {"path"}, columns, width)
    if width(shown) <= columns:
        return shown
    # The path alone, with its name and a mark for other arguments where there is room.
    path, others = values["path"], ", ..." * (len(values) > 1)
    for before, after in (("path=", others), ("path=", ""), ("", "")):
        if (room := columns - len(before + after)) >= min(width(path), MIN_PATH_CHARS):
            break
    return before + _cut_start(path, room, width) + after


def _fit_values(values: dict[str, str], kept: set[str], columns: int, width: Callable[[str], int]) -> str:
    """Shorten the longest value, again and again, until all fit or nothing is left to shorten. Returns them joined."""
    while True:
        shown = ", ".join(f"{key}={value}" for key, value in values.items())
        over = width(shown) - columns
        cut = [key for key, value in values.items() if key not in kept and value != ELLIPSIS]
        if over <= 0 or not cut:
            return shown
        longest = max(cut, key=lambda key: width(values[key]))
        values[longest] = _cut_value(values[longest], width(values[longest]) - over, width)


def _cut_start(quoted: str, columns: int, width: Callable[[str], int]) -> str:
    """A quoted text; if it does not fit, `...` and its end, from a folder's name on where one begins."""
    if width(quoted) <= columns:
        return quoted
    text, room = quoted[1:-1], columns - len('"..."')
    if room <= 0:
        return ELLIPSIS[: max(columns, 0)]
    start = next((at for at in range(len(text)) if width(text[at:]) <= room), len(text))
    if (folder := text.find("/", start)) >= 0:
        start = folder
    return f'"{ELLIPSIS}{text[start:]}"'


class FoldedItem(Struct, frozen=True):
    """A folded call or thought: its title and its full text, sanitized. `diff`: what follows, where there is one."""

    title: str
    body: str
    diff: str = ""

    def list_lines(self, mark: str, columns: int, colours: Colours) -> list[tuple[str, str]]:
        """The lines below the title, each behind the mark, and how they are painted."""
        body = [(line, DIM) for line in mark_text(self.body.expandtabs(TAB_COLUMNS).rstrip("\n"), mark, columns)]
        return body + [
            (piece, sgr) for line, sgr in number_diff(self.diff, colours) for piece in mark_text(line, mark, columns)
        ]


def fold_call(call: ToolCall | MalformedCall, result: ToolResult) -> FoldedItem:
    """A call with its full arguments and result, or what it changed in a file."""
    if diff := get_diff(result):
        return FoldedItem(format_call(call), sanitize(result.text.partition("\n--- ")[0]), diff)
    if isinstance(call, MalformedCall):
        request = call.raw
    else:
        request = "\n".join(
            f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
            for name, value in call.arguments.items()
        )
    return FoldedItem(format_call(call), sanitize(f"{request}\n->\n{result.text}"))


def describe_result(result: ToolResult) -> str:
    """The result of a call in one short line."""
    if todos := read_todos(result):
        return f"{sum(mark == 'x' for mark, _ in todos)} of {len(todos)} done"
    text = result.own_text
    # The model gets a note on each image or sound; the user does not need it.
    if blocks := [each for each in list_blocks(result) if isinstance(each, dict) and each.get("type") not in MEDIA]:
        text = join_block_texts(blocks)
    if changed := _CHANGED_BY_USER.match(text):
        text = text[changed.end() :]
    for words, note, replacement in _NOTES:
        if words in text:  # most results have no note: to look is faster than to replace nothing
            text = note.sub(replacement, text)
    lines = text.strip().splitlines()
    if result.kind == "error":
        return _describe_error(result, sanitize("".join(lines[:1])))
    return count_changes(lines, get_diff(result)) or _describe_output(lines, result)


def _describe_error(result: ToolResult, text: str) -> str:
    """Why it failed, or why it did not run, which the user may have said themselves."""
    if not result.is_denied:
        reason = _WRONG_ARGUMENTS.sub(r"\1", text.removeprefix("Error executing tool: "))  # which the model reads
        return f"error: {reason[: 4 * MAX_SHORT_CHARS]}"
    why, _, _ = text.partition(". ")
    if result.reply:
        why = f"Not run: {sanitize(result.reply)}"
    return why[: 4 * MAX_SHORT_CHARS]


def _describe_output(lines: list[str], result: ToolResult) -> str:
    """How much was printed, or what, if it is short; and how it ended, which comes first where a command failed."""
    lines, notes = split_notes(lines, result.ending)
    if result.has_command_failed:  # the lines themselves stand below
        how = sanitize(f"[{result.ending}]")
        return f"{how} {len(lines):,} lines" if len(lines) > 1 else how
    size = _describe_size(lines)
    end = " ".join(sanitize(note) for note in notes if note != EXIT_ZERO or not size)[: 2 * MAX_SHORT_CHARS]
    if usage := result.usage:
        size += f", {usage.input_tokens + usage.output_tokens:,} tokens"
    return " ".join(filter(None, (size, end))) or "nothing"


def _describe_size(lines: Sequence[str]) -> str:
    """What was printed, if it is short, or the line with which programs such as pytest sum up, or how much it is."""
    if len(lines) > 1:
        last = sanitize(lines[-1]).strip(" =-")
        if len(last) <= MAX_SHORT_CHARS and _SUMMARY.fullmatch(last):
            return last
        return f"{len(lines):,} lines"
    text = sanitize("".join(lines))
    if len(text) > MAX_SHORT_CHARS:
        return f"1 line, {len(text):,} characters"
    return text


def describe_steps(calls: Sequence[ToolCall]) -> str:
    """What a running call does: for a subagent how many calls it has made, and the last one."""
    if not calls:
        return ELLIPSIS
    return f"{len(calls):,} call{'s' * (len(calls) > 1)}, {format_call(calls[-1], MAX_SHORT_CHARS)}"


def get_columns(stream: TextIO) -> int:
    """The columns of a terminal; 0 if it is not one."""
    return get_size(stream)[0]


def get_size(stream: TextIO) -> tuple[int, int]:
    """The columns and rows of a terminal; 0 if it is not one."""
    try:
        if not stream.isatty():
            return 0, 0
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 0, 0
    return columns, rows


def quote_value(value: JSON) -> str:
    """The value as JSON, with an escape for each character that a terminal would hide or obey."""
    text = json.dumps(value, ensure_ascii=False)
    if reveal(text) == text:
        return text
    return reveal(json.dumps(value))


def _cut_value(text: str, columns: int, width: Callable[[str], int]) -> str:
    if width(text) <= columns:
        return text
    if not text.startswith('"'):
        return ELLIPSIS
    cut = cut_at_word(text[1:-1].removesuffix(ELLIPSIS), columns - 2, width)
    if cut in ("", ELLIPSIS[: len(cut)]):
        return ELLIPSIS
    return f'"{cut}"'


class PlainScreen:
    """A plain Display that only appends lines. `answer` gets the model's text, `aside` everything else.

    `thoughts`: show thoughts; `styled`: dim them; `clean`: makes the answer harmless, by default for a terminal.
    """

    colours = NONE
    draws_above = False
    was_asked = False  # the user was asked since the last call ended, and saw then what the next one changes

    def __init__(
        self, answer: TextIO, aside: TextIO, *, thoughts: bool, styled: bool, clean: Callable[[str], str] | None = None
    ) -> None:
        self._answer = answer
        self._aside = aside
        self.thinking = "show" if thoughts else "hide"
        self.folded: deque[tuple[ToolCall | MalformedCall, ToolResult]] = deque(maxlen=MAX_FOLDED)
        self._styled = styled
        self._clean = clean or Sanitizer().feed
        self._clean_thought = Sanitizer().feed
        self._open: TextIO | None = None  # the stream with an unfinished line
        self._thinking = False
        self._running: ToolCall | None = None
        self._call_columns = 0  # of the line of the last call

    def draw(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._end_thought()
            self._write(self._answer, self._clean(event.text))
        elif isinstance(event, ReasoningDelta):
            self._think(self._clean_thought(event.text))
        elif isinstance(event, CallStarted):
            if self._running:  # a parallel call is drawn when it finishes
                return
            self.end_line()
            self._show_call(event.call)
            self._running = event.call
        elif isinstance(event, CallFinished):
            self._finish_call(event)
        elif isinstance(event, Notice):
            columns = max(get_columns(self._aside) - 1, 0)
            self.put("\n".join(mark_text(sanitize(event.text).strip("\n"), "! ", columns)))
        elif isinstance(event, Completed):
            self.end_line()

    def say(self, text: str) -> None:
        """Show the program's own lines, wrapped, on a new line."""
        self.put(wrap_text(text, get_columns(self._aside) - 1))

    def put(self, text: str) -> None:
        """Show lines as they are, on a new line."""
        self.end_line()
        self._write(self._aside, f"{text}\n")

    def show_output(self, call_id: str, text: str) -> None:
        """Do nothing: lines that are printed cannot be folded."""

    def wipe(self) -> None:
        """Do nothing: printed lines stay."""

    def unfold(self) -> list[str]:
        if not self.folded:
            return [NOTHING_FOLDED]
        last = fold_call(*self.folded.pop())
        columns = max(get_columns(self._aside) - 1, 0)
        lines = [text for text, _ in last.list_lines("  | ", columns, NONE)]
        return [*fold_line(f"  {last.title}", columns), *lines]

    def end_line(self) -> None:
        self._end_thought()
        if self._open:
            self._write(self._open, "\n")
        self._running = None

    def _finish_call(self, event: CallFinished) -> None:
        if self._running is not event.call:  # it was denied before it started
            self.end_line()
            self._show_call(event.call)
        result = describe_result(event.result)
        if (columns := get_columns(self._aside)) and self._call_columns + measure_at_most(f" -> {result}") >= columns:
            self._write(self._aside, "\n   ")
            room = columns - len("    -> ")
            if event.result.kind == "error" and measure_at_most(result) > room:  # why it failed is never cut
                kind, _, reason = result.partition(": ")
                result = "\n".join([kind, *mark_text(reason, "    | ", columns - 1)])
            else:
                result = cut_at_word(result, room, measure_at_most)
        self._write(self._aside, f" -> {result}\n")
        if columns:  # a person reads it
            self._show_details(event.result, columns)
        self.folded.append((event.call, event.result))
        self._running = None

    def _show_details(self, result: ToolResult, columns: int) -> None:
        lines = list_details(result, NONE, with_diff=not self.was_asked)
        for line, _ in lines[:MAX_DIFF_LINES]:
            self._write(self._aside, f"    | {cut_at_word(line, columns - 7, measure_at_most)}\n")
        if (more := len(lines) - MAX_DIFF_LINES) > 0:
            self._write(self._aside, f"    ({more:,} more lines: /expand shows them)\n")
        self.was_asked = False

    def _show_call(self, call: ToolCall | MalformedCall) -> None:
        columns = get_columns(self._aside)
        shown = f"  {format_call(call, columns - 3 if columns else 0, measure_at_most)}"
        if columns:
            shown = split_at_columns(shown, columns - 1)[0]  # a name may be of any length
        self._call_columns = measure_at_most(shown)
        self._write(self._aside, shown)

    def _think(self, text: str) -> None:
        if self.thinking == "hide":
            return
        if not self._thinking:
            self.end_line()
            self._thinking = True
            self._write(self._aside, DIM_ON if self._styled else "")
        self._write(self._aside, text)

    def _end_thought(self) -> None:
        if self._thinking:
            self._thinking = False
            self._write(self._aside, f"{DIM_OFF}\n" if self._styled else "\n")

    def _write(self, stream: TextIO, text: str) -> None:
        if text:
            stream.write(text)
            stream.flush()
            self._open = None if text.endswith("\n") else stream
