"""One guarded chat completion: the client's request in; effects, and what the client gets, out. Sans-IO.

What the server refuses is negotiated (client_asker.py). What its parser lost is recovered from the tokens. A call
that cannot be read is asked for again, at most `repair_turns` times.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, Union

from msgspec import Struct
from msgspec.structs import replace

from ..errors import (
    AnswerUnfinished,
    ParserFailed,
    RequestFailed,
    ServerError,
    StreamCut,
    WireError,
)
from ..model.recovery import Recovery, Replay
from ..model.response_assembler import ResponseAssembler
from ..model.stalls import STALL_PROMPTS
from ..model.steps import watch
from ..negotiation.call_path import GRAMMAR_FIELD, THOUGHTS_FIELD, CallPath
from ..negotiation.facts import FactStore, ServedModel
from ..negotiation.formats.written_format import choose_format
from ..negotiation.negotiate import negotiate
from ..negotiation.server import OK, ServerApi, read_refusal
from ..negotiation.token_budget import TokenBudget
from ..parsing.events import is_safe
from ..parsing.formats.envelopes import opens_thought
from ..providers.base import ChatRequest
from ..providers.openai import CHAT_PATH, OpenAICodec
from ..providers.server_errors import is_error, judge_own_words, read_mid_stream_error
from ..providers.stream.sse import EventDecoder
from ..providers.text_completions import convert_answer, convert_chunk
from ..providers.wire_json import as_dict, as_dicts, as_str, encode_json, load_json
from ..types.effects import READ, Aside, Effect, Fetch, Release
from ..types.events import Completed, ModelEvent
from ..types.messages import NATIVE, Response, Text
from .chat_request import ChatBody
from .chunks.guard import Ending, StreamGuard, WholeGuard
from .chunks.intake import DONE, make_chunks, sort_events, split_choices, take_rest
from .chunks.text_run import clear_token_ids, find_prompt_ids
from .client_asker import ChatAsker, ClientAsker, CountAsker, encode_prompt
from .conversation import Conversation
from .outcome import GUARDED_ASKS, Ask, FinishedAnswer, decide_outcome, find_ask, write_ask
from .report import Report
from .resumption import Resumption
from .turn_options import TurnOptions

THOUGHT_START_TOKENS = 2  # of a prompt: they say whether it ends in an opened thought
PROMPT_TAIL_TOKENS = 16  # that hold the longest marker of a thought
MAX_THOUGHT_STARTS = 8  # of a model
UNSHOWN_THOUGHTS = 3  # answers whose calls wait, after one that ended a thought on a server that shows no prompt

AskerT = TypeVar("AskerT", ChatAsker, CountAsker)


class WholeAnswer(Struct, frozen=True):
    """A whole answer, or a refusal."""

    status: int
    body: bytes
    content_type: str = "application/json"


class Payload(Struct, frozen=True):
    """The data of server-sent events, to be sent at once."""

    events: list[bytes]


class KeepAlive(Struct, frozen=True):
    """Comments of the server in its stream: it is at work."""

    comments: bytes


Output = Union[WholeAnswer, Payload, KeepAlive]
GatewayTurn: TypeAlias = Generator[Union[Effect, Output], Any, None]


class BodyCodec(OpenAICodec):
    """Asks about the prompt of a body that is made already."""

    def __init__(self, new_id: Callable[[], str], body: Mapping[str, Any]) -> None:
        super().__init__(new_id)
        self.body = body

    def encode_prompt(self, request: ChatRequest | None = None) -> bytes:  # noqa: ARG002
        return encode_prompt(self.body)


class ChatTurn:
    """At the server with `address`, of which `facts` are known. `new_id` names calls."""

    def __init__(
        self,
        address: str,
        facts: FactStore,
        request: ChatBody,
        new_id: Callable[[], str],
        options: TurnOptions = TurnOptions(),  # noqa: B008 - it cannot be changed
    ) -> None:
        self._fits_native = "fit" in options.guards
        self._guards: dict[int, StreamGuard] = {}  # of the stream that is read
        self.report = Report()
        self._asker: ClientAsker | None = None
        self.fact_key = ServedModel(address, request.model, "")
        self._address = address
        self._facts = facts
        self._request = request
        self._new_id = new_id
        self._options = options
        self._repair_turns = options.repair_turns  # that are left
        self._codec = BodyCodec(new_id, request.body)
        self._server = ServerApi(self._codec, address, facts, is_vllm=True)
        self.conversation: Conversation | None = None  # that the request goes on with, if it is known
        self.answered: Response | None = None  # the answer that the client gets, once it is whole
        self.answer_tokens: list[int] = []
        self._prompt_tail: list[int] = []  # the last tokens of the prompt, if the server tells them

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """Those of the server's answer, so far."""
        return self._asker.head.headers if self._asker else ()

    def run(self) -> GatewayTurn:
        """Raises ClientError, WireError, and ServerError for an error inside the answer."""
        asker = yield from self._negotiate(ChatAsker)
        if asker is None:
            return
        try:
            yield from self._read_answer(asker)
        except (ServerError, StreamCut) as broken:
            yield from self._rescue(asker, broken)
        else:
            if asker.path.mode == "native":
                self._facts.note_parser(self.fact_key, failed=False)

    def _negotiate(self, make_asker: type[AskerT]) -> Generator[Union[Effect, Output], Any, AskerT | None]:
        """Who has asked; None if the server refused, and the client gets what it answered."""
        self.fact_key = replace(self.fact_key, version=(yield from self._server.version()))
        self._asker = asker = make_asker(
            self.fact_key, self._facts, self._request, self._new_id, self.report, self._options
        )
        try:
            yield from negotiate(asker, asker.choose_path())
        except ServerError:
            refused = asker.refused
            if refused is None or not refused.head.is_error:  # it pointed to another host
                raise
            yield WholeAnswer(refused.head.status, refused.body, refused.head.content_type)
            return None
        return asker

    def _read_answer(self, asker: ChatAsker, before: Resumption | None = None) -> GatewayTurn:
        """Of the request that the server has accepted. `before`: what the client has of an answer that broke off."""
        self._codec.body = asker.body
        is_raw = asker.path.is_raw
        if asker.form == "stream":
            yield from self._stream(asker.start, before, is_raw=is_raw)
        elif before is None or not before.text:
            yield from self._answer_whole(asker.start, is_raw=is_raw)
        else:
            raise StreamCut("The rest of the answer does not stream.")

    def _rescue(self, asker: ChatAsker, broken: ServerError | StreamCut) -> GatewayTurn:
        """The rest of an answer that broke off, once. Raises what broke it where there is none."""
        failure = judge_own_words(broken, asker.body) if isinstance(broken, ServerError) else broken
        if not self._request.may_be_asked_in_text or (isinstance(failure, ServerError) and failure.is_about_request):
            raise broken
        path = self._choose_rescue(asker, failure)
        before = yield from self._keep_what_left(asker)
        if before is None:
            raise broken
        if not isinstance(failure, ParserFailed):
            self.report.extra_requests += 1
            self.report.rescues.append("rest")
        try:
            yield from negotiate(asker, path)
            yield from self._read_answer(asker, before)
        except RequestFailed as again:
            raise broken from again

    def _choose_rescue(self, asker: ChatAsker, failure: ServerError | StreamCut) -> CallPath:
        """The path on which the rest is asked for. Raises the failure where the parser may not be avoided."""
        if isinstance(failure, ParserFailed):
            return asker.avoid_parser(asker.path, failure)
        is_unfinished = isinstance(failure, AnswerUnfinished) and asker.path.mode == "native"
        if is_unfinished and self._options.recovers_parser_errors:
            return asker.path.for_text_turn  # Ollama ends a stream so that its parser failed on
        return asker.path

    def _keep_what_left(self, asker: ChatAsker) -> Generator[Union[Effect, Output], Any, Resumption | None]:
        """What the client has of the answer, which broke off; None where it cannot be gone on with."""
        guard = self._guards.get(0)
        if guard is None:
            return Resumption("", {}, is_continued=False)
        if sent := guard.release_run():
            yield Payload(sent)
        text = guard.find_left()
        if text is None or len(self._guards) > 1:
            return None
        is_continued = False
        if text:
            # vLLM, which tells a version, and llama.cpp's server, which tells the parameters of its models, go on with
            # a message of the assistant
            yield from self._server.context_lengths()
            is_continued = bool(self.fact_key.version or self._server.info.parameter_counts)
        asker.continued = text if is_continued else ""
        return Resumption(text, as_dict(load_json(guard.last or b"{}")), is_continued=is_continued)

    def count_tokens(self) -> GatewayTurn:
        """Answer with the number of tokens that the prompt would have, in the shape of Messages."""
        asker = yield from self._negotiate(CountAsker)
        if asker is None:
            return
        count = as_dict(load_json(asker.counted)).get("count")
        answer = {"input_tokens": count, "context_management": {"original_input_tokens": count}}
        yield WholeAnswer(OK, encode_json(answer))

    def _stream(self, start: bytes, before: Resumption | None, *, is_raw: bool) -> GatewayTurn:
        """Raises ServerError for an error of the server inside the stream.

        `start`: what was read of it; `before`: what the client has of an answer that broke off.
        """
        events, is_over = EventDecoder(), False
        self._guards = {}
        last: list[bytes] = []  # after the finish reasons: the usage
        is_done = False  # as the server says
        has_prompt = False
        has_sole = before is None and not is_raw and not self._request.wants_choices
        sole: StreamGuard | None = None  # guard of the only choice
        while not (is_done or is_over):
            piece, start = start or (yield READ), b""
            is_over = piece is None
            found = take_rest(events) if piece is None else events.feed(piece)
            has_prompt = has_prompt or self._find_prompt(found)
            if events.comments:
                yield KeepAlive(events.take_comments())
            if sole and len(found) == 1 and (sent := sole.pass_on(found[0])) is not None:
                if sent:
                    yield Payload(sent)
                continue
            chunks, is_done = sort_events(found, last)
            yield from self._guard_chunks(_adapt_chunks(chunks, before, is_raw=is_raw), before)
            if has_sole:
                sole = self._guards.get(0)
            is_over = is_over or self._only_repeats
        yield Release()
        yield from self._end_stream(_adapt_chunks(last, before), is_done=is_done, is_raw=is_raw)

    def _guard_chunks(self, chunks: list[bytes], before: Resumption | None) -> GatewayTurn:
        """Send what may leave once these chunks have come."""
        parts: Iterable[tuple[int, list[bytes]]] = ()
        if self._request.wants_choices:
            parts = split_choices(chunks)
        elif chunks:
            parts = [(0, chunks)]
        for index, part in parts:
            guard = self._guards.get(index)
            if guard is None:
                guard = self._guards[index] = self._begin_guard(before)
            if guard.is_stopped:
                continue
            if sent := guard.feed(part):
                yield Payload(sent)
            if guard.broken:
                raise guard.broken

    @property
    def _only_repeats(self) -> bool:
        """Whether nothing is left to come but more of a choice that repeats itself."""
        guards = self._guards.values()
        has_all = len(guards) == (self._request.body.get("n") or 1)
        return has_all and any(guard.is_stopped for guard in guards) and all(guard.has_ended for guard in guards)

    def _begin_guard(self, before: Resumption | None) -> StreamGuard:
        """The guard of a choice that begins, or goes on. Raises StreamCut."""
        ends = self._facts.clean_ends.get(self._address)
        guard = StreamGuard(
            self._request,
            self._new_id,
            thinks=self._begins_thought,  # and drafts calls in thoughts
            may_be_cut=not any(model == self._request.model for model, _ in ends),
            fits_native=self._fits_native,
        )
        if before and before.text and not guard.begin_with(before.make_beginning()):
            raise StreamCut("The rest of the answer cannot be told from what was sent.")
        return guard

    def _end_stream(self, last: Sequence[bytes], *, is_done: bool, is_raw: bool) -> GatewayTurn:
        """Send the rest of each choice. `last`: the chunks without choices; `is_done`: see StreamGuard.close.

        Raises StreamCut.
        """
        guards = [*self._guards.values()]
        if not guards:
            raise StreamCut("The server's answer was empty.")
        for guard in guards:
            guard.close(last if len(guards) == 1 else (), is_done=is_done)
        if not is_raw and not self._request.body.get("continue_final_message"):
            yield from self._learn_thought_start(guards)
        for guard in guards:
            ending = yield from self._finish(guard.assembler)
            yield Payload(guard.settle(ending))
        yield Payload([*last, DONE])

    def _learn_thought_start(self, guards: Sequence[StreamGuard]) -> Aside[None]:
        """If a choice of the answer ends a thought that nothing in it began, later prompts that end so begin one.

        A client can have any model write that. So the prompt has to show who began it; where the server shows none,
        only the next answers are taken to think. The end of a prompt that a client wrote itself says nothing of the
        template.
        """
        end, known = self._prompt_end, self._facts.thought_starts.get(self.fact_key)
        unshown = self._facts.unshown_thoughts
        if not any(guard.ends_thought for guard in guards):
            if all(guard.assembler.completed.stop_reason != "max_tokens" for guard in guards):
                unshown.update(self.fact_key, lambda left: max(left - 1, 0))
            return
        if end in known or len(known) >= MAX_THOUGHT_STARTS:
            return
        prompt = yield from self._show_prompt_end()
        if prompt is None:
            unshown.update(self.fact_key, lambda _: UNSHOWN_THOUGHTS)
        elif opens_thought(prompt):
            self._facts.thought_starts.update(self.fact_key, lambda starts: starts | {end})

    def _show_prompt_end(self) -> Aside[str | None]:
        """The end of this prompt by its tokens; without them, as of llama.cpp's server, that of a plain question.

        None if the server shows none, or did not lately.
        """
        if self._facts.unshown_thoughts.get(self.fact_key):
            return None
        if self._prompt_tail:
            return (yield from self._server.detokenize(self._request.model, self._prompt_tail))
        plain = {"model": self._request.model, "messages": [{"role": "user", "content": "Hello."}]}
        return (yield from self._server.apply_template(encode_json(plain)))

    def _answer_whole(self, body: bytes, *, is_raw: bool) -> GatewayTurn:
        """A client that wants a stream gets one."""
        yield Release()
        answer = _read_whole(body, is_raw=is_raw)
        settled = []
        for choice in as_dicts(answer["choices"]):
            guard = self._read_choice({**answer, "choices": [choice]})
            ending = yield from self._finish(guard.assembler)
            settled.append(guard.settle(ending))
        self._measure(b",".join([b"%d" % each for each in answer.get("prompt_token_ids") or ()]))
        answer["choices"] = settled
        if not self._request.wants_token_ids:
            clear_token_ids(answer)
        if not self._request.stream:
            yield WholeAnswer(OK, encode_json(answer))
            return
        has_usage = bool(as_dict(self._request.body.get("stream_options")).get("include_usage"))
        yield Payload([*make_chunks(answer, has_usage=has_usage), DONE])

    def _finish(self, assembler: ResponseAssembler) -> Aside[Ending]:
        """What the client gets at the end of an answer: what the server's parser lost, or left in the text."""
        own = assembler.response()
        # Of an answer in which nothing came, the client can get another one.
        whole = yield from self._recover(assembler, None if own.content else self._ask_again)
        if self.report.path == "template" and (origin := assembler.find_origin()):
            self._facts.paths.update(
                self.fact_key, lambda path: replace(path, written_format=choose_format(path.written_format, origin))
            )
        names = dict.fromkeys(tool.name for tool in self._request.tools)
        answer = FinishedAnswer(assembler.completed, own, whole, names, self._request.form)
        more = Response(())
        if ask := find_ask(answer, self._list_allowed()):
            more = yield from self._ask_further(ask, answer)
        outcome = decide_outcome(answer, ask, more)
        if outcome.lacks_form and self._request.form:
            outcome = decide_outcome(answer, ask, more, (yield from self._fetch_formed(self._request.form)))
        self.report.add(outcome.landed, outcome.guards, outcome.response.usage)
        self.report.repeated += assembler.repeats
        if not self._request.wants_choices:  # of several answers to one request none goes on
            self.answered, self.answer_tokens = outcome.response, assembler.tokens.ids
        return outcome.ending

    def _list_allowed(self) -> set[Ask]:
        """Why one more turn may be asked for."""
        request = self._request
        allowed: set[Ask] = set()
        if self._repair_turns:
            allowed.add("repair")
        if request.wants_choices:
            return allowed
        allowed.update(ask for ask in GUARDED_ASKS if ask in self._options.guards)
        if request.form:  # asks again anyway
            allowed -= STALL_PROMPTS.keys()
        if not any(each.get("role") == "tool" for each in request.messages[-1:]):
            allowed.discard("announced")
        if self.report.path != NATIVE:  # others have no results of calls to tell it with
            allowed.discard("unknown")
        return allowed

    def _find_prompt(self, events: Sequence[bytes]) -> bool:
        """Measure the prompt by the first event of a stream. Returns whether that has come."""
        if events:
            ids = find_prompt_ids(events[0])
            self._measure(ids)
            last = ids.rsplit(b",", PROMPT_TAIL_TOKENS)[-PROMPT_TAIL_TOKENS:]
            self._prompt_tail = [int(each) for each in last if each]
        return bool(events)

    @property
    def _prompt_end(self) -> str:
        """The last tokens of the prompt, which its template wrote; "" if the server tells none."""
        return ",".join(map(str, self._prompt_tail[-THOUGHT_START_TOKENS:]))

    @property
    def _begins_thought(self) -> bool:
        """Whether this prompt opens a thought, as one that ended so has shown; else as the last answers were."""
        is_shown = self._prompt_end in self._facts.thought_starts.get(self.fact_key)
        return is_shown or self._facts.unshown_thoughts.get(self.fact_key) > 0

    def _measure(self, prompt_ids: bytes) -> None:
        if self.conversation and prompt_ids:
            self.report.kept = self.conversation.measure(prompt_ids, self.report.path)

    def _recover(self, assembler: ResponseAssembler, replay: Replay | None = None) -> Aside[Response]:
        """The answer with what the server's parser lost. `replay`: see Recovery."""
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
            is_unparsed=self.report.path == "raw",
            server=self._server,
            budget=TokenBudget(self._server, lambda _: 0),
            replay=replay,
            disable_native=lambda: "",
            sent_notices=set(),
        )
        events: list[ModelEvent] = []
        yield from watch(recovery.run(), events.append, is_shown=False)
        return next(event.response for event in events if isinstance(event, Completed))

    def _ask_again(self, _: ChatRequest) -> Aside[ResponseAssembler]:
        return (yield from self._fetch_whole(()))

    def _fetch_formed(self, form: Mapping[str, Any]) -> Aside[str]:
        """What the server's grammar makes of the answer in the client's form; "" if that cannot be had."""
        body = dict(self._codec.body)
        if GRAMMAR_FIELD not in self._request.body:
            body.pop(GRAMMAR_FIELD, None)
        if "tools" in body:
            body["tool_choice"] = "none"
        try:
            answer = yield from self._fetch_answer({**body, "response_format": form})
        except RequestFailed:
            return ""
        self.report.guards["form"] += 1
        return as_str(as_dict(as_dicts(answer["choices"])[0].get("message")).get("content"))

    def _fetch_whole(self, added: Sequence[Mapping[str, Any]]) -> Aside[ResponseAssembler]:
        """A whole answer to the client's request, with these messages at its end. Raises RequestFailed."""
        body = self._codec.body
        answer = yield from self._fetch_answer({**body, "messages": [*body["messages"], *added]})
        return self._read_choice(answer).assembler

    def _fetch_answer(self, sent: Mapping[str, Any]) -> Aside[dict[str, Any]]:
        """The whole answer to this body, with one choice. Raises RequestFailed."""
        body = {**sent, "stream": False}
        for name in ("stream_options", "n"):
            body.pop(name, None)
        self.report.extra_requests += 1
        reply = yield Fetch("POST", CHAT_PATH, encode_json(body))
        if not reply.head.is_ok:
            raise read_refusal(reply.head, reply.body)
        answer = as_dict(load_json(reply.body))
        if len(as_dicts(answer.get("choices"))) != 1:
            raise WireError("The server's answer is JSON, but not a chat completion.")
        return answer

    def _read_choice(self, answer: dict[str, Any]) -> WholeGuard:
        """The only choice of an answer."""
        return WholeGuard(self._request, self._new_id, answer, fits_native=self._fits_native)

    def _ask_further(self, ask: Ask, answer: FinishedAnswer) -> Aside[Response]:
        """The text and the calls of one more turn behind this answer; nothing where they are not right either."""
        assert self._asker is not None  # noqa: S101 - the answer has come
        self._repair_turns -= ask == "repair"
        shows_thoughts = THOUGHTS_FIELD not in self._asker.path.disabled_fields
        try:
            assembler = yield from self._fetch_whole(write_ask(ask, answer, shows_thoughts=shows_thoughts))
            more = yield from self._recover(assembler)
        except RequestFailed:
            return Response(())
        if more.malformed:
            return Response(())
        text = more.text if assembler.response().text else ""  # a thought is no text
        return Response((Text(text), *filter(is_safe, more.calls)))


def _read_whole(body: bytes, *, is_raw: bool) -> dict[str, Any]:
    """A chat completion. Raises ServerError for an error, and WireError for anything else."""
    answer = as_dict(load_json(body))
    if is_raw:
        answer = convert_answer(answer)
    choices = as_dicts(answer.get("choices"))
    if not choices and is_error(answer):
        raise read_mid_stream_error(answer)
    if not choices or not all(isinstance(each.get("message"), dict) for each in choices):
        raise WireError("The server's answer is JSON, but not a chat completion.")
    return answer


def _adapt_chunks(chunks: Sequence[bytes], before: Resumption | None, *, is_raw: bool = False) -> list[bytes]:
    """The chunks as those of the chat completion that the client has begun to read."""
    if is_raw:
        chunks = [encode_json(convert_chunk(as_dict(load_json(data)))) for data in chunks]
    return before.adapt(chunks) if before else list(chunks)
