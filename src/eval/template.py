"""A chat template that shows tools, for a model whose own does not: it writes turns as the model's own does.

How the model's template joins two turns is read from a prompt that the server made of marked messages. To that come the
tools, calls and results in the form that vLLM's parser hermes reads. Whether the model makes use of it, an eval of the
restarted server tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from ..negotiation import ServerApi
from ..providers.base import ChatRequest
from ..types.effects import Aside
from ..types.messages import Message, Response, SystemMessage, Text, UserMessage

MARKS = ("QXSYSTEMXQ", "QXFIRSTXQ", "QXANSWERXQ", "QXSECONDXQ")
SHOWS_TOOLS = """\
{%- set tools_text -%}
{%- if tools -%}
# Tools

You can call the functions whose signatures stand in <tools></tools>:
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>

To call one, write a JSON object with its name and arguments, in <tool_call></tool_call>:
<tool_call>
{"name": "the name", "arguments": {"the argument": "its value"}}
</tool_call>
{%- endif -%}
{%- endset -%}
{%- set state = namespace(last='start') -%}
{%- if tools and messages[0].role != 'system' -%}
{{- joints.start_system ~ tools_text -}}
{%- set state.last = 'system' -%}
{%- endif -%}
{%- for message in messages -%}
{%- set role = 'user' if message.role == 'tool' else message.role -%}
{%- if role == state.last -%}
{{- '\\n\\n' -}}
{%- else -%}
{{- joints[state.last ~ '_' ~ role] -}}
{%- endif -%}
{%- set state.last = role -%}
{%- if message.role == 'tool' -%}
{{- '<tool_response>\\n' ~ message.content ~ '\\n</tool_response>' -}}
{%- else -%}
{{- message.content or '' -}}
{%- if role == 'system' and tools -%}
{{- '\\n\\n' ~ tools_text -}}
{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{%- set arguments = call.function.arguments -%}
{%- set written = arguments if arguments is string else arguments | tojson -%}
{{- '\\n<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' ~ written ~ '}\\n</tool_call>' -}}
{%- endfor -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and state.last != 'assistant' -%}
{{- joints.user_end -}}
{%- endif -%}
"""


def derive_template(server: ServerApi, model: str) -> Aside[str | None]:
    """The template; None where the server does not tell its prompts, or they do not show the messages."""
    system, first, answer, second = MARKS
    turns: list[Message] = [UserMessage(first), Response((Text(answer),)), UserMessage(second)]
    rendered = yield from _render(server, model, [SystemMessage(system), *turns])
    bare = yield from _render(server, model, turns)
    if rendered is None or bare is None:
        return None
    return write_template(rendered, bare)


def write_template(whole: str, bare: str) -> str | None:
    """Of a prompt of all marked messages, and of one without the system message."""
    pieces, others = _split(whole, MARKS), _split(bare, MARKS[1:])
    if pieces is None or others is None:
        return None
    joints = {
        "start_system": pieces[0],
        "system_user": pieces[1],
        "start_user": others[0],
        "user_assistant": pieces[2],
        "assistant_user": pieces[3],
        "user_end": pieces[4],
    }
    rows = ", ".join(f"{json.dumps(name)}: {json.dumps(text)}" for name, text in joints.items())
    return f"{{%- set joints = {{{rows}}} -%}}\n{SHOWS_TOOLS}"


def _render(server: ServerApi, model: str, messages: Sequence[Message]) -> Aside[str | None]:
    prompt = yield from server.tokenize_prompt(ChatRequest(model, messages))
    if not prompt:
        return None
    return (yield from server.detokenize(model, prompt.tokens))


def _split(text: str, marks: Sequence[str]) -> list[str] | None:
    """What stands before, between and behind the marks; None unless each is there once, in order."""
    match = re.fullmatch("(.*?)" + "(.*?)".join(marks) + "(.*)", text, re.DOTALL)
    if match is None or any(text.count(mark) != 1 for mark in marks):
        return None
    return [*match.groups()]
