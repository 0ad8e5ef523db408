"""Guards one choice of an answer: what the server sends in, what the client gets out. Pure.

A chunk that cannot be part of a call leaves at once, byte for byte but for the token ids that the client did not ask
for. What may be a call is held. Once the parser has decided, the held chunks leave as they came, or without the text
of the call. Calls in JSON leave while they are written (call_writer.py). Native calls leave as the server made them, as
soon as their name is one on offer and their first argument is one of that tool's. The chunk with the finish reason
waits for the recovery of what the server's parser lost.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...model.response_assembler import CHECK_INTERVAL_CHARS, ResponseAssembler
from ...parsing import Cut, Doubted, Malformed, ParsedCall, ParserEvent, Reasoned
from ...providers.base import WireEvent
from ...providers.openai import OpenAIStream
from ...types.events import ModelEvent, ReasoningDelta, TextDelta, ToolCallDelta
from ...types.messages import ToolCall, ToolDefinition
from ..chat_request import ChatBody
from .call_writer import CallWriter, encode_call, is_safe
from .held_chunk import HeldChunk, build_chunks, build_end, clear_finish, render, render_last, shift_calls
from .native_call import NativeCall
from .text_call import TextCall
from .text_run import TextRun, hide_token_ids

# In a JSON string a quote is escaped, so that these match fields alone.
_FINISHED = b'"finish_reason":"'
_UNFINISHED = b'"finish_reason":""'  # in each chunk of some servers
_NO_CALLS: frozenset[int] = frozenset()
_EMPTY = b'"delta":{}'  # vLLM sends such chunks only because token ids are asked for


class RecordingAssembler(ResponseAssembler):
    """Keeps the parser's events too: joined, they are the text as the server sent it."""

    def __init__(
        self, tools: Sequence[ToolDefinition], new_id: Callable[[], str], request: ChatBody, *, previews: bool
    ) -> None:
        super().__init__(tools, new_id, request.list_given(), previews=previews)
        self._parsed: list[ParserEvent] = []
        self.count_held = self._parser.count_held

    def absorb(self, found: Sequence[ParserEvent]) -> list[ModelEvent]:
        self._parsed += found
        return super().absorb(found)

    def begin_call(self, head: ToolCallDelta) -> TextCall | None:
        """The call that the text has begun; None if it may yet be none, or is not in JSON."""
        kind, tool = self._parser.certain_kind, self._index.find(head.name or "")
        if not kind or tool is None:
            return None
        return TextCall(head.id or "", tool.name, tool.scalar_types, self._given, has_head=kind == "json")

    def take_parsed(self) -> list[ParserEvent]:
        """The events since the last time."""
        parsed, self._parsed = self._parsed, []
        return parsed


@dataclass(slots=True)
class _Segment:
    """A part of the text. `is_kept`: whether the client gets it; None: not known yet."""

    text: str
    is_kept: bool | None


class _Guard:
    """What is common to streamed and whole answers."""

    def __init__(self, request: ChatBody, new_id: Callable[[], str], *, previews: bool = False) -> None:
        self._tools = {tool.name: tool for tool in request.tools}
        self._decoder = OpenAIStream(new_id)
        self.assembler = RecordingAssembler(request.tools, new_id, request, previews=previews)
        self._segments: deque[_Segment] = deque()
        self._native: dict[int, NativeCall] = {}
        self._has_call = False  # in the text
        self.ends_thought = False  # which the chat template opened
        self._hides_ids = not request.wants_token_ids

    def close(self) -> None:
        """The answer has ended. Raises StreamCut."""
        self._sort_in(self._absorb(self._decoder.close()))

    def _sort_in(self, parsed: Sequence[ParserEvent]) -> None:
        self._segments += map(self._decide, parsed)

    def _absorb(self, events: Sequence[WireEvent]) -> list[ParserEvent]:
        """The parser's events. Pieces of text in a row are parsed as one."""
        texts: list[str] = []
        for event in events:
            if isinstance(event, TextDelta):
                texts.append(event.text)
                continue
            if isinstance(event, ToolCallDelta):
                self._native.setdefault(event.call_index, NativeCall(self._tools)).add(event)
            self._flush(texts)
            for _ in self.assembler.feed(event):
                pass
        self._flush(texts)
        return self.assembler.take_parsed()

    def _flush(self, texts: list[str]) -> None:
        if texts:
            for _ in self.assembler.feed(TextDelta("".join(texts))):
                pass
            texts.clear()

    def _decide(self, event: ParserEvent) -> _Segment:
        if isinstance(event, (TextDelta, ReasoningDelta)):
            return _Segment(event.text, True)
        if isinstance(event, ParsedCall):
            self._has_call = self._has_call or is_safe(event.call)
            return _Segment(event.raw, False if is_safe(event.call) else None)
        if isinstance(event, Malformed):
            return _Segment(event.raw, None)
        if isinstance(event, Cut):  # after a call: a result that the model made up
            return _Segment(event.raw, not self._has_call)
        if isinstance(event, (Reasoned, Doubted)) and event.raw:
            self.ends_thought = True
            return _Segment(event.raw, True)
        return _Segment("", True)

    def _settle_held(self, is_replaced: bool) -> frozenset[int]:
        """Decide on what was held. Returns the native calls that are dropped.

        `is_replaced`: other calls stand for all that was held.
        """
        for segment in self._segments:
            segment.is_kept = not is_replaced if segment.is_kept is None else segment.is_kept
        return frozenset(index for index, call in self._native.items() if is_replaced and not call.is_certain)


