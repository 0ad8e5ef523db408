"""A typed function becomes a tool by one decorator; a registry holds tools and runs calls.

    @tool(risk="low")
    def count_lines(path: Annotated[str, "File to count"], ctx: ToolContext) -> int:
        \"\"\"Count the lines of a file.\"\"\"

A tool is described here only: the OpenAI list and the system prompt are made from its ToolDefinition. Running a call
raises no Exception: what the tool returns becomes a result of kind text, data or multimodal; what it raises, and a
wrong call, become a result of kind error that says how to call it. KeyboardInterrupt and SystemExit pass through.
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
from ...types.tool_schema import format_signature, to_openai_tool
from .context import ToolContext
from .result import Outcome, attempt, replace_surrogates, store_and_truncate, to_outcome
from .schema import Convert, drop_nulls, read_parameters, to_strict
from .validation import ArgumentValidator, find_near, quote

__all__ = ["REGISTRY", "Registry", "Risk", "Tool", "ToolContext", "registry_of", "tool", "tool_of"]

Risk = Literal["low", "high"]
Preview: TypeAlias = Callable[[Mapping[str, Any], ToolContext], str]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_USAGES_CHARS = 4_000  # beyond that, an error gives only the names of most tools


@dataclass(frozen=True, eq=False)
class Tool:
    """A function that a model may call. `context_parameter` names the parameter that gets the ToolContext; "": none.

    `preview` describes what a call would change, as a unified diff, for its approval. `converts` turns checked
    arguments into the types of the function's hints.
    """

    definition: ToolDefinition
    function: Callable[..., object]
    risk: Risk = "high"
    context_parameter: str = ""
    preview: Preview | None = None
    converts: Mapping[str, Convert] = field(default_factory=dict, repr=False)

    @property
    def signature(self) -> str:
        """`read(path: string, offset?: integer)`."""
        return format_signature(self.definition.name, self.definition.parameters)

    def check_arguments(self, arguments: Mapping[str, JSON]) -> str:
        """Say what is wrong with the arguments, and how the tool is called; "" if they fit."""
        mismatch = attempt(
            lambda: self._validator.find_mismatch(arguments), lambda error: f"they cannot be checked: {error}"
        )
        return f"Wrong arguments for {self.definition.name}: {mismatch}. Usage: {self.signature}" if mismatch else ""

    def check_schema(self) -> str:
        """Say why no arguments can be checked against the schema, e.g. of an MCP server; "" if they can."""

        def compile_schema() -> str:
            _ = self._validator.validate, self.signature
            return ""

        return attempt(compile_schema, lambda error: f"its schema is none: {error}")

    def execute(self, raw_arguments: Mapping[str, JSON] | str, ctx: ToolContext) -> Outcome:
        """Parse the arguments, an object or its JSON text, check them, and run. An Exception becomes the error."""
        arguments = _parse_arguments(raw_arguments)
        if wrong := self.check_arguments(arguments):
            return Outcome("error", wrong)
        return attempt(lambda: self._run(arguments, ctx), _to_error)

    def preview_call(self, arguments: Mapping[str, JSON], ctx: ToolContext) -> str:
        """The preview of a call that `check_arguments` accepts; "" if there is none, or it fails."""
        preview = self.preview
        if preview is None:
            return ""

        def log_failure(error: Exception) -> str:
            ctx.logger.debug("no preview of %s: %s", self.definition.name, error)
            return ""

        return attempt(lambda: replace_surrogates(str(preview(self._convert(arguments), ctx))), log_failure)

    def _run(self, arguments: Mapping[str, JSON], ctx: ToolContext) -> Outcome:
        converted = self._convert(arguments)
        if not self.context_parameter and not self._is_async:
            return to_outcome(self.function(**converted))
        with ctx.for_call() as within:
            context = {self.context_parameter: within} if self.context_parameter else {}
            value = self.function(**converted, **context)
            return to_outcome(within.wait_for(value) if inspect.iscoroutine(value) else value)

    @cached_property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def _convert(self, arguments: Mapping[str, JSON]) -> dict[str, Any]:
        """Convert the arguments to the types of the function's hints."""
        converts = self.converts
        return {
            name: converts[name](value) if name in converts else value
            for name, value in drop_nulls(arguments, self.definition.parameters).items()
        }

    @cached_property
    def _validator(self) -> ArgumentValidator:
        return ArgumentValidator(self.definition.parameters)


