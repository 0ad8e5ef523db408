"""The chat on a full terminal: one prompt_toolkit application, open from the first prompt to the end.

It runs in a thread of its own and is the only writer to the terminal, so that the line can be edited while the main
thread waits for the model, a command or the next message. Its lines, from the top: what LiveScreen draws of the turn,
the queued messages, the line being typed, the status line. Finished lines are written above them.

Ctrl-C is a key, which becomes SIGINT for the main thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, VerticalAlign, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.styles import Style

from ....security.text.sanitize import sanitize
from ...render.colours import paint
from ...render.live import LiveScreen
from ...render.text_width import measure_width, truncate
from ..state import State
from ..status_line import format_status_line
from .keys import Actions, make_key_bindings
from .multiline import PROMPT
from .prompt import CONTINUATION, ChatPrompt
from .terminal import ColouredLines, FrameOutput, TerminalReader, get_size, take_typed_ahead

STYLE = Style.from_dict(
    {
        "status": "fg:ansibrightblack",
        "status.plan": "fg:ansicyan",
        "status.auto": "fg:ansiyellow",
        "status.full": "fg:ansired bold",
        "prompt": "bold",
        "queued": "dim",
        "completion-menu.completion.current": "bold",  # which is seen without colours, too
    }
)
MIN_FRAME_S, MAX_FRAME_S = 0.05, 0.5  # time between frames of a turn
IDLE_FACTOR = 20  # the same, in durations of the last frame
MAX_QUEUED_LINES = 3
ESCAPE_S = 0.05  # after which an escape character is the Escape key
KEY_SEQUENCE_S = 0.3  # between the keys of a binding that has several
RESIZED_S = 0.2  # without another change of the size, after which a question is drawn for it
STOP_S = 2.0  # to wait for the application at the end


class ChatApplication:
    """`folder` is where the history is saved."""

    def __init__(self, state: State, live: LiveScreen, folder: Path | None) -> None:
        self._state = state
        self._live = live
        self._changed = threading.Condition()  # guards the fields down to `_reply`
        self._queue: list[str] = []
        self._is_held = False  # the queue waits for Enter
        self._is_prompting = False
        self._must_expand = False  # the prompt's thread shows what was folded
        self._has_left = False
        self._has_ended = False  # the terminal is gone
        self._reply: str | None = None
        self._question_lock = threading.Lock()
        self.show_question_again: Callable[[], None] = lambda: None  # where something has covered it
        self.find_answer_for: Callable[[str], str] = lambda _mode: ""  # to the open question, for a mode
        self._asked_size = (0, 0)  # of the terminal, when the question was drawn
        self._redraw: asyncio.TimerHandle | None = None
        self._prompt = ChatPrompt(state, folder, self._accept, self._accept_reply)
        actions = Actions(
            lambda: not self._is_prompting,
            self._stop,
            self._leave,
            self._take_back,
            self._expand,
            self._switch_mode,
            state.can_send_to_background,
            state.send_to_background,
        )
        self._output = FrameOutput()
        self._region: list[str] = []
        self._drawn: tuple[int, list[int]] = (0, [])  # the columns and the width of each line of the last frame
        self._suspended = False
        self._suspension = threading.Lock()  # held where `_suspended` changes, and while other threads write
        self._input = create_input()
        if isinstance(self._input, Vt100Input):
            self._input.stdin_reader = TerminalReader(sys.stdin.fileno(), live.choose_colours)
        self._application: Application[None] = Application(
            Layout(self._make_container(), self._prompt.message),
            style=STYLE,
            key_bindings=make_key_bindings(self._prompt, actions),
            input=self._input,
            output=self._output,
            erase_when_done=True,
            terminal_size_polling_interval=None,
        )
        self._application.ttimeoutlen, self._application.timeoutlen = ESCAPE_S, KEY_SEQUENCE_S
        self._application.before_render += lambda _: self._begin_frame()
        self._application.after_render += lambda _: self._output.end_frame()
        self._is_in_turn = False
        self._ticking: asyncio.Task[None] | None = None
        self._is_running = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """Keep the application open."""
        store_typeahead(self._input, take_typed_ahead(self._live.choose_colours))
        self._thread.start()
        self._is_running.wait()
        self._live.refresh = self._refresh
        before = signal.signal(signal.SIGWINCH, lambda *_: self._application.invalidate())
        try:
            yield
        finally:
            signal.signal(signal.SIGWINCH, before)
            self._call(self._exit)
            self._thread.join(STOP_S)

    def read(self, _prompt: str) -> str:
        """Return the next message that the user sends. Raises EOFError and KeyboardInterrupt, as input() does."""
        if self._state.draft:
            draft, self._state.draft = self._state.draft, ""
            self._call(lambda: self._prompt.message.insert_text(draft))
        while (text := self._take_message()) is None:
            self._state.expand()
        own = "1;" + self._live.colours.hunk if self._live.colours.are_shown else "1"
        lines = f"{PROMPT}{sanitize(text)}".replace("\n", f"\n{CONTINUATION}").split("\n")
        self._live.put("\n".join(paint(line, own) for line in lines))
        return self._prompt.pastes.expand(text)

    def _take_message(self) -> str | None:
        """Wait for a message; None for Ctrl-O, of which a pager may be the answer. Raises EOFError."""
        with self._changed:
            self._is_prompting = True
            try:
                self._changed.wait_for(self._has_work)
            finally:
                self._is_prompting = False
            if self._has_left or self._has_ended:
                raise EOFError
            if self._must_expand:
                self._must_expand = False
                return None
            return self._queue.pop(0)

    def _has_work(self) -> bool:
        may_send = bool(self._queue) and not self._is_held
        return may_send or self._must_expand or self._has_left or self._has_ended

    def ask(self, question: str, default: str = "") -> str:
        """Return a line that is typed after the question. Raises EOFError and KeyboardInterrupt."""
        with self._question_lock:
            self._reply = None
            try:  # Ctrl-C may come as soon as the question is there
                self._call(lambda: self._open_question(question, default))
                with self._changed:
                    self._changed.wait_for(lambda: self._reply is not None or self._has_left or self._has_ended)
            finally:
                self._call(self._close_question)
            reply = self._reply
        self._live.put(f"{question}{sanitize(reply or '')}")
        if reply is None:
            self._has_left = False
            raise EOFError
        return reply

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Draw the turn while the model works."""
        self._live.begin()
        self._is_in_turn = True
        self._call(self._start_ticking)
        try:
            with self._defer_interrupts():
                yield
        finally:
            self._is_in_turn = False
            self._call(self._stop_ticking)
            self._live.end()

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        """Leave the terminal in its normal mode to another program."""
        if self._has_ended:
            yield
            return
        entered, leave = threading.Event(), asyncio.Event()

        async def hold() -> None:
            async with in_terminal():
                with self._suspension:
                    self._suspended = True
                    self._write_above()
                entered.set()
                await leave.wait()
                keys = take_typed_ahead(self._live.choose_colours)
                with self._suspension:
                    self._suspended = False
            self._application.key_processor.feed_multiple(keys)
            self._application.key_processor.process_keys()

        self._call(lambda: self._application.create_background_task(hold()))
        entered.wait()
        try:
            yield
        finally:
            self._call(leave.set)

    def write(self, sequence: str) -> None:
        """Send the terminal a sequence that moves and shows nothing."""

        def write() -> None:
            self._output.write_raw(sequence)
            self._output.flush()

        self._call(write)

    def _run(self) -> None:
        try:
            self._application.run(pre_run=self._is_running.set, handle_sigint=False)
        except EOFError:  # the terminal is gone
            pass
        finally:
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()
            self._is_running.set()  # where it could not even begin

    def _call(self, action: Callable[[], object]) -> None:
        """Call it in the thread and in the context of the application, if that runs."""
        loop, context = self._application.loop, self._application.context
        if loop is not None and context is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(action, context=context.copy())

    def _exit(self) -> None:
        if self._application.is_running and not self._application.is_done:
            self._application.exit()

    # What keys do; in the application's thread

    def _accept(self, buffer: Buffer) -> bool:
        with self._changed:
            if buffer.text.strip():
                self._queue.insert(0 if self._is_held else len(self._queue), buffer.text)
            self._is_held = False
            self._changed.notify_all()
        return False

    def _accept_reply(self, buffer: Buffer) -> bool:
        with self._changed:
            self._reply = buffer.text
            self._changed.notify_all()
        return False

    def _stop(self) -> None:
        """Interrupt the main thread. The queue then waits for Enter."""
        with self._changed:
            self._is_held = bool(self._queue)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _leave(self) -> None:
        with self._changed:
            if self._is_prompting or self._prompt.question:
                self._has_left = True
            else:
                self._queue.append("/exit")
            self._changed.notify_all()

    def _take_back(self) -> str:
        with self._changed:
            return self._queue.pop() if self._queue else ""

    def _expand(self) -> None:
        if self._is_in_turn or self._prompt.question:
            self._live.expand()
            self._uncover_question()
            return
        with self._changed:
            self._must_expand = True
            self._changed.notify_all()

    def _switch_mode(self) -> None:
        """Switch to the next mode. A question whose call runs without asking in it is answered by that."""
        mode = self._state.next_mode
        if self._live.is_asking and (key := self.find_answer_for(mode)):
            self._prompt.reply.text = key
            self._prompt.reply.validate_and_handle()
        else:
            self._state.switch_mode(mode)

    def _open_question(self, question: str, default: str) -> None:
        self._live.is_asking = self._live.was_asked = True
        self._asked_size = get_size()
        self._stop_ticking()
        self._prompt.question = question
        self._prompt.reply.text, self._prompt.reply.cursor_position = default, len(default)
        self._application.layout.focus(self._prompt.reply)
        self._application.invalidate()

    def _close_question(self) -> None:
        self._live.is_asking = False
        if self._is_in_turn:
            self._start_ticking()
        self._prompt.question = ""
        self._prompt.reply.reset()
        self._application.layout.focus(self._prompt.message)
        self._application.invalidate()

    # Drawing; in the application's thread

    def _make_container(self) -> HSplit:
        queued = FormattedTextControl(self._format_queue)
        status = FormattedTextControl(self._format_status)
        rows = [
            Window(ColouredLines(lambda: self._region), dont_extend_height=True),
            ConditionalContainer(Window(queued, dont_extend_height=True), Condition(lambda: bool(self._queue))),
            self._prompt.container,
            Window(status, height=1),
        ]
        return HSplit(rows, align=VerticalAlign.TOP)

    def _format_status(self) -> StyleAndTextTuples:
        line, mode = format_status_line(self._state, get_size()[0]), f"mode {self._state.mode}"
        return [(f"class:status.{self._state.mode}", mode), ("class:status", line.removeprefix(mode))]

    def _format_queue(self) -> StyleAndTextTuples:
        note = "queued, press Enter to send" if self._is_held else "queued"
        width = get_size()[0] - 1
        texts = [sanitize(text).replace("\n", " ⏎ ").replace("\t", " ") for text in self._queue[-MAX_QUEUED_LINES:]]
        return [("class:queued", "\n".join(truncate(f"  {note}: {text}", width) for text in texts))]

    def _begin_frame(self) -> None:
        """Write finished lines above the application, and take what of the turn is drawn in it."""
        self._output.begin_frame()
        columns, rows = get_size()
        if self._live.is_asking and (columns < self._asked_size[0] or rows < self._asked_size[1]):
            self._show_question_soon((columns, rows))
        above = self._live.take_above()
        if above or columns != self._drawn[0]:
            self._output.cursor_up(sum(-(-width // columns) - 1 for width in self._drawn[1] if width))
            self._application.renderer.erase()
            self._output.write_raw("".join(f"{line}\r\n" for line in above))
        typed = self._prompt.container.preferred_height(columns, rows).preferred
        self._region = self._live.render(rows - typed - min(len(self._queue), MAX_QUEUED_LINES) - 1)
        self._drawn = columns, [measure_width(line) for line in self._region]

    def _show_question_soon(self, size: tuple[int, int]) -> None:
        """Show the question for a smaller size, once that lasts: a terminal breaks lines that are too long for it."""
        self._asked_size = size
        if self._redraw:
            self._redraw.cancel()
        self._redraw = asyncio.get_running_loop().call_later(RESIZED_S, self._uncover_question)

    def _uncover_question(self) -> None:
        if self._live.is_asking:
            self._asked_size = get_size()
            self.show_question_again()

    def _write_above(self) -> None:
        for line in self._live.take_above():
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def _refresh(self) -> None:
        with self._suspension:  # else the prompt could be drawn before what this thread has taken
            if self._suspended:
                self._write_above()
                return
        self._application.invalidate()

    def _start_ticking(self) -> None:
        async def tick() -> None:
            while True:
                self._application.invalidate()
                await asyncio.sleep(min(max(MIN_FRAME_S, IDLE_FACTOR * self._output.frame_s), MAX_FRAME_S))

        self._stop_ticking()
        if not self._live.is_asking:  # nothing changes then
            self._ticking = self._application.create_background_task(tick())

    def _stop_ticking(self) -> None:
        if self._ticking:
            self._ticking.cancel()

    @contextlib.contextmanager
    def _defer_interrupts(self) -> Iterator[None]:
        """Let SIGINT wait until an event has been handled."""

        def interrupt(number: int, frame: FrameType | None) -> None:
            self._live.call_when_drawn(lambda: signal.default_int_handler(number, frame))

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
