"""Whether earlier thoughts go back to the model: what the user wants, the server takes, and the template shows.

The template is asked, not believed: a short conversation with a thought in it is counted with and without the thought.
Some servers count with another template than they answer with (gpt-oss on vLLM), so that a thought which makes no
difference there is sent in a chat of one token as well, whose usage tells.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..providers.base import ChatRequest
from ..types.effects import Aside
from ..types.messages import Message, Reasoning, Response, ToolResult, ToolResults, is_open_thought
from .call_path import THOUGHTS_FIELD, CallPath
from .formats.written_format import PROBE, PROBE_CALL
from .server import ServerApi

_THOUGHT = "The user asks about the weather in a city, so I look it up before I answer anything at all."
_RESULT = ToolResult(PROBE_CALL.id, PROBE_CALL.name, "text", "Rain.")
PLAIN_PROBE: tuple[Message, ...] = (*PROBE, ToolResults((_RESULT,)))
THOUGHT_PROBE = (PROBE[0], Response((Reasoning(_THOUGHT), PROBE_CALL)), PLAIN_PROBE[-1])


def sends_thoughts(path: CallPath, policy: str) -> bool:
    """Whether the next request holds earlier thoughts. `policy`: auto, always or never; see `vllm.send_thoughts`."""
    if policy == "never" or THOUGHTS_FIELD in path.disabled_fields:
        return False
    return policy == "always" or path.shows_thoughts is not False


def describe_thoughts(path: CallPath, policy: str) -> str:
    """What becomes of earlier thoughts, for the user."""
    if policy == "never":
        return "not sent back: vllm.send_thoughts is never"
    if THOUGHTS_FIELD in path.disabled_fields:
        return "not sent back: the server refuses them"
    if path.shows_thoughts is None:
        return "sent back"
    if path.shows_thoughts:
        return "sent back: the chat template shows them"
    if policy == "always":
        return "sent back, though the chat template does not show them"
    return "not sent back: the chat template does not show them"


def holds_thoughts(message: Message) -> bool:
    """Whether the message has thoughts that a chat completion can hold: others are signed, and for one API only."""
    return isinstance(message, Response) and any(map(is_open_thought, message.content))


def probe_thoughts(server: ServerApi, shown: ChatRequest, hidden: ChatRequest) -> Aside[bool | None]:
    """Whether the template shows a thought before a tool's result; None if the server does not tell.

    `shown` and `hidden`: the requests that THOUGHT_PROBE and PLAIN_PROBE make.
    """
    with_thought = yield from server.tokenize_prompt(shown)
    if with_thought is None:
        return None
    without = yield from server.tokenize_prompt(hidden)
    if without is None:
        return None
    if len(with_thought.tokens) > len(without.tokens):
        return True
    sizes = []
    for request in (shown, hidden):
        answer = yield from server.ask(replace(request, max_tokens=1, stream=False, options={}))
        if not answer or not answer.usage:
            return None
        sizes.append(answer.usage.input_tokens)
    return sizes[0] > sizes[1]
