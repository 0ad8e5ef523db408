"""The law: what is sent at turn n+1 extends what was sent at turn n, for every provider and path.

The exception: an answer without text and calls is not sent where roles must alternate, so that what follows it is joined
to what was before.
"""

import functools
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.model.request_builder import ModelOptions, RequestBuilder
from src.negotiation import CallPath
from src.negotiation.continuity import count_same
from src.types.messages import (
    MalformedCall,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tests.each import check_rows
from tests.providers.doubles import codec
from tests.thorough import take_turns

READ = ToolDefinition("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
TEXTS = st.sampled_from(
    ["", "Go.", "ä\n", "\n\n", "<|im_end|>", "<think>x</think>", 'TOOL_CALL: {"name": "read"}', "\ud800"]
)
JSON_VALUES = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | TEXTS, st.lists, max_leaves=3)
ARGUMENTS = st.dictionaries(st.sampled_from(["path", "n", "ö"]), JSON_VALUES, max_size=3)


@st.composite
def turns(draw):
    """An answer and what follows it: results, or the user's next message."""
    number = draw(st.integers(0, 10**6))
    thoughts = [Reasoning(draw(TEXTS))] if draw(st.booleans()) else []
    text = [Text(draw(TEXTS))] if draw(st.booleans()) else []
    origin = draw(st.sampled_from(["native", "text", "hermes"]))
    calls = [
        MalformedCall(f"{number}-{each}", "read", '{"path": ', "cut", origin)
        if draw(st.integers(0, 9)) == 0
        else ToolCall(f"{number}-{each}", "read", draw(ARGUMENTS), origin)
        for each in range(draw(st.integers(0, 3)))
    ]
    response = Response((*thoughts, *text, *calls), writer=draw(st.sampled_from(["", "own", "other"])))
    if not calls:
        response = Response(
            (*thoughts, *(text if text and text[0].text.strip() else [Text("Hm.")])), writer=response.writer
        )
        question = draw(TEXTS)
        return [response, UserMessage(question if question.strip() else "And?")]  # nobody sends a blank question
    kinds = st.sampled_from(["text", "error"])
    return [response, ToolResults(tuple(ToolResult(each.id, "read", draw(kinds), draw(TEXTS)) for each in calls))]


CONVERSATIONS = st.lists(turns(), min_size=1, max_size=5)
PATHS = [
    CallPath("native"),
    CallPath("native", template_shows_tools=True),
    CallPath("template", template_shows_tools=True),
    CallPath("native", template_shows_tools=True, call_gap="\n"),
    CallPath("text"),
    CallPath("text", alternate=True),
    CallPath("text", alternate=True, fold_system=True),
    CallPath("native", text_only=True, shows_thoughts=False),
]


def list_sent(builder, messages, path):
    request = builder.build("m", messages, [READ], path, None, writer="own")
    body = json.loads(builder.encode(request).body)
    return body.get("messages") or body.get("contents")


@pytest.mark.thorough
@pytest.mark.parametrize(("path", "provider"), take_turns(PATHS, ["vllm", "anthropic", "gemini", "openai", "ollama"]))
@given(conversation=CONVERSATIONS)
def test_what_is_sent_extends_what_was_sent_before(provider, path, conversation):
    builder = RequestBuilder(codec(provider), ModelOptions())
    messages = [SystemMessage("Be brief."), UserMessage("Go.")]
    before = list_sent(builder, messages, path)
    for turn in conversation:
        messages = [*messages, *turn]
        now = list_sent(builder, messages, path)
        assert now[: len(before)] == before
        before = now


@pytest.mark.thorough
@pytest.mark.parametrize(("path", "provider"), take_turns(PATHS, ["vllm", "anthropic", "gemini"]))
@given(conversation=CONVERSATIONS)
def test_tools_that_are_only_named_change_nothing_of_what_is_sent(provider, path, conversation):
    messages = [SystemMessage("Be brief."), UserMessage("Go."), *(each for turn in conversation for each in turn)]
    named = ToolDefinition("hub_merge", "Merge.", {"type": "object"}, named_by="hub")
    builder = RequestBuilder(codec(provider), ModelOptions(constrained="off"))
    without, with_named = (
        builder.encode(builder.build("m", messages, tools, path, None, writer="own"))
        for tools in ([READ], [READ, named])
    )
    assert without == with_named


# What real templates make of it


TEMPLATES = Path(os.environ.get("TEMPLATES", Path(__file__).resolve().parents[3] / "shared" / "corpus" / "templates"))
# Those that show thoughts behind the last question, with no variables set; see the README beside them.
SHOWING = (
    *(
        "GLM-4.6",
        "GLM-4.7-Flash",
        "GLM-5.2",
        "Gemma-4-31B-it",
        "Kimi-K2-Thinking",
        "Kimi-K2.5",
        "Kimi-K3",
        "MiniMax-M2",
    ),
    *("MiniMax-M3", "Nemotron-3-Nano", "Nemotron-3.5", "Qwen3", "Qwen3.5", "Qwen3.6", "Qwen3.8", "Seed-OSS"),
)


@functools.lru_cache
def compile_template(name):
    jinja2 = pytest.importorskip("jinja2")
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    path = TEMPLATES / f"{name}.jinja"
    if not path.exists():
        pytest.skip("the templates are not there")
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    made.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)

    def refuse(text):
        raise jinja2.TemplateError(text)

    made.globals |= {"raise_exception": refuse, "strftime_now": lambda _: "today"}
    return made.from_string(path.read_text(encoding="utf-8"))


