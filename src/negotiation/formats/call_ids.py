"""The ids of calls by a model's own rule: some chat templates print them, and the model was trained on such ids. Pure.

Kimi K2 counts the calls of a conversation in their ids, and loses its way where they are others. Most models never see
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from ...parsing.formats.table import FORMATS
from ...providers.wire_json import as_dict, as_dicts, as_str
from ...types.caching import count_shared
from ...types.messages import MalformedCall, Message, Response, ToolCall, ToolResults
from .structural_tags import find_format
from .written_format import guess_format


@lru_cache(maxsize=64)
def find_id_rule(written: str, model: str) -> str:
    """How a model names its calls: by the format that it writes, else by its name; empty if any id will do."""
    if find_format(written) is None:
        written = guess_format(model)
    return next((row.call_id for row in FORMATS if row.name == written), "")


class CallNumberer:
    """Names the calls of a conversation that grows. What was named before keeps its object."""

    def __init__(self) -> None:
        self._rule = ""
        self._sources: list[Message] = []
        self._named: list[Message] = []
        self._counts: list[int] = []  # of calls up to each message
        self._names: list[Mapping[str, str]] = []  # of the last answer's calls, by their ids, at each message

    def __call__(self, messages: Sequence[Message], written: str, model: str) -> Sequence[Message]:
        """`written` and `model` as in find_id_rule: it is not asked before there is an answer, which may hold calls."""
        if not any(isinstance(each, Response) for each in messages):
            return messages
        rule = find_id_rule(written, model)
        if not rule:
            return messages
        shared = count_shared(self._sources, messages) if rule == self._rule else 0
        self._rule = rule
        for each in (self._sources, self._named, self._counts, self._names):
            del each[shared:]
        for message in messages[shared:]:
            self._add(message)
        return self._named

    def _add(self, message: Message) -> None:
        count, names = (self._counts[-1], self._names[-1]) if self._sources else (0, {})
        named = message
        if isinstance(message, Response) and message.requested_calls:
            names, content = {}, list[Any]()
            for block in message.content:
                if isinstance(block, (ToolCall, MalformedCall)):
                    names[block.id] = id = self._rule.format(name=block.name, index=count)
                    block = replace(block, id=id)
                    count += 1
                content.append(block)
            named = replace(message, content=tuple(content))
        elif isinstance(message, ToolResults):
            results = [
                replace(each, tool_call_id=names.get(each.tool_call_id, each.tool_call_id)) for each in message.results
            ]
            named = ToolResults(tuple(results))
        self._sources.append(message)
        self._named.append(message if named == message else named)
        self._counts.append(count)
        self._names.append(names)


def name_chat_calls(messages: Sequence[dict[str, Any]], rule: str) -> Sequence[dict[str, Any]]:
    """The same for the messages of a chat completion."""
    if not rule:
        return messages
    named: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    count = 0
    for message in messages:
        if calls := as_dicts(message.get("tool_calls")):
            functions = [as_str(as_dict(call.get("function")).get("name")) for call in calls]
            ids = [rule.format(name=name, index=count + place) for place, name in enumerate(functions)]
            names, count = dict(zip((as_str(call.get("id")) for call in calls), ids, strict=True)), count + len(ids)
            renamed = [{**call, "id": id} for call, id in zip(calls, ids, strict=True)]
            named.append({**message, "tool_calls": renamed})
        elif (id := message.get("tool_call_id")) in names:
            named.append({**message, "tool_call_id": names[id]})
        else:
            named.append(message)
    return named
