"""One guarded chat completion: the client's request in; effects, and what the client gets, out. Sans-IO.

A refusal changes the path and the request is edited anew, as in model/core.py. What the server's parser lost of the
answer is recovered from its tokens. A call that cannot be read is asked for again, at most `repair_turns` times.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar, Union

from ..errors import (
    BotError,
    RequestFailed,
    ServerError,
    StreamCut,
    WireError,
)
from ..model.core import INTERNAL_ERROR
from ..model.recovery import Recovery, Replay
from ..model.response_assembler import ResponseAssembler
from ..negotiation.call_path import GRAMMAR_FIELD, GRAMMAR_FIELDS, CallPath
from ..negotiation.evidence import MAX_BYTES_PER_TOKEN, probe_template
from ..negotiation.facts import FactStore, ServedModel
from ..negotiation.formats.written_format import PROBE, PROBE_TOOL, choose_format, detect_format
from ..negotiation.server import MAX_BODY_BYTES, OK, ServerApi, read_body, read_refusal
from ..negotiation.token_budget import TokenBudget
from ..parsing.landing.decisions import is_safe
from ..providers.base import ChatRequest
from ..providers.openai import OpenAICodec
from ..providers.server_errors import is_error, read_mid_stream_error
from ..providers.stream.decoder import BLANK, Form, build_page_error, detect_form, read_kind
from ..providers.stream.sse import EventDecoder
from ..providers.wire_json import as_dict, as_dicts, encode_json, load_json
from ..types.effects import EFFECTS, READ, Aside, Effect, Fetch, Open, Release, ReplyHead
from ..types.events import Completed, ModelEvent, TextDelta
from ..types.messages import NATIVE, Reasoning, Response, ToolCall
from .chat_request import ChatBody
from .chunks.guard import StreamGuard, WholeGuard
from .chunks.intake import DONE, make_chunks, sort_events, split_choices, take_rest
from .chunks.text_run import clear_token_ids, count_prompt_tokens
from .refusals import Refusals
from .report import LandedCall, Report

CHAT_PATH = "chat/completions"
MIN_ERROR_STATUS = 400
GUESSED = "It is not certain that a call was meant, or what it was."
REPAIR = "{reasons} Nothing was run. Write the call again, correctly, and nothing else."

T = TypeVar("T")


class WholeAnswer(NamedTuple):
    """A whole answer, or a refusal."""

    status: int
    body: bytes
    content_type: str = "application/json"


class Payload(NamedTuple):
    """The data of server-sent events, to be sent at once."""

    events: list[bytes]


Output = Union[WholeAnswer, Payload]
GatewayTurn: TypeAlias = Generator[Union[Effect, Output], Any, None]


class BodyCodec(OpenAICodec):
    """Asks about the prompt of a body that is made already."""

    def __init__(self, new_id: Callable[[], str], body: Mapping[str, Any]) -> None:
        super().__init__(new_id)
        self.body = body

    def encode_prompt(self, request: ChatRequest | None = None) -> bytes:  # noqa: ARG002
        names = ("model", "messages", "tools", "chat_template", "chat_template_kwargs", "add_generation_prompt")
        return encode_json({name: self.body[name] for name in names if name in self.body})


class ChatTurn:
    """At the server with `address`, of which `facts` are known. `new_id` names calls.

    `repair_turns`: how often a call that cannot be read is asked for again.
    """

    def __init__(
        self, address: str, facts: FactStore, request: ChatBody, new_id: Callable[[], str], repair_turns: int = 1
    ) -> None:
        self.report = Report()
        self.fact_key = ServedModel(address, request.model, "")
        self._address = address
        self._facts = facts
        self._request = request
        self._new_id = new_id
        self._repair_turns = repair_turns
        self._codec = BodyCodec(new_id, request.body)
        self._server = ServerApi(self._codec, address, facts, is_vllm=True)
        self._body: dict[str, Any] = {}

    def run(self) -> GatewayTurn:
        """Raises ClientError, WireError, and ServerError for an error inside the answer."""
        self.fact_key = self.fact_key._replace(version=(yield from self._server.version()))
        path = self._choose_path(self._facts.paths.get(self.fact_key))
        without: frozenset[str] = frozenset()
        refusals = Refusals(self._request, self._make_server(), self._ask_aside)
        while True:
            path = yield from self._learn_format(path)
            self._body = self._codec.body = self._request.edit(path, without)
            sent = encode_json(self._body)
            head: ReplyHead = yield Open("POST", CHAT_PATH, sent)
            if head.is_ok:
                form, start = yield from _read_start(head)
                doubted = (yield from self._doubt_prompt(path, start, len(sent))) if refusals.are_proven else None
                if doubted is None:
                    break
                path = doubted
                self.report.extra_requests += 1
                continue
            refused = yield from read_body()
            optional = self._request.list_optional_fields(self._body)
            refusal = read_refusal(head, refused, self._request.body)
            if refusal.status == INTERNAL_ERROR and optional & GRAMMAR_FIELDS and not without:
                without = GRAMMAR_FIELDS
                continue
            try:
                path = yield from refusals.downgrade(path, refusal, optional, without)
            except ServerError:
                if head.status < MIN_ERROR_STATUS:  # a redirect to another host
                    raise
                yield WholeAnswer(head.status, refused, head.content_type)
                return
            self.report.extra_requests += 1
        if refusals.are_proven:
            self._learn(path)
        self.report.path = path.mode
        yield from self._stream(start) if form == "stream" else self._answer_whole(start)

    def count_tokens(self) -> GatewayTurn:
        """Answer with the number of tokens that the prompt would have, in the shape of Messages."""
        self.fact_key = self.fact_key._replace(version=(yield from self._server.version()))
        path = self._facts.paths.get(self.fact_key)
        refusals = Refusals(self._request, self._make_server(), self._count_prompt)
        while True:
            reply = yield self._count_prompt(self._request.edit(path))
            if reply.head.is_ok:
                break
            refusal = read_refusal(reply.head, reply.body, self._request.body)
            try:
                path = yield from refusals.downgrade(path, refusal, frozenset())
            except ServerError:
                yield WholeAnswer(reply.head.status, reply.body, reply.head.content_type)
                return
        if refusals.are_proven:
            self._learn(path)
        self.report.path = path.mode
        count = as_dict(load_json(reply.body)).get("count")
        answer = {"input_tokens": count, "context_management": {"original_input_tokens": count}}
        yield WholeAnswer(OK, encode_json(answer))

    def _ask_aside(self, body: Mapping[str, Any]) -> Fetch:
        self.report.extra_requests += 1
        return Fetch("POST", CHAT_PATH, encode_json(body))

    def _count_prompt(self, body: Mapping[str, Any]) -> Fetch:
        self._codec.body = body
        return Fetch("POST", "/tokenize", self._codec.encode_prompt())

    def _choose_path(self, known: CallPath) -> CallPath:
        """A call that is required needs no parser of the server: it is held to the tools' schemas."""
        is_free = self._request.choice == "auto" and known.mode != "tokens"
        return known if is_free else replace(known, mode="native")

    def _learn(self, path: CallPath) -> None:
        if self._request.choice != "auto":
            path = replace(path, mode="native")
        if path != CallPath():
            self._facts.paths.update(self.fact_key, lambda known: known.join(path))

    def _doubt_prompt(self, path: CallPath, start: bytes, sent_bytes: int) -> Aside[CallPath | None]:
        """The path to ask again on, if the prompt is too short to hold the tools; else None.

        `start`: of the answer; `sent_bytes`: the size of the request. The server may have been started anew, with
        flags that leave them out. A probe tells, once.
        """
        key, request = self.fact_key, self._request
        if path.mode != "template" or request.has_media or self._facts.measured.get(key):
            return None
        tokens = count_prompt_tokens(start)
        if not 0 < tokens < sent_bytes // MAX_BYTES_PER_TOKEN:
            return None
        size = len(encode_json({**self._body, GRAMMAR_FIELD: None}))  # a grammar is no part of the prompt
        if tokens >= size // MAX_BYTES_PER_TOKEN:
            return None
        self._facts.measured.update(key, lambda _: True)
        shows_tools = yield from probe_template(self._make_server(), request.model, request.tools)
        return path.drop_tools() if shows_tools is False else path

    def _learn_format(self, path: CallPath) -> Aside[CallPath]:
        """The path with the format in which the model writes calls, which is asked once."""
        if path.mode != "template" or path.written_format or GRAMMAR_FIELD in path.disabled_fields:
            return path
        probe = ChatRequest(self._request.model, PROBE, [PROBE_TOOL])
        return replace(path, written_format=(yield from detect_format(self._make_server(), probe)))

    def _make_server(self) -> ServerApi:
        """The server, to be asked about prompts other than the client's."""
        return ServerApi(OpenAICodec(self._new_id), self._address, self._facts, is_vllm=True)

    def _stream(self, start: bytes) -> GatewayTurn:
        """Raises ServerError for an error of the server inside the stream. `start`: what was read of it."""
        events, guards, is_over = EventDecoder(), dict[int, StreamGuard](), False
        last: list[bytes] = []  # after the finish reasons: the usage
        thinks = self._facts.thinks_in_text.get(self.fact_key)  # and drafts calls in its thoughts
        has_choices = self._request.body.get("n") not in (None, 1)
        is_done = False  # as the server says
        sole: StreamGuard | None = None  # guard of the only choice
        while not (is_done or is_over):
            piece, start = start or (yield READ), b""
            is_over = piece is None
            found = take_rest(events) if piece is None else events.feed(piece)
            if sole and len(found) == 1 and (sent := sole.pass_on(found[0])) is not None:
                if sent:
                    yield Payload(sent)
                continue
            chunks, is_done = sort_events(found, last)
            for index, part in split_choices(chunks) if has_choices else ((0, chunks),) if chunks else ():
                if (guard := guards.get(index)) is None:
                    guard = guards[index] = StreamGuard(self._request, self._new_id, thinks=bool(thinks))
                if sent := guard.feed(part):
                    yield Payload(sent)
                if guard.assembler.repeats:
                    raise WireError("The model repeated itself without end, so its answer was ended.")
            sole = None if has_choices else guards.get(0)
        yield Release()
        if not guards:
            raise StreamCut("The server's answer was empty.")
        for guard in guards.values():
            guard.close(last if len(guards) == 1 else (), is_done=is_done)
            if guard.ends_thought:
                self._facts.thinks_in_text.update(self.fact_key, lambda _: True)
            calls, text, is_replaced = yield from self._finish(guard.assembler)
            yield Payload(guard.settle(calls, text, is_replaced=is_replaced))
        yield Payload([*last, DONE])

    def _answer_whole(self, body: bytes) -> GatewayTurn:
        """A client that wants a stream gets one."""
        yield Release()
        answer = as_dict(load_json(body))
        choices = as_dicts(answer.get("choices"))
        if not choices and is_error(answer):
            raise read_mid_stream_error(answer)
        if not choices or not all(isinstance(each.get("message"), dict) for each in choices):
            raise WireError("The server's answer is JSON, but not a chat completion.")
        settled = []
        for choice in choices:
            guard = WholeGuard(self._request, self._new_id, {**answer, "choices": [choice]})
            calls, text, is_replaced = yield from self._finish(guard.assembler)
            settled.append(guard.settle(calls, text, is_replaced=is_replaced))
        answer["choices"] = settled
        if not self._request.wants_token_ids:
            clear_token_ids(answer)
        if not self._request.stream:
            yield WholeAnswer(OK, encode_json(answer))
            return
        has_usage = bool(as_dict(self._request.body.get("stream_options")).get("include_usage"))
        yield Payload([*make_chunks(answer, has_usage=has_usage), DONE])

    def _finish(self, assembler: ResponseAssembler) -> Aside[tuple[list[ToolCall], str, bool]]:
        """The calls to send besides native ones, text that was lost, and whether they replace what was held."""
        own = assembler.response()
        # Of an answer in which nothing came, the client can get another one.
        whole, text = yield from self._recover(assembler, None if own.content else self._ask_again)
        if own.content and all(isinstance(block, Reasoning) for block in own.content):
            text = ""  # a thought without an answer is what the server says it is
        if self.report.path == "template" and (origin := assembler.find_origin()):
            self._facts.paths.update(self.fact_key, partial(_learn_origin, origin))
        own_ids = {call.id for call in own.calls}
        native = [call for call in whole.calls if call.origin == NATIVE and not call.repaired and call.id in own_ids]
        calls = [call for call in whole.calls if call not in native and is_safe(call)]
        is_replaced = len(calls) > len([call for call in own.calls if call.origin != NATIVE])
        how = "recovered" if is_replaced else "text"
        is_cut = whole.stop_reason == "max_tokens"
        is_unreadable = bool(whole.malformed) or any(call.guessed for call in whole.calls)
        if is_unreadable and not calls and not native and not is_cut and self._repair_turns:
            calls, how = (yield from self._repair(assembler.raw_text(), whole)), "repaired"
            is_replaced = bool(calls)
        self._note(whole, native, NATIVE)
        self._note(whole, calls, how)
        return calls, text, is_replaced

    def _note(self, whole: Response, calls: Sequence[ToolCall], how: str) -> None:
        report = self.report
        report.usage = whole.usage or report.usage
        report.calls += [LandedCall(call.name, how, call.origin) for call in calls]
        report.repairs += [repair for call in calls for repair in call.repaired]

    def _recover(self, assembler: ResponseAssembler, replay: Replay | None = None) -> Aside[tuple[Response, str]]:
        """The whole answer, and the text in it that the server's parser lost. `replay`: see Recovery."""
        request = self._request
        neutral = ChatRequest(
            request.model, (), request.tools, max_tokens=request.max_tokens, stream=replay is not None
        )
        recovery = Recovery(
            assembler,
            neutral,
            request.tools,
            choice=request.choice,
            is_native=self.report.path == "native",
            server=self._server,
            budget=TokenBudget(self._server, lambda _: 0),
            replay=replay,
            disable_native=lambda: "",
            sent_notices=set(),
        )
        events = yield from gather_events(recovery.run())
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        completed = next(event for event in events if isinstance(event, Completed))
        return completed.response, text

    def _ask_again(self, _: ChatRequest) -> Aside[ResponseAssembler]:
        return (yield from self._fetch_whole(()))

    def _fetch_whole(self, added: Sequence[Mapping[str, Any]]) -> Aside[ResponseAssembler]:
        """A whole answer to the client's request, with these messages at its end. Raises RequestFailed."""
        body = {**self._body, "messages": [*self._body["messages"], *added], "stream": False}
        for name in ("stream_options", "n"):
            body.pop(name, None)
        self.report.extra_requests += 1
        reply = yield Fetch("POST", CHAT_PATH, encode_json(body))
        if not reply.head.is_ok:
            raise read_refusal(reply.head, reply.body)
        answer = as_dict(load_json(reply.body))
        if len(as_dicts(answer.get("choices"))) != 1:
            raise WireError("The server's answer is JSON, but not a chat completion.")
        return WholeGuard(self._request, self._new_id, answer).assembler

    def _repair(self, raw: str, response: Response) -> Aside[list[ToolCall]]:
        """The calls of an answer in which the model was told what was wrong; none if they are not right either."""
        reasons = " ".join(call.reason for call in response.malformed) or GUESSED
        added = [{"role": "assistant", "content": raw}, {"role": "user", "content": REPAIR.format(reasons=reasons)}]
        self._repair_turns -= 1
        try:
            whole, _ = yield from self._recover((yield from self._fetch_whole(added)))
        except RequestFailed:
            return []
        return [] if whole.malformed else [call for call in whole.calls if is_safe(call)]


