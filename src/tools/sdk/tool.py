"""A typed function becomes a tool by one decorator, which registers nothing.

    @tool(risk="low")
    def count_lines(path: Annotated[str, "File to count"], ctx: ToolContext) -> int:
        \"\"\"Count the lines of a file.\"\"\"

A Tool is called as its function is. A model's call goes through `execute`, which raises no Exception: what the
function returns becomes a result of kind text, data or multimodal; what it raises, and a wrong call, become a result of
kind error that says how to call it. Ctrl-C passes through.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import WRAPPER_ASSIGNMENTS, cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeAlias, cast, get_args, overload

from msgspec import Struct
from msgspec.structs import replace

from ...errors import BotError, ToolError
from ...types.lazy_pattern import LazyPattern
from ...types.messages import JSON, MalformedCall, RequestedCall, ToolDefinition, ToolResult
from ...types.sandbox import Access
from ...types.tool_schema import format_definition, format_signature
from .containment import contain, contain_coroutine
from .context import ToolContext
from .docstrings import read_descriptions
from .result import NothingToChange, Outcome, attempt, replace_surrogates, to_outcome
from .schema import Convert, read_parameters
from .schema_edit import describe_properties, drop_nulls, narrow_enum
from .validation import ArgumentValidator, WrongArguments, describe_conversion_error

if TYPE_CHECKING:  # with defaults, so that `Tool` alone is a type; type checkers bring this package
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

Risk = Literal["low", "high"]
Preview: TypeAlias = Callable[[Mapping[str, Any], ToolContext], str]
NAME = LazyPattern(r"[a-zA-Z0-9_-]{1,64}")
ANY_CONTEXT = "(context)"  # the context_parameter of a function that takes any arguments: no argument has that name


class Tool(Struct, Generic[P, R], frozen=True, eq=False, dict=True, weakref=True):
    """A function that a model may call, and that Python calls as before.

    `context_parameter` names the parameter that gets the ToolContext; "": none. `preview` describes what a call would
    change, as a unified diff, for its approval. `converts` turns checked arguments into the types of the function's
    hints. `access` is that of the command that the tool runs, if any. `runs_aside`: a call puts events into the inbox
    of its context while it runs, so it needs a thread of its own.
    """

    definition: ToolDefinition
    function: Callable[P, R]
    risk: Risk = "high"
    context_parameter: str = ""
    preview: Preview | None = None
    converts: Mapping[str, Convert] = {}
    access: Access | None = None
    runs_aside: bool = False

    def __post_init__(self) -> None:
        for name in WRAPPER_ASSIGNMENTS:  # so that help() describes the function
            if hasattr(self.function, name):
                self.__dict__[name] = getattr(self.function, name)
        self.__dict__["__wrapped__"] = self.function

    def __copy__(self) -> Tool[P, R]:  # that of Struct copies no names of the function
        return replace(self)

    def __repr__(self) -> str:
        return f"<Tool {self.signature}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, as a test does: no check, no conversion, and a coroutine function is awaited."""
        return self.function(*args, **kwargs)

    @property
    def signature(self) -> str:
        """`read(path: string, offset?: integer)`."""
        return format_signature(self.definition.name, self.definition.parameters)

    def narrow_choices(self, parameter: str, values: Sequence[str]) -> ToolDefinition:
        """The definition with only these values of a parameter, which is left out if there are none."""
        return replace(self.definition, parameters=narrow_enum(self.definition.parameters, parameter, values))

    def check_arguments(self, arguments: Mapping[str, JSON]) -> None:
        """Raises WrongArguments, which says what is wrong with the arguments, and how the tool is called."""
        self._read_arguments(arguments)

    def check_schema(self) -> str:
        """Say why no arguments can be checked against the schema, e.g. of an MCP server; "" if they can."""

        def compile_schema() -> str:
            _ = self._validator.validate, self.signature
            return ""

        return attempt(compile_schema, lambda error: f"its schema cannot be used: {error}")

    def run(self, call: RequestedCall, ctx: ToolContext | None = None) -> ToolResult:
        """Run a model's call, in a loop of your own. Whatever is wrong with it becomes a result of kind error.

        `ctx`: by default a context of the current folder. Nobody is asked, whatever the tool's risk.
        """
        if isinstance(call, MalformedCall):
            return ToolResult(call.id, call.name, "error", f"{call.reason} Usage: {self.signature}")
        if call.name not in (self.definition.name, *self.definition.aliases):
            return ToolResult(call.id, call.name, "error", f"There is no tool {call.name}. Usage: {self.signature}")
        within = ctx or ToolContext(Path.cwd())
        return self.execute(call.arguments, replace(within, call=call)).to_result(call, within.wiring.outputs)

    def execute(self, raw_arguments: Mapping[str, JSON] | str, ctx: ToolContext) -> Outcome:
        """Parse the arguments, an object or its JSON text, check them, and run. An Exception becomes the error."""
        return attempt(lambda: self._run(self._parse_arguments(raw_arguments), ctx), _to_error)

    async def execute_async(self, raw_arguments: Mapping[str, JSON] | str, ctx: ToolContext) -> Outcome:
        """As execute, for a coroutine function, which runs in the caller's event loop."""
        from asyncio import gather  # 60 ms, which is loaded where this is called

        (outcome,) = await gather(self._run_async(raw_arguments, ctx), return_exceptions=True)
        if isinstance(outcome, Exception):
            return _to_error(outcome)
        if isinstance(outcome, BaseException):
            return Outcome("error", "Error executing tool: it was cancelled")
        return outcome

    def preview_call(self, arguments: Mapping[str, JSON], ctx: ToolContext) -> str | Outcome:
        """What a call that `check_arguments` accepts would change, as text; "" if that is not known.

        An outcome is known without a run: why the call cannot succeed, or that it changes nothing.
        """
        preview = self.preview
        if preview is None:
            return ""

        def explain(error: Exception) -> str | Outcome:
            if isinstance(error, NothingToChange):
                return Outcome("text", error.message)
            was_raised = isinstance(error.__cause__, (Exception, type(None)))  # else the preview tried to exit
            if isinstance(error, ToolError) and was_raised:
                return _to_error(error)
            ctx.logger.debug("no preview of %s: %s", self.definition.name, error)
            return ""

        def run_preview() -> str | Outcome:
            converted = self._read_arguments(arguments)
            with contain():
                return replace_surrogates(str(preview(converted, ctx)))

        return attempt(run_preview, explain)

    def _run(self, arguments: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        function = cast(Callable[..., object], self.function)
        with contain():
            if not self.context_parameter and not inspect.iscoroutine(value := function(**arguments)):
                return self._read_result(value, ctx)
            with ctx.for_call() as within:
                if self.context_parameter:
                    value = function(**arguments, **{self.context_parameter: within})
                if inspect.iscoroutine(value):
                    value = within.wait_for(contain_coroutine(value))
                return self._read_result(value, ctx)

    async def _run_async(self, raw_arguments: Mapping[str, JSON] | str, ctx: ToolContext) -> Outcome:
        arguments = self._parse_arguments(raw_arguments)
        function = cast(Callable[..., Awaitable[object]], self.function)
        async with ctx.for_async_call() as within:
            context = {self.context_parameter: within} if self.context_parameter else {}
            return self._read_result(await contain_coroutine(function(**arguments, **context)), ctx)

    def _read_result(self, value: object, ctx: ToolContext) -> Outcome:
        """What the function returned. What no model can read is told to the program, too: the mistake is the tool's."""
        try:
            return to_outcome(value)
        except (TypeError, ValueError) as error:
            ctx.logger.warning("the result of %s cannot be sent: %s", self.definition.name, error)
            raise

    def _parse_arguments(self, raw: Mapping[str, JSON] | str) -> dict[str, Any]:
        """As _read_arguments, of an object or of JSON text. Other text is refused as not being an object."""
        arguments: Any = raw
        if isinstance(raw, str):
            with suppress(ValueError, RecursionError):
                arguments = json.loads(raw)
        return self._read_arguments(arguments)

    def _read_arguments(self, arguments: Any) -> dict[str, Any]:
        """The arguments in the types of the function's hints. Raises WrongArguments."""

        def refuse(error: Exception) -> NoReturn:
            why = error.message if isinstance(error, WrongArguments) else f"they cannot be checked: {error}"
            usage = f"Usage: {self.signature}"
            if self.definition.named_by:  # the model may not have seen it
                usage = f"Its definition:\n{format_definition(self.definition)}"
            raise WrongArguments(f"Wrong arguments for {self.definition.name}: {why}. {usage}") from error

        return attempt(lambda: self._convert_arguments(arguments), refuse)

    def _convert_arguments(self, arguments: Any) -> dict[str, Any]:
        self._validator.check(arguments)
        values = dict(drop_nulls(arguments, self.definition.parameters))
        for name in self.converts.keys() & values.keys():
            try:
                values[name] = self.converts[name](values[name])
            except ValueError as error:
                raise WrongArguments(describe_conversion_error(name, values[name], error)) from error
        return values

    @cached_property
    def _validator(self) -> ArgumentValidator:
        return ArgumentValidator(self.definition.parameters)


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str = "",
    description: str = "",
    risk: Risk = "high",
    preview: Preview | None = None,
) -> Tool[P, R]: ...
@overload
def tool(
    *, name: str = "", description: str = "", risk: Risk = "high", preview: Preview | None = None
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    risk: Risk = "high",
    preview: Preview | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed function: `@tool`, `@tool(risk="low")`, or `tool(function, name="find")`.

    `name` and `description` are the function's name and the first paragraph of its docstring, if not given. A call of
    high risk, the default, needs approval. `preview` gets arguments and context, and returns what a call would change.
    Raises TypeError or ValueError, with the function and the parameter, for what cannot be described to a model.
    """

    def make(function: Callable[..., Any]) -> Tool:
        own = function.function if isinstance(function, Tool) else function
        return _make_tool(own, name, description, risk, preview)

    return make if function is None else make(function)


def _get_docstring(function: Callable[..., Any]) -> str:
    """Its own one: an object that can be called has only that of its class."""
    if not hasattr(function, "__name__"):
        return ""
    return inspect.getdoc(function) or ""


def _make_tool(function: Callable[..., Any], name: str, description: str, risk: Risk, preview: Preview | None) -> Tool:
    if not callable(function):
        raise TypeError(f"a tool is a function, and {function!r} is not one")
    own_name = getattr(function, "__name__", "")
    name = name or own_name
    if not NAME.fullmatch(name):
        raise TypeError(f"a tool's name matches {NAME.pattern}, and {name!r} does not; give one: tool(..., name=...)")
    if risk not in get_args(Risk):
        raise ValueError(f"{name}: a tool's risk is {' or '.join(get_args(Risk))}, and not {risk!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name}: a tool returns its result, and this function yields; return a list")
    docstring = _get_docstring(function)
    description = " ".join((description or docstring.split("\n\n")[0]).split())
    if not description:
        raise TypeError(f"{name}: the docstring is what a model is told of the tool, and there is none")
    schema, context_parameter, converts = read_parameters(function, name, ToolContext)
    describe_properties(schema, read_descriptions(docstring))
    definition = ToolDefinition(name, description, schema, drops_nulls=True)
    return Tool(definition, function, risk, context_parameter, preview, converts)


def list_tools(module: ModuleType) -> list[Tool]:
    """The tools that a module's names hold, in the order of their definition; each once."""
    return list(dict.fromkeys(each for each in vars(module).values() if isinstance(each, Tool)))


def _to_error(error: Exception) -> Outcome:
    if isinstance(error, WrongArguments):
        return Outcome("error", error.message)
    kind = "" if isinstance(error, BotError) else f"{type(error).__name__}: "
    text = attempt(lambda: str(error), lambda failed: f"its text cannot be made ({type(failed).__name__})")
    return Outcome("error", replace_surrogates(f"Error executing tool: {kind}{text}"))
