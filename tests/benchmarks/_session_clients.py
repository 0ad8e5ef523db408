"""Holds sessions with the SDKs of OpenAI and Anthropic: `_session_clients.py BASE_URL < sessions > outcomes`.

Run with a Python that has both SDKs. A line of input is a session as JSON, a line of output what was wrong with it, or
nothing. The base URL is without /v1.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from anthropic import Anthropic, AnthropicError
from openai import OpenAI, OpenAIError

from tests.benchmarks.sessions import PARAMETERS, REQUIRED, Session, Step, write_question

MODEL, MAX_TOKENS = "tiny", 1500
Said = tuple[str, list[tuple[str, str, Any]]]  # text; id, name and arguments of each call


def list_schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, properties in PARAMETERS.items():
        yield name, {"type": "object", "properties": properties, "required": REQUIRED[name]}


class ChatTalk:
    def __init__(self, url: str, form: dict[str, Any] | None, stream: bool) -> None:
        self._client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self._stream = stream
        self._messages: list[Any] = []
        self._fields: dict[str, Any] = {}
        if form:
            named = {"name": "answer", "schema": form, "strict": True}
            self._fields = {"response_format": {"type": "json_schema", "json_schema": named}}

    def ask(self, question: str) -> None:
        self._messages.append({"role": "user", "content": question})

    def give(self, results: list[tuple[str, str]]) -> None:
        self._messages += [{"role": "tool", "tool_call_id": id_, "content": text} for id_, text in results]

    def respond(self) -> Said:
        tools = [
            {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}
            for name, schema in list_schemas()
        ]
        fields: Any = {"model": MODEL, "messages": self._messages, "tools": tools, "max_tokens": MAX_TOKENS}
        if self._stream:
            with self._client.chat.completions.stream(**fields, **self._fields) as stream:
                message: Any = stream.get_final_completion().choices[0].message
        else:
            message = self._client.chat.completions.create(**fields, **self._fields).choices[0].message
        calls = message.tool_calls or []
        kept = [
            {
                "id": each.id,
                "type": "function",
                "function": {"name": each.function.name, "arguments": each.function.arguments},
            }
            for each in calls
        ]
        self._messages.append(
            {"role": "assistant", "content": message.content, **({"tool_calls": kept} if kept else {})}
        )
        made = [(each.id, each.function.name, json.loads(each.function.arguments)) for each in calls]
        return message.content or "", made


class ResponsesTalk:
    def __init__(self, url: str, _: dict[str, Any] | None, stream: bool) -> None:
        self._client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self._stream = stream
        self._items: list[Any] = []

    def ask(self, question: str) -> None:
        self._items.append({"role": "user", "content": question})

    def give(self, results: list[tuple[str, str]]) -> None:
        self._items += [{"type": "function_call_output", "call_id": id_, "output": text} for id_, text in results]

    def respond(self) -> Said:
        tools = [
            {"type": "function", "name": name, "description": name, "parameters": schema, "strict": False}
            for name, schema in list_schemas()
        ]
        fields: Any = {"model": MODEL, "input": self._items, "tools": tools, "max_output_tokens": MAX_TOKENS}
        if self._stream:
            with self._client.responses.stream(**fields) as stream:
                response: Any = stream.get_final_response()
        else:
            response = self._client.responses.create(**fields)
        self._items += [item.model_dump(exclude_none=True) for item in response.output]
        for item in self._items:
            if isinstance(item, dict):
                item.pop("parsed_arguments", None)
                for part in item.get("content") or () if isinstance(item.get("content"), list) else ():
                    part.pop("parsed", None)
        calls = [item for item in response.output if item.type == "function_call"]
        return response.output_text, [(each.call_id, each.name, json.loads(each.arguments)) for each in calls]


class MessagesTalk:
    def __init__(self, url: str, _: dict[str, Any] | None, stream: bool) -> None:
        self._client = Anthropic(base_url=url, api_key="none", max_retries=0)
        self._stream = stream
        self._messages: list[Any] = []

    def ask(self, question: str) -> None:
        self._messages.append({"role": "user", "content": question})

    def give(self, results: list[tuple[str, str]]) -> None:
        content = [{"type": "tool_result", "tool_use_id": id_, "content": text} for id_, text in results]
        self._messages.append({"role": "user", "content": content})

    def respond(self) -> Said:
        tools = [{"name": name, "description": name, "input_schema": schema} for name, schema in list_schemas()]
        fields: Any = {"model": MODEL, "messages": self._messages, "tools": tools, "max_tokens": MAX_TOKENS}
        if self._stream:
            with self._client.messages.stream(**fields) as stream:
                message: Any = stream.get_final_message()
        else:
            message = self._client.messages.create(**fields)
        self._messages.append({"role": "assistant", "content": message.content})
        text = "".join(block.text for block in message.content if block.type == "text")
        calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
        return text, calls


TALKS: dict[str, Callable[..., Any]] = {"chat": ChatTalk, "responses": ResponsesTalk, "messages": MessagesTalk}


def hold(url: str, session: Session) -> str:
    """Hold the session. Returns what came otherwise than the model said it, or nothing."""
    api, _, way = session.client.partition(" ")
    talk = TALKS[api](url, session.form, way == "stream")
    for number, steps in enumerate(session.questions):
        talk.ask(write_question(number, steps))
        for step in steps:
            text, calls = talk.respond()
            if [(name, given) for _, name, given in calls] != [tuple(call) for call in step.calls]:
                return f"calls {calls} in place of {step.calls}"
            if not step.calls and strip_thought(text) != strip_thought(step.text):
                return f"{text!r} in place of {step.text!r}"
            if step.calls:
                time.sleep(session.pause)
                talk.give([(id_, result) for (id_, _, _), result in zip(calls, step.results, strict=True)])
    return ""


def strip_thought(text: str) -> str:
    return text.partition("</think>")[2].strip() or text.strip()


def read_session(line: str) -> Session:
    name, client, questions, pause, form = json.loads(line)
    return Session(name, client, [[Step(*step) for step in steps] for steps in questions], pause, form)


if __name__ == "__main__":
    sessions = [read_session(line) for line in sys.stdin]

    def hold_safely(session: Session) -> str:
        try:
            return hold(sys.argv[1], session)
        except (OpenAIError, AnthropicError, ValueError) as error:
            return f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(8) as pool:
        for outcome in pool.map(hold_safely, sessions):
            print(json.dumps(outcome), flush=True)
