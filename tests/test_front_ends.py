"""The same answers through the program, the gateway and the vLLM plugin: one pipeline, three front ends.

What runs unasked is the same everywhere. The clients of the gateway and of the plugin get the same text. The program
holds a call that is doubtful, to ask about it or to tell the model; to clients, which cannot be asked, it is text.
One text in three is compared; `--hypothesis-profile many` compares all.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from src.negotiation import FactStore
from src.parsing.arguments.tool_index import ToolIndex
from src.parsing.events import is_safe
from src.parsing.formats.table import FORMATS
from src.parsing.landing.decisions import Hold, Landing, Mark, Show, WholeCall
from src.parsing.stream.parser import StreamParser
from src.serve.chat_request import ChatBody
from src.serve.chat_turn import ChatTurn, Payload
from src.serve.turn_options import TurnOptions
from src.transport.driver import drive
from src.types.events import Completed, TextDelta
from src.types.messages import MalformedCall, ToolCall, ToolDefinition, UserMessage
from src.vllm_plugin.call_stream import CallStream
from tests.doubles import ScriptedClient, make_model
from tests.sources import ROOT
from tests.thorough import sample

pytestmark = pytest.mark.thorough

SHARED = ROOT.parent / "shared"
STRING = {"type": "string"}
PIECE_CHARS = 7
LONG = "\n".join(f'line {number}: "quoted" \\ é' for number in range(20))


def make_tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


TOOLS = [
    make_tool("get_weather", city=STRING),
    make_tool("read", path=STRING),
    make_tool("write", path=STRING, content=STRING),
]


class Transcript:
    """Text and calls in the order in which a client gets them."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self._calls: dict[int, list[str]] = {}

    def add_text(self, text: str) -> None:
        if self.parts and isinstance(self.parts[-1], str):
            self.parts[-1] += text
        elif text:
            self.parts.append(text)

    def add_piece(self, index: int, name: str | None, arguments: str) -> None:
        if index not in self._calls:
            self._calls[index] = ["", ""]
            self.parts.append(self._calls[index])
        self._calls[index][0] += name or ""
        self._calls[index][1] += arguments

    def read(self) -> list[Any]:
        """The words of each text, and the name and arguments of each call."""
        words = [part.split() if isinstance(part, str) else (part[0], json.loads(part[1])) for part in self.parts]
        return [part for part in words if part]


class ProgramOutcome(NamedTuple):
    """`marked`: how many calls are asked about; `malformed`: how many the model is told of."""

    text: str
    calls: list[tuple[str, Any]]
    marked: int
    malformed: int


def list_deltas(text: str) -> list[dict[str, Any]]:
    pieces = [{"content": text[at : at + PIECE_CHARS]} for at in range(0, len(text), PIECE_CHARS)]
    return [*pieces, {"finish": "stop"}]


def new_ids() -> Iterator[str]:
    return (f"{number:09d}" for number in itertools.count())


def run_program(deltas: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]]) -> ProgramOutcome:
    ids = new_ids()
    model = make_model(ScriptedClient(deltas), "tiny", new_id=lambda: next(ids))
    functions = [tool["function"] for tool in tools]
    offered = [ToolDefinition(each["name"], each["description"], each["parameters"]) for each in functions]
    events = list(model.respond([UserMessage("Do it.")], offered))
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    content = next(event for event in events if isinstance(event, Completed)).response.content
    calls = [block for block in content if isinstance(block, ToolCall)]
    safe = [(call.name, call.arguments) for call in calls if is_safe(call)]
    malformed = sum(isinstance(block, MalformedCall) for block in content)
    return ProgramOutcome(shown, safe, len(calls) - len(safe), malformed)


