"""A history that some servers refuse, as all of them take it, and which refusals are about that. Pure.

APIs and chat templates differ in what they take: roles of their own, functions in place of tools, late system messages,
two messages of one role in a row, empty ones, results without their calls, calls without their results or with
arguments that are no JSON object. Each step mends one of these, and leaves all other messages as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ...errors import ParserFailed, ServerError, TemplateFailed, TemplateRejected
from ...providers.wire_json import as_dict, as_dicts, as_list, as_str, is_object
from ...types.messages import MalformedCall
from .exchange_text import THOUGHTS, has_media, leave_out, read_call, read_text, render_exchanges
from .messages import is_system, join_contents, place_late_system

Messages = Sequence[dict[str, Any]]
MAYBE_HISTORY = (400, 422, 500)  # a refusal of anything in the request
MENDED = "The server refuses this conversation as it is; {what}."
WORDS = {
    "functions": "calls of functions and their results are sent as those of tools",
    "system": "late system messages are sent within the message before them",
    "exchanges": "calls and results that do not belong together are sent as text",
    "empty": "empty messages are left out",
    "roles": "messages of one role in a row are joined",
    "user": "what only the system or a tool said is sent as the user's",
}


class Mended(NamedTuple):
    """`what`: the steps that changed something, for the header that tells it."""

    messages: Messages
    what: tuple[str, ...]


def mend_history(messages: Messages) -> Mended:
    """The history as all servers take it."""
    steps = {
        "functions": _name_functions,
        "system": place_late_system,
        "exchanges": _mend_exchanges,
        "empty": _leave_out_empty,
        "roles": join_neighbours,
        "user": _ensure_user,
    }
    what: list[str] = []
    for name, step in steps.items():
        mended = step(messages)
        if mended != messages:
            what.append(name)
            messages = mended
    return Mended(messages, tuple(what))


def describe_mended(what: Sequence[str]) -> str:
    """For the user: what is sent otherwise."""
    return MENDED.format(what=", ".join(WORDS[name] for name in what))


def blames_history(refusal: ServerError) -> bool:
    """Whether a refusal of a history that is odd is about that, by its kind."""
    return isinstance(refusal, (TemplateRejected, TemplateFailed, ParserFailed))


def may_blame_history(refusal: ServerError) -> bool:
    """Whether it may be about that, where nothing else in the request explains it."""
    return type(refusal) is ServerError and refusal.status in MAYBE_HISTORY


def has_bad_arguments(messages: Messages) -> bool:
    """Whether a call has arguments that are no JSON object.

    A server that parses them fails, in words as for an answer that its parser cannot read.
    """
    return any(not _has_readable_calls(each) or _fill_arguments(each) != each for each in messages)


def has_malformed_call(message: Mapping[str, Any]) -> bool:
    """Whether a call of the message has arguments that are no JSON object. Those of a call without any are not."""
    for call in as_dicts(message.get("tool_calls")):
        arguments = as_dict(call.get("function")).get("arguments") or {}
        is_whole = isinstance(arguments, dict) or (isinstance(arguments, str) and is_object(arguments))
        if not is_whole and isinstance(read_call(call), MalformedCall):
            return True
    return False


def write_malformed_as_text(messages: Messages) -> Messages:
    """An answer with a malformed call as text, and its results behind it; other messages stay.

    vLLM makes of such a call one without arguments, which the model never wrote; other servers refuse it.
    """
    if not any(map(has_malformed_call, messages)):
        return messages
    turns = list(_split_turns(messages))
    return [each for turn in turns for each in (render_exchanges(turn) if has_malformed_call(turn[0]) else turn)]


def _fill_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """The message with an empty object as the arguments of a call that has none."""
    calls = as_dicts(message.get("tool_calls"))
    if all(as_dict(each.get("function")).get("arguments") for each in calls):
        return message
    functions = [as_dict(each.get("function")) for each in calls]
    filled = [
        {**call, "function": {**function, "arguments": function.get("arguments") or "{}"}}
        for call, function in zip(calls, functions, strict=True)
    ]
    return {**message, "tool_calls": filled}


def _name_functions(messages: Messages) -> Messages:
    """Calls and results of functions, which OpenAI's API had before tools, as those of tools."""
    named: list[dict[str, Any]] = []
    open_ids: dict[str, str] = {}  # of calls without a result, by the name of the function
    for place, message in enumerate(messages):
        call = as_dict(message.get("function_call"))
        if message.get("role") == "assistant" and call:
            message = leave_out(message, "function_call")
            if not message.get("tool_calls"):
                id = f"{place:09}"  # in a form that all templates take
                open_ids[str(call.get("name"))] = id
                message["tool_calls"] = [{"id": id, "type": "function", "function": call}]
        elif message.get("role") == "function":
            id = open_ids.pop(str(message.get("name")), "")
            message = {**message, "role": "tool", "tool_call_id": id}
        named.append(message)
    return named


