"""Guards one choice of an answer: what the server sends in, what the client gets out. Pure.

It renders the decisions of parsing/landing. A chunk that cannot be part of a call leaves at once, byte for byte but for
the token ids that the client did not ask for. What may be a call is held. Once it is decided, the held chunks leave as
they came, or without the text of the call. Native calls leave as the server made them, as
soon as their name is one on offer and their first argument is one of that tool's. The chunk with the finish reason
waits for the recovery of what the server's parser lost.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import count
from typing import Any

from msgspec import Struct

from ...errors import ServerError, WireError
from ...model.recovery import MIN_CALL_TOKENS
from ...model.response_assembler import CHECK_INTERVAL_CHARS, ResponseAssembler
from ...parsing import ParserEvent
from ...parsing.formats.table import find_last_tag
from ...parsing.landing.decisions import (
    CallBreaks,
    CallEnds,
    Decision,
    Drop,
    Hold,
    Mark,
    Show,
    Waits,
    WholeCall,
)
from ...providers.base import WireEvent
from ...providers.openai import OpenAIStream
from ...providers.stream.response_builder import get_arguments_text
from ...providers.wire_json import as_dict, as_dicts
from ...types.events import Completed, TextDelta, ToolCallDelta
from ...types.messages import Response, ToolCall, ToolDefinition
from ..chat_request import ChatBody
from .call_writer import CallWriter, encode_call, take_completing, take_twin
from .held_chunk import (
    HeldChunk,
    build_chunks,
    build_end,
    clear_finish,
    name_end,
    render,
    render_last,
    shift_calls,
    write_pieces,
)
from .native_call import NativeCall
from .text_run import TextRun, hide_token_ids

# In a JSON string a quote is escaped, so that these match fields alone.
_FINISHED = b'"finish_reason":"'
_UNFINISHED = b'"finish_reason":""'  # in each chunk of some servers
_NO_CALLS: tuple[int, ...] = ()
_EMPTY = b'"delta":{}'  # vLLM sends such chunks only because token ids are asked for


class RecordingAssembler(ResponseAssembler):
    """Keeps the decisions too: joined, they are the text as the server sent it."""

    def __init__(
        self,
        tools: Sequence[ToolDefinition],
        new_id: Callable[[], str],
        request: ChatBody,
        *,
        waits: Waits,
        fits_native: bool,
    ) -> None:
        super().__init__(
            tools, new_id, request.list_given(), previews=waits != "all", waits=waits, fits_native=fits_native
        )
        self._decisions: list[Decision] = []
        self.count_held = self._parser.count_held

    def absorb(self, events: Sequence[ParserEvent], *, is_over: bool = False) -> list[Decision]:
        decisions = super().absorb(events, is_over=is_over)
        self._decisions += decisions
        return decisions

    def response(self) -> Response:
        """To a client, one that repeats itself is as one at its limit of tokens: it has all of its text."""
        return self._build_whole()

    def take_decisions(self) -> list[Decision]:
        """The decisions since the last time."""
        decisions, self._decisions = self._decisions, []
        return decisions


class Ending(Struct, frozen=True):
    """What an answer is to be at its end: the calls to send besides native ones.

    `text`: all of its text; None if that is as the server sent it. `is_replaced`: the calls stand for the server's
    calls that were held, which are dropped. `completed`: the native calls that the server's parser cut, by their
    indexes.
    """

    calls: Sequence[ToolCall]
    text: str | None = None
    is_replaced: bool = False
    completed: Mapping[int, ToolCall] = {}


class _Segment(Struct):
    """A part of the text. `is_kept`: whether the client gets it; None: not known yet.

    `is_shown`: it is text of the answer, and no thought. `call`: what it holds, if that is sent at the end of the
    answer. `delta`: what is sent in its place.
    """

    text: str
    is_kept: bool | None
    is_shown: bool = False
    call: ToolCall | None = None
    delta: dict[str, Any] | None = None


class _Guard:
    """What is common to streamed and whole answers. `fits_native`: see ResponseAssembler."""

    def __init__(
        self,
        request: ChatBody,
        new_id: Callable[[], str],
        *,
        waits: Waits = "all",
        may_be_cut: bool = False,
        fits_native: bool = True,
    ) -> None:
        self._may_be_cut = may_be_cut
        self._fits_native = fits_native
        self._tools = {tool.name: tool for tool in request.tools}
        self._decoder = OpenAIStream(new_id)
        self.assembler = RecordingAssembler(request.tools, new_id, request, waits=waits, fits_native=fits_native)
        self._segments: deque[_Segment] = deque()
        self._native: dict[int, NativeCall] = {}
        self.ends_thought = False  # which the chat template opened
        self._hides_ids = not request.wants_token_ids

    def close(self) -> None:
        """The answer has ended. Raises StreamCut."""
        for native in self._native.values():
            native.end()
        self._sort_in(self._absorb(self._decoder.close()))

    def _sort_in(self, decisions: Sequence[Decision]) -> None:
        self._segments += map(self._make_segment, decisions)

    def _absorb(self, events: Sequence[WireEvent]) -> list[Decision]:
        """The decisions, of events that are followed. Pieces of text in a row are parsed as one."""
        texts: list[str] = []
        for event in events:
            if isinstance(event, TextDelta):
                texts.append(event.text)
                continue
            self._flush(texts)
            if isinstance(event, ToolCallDelta):
                self.assembler.landing.waits = "all"  # a call in the text would take the place of the next native one
            for _ in self.assembler.take(event):
                pass
        self._flush(texts)
        return self.assembler.take_decisions()

    def _follow(self, events: Sequence[WireEvent]) -> None:
        """What of them does not wait for the parser: native calls, and whether the answer repeats itself."""
        for event in events:
            self.assembler.watch(event)
            if isinstance(event, ToolCallDelta):
                if event.call_index not in self._native:
                    may_be_cut = self._may_be_cut and self._decoder.has_token_ids
                    self._native[event.call_index] = NativeCall(
                        self._tools, may_be_cut=may_be_cut, is_fitted=self._fits_native
                    )
                self._native[event.call_index].add(event)

    @property
    def _is_cut(self) -> bool:
        """Whether the answer has reached its limit of tokens."""
        return self.assembler.completed.stop_reason == "max_tokens"

    @property
    def _may_be_rest(self) -> bool:
        """Whether text may be the rest of a call that the server's parser ended too early, or made nothing of."""
        if self._native:
            return not next(reversed(self._native.values())).is_complete
        return self._decoder.unaccounted >= MIN_CALL_TOKENS

    def _flush(self, texts: list[str]) -> None:
        if texts:
            for _ in self.assembler.take(TextDelta("".join(texts))):
                pass
            texts.clear()

    def _make_segment(self, decision: Decision) -> _Segment:
        if isinstance(decision, Show):
            return _Segment(decision.text, True, not decision.is_thought)
        if isinstance(decision, Mark):
            self.ends_thought = self.ends_thought or decision.ends_thought
            return _Segment(decision.raw, None if find_last_tag(decision.raw) else True)
        if isinstance(decision, Hold):
            return _Segment(decision.raw, None, is_shown=True)
        if isinstance(decision, WholeCall):
            return _Segment(decision.raw, False, call=decision.call)
        if isinstance(decision, (Drop, CallEnds, CallBreaks)):
            return _Segment(decision.raw, False)
        return _Segment("", True)

    def _settle_text(self, ending: Ending) -> str:
        """Decide on the text that has not left. Returns what is to be sent in its place."""
        keeps_text = ending.text is None or not ending.is_replaced
        keeps_tags = not (ending.text or ending.is_replaced)  # without a call
        for segment in self._segments:
            if segment.is_kept is None and segment.is_shown:
                segment.is_kept = keeps_text
            elif segment.is_kept is None:
                segment.is_kept = keeps_tags
        if ending.text is None:
            return ""
        return self._replace_text(ending.text)

    def _replace_text(self, text: str) -> str:
        """What is to be sent in place of the answer's text that has not left; none where another one has left."""
        own = self.assembler.response()
        shown = [segment for segment in self._segments if segment.is_shown]
        left = (own.kept_text or own.text).removesuffix("".join([segment.text for segment in shown])).rstrip()
        if not text.startswith(left):
            return ""
        for segment in shown:
            segment.is_kept = False
        return text[len(left) :]


