"""A conversation as Markdown, JSON, or one HTML page without scripts. `clean` is applied to every text."""

from __future__ import annotations

import html
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from ..types.messages import (
    JSON,
    Block,
    MalformedCall,
    Message,
    Reasoning,
    Response,
    SystemMessage,
    ToolCall,
    ToolResults,
    UserMessage,
)
from .index import read_time
from .journal import redact_value
from .state import SessionState

VERSION = 1
MODE = 0o600  # of a file until it has its own
Clean = Callable[[str], str]  # removes secrets and terminal escapes

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


class ExportSection(Struct, frozen=True):
    """One part of a conversation. `speaker` is you, model, thought, call or tool."""

    speaker: str
    title: str
    text: str


class SavedConversation(Struct, frozen=True):
    title: str
    facts: Mapping[str, str]  # shown at the top
    messages: Sequence[Message]


def describe_session(session: str, state: SessionState, messages: Sequence[Message]) -> SavedConversation:
    """The conversation with what the session says of itself. `session`: its id, empty if it is not saved."""
    created = read_time(state.meta.get("created"), 0.0)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(created)) if created else ""
    facts = {"session": session, "created": when}
    facts |= {key: str(state.meta.get(key, "")) for key in ("workspace", "model")}
    return SavedConversation(state.name or session or "Conversation", facts, messages)


def list_sections(messages: Sequence[Message]) -> Iterator[ExportSection]:
    """Everything but the system prompt, in order."""
    for message in messages:
        if isinstance(message, UserMessage):
            yield ExportSection("you", "You", message.text)
        elif isinstance(message, Response):
            yield from filter(None, map(_describe_block, message.content))
        elif isinstance(message, ToolResults):
            for result in message.results:
                mark = f" ({result.failure})" if result.failure else ""
                yield ExportSection("tool", f"Result: {result.name}{mark}", result.text)


def _describe_block(block: Block) -> ExportSection | None:
    """None of blank text."""
    if isinstance(block, ToolCall):
        arguments = json.dumps(dict(block.arguments), ensure_ascii=False, indent=2)
        return ExportSection("call", f"Call: {block.name}", arguments)
    if isinstance(block, MalformedCall):
        return ExportSection("call", f"Unreadable call: {block.name}", block.raw)
    if not block.text.strip():
        return None
    if isinstance(block, Reasoning):
        return ExportSection("thought", "Thought", block.text)
    return ExportSection("model", "Model", block.text)


def render_markdown(conversation: SavedConversation, clean: Clean) -> str:
    parts = [f"# {clean(conversation.title)}", _join_facts(conversation, clean)]
    for section in list_sections(conversation.messages):
        text = clean(section.text).strip("\n")
        if section.speaker in ("call", "tool"):
            text = _fence(text)
        elif section.speaker == "thought":
            text = "\n".join(f"> {line}" for line in text.split("\n"))
        parts.append(f"## {clean(section.title)}\n\n{text}")
    return "\n\n".join(parts) + "\n"


def render_html(conversation: SavedConversation, clean: Clean) -> str:
    def escape(text: str) -> str:
        return html.escape(clean(text.strip("\n")))

    parts = [
        f'<section class="{each.speaker}"><h2>{escape(each.title)}</h2><pre>{escape(each.text)}</pre></section>'
        for each in list_sections(conversation.messages)
    ]
    facts = html.escape(_join_facts(conversation, clean))
    return PAGE.format(title=escape(conversation.title), style=STYLE, facts=facts, parts="\n".join(parts))


def render_json(conversation: SavedConversation, clean: Clean) -> str:
    """Messages as in the journal (see docs/sessions.md); ASCII only."""
    messages = [message.to_dict() for message in conversation.messages if not isinstance(message, SystemMessage)]
    exported: dict[str, JSON] = {
        "version": VERSION,
        "title": conversation.title,
        **conversation.facts,
        "messages": list(messages),
    }
    return json.dumps(redact_value(exported, clean), indent=2) + "\n"


FORMATS: Mapping[str, Callable[[SavedConversation, Clean], str]] = {
    "md": render_markdown,
    "json": render_json,
    "html": render_html,
}


def write_file(path: Path, text: str) -> None:
    """Write a new file; if that fails, nothing is left of it. Raises OSError."""
    with path.open("x", encoding="utf-8", errors="replace") as file:
        try:
            file.write(text)
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def replace_file(path: Path, text: str) -> None:
    """Write a file, also in place of another; if that fails, what was there stays. Raises OSError."""
    with open_replacement(path) as file:
        file.write(text.encode(errors="replace"))


@contextmanager
def open_replacement(path: Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """A file for what is to stand at `path` once all of it is written; till then what was there stays. Raises OSError.

    `mode`: of the file; without one, that of what was there.
    """
    if path.exists() and not path.is_file():  # such as /dev/stdout
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    if mode is None and target.exists():
        mode = stat.S_IMODE(target.stat().st_mode)
    part = target.with_name(f".vllm-bot-{os.urandom(8).hex()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            yield file
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _join_facts(conversation: SavedConversation, clean: Clean) -> str:
    return ", ".join(f"{name}: {clean(value)}" for name, value in conversation.facts.items() if value)


def _fence(text: str) -> str:
    """The text in a code fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"
