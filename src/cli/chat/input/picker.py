"""A list to choose from on a full terminal: typing searches it, the arrows move, Enter takes a row, Esc none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.output import Output

from ...render.plain import get_columns
from ...render.text_width import truncate

MAX_ROWS = 10  # shown at once
DEFAULT_COLUMNS = 80
MOVES = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -MAX_ROWS, "pagedown": MAX_ROWS}  # in rows, by key
HELP = "type to search, arrows to move, Enter takes it, Esc leaves"


Search = Callable[[str], Sequence[tuple[str, str]]]  # the rows that fit what was typed: a key, and a sanitized line


def pick_row(title: str, search: Search, *, input: Input | None = None, output: Output | None = None) -> str | None:
    """The key of the row that the user takes; None if they leave. `input` and `output`: of another terminal."""
    picker = _Picker(title, search)
    return picker.make_application(input, output).run()


class _Picker:
    """`chosen` is the number of the row under the cursor, `top` that of the first one shown."""

    def __init__(self, title: str, search: Search) -> None:
        self._title = title
        self._search = search
        self._rows = list(search(""))
        self._chosen = self._top = 0
        self._typed = Buffer(multiline=False, on_text_changed=self._update)

    def make_application(self, input: Input | None, output: Output | None) -> Application[str | None]:
        rows = HSplit(
            [
                VSplit(
                    [
                        Window(FormattedTextControl([("bold", f"{self._title} ")]), dont_extend_width=True, height=1),
                        Window(BufferControl(self._typed), height=1),
                    ]
                ),
                Window(FormattedTextControl(self._format_rows), dont_extend_height=True),
            ]
        )
        return Application(
            Layout(rows, self._typed), key_bindings=self._make_keys(), erase_when_done=True, input=input, output=output
        )

    def _update(self, _: Buffer) -> None:
        self._rows = list(self._search(self._typed.text))
        self._chosen = self._top = 0

    def _move(self, by: int) -> None:
        self._chosen = max(min(self._chosen + by, len(self._rows) - 1), 0)
        self._top = max(min(self._top, self._chosen), self._chosen - MAX_ROWS + 1)

    def _format_rows(self) -> StyleAndTextTuples:
        width = (get_columns(sys.stdout) or DEFAULT_COLUMNS) - 1
        lines: StyleAndTextTuples = []
        for number, (_, line) in enumerate(self._rows[self._top : self._top + MAX_ROWS], self._top):
            mark, style = ("> ", "reverse") if number == self._chosen else ("  ", "")
            lines.append((style, f"{truncate(mark + line, width)}\n"))
        count = f"{self._chosen + 1} of {len(self._rows)}" if self._rows else "nothing found"
        return [*lines, ("fg:ansibrightblack", truncate(f"  {count}; {HELP}", width))]

    def _make_keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter", filter=has_focus(self._typed))
        def _(event: KeyPressEvent) -> None:
            if self._rows:
                event.app.exit(result=self._rows[self._chosen][0])

        @keys.add("escape", eager=True)
        @keys.add("c-c")
        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        for name, by in MOVES.items():
            keys.add(name)(lambda _, by=by: self._move(by))
        return keys
