"""The grammar of a call in each format, as a structural tag: what a server with xgrammar holds the model to.

Strategy: the row's template, which writes a call, is read as a pattern. Its text is constant, its fields become
grammars of the tool's parameters. In free text a call begins with the row's marker; a row without one is used only
where a call is forced, for its first characters may be text. Strings in tags are any text up to the closing tag.
The vocabulary is that of xgrammar 0.1.29 (vLLM 0.14) and later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Union

from ...parsing.decode.nodes import KINDS
from ...parsing.formats.table import FIELDS, FORMATS, Format
from ...parsing.formats.tag_syntax import TagSyntax
from ...providers.vllm import MAX_BLANKS, build_triggered_tags, encode_structural_tag, list_callable_tools
from ...types.messages import JSON, ToolChoice, ToolDefinition

_PYTHON_STRING = r'"([^"\\\r\n\x00-\x1f]|\\["\\nt]){LENGTH}"'
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_NUMBERS = {  # where no bounds limit them; longer ones have no end on a weak model, or overflow
    "integer": r"-?(0|[1-9][0-9]{0,15})",
    "number": r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?",
}
_PYTHON_WORDS = {"boolean": ("True", "False"), "null": ("None",)}  # by the type of the value

Pattern = dict[str, JSON]
Part = Union[str, Pattern]

_EMPTY: Pattern = {"type": "grammar", "grammar": 'root ::= ""'}  # xgrammar 0.1.29 (vLLM 0.14) knows no empty text


def find_format(origin: str) -> Format | None:
    """The format in which calls of this origin are written, if it has a grammar."""
    row = next((row for row in FORMATS if row.name == origin), None)
    return row if row and _WRITERS.keys() >= set(FIELDS.findall(row.template)) else None


def make_structural_tag(row: Format, tools: Sequence[ToolDefinition], choice: ToolChoice = "auto") -> str:
    """structured_outputs.structural_tag: any text, but after the row's marker only a call of an offered tool.

    If `choice` requires a call, the answer begins with one, and with Named is nothing but one. Empty if the row has no
    marker and no call is required.
    """
    tags = _make_blocks(row, list_callable_tools(tools, choice))
    if row.marker:
        return encode_structural_tag(build_triggered_tags(row.marker, tags, choice))
    if choice in ("auto", "none"):
        return ""
    return encode_structural_tag(_either(tags))


def _make_blocks(row: Format, tools: Sequence[ToolDefinition]) -> list[JSON]:
    """The tags of a block: one for each tool, or one around all of its calls."""
    begin, mark, rest = row.template.partition("⟦")
    if not mark:
        return [_make_tag(row, tool, row.template.removesuffix(row.turn_end)) for tool in tools]
    unit, _, end = rest.partition("⟧")
    tags = [_make_tag(row, tool, unit) for tool in tools]
    separator = ""
    if unit.startswith("\n "):
        separator = ","
    elif begin.endswith("["):
        separator = ", "
    ends = {str(tag["end"])[-1:] for tag in tags}
    if not separator and len(ends) == 1:  # xgrammar 0.1.29 knows no empty one: what each call ends with is taken
        (separator,) = ends
        end = separator + end
        tags = [{**tag, "end": str(tag["end"])[:-1]} for tag in tags]
    calls: Pattern = {
        "type": "tags_with_separator",
        "tags": list(tags),
        "separator": separator,
        "at_least_one": True,
    }
    return [{"type": "tag", "begin": begin, "content": calls, "end": end.removesuffix(row.turn_end)}]


def _make_tag(row: Format, tool: ToolDefinition, template: str) -> Pattern:
    parts: list[Part] = []
    position = 0
    for field in FIELDS.finditer(template):
        parts += [template[position : field.start()], *_WRITERS[field[1]](row, tool)]
        position = field.end()
    return _frame(_merge([*parts, template[position:]]))


def _merge(parts: Iterable[Part]) -> list[Part]:
    """Neighbouring texts as one."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part:
            merged.append(part)
    return merged


