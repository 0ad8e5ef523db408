"""OpenAI's Responses API over chat completions: the request. Pure.

Custom tools, such as codex's apply_patch, become functions with one string; the tools of a namespace become functions
`namespace__name`; a search for tools that the client does itself becomes a function. `ToolNames` turns their calls back
into what the client knows. Tools also come within the input. Shapes: OpenAI's API reference, codex 0.169 and vLLM 0.32,
entrypoints/openai/responses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...providers.wire_json import as_dict, as_dicts, as_str

SEPARATOR = "__"  # between namespace and name, as vLLM joins them
PAYLOAD = "input"  # the parameter of a custom tool's function
_RENAMED = {"max_output_tokens": "max_completion_tokens"}
_SAME = (
    "model", "temperature", "top_p", "top_k", "min_p", "stream", "parallel_tool_calls", "presence_penalty",
    "frequency_penalty", "seed", "stop", "logit_bias", "user", "cache_salt", "chat_template_kwargs", "priority",
    "vllm_xargs", "repetition_penalty", "ignore_eos", "kv_transfer_params", "ec_transfer_params", "include_reasoning",
)  # fmt: skip
_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
# Types of items. They are no sets: a client may send a type that has no hash.
_CALLS = ("function_call", "custom_tool_call", "tool_search_call")
_RESULTS = ("function_call_output", "custom_tool_call_output", "tool_search_output")
# Without anything for the model, or with content that only the service that made them can read.
_SKIPPED = (
    *("item_reference", "compaction", "web_search_call", "file_search_call", "image_generation_call"),
    "additional_tools",
)
TOOL_SEARCH = "tool_search"


class Unconvertible(ValueError):
    """The request holds something that no chat completion has; the server may know it."""


class ToolNames:
    """What the tools of a request are called by the client, by the names of their functions.

    `searches`: the functions that look for tools; what they found is offered, too.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.functions: dict[str, dict[str, Any]] = {}  # of a chat request, by their names
        self.custom: set[str] = set()
        self.searches: set[str] = set()
        self._namespaces: dict[str, tuple[str, str]] = {}
        self._add(as_dicts(body.get("tools")), "")
        for item in as_dicts(body.get("input")):
            if item.get("type") in ("additional_tools", "tool_search_output"):
                self._add(as_dicts(item.get("tools")), "")

    def _add(self, tools: list[dict[str, Any]], namespace: str) -> None:
        for tool in tools:
            if tool.get("type") == "namespace":
                self._add(as_dicts(tool.get("tools")), as_str(tool.get("name")))
            else:
                self._add_function({**tool, "namespace": namespace})

    def _add_function(self, tool: dict[str, Any]) -> None:
        """The function for a tool, unless it is one of the service, and no function of the client's."""
        kind, name, fields = tool.get("type"), self.flatten(tool), tool
        if kind == "custom":
            self.custom.add(name)
            about, form = as_str(tool.get("description")), as_dict(tool.get("format"))
            if form.get("type") == "grammar":  # which no server can hold a string in JSON to
                language, grammar = form.get("syntax", ""), form.get("definition", "")
                about = f"{about}\n\nThe input follows this {language} grammar:\n{grammar}".strip()
            fields = {"description": about, "parameters": _CUSTOM_SCHEMA}
        elif kind == TOOL_SEARCH and tool.get("execution") == "client":
            name = TOOL_SEARCH
            self.searches.add(name)
        elif kind != "function":
            return
        if name in self.functions:
            return  # it was found twice
        if tool["namespace"]:
            self._namespaces[name] = tool["namespace"], as_str(tool.get("name"))
        named = {key: fields[key] for key in ("description", "parameters", "strict") if fields.get(key) is not None}
        self.functions[name] = {"type": "function", "function": {"name": name, **named}}

    def flatten(self, call: Mapping[str, Any]) -> str:
        """The name of the function for a tool, or a call, of the client's."""
        name, namespace = as_str(call.get("name")), as_str(call.get("namespace"))
        return f"{namespace}{SEPARATOR}{name}" if namespace else name

    def restore(self, function: str) -> tuple[str | None, str]:
        """Namespace and name of the tool that a function stands for."""
        return self._namespaces.get(function, (None, function))


_CUSTOM_SCHEMA = {
    "type": "object",
    "properties": {PAYLOAD: {"type": "string", "description": "The whole input of the tool, as text."}},
    "required": [PAYLOAD],
    "additionalProperties": False,
}


def read_payload(arguments: str) -> str:
    """The input of a custom tool's call."""
    payload = read_arguments(arguments).get(PAYLOAD)
    return payload if isinstance(payload, str) else arguments


def read_arguments(arguments: str) -> dict[str, Any]:
    """Empty if they are no object, such as those of a call that is not whole."""
    try:
        return as_dict(json.loads(arguments))
    except ValueError:
        return {}


