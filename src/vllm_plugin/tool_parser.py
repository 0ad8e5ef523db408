"""The tool parser `any` as vLLM's serving layer uses it. Checked against vLLM 0.19, 0.25, 0.28 and 0.32.

From 0.25 on the layer calls `finish_streaming` at the end of an answer; before, the end is known by the token that ends
a turn, or by the number of tokens. With tool_choice "required" or a named tool, vLLM holds the answer to JSON: a list
of calls, or the arguments alone. 0.19 reads that itself; later versions, which keep no text for a parser like this,
leave it to the parser. With "none" they drop all calls, so the text is given whole.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from vllm.tool_parsers.abstract_tool_parser import DeltaMessage, ExtractedToolCallInformation, ToolParser

from ..types.events import TextDelta, ToolCallDelta
from .call_stream import CallStream, Delta
from .forced_call_stream import ForcedCallStream

_PROTOCOL = importlib.import_module(DeltaMessage.__module__)  # which has another name in some versions
_IS_TOLD_THE_END = hasattr(ToolParser, "engine_based_streaming")
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "</s>")


class AnyToolParser(ToolParser):  # type: ignore[misc]  # vLLM is not installed where this is checked
    """Reads calls in all formats. One object reads one answer."""

    engine_based_streaming = True  # only the new text is needed, and finish_streaming is called
    supports_required_and_named = False  # by vLLM's own reading, which needs all of the text

    def __init__(self, tokenizer: Any, tools: list[Any] | None = None) -> None:
        super().__init__(tokenizer, tools)
        self._stream: CallStream | ForcedCallStream | None = None
        self._is_over = False

    def adjust_request(self, request: Any) -> Any:
        self.supports_required_and_named = True  # its grammar is wanted
        try:
            request = super().adjust_request(request)
        finally:
            self.supports_required_and_named = False
        if request.tools and request.tool_choice != "none":
            request.skip_special_tokens = False  # in many formats the markers are special tokens
        return request

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        stream = self._open(request, streams_arguments=False)
        deltas = [*stream.feed(model_output), *stream.close()]
        text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
        calls = [
            _PROTOCOL.ToolCall(
                id=delta.id, function=_PROTOCOL.FunctionCall(name=delta.name, arguments=delta.arguments_delta)
            )
            for delta in deltas
            if not isinstance(delta, TextDelta)
        ]
        content = model_output if _forbids_calls(request) else text
        return ExtractedToolCallInformation(tools_called=bool(calls), tool_calls=calls, content=content or None)

    def extract_tool_calls_streaming(
        self,
        previous_text: str,  # noqa: ARG002
        current_text: str,  # noqa: ARG002
        delta_text: str,
        previous_token_ids: Sequence[int],  # noqa: ARG002
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any:
        if self._stream is None:
            self._stream = self._open(request)
            self._shows_all = _forbids_calls(request)
        if self._is_over:
            return _make_message((), delta_text)
        deltas = self._stream.feed(delta_text)
        if not _IS_TOLD_THE_END and self._ends(request, current_token_ids, delta_token_ids):
            self._is_over = True
            deltas += self._stream.close()
        return _make_message(deltas, delta_text if self._shows_all else None)

    def finish_streaming(self) -> Any:
        """What was held back, at the end of the answer; None if that is nothing."""
        if self._stream is None or self._is_over:
            return None
        self._is_over = True
        return _make_message(self._stream.close(), "" if self._shows_all else None)

    def _open(self, request: Any, *, streams_arguments: bool = True) -> CallStream | ForcedCallStream:
        begin = partial(
            CallStream,
            [each.model_dump() for each in request.tools or self.tools or ()],
            _make_id,
            list(_list_results(request)),
            streams_arguments=streams_arguments,
            is_told_end=_IS_TOLD_THE_END or not streams_arguments,
        )
        choice = request.tool_choice
        if choice in ("auto", "none", None):
            return begin()
        if choice == "required":
            return ForcedCallStream("", begin)
        return ForcedCallStream(_read_name(choice), begin)

    def _ends(self, request: Any, all_ids: Sequence[int], new_ids: Sequence[int]) -> bool:
        limit = _read(request, "max_completion_tokens") or _read(request, "max_tokens")
        return any(each in self._turn_ends for each in new_ids) or bool(limit and len(all_ids) >= limit)

    @cached_property
    def _turn_ends(self) -> frozenset[int]:
        token_ids = [self.vocab[each] for each in _TURN_ENDS if each in self.vocab]
        return frozenset([*token_ids, getattr(self.model_tokenizer, "eos_token_id", None) or -1])


def _make_message(deltas: Sequence[Delta], content: str | None) -> Any:
    """`content`: the text to give, where it is not that of the deltas. None if there is nothing to give."""
    calls = [each for each in deltas if not isinstance(each, TextDelta)]
    if content is None:
        content = "".join(each.text for each in deltas if isinstance(each, TextDelta))
    given: dict[str, Any] = {}  # a field that is named counts as set
    if content:
        given["content"] = content
    if calls:
        given["tool_calls"] = list(map(_make_call, calls))
    if not given:
        return None
    return DeltaMessage(**given)


def _make_call(delta: ToolCallDelta) -> Any:
    if delta.name is None:
        function = _PROTOCOL.DeltaFunctionCall(arguments=delta.arguments_delta)
        return _PROTOCOL.DeltaToolCall(index=delta.call_index, function=function)
    function = _PROTOCOL.DeltaFunctionCall(name=delta.name, arguments=delta.arguments_delta)
    return _PROTOCOL.DeltaToolCall(index=delta.call_index, id=delta.id, type="function", function=function)


def _make_id() -> str:
    return str(_PROTOCOL.ToolCall(function=_PROTOCOL.FunctionCall(name="", arguments="")).id)


def _forbids_calls(request: Any) -> bool:
    return bool(request.tool_choice == "none")


def _read_name(choice: Any) -> str:
    """The name in a tool_choice of chat completions or Responses."""
    return str(_read(_read(choice, "function") or choice, "name") or "")


def _list_results(request: Any) -> Iterator[str]:
    """The results of tools in a request to chat completions, Messages (which becomes one) or Responses."""
    for message in _read(request, "messages") or ():
        if _read(message, "role") == "tool":
            yield from _list_texts(_read(message, "content"))
    items = _read(request, "input")
    for item in items if isinstance(items, (list, tuple)) else ():
        if _read(item, "type") == "function_call_output":
            yield from _list_texts(_read(item, "output"))


def _list_texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (str(_read(part, "text") or "") for part in content or ())


def _read(each: Any, name: str) -> Any:
    if isinstance(each, Mapping):
        return each.get(name)
    return getattr(each, name, None)