class WholeGuard(_Guard):
    """Of a choice that came as a whole, with the answer that it is part of."""

    def __init__(self, request: ChatBody, new_id: Callable[[], str], answer: dict[str, Any]) -> None:
        """Raises ServerError, WireError and StreamCut."""
        super().__init__(request, new_id)
        self._choice: dict[str, Any] = answer["choices"][0]
        self._sort_in(self._absorb(self._decoder.read_whole(answer)))
        self.close()

    def settle(self, calls: Sequence[ToolCall], text: str = "", *, is_replaced: bool = False) -> dict[str, Any]:
        """The choice as the client gets it; see StreamGuard.settle."""
        choice, message = self._choice, dict(self._choice["message"])
        dropped = self._settle_held(is_replaced)
        if not calls and not text and not dropped and all(segment.is_kept for segment in self._segments):
            return choice
        kept = "".join(segment.text for segment in self._segments if segment.is_kept) + text
        native = [call for index, call in enumerate(message.get("tool_calls") or ()) if index not in dropped]
        message["content"] = kept if kept.strip() else None
        if all_calls := [*native, *map(encode_call, calls)]:
            message["tool_calls"] = all_calls
        else:
            message.pop("tool_calls", None)
        reason = choice.get("finish_reason")
        if reason != "length":
            reason = "tool_calls" if all_calls else "stop"
        return {**choice, "message": message, "logprobs": None, "finish_reason": reason}


