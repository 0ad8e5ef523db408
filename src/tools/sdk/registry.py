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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args, overload

from ...errors import BotError, ConfigError
from ...types.messages import JSON, ToolCall, ToolDefinition, ToolResult
from ...types.tool_schema import openai_tool, signature, type_name
from .context import ToolContext
from .dependencies import attempt
from .result import Outcome, cached, outcome, printable
from .schema import Convert, parameters_of, strict_form, without_nulls, without_patterns

__all__ = ["REGISTRY", "Registry", "Risk", "Tool", "ToolContext", "registry_of", "tool", "tool_of"]

Risk = Literal["low", "high"]
Preview: TypeAlias = Callable[[Mapping[str, Any], ToolContext], str]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PREVIEW = 80  # characters of a wrong value shown back to the model
LONGEST_LIST = 4_000  # characters that tell how every tool is called; beyond them most are only named
JSON_NAMES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True, eq=False)
class Tool:
    """A function that a model may call. `context_parameter` names the parameter that gets the ToolContext; "": none.

    `preview` shows what a call would change, as a unified diff, to whoever is asked to approve it. `converts` turns
    checked arguments into the types of the function's hints.
    """

    definition: ToolDefinition
    function: Callable[..., object]
    risk: Risk = "high"
    context_parameter: str = ""
    preview: Preview | None = None
    converts: Mapping[str, Convert] = field(default_factory=dict, repr=False)

    @property
    def signature(self) -> str:
        """How it is called: `read(path: string, offset?: integer)`."""
        return signature(self.definition.name, self.definition.parameters)

    def argument_error(self, arguments: Mapping[str, JSON]) -> str:
        """What is wrong with the arguments, and how the tool is called; empty where they fit."""
        misfit = attempt(lambda: self._error_in(arguments), lambda error: f"they cannot be checked: {error}")
        return f"Wrong arguments for {self.definition.name}: {misfit}. Usage: {self.signature}" if misfit else ""

    def schema_error(self) -> str:
        """Why arguments cannot be checked against its schema, where an MCP server wrote it; empty: they can."""

        def compiled() -> str:
            _ = self._validate, self.signature
            return ""

        return attempt(compiled, lambda error: f"its schema is none: {error}")

    def execute(self, raw_arguments: Mapping[str, JSON] | str, ctx: ToolContext) -> Outcome:
        """Parse, check, run. Never raises an Exception: what is wrong, or was raised, becomes the error.

        `raw_arguments` is an object, or one as JSON text.
        """
        arguments = _parsed(raw_arguments)
        if wrong := self.argument_error(arguments):
            return Outcome("error", wrong)
        return attempt(lambda: self._run(arguments, ctx), _failed)

    def previewed(self, arguments: Mapping[str, JSON], ctx: ToolContext) -> str:
        """The preview of a call that `argument_error` lets through; empty where there is none, or none can be made."""
        preview = self.preview
        if preview is None:
            return ""

        def no_preview(error: Exception) -> str:
            ctx.logger.debug("no preview of %s: %s", self.definition.name, error)
            return ""

        return attempt(lambda: printable(str(preview(self._converted(arguments), ctx))), no_preview)

    def _run(self, arguments: Mapping[str, JSON], ctx: ToolContext) -> Outcome:
        converted = self._converted(arguments)
        if not self.context_parameter and not self._is_async:
            return outcome(self.function(**converted))
        with ctx.for_call() as within:
            context = {self.context_parameter: within} if self.context_parameter else {}
            value = self.function(**converted, **context)
            return outcome(within.wait_for(value) if inspect.iscoroutine(value) else value)

    @cached_property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def _converted(self, arguments: Mapping[str, JSON]) -> dict[str, Any]:
        """The arguments in the types of the function's hints."""
        converts = self.converts
        return {
            name: converts[name](value) if name in converts else value
            for name, value in without_nulls(arguments, self._schema).items()
        }

    @property
    def _schema(self) -> Mapping[str, Any]:
        return self.definition.parameters

    def _error_in(self, arguments: Mapping[str, JSON]) -> str:
        if not isinstance(arguments, Mapping):
            return f"expected an object, got {_described(arguments)}"
        properties, required = self._schema.get("properties", {}), self._schema.get("required", ())
        for name in arguments:
            if name not in properties and self._schema.get("additionalProperties") is False:
                near = ", ".join(_near(name, properties))
                return f"there is no parameter {_preview(name)}" + (f" (nearest: {near})" if near else "")
        for name in required:
            if name not in arguments:
                return f"{name} is missing, expected {type_name(properties.get(name, {}))}"
        return self._error_in_value(without_nulls(arguments, self._schema))

    def _error_in_value(self, arguments: object) -> str:
        from fastjsonschema import JsonSchemaValueException  # start-up is measured: not before a tool is run

        try:
            self._validate(arguments)
        except JsonSchemaValueException as error:
            expected, came = type_name(error.definition), _described(error.value)
            return f"{'.'.join(error.path[1:])}: expected {expected}, got {came}"
        return ""

    @cached_property
    def _validate(self) -> Callable[[object], object]:
        import fastjsonschema  # as above

        validate: Callable[[object], object] = fastjsonschema.compile(without_patterns(self.definition.parameters))
        return validate


