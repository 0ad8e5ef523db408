"""What a session of the Copilot CLI knows of a conversation, and what it does not know yet. No I/O.

Messages are the JSON that providers/copilot.py makes of them.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

_SPEAKERS = {"user": "User", "assistant": "You", "tool": "Tools"}
_RETOLD = """\
This is the conversation so far. Go on with it: answer what is last in it.

{conversation}"""


class CopilotSession(Struct):
    """`known`: the messages that it has, but for its own last answer, of which the rest tells."""

    id: str
    settings: dict[str, Any]
    known: list[dict[str, Any]] = []
    answer_id: str = ""
    answer: str = ""
    calls: list[str] = []

    def find_news(self, messages: list[dict[str, Any]]) -> dict[str, Any] | None:
        """The message to continue with; None if the conversation does not go on where the session stands."""
        at = len(self.known)
        if messages[:at] != self.known or len(messages) != at + 2:
            return None
        answer, news = messages[at:]
        is_own = answer.get("id") == self.answer_id and answer.get("calls") == self.calls
        if not is_own or answer["answer"].strip() not in self.answer or news["role"] == "assistant":
            return None
        answered = {each["id"] for each in news.get("results", ())}
        return news if answered == set(self.calls) else None

    def begin_turn(self, messages: list[dict[str, Any]]) -> None:
        self.known, self.answer_id, self.answer, self.calls = messages, "", "", []

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Keep what the session answers."""
        if kind == "assistant.message_delta":
            self.answer += data.get("deltaContent") or ""
        elif kind == "assistant.message":
            content = data.get("content") or ""
            if not self.answer.endswith(content):
                self.answer += content
            self.answer_id = data.get("messageId") or ""
            self.calls = [str(each.get("toolCallId")) for each in data.get("toolRequests") or ()]


def retell(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A conversation as one message of the user; a single one as it is."""
    if len(messages) == 1 and messages[0]["role"] == "user":
        return messages[0]
    text = "\n\n".join(f"{_SPEAKERS[each['role']]}: {each['text']}" for each in messages)
    attachments = [attached for each in messages for attached in each.get("attachments") or ()]
    return {"role": "user", "text": _RETOLD.format(conversation=text), "attachments": attachments}
