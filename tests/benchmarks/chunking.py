"""Random texts about calls, parsed whole and in pieces: python -m tests.benchmarks.chunking [--minutes N] [--seed N]

A text is a few blocks of any row of the table, with names behind namespaces and decorations, whole or damaged, between
pieces of prose, Markdown and markers. It is read at once, one character at a time, and in random pieces; what differs is
printed, cut to the shortest text that still differs. Fails if any does.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

from src.parsing import Extraction, StreamParser, extract_tool_calls, gathered
from src.parsing.formats.envelopes import ENVELOPES, REASONING
from src.parsing.formats.table import FORMATS

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def describe_tool(name: str, required: tuple[str, ...] = (), **properties: object) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


TOOLS = (
    [
        describe_tool("read", ("path",), path=STRING),
        describe_tool("run", ("command",), command=STRING, timeout=INTEGER),
        describe_tool("get_weather", ("city",), city=STRING, unit={"type": ["string", "null"]}),
        describe_tool("call", x=STRING),
        describe_tool("list", items={"type": "array", "items": {"type": "object"}}),
    ],
    [
        describe_tool("fs.read_file", ("path",), path=STRING),
        describe_tool("server/tool", ("q",), q=STRING),
        describe_tool("a__b", x=INTEGER),
        describe_tool("mcp::do", x={}),
        describe_tool("invoke", o={"type": "object", "properties": {"k": STRING}}),
    ],
    [
        describe_tool("Bash", ("command",), command=STRING),
        describe_tool("web-search", ("query",), query=STRING),
        describe_tool("python", ("code",), code=STRING),
    ],
)
VALUES = (
    "a", "x y", "\n", "a\nb\n", '"q"', "null", "5", "{}", "[1, 2]", "</parameter>", "<tool_call>", "a, b: c", "\\n", "it's",
    "é", "`c`", "```\ncode\n```", "x</function>\ny", "TOOL_CALL: x", "|>", "<|", "a=b", "}", '\\"', "&amp;", 3, None, True,
    1.5, {"k": "v"}, ["a", {"b": 1}],
)  # fmt: skip
BEFORE_NAMES = (
    "functions.", "tools__", "default_api:", "tool/", "api::", "call:", "x.", "foo-to=", "to=functions.", "print(", "await ",
    "**", "`", "@", "a/b.",
)  # fmt: skip
BEHIND_NAMES = (":0", "()", ".call", "`", "**", ":", " ", "\n", " \n", "<|message|>")
GLUE = (
    "\n", "\n\n", " ", ".", ": ", "**", "- ", "1. ", "> ", "| ", "```\n", "```json\n", "````\n", "~~~\n", "`", '"', "'", "(",
    ")", "[", "]", "{", "}", "[[", "<", "<t", "<|", "<｜", "to=", "=", "Assistant: ", "Observation: ok\n", "Never write ",
    "I will call it.", "Then text goes on. ", '{"a": "', "Action: ", "name: ", "TOOL_CALL", "TOOL_CALL:", "tool call ", "<b>",
    "END_ARG", "```tool\n", " and more.", "\nand then\n", "\nis how it is.", "\n- next\n",
)  # fmt: skip
MARKERS = (
    *(marker for row in FORMATS for marker in (*row.openers, *row.closers)),
    *(marker for row in ENVELOPES for marker in row.markers),
    *(marker for pair in REASONING for marker in (pair.opener, pair.closer)),
)
SIZES = (1, 2, 3, 5, 8, 13, 40)


def write_block(source: random.Random, tools: list[dict[str, Any]]) -> str:
    """A call of one of the tools, in some format."""
    function = source.choice(tools)["function"]
    keys = [key for key in function["parameters"]["properties"] if source.random() < 0.85]
    name, arguments = function["name"], {key: source.choice(VALUES) for key in keys}
    if source.random() < 0.3:
        name = source.choice(BEFORE_NAMES) + name
    if source.random() < 0.2:
        name += source.choice(BEHIND_NAMES)
    kind = source.randrange(8)
    if kind == 0:
        return f"{name}{source.choice((' ', chr(10), ''))}{json.dumps(arguments)}"
    if kind == 1:
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
    return source.choice(FORMATS).write(name, arguments)


def damage(source: random.Random, text: str) -> str:
    at = source.randrange(len(text))
    end = at + source.choice((1, 2, 5, 12))
    return source.choice(
        (
            text[:at],
            text[at:],
            text[:at] + text[end:],
            text[:end] + text[at:],
            text[:at] + source.choice(GLUE) + text[at:],
            text[:at] + source.choice(MARKERS) + text[at:],
            text.replace("\n", "\n  "),
            " ".join(text.split()),
            text.replace('"', source.choice(("'", '\\"', "&quot;", "“"))),
        )
    )


def write_text(source: random.Random, tools: list[dict[str, Any]]) -> str:
    parts: list[str] = []
    for _ in range(source.choice((1, 1, 2, 2, 3, 4))):
        for _ in range(source.choice((0, 1, 1, 2, 3))):
            parts.append(source.choice(GLUE if source.random() < 0.75 else MARKERS))
        block = write_block(source, tools)
        parts.append(damage(source, block) if source.random() < 0.45 else block)
    parts += [source.choice(GLUE) for _ in range(source.randrange(3))]
    return "".join(parts)


def divide(source: random.Random, text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = source.choice(SIZES)
        yield text[at : at + size]
        at += size


def parse_pieces(pieces: Iterator[str] | str, tools: list[dict[str, Any]], *, previews: bool) -> Extraction:
    parser = StreamParser(tools, previews=previews)
    events = [event for piece in pieces for event in parser.feed(piece)]
    return gathered(events + parser.close())


def differs(text: str, tools: list[dict[str, Any]]) -> bool:
    """Whether some pieces of the text give something else than the whole."""
    whole, source = extract_tool_calls(text, tools), random.Random(text)
    if parse_pieces(text, tools, previews=False) != whole:
        return True
    return any(parse_pieces(divide(source, text), tools, previews=previews) != whole for previews in (False, True))


def shorten(text: str, tools: list[dict[str, Any]]) -> str:
    size = len(text) // 2
    while size:
        for at in range(0, len(text), size):
            if differs(shorter := text[:at] + text[at + size :], tools):
                text = shorter
                break
        else:
            size //= 2
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    end, count, found = time.monotonic() + 60 * options.minutes, 0, 0
    while time.monotonic() < end:
        source = random.Random(f"{options.seed} {count}")
        tools = source.choice(TOOLS)
        text = write_text(source, tools)
        count += 1
        if differs(text, tools):
            found += 1
            print(repr(shorten(text, tools)), flush=True)
    print(f"{count} texts, {found} differ by pieces")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
