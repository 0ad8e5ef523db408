"""The next prompt as the ids of the last prompt and answer, and what the chat template writes behind them. Sans-IO.

The server renders every prompt as a whole. Where that begins with the last one, the template writes the answer next, up
to the token with which the model ended it. If this reads as the answer does, the model's own ids take its place, in
this prompt and in all that begin with it: a template writes blanks, escapes and the keys of a call otherwise than the
model did, and the same text may have other ids. In every other case the prompt is the template's: it may write earlier
messages otherwise than before, or the answer without its thoughts, or the answer was edited.

Kept of a conversation are a checksum of the last rendered prompt, and the ids of those answers that the template writes
otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from ..parsing import ParsedCall, ParserEvent, StreamParser
from ..parsing.arguments.tool_index import ToolIndex
from ..providers.base import RawTokens
from ..providers.vllm_tokens import RenderedPrompt
from ..types.effects import Aside
from ..types.events import ReasoningDelta, TextDelta
from ..types.lazy_pattern import LazyPattern
from .continuity import write_ids
from .server import ServerApi

# But for ASCII: of a special token in a value the first character is escaped, and so the token must go back.
_UNICODE_ESCAPE = LazyPattern(r"\\u(?!00[0-7])([0-9a-fA-F]{4})")
_WORD = LazyPattern(r"[^\W_]+")


class _Replacement(Struct, frozen=True):
    """The model's own ids of an answer, in place of what the template writes there in the rendered prompt."""

    start: int
    end: int
    ids: bytes


class AskedPrompt(Struct, frozen=True):
    """A rendered prompt: size and checksum of all but its last token, which may become one with what follows."""

    size: int
    checksum: bytes
    last: bytes
    replacements: tuple[_Replacement, ...]


class AnswerIds:
    """Makes the prompts of one conversation. Ids are kept as `write_ids` gives them."""

    def __init__(self, server: ServerApi) -> None:
        self._server = server
        self._prompt: AskedPrompt | None = None  # that was answered last
        self._answer = b""
        self._text = ""  # of that answer, with its markers
        self._end = b""  # the token with which the model ends its answers

    def extend(
        self, rendered: RenderedPrompt, model: str, tools: ToolIndex, thought_closer: str
    ) -> Aside[tuple[RenderedPrompt, AskedPrompt | None]]:
        """The prompt to send, and what `end` takes. `thought_closer`: see StreamParser."""
        if rendered.has_media:  # a field of the request says where in the rendered prompt they are
            return rendered, None
        ids = write_ids(rendered.ids)
        size = ids.rfind(b",", 0, -1) + 1
        before, replacements = self._prompt, tuple[_Replacement, ...]()
        shared = min(before.size, size) if before else 0
        view = memoryview(ids)  # a slice of it is no copy
        checksum = sha256(view[:shared])
        if before and (shared, checksum.digest()) == (before.size, before.checksum):
            replacements = before.replacements
            written, text = yield from self._read_answer(model, ids[before.size :], before.last)
            if text is not None and reads_alike(text, self._text, tools, thought_closer):
                own = _Replacement(before.size, before.size + len(written), before.last + self._answer)
                replacements = (*replacements, own)
        checksum.update(view[shared:size])
        asked = AskedPrompt(size, checksum.digest(), ids[size:], replacements)
        return replace(rendered, ids=_replace(view[:-1], replacements)), asked

    def end(self, asked: AskedPrompt | None, answer: RawTokens, text: str) -> None:
        """A request was answered. `asked`: its prompt, if `extend` made it; `text`: what the answer's tokens are."""
        if answer.end is not None:
            self._end = b"%d," % answer.end
        if asked:
            self._prompt = asked
            self._answer = b"".join([b"%d," % each for each in answer.ids])
            self._text = text

    def _read_answer(self, model: str, behind: bytes, last: bytes) -> Aside[tuple[bytes, str | None]]:
        """The answer as the template writes it, from the token before it on, and its text behind that token.

        The text is None where the ids are the same, the token is in another text, or the server does not tell.
        """
        if not self._answer or not self._end or behind.startswith(last + self._answer):
            return b"", None
        written, end, _ = (b"," + behind).partition(b"," + self._end)
        if not end or not written:
            return b"", None
        written = written[1:] + b","
        if written.startswith(last):
            return written, (yield from self._server.detokenize(model, _read_ids(written[len(last) :])))
        begun = yield from self._server.detokenize(model, _read_ids(last))
        text = yield from self._server.detokenize(model, _read_ids(written))
        if text and begun and text.startswith(begun):
            return written, text[len(begun) :]
        return written, None


def _read_ids(ids: bytes) -> list[int]:
    return [int(each) for each in ids.split(b",")[:-1]]


def _replace(rendered: memoryview, replacements: Sequence[_Replacement]) -> bytes:
    pieces, place = list[bytes | memoryview](), 0
    for each in replacements:
        pieces += [rendered[place : each.start], each.ids]
        place = each.end
    return b"".join([*pieces, rendered[place:]])


def reads_alike(one: str, other: str, tools: ToolIndex, thought_closer: str) -> bool:
    """Whether two texts are one answer: the same thoughts, text and calls in one order, whatever the blanks between."""
    return _list_parts(one, tools, thought_closer) == _list_parts(other, tools, thought_closer)


def _list_parts(text: str, tools: ToolIndex, thought_closer: str) -> list[tuple[type, str]]:
    parser = StreamParser(tools, thought_closer=thought_closer)
    parts: list[tuple[type, list[str]]] = []
    for event in [*parser.feed(text), *parser.close()]:
        kind, description = type(event), _describe(event)
        if kind is not ParsedCall and parts and parts[-1][0] is kind:
            parts[-1][1].append(description)
        elif description.strip():
            parts.append((kind, [description]))
    return [(kind, "".join(pieces).strip()) for kind, pieces in parts]


def _describe(event: ParserEvent) -> str:
    """The text of an event; a call by what is read of it, and all of its words.

    Nothing of a call that is not read, such as an id, may differ.
    """
    if isinstance(event, (TextDelta, ReasoningDelta)):
        return event.text
    if not isinstance(event, ParsedCall):
        return str(getattr(event, "raw", ""))
    plain = _UNICODE_ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), event.raw)
    words = sorted(_WORD.findall(plain))
    return json.dumps([event.call.name, event.call.arguments, words], sort_keys=True)
