"""How early a call in the text leaves, for each row of the table of formats: python -m tests.benchmarks.landing

A call that writes a file arrives one character at a time. Counted in characters of the model's text:

- name: from the end of the tool's name to the sign that the call has begun.
- first: from the first character of a value to its first piece.
- lag: the most of a value that the client did not have while it was written, but for its beginning.
- last: from the last character of a value to its last piece.

A row is "held" if its call comes as a whole, at its end or at that of the answer. `path` is short and comes first, so
that it waits for the proof that the call is no echo. Exits with 1 if something left that the whole call does not have.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any, NamedTuple

from src.parsing import GivenText, StreamParser
from src.parsing.arguments.tool_index import ToolIndex
from src.parsing.classify import make_id_source
from src.parsing.formats.table import FORMATS
from src.parsing.landing.decisions import CallBegins, CallEnds, CallPiece, Landing, WholeCall
from src.types.messages import JSON, ToolDefinition

STRING = {"type": "string"}
WRITE = ToolDefinition(
    "write_file",
    "Write a file.",
    {"type": "object", "properties": {"path": STRING, "content": STRING}, "required": ["path", "content"]},
)
CONTENT = (
    "".join(f"<li class='c{n}'>row {n}: if a < {n} and b > {n}: total += {n} * 3</li>\n" for n in range(30)) + "end"
)
ARGUMENTS: dict[str, JSON] = {"path": "src/pages/list.html", "content": CONTENT}


class Seen(NamedTuple):
    """After `at` characters of the model's text, the client has `arguments` of the call, as JSON text."""

    at: int
    arguments: str


def watch(text: str) -> tuple[list[Seen], Any]:
    """What the client has of the arguments after each character that brought some, and the call as it ended."""
    index = ToolIndex([WRITE])
    given = [GivenText("Nothing of the kind stands in this result.")]
    parser = StreamParser(index, new_id=make_id_source(), given=given, previews=True)
    landing = Landing(parser, index, given)
    seen, sent, ended = list[Seen](), "", None
    pieces = [*text, None]
    for at, piece in enumerate(pieces, 1):
        events = parser.close() if piece is None else parser.feed(piece)
        decisions = [decision for event in events for decision in landing.decide(event)]
        decisions += landing.close() if piece is None else []
        for decision in decisions:
            if isinstance(decision, CallPiece):
                sent += decision.arguments
                seen.append(Seen(at, sent))
            elif isinstance(decision, CallBegins):
                seen.append(Seen(at, ""))
            elif isinstance(decision, (CallEnds, WholeCall)):
                ended = decision
    return seen, ended


def measure(text: str) -> str:
    """The cells of one row."""
    seen, ended = watch(text)
    if ended is None:
        return "not read as a safe call"
    if isinstance(ended, WholeCall):
        return "held"
    if json.loads(seen[-1].arguments) != ended.call.arguments:
        raise SystemExit("What left is not what the call has.")
    name = seen[0].at - (text.index(WRITE.name) + len(WRITE.name))
    return " | ".join([f"{name:5d}", *(measure_value(text, seen, key) for key in ARGUMENTS)])


def measure_value(text: str, seen: list[Seen], key: str) -> str:
    written = json.dumps(ARGUMENTS[key], ensure_ascii=False)[1:-1]
    plain = str(ARGUMENTS[key])
    raw = plain if plain in text else written
    if raw not in text:
        return "written otherwise"
    start = text.index(raw)
    sizes = [(each.at - start, count_of(each.arguments, key, written)) for each in seen]
    sizes = [(at, size) for at, size in sizes if size]
    first, last = sizes[0][0], next(at for at, size in sizes if size == len(written))
    gaps = [after - before for (before, _), (after, _) in itertools.pairwise(sizes) if after <= len(raw)]
    return f"{first:5d} {max(gaps, default=0):4d} {last - len(raw):5d}"


def count_of(arguments: str, key: str, written: str) -> int:
    """How many characters of the value have left, as they stand in JSON."""
    head = f'{json.dumps(key)}: "'
    if head not in arguments:
        return 0
    sent = arguments[arguments.index(head) + len(head) :]
    return len(written) if sent.startswith(written) else len(sent)


def main() -> None:
    print(f"{'format':20} |  name | path: first, lag, last | content: first, lag, last")
    rows = [(row.name, measure(row.write(WRITE.name, ARGUMENTS))) for row in FORMATS]
    for name, cells in rows:
        print(f"{name:20} | {cells}")
    held = sum(cells == "held" for _, cells in rows)
    print(f"\n{len(rows)} rows, {held} held")


if __name__ == "__main__":
    sys.exit(main())
