"""A conversation as plain data: a list of messages that can be stored, handed in and forked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import isfinite
from typing import Any

from ...errors import ConfigError
from ...session.journal import encode_json
from ...types.call_results import find_open_turn
from ...types.messages import (
    Message,
    Response,
    SystemMessage,
    Usage,
    read_message,
    sum_usage,
)
from ..model import check_messages

TYPE, VERSION = "conversation", 1


class Conversation(list[Message]):
    """The messages so far, the system prompt first if there is one.

    `to_dict` gives JSON values only, `from_dict` the conversation again: the same messages, and so the same prompt.
    """

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        super().__init__(messages)
        check_messages(self)

    def fork(self) -> Conversation:
        """A copy that goes its own way."""
        return Conversation(self)

    def close_open_calls(self) -> None:
        """Answer the calls at the end that have no result, as a server asks of every conversation."""
        if turn := find_open_turn(self):
            if turn.is_settled:
                self.pop()
            self.append(turn.close())

    @property
    def text(self) -> str:
        """The last answer."""
        return next((each.text.strip() for each in reversed(self) if isinstance(each, Response)), "")

    @property
    def usage(self) -> Usage:
        """The tokens of all its answers, and of their prompts, as the server counted them."""
        return sum_usage(self)

    def to_dict(self) -> dict[str, Any]:
        """What `from_dict` takes. It holds JSON values only: NaN and infinities become null, as in a request."""
        messages = [_to_json_value(message.to_dict()) for message in self]
        return {"type": TYPE, "version": VERSION, "messages": messages}

    @classmethod
    def from_dict(cls, stored: object) -> Conversation:
        """Raises ConfigError if `stored` is not what `to_dict` gave."""
        if not isinstance(stored, dict) or stored.get("type") != TYPE or not isinstance(stored.get("messages"), list):
            raise ConfigError(
                f"This is no stored conversation: {str(stored)[:60]!r}.", "Store what conversation.to_dict() gives."
            )
        if stored.get("version") != VERSION:
            version = str(stored.get("version"))[:20]
            raise ConfigError(
                f"The stored conversation is of version {version}, and only {VERSION} can be read here.",
                "Read it with the version of vllm-bot that stored it, or a later one.",
            )
        try:
            return cls(map(read_message, stored["messages"]))
        except ValueError as error:
            raise ConfigError(f"A message of the stored conversation cannot be read: {error}.") from error

    def to_json(self) -> str:
        """What `from_json` takes. UTF-8 can encode it, whatever the messages hold."""
        return encode_json(self.to_dict()).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Conversation:
        """Raises ConfigError if `text` is not what `to_json` gave."""
        try:
            return cls.from_dict(json.loads(text))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"This is no stored conversation: {error}.") from error


def _to_json_value(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _to_json_value(held) for name, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json_value(each) for each in value]
    return value


def read_conversation(stored: object, system: str) -> Conversation:
    """The conversation that an agent goes on with, which begins with `system` if it has no system prompt of its own.

    A Conversation is used as it is, and grows; other lists are copied. Raises ConfigError for anything else.
    """
    if stored is None:
        stored = Conversation()
    elif isinstance(stored, dict):
        stored = Conversation.from_dict(stored)
    elif isinstance(stored, (list, tuple)) and not isinstance(stored, Conversation):
        stored = Conversation(stored)
    if not isinstance(stored, Conversation):
        raise ConfigError(
            f"conversation: expected a Conversation, a list of messages or what to_dict gave, not {stored!r}."
        )
    if system and not (stored and isinstance(stored[0], SystemMessage)):
        stored.insert(0, SystemMessage(system))
    return stored