def _learn_origin(origin: str, path: CallPath) -> CallPath:
    """The path after a call of this origin was seen."""
    return replace(path, written_format=choose_format(path.written_format, origin))


def gather_events(turn: Generator[Union[Effect, ModelEvent], Any, object]) -> Aside[list[ModelEvent]]:
    """The events of a turn, whose effects are passed on."""
    events: list[ModelEvent] = []
    try:
        step = next(turn)
        while True:
            if not isinstance(step, EFFECTS):
                events.append(step)
                step = next(turn)
                continue
            try:
                answer = yield step
            except BotError as error:
                step = turn.throw(error)
            else:
                step = turn.send(answer)
    except StopIteration:
        return events


def _read_start(head: ReplyHead) -> Aside[tuple[Form, bytes]]:
    """What the open answer is, and its first bytes, or a whole answer. Raises WireError where it is a page."""
    kind, start = read_kind(head.content_type), b""
    form: Form | None = None
    while form is None and (piece := (yield READ)) is not None:
        start = (start + piece).lstrip(BLANK)
        form = detect_form(kind, start) if start else None
    if form == "page":
        raise build_page_error(kind, start + (yield from read_body()))
    if form == "whole":
        start += yield from read_body(MAX_BODY_BYTES)
    return form or "stream", start
