"""Continues a conversation; its last turns are drawn as the chat drew them: questions, answers, a line for a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Union

from ...errors import BotError
from ...security.text.sanitize import sanitize
from ...session.store import Store
from ...types.events import CallFinished, Completed, Notice, TextDelta
from ...types.messages import Message, RequestedCall, Response, ToolResults, UserMessage
from ..render.words import count
from .input.multiline import PROMPT
from .state import Display, State

MAX_TURNS = 3
MAX_ITEMS = 40  # questions, answers and calls, of all turns that are drawn
MAX_ANSWER_CHARS = 8_000
MAX_QUESTION_LINES = 10
FENCE = "```"

Item = Union[UserMessage, str, CallFinished]  # what is drawn: a question, an answer or a call


def get_store(state: State) -> Store:
    """Where conversations are saved. Raises BotError if they are not."""
    if not state.store:
        raise BotError("Conversations are not saved here.")
    return state.store


def resume_session(state: State, name_or_id: str) -> None:
    """Continue a session; "" is the last one in this folder. Raises BotError."""
    store = get_store(state)
    if store.find(name_or_id, state.settings.root) == state.session.id:
        raise BotError("You are already in that conversation.")
    session, notices = store.resume(name_or_id, state.factory.make_system_messages(), state.settings.root)
    state.switch_session(session)
    for notice in notices:
        state.screen.draw(Notice(notice))
    name = sanitize(session.state.name or session.id)
    state.screen.say(f"  {name}: {count(session.state.turns, 'turn')}, continued here.")
    draw_last_turns(state.screen, session.messages)


def draw_last_turns(screen: Display, messages: Sequence[Message]) -> None:
    """Draw the last turns, and say how many are left out."""
    items = _list_items(messages)
    questions = [place for place, item in enumerate(items) if isinstance(item, UserMessage)]
    first = max([0, *questions[-MAX_TURNS:][:1], len(items) - MAX_ITEMS])
    shown = [place for place in range(len(items)) if place >= first or place in questions[-1:]]
    if left_out := len(set(questions).difference(shown)):
        screen.say(f"  ({left_out} earlier turn{'s' * (left_out != 1)} not shown)")
    for place in shown:
        _draw_item(screen, items[place])
    if items:
        screen.say("")


def _list_items(messages: Iterable[Message]) -> list[Item]:
    from ...agent.compaction import LEFT_OUT, SUMMARY  # start-up is measured
    from ...agent.loop import INJECTED_PROMPTS

    own = (LEFT_OUT, SUMMARY.partition("\n")[0])  # which stand for what was said before
    items: list[Item] = []
    calls: tuple[RequestedCall, ...] = ()
    for message in messages:
        if isinstance(message, UserMessage):
            if message not in INJECTED_PROMPTS and not message.text.startswith(own):
                items.append(message)
        elif isinstance(message, Response):
            if message.text.strip():
                items.append(message.text)
            calls = message.requested_calls
        elif isinstance(message, ToolResults):
            items += map(CallFinished, calls, message.results)
    return items


def _draw_item(screen: Display, item: Item) -> None:
    if isinstance(item, UserMessage):
        lines = sanitize(item.title).strip().split("\n")
        if len(lines) > MAX_QUESTION_LINES:
            lines[MAX_QUESTION_LINES:] = [f"({len(lines) - MAX_QUESTION_LINES:,} more lines)"]
        screen.say("\n".join(["", f"{PROMPT}{lines[0]}", *(f"  {line}" for line in lines[1:])]))
    elif isinstance(item, str):
        if len(item) > MAX_ANSWER_CHARS:  # its end is drawn; a block of code that was open there stays one
            start = item.find("\n", len(item) - MAX_ANSWER_CHARS) + 1 or len(item) - MAX_ANSWER_CHARS
            is_code = sum(line.lstrip().startswith(FENCE) for line in item[:start].split("\n")) % 2
            item = f"[{start:,} characters before this are not shown]\n\n{FENCE * is_code}\n{item[start:]}"
        screen.draw(TextDelta(item))
        screen.draw(Completed(Response(())))
    else:
        screen.draw(item)
