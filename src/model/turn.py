"""One turn of a conversation: asks on one call path after the other, until the server accepts.

When a server refuses a request, the path is changed and the request sent again; what the server's tool parser lost is
recovered from the answer's tokens (see recovery.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import partial

from msgspec.structs import replace

from ..errors import (
    BotError,
    ModelNotFound,
    ParserFailed,
    ServerError,
    TokensUnsupported,
    ToolsDropped,
    ToolsUnsupported,
)
from ..negotiation.call_path import CallPath, Downgrade, Reason
from ..negotiation.continuity import Sent
from ..negotiation.downgrade import avoid_parser, choose_downgrade
from ..negotiation.evidence import look_at_template, try_grammar
from ..negotiation.facts import ServedModel
from ..negotiation.formats.written_format import PROBE_TOOL
from ..negotiation.negotiate import Asker, negotiate
from ..negotiation.path_learner import PathLearner
from ..negotiation.tool_choice import decide_call
from ..providers.base import ChatRequest
from ..providers.server_errors import judge_own_words, may_repeat
from ..providers.wire_json import load_json
from ..types.effects import Aside, Await, Turn
from ..types.events import ModelEvent, Notice, PromptChanged
from ..types.messages import Message, Named, SystemMessage, ToolChoice, ToolDefinition, UserMessage
from .answer import Answer
from .recovery import Recovery
from .request_builder import remove_fields
from .response_assembler import ResponseAssembler
from .retry import with_retries
from .state import ModelState
from .steps import watch


class ModelTurn:
    """What is asked in this turn, and what was tried for it so far. It is made for one turn, and runs once."""

    def __init__(
        self, state: ModelState, messages: Sequence[Message], tools: Sequence[ToolDefinition], choice: ToolChoice
    ) -> None:
        self._state = state
        self._messages = messages
        self._tools = tools
        self._choice = choice
        self._readable = tools  # whose calls count, offered or not
        self._path = state.path  # so far
        self._is_decided = False  # whether a weak model is to call a tool
        self._doubts_grammar = True  # a failure may be due to a grammar
        self._raw_prompt = ""  # where the text behind it is asked for
        self._held: list[ModelEvent] = []  # until the server accepts the request
        self._claimed: ServedModel | None = None  # that this turn finds out about for others

    def run(self) -> Turn[None]:
        """See ModelCore.respond."""
        asker: Asker[ChatRequest, ModelEvent] = self
        state, choice = self._state, self._choice
        if isinstance(choice, Named) and choice.name not in (tool.name for tool in self._tools if not tool.named_by):
            raise BotError(f"There is no tool {choice.name}, so the model cannot be made to call it.")
        try:
            if self._tools:
                yield from self._wait_for_first_turn()
            if self._may_avoid_parser:
                self._path = state.facts.avoid_parser(state.served, self._path)
            self._path = replace(self._path, mended=state.shown.mends_history)
            yield from with_retries(
                lambda: negotiate(asker, self._path, doubts_grammar=self._doubts_grammar),
                state.retry_policy,
                state.jitter,
                state.server.check_health,
                on_failure=self._end_first_turn,
            )
        finally:
            self._release_claim()

    @property
    def _may_avoid_parser(self) -> bool:
        """Whether the turn may be asked in text where the server's parser fails on its answer."""
        return self._state.options.recovers_parser_errors and bool(self._tools) and self._choice == "auto"

    def _wait_for_first_turn(self) -> Aside[None]:
        """One of the first conversations finds out how the server takes tools; the others wait for that.

        It gives no events meanwhile: their receiver might ask another model in the same thread.
        """
        state, path = self._state, self._path
        is_open = path.mode in ("tokens", "native") and not path.is_chosen
        if not (state.server.is_vllm and is_open) or state.facts.accepted.get(state.served):
            return
        if running := state.facts.claim(state.served):
            yield Await(running)
            self._path = state.path
        else:
            self._claimed = state.served

    def _release_claim(self) -> None:
        if self._claimed is not None:
            claimed, self._claimed = self._claimed, None
            self._state.facts.release(claimed)

    def _end_first_turn(self) -> Iterator[ModelEvent]:
        """Other conversations need not wait any longer, and events may be given: those first that were held."""
        self._release_claim()
        held, self._held = self._held, []
        yield from held

    def prepare(self, path: CallPath) -> Aside[CallPath]:
        """See Asker, as for the other methods without an underscore."""
        state = self._state
        if path.reason is Reason.PARSER_FAILED and path.mode == "text":
            request = state.build_request(self._messages, self._tools, path.for_raw_turn)
            raw_prompt = yield from state.server.render_text(request)
            if raw_prompt is not None:
                self._raw_prompt, path = raw_prompt, path.for_raw_turn
        if not path.is_raw:
            path = yield from self._learn_template(path)
            if not state.shown.tells_prompts:
                path = path.skip_tokens()
            if path.mode == "text" and not self._is_decided:
                yield from self._decide_call(path)
            path = yield from self._learn_path(path)
        self._path = path
        return path

    def _learn_path(self, path: CallPath) -> Aside[CallPath]:
        """The path with what the template makes of the history and of calls, and what the server's grammars do.

        It is kept whatever becomes of the turn.
        """
        state = self._state
        thoughts, gaps = state.doubtful_thoughts(self._messages), state.gaps(self._messages)
        learner = PathLearner(
            state.server,
            state.facts,
            state.served,
            lambda messages, path: state.build_request(messages, [PROBE_TOOL], path),
        )
        learned = yield from learner.learn_history(path, thoughts, gaps)
        if self._tools and state.builder.wants_grammar:
            learned = yield from learner.learn_format(learned)
        if self._choice != "auto" and not learned.grammar:
            request = state.build_request(self._messages, self._tools, learned, self._choice)
            learned = yield from try_grammar(state.server, request, learned)
        if learned is not path:
            state.path = learned
        return learned

    def _learn_template(self, path: CallPath) -> Aside[CallPath]:
        """The path with whether the template shows the tools. The conversation's beginning tells, in little time."""
        state, messages = self._state, self._messages
        is_open = path.mode in ("tokens", "native") and path.template_shows_tools is None
        if not (self._tools and is_open and state.shown.tells_prompts):
            return path
        first = next((place for place, each in enumerate(messages) if isinstance(each, UserMessage)), len(messages))
        request = state.build_request(messages[: first + 1], self._tools, replace(path, mode="template"))
        sizes = yield from state.prompt_counter.count(request)
        if sizes is not None:
            state.path = path = replace(path, template_shows_tools=sizes.shown > sizes.hidden)
            return path
        state.shown.tells_prompts = False
        if (is_shown := (yield from look_at_template(state.server, request))) is not None:
            learned = path.learn_template(shows_tools=is_shown)
            state.path = path = learned.path
            if learned.notice:
                self._held.append(Notice(learned.notice))
        return path

    def _decide_call(self, path: CallPath) -> Aside[None]:
        """Decide for a weak model whether it is to call a tool in this turn."""
        self._is_decided = True
        self._tools, self._choice = yield from decide_call(
            self._state.server, self._state.name, self._messages, self._tools, self._choice, path
        )
        if not isinstance(self._messages[-1], UserMessage):  # behind results such a model would call without end
            self._readable = self._tools

    def edit(self, path: CallPath, without: Set[str]) -> ChatRequest:
        self._doubts_grammar = self._doubts_grammar and not without  # once is enough
        return remove_fields(self._state.build_request(self._messages, self._tools, path, self._choice), without)

    def list_optional_fields(self, body: ChatRequest) -> frozenset[str]:
        return self._state.builder.list_optional_fields(body)

    def send(self, body: ChatRequest, path: CallPath) -> Turn[None]:
        """The events of the answer, and of what was lost in it."""
        state = self._state
        request = yield from state.budget.fit_max_tokens(body)
        prompt_watch = yield from state.prompt_counter.watch(request, path)
        now: dict[str, object] = {"path": path.mode, "system prompt": request.messages[:1], "tools": request.tools}
        before, state.shown.beginning = state.shown.beginning, now
        changed = tuple(name for name, value in before.items() if value != now[name])
        if changed and len(request.messages) > 2:
            self._held.append(PromptChanged(changed))

        def make_answer(asked: ChatRequest) -> Answer:
            return Answer(state, asked, self._readable, path, prompt_watch, self._raw_prompt)

        answer, accept = make_answer(request), partial(self._note_accepted, path)
        yield from answer.read(accept)
        turn = answer.assembler
        state.answer_ids.end(answer.asked, turn.tokens, turn.completed.raw_text)
        is_system = isinstance(next(iter(request.messages), None), SystemMessage)
        way = path.mode, path.prompt_style, path.alternate, path.fold_system
        sent = Sent(state.server.identify(request.model), way, request.tools, request.messages, is_system)
        if prefix := state.continuity.measure(sent, answer.prompt_ids, turn.tokens.ids):
            yield prefix

        def replay(asked: ChatRequest) -> Aside[ResponseAssembler]:
            again = make_answer(asked)
            yield from watch(again.read(accept), lambda _: None, is_shown=False)
            return again.assembler

        def disable_native() -> str:
            downgrade = path.disable_native()
            state.path = downgrade.path
            return downgrade.notice

        yield from Recovery(
            turn,
            request,
            self._readable,
            choice=self._choice,
            is_native=path.mode == "native",
            is_unparsed=path.mode == "tokens" or path.is_raw,
            server=state.server,
            budget=state.budget,
            replay=replay,
            disable_native=disable_native,
            sent_notices=state.shown.notices,
        ).run()

    def _note_accepted(self, path: CallPath) -> Iterator[ModelEvent]:
        """Keep that the server takes requests on this path. The events that were held for that."""
        state = self._state
        state.path = path
        if self._readable:
            state.facts.accepted.update(state.served, lambda _: True)
        return self._end_first_turn()

    def change(self, path: CallPath, refusal: ServerError, body: ChatRequest, without: Set[str]) -> Aside[CallPath]:  # noqa: ARG002
        state = self._state
        if isinstance(refusal, ModelNotFound):
            self._held.append(Notice((yield from state.take_only_model(refusal))))
            return path
        if isinstance(refusal, ToolsDropped) and path.proven:
            return state.forget_proof(path)
        if not isinstance(refusal, TokensUnsupported):
            sent = load_json(state.builder.encode(body).body)
            refusal = judge_own_words(refusal, sent)
            yield from state.server.hint_base_url(refusal)
            if isinstance(refusal, ToolsUnsupported) and not path.proven and may_repeat(refusal, sent):
                # A request that has nothing of the conversation in it tells whether the server takes tools at all.
                plain = state.builder.build(state.name, [UserMessage("Hello.")], [PROBE_TOOL], path, 1)
                path = replace(path, proven=(yield from state.server.ask(plain)) is not None)
        downgrade = self._choose_downgrade(path, refusal, body)
        if isinstance(refusal, (TokensUnsupported, ToolsDropped)):
            state.path = downgrade.path  # so, whatever becomes of the turn
        if downgrade.notice:
            self._held.append(Notice(downgrade.notice))
        return downgrade.path

    def _choose_downgrade(self, path: CallPath, refusal: ServerError, body: ChatRequest) -> Downgrade:
        """Raises the refusal where the turn may not be asked again, or nothing is left to change."""
        state = self._state
        if isinstance(refusal, ParserFailed):
            may_ask_again = self._may_avoid_parser and not refusal.was_shown
            return avoid_parser(state.facts, state.served, path, refusal, may_ask_again=may_ask_again)
        if isinstance(refusal, TokensUnsupported):  # it is about the endpoint, and nothing in the request
            return path.leave_tokens(refusal)
        odd, sent = state.builder.list_mended(body), state.builder.list_optional_fields(body)
        return choose_downgrade(path, refusal, odd, sent, are_tools_ours=True)

    def accept(self, path: CallPath, without: Set[str]) -> None:
        state = self._state
        state.shown.mends_history = path.mended
        if state.facts.note_grammar(state.served, failed=bool(without)):
            state.path = state.path.disable_fields(sorted(without))
