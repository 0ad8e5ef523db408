"""The grammar of each format: whatever it allows is read as a valid call. xgrammar itself is asked in tests/live."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import fastjsonschema
import pytest

from src.negotiation.formats.structural_tags import find_format, make_structural_tag
from src.parsing import extract_tool_calls, mentions_call
from src.parsing.formats.table import FORMATS
from src.types.messages import Named, ToolDefinition
from tests.each import check_each, check_rows
from tests.thorough import sample

MODE = ToolDefinition(
    "set_mode",
    "",
    {
        "type": "object",
        "properties": {
            "note": {"type": "string", "maxLength": 20},
            "mode": {"type": "string", "enum": ["fast", "very careful"]},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "force": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 2},
        },
        "required": ["mode", "count"],
        "additionalProperties": False,
    },
)
LOOK = ToolDefinition(
    "look_around",
    "",
    {
        "type": "object",
        "properties": {"deep": {"type": "boolean"}, "text": {"type": "string"}},
        "required": [],
        "additionalProperties": False,
    },
)
TOOLS = [MODE, LOOK]
CHECKS = {tool.name: fastjsonschema.compile(dict(tool.parameters)) for tool in TOOLS}
GRAMMARS = [row for row in FORMATS if find_format(row.name) is row]


class Writer:
    """Writes a text that a structural tag allows, as xgrammar lets a model of random weights."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def write(self, form: dict[str, Any]) -> str:
        return getattr(self, f"_write_{form['type']}")(form)

    def _write_grammar(self, form: dict[str, Any]) -> str:
        assert form["grammar"] == 'root ::= ""'
        return ""

    def _write_const_string(self, form):
        return form["value"]

    def _write_sequence(self, form):
        return "".join(map(self.write, form["elements"]))

    def _write_or(self, form):
        return self.write(self._random.choice(form["elements"]))

    def _write_tag(self, form):
        return form["begin"] + self.write(form["content"]) + form["end"]

    def _write_any_text(self, form):
        return "".join(self._random.choices("ab c<.,\n", k=self._random.randint(1, 20))).strip() + "x"

    def _write_triggered_tags(self, form):
        tag = self._random.choice(form["tags"])
        assert sum(tag["begin"].startswith(trigger) for trigger in form["triggers"]) == 1
        return self.write(tag)

    def _write_tags_with_separator(self, form):
        return form["separator"].join(
            self.write(self._random.choice(form["tags"])) for _ in range(self._random.randint(1, 3))
        )

    def _write_regex(self, form):
        if form["pattern"].startswith("-?"):
            return self._random.choice(["0", "-7", "12"])
        quote = '"' if form["pattern"].startswith('"') else ""
        text = quote + "".join(self._random.choices("ab c.", k=self._random.randint(1, 9))) + quote
        assert re.fullmatch(form["pattern"], text)
        return text

    def _write_json_schema(self, form):
        return json.dumps(self._make_value(form["json_schema"]))

    def _make_value(self, schema):
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        match schema["type"]:
            case "null":
                return None
            case "boolean":
                return self._random.random() < 0.5
            case "integer":
                return self._random.randint(1, 9)
            case "array":
                return [self._make_value(schema["items"]) for _ in range(self._random.randint(0, 2))]
            case "object":
                chosen = [
                    name for name in schema["properties"] if name in schema["required"] or self._random.random() < 0.5
                ]
                return {name: self._make_value(schema["properties"][name]) for name in chosen}
        return "some text"


def load_form(row, choice: Any = "required", tools=TOOLS) -> dict[str, Any]:
    return json.loads(make_structural_tag(row, tools, choice))["format"]


def test_most_formats_have_a_grammar():
    assert len(GRAMMARS) >= 60


@pytest.mark.thorough
@check_each(row=GRAMMARS)
def test_what_the_grammar_allows_is_a_valid_call(row):
    form = load_form(row)
    for seed in sample(range(20), 3, start=GRAMMARS.index(row)):
        text = Writer(seed).write(form)
        found = extract_tool_calls(text, TOOLS)
        assert found.calls, text
        assert not found.malformed, text
        for call in found.calls:
            CHECKS[call.name](dict(call.arguments))


@check_each(row=GRAMMARS)
def test_a_grammar_allows_what_the_template_writes(row):
    form = load_form(row, tools=[ToolDefinition("get_weather", "", {"type": "object", "properties": {}})])
    written = Writer(0).write(form)
    example = row.write("get_weather", {})
    assert example.startswith(written[:10])


@check_each(row=GRAMMARS)
def test_in_free_text_only_what_is_no_text_begins_a_call(row):
    tag = make_structural_tag(row, TOOLS)
    assert bool(tag) == bool(row.marker)
    if tag:
        assert mentions_call(f"Calls begin with {row.marker} here.")  # then no grammar is sent
        assert json.loads(tag)["format"]["triggers"] == [row.marker]


@check_rows("marker", ["<|channel|>", "<|im_start|>", "<|start|>assistant to=", "<tool>", "@"])
def test_a_marker_that_plain_answers_have_begins_no_call(marker):
    assert all(row.marker != marker for row in FORMATS if row.opener == marker)


@check_each(row=[row for row in GRAMMARS if row.marker])
def test_a_named_tool_is_the_only_one(row):
    form = load_form(row, Named("look_around"))
    assert form["stop_after_first"]
    assert "set_mode" not in json.dumps(form)


STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
DECLARING = {  # what stands around the type that a tag declares
    "kimi_k3": r'type="([^"]+)"',
    "k2_horizon_typed": r"<ifm\|arg_type>([^<]+)<",
    "deepseek_v4": r'string="([^"]+)"',
}


def list_declared(name: str, schema: dict[str, Any]) -> list[str]:
    """The types that the tag of a parameter may declare."""
    (row,) = (row for row in FORMATS if row.name == name)
    tool = ToolDefinition("f", "", {"type": "object", "properties": {"x": schema}, "required": ["x"]})
    tag = make_structural_tag(row, [tool], "required").replace('\\"', '"')
    return list(dict.fromkeys(re.findall(DECLARING[name], tag)))


@check_rows(
    "schema, kimi_k3, k2_horizon_typed, deepseek_v4",
    [
        (STRING, ["string"], ["string"], ["true"]),
        (INTEGER, ["number"], ["integer"], ["false"]),
        ({"type": "number", "minimum": 0}, ["number"], ["number"], ["false"]),
        ({"type": "boolean"}, ["boolean"], ["boolean"], ["false"]),
        (NULL, ["null"], ["null"], ["false"]),
        ({"type": "object"}, ["object"], ["object"], ["false"]),
        ({"properties": {"a": INTEGER}}, ["object"], ["object"], ["false"]),
        ({"type": "array"}, ["array"], ["array[any]"], ["false"]),
        ({"type": "array", "items": {"type": "array", "items": INTEGER}}, ["array"], ["array[array[integer]]"], ["false"]),
        ({"type": "array", "items": {"anyOf": [INTEGER, NULL]}}, ["array"], ["array"], ["false"]),
        ({"anyOf": [INTEGER, NULL]}, ["number", "null"], ["integer", "null"], ["false"]),
        ({"type": ["array", "null"], "items": STRING}, ["array", "null"], ["array", "null"], ["false"]),
        ({"anyOf": [{"enum": ["a", 1]}, NULL]}, ["string", "number", "null"], ["string", "integer", "null"], ["true", "false"]),
        ({"const": 1}, ["number"], ["integer"], ["false"]),
        (
            {"title": "Any"},
            ["string", "boolean", "number", "null", "array", "object"],
            ["string", "boolean", "integer", "number", "null", "array", "object"],
            ["true", "false"],
        ),
    ],
)  # fmt: skip
def test_a_tag_declares_the_type_of_its_value_as_the_chat_template_does(schema, **declared):
    assert {name: list_declared(name, schema) for name in DECLARING} == declared


@pytest.mark.thorough
@check_each(name=DECLARING)
def test_a_value_of_one_of_several_types_is_read_as_its_tag_declares(name):
    (row,) = (row for row in FORMATS if row.name == name)
    parameters = {
        "some": {"type": ["string", "null"], "enum": ["a", "b c", None]},
        "more": {"anyOf": [INTEGER, {"type": "array", "items": STRING}, NULL]},
        "text": {"type": ["string", "null"], "description": "Some text."},
    }
    tool = ToolDefinition("f", "", {"type": "object", "properties": parameters, "required": [*parameters]})
    check = fastjsonschema.compile(dict(tool.parameters))
    form = load_form(row, Named("f"), [tool])
    for seed in sample(range(40), 8):
        text = Writer(seed).write(form)
        calls = extract_tool_calls(text, [tool]).calls
        assert calls
        for call in calls:
            check(dict(call.arguments))
            assert row.syntax.write("f", call.arguments) in text


def test_several_calls_may_stand_in_one_block():
    (row,) = (row for row in FORMATS if row.name == "mistral")
    (tag,) = load_form(row, "auto")["tags"]
    assert (tag["begin"], tag["end"]) == ("[TOOL_CALLS] [", "]")
    assert tag["content"]["separator"] == ", "
    assert [each["begin"] for each in tag["content"]["tags"]] == [
        '{"name": "set_mode", "arguments": ',
        '{"name": "look_around", "arguments": ',
    ]


def test_a_string_in_tags_is_any_text_up_to_its_end():
    (row,) = (row for row in FORMATS if row.name == "qwen3_coder")
    (tag,) = load_form(row, "auto", tools=[LOOK])["tags"]
    assert tag["begin"] == "<tool_call>\n<function=look_around>\n"
    string = tag["content"]["elements"][1]["elements"][0]["elements"][0]
    assert string == {
        "type": "tag", "begin": "<parameter=text>\n", "content": {"type": "any_text"}, "end": "\n</parameter>",
    }  # fmt: skip


def test_a_listed_string_stands_in_its_tags_without_blanks():
    (row,) = (row for row in FORMATS if row.name == "qwen3_coder")
    text = make_structural_tag(row, [MODE])
    assert '"value": "very careful"' in text


@check_each(row=[row for row in FORMATS if find_format(row.name)])
def test_a_grammar_has_no_empty_text_which_older_servers_refuse(row):
    """xgrammar 0.1.29 of vLLM 0.14 refuses it in const_string and as a separator."""
    tag = make_structural_tag(row, TOOLS, "required")
    assert '"value": ""' not in tag
    assert '"separator": ""' not in tag
