"""The blanks that a chat template writes between the text of an answer and its calls. Sans-IO.

A model writes them as its template does, and the server's parser leaves them at the end of the text. If they went back
as they came, the prompt would have them twice, and the server's prefix cache would end there. The template is asked.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..types.messages import Message, Response, Text
from .formats.written_format import PROBE, PROBE_CALL
from .thoughts import PLAIN_PROBE

_WORDS = "That is easy to look up."
GAP_PROBE: tuple[Message, ...] = (*PROBE[:1], Response((Text(_WORDS), PROBE_CALL)), *PLAIN_PROBE[2:])


def ends_in_blanks(text: object) -> bool:
    return isinstance(text, str) and text[-1:].isspace()


def read_gap(prompt: str) -> str:
    """The blanks that the text of the probe's prompt has before the call; none if it has no text there."""
    _, words, behind = prompt.rpartition(_WORDS)
    return behind[: len(behind) - len(behind.lstrip())] if words else ""


def cut_gap(text: str, gap: str) -> str:
    """The text of an answer with calls, without the blanks that the template writes behind it."""
    if not gap:
        return text
    return text.removesuffix(gap) if text.strip() else ""


def has_gap(message: Message) -> bool:
    """Whether an answer has text that ends in blanks, and calls."""
    return isinstance(message, Response) and bool(message.requested_calls) and ends_in_blanks(message.text)


def cut_message_gap(gap: str, message: Message) -> Message:
    """The answer, if it has calls and one text, with that text as cut_gap makes it."""
    if not isinstance(message, Response) or not has_gap(message):
        return message
    texts = [block for block in message.content if isinstance(block, Text)]
    if len(texts) > 1:
        return message
    blocks = list(message.content)
    place = blocks.index(texts[0])
    if text := cut_gap(texts[0].text, gap):
        blocks[place] = replace(texts[0], text=text)
    else:
        del blocks[place]
    return replace(message, content=tuple(blocks))
