"""What drawing an answer costs a delta, and that it is linear.

    python tests/benchmarks/render.py

The text is Markdown of every kind, in deltas of about a token. "at once" is LiveScreen alone, as fast as it can be fed,
beside rich's Live(Markdown) of all so far. "live" is the application of the chat in a terminal of 100 columns that
takes everything: 2,000 deltas a second while a command prints 50 lines a second, after so many characters of the same
answer. Costs are CPU of the process, the least of three. Exits with 1 where a goal is missed.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import struct
import sys
import termios
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from src.cli.chat.full_chat import make_live_screen
from src.cli.chat.input.application import IDLE_FACTOR, MIN_FRAME_S, ChatApplication
from src.cli.chat.state import State
from src.cli.render.activity import RunningCall
from src.cli.render.live import LiveScreen
from src.cli.render.markdown import MarkdownRenderer
from src.cli.tracing.debug import Debug
from src.config import Settings
from src.types.events import ReasoningDelta, TextDelta
from src.types.messages import ToolCall

GOAL = 50.0  # us a delta
GROWTH = 1.5  # and at the largest size no more than this times what it is at the smallest
RATE, LINE_RATE = 2_000, 50  # deltas and lines of a command a second
LIVE_S = 3.0  # for so long
LIVE_SIZES = (0, 100_000, 1_000_000)
CHUNK = 4  # characters
CODE = Path(__file__).resolve().parents[2] / "src/cli/render/live.py"
SIZES = (10_000, 20_000, 50_000, 100_000)
SECTION = """\
## Part {n}

A paragraph with **bold** words, some `code`, a [link](http://example.org/{n}) and enough text to fill more than one
line of the terminal, as paragraphs in answers do. 日本語の文も少し入れておく。

- one item
- another item, with *emphasis*
  - and one below it

```python
def part_{n}(x: int) -> str:
    # a comment
    return f"part {{x + {n}}}"
```

| name | value |
|---|---|
| part | {n} |

"""


def chunks(size: int) -> list[str]:
    return cut("".join(SECTION.format(n=n) for n in range(size // len(SECTION) + 1))[:size])


def cut(text: str, before: str = "") -> list[str]:
    text = before + text
    return [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]


def draw_at_once(pieces: list[str], kind: type[TextDelta] | type[ReasoningDelta] = TextDelta) -> float:
    """us a delta."""
    live = LiveScreen(lambda: (100, 30), lambda colours: MarkdownRenderer("256", colours))
    live.begin()
    due = 0.0
    start = time.process_time()
    for piece in pieces:
        live.draw(kind(piece))
        if (began := time.perf_counter()) >= due:  # as the application does
            live.take_above()
            live.render(30)
            due = time.perf_counter() + max(MIN_FRAME_S, IDLE_FACTOR * (time.perf_counter() - began))
    live.end()
    live.take_above()
    return (time.process_time() - start) / len(pieces) * 1e6


def draw_live(size: int) -> float:
    """us a delta, in a child whose terminal this process reads."""
    child, terminal = pty.fork()
    if child == 0:
        print(f"cost {_draw_in_application(size):.3f}", flush=True)
        os._exit(0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    end = b""
    with contextlib.suppress(OSError):  # the child has ended
        while data := os.read(terminal, 1 << 16):
            end = (end + data)[-1000:]
    os.waitpid(child, 0)
    return float(end.rpartition(b"cost ")[2].split()[0])


def _draw_in_application(size: int) -> float:
    live = make_live_screen()
    state = State(Settings(), live, Debug(0), lambda _: None, "tiny")  # type: ignore[arg-type, return-value]
    application = ChatApplication(state, live, None)
    pieces = chunks(size + CHUNK * int(RATE * LIVE_S) + 1)
    before = size // CHUNK
    call = ToolCall("c", "exec", {"command": "make"})
    for piece in pieces[:before]:
        live.draw(TextDelta(piece))
    live.take_above()
    with application.run(), application.turn():
        time.sleep(0.5)
        live._running["c"] = RunningCall(call, 0.0)  # beside the answer, as a background command of the chat
        start, began = time.process_time(), time.perf_counter()
        count = 0
        while (passed := time.perf_counter() - began) < LIVE_S:
            due = int(passed * RATE)
            for piece in pieces[before + count : before + due]:
                live.draw(TextDelta(piece))
            if int(passed * LINE_RATE) > int(count / RATE * LINE_RATE):
                live.show_output("c", f"compiling part {count} of the program, as compilers do\n")
            count = due
            time.sleep(0.005)
        return (time.process_time() - start) / count * 1e6


def rich_live(pieces: list[str], most: int) -> float:
    """us a chunk: everything that came so far, drawn again for each of the last chunks."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    start = time.process_time()
    for count in range(len(pieces) - most, len(pieces)):
        console.print(Markdown("".join(pieces[:count])))
    return (time.process_time() - start) / most * 1e6


def main() -> int:
    draw_at_once(chunks(2_000))  # once unmeasured: lexers are loaded
    print(f"{'':>10} {'at once':>12} {'rich Live(Markdown)':>20}   us a delta of {CHUNK} characters")
    once: list[float] = []
    for name, pieces, kind in [
        *((f"{size:,}", chunks(size), TextDelta) for size in SIZES),
        ("code", cut(CODE.read_text(), "```python\n"), TextDelta),
        ("a thought", cut(SECTION.replace("\n", " ") * 20), ReasoningDelta),
    ]:
        once.append(min(draw_at_once(pieces, kind) for _ in range(3)))
        print(f"{name:>10} {once[-1]:12.1f} {rich_live(pieces, 5):20,.0f}", flush=True)
    live = []
    for size in LIVE_SIZES:
        live.append(min(draw_live(size) for _ in range(3)))
        print(f"{size:>10,} {live[-1]:12.1f}   live, {RATE:,} deltas and {LINE_RATE} lines a second", flush=True)
    is_linear = once[len(SIZES) - 1] <= GROWTH * once[0] and live[-1] <= GROWTH * live[0]
    missed = max(once + live) > GOAL or not is_linear
    print(f"goals: {GOAL:g} us, {GROWTH:g} times from the smallest to the largest{': MISSED' if missed else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
