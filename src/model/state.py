"""What lasts of a conversation with one model on one server: how requests are made, and what the server has shown.

What holds for one turn only is in turn.py. A turn that fails leaves here what it learned of the server, and nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from ..errors import Advice, ModelNotFound, join_names
from ..negotiation.answer_ids import AnswerIds
from ..negotiation.call_gap import has_gap
from ..negotiation.call_path import CallPath, Reason
from ..negotiation.continuity import ContinuityMeter
from ..negotiation.evidence import PromptCounter
from ..negotiation.facts import FactStore, ServedModel
from ..negotiation.server import ServerApi
from ..negotiation.thoughts import describe_thoughts, holds_thoughts
from ..negotiation.token_budget import TokenBudget
from ..parsing.arguments.tool_index import ToolIndex
from ..providers.base import ChatRequest, Codec
from ..types.caching import LastMemo, MessageMemo
from ..types.effects import Aside
from ..types.events import PrefixKept
from ..types.messages import Message, ToolChoice, ToolDefinition
from .request_builder import ModelOptions, RequestBuilder
from .retry import RetryPolicy


class Shown(Struct):
    """What the answers of a conversation and the server's refusals have shown so far.

    `thought_closer`: what ends the thought that the chat template opens, "" until an answer showed it.
    `calls_in_thoughts`: an answer was a thought that ended with calls. `tells_prompts`: whether the server tells what
    the chat template makes of a conversation. `mends_history`: it refuses what is odd in this conversation.
    `notices`: about what a server lost; each is given once. `beginning`: of the last prompt.
    """

    thought_closer: str = ""
    calls_in_thoughts: bool = False
    tells_prompts: bool = True
    mends_history: bool = False
    notices: set[str] = field(default_factory=set)
    beginning: dict[str, object] = field(default_factory=dict)


class ModelState:
    """A model at `address`, and what its conversation has taught so far.

    `path`: the call path to begin with; what is learned in `facts` is joined with it. `max_tokens`: of one answer; None
    leaves it to the server. `new_id` names calls without a name; `jitter` gives a number from 0 to 1. `is_name_fixed`:
    no other model takes the place of one that the server has not.
    """

    def __init__(
        self,
        name: str,
        codec: Codec,
        address: str,
        facts: FactStore,
        *,
        options: ModelOptions,
        path: CallPath,
        max_tokens: int | None,
        new_id: Callable[[], str],
        jitter: Callable[[], float],
        retry_policy: RetryPolicy,
        is_name_fixed: bool = False,
    ) -> None:
        self.name = name
        self.max_tokens = max_tokens
        self.is_name_fixed = is_name_fixed
        self.codec = codec
        self.facts = facts
        self.options = options
        self.new_id = new_id
        self.jitter = jitter
        self.retry_policy = retry_policy
        self.server = ServerApi(codec, address, facts, is_vllm=options.is_vllm)
        self.builder = RequestBuilder(codec, options)
        self.budget = TokenBudget(self.server, self.builder.measure_bytes)
        self.prompt_counter = PromptCounter(self.budget, codec.encode_prompt)
        self.continuity = ContinuityMeter()
        self.answer_ids = AnswerIds(self.server)
        self.shown = Shown()
        self.index_tools = LastMemo[tuple[ToolDefinition, ...], ToolIndex](ToolIndex)
        self.gaps = MessageMemo(has_gap)
        self.doubtful_thoughts = MessageMemo(  # that go back only where the template shows them
            lambda message: options.send_thoughts == "auto" and holds_thoughts(message)
        )
        self._address = address
        self._path = path
        self._join = LastMemo[tuple[CallPath, CallPath], CallPath](lambda paths: paths[0].join(paths[1]))

    @property
    def path(self) -> CallPath:
        """The own path, with what is known of the server."""
        return self._join((self._path, self.facts.paths.get(self.served)))

    @path.setter
    def path(self, path: CallPath) -> None:
        if path.reason is not Reason.PARSER_FAILED:  # that holds for this turn
            self._path = path
            self.facts.keep_path(self.served, path)

    def forget_proof(self, path: CallPath) -> CallPath:
        """Doubt what was proven on this path, here and for others. Returns the path without it."""
        self.prompt_counter.may_doubt = False
        self._path = path = path.forget_proof()
        self.facts.paths.update(self.served, lambda _: path)
        return path

    @property
    def served(self) -> ServedModel:
        """What facts are kept for."""
        return ServedModel(self._address, self.name, self.server.info.version or "")

    @property
    def thoughts(self) -> str:
        """What becomes of its earlier thoughts, for the user."""
        return describe_thoughts(self.path, self.options.send_thoughts)

    @property
    def kept(self) -> PrefixKept | None:
        """What of the turn before the last measured prompt began with."""
        return self.continuity.last

    def context_length(self) -> Aside[int | None]:
        """In tokens; None if the server does not say."""
        return self.server.context_length(self.name)

    @property
    def context_limit(self) -> int | None:
        """As far as it was asked for; it was before each request."""
        return (self.server.info.context_lengths or {}).get(self.name)

    def measure_fill(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = (), *, exact_from: float = 0.0
    ) -> Aside[float | None]:
        """The share of the context that the prompt takes, from 0; None if not known.

        Below `exact_from` an upper bound is enough; the server counts tokens above it.
        """
        path = self.path
        if path.template_shows_tools is None:
            path = path.skip_tokens()  # whose prompt is the longest that it may become
        return self.budget.measure_fill(self.build_request(messages, tools, path), exact_from)

    def build_request(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        path: CallPath,
        tool_choice: ToolChoice = "auto",
    ) -> ChatRequest:
        """The request for this path, to the model under its present name."""
        writer = self.server.identify(self.name)
        return self.builder.build(self.name, messages, tools, path, self.max_tokens, tool_choice, writer)

    def take_only_model(self, refusal: ModelNotFound) -> Aside[str]:
        """Go on with the only model that the server has. Returns the notice.

        Raises the refusal if the server has several models, or none.
        """
        names = yield from self.server.try_list_models()
        if len(names) != 1 or names == [self.name] or self.is_name_fixed:
            if names:
                served = f"It serves {join_names(names)}: choose one with"
                refusal.hint = Advice(f"{served} --model or vllm.model.", f"{served} `model`.")
            raise refusal
        missing, self.name = self.name, names[0]
        return f"The server has no model {missing}; using {self.name}, the only one it serves."
