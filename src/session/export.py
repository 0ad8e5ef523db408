"""A conversation as Markdown, JSON, or one HTML page without scripts. `clean` is applied to every text."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..types.messages import (
    JSON,
    MalformedCall,
    Message,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolResults,
    UserMessage,
)
from .journal import redact_value

VERSION = 1
Clean = Callable[[str], str]

STYLE = """
body{max-width:50em;margin:2em auto;padding:0 1em;font:16px/1.5 system-ui,sans-serif;color:#222;background:#fff}
section{margin:1em 0;padding:.1em 1em;border-left:3px solid #ccc}
section.you{border-color:#36c}section.model{border-color:#393}section.tool,section.call{border-color:#bbb;color:#555}
section.thought{border-color:#eee;color:#888}
h2{font-size:.8em;margin:.5em 0 0;color:#777;font-weight:600}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font:14px/1.45 ui-monospace,monospace;margin:.3em 0 .7em}
section.you pre,section.model pre{font:inherit}
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>{style}</style></head>
<body><h1>{title}</h1><p>{facts}</p>
{parts}
</body></html>
"""


class Piece(NamedTuple):
    """One part of a conversation. `speaker` is you, model, thought, call or tool."""

    speaker: str
    title: str
    text: str


class Conversation(NamedTuple):
    title: str
    facts: Mapping[str, str]  # shown at the top
    messages: Sequence[Message]


def pieces(messages: Sequence[Message]) -> Iterator[Piece]:
    """Everything but the system prompt, in order."""
    for message in messages:
        if isinstance(message, UserMessage):
            yield Piece("you", "You", message.text)
        elif isinstance(message, Response):
            for block in message.content:
                if isinstance(block, Text) and block.text.strip():
                    yield Piece("model", "Model", block.text)
                elif isinstance(block, Reasoning) and block.text.strip():
                    yield Piece("thought", "Thought", block.text)
                elif isinstance(block, ToolCall):
                    arguments = json.dumps(dict(block.arguments), ensure_ascii=False, indent=2)
                    yield Piece("call", f"Call: {block.name}", arguments)
                elif isinstance(block, MalformedCall):
                    yield Piece("call", f"Unreadable call: {block.name}", block.raw)
        elif isinstance(message, ToolResults):
            for result in message.results:
                failed = " (error)" if result.kind == "error" else ""
                yield Piece("tool", f"Result: {result.name}{failed}", result.text)


def markdown(conversation: Conversation, clean: Clean) -> str:
    parts = [f"# {clean(conversation.title)}", _facts(conversation, clean)]
    for piece in pieces(conversation.messages):
        text = clean(piece.text).strip("\n")
        if piece.speaker in ("call", "tool"):
            text = _fenced(text)
        elif piece.speaker == "thought":
            text = "\n".join(f"> {line}" for line in text.split("\n"))
        parts.append(f"## {clean(piece.title)}\n\n{text}")
    return "\n\n".join(parts) + "\n"


def as_html(conversation: Conversation, clean: Clean) -> str:
    def safe(text: str) -> str:
        return html.escape(clean(text.strip("\n")))

    parts = [
        f'<section class="{piece.speaker}"><h2>{safe(piece.title)}</h2><pre>{safe(piece.text)}</pre></section>'
        for piece in pieces(conversation.messages)
    ]
    facts = html.escape(_facts(conversation, clean))
    return PAGE.format(title=safe(conversation.title), style=STYLE, facts=facts, parts="\n".join(parts))


def as_json(conversation: Conversation, clean: Clean) -> str:
    """Messages as in the journal (see docs/sessions.md); ASCII only."""
    messages = [message.to_dict() for message in conversation.messages if not isinstance(message, SystemMessage)]
    whole: dict[str, JSON] = {
        "version": VERSION,
        "title": conversation.title,
        **conversation.facts,
        "messages": list(messages),
    }
    return json.dumps(redact_value(whole, clean), indent=2) + "\n"


FORMATS: Mapping[str, Callable[[Conversation, Clean], str]] = {"md": markdown, "json": as_json, "html": as_html}


def _facts(conversation: Conversation, clean: Clean) -> str:
    return ", ".join(f"{name}: {clean(value)}" for name, value in conversation.facts.items() if value)


def _fenced(text: str) -> str:
    """The text in a code fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"
