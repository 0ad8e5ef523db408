"""OpenAI's Responses API over chat completions: the answer, whole or as events. Pure but for the clock.

Shapes and the order of events: vLLM 0.32, entrypoints/openai/responses.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...providers.wire_json import as_dict, as_dicts, as_str
from ...types.events import ReasoningDelta, TextDelta
from .call_order import CallOrder, Piece
from .responses_request import ToolNames, read_arguments, read_payload

_ECHOED: Mapping[str, Any] = {
    "instructions": None, "metadata": None, "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto",
    "tools": [], "top_p": 1.0, "background": False, "max_output_tokens": None, "max_tool_calls": None,
    "previous_response_id": None, "prompt": None, "reasoning": None, "service_tier": "auto", "text": None,
    "top_logprobs": None, "truncation": "disabled", "user": None, "presence_penalty": 0.0, "frequency_penalty": 0.0,
    "kv_transfer_params": None, "ec_transfer_params": None, "input_messages": None, "output_messages": None,
}  # fmt: skip

_TOOL_FIELDS = {
    "allowed_callers": None,
    "async": None,
    "defer_loading": None,
    "description": None,
    "output_schema": None,
}


class ResponseMaker:
    """Makes the response objects of one request. `new_id` makes the ends of ids."""

    def __init__(self, body: Mapping[str, Any], names: ToolNames, new_id: Callable[[], str]) -> None:
        self._body = body
        self._names = names
        self.new_id = new_id
        self._id = f"resp_{new_id()}"
        self.created: object = None  # when the server began, in seconds since 1970

    def make(self, status: str, output: list[dict[str, Any]], usage: object = None) -> dict[str, Any]:
        """The response object; `usage` is that of the chat completion."""
        echoed = {
            name: default if self._body.get(name) is None else self._body[name] for name, default in _ECHOED.items()
        }
        for name, default in _ECHOED.items():
            if isinstance(default, float) and isinstance(echoed[name], int):
                echoed[name] = float(echoed[name])  # as vLLM writes it
        echoed["tools"] = [
            _TOOL_FIELDS | tool if tool.get("type") == "function" else tool for tool in as_dicts(echoed["tools"])
        ]
        return {
            "id": self._id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "model": self._body.get("model"),
            "output": output,
            "usage": _convert_usage(usage),
            **echoed,
        }

    def convert_answer(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """The response for a whole chat completion."""
        self.created = answer.get("created")
        choice = as_dicts(answer.get("choices"))[0]
        message = as_dict(choice.get("message"))
        output: list[dict[str, Any]] = []
        if thought := message.get("reasoning") or message.get("reasoning_content"):
            output.append(make_reasoning(f"rs_{self.new_id()}", thought))
        if text := message.get("content"):
            output.append(make_message(f"msg_{self.new_id()}", text))
        for call in as_dicts(message.get("tool_calls")):
            function = as_dict(call.get("function"))
            arguments = as_str(function.get("arguments"))
            output.append(
                self.make_call(self.new_id(), as_str(call.get("id")), as_str(function.get("name")), arguments)
            )
        status = "incomplete" if choice.get("finish_reason") == "length" else "completed"
        return {**self.make(status, output, answer.get("usage")), "model": answer.get("model")}

    def make_call(
        self, id: str, call_id: str, function: str, arguments: str, status: str = "completed"
    ) -> dict[str, Any]:
        """The item for a call of a function: of that function, or of the tool that it stands for."""
        namespace, name = self._names.restore(function)
        item: dict[str, Any] = {"call_id": call_id, "name": name, "status": status, "namespace": namespace}
        if function in self._names.searches:
            fields = {"arguments": read_arguments(arguments), "call_id": call_id, "status": status}
            return {"type": "tool_search_call", "id": f"tsc_{id}", "execution": "client", **fields}
        if function in self._names.custom:
            return {"type": "custom_tool_call", "id": f"ctc_{id}", "input": read_payload(arguments), **item}
        return {
            "type": "function_call",
            "id": f"fc_{id}",
            "arguments": arguments,
            **item,
            "async": None,
            "caller": None,
        }

    def choose_kind(self, function: str) -> str:
        """See _PREFIXES."""
        if function in self._names.searches:
            return "search"
        return "custom" if function in self._names.custom else "call"


def make_message(id: str, text: str) -> dict[str, Any]:
    content = [make_text(text)]
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content, "phase": None}


def make_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": None}


def make_reasoning(id: str, text: str) -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "id": id, "summary": [], "content": content, "encrypted_content": None, "status": None}


_NO_INPUT_DETAILS: Mapping[str, Any] = {
    "cache_write_tokens": 0,
    "input_tokens_per_turn": [],
    "cached_tokens_per_turn": [],
}
_NO_OUTPUT_DETAILS: Mapping[str, Any] = {
    "tool_output_tokens": 0, "output_tokens_per_turn": [], "tool_output_tokens_per_turn": [],
}  # fmt: skip


def _convert_usage(usage: object) -> dict[str, Any] | None:
    if not isinstance(usage, dict):
        return None
    cached = as_dict(usage.get("prompt_tokens_details")).get("cached_tokens") or 0
    thoughts = as_dict(usage.get("completion_tokens_details")).get("reasoning_tokens") or 0
    return {
        "input_tokens": usage.get("prompt_tokens") or 0,
        "input_tokens_details": {"cached_tokens": cached, **_NO_INPUT_DETAILS},
        "output_tokens": usage.get("completion_tokens") or 0,
        "output_tokens_details": {"reasoning_tokens": thoughts, **_NO_OUTPUT_DETAILS},
        "total_tokens": usage.get("total_tokens") or 0,
    }


class ResponsesStream:
    """Chunks of a chat completion in, events of a response out."""

    def __init__(self, maker: ResponseMaker) -> None:
        self._maker = maker
        self._has_begun = False
        self._numbers = itertools.count()
        self._output: list[dict[str, Any]] = []  # items that are done
        self._item: _OpenItem | None = None
        self._order = CallOrder()
        self._usage: object = None
        self._status = "completed"

    def _begin(self, created: object) -> Iterator[dict[str, Any]]:
        """`created`: in seconds since 1970."""
        self._has_begun = True
        self._maker.created = created
        for kind in ("response.created", "response.in_progress"):
            yield self._describe(kind)

    def _describe(self, kind: str) -> dict[str, Any]:
        return self._number({"type": kind, "response": self._maker.make("in_progress", self._output)})

    def show_life(self) -> Iterator[dict[str, Any]]:
        """That the response is still in progress. Clients expect its beginning before all else."""
        if self._has_begun:
            yield self._describe("response.in_progress")
        else:
            yield from self._begin(int(time.time()))

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if not self._has_begun:
            yield from self._begin(chunk.get("created"))
        self._usage = chunk.get("usage") or self._usage
        for choice in as_dicts(chunk.get("choices")):
            for piece in self._order.feed(as_dict(choice.get("delta"))):
                yield from self._feed_piece(piece)
            if choice.get("finish_reason") == "length":
                self._status = "incomplete"

    def close(self) -> Iterator[dict[str, Any]]:
        """The events at the end."""
        for piece in self._order.close():
            yield from self._feed_piece(piece)
        yield from self._close_item()
        response = self._maker.make(self._status, self._output, self._usage)
        yield self._number({"type": f"response.{self._status}", "response": response})

    def fail(self, message: str, code: str) -> Iterator[dict[str, Any]]:
        """The events of a response that broke off."""
        response = self._maker.make("failed", self._output, self._usage)
        response["error"] = {"code": code, "message": message}
        yield self._number({"type": "response.failed", "response": response})

    def _number(self, event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "sequence_number": next(self._numbers)}

    def _feed_piece(self, piece: Piece) -> Iterator[dict[str, Any]]:
        if isinstance(piece, ReasoningDelta):
            yield from self._feed_text("reasoning", piece.text)
        elif isinstance(piece, TextDelta):
            yield from self._feed_text("message", piece.text)
        else:
            if piece.name:
                kind = self._maker.choose_kind(piece.name)
                yield from self._open_item(_OpenItem(kind, self._maker.new_id(), piece.id or "", piece.name))
            if piece.arguments_delta:
                yield from self._add(piece.arguments_delta)

    def _feed_text(self, kind: str, text: str) -> Iterator[dict[str, Any]]:
        if self._item is None or self._item.kind != kind:
            yield from self._open_item(_OpenItem(kind, self._maker.new_id()))
        yield from self._add(text)

    def _open_item(self, item: _OpenItem) -> Iterator[dict[str, Any]]:
        yield from self._close_item()
        self._item = item
        yield self._locate("response.output_item.added", item=self._make_item("in_progress"))
        if item.part is not None:
            part = {**item.part, **item.more}
            yield self._locate("response.content_part.added", item_id=item.id, content_index=0, part=part)

    def _add(self, text: str) -> Iterator[dict[str, Any]]:
        """A piece of the open item. The input of a custom tool or a search is JSON until it is whole, so it waits."""
        item = self._item
        assert item is not None  # noqa: S101 - callers open one
        item.pieces.append(text)
        if item.kind not in ("custom", "search"):
            place: dict[str, Any] = {} if item.part is None else {"content_index": 0}
            yield self._locate(f"{item.event}.delta", item_id=item.id, delta=text, **place, **item.more)

    def _close_item(self) -> Iterator[dict[str, Any]]:
        item = self._item
        if item is None:
            return
        text, done = "".join(item.pieces), self._make_item("completed")
        if item.part is not None:
            yield self._locate(f"{item.event}.done", item_id=item.id, content_index=0, text=text, **item.more)
            part = {**item.part, "text": text}
            yield self._locate("response.content_part.done", item_id=item.id, content_index=0, part=part)
        elif item.kind == "custom":
            yield self._locate(f"{item.event}.delta", item_id=item.id, delta=done["input"])
            yield self._locate(f"{item.event}.done", item_id=item.id, input=done["input"])
        elif item.kind == "call":
            yield self._locate(f"{item.event}.done", item_id=item.id, arguments=text, name=done["name"])
        yield self._locate("response.output_item.done", item=done)
        self._output.append(done)
        self._item = None

    def _locate(self, kind: str, **fields: Any) -> dict[str, Any]:
        return self._number({"type": kind, "output_index": len(self._output), **fields})

    def _make_item(self, status: str) -> dict[str, Any]:
        item = self._item
        assert item is not None  # noqa: S101 - callers open one
        text, is_done = "".join(item.pieces), status == "completed"
        if item.kind == "message":
            return {**make_message(item.id, text), "status": status, **({} if is_done else {"content": []})}
        if item.kind == "reasoning":
            changed = {"status": status, **({} if is_done else {"content": None})}
            return {**make_reasoning(item.id, text), **changed}
        return self._maker.make_call(item.suffix, item.call_id, item.function, text, status)


_PREFIXES = {"message": "msg", "reasoning": "rs", "call": "fc", "custom": "ctc", "search": "tsc"}
_EVENTS = {
    "message": "response.output_text",
    "reasoning": "response.reasoning_text",
    "call": "response.function_call_arguments",
    "custom": "response.custom_tool_call_input",
}
_TEXTS: Mapping[str, dict[str, Any]] = {"message": make_text(""), "reasoning": {"type": "reasoning_text", "text": ""}}


class _OpenItem:
    """An item of the output that is being written. `part`: the kind of content that its text is in.

    `more`: fields that each event of its text has.
    """

    def __init__(self, kind: str, suffix: str, call_id: str = "", function: str = "") -> None:
        self.kind = kind
        self.suffix = suffix
        self.id = f"{_PREFIXES[kind]}_{suffix}"
        self.call_id = call_id
        self.function = function
        self.event = _EVENTS.get(kind, "")
        self.part = _TEXTS.get(kind)
        self.more: dict[str, Any] = {}
        if kind == "message":
            self.more = {"logprobs": []}
        self.pieces: list[str] = []
