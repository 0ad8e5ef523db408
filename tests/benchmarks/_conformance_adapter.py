"""What `canitoolcall` runs for conformance.py. The package is not installed for the tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from canitoolcall.adapters.base import Adapter, ReplayInput, Support, ToolSpec
from canitoolcall.results import ParsedToolCall, ParseResult

from src import __version__
from src.parsing import StreamParser, gathered
from src.parsing.events import ParserEvent
from src.parsing.formats.envelopes import REASONING


class ParserAdapter(Adapter):
    """A unit is a character, since the parser reads text."""

    name = "vllm-bot"
    pinned_version = __version__

    def version(self) -> str:
        return __version__

    def supports(self, family: str, model: str) -> Support:
        return Support(True)

    def parser_config(self, raw: ReplayInput) -> dict[str, Any]:
        return {"thought_closer": find_closer(raw.generation_prompt or "")}

    def units(self, raw: ReplayInput) -> list[int]:
        return list(range(len(raw.text)))

    def parse(self, raw: ReplayInput, tools: Sequence[ToolSpec]) -> ParseResult:
        return self._parse([raw.text], raw, tools)

    def parse_stream(self, raw: ReplayInput, chunks: Sequence[Sequence[int]], tools: Sequence[ToolSpec]) -> ParseResult:
        return self._parse(("".join(raw.text[at] for at in chunk) for chunk in chunks), raw, tools)

    def _parse(self, pieces: Iterable[str], raw: ReplayInput, tools: Sequence[ToolSpec]) -> ParseResult:
        parser = StreamParser(tools, thought_closer=find_closer(raw.generation_prompt or ""))
        events: list[ParserEvent] = [event for piece in pieces for event in parser.feed(piece)]
        landed = gathered(events + parser.close(truncated=raw.truncated))
        calls = [ParsedToolCall(call.name, json.dumps(call.arguments)) for call in landed.calls]
        return ParseResult(landed.content or None, landed.reasoning or None, tuple(calls))


def find_closer(prompt: str) -> str:
    """What ends the thought that a prompt has opened; empty if it opens none."""
    return next((pair.closer for pair in REASONING if prompt.rstrip().endswith(pair.opener.rstrip())), "")
