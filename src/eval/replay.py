"""Runs recorded answers of servers through the reader again, and compares what it makes of them. No I/O.

The turn of the gateway (serve/chat_turn.py) runs as it ran, with what was known of the server then; each request gets
the answer that the record holds for its method and path, in their order. A stream comes event by event.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec import Struct

from .. import errors
from ..errors import BotError, ClientError, StreamCut
from ..providers.wire_json import as_dict, as_dicts, as_str
from ..serve.chat_request import ChatBody
from ..serve.chat_turn import ChatTurn
from ..serve.record.entry import make_choices, read_answer
from ..serve.record.fold import FoldedAnswer, fold_chunks
from ..serve.record.reader_facts import restore_facts
from ..serve.record.recording import Recording
from ..serve.report import RELAYED_PATH
from ..serve.restore import sort_arguments
from ..serve.turn_options import restore_options
from ..types.effects import EFFECTS, Fetch, Open, Read, Reply, ReplyHead
from .record_lines import RecordLine

NOT_FOUND = 404  # for what the record holds no answer to: no server is there to ask
MAX_SHOWN_CHARS = 60  # of a text, from the first character that differs on
_EVENT_END = b"\n\n"


class Unreadable(Exception):
    """The record lacks what a replay needs."""


class Replayed(Struct, frozen=True):
    """What the reader makes of a recorded answer now. `unanswered`: requests that the record holds no answer to.

    `sent`: the data of the events that the client would get, as a chat completion's.
    """

    choices: list[dict[str, Any]]
    unanswered: list[str]
    sent: list[bytes]


class _RecordEnds(Exception):
    """The client was gone before the server had ended its answer."""


class Player:
    """Answers the requests of a turn with what was recorded."""

    def __init__(self, exchanges: Sequence[Mapping[str, Any]]) -> None:
        self.unanswered: list[str] = []
        self._exchanges = list(exchanges)
        self._pieces: Iterator[bytes] = iter(())
        self._open: Mapping[str, Any] = {}

    def perform(self, effect: object) -> Any:
        """Raises ClientError as the server's answer did, and _RecordEnds."""
        if isinstance(effect, Read):
            return self._read()
        if isinstance(effect, Open):
            return self._begin(effect.method, effect.path)
        if isinstance(effect, Fetch):
            head = self._begin(effect.method, effect.path)
            pieces = []
            while (piece := self._read()) is not None:
                pieces.append(piece)
            return Reply(head, b"".join(pieces))
        return None

    def _begin(self, method: str, path: str) -> ReplyHead:
        asked = (method, path)
        exchange = next((each for each in self._exchanges if (each.get("method"), each.get("path")) == asked), None)
        if exchange is None:
            self.unanswered.append(f"{method} {path}")
            self._open, self._pieces = {"whole": True}, iter((b"{}",))
            return ReplyHead(NOT_FOUND, "application/json")
        self._exchanges.remove(exchange)
        self._open, self._pieces = exchange, iter(split_pieces(as_str(exchange.get("raw")).encode()))
        if not exchange.get("status"):
            self._read()
        return ReplyHead(int(exchange.get("status") or 0), as_str(exchange.get("type")))

    def _read(self) -> bytes | None:
        piece = next(self._pieces, None)
        if piece is None and self._open.get("error"):  # what ended the answer, as the reader met it
            kind = getattr(errors, as_str(self._open["error"]), None)
            if not isinstance(kind, type) or not issubclass(kind, ClientError):
                kind = StreamCut
            raise kind(as_str(self._open.get("message")))
        if piece is None and not self._open.get("whole", True):
            raise _RecordEnds
        return piece


def split_pieces(raw: bytes) -> list[bytes]:
    """Each event of a stream for itself."""
    pieces = [piece + _EVENT_END for piece in raw.split(_EVENT_END)]
    pieces[-1] = pieces[-1].removesuffix(_EVENT_END)
    return [piece for piece in pieces if piece]


def find_obstacle(line: RecordLine) -> str:
    """Why a call is not read again; "" if it is."""
    if line.is_redacted:
        return "redacted"
    if line.entry.get("path") == RELAYED_PATH:
        return RELAYED_PATH
    return ""


def replay(entry: Mapping[str, Any]) -> Replayed:
    """Raises Unreadable."""
    recording, player = Recording("", "", 0.0), Player(as_dicts(entry.get("exchanges")))
    steps = _start(entry, recording)
    try:
        _drive(steps, player)
    except _RecordEnds:
        steps.close()
    except BotError:
        pass  # the client got what came before it, and an error: what was sent is compared
    choices = make_choices(read_answer(fold_chunks, recording.sent), recording.report, FoldedAnswer())
    return Replayed(choices, player.unanswered, recording.sent)