def _frame(parts: Sequence[Part]) -> Pattern:
    """A tag: its first text begins it, its last ends it."""
    begin = end = ""
    if isinstance(parts[0], str):
        begin, parts = parts[0], parts[1:]
    if parts and isinstance(parts[-1], str):
        end = parts[-1]
        parts = parts[:-1]
    return {"type": "tag", "begin": begin, "content": _join(parts), "end": end}


def _join(parts: Sequence[Part]) -> Pattern:
    forms = [_const(part) if isinstance(part, str) else part for part in parts]
    if not forms:
        return _EMPTY
    if len(forms) == 1:
        return forms[0]
    return {"type": "sequence", "elements": list(forms)}


def _const(text: str) -> Pattern:
    return {"type": "const_string", "value": text}


def _either(forms: Sequence[JSON]) -> Pattern:
    return {"type": "or", "elements": list(forms)}


def _json(schema: Mapping[str, JSON]) -> Pattern:
    if (number := _NUMBERS.get(str(schema.get("type")))) and not {"enum", "const", *_BOUNDS} & schema.keys():
        return {"type": "regex", "pattern": number}
    return {"type": "json_schema", "json_schema": dict(schema), "max_whitespace_cnt": MAX_BLANKS}


def _list_parameters(tool: ToolDefinition) -> list[tuple[str, Mapping[str, JSON], bool]]:
    """Name, schema, and whether it is required; the required ones first."""
    required = tool.parameters.get("required")
    needed = required if isinstance(required, list) else []
    listed = _as_mapping(tool.parameters.get("properties"))
    named = [(name, _as_mapping(schema), name in needed) for name, schema in listed.items()]
    return sorted(named, key=lambda parameter: not parameter[2])


def _as_mapping(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, Mapping) else {}


def _separate(members: Sequence[tuple[list[Part], bool]], separator: str) -> list[Part]:
    """Members of which some may be left out, with a separator between two."""
    needed = [member for member, is_needed in members if is_needed]
    others = [member for member, is_needed in members if not is_needed]
    joined: list[Part] = []
    for member in needed:
        joined += [separator, *member]
    if needed or not separator:
        return [*joined[1:], *(_option([separator, *member]) for member in others)]
    tails = [
        _join(_merge([*member, *(_option([separator, *later]) for later in others[number:])]))
        for number, member in enumerate(others, 1)
    ]
    if not tails:
        return []
    return [_either([*tails, _EMPTY])]


def _option(parts: Sequence[Part]) -> Pattern:
    return _either([_join(_merge(parts)), _EMPTY])


# What each field of a template becomes.


def _write_call(row: Format, tool: ToolDefinition) -> list[Part]:
    if row.syntax is None:
        return []
    begin, end = row.syntax.frame_call(tool.name)
    members: list[tuple[list[Part], bool]] = []
    for name, schema, is_needed in _list_parameters(tool):
        members.append((_write_argument(row.syntax, name, schema), is_needed))
    return [begin, *_separate(members, ""), end]


def _write_argument(syntax: TagSyntax, name: str, schema: Mapping[str, JSON]) -> list[Part]:
    """A value in its tags. Where these declare its type, they are others for each type that the schema leaves open."""
    typed = _split_by_type(schema) if syntax.declares_type else [schema]
    forms: list[list[Part]] = []
    for each in typed:
        kind = _name_type(each)
        if len(typed) > 1:  # then templates name the type of the value, which has no items
            kind = kind.partition("[")[0]
        opened, closed = syntax.frame_value(name, kind)
        forms.append(_write_value(opened, each, closed))
    if len(forms) == 1:
        return forms[0]
    return [_either([_join(_merge(form)) for form in forms])]


def _split_by_type(schema: Mapping[str, JSON]) -> list[Mapping[str, JSON]]:
    """Schemas of one type each, which together allow what this one does."""
    kinds, arms = schema.get("type"), schema.get("anyOf")
    if isinstance(kinds, str):
        return [schema]
    if isinstance(arms, list) and arms:
        return [each for arm in arms for each in _split_by_type(_as_mapping(arm))]
    if choices := _list_choices(schema):
        grouped: dict[str, list[JSON]] = {}
        for choice in choices:
            grouped.setdefault(KINDS[type(choice)], []).append(choice)
        return [{"type": kind, "enum": group} for kind, group in grouped.items()]
    if not isinstance(kinds, list):
        kinds = ["object"] if "properties" in schema else [*KINDS.values()]
    return [{**schema, "type": kind} for kind in kinds]