class StreamGuard(_Guard):
    """`feed` gets the chunks that hold this choice; `settle` comes after all of them.

    `previews`: calls in the text may leave while they are written.
    """

    def __init__(self, request: ChatBody, new_id: Callable[[], str], *, previews: bool = True) -> None:
        super().__init__(request, new_id, previews=previews)
        self._chunks: deque[HeldChunk] = deque()
        self._last = b""  # the chunk that came last
        self._ready: list[bytes] = []  # in the order of the answer
        self._writer = CallWriter(self.assembler.begin_call)
        self._run = TextRun(self.assembler.count_held, hides_ids=self._hides_ids)

    def feed(self, chunks: Sequence[bytes]) -> list[bytes]:
        """The chunks to send. Raises ServerError and WireError, for what the server sends instead of an answer."""
        sent: list[bytes] = []
        for number, data in enumerate(chunks):
            passed = self.pass_on(data)
            if passed is None:
                return [*sent, *self._take_in(chunks[number:])]
            sent += passed
        return sent

    def pass_on(self, data: bytes) -> list[bytes] | None:
        """The chunks to send, if a look at this chunk's text is enough; else None, and it is to be fed."""
        return None if self._chunks or self._run.size >= CHECK_INTERVAL_CHARS else self._run.pass_on(data)

    def close(self, last: Sequence[bytes] = (), *, is_done: bool = False) -> None:
        """`last`: the chunks without choices. `is_done`: the server said that nothing follows.

        Some servers say that in place of a finish reason.
        """
        for data in last:
            self._decoder.read_event(data, [])
        self._take_in(())
        if is_done and self._last and not any(chunk.is_last for chunk in self._chunks):
            self._take_in([build_end(json.loads(self._last), "tool_calls" if self._native else "stop")])
        super().close()

    def _take_in(self, chunks: Sequence[bytes]) -> list[bytes]:
        """Decode and parse what has passed, and the chunks; returns those to send."""
        found: list[WireEvent] = []
        new: list[HeldChunk] = []
        is_plain, text = not self._chunks, b""
        passed, held = self._run.take()
        self._last = chunks[-1] if chunks else self._last
        for data in [*passed, *held, *chunks]:
            start = len(found)
            self._decoder.read_event(data, found)
            events = found[start:]
            size, calls = _measure(events)
            is_last = _FINISHED in data and _UNFINISHED not in data
            is_plain = is_plain and not calls and not is_last
            if len(events) == 1 and not calls and not is_last:
                text = data
            if is_last or not self._is_bare(data):
                shown = shift_calls(data, self._writer.count) if calls and self._writer.count else data
                new.append(HeldChunk(hide_token_ids(shown) if self._hides_ids else shown, size, calls, is_last))
        if passed:
            new[0].data = b""
        if text:
            self._run.learn(text)
        parsed = self._absorb(found)
        if is_plain and _is_just_text(parsed, sum([chunk.size for chunk in new])):
            return [chunk.data for chunk in new if chunk.data]
        self._chunks += new
        self._sort_in(parsed)
        self._ready += self._release()
        return self._take_ready()

    def _take_ready(self) -> list[bytes]:
        ready, self._ready = self._ready, []
        return ready

    def _sort_in(self, parsed: Sequence[ParserEvent]) -> None:
        for event in parsed:
            segment = self._decide(event)
            if self._writer.follow(event, may_begin=not self._native):
                segment.is_kept = False
            self._segments.append(segment)
            # before the next event: what stands behind a call must not leave before the call's rest
            if pieces := self._writer.take():
                self._ready += [*self._release(), *self._release_part(), *self._write_pieces(pieces)]

    def _release_part(self) -> list[bytes]:
        """The text that is decided on of the first chunk, of which more is to be decided."""
        if not self._chunks:
            return []
        front = self._chunks[0]
        self._cover(front)
        kept = "".join(front.kept)
        if not kept:
            return []
        front.size, front.kept = -1, []
        return build_chunks(json.loads(self._last), [{"content": kept}])

    def _write_pieces(self, pieces: Sequence[dict[str, Any]]) -> list[bytes]:
        """Chunks with these pieces of calls."""
        return build_chunks(json.loads(self._last), [{"tool_calls": [piece]} for piece in pieces])

    def _is_bare(self, data: bytes) -> bool:
        """Whether the chunk carries nothing but token ids that the client did not ask for."""
        return _EMPTY in data and b'"logprobs":null' in data and self._hides_ids

    def _release(self) -> Iterator[bytes]:
        """The chunks at the front on which all is decided. Those behind a call without its rest wait for `settle`."""
        while self._chunks and not self._writer.lacks_rest:
            chunk = self._chunks[0]
            self._cover(chunk)
            calls = [self._native[index] for index in chunk.calls]
            if chunk.is_last or chunk.left or not all(call.is_certain for call in calls):
                return
            for call in calls:
                call.mark_sent()
            self._chunks.popleft()
            yield from render(chunk)

    def _cover(self, chunk: HeldChunk) -> None:
        """Give the chunk the segments that its content consists of, as far as they are decided."""
        while chunk.left and self._segments and self._segments[0].is_kept is not None:
            segment = self._segments[0]
            part = segment.text[: chunk.left]
            chunk.left -= len(part)
            if segment.is_kept:
                chunk.kept.append(part)
            segment.text = segment.text[len(part) :]
            if not segment.text:
                self._segments.popleft()

    def settle(self, calls: Sequence[ToolCall], text: str = "", *, is_replaced: bool = False) -> list[bytes]:
        """The rest of the answer, with `text` and `calls` added before its finish reason.

        `is_replaced`: the calls stand for all that was held, which is dropped.
        """
        writer, is_cut = self._writer, self.assembler.completed.stop_reason == "max_tokens"
        calls = writer.settle(calls, is_cut=is_cut)
        sent = [*self._take_ready(), *self._write_pieces(writer.take())]
        dropped = self._settle_held(is_replaced)
        rests: list[dict[str, Any]] = []
        for index, native in self._native.items():
            if native.is_broken(is_cut=is_cut) and calls:
                found = native.complete(calls)
                if found is None:  # the client has a part of the call: another one could only be added to it
                    calls, dropped, rests = (), frozenset(), []
                    break
                dropped |= {index}
                rests.append({"index": writer.count + index, "function": {"arguments": found[1]}})
                calls = [call for call in calls if call is not found[0]]
        lost = len(dropped) - len(rests)
        first = writer.count + len(self._native) - lost
        deltas = [*rests, *({"index": index, **encode_call(call)} for index, call in enumerate(calls, first))]
        has_calls = True if deltas or writer.count else False if lost and lost == len(self._native) else None
        added: list[dict[str, Any]] = [{"tool_calls": [delta]} for delta in deltas]
        if text:
            added.insert(0, {"content": text})
        end = next((chunk for chunk in reversed(self._chunks) if chunk.is_last), None)
        for chunk in self._chunks:
            self._cover(chunk)
            is_dropped = bool(chunk.calls & dropped)
            if chunk.is_last and chunk is not end and (added or has_calls is not None):  # some servers end twice
                chunk.data = clear_finish(chunk.data)
            if chunk is end:
                sent += render_last(chunk, added, has_calls, is_dropped=is_dropped)
            elif not is_dropped:
                sent += render(chunk)
        self._chunks.clear()
        return sent


def _measure(events: Sequence[WireEvent]) -> tuple[int, frozenset[int]]:
    """The characters of text in a chunk, and the native calls that it has pieces of."""
    size, calls = 0, _NO_CALLS
    for event in events:
        if isinstance(event, TextDelta):
            size += len(event.text)
        elif isinstance(event, ToolCallDelta):
            calls |= {event.call_index}
    return size, calls


def _is_just_text(parsed: Sequence[ParserEvent], size: int) -> bool:
    """Whether the parser let all of the text pass."""
    for event in parsed:
        if not isinstance(event, (TextDelta, ReasoningDelta)):
            return False
        size -= len(event.text)
    return not size