def to_chat(body: Mapping[str, Any], names: ToolNames) -> dict[str, Any]:
    """The chat completion request that asks the same.

    Raises Unconvertible, and ValueError with a sentence for the client.
    """
    chat: dict[str, Any] = {name: body[name] for name in _SAME if body.get(name) is not None}
    chat.update({chat_name: body[name] for name, chat_name in _RENAMED.items() if body.get(name) is not None})
    chat["messages"] = _convert_input(body.get("input"), names)
    if instructions := as_str(body.get("instructions")):
        chat["messages"].insert(0, {"role": "system", "content": instructions})
    if names.functions:
        chat["tools"] = [*names.functions.values()]
        chat["tool_choice"] = _convert_choice(body.get("tool_choice"), names)
    if chat.get("stream"):
        chat["stream_options"] = {"include_usage": True}
    if (effort := as_dict(body.get("reasoning")).get("effort")) is not None:
        chat["reasoning_effort"] = effort
    if form := _convert_form(as_dict(as_dict(body.get("text")).get("format"))):
        chat["response_format"] = form
    return chat


def _convert_form(form: Mapping[str, Any]) -> dict[str, Any]:
    """The form of an answer; empty if any text will do."""
    if form.get("type") == "json_schema":
        schema = {name: form[name] for name in ("name", "schema", "strict", "description") if name in form}
        return {"type": "json_schema", "json_schema": schema}
    if form.get("type") == "json_object":
        return {"type": "json_object"}
    return {}


def _convert_choice(choice: object, names: ToolNames) -> Any:
    if not isinstance(choice, dict):
        return choice if choice in ("none", "required") else "auto"
    if choice.get("type") in ("function", "custom"):
        return {"type": "function", "function": {"name": names.flatten(choice)}}
    return choice.get("mode", "auto") if choice.get("type") == "allowed_tools" else "auto"


def _convert_input(given: object, names: ToolNames) -> list[dict[str, Any]]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list):
        raise ValueError("input: a string or a list is required.")
    messages: list[dict[str, Any]] = []
    for item in as_dicts(given):
        for message in _convert_item(item, names):
            if message["role"] == "assistant" and messages and messages[-1]["role"] == "assistant":
                _merge(messages[-1], message)
            else:
                messages.append(message)
    return messages


def _merge(last: dict[str, Any], more: dict[str, Any]) -> None:
    """The items of one answer of the model are one message."""
    for name, value in more.items():
        if name == "tool_calls":
            last[name] = [*last.get(name, []), *value]
        elif name != "role":
            last[name] = f"{last[name]}{value}" if isinstance(last.get(name), str) and isinstance(value, str) else value


def _convert_item(item: dict[str, Any], names: ToolNames) -> Iterator[dict[str, Any]]:
    kind = item.get("type", "message")
    if kind == "message":
        role = item.get("role")
        yield {"role": "system" if role == "developer" else role, "content": _convert_content(item.get("content"))}
    elif kind in _CALLS:
        yield _make_call(kind, item, names)
    elif kind in _RESULTS:
        content = _convert_content(item.get("output"))
        if kind == "tool_search_output":
            functions = ToolNames({"tools": item.get("tools")}).functions
            content = f"Tools found: {', '.join(functions) or 'none'}"
        yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
    elif kind == "reasoning":
        thoughts = as_dicts(item.get("content")) or as_dicts(item.get("summary"))
        if text := "".join(as_str(each.get("text")) for each in thoughts):
            yield {"role": "assistant", "reasoning": text}
    elif kind not in _SKIPPED:
        raise Unconvertible(f"input: items of type {kind!r} are not supported.")


def _make_call(kind: str, item: Mapping[str, Any], names: ToolNames) -> dict[str, Any]:
    name, arguments = names.flatten(item), item.get("arguments")
    if kind == "custom_tool_call":
        arguments = json.dumps({PAYLOAD: item.get("input")})
    elif kind == "tool_search_call":
        name, arguments = TOOL_SEARCH, json.dumps(arguments)
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": item.get("call_id"), "type": "function", "function": function}]}


def _convert_content(content: object) -> Any:
    """A string where there is only text."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else json.dumps(content)
    parts = [_convert_part(part) for part in as_dicts(content)]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _convert_part(part: dict[str, Any]) -> dict[str, Any]:
    kind = as_str(part.get("type"))
    if kind in _PARTS:
        return {"type": "text", "text": as_str(part.get(_PARTS[kind]))}
    if kind == "input_image":
        image = {"url": part.get("image_url"), **({"detail": part["detail"]} if part.get("detail") else {})}
        return {"type": "image_url", "image_url": image}
    if kind == "input_audio":
        return {"type": "input_audio", "input_audio": part.get("input_audio")}
    raise Unconvertible(f"input: content of type {kind!r} is not supported.")