def _start(entry: Mapping[str, Any], recording: Recording) -> Generator[Any, Any, None]:
    reader = as_dict(entry.get("reader"))
    body = {**as_dict(entry.get("request")), "model": entry.get("model")}
    body |= {name: entry[name] for name in ("messages", "tools") if entry.get(name) is not None}
    chat = ChatBody(body, as_dict(reader.get("form")) or None)
    server = as_str(reader.get("server"))
    numbers = count(1)
    try:
        facts = restore_facts(as_dict(reader.get("facts")), server, chat.model)
        turn = ChatTurn(
            server,
            facts,
            chat,
            lambda: f"call{next(numbers)}",
            restore_options(reader),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"what was known of the server is not in it: {error}") from error
    return recording.follow(turn, turn.run(), facts)


def _drive(steps: Generator[Any, Any, None], player: Player) -> None:
    """Raises _RecordEnds, and what the turn raises."""
    try:
        step = next(steps)
        while True:
            if not isinstance(step, EFFECTS):
                step = next(steps)
                continue
            try:
                answer = player.perform(step)
            except BotError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration:
        return


def compare(entry: Mapping[str, Any], now: Replayed) -> list[str]:
    """The differences between the calls and texts that a client got and those that it would get now, a line each."""
    differing = [f"{request} is asked, and the record holds no answer" for request in now.unanswered]
    before = {each.get("index"): each for each in as_dicts(entry.get("choices"))}
    after = {each.get("index"): each for each in now.choices}
    is_cut = entry.get("ended") == "cancelled"
    for index in sorted({*before, *after}, key=str):
        where = "" if len({*before, *after}) == 1 else f"choice {index}: "
        differences = _compare_choice(before.get(index) or {}, after.get(index) or {}, is_cut=is_cut)
        differing += [f"{where}{each}" for each in differences]
    return differing


def _compare_choice(before: Mapping[str, Any], after: Mapping[str, Any], *, is_cut: bool) -> Iterator[str]:
    """`is_cut`: the client was gone before the end; more or less of it may have left by then, but nothing else."""
    for name in ("text", "reasoning"):
        old, new = as_str(before.get(name)), as_str(after.get(name))
        if is_cut:
            old, new = old[: len(new)], new[: len(old)]
        if old != new:
            yield f"{name}: {_show_difference(old, new)}"
    old_calls, new_calls = as_dicts(before.get("calls")), as_dicts(after.get("calls"))
    if is_cut:
        pairs = [_describe_beginnings(*both) for both in zip(old_calls, new_calls, strict=False)]
    else:
        numbers = range(max(len(old_calls), len(new_calls)))
        pairs = [(describe_call(old_calls, number), describe_call(new_calls, number)) for number in numbers]
    for number, (old_call, new_call) in enumerate(pairs, 1):
        if old_call != new_call:
            yield f"call {number}: {_show_difference(old_call, new_call)}"


def _describe_beginnings(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, str]:
    """Two calls, as far as both sides have them. How a call came is known only once the answer is whole.

    Arguments are text where their end has not come. How an object was written is not known: it is compared with none.
    """
    one, other = old.get("arguments"), new.get("arguments")
    if isinstance(one, str) and isinstance(other, str):
        one, other = one[: len(other)], other[: len(one)]
    elif isinstance(one, str) or isinstance(other, str):
        one = other = ""
    return f"{old.get('name')}({_write_arguments(one)})", f"{new.get('name')}({_write_arguments(other)})"


def describe_call(calls: Sequence[Mapping[str, Any]], number: int) -> str:
    if number >= len(calls):
        return "none"
    call = calls[number]
    return f"{call.get('name')}({_write_arguments(call.get('arguments'))}), {call.get('how')}"


def _write_arguments(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else sort_arguments(arguments)


def _show_difference(old: str, new: str) -> str:
    """Both from a little before the first character that differs on."""
    same = next(
        (at for at, (one, two) in enumerate(zip(old, new, strict=False)) if one != two), min(len(old), len(new))
    )
    start = max(same - MAX_SHOWN_CHARS // 3, 0)
    return f"{_shorten(old, start)} -> {_shorten(new, start)}"


def _shorten(text: str, start: int) -> str:
    end = start + MAX_SHOWN_CHARS
    shown = repr(text[start:end])
    if start:
        shown = f"...{shown}"
    if end < len(text):
        shown = f"{shown}..."
    return shown
