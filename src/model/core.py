"""One model on one server: a conversation in, the model's turn out, as effects and events. Sans-IO.

Two choices are combined here and nowhere else: the codec (which provider's API) and the call path (how tools are
offered, see call_path.py). On every path the answer's text goes through the stream parser, so that all end in the same
blocks. When a server refuses a request, the path is changed and the request sent again; what the server's tool parser
lost is recovered from the answer's tokens (see recovery.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ..errors import (
    Advice,
    BotError,
    ConnectFailed,
    ModelNotFound,
    ParserFailed,
    RequestFailed,
    ServerError,
    ServerLoading,
    TokensUnsupported,
    ToolsDropped,
    ToolsUnsupported,
    WireError,
    join_names,
)
from ..negotiation.answer_ids import AnswerIds
from ..negotiation.call_gap import GAP_PROBE, has_gap, learn_gap
from ..negotiation.call_path import PARSER_FAILED, TOOLS_LEFT_OUT, CallPath, Downgrade, blames_grammar
from ..negotiation.continuity import ContinuityMeter, Sent
from ..negotiation.evidence import PromptCounter, PromptWatch, look_at_template, try_grammar
from ..negotiation.facts import FactStore, ServedModel
from ..negotiation.formats.markers import list_markers
from ..negotiation.formats.written_format import PROBE, PROBE_TOOL, choose_format, detect_format
from ..negotiation.history.mending import blames_history, describe_mended, may_blame_history
from ..negotiation.negotiate import Asker, negotiate
from ..negotiation.server import ServerApi, as_tokens_refusal, read_body, read_piece, read_refusal
from ..negotiation.thoughts import (
    PLAIN_PROBE,
    THOUGHT_PROBE,
    describe_thoughts,
    holds_thoughts,
    is_untold,
    probe_thoughts,
)
from ..negotiation.token_budget import TokenBudget
from ..negotiation.tool_choice import decide_call
from ..parsing.arguments.tool_index import ToolIndex
from ..providers import text_completions
from ..providers.base import ChatRequest, Codec, Decoder, PromptSize, decode_piece, raise_broken
from ..providers.server_errors import judge_own_words, may_repeat
from ..providers.vllm_tokens import make_generate_decoder
from ..providers.wire_json import encode_json, load_json
from ..types.caching import LastMemo, MessageMemo
from ..types.effects import Aside, Await, Fetch, Open, Release, ReplyHead, Turn
from ..types.events import ModelEvent, Notice, PrefixKept, PromptChanged, ReasoningDelta
from ..types.messages import Message, Named, SystemMessage, ToolChoice, ToolDefinition, UserMessage
from .recovery import Recovery
from .request_builder import ModelOptions, RequestBuilder, remove_fields
from .response_assembler import ResponseAssembler
from .retry import RetryPolicy, with_retries
from .steps import watch

MAX_CHARS_PER_TOKEN = 16  # of an answer on average: twice what the tokens of source code have
DEFAULT_CONTEXT_TOKENS = 262_144  # where the server tells no length
_SIGNS_OF_RESTART = (ConnectFailed, ModelNotFound, ServerLoading)  # another server may answer after these


class _Asked(NamedTuple):
    """What a turn is about."""

    messages: Sequence[Message]
    tools: Sequence[ToolDefinition]
    choice: ToolChoice


class ModelCore:
    """A model that answers a conversation, at `address`.

    `path`: the call path to begin with; what is learned in `facts` is joined with it. `max_tokens`: of one answer; None
    leaves it to the server. `new_id` names calls without a name; `jitter` gives a number from 0 to 1. `is_name_fixed`:
    no other model takes the place of one that the server has not. One turn runs at a time.
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
        self.server = ServerApi(codec, address, facts, is_vllm=options.is_vllm)
        self._codec = codec
        self._address = address
        self._facts = facts
        self._path = path
        self._options = options
        self._builder = RequestBuilder(codec, options)
        self._budget = TokenBudget(self.server, self._builder.measure_bytes)
        self._new_id = new_id
        self._jitter = jitter
        self._retry_policy = retry_policy
        self.is_name_fixed = is_name_fixed
        self._index_tools = LastMemo[tuple[ToolDefinition, ...], ToolIndex](ToolIndex)
        self._sent_notices: set[str] = set()  # about what a server lost: each is given once
        self._raw_prompt: str | None = None  # of this turn, where the text behind it is asked for
        self._thought_closer = ""  # what ends the thought that the chat template opens, once an answer showed it
        self._calls_in_thoughts = False  # an answer was a thought that ended with calls
        self._gaps = MessageMemo(has_gap)
        self._thoughts = MessageMemo(holds_thoughts)
        self._asked = _Asked((), (), "auto")
        self._readable: Sequence[ToolDefinition] = ()  # whose calls count, offered or not
        self._way = path  # of this turn, so far
        self._is_decided = False  # whether a weak model is to call a tool, for this turn
        self._doubts_grammar = True  # a failure of this turn may be due to a grammar
        self._grammar_failures = 0  # turns in a row in which a request failed with a grammar only
        self._prompt_counter = PromptCounter(self._budget, codec.encode_prompt)
        self._prompt_watch = PromptWatch()
        self._can_tell_prompts = True  # the server: what the template makes of a conversation
        self._can_tell_thoughts = True  # the server: what it makes of a thought
        self._mends_history = False  # the server refuses what is odd in this conversation
        self._continuity = ContinuityMeter()
        self._answer_ids = AnswerIds(self.server)
        self._beginning: dict[str, object] = {}  # of the last prompt
        self._held: list[ModelEvent] = []  # until the server accepts the request
        self._first_turn: ServedModel | None = None  # that this model finds out about for others

    @property
    def path(self) -> CallPath:
        """The own path, with what is known of the server."""
        return self._path.join(self._facts.paths.get(self._fact_key))

    @path.setter
    def path(self, path: CallPath) -> None:
        if path.reason == PARSER_FAILED:
            return  # it holds for this turn
        self._path = path
        if path.is_learned:
            self._facts.paths.update(self._fact_key, lambda known: known.join(path.for_others))

    @property
    def _fact_key(self) -> ServedModel:
        return ServedModel(self._address, self.name, self.server.info.version or "")

    @property
    def thoughts(self) -> str:
        """What becomes of its earlier thoughts, for the user."""
        return describe_thoughts(self.path, self._builder.thoughts_policy)

    @property
    def kept(self) -> PrefixKept | None:
        """What of the turn before the last measured prompt began with."""
        return self._continuity.last

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
        return self._budget.measure_fill(self._build_request(messages, tools, path), exact_from)

    def respond(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = (), tool_choice: ToolChoice = "auto"
    ) -> Turn[None]:
        """The model's next turn; the last event is Completed.

        With `tool_choice` none the prompt still describes the tools, so that it stays the same; the answer may hold
        calls, which must not run. A Notice tells where a call was required and none came. Raises ClientError,
        ServerError, WireError, and BotError if the chosen tool is not offered. No call of a turn that raises may be
        run. What it learns is kept once the server accepts a request: a turn that fails changes nothing for others.
        """
        offered = [tool.name for tool in tools if not tool.named_by]
        if isinstance(tool_choice, Named) and tool_choice.name not in offered:
            raise BotError(f"There is no tool {tool_choice.name}, so the model cannot be made to call it.")
        self._asked = _Asked(messages, tools, tool_choice)
        self._readable = tools
        self._is_decided = False
        self._doubts_grammar = True
        self._held = []
        try:
            if tools and self._is_untried(self.path):
                yield from self._wait_for_first_turn()
            way = self.path
            if self._may_avoid_parser:
                way = self._facts.avoid_parser(self._fact_key, way)
            self._way = replace(way, mended=self._mends_history)
            yield from with_retries(self._try, self._retry_policy, self._jitter, self.server.check_health)
        except RequestFailed:
            yield from self._end_first_turn()
            raise
        finally:
            self._release_first_turn()

    @property
    def _may_avoid_parser(self) -> bool:
        """Whether a turn on whose answer the server's parser fails may be asked in text."""
        return self._options.recovers_parser_errors and bool(self._asked.tools) and self._asked.choice == "auto"

    def _is_untried(self, path: CallPath) -> bool:
        is_known = path.mode not in ("tokens", "native") or path.is_chosen or self._facts.accepted.get(self._fact_key)
        return self.server.is_vllm and not is_known

    def _wait_for_first_turn(self) -> Aside[None]:
        """One of the first conversations finds out how the server takes tools; the others wait for that.

        It gives no events meanwhile: their receiver might ask another model in the same thread.
        """
        if running := self._facts.claim(self._fact_key):
            yield Await(running)
        else:
            self._first_turn = self._fact_key

    def _release_first_turn(self) -> None:
        if self._first_turn is not None:
            first, self._first_turn = self._first_turn, None
            self._facts.release(first)

    def _end_first_turn(self) -> Iterator[ModelEvent]:
        """From here on events may be given: those first that were held."""
        self._release_first_turn()
        held, self._held = self._held, []
        yield from held

    def _try(self) -> Turn[None]:
        """One attempt; other conversations need not wait for the next one."""
        asker: Asker[ChatRequest, ModelEvent] = self
        try:
            yield from negotiate(asker, self._way, doubts_grammar=self._doubts_grammar)
        except RequestFailed as error:
            if error.max_retries:
                yield from self._end_first_turn()
            raise

    def prepare(self, path: CallPath) -> Aside[CallPath]:
        """See Asker, as for the next four."""
        if path.reason == PARSER_FAILED and path.mode == "text":
            request = self._build_request(*self._asked[:2], path.for_raw_turn)
            self._raw_prompt = yield from self.server.render_text(request)
            if self._raw_prompt is not None:
                path = path.for_raw_turn
        if not path.is_raw:
            path = yield from self._learn_path(path)
        self._way = path
        return path

    def _learn_path(self, path: CallPath) -> Aside[CallPath]:
        """The path with what the server tells of its template, its grammars and its model, as far as this turn needs.

        Each is asked for once.
        """
        path = yield from self._learn_template(path)
        if path.mode == "tokens" and not self._can_tell_prompts:
            path = path.skip_tokens()
        if path.mode == "text" and not self._is_decided:
            yield from self._decide_call(path)
        path = yield from self._learn_thoughts(path)
        probe_gap = partial(self._build_request, GAP_PROBE, [PROBE_TOOL], path)
        learned = yield from learn_gap(self.server, path, self._gaps(self._asked.messages), probe_gap)
        if learned is not path:
            self.path = path = learned
        path = yield from self._learn_format(path)
        return (yield from self._learn_grammar(path))

    def _decide_call(self, path: CallPath) -> Aside[None]:
        """Decide for a weak model whether it is to call a tool in this turn."""
        messages, tools, choice = self._asked
        self._is_decided = True
        tools, choice = yield from decide_call(self.server, self.name, messages, tools, choice, path)
        self._asked = _Asked(messages, tools, choice)
        if not isinstance(messages[-1], UserMessage):  # behind results such a model would call without end
            self._readable = tools

    def _learn_format(self, path: CallPath) -> Aside[CallPath]:
        """The path with the format in which the model writes calls, once its template is in use."""
        is_in_use = path.prompt_style == "template" and (path.mode == "template" or path.proven)
        if self._asked.tools and is_in_use and not path.written_format and self._builder.wants_grammar:
            probe = self._build_request(PROBE, [PROBE_TOOL], path)
            self.path = path = replace(path, written_format=(yield from detect_format(self.server, probe)))
        return path

    def _learn_grammar(self, path: CallPath) -> Aside[CallPath]:
        """The path with the field by which the server holds an answer to a grammar, where a call is forced."""
        if self._asked.choice == "auto" or path.grammar:
            return path
        messages, tools, choice = self._asked
        tried = yield from try_grammar(self.server, self._build_request(messages, tools, path, choice), path)
        if tried is not path:
            self.path = tried
        return tried

    def edit(self, path: CallPath, without: Set[str]) -> ChatRequest:
        self._doubts_grammar = self._doubts_grammar and not without  # once is enough
        messages, tools, tool_choice = self._asked
        return remove_fields(self._build_request(messages, tools, path, tool_choice), without)

    def list_optional_fields(self, body: ChatRequest) -> frozenset[str]:
        return self._builder.list_optional_fields(body)

    def send(self, body: ChatRequest, path: CallPath) -> Turn[None]:
        """The events of the answer, and of what was lost in it."""
        request = yield from self._budget.fit_max_tokens(body)
        if path.is_raw:
            self._prompt_watch = PromptWatch()
        else:
            self._prompt_watch = yield from self._prompt_counter.watch(request, path)
        if (changed := self._list_changes(request, path)) and len(request.messages) > 2:
            self._held.append(PromptChanged(changed))
        tools, choice = self._readable, self._asked.choice
        self._continuity.begin(self._describe_sent(request, path))
        self._answer_ids.begin()
        turn = yield from self._stream_answer(request, tools, path)
        self._answer_ids.end(turn.tokens, turn.completed.raw_text)
        if kept := self._continuity.end(turn.tokens.ids):
            yield kept
        recovery = Recovery(
            turn,
            request,
            tools,
            choice=choice,
            is_native=path.mode == "native",
            is_unparsed=path.mode == "tokens" or path.is_raw,
            server=self.server,
            budget=self._budget,
            replay=lambda asked: watch(self._stream_answer(asked, tools, path), lambda _: None, is_shown=False),
            disable_native=partial(self._disable_native, path),
            sent_notices=self._sent_notices,
        )
        yield from recovery.run()

    def change(self, path: CallPath, refusal: ServerError, body: ChatRequest, without: Set[str]) -> Aside[CallPath]:  # noqa: ARG002
        if isinstance(refusal, ModelNotFound):
            self._held.append(Notice((yield from self._take_the_only_model(refusal))))
            return path
        if isinstance(refusal, ToolsDropped) and path.proven:
            self._forget_proof(path)
            return self.path
        if not isinstance(refusal, TokensUnsupported):
            sent = load_json(self._builder.encode(body).body)
            refusal = judge_own_words(refusal, sent)
            yield from self.server.hint_base_url(refusal)
            if isinstance(refusal, ToolsUnsupported) and not path.proven and may_repeat(refusal, sent):
                path = replace(path, proven=(yield from self._takes_tools(path)))
        if isinstance(refusal, ParserFailed):
            self._note_parser_failure(path, refusal)
        path, notice = self._downgrade(path, refusal, body)
        if isinstance(refusal, (TokensUnsupported, ToolsDropped)):
            self.path = path  # so, whatever becomes of the turn
            path = self.path
        if notice:
            self._held.append(Notice(notice))
        return path

    def _downgrade(self, path: CallPath, refusal: ServerError, body: ChatRequest) -> Downgrade:
        """The path without what was refused: what is odd in the conversation, where the refusal may be about that.

        Raises the refusal where nothing is left to change.
        """
        is_of_answer = refusal.in_answer or isinstance(refusal, ParserFailed)  # no unreadable call is sent as a call
        odd = () if is_of_answer else self._builder.list_mended(body)
        mended = Downgrade(replace(path, mended=True), describe_mended(odd))
        if odd and blames_history(refusal):
            return mended
        try:
            return path.downgrade(refusal, self._builder.list_optional_fields(body), are_tools_ours=not odd)
        except ServerError:
            if odd and may_blame_history(refusal):
                return mended
            raise

    def _takes_tools(self, path: CallPath) -> Aside[bool]:
        """Whether the server accepts a request on this path that has nothing of the conversation in it."""
        wire = self._builder.encode(self._builder.build(self.name, [UserMessage("Hello.")], [PROBE_TOOL], path, 1))
        reply = yield Fetch("POST", wire.path, wire.body)
        return bool(reply.head.is_ok)

    def _note_parser_failure(self, path: CallPath, refusal: ParserFailed) -> None:
        """Raises the refusal where the turn may not be asked again."""
        if path.mode == "native":
            self._facts.note_parser(self._fact_key, failed=True)
        if refusal.was_shown or not self._may_avoid_parser:
            raise refusal

    def accept(self, path: CallPath, without: Set[str], grammar_refusal: ServerError | None) -> None:
        """One failure with a grammar may have had another reason."""
        self._mends_history = path.mended
        self._grammar_failures = self._grammar_failures + 1 if grammar_refusal else 0
        if grammar_refusal and (self._grammar_failures > 1 or blames_grammar(grammar_refusal)):
            self.path = self.path.disable_fields(sorted(without))

    def _forget_proof(self, path: CallPath) -> None:
        self._prompt_counter.may_doubt = False
        self._path = path.forget_proof()
        self._facts.paths.update(self._fact_key, lambda _: self._path)

    def _take_the_only_model(self, refusal: ModelNotFound) -> Aside[str]:
        """Returns the notice. Raises the refusal if the server has several models, or none."""
        names = yield from self.server.try_list_models()
        if len(names) != 1 or names == [self.name] or self.is_name_fixed:
            if names:
                served = f"It serves {join_names(names)}: choose one with"
                refusal.hint = Advice(f"{served} --model or vllm.model.", f"{served} `model`.")
            raise refusal
        missing, self.name = self.name, names[0]
        return f"The server has no model {missing}; using {self.name}, the only one it serves."

    def _build_request(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        path: CallPath,
        tool_choice: ToolChoice = "auto",
    ) -> ChatRequest:
        writer = self.server.identify(self.name)
        return self._builder.build(self.name, messages, tools, path, self.max_tokens, tool_choice, writer)

    def _learn_template(self, path: CallPath) -> Aside[CallPath]:
        """The path with whether the template shows the tools. The conversation's beginning tells, in little time."""
        messages, tools, _ = self._asked
        is_open = path.mode in ("tokens", "native") and path.template_shows_tools is None
        if not (tools and is_open and self._can_tell_prompts):
            return path
        first = next((place for place, each in enumerate(messages) if isinstance(each, UserMessage)), len(messages))
        request = self._build_request(messages[: first + 1], tools, replace(path, mode="template"))
        sizes = yield from self._prompt_counter.count(request)
        if sizes is not None:
            # Kept whatever becomes of the turn.
            self.path = replace(path, template_shows_tools=sizes.shown > sizes.hidden)
            return self.path
        self._can_tell_prompts = False
        if (is_shown := (yield from look_at_template(self.server, request))) is not None:
            self.path, notice = path.learn_template(shows_tools=is_shown)
            if notice:
                self._held.append(Notice(notice))
        return self.path

    def _learn_thoughts(self, path: CallPath) -> Aside[CallPath]:
        """The path with whether the template shows thoughts, once there is one that could go back."""
        is_open = path.mode != "tokens" and is_untold(path, self._builder.thoughts_policy)
        if not (is_open and self._can_tell_thoughts and any(self._thoughts(self._asked.messages))):
            return path
        shown, hidden = (self._build_request(each, [PROBE_TOOL], path) for each in (THOUGHT_PROBE, PLAIN_PROBE))
        shows = yield from probe_thoughts(self.server, shown, hidden)
        self._can_tell_thoughts = shows is not None
        if shows is not None:
            self.path = path = replace(path, shows_thoughts=shows)
        return path

    def _describe_sent(self, request: ChatRequest, path: CallPath) -> Sent:
        is_system = isinstance(next(iter(request.messages), None), SystemMessage)
        way = f"{path.mode} {path.prompt_style} {path.alternate} {path.fold_system}"
        writer = self.server.identify(request.model)
        return Sent(writer, way, request.tools, request.messages, is_system)

    def _list_changes(self, request: ChatRequest, path: CallPath) -> tuple[str, ...]:
        """What begins otherwise than in the request before."""
        before = self._beginning
        self._beginning = {"path": path.mode, "system prompt": request.messages[:1], "tools": request.tools}
        return tuple(name for name, value in before.items() if value != self._beginning[name])

    def _disable_native(self, path: CallPath) -> str:
        self.path, notice = path.disable_native()
        return notice

    def _stream_answer(
        self, request: ChatRequest, tools: Sequence[ToolDefinition], path: CallPath
    ) -> Turn[ResponseAssembler]:
        """The events of one answer, and the whole."""
        turn = ResponseAssembler(
            tools,
            self._new_id,
            self._builder.given,
            self._thought_closer,
            self._index_tools(tuple(tools)),
            calls_in_thoughts=self._calls_in_thoughts,
        )
        shown_kinds: set[type[ModelEvent]] = set()
        limit = MAX_CHARS_PER_TOKEN * (self.context_limit or DEFAULT_CONTEXT_TOKENS)
        is_over = False
        try:
            decoder = yield from self._open_answer(request, tools, path)
            while not is_over:
                events, is_over = decode_piece(decoder, (yield from read_piece()))
                for event in events:
                    if isinstance(event, PromptSize):
                        self._continuity.read_prompt(event.ids)
                    for shown in self._prompt_watch.take(event, turn.feed(event)):
                        shown_kinds.add(type(shown))
                        yield shown
                raise_broken(events)
                is_over = is_over or turn.repeats
                if not is_over and turn.size > limit:
                    yield from turn.cut(decoder.cut())
                    break
            else:
                yield Release()
        except RequestFailed as error:
            self._take_failure(error, tools, path, shown_kinds)
            yield from turn.flush()
            raise
        yield from self._learn_from(turn, request, tools, path)
        return turn

    def _take_failure(
        self, error: RequestFailed, tools: Sequence[ToolDefinition], path: CallPath, shown_kinds: Set[type[ModelEvent]]
    ) -> None:
        """Note what an error says of the server, and whether anything was shown. Raises TokensUnsupported."""
        if isinstance(error, WireError) and _goes_by_tokens(path, tools) and not shown_kinds:
            raise TokensUnsupported(error.message, error.hint) from error
        if isinstance(error, _SIGNS_OF_RESTART):
            self.server.forget()
        if isinstance(error, ParserFailed):  # thoughts may come twice: they are no part of the answer
            shown_kinds = shown_kinds - {ReasoningDelta}
        error.was_shown = bool(shown_kinds)

    def _learn_from(
        self, turn: ResponseAssembler, request: ChatRequest, tools: Sequence[ToolDefinition], path: CallPath
    ) -> Turn[None]:
        """Keep what a whole answer shows of the server and its model."""
        if tools and path.mode == "native":
            self._facts.note_parser(self._fact_key, failed=False)
        self._thought_closer, self._calls_in_thoughts = turn.thought_closer, turn.calls_in_thoughts
        if (yield from self._prompt_counter.find_drop(self._prompt_watch, request)) and not turn.completed.calls:
            self.path = path = path.drop_tools()
            yield Notice(TOOLS_LEFT_OUT)
        is_proven = self._prompt_watch.is_proven or (path.mode == "native" and bool(turn.completed.calls))
        path = replace(path, proven=path.proven or is_proven)
        if path.prompt_style == "template":
            path = replace(path, written_format=choose_format(path.written_format, turn.find_origin()))
        self.path = path
        self._budget.record_usage(request, self._builder.measure_bytes(request), turn.completed.usage)

    def _open_answer(self, request: ChatRequest, tools: Sequence[ToolDefinition], path: CallPath) -> Turn[Decoder]:
        """The decoder of the answer to a request that the server accepts. Raises ServerError."""
        open_answer = self._open
        if path.is_raw:
            open_answer = self._open_raw
        elif _goes_by_tokens(path, tools):
            open_answer = self._open_generated
        decoder = yield from open_answer(request)
        self.path = path
        if tools:
            self._facts.accepted.update(self._fact_key, lambda _: True)
        yield from self._end_first_turn()
        return decoder

    def _open_raw(self, request: ChatRequest) -> Aside[Decoder]:
        """The decoder of the text behind the prompt. Raises ServerError."""
        chat = load_json(self._builder.encode(request).body)
        body = encode_json(text_completions.make_body(chat, self._raw_prompt or "", list_markers()))
        head: ReplyHead = yield Open("POST", "completions", body)
        if not head.is_ok:
            raise read_refusal(head, (yield from read_body()), chat)
        return make_generate_decoder(head.content_type, self._new_id)

    def _open(self, request: ChatRequest) -> Aside[Decoder]:
        """The decoder of a request's answer. Raises ServerError and ToolsDropped, as the next one does."""
        wire = self._builder.encode(request)
        self._prompt_watch.begin()
        head: ReplyHead = yield Open("POST", wire.path, wire.body)
        if not head.is_ok:
            raise read_refusal(head, (yield from read_body()), load_json(wire.body))
        return self._codec.make_decoder(head.content_type)

    def _open_generated(self, request: ChatRequest) -> Aside[Decoder]:
        """The same, from the tokens of its prompt."""
        self._prompt_watch.begin()
        rendered = yield from self.server.render(self._builder.encode(request))
        self._prompt_watch.compare(rendered.size)
        index = self._index_tools(tuple(self._readable))
        prompt = yield from self._answer_ids.extend(rendered, request.model, index, self._thought_closer)
        self._continuity.read_prompt(prompt.ids)
        wire = prompt.request
        head: ReplyHead = yield Open("POST", wire.path, wire.body)
        if not head.is_ok:
            raise as_tokens_refusal(read_refusal(head, (yield from read_body()), load_json(wire.body)))
        return make_generate_decoder(head.content_type, self._new_id)


def _goes_by_tokens(path: CallPath, tools: Sequence[ToolDefinition]) -> bool:
    """Whether the answer is asked for from the tokens of its prompt: without tools there is nothing to lose."""
    return path.mode == "tokens" and bool(tools)