class WholeGuard(_Guard):
    """Of a choice that came as a whole, with the answer that it is part of."""

    def __init__(
        self, request: ChatBody, new_id: Callable[[], str], answer: dict[str, Any], *, fits_native: bool = True
    ) -> None:
        """Raises ServerError, WireError and StreamCut."""
        super().__init__(request, new_id, fits_native=fits_native)
        self._choice: dict[str, Any] = answer["choices"][0]
        _write_arguments(self._choice["message"])
        events = self._decoder.read_whole(answer)
        self._follow(events)
        self._sort_in(self._absorb(events))
        self.close()

    def settle(self, ending: Ending) -> dict[str, Any]:
        """The choice as the client gets it; see StreamGuard.settle."""
        text = self._settle_text(ending)
        kept = [segment.text for segment in self._segments if segment.is_kept]
        fitted = {index: "".join(native.pieces) for index, native in self._native.items() if native.is_changed}
        if len(kept) == len(self._segments) and not (text or ending.calls or ending.completed or fitted):
            return self._choice
        content = "".join([*kept, text])
        message = {**self._choice["message"], "content": content if content.strip() else None}
        _settle_calls(message, ending, fitted)
        reason = name_end(has_calls="tool_calls" in message, is_cut=self._is_cut)
        return {**self._choice, "message": message, "logprobs": None, "finish_reason": reason}