def _mend_exchanges(messages: Messages) -> Messages:
    """Calls with all their results behind them; as text what is not so."""
    return [message for turn in _split_turns(messages) for message in _mend_turn(turn)]


def _split_turns(messages: Messages) -> Iterator[Messages]:
    """Each message of the assistant with what follows it."""
    starts = [place for place, each in enumerate(messages) if each.get("role") == "assistant"]
    for start, end in zip([0, *starts], [*starts, len(messages)], strict=True):
        if start < end:
            yield messages[start:end]


def _mend_turn(turn: Messages) -> Messages:
    ids: list[Any] = []
    if _has_readable_calls(turn[0]):
        ids = [each.get("id") for each in as_list(turn[0].get("tool_calls"))]
    call_ids = set(filter(None, map(as_str, ids)))
    own: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for message in turn[1:]:
        if message.get("role") == "tool" and as_str(message.get("tool_call_id")) in call_ids:
            own.append(message)
        else:
            others.append(message)
    if not ids or sorted(map(str, ids)) != sorted(str(each.get("tool_call_id")) for each in own):
        return render_exchanges(turn)
    return [_fill_arguments(turn[0]), *own, *render_exchanges(others)]


def _has_readable_calls(message: Mapping[str, Any]) -> bool:
    """Whether each call of the message is one, with an object as its arguments."""
    calls = as_list(message.get("tool_calls"))
    return all(isinstance(each, dict) and not isinstance(read_call(each), MalformedCall) for each in calls)


def _leave_out_empty(messages: Messages) -> Messages:
    """Without the messages that say nothing. The last one stays: it is what is to be answered."""
    filled: list[dict[str, Any]] = []
    for message in messages[:-1]:
        content = message.get("content")
        is_of_call = message.get("role") == "tool" or message.get("tool_calls")
        if is_of_call or has_media(content) or read_text(content).strip():
            filled.append(message)
    return [*filled, *messages[-1:]]


def join_neighbours(messages: Messages) -> list[dict[str, Any]]:
    """Neighbouring messages of one role as one, but for results of tools."""
    joined: list[dict[str, Any]] = []
    for role, run in groupby(messages, lambda message: message.get("role")):
        if role == "tool":
            joined += run
        else:
            joined.append(_join_run(list(run)))
    return joined


def _join_run(run: Messages) -> dict[str, Any]:
    """Messages of one role as one; a single one stays as it is."""
    if len(run) == 1:
        return run[0]
    joined: dict[str, Any] = {}
    for message in run:
        joined.update(message)
    for name in ("content", *THOUGHTS):
        if values := [message[name] for message in run if message.get(name)]:
            joined[name] = join_contents(*values)
    return joined


def _ensure_user(messages: Messages) -> Messages:
    """With a message of the user: results that are sent as text, or else the system message."""
    if any(each.get("role") == "user" for each in messages):
        return messages
    rendered = render_exchanges(messages)
    if any(each.get("role") == "user" for each in rendered):
        return rendered
    return [{**each, "role": "user"} if is_system(each) else each for each in messages]
