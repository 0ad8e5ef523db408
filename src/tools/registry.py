"""A typed function becomes a tool by one decorator; a registry holds tools and runs calls.

    @tool(risk="low")
    def count_lines(path: Annotated[str, "File to count"], ctx: ToolContext) -> int:
        \"\"\"Count the lines of a file.\"\"\"

This is the only place where a tool is described: everything a model is told of it (the OpenAI list, the
system prompt) comes from its ToolDefinition. Running never raises: what a tool returns becomes a result
of kind text or data, what it raises, or what was wrong with the call, one of kind error that says how to
do it right. Only what is meant for the program (KeyboardInterrupt, SystemExit) passes through.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, overload

from ..errors import BotError
from ..messages import JSON, ToolCall, ToolDefinition, ToolResult, openai_tool
from .outputs import Outputs, Stored, kept
from .sandbox import Sandbox
from .schema import as_declared, parameters_of, signature, type_name

Risk = Literal["low", "high"]
Kind = Literal["text", "data", "error"]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PREVIEW = 80  # characters of a wrong value shown back to the model
JSON_NAMES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


# Told of a file right before a tool replaces or makes it: its path relative to the workspace, every link
# resolved, and what stood there (None: nothing). What it raises keeps the file from being written.
BeforeWrite = Callable[[str, Union[bytes, None]], None]


def _not_recorded(path: str, before: bytes | None) -> None:
    """Nobody wants to take writes back."""


@dataclass(frozen=True)
class ToolContext:
    """What a tool may know of where it runs; made once a session by whoever runs the loop."""

    workspace: Path  # no file tool reaches out of it
    max_file_bytes: int = 10_000_000
    protected: tuple[Path, ...] = ()  # never written by a tool, whether they exist or not
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # for commands, less its secrets
    exec_timeout: float = 120.0  # seconds
    exec_max_output: int = 30_000  # characters
    outputs: Outputs | None = None  # where whole outputs stay; None: nowhere, and what is cut off is gone
    before_write: BeforeWrite = _not_recorded
    sandbox: Sandbox | None = None  # where commands run; None: nowhere of their own


class Outcome(NamedTuple):
    """What came of a run; `ref` where the tool stored its whole output itself."""

    kind: Kind
    value: JSON
    ref: str = ""


@dataclass(frozen=True, eq=False)
class Tool:
    """A function that a model may call. `takes_context` names the parameter that gets the ToolContext."""

    definition: ToolDefinition
    function: Callable[..., object]
    risk: Risk = "high"
    takes_context: str = ""

    @property
    def signature(self) -> str:
        return signature(self.definition.name, self.definition.parameters)

    def wrong(self, arguments: Mapping[str, JSON]) -> str:
        """What is wrong with the arguments, and how the tool is called; empty: nothing."""
        misfit = self._misfit(arguments)
        return f"Wrong arguments for {self.definition.name}: {misfit}. Usage: {self.signature}" if misfit else ""

    def execute(self, arguments: Mapping[str, JSON], ctx: ToolContext) -> Outcome:
        """Run, with arguments that `wrong` finds nothing in. Never raises an Exception: it becomes the error."""
        properties = self._schema["properties"]
        promised = {name: as_declared(value, properties[name]) for name, value in self._given(arguments).items()}
        context = {self.takes_context: ctx} if self.takes_context else {}
        try:
            return _outcome(self.function(**promised, **context))
        except BotError as error:
            return Outcome("error", _printable(f"Error executing tool: {error}"))
        except Exception as error:  # noqa: BLE001 - a tool is anyone's code, and none may break the loop
            return Outcome("error", _printable(f"Error executing tool: {type(error).__name__}: {error}"))

    @property
    def _schema(self) -> Mapping[str, Any]:
        return self.definition.parameters

    def _given(self, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
        """Less each null for a parameter that may be left out but not be null: it was meant as left out."""
        properties, required = self._schema["properties"], self._schema["required"]
        return {
            name: value
            for name, value in arguments.items()
            if value is not None or name in required or "anyOf" in properties[name]
        }

    def _misfit(self, arguments: Mapping[str, JSON]) -> str:
        if not isinstance(arguments, Mapping):
            return f"expected an object, got {_described(arguments)}"
        properties, required = self._schema["properties"], self._schema["required"]
        for name in arguments:
            if name not in properties:
                near = ", ".join(_near(name, properties))
                return f"there is no parameter {_preview(name)}" + (f" (nearest: {near})" if near else "")
        for name in required:
            if name not in arguments:
                return f"{name} is missing, expected {type_name(properties[name])}"
        return self._wrong_value(self._given(arguments))

    def _wrong_value(self, given: dict[str, JSON]) -> str:
        from fastjsonschema import JsonSchemaValueException  # start-up is measured: not before a tool is run

        try:
            self._validate(given)
        except JsonSchemaValueException as error:
            expected, came = type_name(error.definition), _described(error.value)
            return f"{'.'.join(error.path[1:])}: expected {expected}, got {came}"
        return ""

    @cached_property
    def _validate(self) -> Callable[[object], object]:
        import fastjsonschema  # as above

        validate: Callable[[object], object] = fastjsonschema.compile(dict(self.definition.parameters))
        return validate


class Registry:
    """Tools by name, in the order they were added, and the list of them that an OpenAI-like server is sent."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self.openai_tools: list[dict[str, JSON]] = []  # grows with the registry: whoever holds it sees every tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def without(self, *names: str) -> Registry:
        """The same tools but these: for a session in which they are switched off, so that no model is told of them."""
        rest = type(self)()
        for tool in self:
            if tool.definition.name not in names:
                rest.add(tool)
        return rest

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(tool.definition for tool in self)

    def add(self, tool: Tool) -> Tool:
        """Raises TypeError for a name no server would take, ValueError for one that is taken."""
        definition = tool.definition
        if not NAME.fullmatch(definition.name):
            raise TypeError(f"a tool's name matches {NAME.pattern}, and {definition.name!r} does not")
        if definition.name in self:
            raise ValueError(f"there is a tool {definition.name} already")
        self._tools[definition.name] = tool
        self.openai_tools.append(openai_tool(definition))
        return tool

    @overload
    def tool(self, function: Callable[..., object], /) -> Tool: ...
    @overload
    def tool(self, /, *, risk: Risk) -> Callable[[Callable[..., object]], Tool]: ...
    def tool(
        self, function: Callable[..., object] | None = None, /, *, risk: Risk = "high"
    ) -> Tool | Callable[[Callable[..., object]], Tool]:
        """The decorator: `@tool(risk="low")`, or `@tool` alone, which is of high risk."""
        if function is not None:
            return self.add(tool_of(function, risk))
        return lambda function: self.add(tool_of(function, risk))

    def risk(self, name: str) -> Risk:
        """A tool's risk; what is not known is of high risk."""
        return self._tools[name].risk if name in self else "high"

    def signature(self, name: str) -> str:
        """How a tool of that name, or else of the nearest, is called; empty where none is near."""
        near = [name] if name in self else _near(name, self._tools)
        return self[near[0]].signature if near else ""

    def check(self, call: ToolCall) -> ToolResult | None:
        """The answer to a call that cannot be run, so that nobody is asked to approve it; None where it can."""
        if call.name in self:
            wrong = self[call.name].wrong(call.arguments)
        else:
            names = dict.fromkeys([*_near(call.name, self._tools), *self._tools])
            usages = "; ".join(self[name].signature for name in names) or "none"
            wrong = f"There is no tool {_preview(call.name)}. Available tools, the nearest first: {usages}."
        return ToolResult(call.id, call.name, "error", wrong) if wrong else None

    def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        """The answer to a call, whatever is wrong with it."""
        if wrong := self.check(call):
            return wrong
        kind, value, ref = self[call.name].execute(call.arguments, ctx)
        return kept(ToolResult(call.id, call.name, kind, value), ctx.outputs, ref)


