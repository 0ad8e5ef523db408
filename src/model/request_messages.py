"""The conversation as a call path needs it: instructions in the system prompt, calls native or as text, roles merged.

Each message is rendered once and kept, so that a turn costs what is new in it, and the codec gets the same objects in
every turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from ..negotiation.call_gap import cut_message_gap
from ..negotiation.call_path import CallPath
from ..negotiation.formats.call_ids import CallNumberer
from ..parsing import extract_tool_calls, render_instructions, render_message
from ..types.caching import LastMemo, MessageMemo, count_shared
from ..types.messages import (
    NATIVE,
    TEXT,
    Block,
    MalformedCall,
    Message,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
    count_media,
    is_open_thought,
)
from ..types.special_tokens import neutralize_with_note

_NO_SYSTEM = SystemMessage("")


class MessageRenderer:
    """Renders the conversations of one model. `keeps_malformed`: a call that cannot be read stays a call."""

    def __init__(self, *, keeps_malformed: bool = False) -> None:
        self._keeps_malformed = keeps_malformed
        self._neutralized = MessageMemo(_neutralize)
        self._as_text = MessageMemo(render_message)
        self._flattened = MessageMemo(_flatten)
        self._writer: str | None = ""
        self._thoughtful = MessageMemo(partial(_drop_thoughts, ""))
        self._readable = MessageMemo(_read_malformed)
        self._gap = ""
        self._gapless = MessageMemo(partial(cut_message_gap, ""))
        self._named = CallNumberer()
        self._media_counts = MessageMemo(count_media)
        self._instructions = LastMemo[tuple[tuple[ToolDefinition, ...], bool], str](
            lambda key: render_instructions(key[0], native=key[1])
        )
        self._instructed = LastMemo[tuple[SystemMessage, str], SystemMessage](lambda key: _instruct(*key))
        self._sources: list[Message] = []  # of the exchanges of a path that is not text
        self._exchanges: list[Message] = []

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        path: CallPath,
        writer: str | None = "",
        model: str = "",
    ) -> list[Message]:
        """The conversation as `path` needs it, with instructions for `tools`; `messages` are not changed.

        `writer`: whose thoughts stay, with those of unknown writers; None: nobody's. `model`: its name.
        """
        if writer != self._writer:
            self._writer, self._thoughtful = writer, MessageMemo(partial(_drop_thoughts, writer))
        messages = self._named(self._thoughtful(messages), path.written_format, model)
        system = _NO_SYSTEM
        if messages and isinstance(messages[0], SystemMessage):
            system, messages = messages[0], messages[1:]
        system = self._instructed((system, self._write_instructions(tools, path)))
        exchanges = self._render_exchanges(self._neutralized(messages), path)
        rendered = [*exchanges]
        if path.fold_system and system.text:
            rendered.insert(0, UserMessage(system.text))
        elif not path.fold_system and system is not _NO_SYSTEM:
            rendered.insert(0, system)
        return _merge(rendered) if path.alternate else rendered

    def _write_instructions(self, tools: Sequence[ToolDefinition], path: CallPath) -> str:
        is_native = path.mode == "native"
        # Where the chat template shows the tools, a second list would only take up context.
        if path.prompt_style == "template" or (is_native and path.template_shows_tools):
            tools = ()
        return self._instructions((tuple(tools), is_native))

    def _render_exchanges(self, messages: Sequence[Message], path: CallPath) -> Sequence[Message]:
        """All exchanges as text on the text path, on others those whose calls came in our text format."""
        written = self._limit_media(messages, path)
        if path.prompt_style == "text" or path.alternate:
            return self._as_text(written)
        whole = self._readable(written)
        self._choose_gap(path)
        gapless = self._gapless(whole)
        shared = count_shared(self._sources, whole)
        del self._sources[shared:], self._exchanges[shared:]
        last = next((each for each in reversed(self._sources) if isinstance(each, Response)), None)
        native = last is not None and not self._is_textual(last)
        for message, sent, source in zip(whole[shared:], gapless[shared:], written[shared:], strict=True):
            if isinstance(message, Response):
                native = not self._is_textual(message)
            is_native = native and isinstance(message, (Response, ToolResults))
            self._exchanges.append(sent if is_native else render_message(source))
            self._sources.append(message)
        return self._exchanges

    def _choose_gap(self, path: CallPath) -> None:
        gap = path.call_gap or ""
        if gap != self._gap:
            self._gap, self._gapless = gap, MessageMemo(partial(cut_message_gap, gap))
            self._sources, self._exchanges = [], []

    def _is_textual(self, response: Response) -> bool:
        """Whether the exchange goes back as text: a call came in our text format, or cannot be read.

        A call in the model's own format goes back as a native one. One that cannot be read would become one without
        arguments, which the model never wrote.
        """
        is_unreadable = bool(response.malformed) and not self._keeps_malformed
        return is_unreadable or any(call.origin == TEXT for call in response.requested_calls)

    def _limit_media(self, messages: Sequence[Message], path: CallPath) -> Sequence[Message]:
        """The messages, of which the older ones tell of images and sound in words, if there are too many for `path`."""
        if path.text_only:
            return self._flattened(messages)
        limit, counts = path.max_media, self._media_counts(messages)
        if sum(counts) <= limit:
            return messages
        flat, limited = self._flattened(messages), list(messages)
        for place in reversed(range(len(limited))):
            limit -= counts[place]
            if limit < 0:
                limited[place] = flat[place]
        return limited


def _read_malformed(message: Message) -> Message:
    """The answer, in which a malformed call that can be read is one: of an unknown tool, or with wrong arguments."""
    if not isinstance(message, Response) or not message.malformed:
        return message
    return replace(message, content=tuple(map(_read_call, message.content)))


def _read_call(block: Block) -> Block:
    if not isinstance(block, MalformedCall) or block.origin in (NATIVE, TEXT) or not block.name:
        return block
    any_arguments = ToolDefinition(block.name, "", {"type": "object"})
    calls = extract_tool_calls(block.raw, [any_arguments]).calls
    if len(calls) != 1 or calls[0].guessed:
        return block
    return ToolCall(block.id, block.name, calls[0].arguments, block.origin)


def _instruct(system: SystemMessage, text: str) -> SystemMessage:
    if not text:
        return system
    return SystemMessage("\n\n".join(filter(None, (system.text, text))))


def _neutralize(message: Message) -> Message:
    """Results in which no text is a special token of a model."""
    if not isinstance(message, ToolResults):
        return message
    results = tuple(map(_neutralize_result, message.results))
    return message if results == message.results else ToolResults(results)


def _neutralize_result(result: ToolResult) -> ToolResult:
    if result.kind == "multimodal" and isinstance(result.value, list):
        blocks = [
            {**block, "text": neutralize_with_note(str(block.get("text", "")))}
            if isinstance(block, dict) and block.get("type") == "text"
            else block
            for block in result.value
        ]
        return replace(result, value=blocks)
    text = neutralize_with_note(result.text)
    return result if text == result.text else result.with_text(text)


def _drop_thoughts(writer: str | None, message: Message) -> Message:
    """The message without thoughts, unless this writer's may stay. Signed ones do: only their own API takes them."""
    if not isinstance(message, Response) or (writer is not None and message.writer in ("", writer)):
        return message
    return replace(message, content=tuple(block for block in message.content if not is_open_thought(block)))


def _flatten(message: Message) -> Message:
    """Images and sound as the text that describes them."""
    if isinstance(message, UserMessage) and message.blocks:
        return UserMessage(message.text)
    if not isinstance(message, ToolResults):
        return message
    results = [each.with_text(each.text) if each.kind == "multimodal" else each for each in message.results]
    return ToolResults(tuple(results))


def _merge(messages: Sequence[Message]) -> list[Message]:
    """Neighbouring messages of one role as one. Empty messages are left out, since templates count them as turns."""
    merged: list[Message] = []
    for message in messages:
        if merged and (joined := _join(merged[-1], message)):
            merged[-1] = joined
        elif isinstance(message, ToolResults) or message.text:
            merged.append(message)
    return merged


def _join(message: Message, following: Message) -> Message | None:
    """Both as one; None if their roles differ."""
    if isinstance(message, UserMessage) and isinstance(following, UserMessage):
        return message.merge(following)
    if isinstance(message, Response) and isinstance(following, Response):
        thoughts = [each for each in (*message.content, *following.content) if isinstance(each, Reasoning)]
        return Response((*thoughts, Text(f"{message.text}\n\n{following.text}")))
    return None
