"""Whether a weak model is to call a tool, predicted by the model itself after examples of both.

A model of some hundred million parameters writes no calls of its own accord, and always one where a grammar makes it.
So it is shown requests, each with the name of the tool that does it, or `talk`, and its next token is read. The
examples are made of the tools' descriptions, so they hold for any tools. Which tool it is, such a model cannot tell so:
that is left to the call, which a grammar holds to the tools' schemas. Figures: docs/paths.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

from ..providers.base import ChatRequest
from ..types.effects import Aside
from ..types.messages import (
    JSON,
    Message,
    Response,
    SystemMessage,
    Text,
    ToolChoice,
    ToolDefinition,
    UserMessage,
)
from .call_path import CallPath
from .server import ServerApi

MAX_PARAMETERS = 1_000_000_000  # of a model that is asked so, as its server tells
MAX_REQUEST_CHARS = 1000  # of which it is to say what is needed
TALK = "talk"
_TOP_TOKENS = 20
_UNLIKELY = -20.0  # as a log probability, of what is not among the most likely tokens
_ORDER_SALT = "3"  # mixes the examples; of four orders that were measured, this one told best
MAX_TOOLS = 6  # that examples are made of, the first ones: with more such a model decides worse
_NEEDS_NOTHING = (
    "What is the capital of Spain?", "Thanks!", "Write a story about a dragon.", "Hi there",
    "Explain what a variable is.", "Tell me a riddle.", "Who painted the Mona Lisa?", "How do you say 'yes' in German?",
    "Can you sing?", "What is 3 plus 4?", "Good evening", "Why do birds sing?", "What is your favourite colour?",
    "Can you tell me about yourself?", "Describe a forest.", "Recommend a film.",
)  # fmt: skip
_VALUES = {"path": "notes.txt", "command": "ls", "url": "https://example.org", "pattern": "text", "content": "text"}


def decide_call(
    server: ServerApi,
    model: str,
    messages: Sequence[Message],
    tools: Sequence[ToolDefinition],
    choice: ToolChoice,
    path: CallPath,
) -> Aside[tuple[Sequence[ToolDefinition], ToolChoice]]:
    """The tools to offer for the next answer, and the choice, where the model is weak and calls are read from its text.

    It is offered no tools where it needs none, and after a call's results.
    """
    if not tools or choice != "auto" or path.mode != "text":
        return tools, choice
    parameters = yield from server.parameter_count(model)
    if parameters is None or parameters >= MAX_PARAMETERS:
        return tools, choice
    last = messages[-1]
    if not isinstance(last, UserMessage):
        return (), "auto"
    is_wanted = yield from predict_call(server, model, tools, last.text[:MAX_REQUEST_CHARS])
    if is_wanted is None:
        return tools, choice
    if is_wanted:
        return tools, "required"
    return (), "auto"


def predict_call(server: ServerApi, model: str, tools: Sequence[ToolDefinition], request: str) -> Aside[bool | None]:
    """Whether a tool is to be called; None if the server does not tell what it predicts."""
    likely = yield from server.predict_token(make_question(model, tools, request))
    if not likely:
        return None
    best = max(_find_likelihood(tool.name, likely) for tool in tools[:MAX_TOOLS])
    return best > _find_likelihood(TALK, likely)


def make_question(model: str, tools: Sequence[ToolDefinition], request: str) -> ChatRequest:
    """The request whose answer begins with the name of a tool, or with `talk`."""
    tools = tools[:MAX_TOOLS]
    listed = "\n".join(f"- {tool.name}: {_summarize(tool)}" for tool in tools)
    messages: list[Message] = [SystemMessage(f"Which tool is it?\n{listed}\n- {TALK}: Just talk")]
    examples = [(text, tool.name) for tool in tools for text in _make_requests(tool)]
    examples += [(text, TALK) for text in _NEEDS_NOTHING]
    # In a fixed order.
    for text, name in sorted(examples, key=lambda example: crc32(f"{_ORDER_SALT}{example[0]}".encode())):
        messages += [UserMessage(text), Response((Text(name),))]
    options: dict[str, JSON] = {"logprobs": True, "top_logprobs": _TOP_TOKENS}
    asked = [*messages, UserMessage(request)]
    return ChatRequest(model, asked, temperature=0.0, max_tokens=1, options=options, stream=False)


def _find_likelihood(name: str, likely: Mapping[str, float]) -> float:
    """Of a token with which the name begins."""
    likelihoods = (value for token, value in likely.items() if token.strip() and name.startswith(token.strip()))
    return max(likelihoods, default=_UNLIKELY)


def _make_requests(tool: ToolDefinition) -> list[str]:
    """What a user may say who needs this tool."""
    summary, required = _summarize(tool), tool.parameters.get("required")
    names = list(map(str, required)) if isinstance(required, list) else []
    about = f": {_VALUES.get(names[0], names[0])}" if names else ""
    requests = [summary + about, f"Can you {summary[:1].lower()}{summary[1:]}?"]
    if rest := summary.partition(" ")[2]:
        requests.append(f"What about {rest}?")
    if names == ["path"]:
        requests.append("What is in src/main.py?")
    elif "path" in names:
        requests.append("Change b.txt")
    return requests


def _summarize(tool: ToolDefinition) -> str:
    """The first sentence of its description."""
    return tool.description.partition(". ")[0].rstrip(".") or tool.name