def tool_of(function: Callable[..., object], risk: Risk = "high") -> Tool:
    """The tool that a typed function with a docstring is; TypeError where it lacks a hint or the docstring."""
    name = function.__name__
    description = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    if not description:
        raise TypeError(f"{name}: the docstring is what a model is told of the tool, and there is none")
    parameters, taker = parameters_of(function, ToolContext)
    return Tool(ToolDefinition(name, description, parameters), function, risk, taker)


def _outcome(value: object) -> Outcome:
    """A str is text; anything else must be JSON, and is copied, so that no tool's state is shared."""
    if isinstance(value, Stored):
        return Outcome("text", _printable(value.text), value.ref)
    if isinstance(value, str):
        return Outcome("text", _printable(value))
    return Outcome("data", json.loads(_printable(json.dumps(value, ensure_ascii=False, allow_nan=False))))


def _printable(text: str) -> str:
    """Without lone surrogates, which no file and no request could hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _described(value: object) -> str:
    kind = JSON_NAMES.get(type(value), type(value).__name__)
    return kind if value is None else f"{kind} {_preview(value)}"


def _preview(value: object) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= PREVIEW else f"{text[:PREVIEW]}... ({len(text)} characters)"


def _near(name: str, known: Mapping[str, object]) -> list[str]:
    import difflib  # only for a mistake

    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower()[:PREVIEW], by_lower)]


REGISTRY = Registry()
tool = REGISTRY.tool
