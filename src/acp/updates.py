"""What an editor is shown: events of a turn, and saved messages, as the protocol's updates.

A call has a title, a kind, the file it is about, and a diff before it runs. Its result is shown as it is, in a fence,
so that no output is drawn as Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from acp import (
    image_block,
    plan_entry,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_user_message,
    update_user_message_text,
)
from acp.schema import SessionInfoUpdate, ToolCallLocation, ToolCallProgress, ToolCallStart, UsageUpdate

from ..app.call_title import find_title, make_title
from ..errors import BotError
from ..security.text.sanitize import sanitize
from ..tools import ToolContext
from ..tools.fs import paths
from ..tools.fs.encoding import open_text
from ..tools.fs.text_files import DISK, TextFiles
from ..types.events import CallFinished, CallStarted, Completed, Event, Notice, ReasoningDelta, TextDelta
from ..types.messages import (
    MalformedCall,
    Message,
    Reasoning,
    RequestedCall,
    Response,
    Text,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
    list_blocks,
)

Update = Any  # one of the SDK's models
KINDS: Mapping[str, str] = {
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "glob": "search",
    "grep": "search",
    "exec": "execute",
    "task": "think",
    "todo_write": "think",
    "todo_read": "think",
    "tool_output_cache": "read",
    "tool_output_cache_grep": "search",
    "skill": "read",
    "submit_plan": "switch_mode",
}
MARKDOWN_TOOLS = ("task", "done")  # whose results the model writes for people
MAX_DIFF_BYTES = 1_000_000  # of a file whose old text is shown beside the new one
LIVE_CHARS = 4_000  # of a command's output, shown while it runs
_BACKTICKS = re.compile("`+")


class Updates:
    """Updates of one session. `root`: the workspace; `files`: where the text of its files is; `added`: to it.

    A server may give two calls of a conversation the same id, and the editor would take the second for the first. So
    each call gets a name of its own.
    """

    def __init__(self, root: Path, files: TextFiles = DISK, added: tuple[Path, ...] = ()) -> None:
        self._root = root
        self._added = added
        self._files = files
        self._names: dict[str, str] = {}  # of the last call with an id
        self._used: set[str] = set()
        self._output: dict[str, str] = {}  # of commands that run
        self._open: dict[str, None] = {}  # names of the calls without an end, in their order

    def name(self, call_id: str) -> str:
        """The editor's name of a call."""
        if call_id not in self._names:
            self._names[call_id] = self._choose_name(call_id)
        return self._names[call_id]

    def _choose_name(self, call_id: str) -> str:
        name, number = call_id or "call", 1
        while name in self._used:
            number += 1
            name = f"{call_id}-{number}"
        self._used.add(name)
        return name

    def translate(self, event: Event) -> Sequence[Update]:
        """The updates of an event; none for most."""
        if isinstance(event, TextDelta) and event.text:
            return [update_agent_message_text(event.text)]
        if isinstance(event, ReasoningDelta) and event.text:
            return [update_agent_thought_text(event.text)]
        if isinstance(event, Notice):
            return [update_agent_message_text(quote_notice(event.text))]
        if isinstance(event, Completed):
            return [self._start_call(call) for call in event.response.requested_calls]
        if isinstance(event, CallStarted):
            return [
                ToolCallProgress(**self.describe(event.call), status="in_progress", session_update="tool_call_update")
            ]
        if isinstance(event, CallFinished):
            return [self._end_call(event.call, event.result)]
        return []

    def add_output(self, call_id: str, text: str) -> Sequence[Update]:
        """What a running command printed, with what it printed before."""
        whole = (self._output.get(call_id, "") + text)[-LIVE_CHARS:]
        self._output[call_id] = whole
        shown = sanitize(whole)
        if not shown.strip():
            return []
        content: list[Any] = [tool_content(text_block(fence(shown)))]
        update = ToolCallProgress(
            tool_call_id=self.name(call_id), content=content, status="in_progress", session_update="tool_call_update"
        )
        return [update]

    def end_calls(self) -> Sequence[Update]:
        """The end of calls that a turn left without one, as it was cancelled or failed."""
        names, self._open = self._open, {}
        return [
            ToolCallProgress(tool_call_id=name, status="failed", session_update="tool_call_update") for name in names
        ]

    def replay(self, messages: Sequence[Message]) -> Iterator[Update]:
        """A saved conversation, as it was shown."""
        calls: dict[str, RequestedCall] = {}
        for message in messages:
            if isinstance(message, UserMessage):
                if message.blocks and not message.typed:
                    yield from map(update_user_message, map(_convert_block, message.blocks))
                else:
                    yield update_user_message_text(message.title)
            elif isinstance(message, Response):
                calls = {call.id: call for call in message.requested_calls}
                yield from self._replay_response(message)
            elif isinstance(message, ToolResults):
                for result in message.results:
                    if call := calls.get(result.tool_call_id):
                        yield self._end_call(call, result)

    def _replay_response(self, response: Response) -> Iterator[Update]:
        for block in response.content:
            if isinstance(block, Text) and block.text:
                yield update_agent_message_text(block.text)
            elif isinstance(block, Reasoning) and block.text:
                yield update_agent_thought_text(block.text)
            elif isinstance(block, (ToolCall, MalformedCall)):
                yield self._start_call(block, with_diff=False)  # the file is another one by now

    def _start_call(self, call: RequestedCall, *, with_diff: bool = True) -> Update:
        self._names[call.id] = self._choose_name(call.id)
        self._open[self._names[call.id]] = None
        about = self.describe(call, with_diff=with_diff)
        return ToolCallStart(**about, status="pending", session_update="tool_call")

    def _end_call(self, call: RequestedCall, result: ToolResult) -> Update:
        self._output.pop(call.id, None)
        self._open.pop(self.name(call.id), None)
        has_diff = result.kind != "error" and isinstance(call, ToolCall) and call.name in ("write", "edit")
        return ToolCallProgress(
            tool_call_id=self.name(call.id),
            status="failed" if result.kind == "error" else "completed",
            content=None if has_diff else show_result(result),  # None: what is shown stays
            session_update="tool_call_update",
        )

    def describe(self, call: RequestedCall, *, with_diff: bool = True) -> dict[str, Any]:
        """The fields that say what a call is."""
        about: dict[str, Any] = {"tool_call_id": self.name(call.id), "kind": KINDS.get(call.name, "other")}
        if isinstance(call, MalformedCall):
            return about | {"title": make_title(call.name or "unreadable call")}
        about |= {"title": find_title(call, code_span), "raw_input": dict(call.arguments)}
        path = self._find_path(call)
        if path is None:
            return about
        line = call.arguments.get("offset")
        if not isinstance(line, int) or line <= 0:
            line = None
        about["locations"] = [ToolCallLocation(path=str(path), line=line)]
        if with_diff and (diff := self._make_diff(call, path)):
            about["content"] = [diff]
        return about

    def _find_path(self, call: ToolCall) -> Path | None:
        """The file that the call is about; None if it is about none, or about one outside the workspace."""
        path = call.arguments.get("path")
        if not isinstance(path, str) or call.name not in KINDS:
            return None
        if call.real_path is not None:
            return self._root / call.real_path
        try:
            target = paths.resolve(path, self._root, self._added)
        except BotError:
            return None
        return target.top.joinpath(*target.parts)

    def _make_diff(self, call: ToolCall, path: Path) -> Update | None:
        if call.name == "edit":
            old, new = call.arguments.get("oldText"), call.arguments.get("newText")
        elif call.name == "write" and call.real_path is not None:  # no file is read before it is decided on
            old, new = self._read_text(call), call.arguments.get("content")
        else:
            return None
        if not isinstance(new, str):
            return None
        if not isinstance(old, str):
            old = None
        return tool_diff_content(str(path), new, old or None)

    def _read_text(self, call: ToolCall) -> str | None:
        """What a file holds before it is replaced; None if that cannot be shown."""
        try:
            within = ToolContext(self._root, call=call).rewire(files=self._files, added_folders=self._added)
            with open_text(str(call.arguments["path"]), within) as file:
                data = file.read(MAX_DIFF_BYTES + 1)
        except BotError:
            return None
        if len(data) > MAX_DIFF_BYTES:
            return None
        return data.decode(errors="replace")


