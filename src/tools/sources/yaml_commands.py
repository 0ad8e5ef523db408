"""Commands as tools, from YAML: the values of a call become arguments of one program, without a shell.

    - name: search
      description: Search the files of the workspace.
      command: rg --line-number {glob} -- {pattern} {path}
      risk: low
      access: read
      parameters:
        pattern: What to search for, a regular expression
        path: {description: File or folder, default: .}
        glob: {description: "Only in files like this one, e.g. *.py", flag: --glob=, optional: true}

`access` is what the sandbox lets the command do: read, write or network; by default read for a tool of low risk, else
write. The command is split into words once, when it is read. A value replaces its `{parameter}` inside one word,
whatever it contains. At the start of a word it may not begin with "-", since the program would take it for an option,
unless a word "--" stands before it. An optional parameter that is left out removes its word; one with a `flag` becomes
the flag and the value, a boolean one the flag alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...errors import ConfigError, ToolError
from ...types.messages import JSON, ToolDefinition
from ...types.sandbox import ACCESSES, Access
from ...types.strict_yaml import load_strict
from ...types.tool_schema import describe_type
from ..process.run_command import run_command
from ..sdk.output_store import ToolOutput
from ..sdk.schema_edit import Schema, object_schema
from ..sdk.tool import ANY_CONTEXT, NAME, Risk, Tool
from ..sdk.validation import ArgumentValidator, WrongArguments
from .rows import Key, check_row, is_command, is_list_of, is_number, is_scalar, is_string, one_of

PLACE = re.compile(r"\{\{|\}\}|\{(\w+)\}")
TYPES = ("string", "integer", "number", "boolean", "array")
KEYS = {
    "name": Key("1 to 64 letters, digits, _ or -", lambda value: is_string(value) and bool(NAME.fullmatch(value))),
    "description": Key("what a model is told of the tool", lambda value: is_string(value) and bool(value.strip())),
    "command": Key("a program and its arguments, in a string or a list of strings", is_command),
    "parameters": Key("an object: each name with what it is", lambda value: isinstance(value, dict)),
    "risk": one_of("low", "high"),
    "access": one_of(*ACCESSES),
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
SCHEMA_KEYS = {
    "type": Key("object", "object".__eq__),
    "properties": Key("an object: each name with what it is", lambda value: isinstance(value, dict)),
    "required": Key("a list of names", lambda value: value == [] or is_list_of(is_string, value)),
    "additionalProperties": Key("false", lambda value: value is False),
}


class CommandParameter(Struct, frozen=True):
    """`default` replaces a value that is left out, unless it is None."""

    schema: Schema
    required: bool
    default: JSON
    flag: str


class CommandTemplate(Struct, frozen=True):
    """The words of a program, in which `{parameter}` stands for a value."""

    words: tuple[str, ...]
    parameters: Mapping[str, CommandParameter]

    def make_argv(self, arguments: Mapping[str, JSON]) -> list[str]:
        """The program and its arguments. Raises ToolError for a value that looks like an option."""
        argv: list[str] = []
        for number, word in enumerate(self.words):
            argv += self._fill(word, arguments, options="--" not in self.words[:number])
        return argv

    def _fill(self, word: str, arguments: Mapping[str, JSON], *, options: bool) -> Iterator[str]:
        """Yield the words for a word: one, several for a list, none if all its values are left out."""
        names = find_placeholders(word)
        alone = next((name for name in names if word == f"{{{name}}}"), "")
        values = {name: self._value(name, arguments) for name in names}
        if names and all(value is None for value in values.values()):
            return
        if not alone:
            text = PLACE.sub(lambda place: _to_text(values[place[1]]) if place[1] else place[0][0], word)
            yield _check_operand(text, word, options=options)
            return
        flag, argument = self.parameters[alone].flag, values[alone]
        if not isinstance(argument, list):
            argument = [argument]
        for value in argument:
            if flag:
                yield from _add_flag(flag, value, _to_text(value), options=options)
            else:
                yield _check_operand(_to_text(value), word, options=options)

    def _value(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        value = arguments.get(name)
        return self.parameters[name].default if value is None else value


def load(paths: Sequence[str]) -> Iterator[Tool]:
    """Yield the tools of YAML files. Raises ConfigError, with the file and the number of the tool in it."""
    for path in paths:
        try:
            content = load_strict(Path(path).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: it is not YAML: {error}") from error
        entries = content if isinstance(content, list) else [content]
        for number, entry in enumerate(entries, 1):
            yield _make_tool(f"{path}: tool {number}", entry)


def find_placeholders(word: str) -> list[str]:
    return [match[1] for match in PLACE.finditer(word) if match[1]]


def _to_text(value: JSON) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _check_operand(text: str, word: str, *, options: bool) -> str:
    if options and text.startswith("-") and not word.startswith("-"):
        raise ToolError(f'{text[:40]!r} would be taken for an option: a value here may not begin with "-"')
    return text


def _add_flag(flag: str, value: JSON, text: str, *, options: bool) -> Iterator[str]:
    if value is True:
        yield flag
    elif value is False:
        return
    elif flag.endswith("="):
        yield flag + text
    else:
        yield from (flag, _check_operand(text, "", options=options))


def _make_tool(place: str, entry: Any) -> Tool:
    if isinstance(entry, dict) and is_string(entry.get("name")):
        place = f"{place} ({entry['name']})"
    row = check_row(place, entry, KEYS, required=("name", "description", "command"))
    parameters = _read_parameters(place, row.get("parameters", {}))
    command = CommandTemplate(_split_words(place, row["command"]), parameters)
    _check_names(place, command)
    schema = object_schema(
        {name: each.schema for name, each in parameters.items()},
        [name for name, each in parameters.items() if each.required],
    )
    description = " ".join(row["description"].split())
    definition = ToolDefinition(row["name"], description, schema, drops_nulls=True)

    risk: Risk = row.get("risk", "high")
    access: Access = row.get("access", "read" if risk == "low" else "write")

    def call(**arguments: Any) -> ToolOutput:
        ctx = arguments.pop(ANY_CONTEXT)
        return run_command(command.make_argv(arguments), ctx, access, is_tool=True)

    return Tool(
        definition,
        call,
        risk,
        ANY_CONTEXT,
        preview=lambda arguments, _: shlex.join(command.make_argv(arguments)),
        access=access,
    )


def _split_words(place: str, command: str | list[str]) -> tuple[str, ...]:
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError as error:
        raise ConfigError(f"{place}: command: {error}") from error
    if not words:
        raise ConfigError(f"{place}: command is {KEYS['command'].what}")
    if find_placeholders(words[0]):
        raise ConfigError(f"{place}: command: which program runs is not the model's to say: {words[0]}")
    return tuple(words)


def _read_parameters(place: str, entries: dict[Any, Any]) -> dict[str, CommandParameter]:
    """The parameters by name, from a mapping of names, or from a JSON Schema as in OpenAI's tools."""
    if entries.get("type") != "object" or not isinstance(entries.get("properties"), dict):
        return {str(name): _read_parameter(f"{place}: {name}", entry) for name, entry in entries.items()}
    schema = check_row(f"{place}: parameters", entries, SCHEMA_KEYS)
    required = schema.get("required", [])
    if missing := [name for name in required if name not in schema["properties"]]:
        raise ConfigError(f"{place}: parameters: {missing[0]} is required, and not among the properties")
    return {
        name: each if name in required else replace(each, required=False)
        for name, each in _read_parameters(place, schema["properties"]).items()
    }


