"""What becomes of an answer at its end: which calls and which text the client gets, and what is asked first. Pure.

A turn (chat_turn.py) reads the answer, asks what `find_ask` names, if anything, and does what `decide_outcome` says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, Union

from msgspec.structs import replace

from ..model.stalls import STALL_PROMPTS, Stall, find_stall
from ..negotiation.call_path import THOUGHTS_FIELD
from ..parsing.arguments.native import count_fitted, fits_form
from ..parsing.events import is_safe
from ..types.messages import NATIVE, Reasoning, Response, Text, ToolCall
from .chunks.call_writer import encode_call
from .chunks.guard import Ending
from .report import LOST, LandedCall

UNKNOWN_TOOL = "There is no such tool, and nothing was run. The tools are: {names}."
GUESSED = "It is not certain that a call was meant, or what it was."
REPAIR = "{reasons} Nothing was run. Write the call again, correctly, and nothing else."

# Why one more turn is asked for. unknown: the server's calls are all of tools that the client does not offer; repair:
# a call cannot be read; else the answer stopped halfway. "": none is.
Ask: TypeAlias = Union[Stall, Literal["unknown", "repair"]]
GUARDED_ASKS: Sequence[Ask] = ("unknown", "empty", "announced")  # which the setting `guards` turns on


class FinishedAnswer:
    """An answer at its end: as the server `sent` it, with what stands in its text (`own`), and with what the server's
    parser lost (`whole`). `tools`: the names of those that the client offers; `form`: that it wants a text in.
    """

    def __init__(
        self, sent: Response, own: Response, whole: Response, tools: Collection[str], form: Mapping[str, Any] | None
    ) -> None:
        if form and not sent.requested_calls and fits_form(sent.text, form):
            whole = sent  # what has the form is the answer, also where it could be a call
        self.sent = sent
        self.own = own
        self.whole = whole
        # An answer of thoughts alone is what the server says it is.
        self.said = own if own.is_only_thought else whole
        self.tools = tools
        self.form = form
        self.native, self.completed = _sort_native(sent, whole)
        self.in_place = [*self.native, *self.completed.values()]
        self.found = [call for call in whole.calls if call not in self.in_place and is_safe(call)]

    @property
    def own_text(self) -> str:
        """What the client gets of its text if nothing is done: what stands for no call is text."""
        return self.own.kept_text or self.own.text

    @property
    def is_cut(self) -> bool:
        return self.whole.stop_reason == "max_tokens"

    @property
    def is_unreadable(self) -> bool:
        return bool(self.whole.malformed) or any(call.guessed for call in self.whole.calls)


class Outcome(NamedTuple):
    """`ending`: what the client gets; `response`: that as a response, with which the next request goes on.

    `landed`: its calls, and those that are lost. `guards`: how often each changed something. `lacks_form`: the text has
    not the client's form; `decide_outcome` takes one that has.
    """

    ending: Ending
    response: Response
    landed: Sequence[LandedCall]
    guards: Mapping[str, int]
    lacks_form: bool


def find_ask(answer: FinishedAnswer, allowed: Collection[Ask]) -> Ask:
    """Why one more turn is asked for, if it is `allowed` to be."""
    if answer.found:
        return ""
    ask: Ask
    if answer.in_place:
        if not answer.native or any(call.name in answer.tools for call in answer.native):
            return ""
        ask = "unknown"
    elif answer.is_unreadable and not answer.is_cut and "repair" in allowed:
        ask = "repair"
    else:
        ask = find_stall(answer.said, is_behind_results="announced" in allowed)
    return ask if ask in allowed else ""


def write_ask(ask: Ask, answer: FinishedAnswer, *, shows_thoughts: bool) -> list[dict[str, Any]]:
    """The messages behind the conversation that ask. `shows_thoughts`: the server takes those of the answer."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.own.text}
    if ask == "unknown":
        result = UNKNOWN_TOOL.format(names=", ".join(answer.tools))
        results = [{"role": "tool", "tool_call_id": call.id, "content": result} for call in answer.native]
        calls = [*map(encode_call, answer.native)]
        return [{**message, "content": answer.own.text or None, "tool_calls": calls}, *results]
    if ask == "repair":
        message["content"] = answer.sent.raw_text
        reasons = " ".join(call.reason for call in answer.whole.malformed) or GUESSED
        return [message, {"role": "user", "content": REPAIR.format(reasons=reasons)}]
    if ask == "empty" and shows_thoughts:
        message[THOUGHTS_FIELD] = answer.own.thought
    return [message, {"role": "user", "content": STALL_PROMPTS[ask]}]