def _write_arguments(message: dict[str, Any]) -> None:
    """Write the arguments of calls as text, which is what clients expect."""
    for call in [*as_dicts(message.get("tool_calls")), {"function": message.get("function_call")}]:
        function = as_dict(call.get("function"))
        if function.get("arguments") is not None:
            function["arguments"] = get_arguments_text(function["arguments"])


def _settle_calls(message: dict[str, Any], ending: Ending, fitted: Mapping[int, str]) -> None:
    """Give the message the calls that the client gets. `fitted`: the arguments that were changed, by their places."""
    native: list[dict[str, Any]] = []
    if not ending.is_replaced:
        native += message.get("tool_calls") or ()
    for index, arguments in fitted.items():
        if native:
            native[index] = {**native[index], "function": {**native[index]["function"], "arguments": arguments}}
        else:  # OpenAI's API before tool_calls
            message["function_call"] = {**message["function_call"], "arguments": arguments}
    for index, call in ending.completed.items():
        native[index] = encode_call(call)
    if calls := [*native, *map(encode_call, ending.calls)]:
        message["tool_calls"] = calls
    else:
        message.pop("tool_calls", None)


class StreamGuard(_Guard):
    """`feed` gets the chunks that hold this choice; `settle` comes after all of them.

    `thinks`: the model writes its thoughts into the text, and drafts calls in them. `may_be_cut`: the server's parser
    may end a value too early, which the answer's tokens tell if the server gives their ids.
    """

    broken: ServerError | WireError | None = None

    def __init__(
        self,
        request: ChatBody,
        new_id: Callable[[], str],
        *,
        thinks: bool = False,
        may_be_cut: bool = False,
        fits_native: bool = True,
    ) -> None:
        waits: Waits = "all" if thinks else "unsure"
        super().__init__(request, new_id, waits=waits, may_be_cut=may_be_cut, fits_native=fits_native)
        self._chunks: deque[HeldChunk] = deque()
        self.last = b""  # the chunk that came last
        self._ready: list[bytes] = []  # in the order of the answer
        self._writer = CallWriter()
        self.has_ended = False  # its finish reason has come
        self.is_stopped = False  # it repeats itself without end: no more of it is read
        self._is_over = False
        self._waits = False  # what is held, and all that follows, for the end of the answer
        self._run = TextRun(self.assembler.count_held, hides_ids=self._hides_ids)

    def feed(self, chunks: Sequence[bytes]) -> list[bytes]:
        """The chunks to send; `broken` is what the server sent instead of more of the answer.

        An answer that repeats itself ends at the same chunk, however many come at once.
        """
        sent: list[bytes] = []
        for number, data in enumerate(chunks):
            passed = self.pass_on(data)
            if passed is None:
                return [*sent, *self._take_in(chunks[number:])]
            sent += passed
        return sent

    def pass_on(self, data: bytes) -> list[bytes] | None:
        """The chunks to send, if a look at this chunk's text is enough; else None, and it is to be fed."""
        size = self.assembler.degeneration.new + self._run.size
        is_due = self._chunks or self._may_be_rest or size >= CHECK_INTERVAL_CHARS
        return None if is_due else self._run.pass_on(data)

    def close(self, last: Sequence[bytes] = (), *, is_done: bool = False) -> None:
        """`last`: the chunks without choices. `is_done`: the server said that nothing follows.

        Some servers say that in place of a finish reason.
        """
        for data in last:
            self._decoder.read_event(data, [])
        self._take_in(())
        if is_done and self.last and not self.has_ended:
            self._take_in([build_end(json.loads(self.last), name_end(has_calls=bool(self._native)))])
        self._is_over = True
        super().close()

    def begin_with(self, beginning: bytes) -> bool:
        """Take in a chunk that the client has already. Returns whether all of its text would have left."""
        self._take_in([beginning])
        return not self._chunks

    def release_run(self) -> list[bytes]:
        """The chunks to send before `find_left`."""
        return self._take_in(())

    def find_left(self) -> str | None:
        """The text of which the client has what is not held; None if it has a part of a call."""
        if self._writer.count or any(call.is_begun for call in self._native.values()):
            return None
        text = "".join(event.response.text for event in self._decoder.cut() if isinstance(event, Completed))
        return text[: len(text) - sum(chunk.unsent for chunk in self._chunks)]

    def _take_in(self, chunks: Sequence[bytes]) -> list[bytes]:
        """Decode and parse what has passed, and the chunks; returns those to send."""
        found: list[WireEvent] = []
        passed, held = self._run.take()
        new = self._read_chunks([*passed, *held, *chunks], found)
        if passed and new:
            new[0].data = b""
        decisions = self._absorb(found)
        if not self._chunks and not self._waits and _is_just_text(decisions, new):
            return [chunk.data for chunk in new if chunk.data]
        self._chunks += new
        self._sort_in(decisions)
        self._ready += self._release()
        return self._take_ready()

    def _read_chunks(self, chunks: Sequence[bytes], found: list[WireEvent]) -> list[HeldChunk]:
        """Those that the client may get; their events are added to `found`."""
        read: list[HeldChunk] = []
        text = b""  # the last chunk that is nothing but text
        for data in chunks:
            start = len(found)
            try:
                self._decoder.read_event(data, found)
            except (ServerError, WireError) as error:
                self.broken = error  # what came before it leaves
                break
            chunk = self._hold(data, found[start:])
            if len(found) == start + 1 and not chunk.calls and not chunk.is_last:
                text = data
            if chunk.is_last or not self._is_bare(data):
                read.append(chunk)
            if self.assembler.repeats and not self.has_ended:
                read.append(self._stop(data))
                break
        if text:
            self._run.learn(text)
        return read

    def _stop(self, data: bytes) -> HeldChunk:
        """The chunk that ends the answer behind this one, as its limit of tokens would."""
        self.is_stopped = True
        end = build_end(json.loads(data), name_end(has_calls=False, is_cut=True))
        self._decoder.read_event(end, [])
        return self._hold(end, ())

    def _hold(self, data: bytes, events: Sequence[WireEvent]) -> HeldChunk:
        """The chunk with these events, as the client may get it."""
        self._follow(events)
        self.last = data
        size, calls = _measure(events)
        is_last = _FINISHED in data and _UNFINISHED not in data
        self.has_ended = self.has_ended or is_last
        if size and self._may_be_rest:
            self._waits = True
            self.assembler.landing.waits = "all"
        if calls and self._writer.count:
            data = shift_calls(data, self._writer.count)
        if self._hides_ids:
            data = hide_token_ids(data)
        return HeldChunk(data, size, calls, is_last)

    def _take_ready(self) -> list[bytes]:
        ready, self._ready = self._ready, []
        return ready

    def _sort_in(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            segment = self._make_segment(decision)
            self._segments.append(segment)
            if self._is_over and segment.call:
                continue  # `settle` says whether it is sent
            # before the next decision: what stands behind a call must not leave before the call's rest
            if piece := self._writer.write(decision):
                self._ready += [*self._release(), *self._release_part(), *self._write_pieces([piece])]

    def _release_part(self) -> list[bytes]:
        """The text that is decided on of the first chunk, of which more is to be decided."""
        if not self._chunks:
            return []
        front = self._chunks[0]
        self._cover(front)
        deltas = front.deltas
        if deltas:
            front.size, front.deltas = -1, []
        return build_chunks(json.loads(self.last), deltas)

    def _write_pieces(self, pieces: Sequence[dict[str, Any]]) -> list[bytes]:
        """Chunks with these pieces of calls."""
        return build_chunks(json.loads(self.last), [{"tool_calls": [piece]} for piece in pieces])

    def _is_bare(self, data: bytes) -> bool:
        """Whether the chunk carries nothing but token ids that the client did not ask for."""
        return _EMPTY in data and b'"logprobs":null' in data and self._hides_ids

    def _release(self) -> Iterator[bytes]:
        """The chunks at the front on which all is decided. Those behind a call without its rest wait for `settle`."""
        while self._chunks and not self._waits and not self._writer.lacks_rest:
            chunk = self._chunks[0]
            self._cover(chunk)
            is_certain = all(self._native[index].is_certain for index in chunk.calls)
            if chunk.is_last or chunk.left or not is_certain:
                return
            self._fit_pieces(chunk)
            self._chunks.popleft()
            yield from render(chunk)

    def _fit_pieces(self, chunk: HeldChunk) -> None:
        """Write into the chunk what the client gets of its pieces of native calls."""
        pieces = [self._native[index].take_piece() for index in chunk.calls]
        if any(came != fitted for came, fitted in pieces):
            chunk.data = write_pieces(chunk.data, [fitted for _, fitted in pieces])

    def _cover(self, chunk: HeldChunk) -> None:
        """Give the chunk the segments that its content consists of, as far as they are decided."""
        while self._segments and self._segments[0].is_kept is not None:
            segment = self._segments[0]
            if segment.text and not chunk.left:
                return
            part = segment.text[: chunk.left]
            chunk.left -= len(part)
            if segment.is_kept:
                chunk.keep(part)
            segment.text = segment.text[len(part) :]
            if segment.text:
                return
            if segment.delta:
                chunk.deltas.append(segment.delta)
            self._segments.popleft()

    def settle(self, ending: Ending) -> list[bytes]:
        """The rest of the answer. Raises WireError where a part of a call has left that does not fit."""
        pieces, unsent = self._writer.settle(ending.calls, is_cut=self._is_cut)
        text = self._settle_text(ending)
        others = self._match_native(ending, unsent)
        sent = self._writer.count + len(self._native) - [*others.values()].count(None)
        reason = ""  # the server's, if the answer is as it sent it
        if self._writer.count or text or others or unsent:
            reason = name_end(has_calls=bool(sent or unsent), is_cut=self._is_cut)
        added: list[dict[str, Any]] = [{"content": text}] if text else []
        added += self._write_calls(others, unsent, sent)
        held = self._render_rest(added, reason, others.keys())
        return [*self._take_ready(), *self._write_pieces(pieces), *held]

    def _match_native(self, ending: Ending, unsent: list[ToolCall]) -> dict[int, ToolCall | None]:
        """The native calls that are not sent as they came, by their indexes: what each is completed to; None: nothing,
        for it is dropped. What completes one is taken out of the unsent calls.
        """
        others: dict[int, ToolCall | None] = {**ending.completed}
        for index, native in self._native.items():
            if index in others:
                continue
            is_broken = native.is_broken(is_cut=self._is_cut)
            if is_broken or (native.is_begun and ending.is_replaced):
                call = take_completing(unsent, native.complete)
                if call:
                    others[index] = call
                elif is_broken:  # the client has a part of it: another call could only be added to that
                    raise _make_cut_error(native.name)
            elif ending.is_replaced:
                others[index] = None
        return others

    def _complete_native(self, index: int, call: ToolCall) -> dict[str, Any]:
        """What follows of a native call that is this one; empty if nothing does."""
        native, place = self._native[index], self._writer.count + index
        if not native.is_begun:
            return {"index": place, **encode_call(call)}
        rest = native.complete(call)
        if rest is None:
            raise _make_cut_error(call.name)
        return {"index": place, "function": {"arguments": rest}} if rest else {}

    def _write_calls(
        self, others: Mapping[int, ToolCall | None], unsent: list[ToolCall], first: int
    ) -> list[dict[str, Any]]:
        """The deltas of what is missing of calls; unsent ones that stand in the text are sent in its place.

        `others`: see _match_native. `first`: the index of the first of the unsent calls.
        """
        rests = [self._complete_native(index, call) for index, call in others.items() if call]
        added: list[dict[str, Any]] = [{"tool_calls": [rest]} for rest in rests if rest]
        indexes = count(first)
        for segment in self._segments:
            if segment.call and (call := take_twin(unsent, segment.call)):
                segment.delta = {"tool_calls": [{"index": next(indexes), **encode_call(call)}]}
        return [*added, *({"tool_calls": [{"index": next(indexes), **encode_call(call)}]} for call in unsent)]

    def _render_rest(self, added: Sequence[dict[str, Any]], reason: str, dropped: Set[int]) -> list[bytes]:
        """The held chunks but for native calls that are `dropped` from them; `added` and `reason`: see render_last."""
        sent: list[bytes] = []
        end = next((chunk for chunk in reversed(self._chunks) if chunk.is_last), None)
        for chunk in self._chunks:
            self._cover(chunk)
            is_dropped = not dropped.isdisjoint(chunk.calls)
            if not is_dropped:
                self._fit_pieces(chunk)
            if chunk is end:
                sent += render_last(chunk, added, reason, is_dropped=is_dropped)
                continue
            if chunk.is_last and reason:  # some servers end twice
                chunk.data = clear_finish(chunk.data)
            if not is_dropped:
                sent += render(chunk)
        self._chunks.clear()
        return sent


def _make_cut_error(name: str) -> WireError:
    return WireError(f"The server's tool parser cut a value in a call of {name}, a part of which has left.")


def _measure(events: Sequence[WireEvent]) -> tuple[int, tuple[int, ...]]:
    """The characters of text in a chunk, and the native calls that it has pieces of, in their order."""
    size, calls = 0, _NO_CALLS
    for event in events:
        if isinstance(event, TextDelta):
            size += len(event.text)
        elif isinstance(event, ToolCallDelta):
            calls += (event.call_index,)
    return size, calls


def _is_just_text(decisions: Sequence[Decision], chunks: Sequence[HeldChunk]) -> bool:
    """Whether the chunks hold nothing but text that the parser let pass."""
    size = 0
    for chunk in chunks:
        if chunk.calls or chunk.is_last:
            return False
        size += chunk.size
    for decision in decisions:
        if not isinstance(decision, Show):
            return False
        size -= len(decision.text)
    return not size