def _read_parameter(place: str, entry: Any) -> CommandParameter:
    if is_string(entry):
        entry = {"description": entry}
    row = check_row(place, entry, PARAMETER_KEYS)
    schema: Schema = {"type": row.get("type", "string")}
    if schema["type"] == "boolean" and "flag" not in row:
        raise ConfigError(f"{place}: a boolean needs the flag that it stands for, e.g. flag: --verbose")
    if schema["type"] == "array":
        schema["items"] = {"type": _item_type(row.get("items", "string"))}
    _check_enum(place, schema, row.get("enum", ()))
    schema |= {key: row[key] for key in ("description", "enum", "minimum", "maximum") if key in row}
    optional = "default" in row or schema["type"] == "boolean" or row.get("optional", False)
    return CommandParameter(schema, not optional, row.get("default"), row.get("flag", ""))


def _check_enum(place: str, schema: Schema, values: Iterable[object]) -> None:
    validator = ArgumentValidator(object_schema({"value": schema}, []))
    for value in values:
        try:
            validator.check({"value": value})
        except WrongArguments as error:
            why = f"{value!r} is not of the type {describe_type(schema)}"
            if schema["type"] == "string":
                why += ": put it in quotes"
            raise ConfigError(f"{place}: enum: {why}") from error


def _item_type(items: Any) -> Any:
    return items.get("type") if isinstance(items, dict) and len(items) == 1 else items


def _check_names(place: str, command: CommandTemplate) -> None:
    """Raise ConfigError unless the command uses exactly the parameters that are described."""
    used = {name for word in command.words for name in find_placeholders(word)}
    for name in sorted(used - command.parameters.keys()):
        raise ConfigError(f"{place}: command: {{{name}}} is not among the parameters")
    for name in sorted(command.parameters.keys() - used):
        raise ConfigError(f"{place}: {name} is a parameter that the command does not use")
    for word in command.words:
        for name in find_placeholders(word):
            parameter = command.parameters[name]
            if word != f"{{{name}}}" and (parameter.flag or parameter.schema["type"] == "array"):
                raise ConfigError(f"{place}: command: {{{name}}} must be a word of its own, not part of {word}")
