"""What drawing an answer costs a chunk, and that it is linear; beside rich's Live(Markdown) of all so far.

    python tests/benchmarks/render.py

The text is Markdown of every kind, streamed in chunks of about a token, to a terminal of 100 columns that takes
everything at once. "at once" is as fast as it can be drawn; "paced" lets a clock of the test's own pass 20 ms a chunk,
as a model at 50 tokens a second does, so that each frame is drawn. Costs are CPU of the process, the least of three.
Exits with 1 where a goal is missed.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from src.cli.chat.input.application import IDLE_FACTOR, MIN_FRAME_S
from src.cli.render.live import LiveScreen
from src.cli.render.markdown import MarkdownRenderer
from src.types.events import ReasoningDelta, TextDelta

GOAL = 50.0  # us a chunk, in the mean
GROWTH = 1.5  # and at 100 KB no more than this times what it is at 10 KB
CHUNK = 4  # characters
PACE = 0.02  # seconds
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


def ours(pieces: list[str], pace: float | None, kind: type[TextDelta] | type[ReasoningDelta] = TextDelta) -> float:
    """us a chunk; `pace`: seconds that pass between chunks, None: as it goes."""
    passed = [0.0]
    clock = time.perf_counter if pace is None else lambda: passed[0]
    live = LiveScreen(lambda: (100, 30), lambda: MarkdownRenderer("256"), clock=clock)
    live.begin()
    due = 0.0
    start = time.process_time()
    for piece in pieces:
        passed[0] += pace or 0
        live.draw(kind(piece))
        if clock() >= due:  # as the application does
            began = clock()
            live.take_above()
            live.render(30)
            due = clock() + max(MIN_FRAME_S, IDLE_FACTOR * (clock() - began))
    live.end()
    live.take_above()
    return (time.process_time() - start) / len(pieces) * 1e6


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
    ours(chunks(2_000), None)  # once unmeasured: lexers are loaded
    print(f"{'':>10} {'at once':>12} {'paced':>12} {'rich Live(Markdown)':>20}   us a chunk of {CHUNK} characters")
    once: list[float] = []
    paced: list[float] = []
    for name, pieces, kind in [
        *((f"{size:,}", chunks(size), TextDelta) for size in SIZES),
        ("code", cut(CODE.read_text(), "```python\n"), TextDelta),
        ("a thought", cut(SECTION.replace("\n", " ") * 20), ReasoningDelta),
    ]:
        once.append(min(ours(pieces, None, kind) for _ in range(3)))
        paced.append(min(ours(pieces, PACE, kind) for _ in range(3)))
        print(f"{name:>10} {once[-1]:12.1f} {paced[-1]:12.1f} {rich_live(pieces, 5):20,.0f}", flush=True)
    missed = max(once + paced) > GOAL or once[len(SIZES) - 1] > GROWTH * once[0]
    print(f"goals: {GOAL:g} us, at {SIZES[-1]:,} {GROWTH:g} times {SIZES[0]:,}{': MISSED' if missed else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
