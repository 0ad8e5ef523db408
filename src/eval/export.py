"""Records as training data: OpenAI's fine-tuning examples, and trajectories in harbor's interchange format (ATIF).

Both take a conversation once: its last answer that came whole, with all that was said before it. What goes on with a
conversation names its session; a call without one stands for itself. Sources: OpenAI's guide to supervised fine-tuning,
and harbor's RFC 1, version 1.7.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from .. import __version__
from ..errors import ConfigError, WireError
from ..negotiation.history.exchange_text import read_text
from ..providers.wire_json import as_dict, as_dicts, as_list, as_str, dump_json, encode_json, load_json
from ..session.export import open_replacement
from .record_lines import RecordLine

FORMS = ("openai", "atif")
ATIF_VERSION = "ATIF-v1.7"
MAX_NAME_CHARS = 64
MODE, FOLDER_MODE = 0o600, 0o700  # as the record itself
_MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id")
_ROLES = {"system": "system", "developer": "system", "user": "user"}


class Exported(Struct):
    """`written`: how many `unit` there are; `calls`: of the record. `left_out`: calls, by the reason."""

    unit: str
    written: int = 0
    calls: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


class _Conversation(Struct):
    """`turns`: each answer as a step, by the number of messages before it; `last`: the call that has all of it."""

    name: str
    last: RecordLine
    turns: dict[int, dict[str, Any]] = {}


def export_openai(lines: Iterable[RecordLine], sources: Sequence[Path], out: Path) -> Exported:
    """Write a line of chat messages and tools for each conversation. Raises OSError and ConfigError."""
    exported = Exported("conversations")
    conversations = _gather(lines, exported)
    _check_target(out, sources)
    with open_replacement(out, MODE) as file:
        for each in conversations:
            file.write(encode_json(make_example(each.last.entry)) + b"\n")
            exported.written += 1
    return exported


def export_atif(lines: Iterable[RecordLine], sources: Sequence[Path], folder: Path) -> Exported:
    """Write a file for each conversation. Raises OSError and ConfigError."""
    exported = Exported("trajectories")
    targets = [(folder / f"{each.name}.json", each) for each in _gather(lines, exported)]
    for target, _ in targets:
        _check_target(target, sources)
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    for target, each in targets:
        with open_replacement(target, MODE) as file:
            file.write(encode_json(_make_trajectory(each)))
        exported.written += 1
    return exported


def _check_target(target: Path, sources: Iterable[Path]) -> None:
    """Raises ConfigError where a source would be overwritten."""
    if target.is_file() and any(target.samefile(each) for each in sources):
        raise ConfigError(f"{target} is the record itself.", "Name another --out.")


def _gather(lines: Iterable[RecordLine], exported: Exported) -> list[_Conversation]:
    """The conversations, in the order in which they began."""
    conversations: dict[str, _Conversation] = {}
    for number, line in enumerate(lines, 1):
        exported.calls += 1
        if why := find_flaw(line):
            exported.left_out[why] += 1
            continue
        session = as_str(line.entry.get("session"))
        name = re.sub(r"[^A-Za-z0-9_-]", "_", session)[:MAX_NAME_CHARS] or f"call-{number}"
        conversation = conversations.setdefault(name, _Conversation(name, line))
        messages = as_list(line.entry.get("messages"))
        conversation.turns[len(messages)] = _make_answer_step(line)
        if len(messages) >= len(as_list(conversation.last.entry.get("messages"))):
            conversation.last = line
    return [*conversations.values()]


def find_flaw(line: RecordLine) -> str:
    """Why nothing is to be learned from a call; "" if there is."""
    entry = line.entry
    if entry.get("status") != 200:
        return "refused"
    if entry.get("ended") != "whole" or any(each.get("finish_reason") == "length" for each in line.choices):
        return "cut off"
    if not as_list(entry.get("messages")):
        return "without messages"
    if not any(each.get("text") or each.get("calls") for each in line.choices):
        return "without an answer"
    return ""


def make_example(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A call as OpenAI's fine-tuning takes it: thoughts have no place there."""
    choice = as_dicts(entry.get("choices"))[0]
    calls = [
        {
            "id": as_str(call.get("id")),
            "type": "function",
            "function": {"name": as_str(call.get("name")), "arguments": _write_arguments(call.get("arguments"))},
        }
        for call in as_dicts(choice.get("calls"))
    ]
    answer: dict[str, Any] = {"role": "assistant", "content": as_str(choice.get("text")) or None}
    if calls:
        answer["tool_calls"] = calls
    messages = list(map(_select_fields, as_dicts(entry.get("messages"))))
    example: dict[str, Any] = {"messages": [*messages, answer]}
    if tools := as_dicts(entry.get("tools")):
        example["tools"] = tools
    return example


