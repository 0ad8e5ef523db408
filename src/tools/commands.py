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

from ..errors import ConfigError, ToolError
from ..messages import JSON, ToolDefinition
from .context import ToolContext
from .outputs import Stored
from .process import run
from .registry import NAME, Risk, Tool
from .schema import Schema, object_schema, strict_form

PLACE = re.compile(r"\{\{|\}\}|\{(\w+)\}")
KEYS = ("name", "description", "command", "parameters", "risk")
PARAMETER_KEYS = ("type", "description", "enum", "items", "minimum", "maximum", "default", "optional", "flag")
SCALARS = ("string", "integer", "number", "boolean")
TYPES = (*SCALARS, "array")
RISKS: Mapping[str, Risk] = {"low": "low", "high": "high"}


class Parameter(NamedTuple):
    """`default` is what stands for a value left out; None: nothing does."""

    schema: Schema
    required: bool
    default: JSON
    flag: str


class Command(NamedTuple):
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
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ConfigError(f"{place}: expected an object with name, description and command")
    if not NAME.fullmatch(entry["name"]):
        raise ConfigError(f"{place}: a tool's name matches {NAME.pattern}, and {entry['name']!r} does not")
    place = f"{place} ({entry['name']})"
    _known(place, entry, KEYS)
    description = entry.get("description")
    if not isinstance(description, str) or not description.strip():
        raise ConfigError(f"{place}: description is missing; it is what a model is told of the tool")
    risk = RISKS.get(str(entry.get("risk", "high")))
    if risk is None:
        raise ConfigError(f"{place}: risk is low or high, not {entry['risk']!r}")
    command = Command(_words(place, entry.get("command")), _parameters(place, entry.get("parameters") or {}))
    _match(place, command)
    schema = object_schema(
        {name: each.schema for name, each in command.parameters.items()},
        [name for name, each in command.parameters.items() if each.required],
    )
    definition = ToolDefinition(
        entry["name"], " ".join(description.split()), schema, strict_parameters=strict_form(schema)
    )

    def call(ctx: ToolContext, **arguments: JSON) -> str | Stored:
        return run(command.argv(arguments), ctx)

    return Tool(definition, call, risk, "ctx", preview=lambda arguments, _: shlex.join(command.argv(arguments)))


def _known(place: str, entry: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in entry:
        if key not in keys:
            raise ConfigError(f"{place}: there is no key {key!r}; it has {', '.join(keys)}")


def _words(place: str, command: Any) -> tuple[str, ...]:
    if isinstance(command, str):
        try:
            command = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"{place}: command: {error}") from error
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise ConfigError(f"{place}: command is a program and its arguments, in a string or a list of strings")
    if placeholders(command[0]):
        raise ConfigError(f"{place}: command: which program runs is not the model's to say: {command[0]}")
    return tuple(command)


def _parameters(place: str, entries: Any) -> dict[str, Parameter]:
    if not isinstance(entries, dict):
        raise ConfigError(f"{place}: parameters is an object: each name with what it is")
    return {str(name): _parameter(f"{place}: {name}", entry) for name, entry in entries.items()}


def _parameter(place: str, entry: Any) -> Parameter:
    if isinstance(entry, str):
        entry = {"description": entry}
    if not isinstance(entry, dict):
        raise ConfigError(f"{place}: expected what it is, or an object of {', '.join(PARAMETER_KEYS)}")
    _known(place, entry, PARAMETER_KEYS)
    kind = entry.get("type", "string")
    if kind not in TYPES:
        raise ConfigError(f"{place}: type is {', '.join(TYPES)}, not {kind!r}")
    if kind == "boolean" and not entry.get("flag"):
        raise ConfigError(f"{place}: a boolean needs the flag that it stands for, e.g. flag: --verbose")
    schema: Schema = {"type": kind}
    if kind == "array":
        schema["items"] = {"type": _item_type(place, entry.get("items", "string"))}
    schema |= {key: entry[key] for key in ("description", "enum", "minimum", "maximum") if key in entry}
    default = entry.get("default")
    optional = default is not None or kind == "boolean" or bool(entry.get("optional"))
    return Parameter(schema, not optional, default, str(entry.get("flag", "")))


def _item_type(place: str, items: Any) -> str:
    kind = items.get("type") if isinstance(items, dict) else items
    if kind not in ("string", "integer", "number"):
        raise ConfigError(f"{place}: items is string, integer or number, not {items!r}")
    return str(kind)


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
