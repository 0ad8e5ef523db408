"""What an SDK shows of a call while it streams: `sdk_streams.py API BASE_URL QUESTION`, run with its own Python.

API: messages (the SDK anthropic) or responses (openai). BASE_URL is without /v1. The last line of the output is JSON: the
sizes of the file's content after each event of the call, and the call's arguments at the end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

MODEL, KEY = "tiny", "none"
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
}
TOOL = {"name": "write", "description": "Write a file."}
MAX_TOKENS = 4000


def stream_messages(base_url: str, question: str) -> Iterator[dict[str, Any]]:
    """The arguments after each event: this SDK's snapshot has no string that is open, so its pieces are joined."""
    import anthropic
    import jiter

    text = ""
    client = anthropic.Anthropic(base_url=base_url, api_key=KEY)
    tools: Any = [{**TOOL, "input_schema": SCHEMA}]
    messages: Any = [{"role": "user", "content": question}]
    with client.messages.stream(model=MODEL, max_tokens=MAX_TOKENS, messages=messages, tools=tools) as stream:
        for event in stream:
            if event.type == "input_json":
                text += event.partial_json
                yield jiter.from_json(text.encode(), partial_mode="trailing-strings") if text else {}
        (call,) = [block for block in stream.get_final_message().content if block.type == "tool_use"]
    yield dict(call.input)  # type: ignore[call-overload]


def stream_responses(base_url: str, question: str) -> Iterator[dict[str, Any]]:
    """The same; this SDK joins the pieces itself."""
    import jiter
    import openai

    client = openai.OpenAI(base_url=f"{base_url}/v1", api_key=KEY)
    tools: Any = [{**TOOL, "type": "function", "parameters": SCHEMA, "strict": False}]
    with client.responses.stream(model=MODEL, input=question, max_output_tokens=MAX_TOKENS, tools=tools) as stream:
        for event in stream:
            if event.type == "response.function_call_arguments.delta":
                yield jiter.from_json(event.snapshot.encode(), partial_mode="trailing-strings")
        (call,) = [item for item in stream.get_final_response().output if item.type == "function_call"]
    yield json.loads(call.arguments)


STREAMS = {"messages": stream_messages, "responses": stream_responses}


if __name__ == "__main__":
    api, base_url, question = sys.argv[1:]
    *seen, final = STREAMS[api](base_url, question)
    print(json.dumps({"sizes": [len(each.get("content", "")) for each in seen], "arguments": final}))
