"""Commands as tools, from YAML: what a model may give becomes arguments of one program, and no shell sees it.

    - name: search
      description: Search the files of the workspace.
      command: rg --line-number {glob} -- {pattern} {path}
      risk: low
      parameters:
        pattern: What to search for, a regular expression
        path: {description: File or folder, default: .}
        glob: {description: "Only in files like this one, e.g. *.py", flag: --glob=, optional: true}

The command is split into words once, when it is read. A value takes the place of its `{parameter}` inside
one word, whatever is in it. Where it would begin the word it may not begin with "-", since the program would
take it for an option, unless a word "--" stands before it. What is optional and left out takes its word
along; a parameter with a `flag` becomes the flag and its value, a boolean one the flag alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import ConfigError, ToolError
from ...types.messages import JSON, ToolDefinition
from ..process.run import run
from ..sdk.context import ToolContext
from ..sdk.output_store import Stored
from ..sdk.registry import NAME, Tool
from ..sdk.schema import Schema, object_schema, strict_form
from .rows import Key, checked, is_command, is_integer, is_list_of, is_number, is_scalar, is_string, one_of

PLACE = re.compile(r"\{\{|\}\}|\{(\w+)\}")
TYPES = ("string", "integer", "number", "boolean", "array")
KEYS = {
    "name": Key("1 to 64 letters, digits, _ or -", lambda value: is_string(value) and bool(NAME.fullmatch(value))),
    "description": Key("what a model is told of the tool", lambda value: is_string(value) and bool(value.strip())),
    "command": Key("a program and its arguments, in a string or a list of strings", is_command),
    "parameters": Key("an object: each name with what it is", lambda value: isinstance(value, dict)),
    "risk": one_of("low", "high"),
}
PARAMETER_KEYS = {
    "type": one_of(*TYPES),
    "description": Key("a string", is_string),
    "enum": Key("a list of strings or numbers", partial(is_list_of, is_scalar)),
    "items": Key("string, integer or number", lambda value: _item_type(value) in ("string", "integer", "number")),
    "minimum": Key("a number", is_number),
    "maximum": Key("a number", is_number),
    "default": Key("a value, or a list of some", lambda value: is_scalar(value) or is_list_of(is_scalar, value)),
    "optional": Key("true or false", lambda value: isinstance(value, bool)),
    "flag": Key("a string", is_string),
}
ENUM_TYPES = {"string": is_string, "integer": is_integer, "number": is_number}
SCHEMA_KEYS = {
    "type": Key("object", "object".__eq__),
    "properties": Key("an object: each name with what it is", lambda value: isinstance(value, dict)),
    "required": Key("a list of names", lambda value: value == [] or is_list_of(is_string, value)),
    "additionalProperties": Key("false", lambda value: value is False),
}


class Parameter(NamedTuple):
    """`default` is what stands for a value left out; None: nothing does."""

    schema: Schema
    required: bool
    default: JSON
    flag: str


class Command(NamedTuple):
    """A program's words, in which `{parameter}` stands for a value."""

    words: tuple[str, ...]
    parameters: Mapping[str, Parameter]

    def argv(self, arguments: Mapping[str, JSON]) -> list[str]:
        """The program and its arguments. Raises ToolError for a value that would be taken for an option."""
        argv: list[str] = []
        for number, word in enumerate(self.words):
            argv += self._filled(word, arguments, options="--" not in self.words[:number])
        return argv

    def _filled(self, word: str, arguments: Mapping[str, JSON], *, options: bool) -> Iterator[str]:
        """What the word becomes: usually one word, for a list several, none where all of it is left out."""
        names = placeholders(word)
        alone = names[0] if names and word == f"{{{names[0]}}}" else ""
        values = {name: self._value(name, arguments) for name in names}
        if names and all(value is None for value in values.values()):
            return
        for value in _each(values[alone]) if alone else (None,):
            filled = _text(value) if alone else PLACE.sub(partial(_put, values), word)
            flag = self.parameters[alone].flag if alone else ""
            if flag:
                yield from _flagged(flag, value, filled, options=options)
            else:
                yield _operand(filled, word, options=options)

    def _value(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        value = arguments.get(name)
        return self.parameters[name].default if value is None else value


def load(paths: Sequence[str]) -> Iterator[Tool]:
    """The tools of YAML files. Raises ConfigError, with the file and the tool's place in it."""
    import yaml  # only who has such tools pays for it

    for path in paths:
        try:
            content = yaml.safe_load(Path(path).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: it is not YAML: {' '.join(str(error).split())}") from error
        entries = content if isinstance(content, list) else [content]
        for number, entry in enumerate(entries, 1):
            yield _tool(f"{path}: tool {number}", entry)


def placeholders(word: str) -> list[str]:
    return [match[1] for match in PLACE.finditer(word) if match[1]]


def _put(values: Mapping[str, JSON], match: re.Match[str]) -> str:
    return _text(values[match[1]]) if match[1] else match[0][0]


def _each(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [value]


def _text(value: JSON) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _operand(filled: str, word: str, *, options: bool) -> str:
    if options and filled.startswith("-") and not word.startswith("-"):
        raise ToolError(f'{filled[:40]!r} would be taken for an option: a value here may not begin with "-"')
    return filled


def _flagged(flag: str, value: JSON, filled: str, *, options: bool) -> Iterator[str]:
    if isinstance(value, bool):
        yield from [flag] if value else []
    elif flag.endswith("="):
        yield flag + filled
    else:
        yield from (flag, _operand(filled, "", options=options))


def _tool(place: str, entry: Any) -> Tool:
    if isinstance(entry, dict) and is_string(entry.get("name")):
        place = f"{place} ({entry['name']})"
    row = checked(place, entry, KEYS, required=("name", "description", "command"))
    parameters = _parameters(place, row.get("parameters", {}))
    command = Command(_words(place, row["command"]), parameters)
    _match(place, command)
    schema = object_schema(
        {name: each.schema for name, each in parameters.items()},
        [name for name, each in parameters.items() if each.required],
    )
    description = " ".join(row["description"].split())
    definition = ToolDefinition(row["name"], description, schema, strict_parameters=strict_form(schema))

    def call(ctx: ToolContext, **arguments: JSON) -> str | Stored:
        return run(command.argv(arguments), ctx)

    return Tool(
        definition,
        call,
        row.get("risk", "high"),
        "ctx",
        preview=lambda arguments, _: shlex.join(command.argv(arguments)),
    )


def _words(place: str, command: str | list[str]) -> tuple[str, ...]:
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError as error:
        raise ConfigError(f"{place}: command: {error}") from error
    if not words:
        raise ConfigError(f"{place}: command is {KEYS['command'].what}")
    if placeholders(words[0]):
        raise ConfigError(f"{place}: command: which program runs is not the model's to say: {words[0]}")
    return tuple(words)


def _parameters(place: str, entries: dict[Any, Any]) -> dict[str, Parameter]:
    """By name, from each name with what it is, or from a JSON Schema of the arguments as OpenAI's tools have it."""
    if entries.get("type") != "object" or not isinstance(entries.get("properties"), dict):
        return {str(name): _parameter(f"{place}: {name}", entry) for name, entry in entries.items()}
    schema = checked(f"{place}: parameters", entries, SCHEMA_KEYS)
    required = schema.get("required", [])
    if missing := [name for name in required if name not in schema["properties"]]:
        raise ConfigError(f"{place}: parameters: {missing[0]} is required, and not among the properties")
    return {
        name: each if name in required else each._replace(required=False)
        for name, each in _parameters(place, schema["properties"]).items()
    }


def _parameter(place: str, entry: Any) -> Parameter:
    row = checked(place, {"description": entry} if is_string(entry) else entry, PARAMETER_KEYS)
    schema: Schema = {"type": row.get("type", "string")}
    if schema["type"] == "boolean" and "flag" not in row:
        raise ConfigError(f"{place}: a boolean needs the flag that it stands for, e.g. flag: --verbose")
    if schema["type"] == "array":
        schema["items"] = {"type": _item_type(row.get("items", "string"))}
    for value in row.get("enum", ()):
        if schema["type"] in ENUM_TYPES and not ENUM_TYPES[schema["type"]](value):
            quote = ": put it in quotes" if schema["type"] == "string" else ""
            raise ConfigError(f"{place}: enum: {value!r} is no {schema['type']}{quote}")
    schema |= {key: row[key] for key in ("description", "enum", "minimum", "maximum") if key in row}
    optional = "default" in row or schema["type"] == "boolean" or row.get("optional", False)
    return Parameter(schema, not optional, row.get("default"), row.get("flag", ""))


def _item_type(items: Any) -> Any:
    return items.get("type") if isinstance(items, dict) and len(items) == 1 else items


def _match(place: str, command: Command) -> None:
    """What is in the command and what is described must be the same."""
    used = {name for word in command.words for name in placeholders(word)}
    for name in sorted(used - command.parameters.keys()):
        raise ConfigError(f"{place}: command: {{{name}}} is not among the parameters")
    for name in sorted(command.parameters.keys() - used):
        raise ConfigError(f"{place}: {name} is a parameter that the command does not use")
    for word in command.words:
        for name in placeholders(word):
            parameter = command.parameters[name]
            if word != f"{{{name}}}" and (parameter.flag or parameter.schema["type"] == "array"):
                raise ConfigError(f"{place}: command: {{{name}}} must be a word of its own, not part of {word}")
