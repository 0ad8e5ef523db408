"""A server whose model answers the cases of an eval rightly, in a style of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from src.cli.demo.loopback import JSON, STREAM, LoopbackReply, LoopbackRequest, serve
from tests.doubles import is_chat, stream_event

# native: the server returns calls; leaking: it takes tools, and its parser reads none; refusing: it takes no tools; busy: it
# has no time for native calls; overloaded: it has none for any request.
Style = Literal["native", "leaking", "refusing", "busy", "overloaded"]
NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
CASES = """\
tools:
  look: {description: Looks., parameters: {type: object, properties: {at: {type: string}}, required: [at]}}
cases:
"""


def write_cases(path: Path, count: int = 12) -> Path:
    rows = [f"- {{id: case-{n}, ask: Look at {n}., expect: [{{look: {{at: '{n}'}}}}]}}\n" for n in range(count)]
    path.write_text(CASES + "".join(rows))
    return path


class Answers:
    """`wrong`: the numbers of the cases that get another call than expected."""

    def __init__(self, style: Style, wrong: frozenset[int] = frozenset()) -> None:
        self.style = style
        self.wrong = wrong
        self.chats: list[dict] = []

    def __call__(self, asked: LoopbackRequest) -> LoopbackReply:
        if asked.method == "GET" and asked.path.endswith("/models"):
            return reply(200, {"data": [{"id": "tiny", "root": "someone/tiny"}]})
        if asked.method == "GET" or not is_chat(asked.path):
            return reply(404, {"detail": "Not Found"})
        body = json.loads(asked.body)
        self.chats.append(body)
        if self.style == "refusing" and body.get("tools"):
            return reply(400, {"error": {"message": NO_PARSER}})
        is_native = bool(body.get("tools")) and body.get("tool_choice") != "none"
        if self.style == "overloaded" or (self.style == "busy" and is_native):
            return reply(429, {"error": {"message": "Too many requests"}})
        at = body["messages"][-1]["content"].removeprefix("Look at ").rstrip(".")
        arguments = {"at": "elsewhere" if int(at) in self.wrong else at}
        delta = self.answer(arguments, is_native=is_native)
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 50}}
        if not body.get("stream"):
            message = {"role": "assistant", **{key: value for key, value in delta.items() if key != "finish"}}
            choice = {"index": 0, "message": message, "finish_reason": delta["finish"]}
            return reply(200, {"model": "tiny", "choices": [choice], "usage": usage})
        events = [stream_event(delta), stream_event({"usage": usage}), b"data: [DONE]\n\n"]
        return LoopbackReply(200, STREAM, [b"".join(events)])

    def answer(self, arguments: dict, *, is_native: bool) -> dict:
        if is_native and self.style == "native":
            call = {"index": 0, "id": "abcdefghi", "type": "function"}
            call["function"] = {"name": "look", "arguments": json.dumps(arguments)}
            return {"tool_calls": [call], "finish": "tool_calls"}
        if is_native:
            call_text = f"<tool_call>\n<function=look>\n<parameter=at>\n{arguments['at']}\n</parameter>\n</function>\n</tool_call>"
            return {"content": call_text, "finish": "stop"}
        return {"content": f"TOOL_CALL: {json.dumps({'name': 'look', 'args': arguments})}", "finish": "stop"}


def reply(status: int, value: object) -> LoopbackReply:
    return LoopbackReply(status, JSON, [json.dumps(value).encode()])


@contextmanager
def open_model(style: Style = "native", wrong: frozenset[int] = frozenset()) -> Iterator[tuple[str, Answers]]:
    """Yields the server's address, and what was asked."""
    answers = Answers(style, wrong)
    with serve(answers) as url:
        yield f"{url}/v1", answers
