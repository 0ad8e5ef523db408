"""The APIs that clients speak. One dialect serves one request: its body as a chat completion, answers back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...providers.server_errors import is_about_length, read_error_message
from ...providers.wire_json import as_dict, encode_json, load_json
from ..chunks.intake import DONE
from . import messages
from .responses_answer import ResponseMaker, ResponsesStream
from .responses_request import ToolNames, Unconvertible
from .responses_request import to_chat as responses_to_chat
from .too_long import CODE, rename_for_openai, word_for_messages

MESSAGES_PATH = "/v1/messages"
COUNT_PATH = f"{MESSAGES_PATH}/count_tokens"
KEEP_ALIVE = b": keep-alive\n\n"
TOO_LONG = 400  # what Anthropic's API answers with to a request that does not fit


class Dialect(ABC):
    """`chat`: the request as a chat completion; None if only the server can answer it. The encoders give bytes.

    `relayed_sign`: of life, in a stream whose events are the server's. `tells_length_in_stream`: who asks for a stream
    is told there that the request is too long.
    """

    chat: dict[str, Any] | None
    relayed_sign = KEEP_ALIVE
    tells_length_in_stream = False

    @abstractmethod
    def encode_answer(self, body: bytes) -> bytes:
        """A whole chat completion."""

    def encode_refusal(self, status: int, body: bytes) -> bytes:  # noqa: ARG002
        """A refusal of the server: the body of an answer with an error's status."""
        return rename_for_openai(body)

    def encode_error(self, status: int, message: str) -> bytes:
        """An error of the gateway, as the body of an answer."""
        return encode_openai_error(status, message)

    @abstractmethod
    def encode_payload(self, events: Sequence[bytes]) -> bytes:
        """The data of events of a chat completion, as events of a stream; b"" if it gives none."""

    @abstractmethod
    def encode_break(self, status: int, message: str) -> bytes:
        """An error after the stream began, as an event."""

    @abstractmethod
    def encode_keep_alive(self, comments: bytes = KEEP_ALIVE) -> bytes:
        """A sign of life in a stream, to be sent before what is encoded later. `comments`: those of the server, where
        it has sent some.
        """


class ChatDialect(Dialect):
    """OpenAI's chat completions."""

    def __init__(self, body: dict[str, Any], _: Callable[[], str]) -> None:
        self.chat = body

    def encode_answer(self, body: bytes) -> bytes:
        return body

    def encode_payload(self, events: Sequence[bytes]) -> bytes:
        return b"".join([b"data: " + data + b"\n\n" for data in events])

    def encode_break(self, status: int, message: str) -> bytes:
        return self.encode_payload([encode_openai_error(status, message)])

    def encode_keep_alive(self, comments: bytes = KEEP_ALIVE) -> bytes:
        return comments


class EventDialect(Dialect):
    """An API whose events are other than the chunks that they are made from."""

    _stream: messages.MessagesStream | ResponsesStream

    def encode_payload(self, events: Sequence[bytes]) -> bytes:
        return b"".join(map(self._encode_event, events))

    def _encode_event(self, data: bytes) -> bytes:
        if data == DONE:
            return _encode_events(self._stream.close())
        chunk = json.loads(data)
        if "error" in chunk:
            status = _read_fields(data).get("code")
            if not isinstance(status, int) or status not in range(400, 600):
                status = 500
            return self.encode_break(status, read_error_message(data))
        return _encode_events(self._stream.feed(chunk))


class MessagesDialect(EventDialect):
    """Anthropic's Messages."""

    relayed_sign = b'event: ping\ndata: {"type":"ping"}\n\n'

    def __init__(self, body: dict[str, Any], _: Callable[[], str]) -> None:
        self.chat = messages.to_chat(body)
        self._stream = messages.MessagesStream()

    def encode_answer(self, body: bytes) -> bytes:
        return encode_json(messages.convert_answer(as_dict(load_json(body))))

    def encode_refusal(self, status: int, body: bytes) -> bytes:
        return encode_messages_refusal(status, body)

    def encode_error(self, status: int, message: str) -> bytes:
        return encode_path_error(MESSAGES_PATH, status, message)

    def encode_break(self, status: int, message: str) -> bytes:
        return _encode_events([_convert_refusal(status, message, {})])

    def encode_keep_alive(self, comments: bytes = KEEP_ALIVE) -> bytes:  # noqa: ARG002 - the API has an event for it
        return self.relayed_sign


class CountDialect(MessagesDialect):
    """Anthropic's count of a message's tokens; see ChatTurn.count_tokens."""

    def encode_answer(self, body: bytes) -> bytes:
        return body


# The server must answer: what they name is in its store, or no chat completion has it.
_STORED = ("previous_response_id", "conversation", "background", "prompt", "top_logprobs")


class ResponsesDialect(EventDialect):
    """OpenAI's Responses. Clients such as codex count events only, and no comments."""

    tells_length_in_stream = True

    def __init__(self, body: dict[str, Any], new_id: Callable[[], str]) -> None:
        names = ToolNames(body)
        self.chat = None
        if not any(body.get(name) for name in _STORED):
            with suppress(Unconvertible):
                self.chat = responses_to_chat(body, names)
        self._maker = ResponseMaker(body, names, new_id)
        self._stream: ResponsesStream = ResponsesStream(self._maker)

    def encode_answer(self, body: bytes) -> bytes:
        return encode_json(self._maker.convert_answer(as_dict(load_json(body))))

    def encode_break(self, status: int, message: str) -> bytes:  # noqa: ARG002
        return _encode_events(self._stream.fail(message, CODE if is_about_length(message) else "server_error"))

    def encode_keep_alive(self, comments: bytes = KEEP_ALIVE) -> bytes:  # noqa: ARG002 - the API has an event for it
        return _encode_events(self._stream.show_life())


DIALECTS: Mapping[str, Callable[[dict[str, Any], Callable[[], str]], Dialect]] = {
    "/v1/chat/completions": ChatDialect,
    MESSAGES_PATH: MessagesDialect,
    COUNT_PATH: CountDialect,
    "/v1/responses": ResponsesDialect,
}


def encode_path_error(path: str, status: int, message: str) -> bytes:
    """An error in the shape of the API at this path."""
    if path.startswith(MESSAGES_PATH):
        return encode_json(messages.convert_error(message, status))
    return encode_openai_error(status, message)


def encode_messages_refusal(status: int, body: bytes) -> bytes:
    """A server's refusal in the shape and the words of Messages."""
    return encode_json(_convert_refusal(status, read_error_message(body), _read_fields(body)))


def _convert_refusal(status: int, message: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """`fields`: of the server's error."""
    worded = word_for_messages(message, fields)
    return messages.convert_error(worded, status if worded == message else TOO_LONG)


def encode_openai_error(status: int, message: str) -> bytes:
    kind = "invalid_request_error" if status < 500 else "gateway_error"
    code = CODE if is_about_length(message) else status
    return encode_json({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _read_fields(body: bytes) -> dict[str, Any]:
    """Those of an error in OpenAI's shape."""
    try:
        return as_dict(as_dict(json.loads(body)).get("error"))
    except ValueError:
        return {}


def _encode_events(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Each event under its type as its name."""
    return b"".join([f"event: {event['type']}\ndata: ".encode() + encode_json(event) + b"\n\n" for event in events])
