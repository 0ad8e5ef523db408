"""One answer: opens the request on its call path, reads what the server streams, and keeps what it shows of the server.

On every path the answer's text goes through the stream parser, so that all end in the same blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from ..errors import (
    ConnectFailed,
    ModelNotFound,
    ParserFailed,
    RequestFailed,
    ServerLoading,
    TokensUnsupported,
    WireError,
)
from ..negotiation.answer_ids import AskedPrompt
from ..negotiation.call_path import TOOLS_LEFT_OUT, CallPath
from ..negotiation.evidence import PromptWatch
from ..negotiation.formats.markers import list_markers
from ..negotiation.formats.written_format import choose_format
from ..negotiation.server import as_tokens_refusal, read_body, read_piece, read_refusal
from ..providers import text_completions
from ..providers.base import ChatRequest, Decoder, HttpRequest, PromptIds, decode_piece, raise_broken
from ..providers.vllm_tokens import make_generate_decoder
from ..providers.wire_json import encode_json, load_json
from ..types.effects import Aside, Open, Release, ReplyHead, Turn
from ..types.events import ModelEvent, Notice, ReasoningDelta
from ..types.messages import ToolDefinition
from .response_assembler import ResponseAssembler
from .state import ModelState

MAX_CHARS_PER_TOKEN = 16  # of an answer on average: twice what the tokens of source code have
DEFAULT_CONTEXT_TOKENS = 262_144  # where the server tells no length
_SIGNS_OF_RESTART = (ConnectFailed, ModelNotFound, ServerLoading)  # another server may answer after these


class Answer:
    """Of one request on one path. `tools`: whose calls count, offered or not. `watch`: compares the prompt's size.

    `raw_prompt`: the text behind which an answer is asked for, where the path is for a raw turn. `assembler` holds the
    answer, `prompt_ids` the ids of its prompt where the server tells them, and `asked` the prompt that was made of ids.
    """

    def __init__(
        self,
        state: ModelState,
        request: ChatRequest,
        tools: Sequence[ToolDefinition],
        path: CallPath,
        watch: PromptWatch,
        raw_prompt: str,
    ) -> None:
        self._state = state
        self._request = request
        self._tools = tools
        self._path = path
        self._watch = watch
        self._raw_prompt = raw_prompt
        self._is_from_tokens = path.mode == "tokens" and bool(tools)  # without tools there is nothing to lose
        self._index = state.index_tools(tuple(tools))
        self._shown_kinds: set[type[ModelEvent]] = set()
        self.assembler = ResponseAssembler(
            tools,
            state.new_id,
            state.builder.given,
            state.shown.thought_closer,
            self._index,
            calls_in_thoughts=state.shown.calls_in_thoughts,
        )
        self.prompt_ids = b""
        self.asked: AskedPrompt | None = None

    def _open(self) -> Aside[Decoder]:
        """Its decoder, once the server has accepted the request. Raises ServerError and ToolsDropped."""
        state = self._state
        wire = state.builder.encode(self._request)
        sent = wire
        if self._path.is_raw:
            body = text_completions.make_body(load_json(wire.body), self._raw_prompt, list_markers())
            sent = HttpRequest("completions", encode_json(body))
        elif self._is_from_tokens:
            sent = yield from self._make_prompt(wire)
        head: ReplyHead = yield Open("POST", sent.path, sent.body)
        if not head.is_ok:
            refusal = read_refusal(head, (yield from read_body()), load_json(wire.body))
            raise as_tokens_refusal(refusal) if self._is_from_tokens else refusal
        if self._path.is_raw or self._is_from_tokens:
            return make_generate_decoder(head.content_type, state.new_id)
        return state.codec.make_decoder(head.content_type)

    def _make_prompt(self, wire: HttpRequest) -> Aside[HttpRequest]:
        """The request from the tokens of its prompt."""
        state = self._state
        rendered = yield from state.server.render(wire)
        self._watch.compare(rendered.size)
        closer = state.shown.thought_closer
        prompt, self.asked = yield from state.answer_ids.extend(rendered, self._request.model, self._index, closer)
        self.prompt_ids = prompt.ids
        return prompt.request

    def read(self, accept: Callable[[], Iterable[ModelEvent]]) -> Turn[None]:
        """The events to show, until the answer ends. `accept` gives the first ones, once the server has accepted it."""
        assembler = self.assembler
        limit = MAX_CHARS_PER_TOKEN * (self._state.context_limit or DEFAULT_CONTEXT_TOKENS)
        is_over = False
        try:
            decoder = yield from self._open()
            yield from accept()
            while not is_over and assembler.size <= limit:
                events, is_over = decode_piece(decoder, (yield from read_piece()))
                for event in events:
                    if isinstance(event, PromptIds):
                        self.prompt_ids = event.ids
                    for shown in self._watch.take(event, assembler.feed(event)):
                        self._shown_kinds.add(type(shown))
                        yield shown
                raise_broken(events)
                is_over = is_over or assembler.repeats
            yield from self._watch.release()
            if is_over:
                yield Release()
            else:  # the connection is not released: the server still writes
                yield from assembler.cut(decoder.cut())
        except RequestFailed as error:
            if isinstance(error, WireError) and self._is_from_tokens and not self._shown_kinds:
                raise TokensUnsupported(error.message, error.hint) from error
            self._note_failure(error)
            if error.was_shown:
                yield from assembler.flush()
            raise
        yield from self._learn()

    def _note_failure(self, error: RequestFailed) -> None:
        """Note what an error says of the server, and whether anything was shown."""
        if isinstance(error, _SIGNS_OF_RESTART):
            self._state.server.forget()
        kinds = self._shown_kinds
        if isinstance(error, ParserFailed):  # thoughts may come twice: they are no part of the answer
            kinds = kinds - {ReasoningDelta}
        error.was_shown = bool(kinds)

    def _learn(self) -> Turn[None]:
        """Keep what a whole answer shows of the server and its model."""
        state, turn, path, request = self._state, self.assembler, self._path, self._request
        if self._tools and path.mode == "native":
            state.facts.note_parser(state.served, failed=False)
        state.shown.thought_closer, state.shown.calls_in_thoughts = turn.thought_closer, turn.calls_in_thoughts
        if (yield from state.prompt_counter.find_drop(self._watch, request)) and not turn.completed.calls:
            state.path = path = path.drop_tools()
            yield Notice(TOOLS_LEFT_OUT)
        is_proven = self._watch.is_proven or (path.mode == "native" and bool(turn.completed.calls))
        path = replace(path, proven=path.proven or is_proven)
        if path.prompt_style == "template":
            path = replace(path, written_format=choose_format(path.written_format, turn.find_origin()))
        state.path = path
        state.budget.record_usage(request, state.builder.measure_bytes(request), turn.completed.usage)