def show_todos(todos: Iterable[tuple[str, str]]) -> Update:
    """The model's to-do list as the editor's plan."""
    statuses = ("pending", "in_progress", "completed")
    entries = [plan_entry(text, status=status if status in statuses else "pending") for text, status in todos]  # type: ignore[arg-type, unused-ignore]
    return update_plan(entries)


def show_title(title: str) -> Update:
    """The name of a session, in the editor's list of them."""
    return SessionInfoUpdate(title=title, session_update="session_info_update")


def show_plain(text: str) -> Update:
    """What the program says in more than a sentence, such as names of files, as it is."""
    return update_agent_message_text(f"\n\n{fence(sanitize(text))}\n\n")


def show_usage(used: int, size: int) -> Update:
    return UsageUpdate(session_update="usage_update", used=used, size=size)


def show_result(result: ToolResult) -> list[Any]:
    """A result as content of its call."""
    if result.kind == "multimodal":
        blocks = [block for block in list_blocks(result) if isinstance(block, dict)]
        return [tool_content(_convert_block(block, lambda text: fence(sanitize(text)))) for block in blocks]
    text = sanitize(result.text)
    if not text.strip():
        return []
    if result.name not in MARKDOWN_TOOLS and result.kind != "error":
        text = fence(text)
    return [tool_content(text_block(text))]


def _convert_block(block: Mapping[str, Any], show_text: Callable[[str], str] = str) -> Any:
    if block.get("type") == "image":
        return image_block(str(block.get("data")), str(block.get("mimeType")))
    return text_block(show_text(str(block.get("text", ""))))


def quote_notice(text: str) -> str:
    """A sentence of the program, apart from the model's words."""
    return "\n\n" + "\n".join(f"> {line}" for line in sanitize(text).splitlines()) + "\n\n"


def fence(text: str) -> str:
    """A block of Markdown that shows the text as it is, whatever it holds."""
    marks = "`" * max(3, _longest_run(text) + 1)
    return f"{marks}\n{text.rstrip()}\n{marks}"


def code_span(text: str) -> str:
    marks = "`" * (_longest_run(text) + 1)
    room = " " if "`" in text else ""
    return f"{marks}{room}{text}{room}{marks}"


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)