def render(name, messages, *, opens=True, eos=""):
    """`opens`: an answer; `eos`: the token that ends one, where the template has it from its tokenizer."""
    tools = [{"type": "function", "function": {"name": "read", "description": "Read.", "parameters": READ.parameters}}]
    return compile_template(name).render(
        messages=messages, tools=tools, add_generation_prompt=opens, bos_token="", eos_token=eos
    )


def as_vllm_reads(messages):
    """vLLM's own mapping: `reasoning` alone is read, and arguments become objects."""
    read = []
    for message in messages:
        kept = {name: value for name, value in message.items() if name != "reasoning_content"}
        if thought := message.get("reasoning"):
            kept["reasoning_content"] = thought
        if calls := message.get("tool_calls"):
            kept["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
                for call in calls
            ]
        read.append(kept)
    return read


CALL = ToolCall("functions.read:0", "read", {"path": "ä <b>.txt"})
TALK = [
    SystemMessage("Be brief."),
    UserMessage("Read a.txt."),
    Response((Reasoning("The file will tell."), Text("Let me look."), CALL)),
    ToolResults((ToolResult(CALL.id, "read", "text", "hello"),)),
]


@check_rows("name", SHOWING)
def test_a_real_template_shows_the_thought_after_a_result(name):
    builder = RequestBuilder(codec("vllm"), ModelOptions())
    path = CallPath("native", template_shows_tools=True)
    prompt = render(name, as_vllm_reads(list_sent(builder, TALK, path)))
    assert "The file will tell." in prompt
    assert "hello" in prompt.partition("The file will tell.")[2]


@check_rows("name", SHOWING)
def test_a_real_template_extends_its_prompt_from_result_to_result(name):
    builder = RequestBuilder(codec("vllm"), ModelOptions())
    path = CallPath("native", template_shows_tools=True)
    second = ToolCall("functions.read:1", "read", {"path": "b.txt"})
    more = [
        Response((Reasoning("One more."), second)),
        ToolResults((ToolResult(second.id, "read", "text", "world"),)),
    ]
    first, longer = (render(name, as_vllm_reads(list_sent(builder, talk, path))) for talk in (TALK, [*TALK, *more]))
    shared = count_same(first, longer)
    opening = len(first) - first.rindex("hello")  # what the template writes behind the last result
    assert shared >= len(first) - opening