def run_gateway(deltas: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[Any]:
    ids = new_ids()
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Do it."}], "tools": tools, "stream": True}
    turn = ChatTurn("http://scripted/v1", FactStore(), ChatBody(body), lambda: next(ids), TurnOptions(repair_turns=0))
    transcript = Transcript()
    for output in drive(turn.run(), ScriptedClient(deltas)):
        assert isinstance(output, Payload)
        for data in output.events:
            choices = json.loads(data)["choices"] if data != b"[DONE]" else []
            for choice in choices:
                transcript.add_text(choice["delta"].get("content") or "")
                for piece in choice["delta"].get("tool_calls") or ():
                    function = piece["function"]
                    transcript.add_piece(piece["index"], function.get("name"), function.get("arguments") or "")
    return transcript.read()


def run_plugin(deltas: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[Any]:
    ids = new_ids()
    stream = CallStream(tools, lambda: next(ids))
    transcript = Transcript()
    for delta in [delta for each in deltas for delta in stream.feed(each.get("content", ""))] + stream.close():
        if isinstance(delta, TextDelta):
            transcript.add_text(delta.text)
        else:
            transcript.add_piece(delta.call_index, delta.name, delta.arguments_delta)
    return transcript.read()


class Decided(NamedTuple):
    """`shown`: the words of the text without thoughts; `held`: whether a block is no safe call.

    `given`: what a client gets, which is not asked.
    """

    shown: list[str]
    calls: list[tuple[str, Any]]
    held: bool
    given: list[Any]


def decide(text: str, tools: Sequence[Mapping[str, Any]], *, is_cut: bool) -> Decided:
    """What is decided of the whole text. `is_cut`: a block at the end that is open is no call."""
    index = ToolIndex(tools)
    parser = StreamParser(index)
    landing = Landing(parser, index, waits="all")
    events = [*parser.feed(text), *parser.close(truncated=is_cut)]
    decisions = [decision for event in events for decision in landing.decide(event)] + landing.close()
    shown, transcript, calls = "", Transcript(), list[tuple[str, Any]]()
    for decision in decisions:
        if isinstance(decision, Show):
            shown += "" if decision.is_thought else decision.text
            transcript.add_text(decision.text)
        elif isinstance(decision, (Mark, Hold)):
            transcript.add_text(decision.raw)
        elif isinstance(decision, WholeCall):
            call = decision.call
            calls.append((call.name, call.arguments))
            transcript.add_piece(len(calls), call.name, json.dumps(call.arguments))
    return Decided(shown.split(), calls, any(isinstance(each, Hold) for each in decisions), transcript.read())


def compare(text: str, tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the three front ends differ from what is decided of the whole text.

    vLLM does not tell the plugin whether the answer was cut off, so that an open block is text there.
    """
    deltas = list_deltas(text)
    whole, open_is_text = (decide(text, tools, is_cut=is_cut) for is_cut in (False, True))
    program = run_program(deltas, tools)
    pairs = {
        "calls of the program": (program.calls, whole.calls),
        "text of the program": (program.text.split(), whole.shown),
        "marks of the program": (program.marked + program.malformed > 0, whole.held),
        "gateway": (run_gateway(deltas, tools), whole.given),
        "plugin": (run_plugin(deltas, tools), open_is_text.given),
    }
    return [f"{text!r}: {what}: {got}, decided {wanted}" for what, (got, wanted) in pairs.items() if got != wanted]


def compare_all(texts: list[str], tools: Sequence[Mapping[str, Any]] = TOOLS) -> None:
    different = [each for text in sample(texts, 3) for each in compare(text, tools)]
    assert not different, "\n".join(different)


WRITTEN = [row for row in FORMATS if row.opener]


def test_a_call_in_each_format_lands_the_same():
    compare_all([f"I look.\n{row.example}" for row in FORMATS])


def test_a_long_call_in_each_format_that_leaves_while_it_is_written_lands_the_same():
    compare_all([f"I write.\n{row.write('write', {'path': 'a.txt', 'content': LONG})}" for row in FORMATS])


def test_two_calls_and_the_text_behind_them_land_the_same():
    calls = [("read", {"path": "a.txt"}), ("get_weather", {"city": "Oslo"})]
    compare_all(["\n".join(row.write(*call) for call in calls) + "\nDone." for row in FORMATS])


def test_a_call_that_breaks_off_lands_the_same():
    compare_all([row.write("read", {"path": "a.txt"})[:-9] for row in WRITTEN])


def read_rows(name: str) -> list[dict[str, Any]]:
    folder = SHARED / "corpus"
    if not folder.exists():
        pytest.skip("needs ../shared/corpus")
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", ["false_calls", "damaged_calls"])
def test_texts_about_calls_and_damaged_calls_land_the_same(name):
    rows = read_rows(name)
    tools = json.loads((SHARED / "corpus" / "marks_tools.json").read_text(encoding="utf-8"))[name]
    compare_all([row["text"] for row in rows], tools)