def _write_value(opened: str, schema: Mapping[str, JSON], closed: str) -> list[Part]:
    """A value between texts that end it: a string as it is, others as JSON."""
    if (choices := _list_texts(schema)) is not None:
        return [opened, _either([_const(choice) for choice in choices]), closed]
    if _name_type(schema) != "string":
        return [opened, _json(schema), closed]
    if length := _limit_length(schema):
        return [opened, {"type": "regex", "pattern": rf"[^{re.escape(closed.strip()[0])}]{length}"}, closed]
    ends = closed.rstrip()
    return [{"type": "tag", "begin": opened, "content": {"type": "any_text"}, "end": ends}, closed[len(ends) :]]


def _limit_length(schema: Mapping[str, JSON]) -> str:
    """How often a character may stand in a string, as regexes write it; empty if there is no limit."""
    least, most = schema.get("minLength"), schema.get("maxLength")
    if not isinstance(least, int) and not isinstance(most, int):
        return ""
    return f"{{{least if isinstance(least, int) else 0},{most if isinstance(most, int) else ''}}}"


def _list_texts(schema: Mapping[str, JSON]) -> list[str] | None:
    """The strings that a schema lists; None unless it lists strings alone."""
    choices = _list_choices(schema)
    texts = [choice for choice in choices if isinstance(choice, str)]
    if not texts or len(texts) < len(choices):
        return None
    return texts


def _list_choices(schema: Mapping[str, JSON]) -> list[JSON]:
    if "const" in schema:
        return [schema["const"]]
    choices = schema.get("enum")
    return choices if isinstance(choices, list) else []


def _name_type(schema: Mapping[str, JSON]) -> str:
    """The type of a schema's values; of an array with that of its items, if they have one: `array[integer]`."""
    kind = schema.get("type")
    if kind == "array":
        items = _as_mapping(schema.get("items"))
        named = [_name_type(each) for each in _split_by_type(items)] if items else ["any"]
        return f"array[{named[0]}]" if len(named) == 1 else "array"
    if isinstance(kind, str):
        return kind
    return "object" if schema and not _list_texts(schema) else "string"


def _write_keywords(_: Format, tool: ToolDefinition) -> list[Part]:
    members: list[tuple[list[Part], bool]] = [
        ([f"{name}=", _write_python(schema)], is_needed) for name, schema, is_needed in _list_parameters(tool)
    ]
    return _separate(members, ", ")


def _write_python(schema: Mapping[str, JSON]) -> Pattern:
    if (choices := _list_texts(schema)) is not None:
        return _either([_const(json.dumps(choice, ensure_ascii=False)) for choice in choices])
    kind = schema.get("type")
    if words := _PYTHON_WORDS.get(str(kind)):
        return _either([_const(word) for word in words])
    if kind != "string":
        return _json(schema)
    return {"type": "regex", "pattern": _PYTHON_STRING.replace("{LENGTH}", _limit_length(schema) or "*")}


def _write_members(row: Format, tool: ToolDefinition) -> list[Part]:
    members: list[tuple[list[Part], bool]] = []
    for name, schema, is_needed in _list_parameters(tool):
        if _name_type(schema) == "string":
            members.append((_write_value(f"{name}:{row.quote}", schema, row.quote), is_needed))
        else:
            members.append(([f"{name}:", _json(schema)], is_needed))
    return ["{", *_separate(members, ","), "}"]


_WRITERS: dict[str, Callable[[Format, ToolDefinition], list[Part]]] = {
    "name": lambda _, tool: [tool.name],
    "args": lambda _, tool: [_json(tool.parameters)],
    "call": _write_call,
    "keywords": _write_keywords,
    "members": _write_members,
}