def _select_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with the fields of the form; an assistant's content is null where it has none."""
    selected = {name: message[name] for name in _MESSAGE_FIELDS if message.get(name) is not None}
    if message.get("role") == "assistant":
        selected.setdefault("content", None)
    else:
        selected.setdefault("content", "")
    return selected


def _write_arguments(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else dump_json(arguments)


def _make_trajectory(conversation: _Conversation) -> dict[str, Any]:
    entry = conversation.last.entry
    messages = as_dicts(entry.get("messages"))
    steps = _list_steps(messages, conversation.turns)
    steps.append(conversation.turns[len(as_list(entry.get("messages")))])
    for number, step in enumerate(steps, 1):
        step["step_id"] = number
    metrics = [as_dict(step.get("metrics")) for step in steps]
    agent: dict[str, Any] = {"name": "vllm-bot serve", "version": __version__, "model_name": as_str(entry.get("model"))}
    if tools := as_dicts(entry.get("tools")):
        agent["tool_definitions"] = tools
    totals = {
        f"total_{name}": sum(each.get(name) or 0 for each in metrics) for name in ("prompt_tokens", "completion_tokens")
    }
    return {
        "schema_version": ATIF_VERSION,
        "session_id": conversation.name,
        "agent": agent,
        "steps": steps,
        "final_metrics": {**totals, "total_steps": len(steps)},
    }


def _list_steps(messages: Sequence[Mapping[str, Any]], turns: Mapping[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages as steps. An answer that was recorded itself has its tokens; results belong to their calls' step."""
    steps: list[dict[str, Any]] = []
    owners: dict[str, dict[str, Any]] = {}  # the step of each call
    for place, message in enumerate(messages):
        role, text = message.get("role"), read_text(message.get("content"))
        if role == "tool":
            id = as_str(message.get("tool_call_id"))
            if owner := owners.get(id):
                observation = owner.setdefault("observation", {"results": []})
                observation["results"].append({"source_call_id": id, "content": text})
            else:  # a result of a call that is not in the conversation is shown to the model, too
                steps.append({"source": "system", "message": "", "observation": {"results": [{"content": text}]}})
            continue
        if role == "assistant" and place in turns:
            step = turns[place]
        elif role == "assistant":  # only the history tells of this answer
            rows = as_dicts(message.get("tool_calls"))
            calls = [{"id": each.get("id"), **as_dict(each.get("function"))} for each in rows]
            thought = as_str(message.get("reasoning")) or as_str(message.get("reasoning_content"))
            step = _make_step(text, thought, calls)
        else:
            step = {"source": _ROLES.get(as_str(role), "user"), "message": text}
        steps.append(step)
        owners |= {call["tool_call_id"]: step for call in as_dicts(step.get("tool_calls"))}
    return steps


def _make_answer_step(line: RecordLine) -> dict[str, Any]:
    entry, choice = line.entry, line.choices[0]
    step = _make_step(as_str(choice.get("text")), as_str(choice.get("reasoning")), as_dicts(choice.get("calls")))
    step |= {"timestamp": as_str(entry.get("time")), "model_name": as_str(entry.get("model"))}
    usage = as_dict(entry.get("usage"))
    logprobs = [each.get("logprob") for each in as_dicts(choice.get("logprobs"))]
    metrics = {
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": usage.get("completion_tokens"),
        "prompt_token_ids": entry.get("prompt_token_ids"),
        "completion_token_ids": choice.get("token_ids"),
        "logprobs": logprobs,
    }
    if given_metrics := {name: value for name, value in metrics.items() if value}:
        step["metrics"] = given_metrics
    step["extra"] = {name: entry.get(name) for name in ("path", "contiguous") if entry.get(name) is not None}
    return step


def _make_step(text: str, thought: str, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    step: dict[str, Any] = {"source": "agent", "message": text}
    if thought:
        step["reasoning_content"] = thought
    if calls:
        step["tool_calls"] = [_make_call(each) for each in calls]
    return step


def _make_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments` that are no object have no place in the form but beside it."""
    arguments = _read_arguments(call.get("arguments"))
    extra = {name: call[name] for name in ("how", "origin", "repairs") if call.get(name)}
    if not isinstance(arguments, dict):
        arguments, extra = {}, {**extra, "written": as_str(call.get("arguments"))}
    made = {"tool_call_id": as_str(call.get("id")), "function_name": as_str(call.get("name")), "arguments": arguments}
    return {**made, "extra": extra} if extra else made


def _read_arguments(arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        return load_json(arguments.encode(errors="replace"))
    except WireError:
        return arguments
