"""Evidence that a call path does what it is for, taken from what the server does and not from what it accepts.

A probe that only one text satisfies shows whether the server holds answers to a grammar.

The size of the first prompt shows whether the server has put the tools into it: it counts the same prompt with and
without them. Until that is known, the answer is held back: without its tools the model answers something else. Later
prompts are compared with the size of the request alone, since the server may have been started anew with other flags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..errors import ToolsDropped
from ..providers import vllm
from ..providers.base import ChatRequest, PromptIds, WireEvent
from ..providers.wire_json import encode_json
from ..types.caching import MessageMemo
from ..types.effects import Aside
from ..types.events import Completed, ModelEvent
from ..types.messages import Message, Reasoning, Response, SystemMessage, ToolDefinition, UserMessage, count_media
from .call_path import GRAMMAR_FIELD, CallPath
from .server import ServerApi
from .token_budget import TokenBudget

CLOSED_THOUGHT = "<think>\n</think>\n"  # with a reasoning parser a grammar holds only after a thought
DROPPED = "The server leaves tools out of the prompt, and there is no other way to offer them."
PROBE_TOKENS = 32
MAX_BYTES_PER_TOKEN = 8  # of a request, on average: no prompt that holds all of it has more
MAX_OPENING_TOKENS = 16  # that a chat template writes before an answer
MAX_PROMPT_DIFFERENCE = 16  # in tokens, of one prompt as counted and as sent


class PromptSizes(Struct, frozen=True):
    """Of one prompt in tokens, with its tools and without."""

    shown: int
    hidden: int


_Prompt: TypeAlias = "tuple[str, tuple[Message, ...], tuple[ToolDefinition, ...]]"


class PromptCounter:
    """Has the server count prompts. The last one is not counted twice. `encode`: see Codec.encode_prompt.

    `may_doubt`: whether what was proven may be doubted; once is enough.
    """

    def __init__(self, budget: TokenBudget, encode: Callable[[ChatRequest], bytes | None]) -> None:
        self.may_doubt = True
        self._budget = budget
        self._encode = encode
        self._thought_sizes = MessageMemo(measure_thoughts)
        self._media = MessageMemo(count_media)
        self._last: tuple[_Prompt, PromptSizes] | None = None

    def count(self, request: ChatRequest) -> Aside[PromptSizes | None]:
        """None if the server does not count."""
        key = request.model, tuple(request.messages), tuple(request.tools)
        if self._last and self._last[0] == key:
            return self._last[1]
        hidden = yield from self._budget.count_tokens(replace(request, tools=()))
        if hidden is None:
            return None
        shown = yield from self._budget.count_tokens(request)
        if shown is None:
            return None
        self._last = key, PromptSizes(shown, hidden)
        return self._last[1]

    def watch(self, request: ChatRequest, path: CallPath) -> Aside[PromptWatch]:
        """Count the prompt, if it was not seen yet that the server makes the same of the request.

        On the native path nothing is counted anew: the server parses its own prompt's calls, and tells at once.
        """
        if not request.tools or path.is_raw:
            return PromptWatch()
        if path.proven:
            return self._watch_size(request, path)
        if path.mode == "native" and path.template_shows_tools:
            if self._last and self._last[0][1] == tuple(request.messages):  # the same conversation
                return PromptWatch(self._last[1], is_held=False)
            return PromptWatch(is_held=False)
        if path.prompt_style != "template":
            return PromptWatch()
        return PromptWatch((yield from self.count(request)))

    def _watch_size(self, request: ChatRequest, path: CallPath) -> PromptWatch:
        """Of a path that was proven: see that the prompt has not too few tokens for its request."""
        if not path.template_shows_tools or not self.may_doubt:
            return PromptWatch()
        if any(self._media(request.messages)):  # they have more bytes than tokens
            return PromptWatch()
        # A template may leave thoughts out.
        size = len(self._encode(request) or b"") - sum(self._thought_sizes(request.messages))
        return PromptWatch(is_held=False, min_tokens=size // MAX_BYTES_PER_TOKEN)

    def find_drop(self, watch: PromptWatch, request: ChatRequest) -> Aside[bool]:
        """Whether the answer that was shown had a prompt without its tools."""
        if watch.doubted_size:
            self.may_doubt = False
            watch.verify((yield from self.count(request)))
        return watch.is_dropped


def measure_thoughts(message: Message) -> int:
    """The bytes that its thoughts take in a request, in which they stand twice."""
    if not isinstance(message, Response):
        return 0
    return sum(2 * len(encode_json(block.text)) for block in message.content if isinstance(block, Reasoning))


class PromptWatch:
    """Compares the prompt of a request with what the server counted before; None: there is nothing to prove.

    `is_held`: nothing of the answer is shown before that, and the size may come last. If it comes last and the answer
    is shown, `is_dropped` tells for the next request. A prompt of fewer than `min_tokens` cannot hold the tools; where
    that shows too late to raise, `doubted_size` is its size.
    """

    def __init__(self, sizes: PromptSizes | None = None, *, is_held: bool = True, min_tokens: int = 0) -> None:
        self.doubted_size = 0
        self._min_tokens = min_tokens
        self._sizes = sizes
        self._is_held = is_held
        self._held: list[ModelEvent] = []
        self.is_proven = False
        self.is_dropped = False  # the prompt of the answer that was shown had no tools

    def compare(self, tokens: int) -> None:
        """Take in the size of the prompt. Raises ToolsDropped if it is that of the prompt without its tools.

        Some other size proves nothing: not all servers count alike.
        """
        if tokens < self._min_tokens:
            raise ToolsDropped(DROPPED)
        if self._sizes is None:
            return
        shown, hidden, self._sizes = self._sizes.shown, self._sizes.hidden, None
        if shown <= hidden or hidden - MAX_PROMPT_DIFFERENCE <= tokens < (shown + hidden) // 2:
            raise ToolsDropped(DROPPED)
        self.is_proven = tokens >= shown - MAX_PROMPT_DIFFERENCE

    def take(self, event: WireEvent, shown: Sequence[ModelEvent]) -> Sequence[ModelEvent]:
        """What may be shown by now, if `shown` comes of this event. Raises as compare."""
        if isinstance(event, PromptIds):
            if self._min_tokens or self._sizes is not None:
                self.compare(event.count_tokens())
        elif isinstance(event, Completed) and event.response.usage:
            self._compare_late(event.response.usage.input_tokens)
        if not self._is_held:
            return shown
        if self._sizes is None and not self._held:
            return shown
        self._held += shown
        if self._sizes is not None and not isinstance(event, Completed):
            return ()
        return self.release()

    def release(self) -> Sequence[ModelEvent]:
        """What is held, for an answer that is ended here: the size of its prompt will not come."""
        held, self._held = self._held, []
        return held

    def _compare_late(self, tokens: int) -> None:
        """As compare; only an answer that is not shown yet can be asked for again."""
        if tokens < self._min_tokens:
            self.doubted_size = tokens
            return
        try:
            self.compare(tokens)
        except ToolsDropped:
            if self._is_held:
                raise
            self.is_dropped = True

    def verify(self, sizes: PromptSizes | None) -> None:
        """Compare the size that was doubted with those that the server counts for the request."""
        self._sizes, self._min_tokens = sizes, 0
        self._compare_late(self.doubted_size)


def look_at_template(server: ServerApi, request: ChatRequest) -> Aside[bool | None]:
    """Whether the text of the prompt shows the request's tools; None if the server shows no such text."""
    shown = yield from server.render_text(request)
    if shown is None:
        return None
    hidden = yield from server.render_text(replace(request, tools=()))
    return None if hidden is None else shown != hidden