class Registry:
    """Tools by name, in the order they were added, and the list of them for an OpenAI-compatible server."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self.openai_tools: list[dict[str, JSON]] = []  # one list that grows with the registry
        self.notices: list[str] = []  # about tools that are missing, for the user

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def without(self, *names: str) -> Registry:
        """The same tools but these, which are switched off for a session."""
        rest = type(self)()
        for tool in self:
            if tool.definition.name not in names:
                rest.add(tool)
        return rest

    def plus(self, tools: Iterable[Tool]) -> Registry:
        """The same tools and these, for a session that has more. Raises ConfigError if a name is taken."""
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
        """Raises TypeError for a name that servers refuse, ValueError for one that is taken."""
        definition = tool.definition
        if not NAME.fullmatch(definition.name):
            raise TypeError(f"a tool's name matches {NAME.pattern}, and {definition.name!r} does not")
        if definition.name in self:
            raise ValueError(f"there is a tool {definition.name} already")
        self._tools[definition.name] = tool
        self.openai_tools.append(to_openai_tool(definition))
        return tool

    def forget(self, names: Iterable[str]) -> None:
        """Remove tools, also from the list, such as those of a file that failed to load."""
        for name in names:
            del self._tools[name]
        self.openai_tools[:] = [to_openai_tool(each.definition) for each in self]

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
        """The decorator: `@tool(risk="low")`, or `@tool` alone for high risk."""
        if function is not None:
            return self.add(tool_of(function, risk, preview))
        return lambda function: self.add(tool_of(function, risk, preview))

    def risk(self, name: str) -> Risk:
        """The risk of a tool; an unknown one is of high risk."""
        return self._tools[name].risk if name in self else "high"

    def signature(self, name: str) -> str:
        """The signature of the tool of that name, or of the nearest; "" if none is near."""
        near = [name] if name in self else find_near(name, self._tools)
        return self[near[0]].signature if near else ""

    def check(self, call: ToolCall) -> ToolResult | None:
        """The error for a call that cannot be run, before its approval is asked for; None if it can."""
        if call.name not in self:
            return self._refuse_unknown(call)
        wrong = self[call.name].check_arguments(call.arguments)
        return ToolResult(call.id, call.name, "error", wrong) if wrong else None

    def _refuse_unknown(self, call: ToolCall) -> ToolResult:
        near = find_near(call.name, self._tools)
        usages = "; ".join(self[name].signature for name in dict.fromkeys([*near, *self._tools])) or "none"
        if len(usages) > MAX_USAGES_CHARS:
            usages = "; ".join([*(self[name].signature for name in near), ", ".join(self._tools)])
        said = f"There is no tool {quote(call.name)}. Available tools, the nearest first: {usages}."
        return ToolResult(call.id, call.name, "error", said)

    def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        """Run a call; whatever is wrong with it becomes an error."""
        if call.name not in self:
            return self._refuse_unknown(call)
        kind, value, ref = self[call.name].execute(call.arguments, ctx)
        return store_and_truncate(ToolResult(call.id, call.name, kind, value), ctx.outputs, ref)

    def preview(self, call: ToolCall, ctx: ToolContext) -> str:
        """What a call that `check` accepts would change; "" if that is not known."""
        return self[call.name].preview_call(call.arguments, ctx)


def registry_of(tools: Iterable[Tool | Callable[..., object]]) -> Registry:
    """A registry of these tools only; functions become tools. Raises TypeError, or ValueError if two have one name."""
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise TypeError(f"tools is a list of functions, and {tools!r} is none")
    registry = Registry()
    for each in tools:
        registry.add(each if isinstance(each, Tool) else tool_of(each))
    return registry


def tool_of(function: Callable[..., object], risk: Risk = "high", preview: Preview | None = None) -> Tool:
    """Make a tool of a typed function with a docstring. Raises TypeError if a hint or the docstring is missing."""
    if not (callable(function) and hasattr(function, "__name__")):
        raise TypeError(f"a tool is a function, and {function!r} is none")
    if risk not in get_args(Risk):
        raise ValueError(f"a tool's risk is {' or '.join(get_args(Risk))}, and not {risk!r}")
    name = function.__name__
    description = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    if not description:
        raise TypeError(f"{name}: the docstring is what a model is told of the tool, and there is none")
    schema, context_parameter, converts = read_parameters(function, ToolContext)
    definition = ToolDefinition(name, description, schema, strict_parameters=to_strict(schema))
    return Tool(definition, function, risk, context_parameter, preview, converts)


def _parse_arguments(arguments: Any) -> Any:
    """Parse JSON text; other text stays as it is, and is refused as not being an object."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _to_error(error: Exception) -> Outcome:
    kind = "" if isinstance(error, BotError) else f"{type(error).__name__}: "
    return Outcome("error", replace_surrogates(f"Error executing tool: {kind}{error}"))


REGISTRY = Registry()
tool = REGISTRY.tool
