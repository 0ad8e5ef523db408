"""What a refusal of the server changes: for this request at once, for others only with proof. Sans-IO.

A refusal may quote what the client sent, or be about it. So the server is asked once more, where it refused, with a
request of our own that has what the client's has, such as a system message, but ordinary words, tools and roles. Only
what it refuses of that one too is a fact about the server. The client's own request goes on all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

from msgspec.structs import replace

from ..errors import ContentRejected, ServerError, TemplateRejected, ToolsUnsupported
from ..negotiation.call_path import CallPath
from ..negotiation.downgrade import choose_downgrade
from ..negotiation.evidence import probe_template
from ..negotiation.formats.written_format import PROBE_TOOL
from ..negotiation.history.messages import is_system
from ..negotiation.server import ServerApi, read_refusal
from ..types.effects import Aside, Fetch
from ..types.messages import Named
from ..types.tool_schema import to_openai_tool
from .chat_request import ChatBody

_WORDS = "Hello."
_CALL_ID = "000000001"  # of a form that all templates take
_CALL = {
    "id": _CALL_ID,
    "type": "function",
    "function": {"name": PROBE_TOOL.name, "arguments": '{"city": "Oslo"}'},
}


class Refusals:
    """Of one request. `send`: sends a body to where that was refused. `server`: to be asked about other prompts.

    `constrained`: see TurnOptions. `are_proven`: the server refuses a request of ours for the same reasons, so that
    others may rely on them.
    """

    def __init__(
        self, request: ChatBody, server: ServerApi, send: Callable[[Mapping[str, Any]], Fetch], constrained: str
    ) -> None:
        self._constrained = constrained
        self.are_proven = True
        self._request = request
        self._server = server
        self._send = send

    def downgrade(
        self, path: CallPath, refusal: ServerError, optional: Set[str], without: Set[str] = frozenset()
    ) -> Aside[CallPath]:
        """The path without what was refused. Raises the refusal where nothing is left to change.

        `without`: the fields that were left out of the refused body, as in ChatBody.edit.
        """
        path = replace(path, proven=False)  # the request of ours tells more than what the server has shown before
        changed = yield from self._change(path, refusal, optional, self._request, self._request.mended.what)
        is_of_server = changed.mended == path.mended  # and not of this history
        if is_of_server and self.are_proven:
            self.are_proven = yield from self._refuses_plain(path, changed, optional, without)
        return changed

    def _refuses_plain(self, path: CallPath, changed: CallPath, optional: Set[str], without: Set[str]) -> Aside[bool]:
        plain = make_plain(self._request)
        body = plain.edit(path, without, self._constrained)
        reply = yield self._send(body)
        if reply.head.is_ok:
            return False
        current = replace(path, template_shows_tools=changed.template_shows_tools)
        optional = optional & plain.list_optional_fields(body)
        try:
            return (yield from self._change(current, read_refusal(reply.head, reply.body), optional, plain)) == changed
        except ServerError:
            return False

    def _change(
        self, path: CallPath, refusal: ServerError, optional: Set[str], request: ChatBody, odd: Sequence[str] = ()
    ) -> Aside[CallPath]:
        """The path without what was refused. `odd`: see choose_downgrade.

        No image that the user has just sent is left out. A late system message is moved before the history is mended:
        whether it has to be is a fact about the server.
        """
        if isinstance(refusal, ContentRejected) and request.new_media > refusal.max_media:
            raise refusal
        if isinstance(refusal, TemplateRejected) and request.has_late_system and not path.system_first:
            return replace(path, system_first=True)
        is_unknown = path.template_shows_tools is None and request.choice == "auto"
        if isinstance(refusal, ToolsUnsupported) and is_unknown:
            shows_tools = yield from probe_template(self._server, request.model, request.tools)
            path = replace(path, template_shows_tools=shows_tools)
        return choose_downgrade(path, refusal, odd, frozenset(optional), are_tools_ours=False).path


def make_plain(request: ChatBody) -> ChatBody:
    """An ordinary request with nothing of the client's but its model, and what it has that a server may not take."""
    body: dict[str, Any] = {
        "messages": list(_make_conversation(request)),
        "tools": [to_openai_tool(PROBE_TOOL)],
        "max_tokens": 1,
    }
    if request.model:
        body["model"] = request.model
    if isinstance(request.choice, Named):
        body["tool_choice"] = {"type": "function", "function": {"name": PROBE_TOOL.name}}
    elif "tool_choice" in request.body:
        body["tool_choice"] = request.choice
    return ChatBody(body)


def _make_conversation(request: ChatBody) -> Iterator[dict[str, Any]]:
    """An order of roles that any template takes, unless it takes one of them nowhere, or no late system message."""
    messages = request.messages
    if any(map(is_system, messages[:1])):
        yield {"role": "system", "content": _WORDS}
    has_parts = any(isinstance(each.get("content"), list) for each in messages)
    yield {"role": "user", "content": [{"type": "text", "text": _WORDS}] if has_parts else _WORDS}
    if any(each.get("role") == "tool" for each in messages):
        thought = {"reasoning": _WORDS} if any(each.get("reasoning") for each in messages) else {}
        yield {"role": "assistant", "content": None, "tool_calls": [_CALL], **thought}
        yield {"role": "tool", "tool_call_id": _CALL_ID, "content": _WORDS}
    if request.has_late_system:
        yield {"role": "system", "content": _WORDS}