def probe_template(server: ServerApi, model: str, tools: Sequence[ToolDefinition]) -> Aside[bool | None]:
    """Whether the server shows the model tools that it is not to parse calls of; None if it does not count prompts.

    A chat of one token tells whether it puts into the prompt what its /tokenize does.
    """
    probe = ChatRequest(model, [UserMessage("Hello.")], tools, max_tokens=1, tool_choice="none", stream=False)
    hidden = yield from server.tokenize_prompt(replace(probe, tools=()))
    if hidden is None:
        return None
    shown = yield from server.tokenize_prompt(probe)
    if shown is None:
        return None
    answer, is_dropped = (yield from server.ask(probe)), False
    if answer and answer.usage:
        is_dropped = 0 < 2 * answer.usage.input_tokens < len(shown.tokens) + len(hidden.tokens)
    return len(shown.tokens) > len(hidden.tokens) and not is_dropped


def probe_late_system(server: ServerApi, model: str) -> Aside[bool | None]:
    """Whether the chat template shows a late system message in its place; None if the server does not tell.

    Some templates refuse it, some leave it out, and some move it to the first one, so that the prompt begins otherwise.
    """
    messages: list[Message] = [
        SystemMessage("Be brief."),
        UserMessage("I would like to know what the weather is like. " * 5),
    ]
    plain = yield from server.tokenize_prompt(ChatRequest(model, messages))
    if plain is None:
        return None
    late = yield from server.tokenize_prompt(ChatRequest(model, [*messages, SystemMessage("Answer in English only.")]))
    if late is None:
        return False
    shared = count_equal(plain.tokens, late.tokens)
    return len(late.tokens) > len(plain.tokens) and shared > len(plain.tokens) - MAX_OPENING_TOKENS


def count_equal(before: Sequence[int], now: Sequence[int]) -> int:
    """How many tokens two prompts share, from the first on."""
    pairs = enumerate(zip(before, now, strict=False))
    return next((place for place, (old, new) in pairs if old != new), min(len(before), len(now)))


def try_grammar(server: ServerApi, request: ChatRequest, path: CallPath) -> Aside[CallPath]:
    """The path with what a probe showed, where the answer to this request relies on a grammar.

    A server that tells neither its version nor its models' sizes is not probed, and nothing relies on its grammar.
    """
    if GRAMMAR_FIELD not in request.options:
        return path
    if not (yield from server.version()) and not server.info.parameter_counts:
        return path
    return path.learn_grammar((yield from probe_grammar(server, request.model)))


def probe_grammar(server: ServerApi, model: str) -> Aside[str]:
    """The field of a request by which the server holds an answer to a grammar; empty if by none, or not certainly.

    Servers that do not know a field may ignore it, and answer all the same.
    """
    for name, value in vllm.GRAMMAR_PROBES.items():
        text = yield from server.complete_text(model, CLOSED_THOUGHT, PROBE_TOKENS, {name: value})
        if text is None:
            asked = [UserMessage("Say hello.")]
            request = ChatRequest(model, asked, max_tokens=PROBE_TOKENS, options={name: value}, stream=False)
            text = ((yield from server.ask(request)) or Response(())).text
        if text.strip().strip('"') == vllm.PROBE_TEXT:
            return name
    return ""