def decide_outcome(answer: FinishedAnswer, ask: Ask, more: Response, formed: str = "") -> Outcome:
    """`more`: the answer to what was asked. `formed`: a text that was asked for because the answer's lacks the form."""
    calls, how, is_replaced = _choose_calls(answer, more)
    native = [] if is_replaced else answer.native
    landed = [
        *_list_landed(native, NATIVE),
        *_list_landed(answer.completed.values(), "recovered"),
        *_list_landed(calls, how),
    ]
    text = _choose_text(answer, more)
    lacks_form = False
    if answer.is_cut and not calls:
        text = answer.own_text  # a call that the limit of tokens cut off is what the server makes of it
    elif not landed:
        landed = _list_lost(answer)
        if answer.form:
            text = formed or text or answer.whole.text
            lacks_form = not fits_form(text, answer.form)
    ending = Ending(calls, text, is_replaced, answer.completed)
    if text.split() == answer.own_text.split():
        ending = replace(ending, text=None)
    response = _make_response(answer, text, [*native, *answer.completed.values(), *calls])
    return Outcome(ending, response, landed, _count_guards(ask, more, calls, native), lacks_form)


def _choose_calls(answer: FinishedAnswer, more: Response) -> tuple[Sequence[ToolCall], str, bool]:
    """The calls to send besides those in place, how they came, and whether they stand for the server's."""
    if not answer.found:
        calls = more.calls
        if answer.in_place:
            calls = tuple(call for call in calls if call.name in answer.tools)
        return calls, "repaired", bool(calls) and bool(answer.in_place or answer.is_unreadable)
    own_count = sum(call.origin != NATIVE for call in answer.own.calls)
    if answer.in_place or len(answer.found) <= own_count:
        return answer.found, "text", False
    return answer.found, "recovered", True


def _choose_text(answer: FinishedAnswer, more: Response) -> str:
    if not answer.in_place:
        if more.text.strip() and not answer.own.text.strip():
            return more.text
        if more.calls:
            return answer.said.text  # what was written anew is left out
    return answer.said.kept_text or answer.said.text


def _count_guards(ask: Ask, more: Response, calls: Sequence[ToolCall], native: Sequence[ToolCall]) -> Mapping[str, int]:
    """How often each guard changed something."""
    counts: dict[str, int] = {}
    if fitted := count_fitted(native):
        counts["fit"] = fitted
    if ask in GUARDED_ASKS and (calls or (ask == "empty" and more.text.strip())):
        counts[ask] = 1
    return counts


def _make_response(answer: FinishedAnswer, text: str, calls: Sequence[ToolCall]) -> Response:
    """What the client has of the answer. Its calls are in the order in which they were found."""
    thoughts = [block for block in answer.said.content if isinstance(block, Reasoning)]
    in_order = [call for call in answer.whole.calls if call in calls] or calls
    texts = [Text(text)] if text else []
    return replace(answer.whole, content=(*thoughts, *texts, *in_order))


def _list_landed(calls: Iterable[ToolCall], how: str) -> list[LandedCall]:
    return [LandedCall(call.name, how, call.origin, call.id, call.repaired) for call in calls]


def _list_lost(answer: FinishedAnswer) -> list[LandedCall]:
    lost: list[LandedCall] = []
    for call in answer.whole.malformed:
        name = ""  # what is no tool's may be anything
        if call.name in answer.tools:
            name = call.name
        lost.append(LandedCall(name, LOST, call.origin))
    return lost


def _sort_native(sent: Response, whole: Response) -> tuple[list[ToolCall], dict[int, ToolCall]]:
    """The server's calls that are right as they were sent, and the others as they should be, by their indexes."""
    final = {call.id: call for call in whole.calls if call.origin == NATIVE}
    right: list[ToolCall] = []
    completed: dict[int, ToolCall] = {}
    for index, call in enumerate(sent.requested_calls):
        if call.id not in final:
            continue
        if isinstance(call, ToolCall) and call.arguments == final[call.id].arguments:
            right.append(final[call.id])
        else:
            completed[index] = final[call.id]
    return right, completed