class Registry:
    """Tools by name, in the order they were added, and the list of them that an OpenAI-like server is sent."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self.openai_tools: list[dict[str, JSON]] = []  # grows with the registry: whoever holds it sees every tool
        self.notices: list[str] = []  # which tools there should be and are not, for the user

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

    def plus(self, tools: Iterable[Tool]) -> Registry:
        """The same tools and these: for a session that has more. Raises ConfigError where a name is taken."""
        more = self.without()
        for tool in tools:
            try:
                more.add(tool)
            except (TypeError, ValueError) as error:
                raise ConfigError(f"A tool of yours cannot be added: {error}", "Give it another name.") from error
        return more

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

    def forget(self, names: Iterable[str]) -> None:
        """Take tools out again: those of a file that failed. Whoever holds the list no longer sees them."""
        for name in names:
            del self._tools[name]
        self.openai_tools[:] = [openai_tool(each.definition) for each in self]

    @overload
    def tool(self, function: Callable[..., object], /) -> Tool: ...
    @overload
    def tool(
        self, /, *, risk: Risk = "high", preview: Preview | None = None
    ) -> Callable[[Callable[..., object]], Tool]: ...
    def tool(
        self,
        function: Callable[..., object] | None = None,
        /,
        *,
        risk: Risk = "high",
        preview: Preview | None = None,
    ) -> Tool | Callable[[Callable[..., object]], Tool]:
        """The decorator: `@tool(risk="low")`, or `@tool` alone, which is of high risk."""
        if function is not None:
            return self.add(tool_of(function, risk, preview))
        return lambda function: self.add(tool_of(function, risk, preview))

    def risk(self, name: str) -> Risk:
        """A tool's risk; what is not known is of high risk."""
        return self._tools[name].risk if name in self else "high"

    def signature(self, name: str) -> str:
        """How a tool of that name, or else of the nearest, is called; empty where none is near."""
        near = [name] if name in self else _near(name, self._tools)
        return self[near[0]].signature if near else ""

    def check(self, call: ToolCall) -> ToolResult | None:
        """The answer to a call that cannot be run, so that nobody is asked to approve it; None where it can."""
        if call.name not in self:
            return self._unknown(call)
        wrong = self[call.name].argument_error(call.arguments)
        return ToolResult(call.id, call.name, "error", wrong) if wrong else None

    def _unknown(self, call: ToolCall) -> ToolResult:
        near = _near(call.name, self._tools)
        usages = "; ".join(self[name].signature for name in dict.fromkeys([*near, *self._tools])) or "none"
        if len(usages) > LONGEST_LIST:
            usages = "; ".join([*(self[name].signature for name in near), ", ".join(self._tools)])
        said = f"There is no tool {_preview(call.name)}. Available tools, the nearest first: {usages}."
        return ToolResult(call.id, call.name, "error", said)

    def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        """The answer to a call, whatever is wrong with it."""
        if call.name not in self:
            return self._unknown(call)
        kind, value, ref = self[call.name].execute(call.arguments, ctx)
        return cached(ToolResult(call.id, call.name, kind, value), ctx.outputs, ref)

    def preview(self, call: ToolCall, ctx: ToolContext) -> str:
        """What a call that `check` let through would change, for who is asked to approve it; empty: not known."""
        return self[call.name].previewed(call.arguments, ctx)


def registry_of(tools: Iterable[Tool | Callable[..., object]]) -> Registry:
    """These tools and no others; a function becomes one. Raises TypeError, or ValueError where two have one name."""
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise TypeError(f"tools is a list of functions, and {tools!r} is none")
    registry = Registry()
    for each in tools:
        registry.add(each if isinstance(each, Tool) else tool_of(each))
    return registry


def tool_of(function: Callable[..., object], risk: Risk = "high", preview: Preview | None = None) -> Tool:
    """The tool that a typed function with a docstring is; TypeError where it lacks a hint or the docstring."""
    if not (callable(function) and hasattr(function, "__name__")):
        raise TypeError(f"a tool is a function, and {function!r} is none")
    if risk not in get_args(Risk):
        raise ValueError(f"a tool's risk is {' or '.join(get_args(Risk))}, and not {risk!r}")
    name = function.__name__
    description = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    if not description:
        raise TypeError(f"{name}: the docstring is what a model is told of the tool, and there is none")
    schema, context_parameter, converts = parameters_of(function, ToolContext)
    definition = ToolDefinition(name, description, schema, strict_parameters=strict_form(schema))
    return Tool(definition, function, risk, context_parameter, preview, converts)


def _parsed(arguments: Any) -> Any:
    """JSON text as what it says; what is no JSON stays the text, and is refused as not being an object."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _failed(error: Exception) -> Outcome:
    kind = "" if isinstance(error, BotError) else f"{type(error).__name__}: "
    return Outcome("error", printable(f"Error executing tool: {kind}{error}"))


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
