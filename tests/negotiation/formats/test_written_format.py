"""The format in which a model writes calls: found once, and the grammar that is sent for it on the template path."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from src.negotiation.call_path import CallPath
from src.negotiation.formats.structural_tags import find_format
from src.negotiation.formats.written_format import PROBE, choose_format, guess_format, read_format
from src.parsing.formats.table import FORMATS
from src.providers.vllm import fits_xgrammar
from src.types.messages import Named, ToolDefinition, UserMessage
from tests.each import check_each, check_rows

from ...model.test_model import HELLO, READ, Served

HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
CODER = "<tool_call>\n<function=read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>"
TEMPLATE = CallPath("template", template_shows_tools=True)


def render(call: str) -> str:
    return f"# Tools\nget_weather\n<|user|>{PROBE[0].text}<|end|><|assistant|>{call}<|end|>\n<|assistant|>"


def serve(*answers, prompt=f"{PROBE[0].text}\n{HERMES}", **options) -> Served:
    """A server whose chat template makes this prompt of the probe."""
    tokens = {"tokens": [1, 2, 3], "max_model_len": 4096}
    options = {"path": TEMPLATE, "strict": fits_xgrammar} | options
    return Served(*answers, tokenize=lambda _: tokens, detokenize=lambda _: {"prompt": prompt}, **options)


def read_form(served: Served) -> dict:
    return json.loads(served.sent["structured_outputs"]["structural_tag"])["format"]


@check_each(row=[row for row in FORMATS if find_format(row.name)])
def test_a_prompt_with_a_call_tells_a_format_that_writes_it_so(row):
    found = find_format(read_format(render(row.example)))
    assert found is None or found.example.split() == row.example.split() or found.call_origin == row.call_origin


@check_rows("name", ["hermes", "qwen3_coder", "mistral", "deepseek_v31", "kimi_k2", "glm45", "minimax_m2"])
def test_the_format_of_well_known_templates_is_found(name):
    (row,) = (row for row in FORMATS if row.name == name)
    assert read_format(render(row.example)) in (name, *(each.name for each in FORMATS if each.example == row.example))


@pytest.mark.parametrize("prompt", ["", render("I cannot call."), render(HERMES.replace("Oslo", "Rome"))])
def test_a_prompt_without_the_call_tells_nothing(prompt):
    assert read_format(prompt) == ""


@check_rows(
    "model, name",
    [
        ("Qwen/Qwen3-Coder-30B", "qwen3_coder"),
        ("mistralai/Ministral-8B", "mistral"),
        ("zai-org/GLM-4.6", "glm45"),
        ("x", ""),
    ],
)
def test_a_model_s_name_tells_it_where_the_template_does_not(model, name):
    assert guess_format(model) == name


def test_the_grammar_of_the_template_s_format_is_sent():
    served = serve(HELLO)
    served.ask()
    assert read_form(served)["triggers"] == ["<tool_call>"]
    assert served.sent["tool_choice"] == "none"
    assert served.model.path.written_format == "hermes"


def test_it_is_asked_for_once_and_kept():
    served = serve(HELLO, HELLO)
    served.ask()
    path = CallPath.from_dict(served.model.path.to_dict())
    again = serve(HELLO, path=path, prompt=render(CODER))
    again.ask()
    assert again.model.path.written_format == "hermes"


def test_a_call_that_is_seen_counts_more_than_the_template():
    served = serve([{"content": CODER}, {"finish": "stop"}], HELLO)
    served.ask()
    served.ask()
    assert read_form(served)["tags"][0]["begin"] == "<tool_call>\n<function=read>\n"


def test_a_format_without_a_marker_takes_the_place_of_none():
    assert choose_format("hermes", "llama_json") == "hermes"
    assert choose_format("none", "llama_json") == "llama_json"
    assert choose_format("hermes", "") == "hermes"
    assert choose_format("hermes", "attributes") == "hermes"


@pytest.mark.parametrize("text", ["What does <tool_call> mean?", "What is [TOOL_CALLS] for?"])
def test_where_a_tag_is_mentioned_no_grammar_is_sent(text):
    served = serve(HELLO)
    served.ask(UserMessage(text))
    assert "structured_outputs" not in served.sent


def test_a_forced_call_is_held_to_the_format_and_not_asked_for_in_words():
    served = serve([{"content": CODER}, {"finish": "stop"}])
    list(served.model.respond([UserMessage("go")], (READ,), Named("read")))
    assert (read_form(served)["at_least_one"], read_form(served)["stop_after_first"]) == (True, True)
    assert served.sent["messages"][-1]["content"] == "go"


@pytest.mark.parametrize(
    "options", [{"constrained": "off"}, {"path": replace(TEMPLATE, disabled_fields=("structured_outputs",))}]
)
def test_where_grammars_are_off_none_is_sent(options):
    served = serve(HELLO, **options)
    served.ask()
    assert "structured_outputs" not in served.sent


def test_a_schema_that_no_grammar_can_have_is_left_open():
    odd = {"type": "object", "properties": {"path": {"type": "string", "pattern": "a"}, "n": {"type": "integer"}}}
    served = serve(HELLO)
    served.ask(tools=(ToolDefinition("read", "", odd),))
    schema = read_form(served)["tags"][0]["content"]["json_schema"]
    assert schema["properties"] == {"path": {}, "n": {"type": "integer"}}


def test_a_template_that_tells_nothing_sends_no_grammar():
    served = serve(HELLO, prompt="")
    served.ask()
    assert "structured_outputs" not in served.sent
