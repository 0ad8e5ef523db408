"""A client's history as the server and its chat template read it: thoughts under the server's name, system messages in
their place. Pure.

A message is changed by itself, or with the one before it, and always in the same way: so a request begins with what the
request before it was, and the server's prefix cache holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, takewhile
from typing import Any, cast

from msgspec import Struct

from ...providers.wire_json import as_str
from ...types.lazy_pattern import LazyPattern
from ...types.messages import JSON
from ..call_gap import ends_in_blanks

SYSTEM_ROLES = ("system", "developer")
# Clients that speak to models without late system messages write them like that themselves.
LATE_SYSTEM = "<system-reminder>\n{text}\n</system-reminder>"
_INLINE_THOUGHT = LazyPattern(r"\s*<think>(.*?)</think>\s*", re.DOTALL)


def is_system(message: Mapping[str, Any]) -> bool:
    return message.get("role") in SYSTEM_ROLES


def has_wire_gap(message: Mapping[str, Any]) -> bool:
    """Whether an answer has text that ends in blanks, and calls."""
    return bool(message.get("tool_calls")) and ends_in_blanks(message.get("content"))


def has_inline_thought(message: Mapping[str, Any]) -> bool:
    """Whether an answer begins with a thought in its text, as clients keep it that know no field for one."""
    return message.get("role") == "assistant" and bool(_INLINE_THOUGHT.match(as_str(message.get("content"))))


def name_thoughts(message: dict[str, Any], *, moves_inline: bool) -> dict[str, Any]:
    """The message with its thought as `reasoning`, the only name that vLLM reads.

    `moves_inline`: a thought in the text is moved there; a template that shows no thoughts would lose it.
    """
    if message.get("role") != "assistant" or message.get("reasoning"):
        return message
    if isinstance(thought := message.get("reasoning_content"), str) and thought:
        return {**message, "reasoning": thought}
    if not moves_inline or not has_inline_thought(message):
        return message
    before, thought, rest = _INLINE_THOUGHT.split(message["content"], maxsplit=1)
    named = {**message, "content": before + rest}
    if thought.strip():
        named["reasoning"] = thought.strip()
    return named


def place_late_system(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """System messages at the beginning as one; each later one in a fixed wrapper, at the end of the message before it.
    A history with one system message, or none, stays as it is; `developer` is a younger name of the role.

    Only user messages and results of tools take one. Behind an answer it becomes a message of the user, since many
    templates forget the thoughts before such a message; behind calls it waits for their results.
    """
    heads = list(takewhile(is_system, messages))
    placed: list[_Placed] = []
    if heads:
        content = join_contents(*(message.get("content") for message in heads))
        placed.append(_Placed({**heads[0], "role": "system", "content": content}, []))
    waiting: list[JSON] = []
    for message in messages[len(heads) :]:
        if not is_system(message):
            placed.append(_Placed(message, []))
            if placed[-1].takes_more:
                placed[-1].behind.extend(waiting)
                waiting = []
        elif placed[-1].takes_more:
            placed[-1].behind.append(_wrap(message.get("content")))
        elif placed[-1].message.get("tool_calls"):
            waiting.append(_wrap(message.get("content")))
        else:
            placed.append(_Placed({"role": "user", "content": _wrap(message.get("content"))}, []))
    return [*(each.join() for each in placed), *({"role": "user", "content": text} for text in waiting)]


class _Placed(Struct, frozen=True):
    """A message, and what stands behind its content. It is joined once: a client sends any number."""

    message: dict[str, Any]
    behind: list[JSON]

    @property
    def takes_more(self) -> bool:
        return self.message.get("role") in ("user", "tool")

    def join(self) -> dict[str, Any]:
        return add_content(self.message, *self.behind) if self.behind else self.message


def add_content(message: dict[str, Any], *texts: JSON) -> dict[str, Any]:
    """The message with more at its end."""
    return {**message, "content": join_contents(message.get("content"), *texts)}


def _wrap(content: object) -> JSON:
    if isinstance(content, str):
        return LATE_SYSTEM.format(text=content)
    if not isinstance(content, list):
        return ""
    parts: list[JSON] = []
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            part = {**part, "text": LATE_SYSTEM.format(text=part["text"])}
        parts.append(part)
    return parts


def join_contents(*contents: Any) -> JSON:
    """Contents as one: a string if all are, else a list of parts. In linear time: a client sends any number."""
    filled = [content for content in contents if content]
    texts = list(takewhile(lambda content: isinstance(content, str), filled))
    if len(texts) == len(filled):
        return "\n\n".join(texts)
    if len(filled) == 1:
        return cast("JSON", filled[0])
    return [*_list_parts("\n\n".join(texts)), *chain(*map(_list_parts, filled[len(texts) :]))]


def _list_parts(content: Any) -> Iterator[JSON]:
    if isinstance(content, list):
        yield from content
    elif isinstance(content, str) and content:
        yield {"type": "text", "text": content}
