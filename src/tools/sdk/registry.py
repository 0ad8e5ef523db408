"""A registry holds tools, lists them for a server, and runs calls of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from typing import Any, NoReturn, ParamSpec, TypeVar

from msgspec.structs import replace

from ...errors import ConfigError
from ...types.messages import CallT, ToolCall, ToolDefinition, ToolResult, unwrap_call
from ...types.sandbox import Access
from ...types.tool_schema import to_openai_tool
from .context import ToolContext
from .tool import NAME, Risk, Tool, tool
from .tool_search import call_tool
from .validation import WrongArguments, find_near, quote

__all__ = ["REGISTRY", "Registry", "Risk", "Tool", "ToolContext", "registry_of"]

P = ParamSpec("P")
R = TypeVar("R")
MAX_USAGES_CHARS = 4_000  # beyond that, an error gives only the names of most tools
HOW_TO_ADD = (
    "TOOL_DEFINITIONS only lists the tools of the program. To add one, put @tool above a function, and pass it in "
    "tools=[...] of an agent, or name its file in tools.modules of the settings. To change a copy, make it with "
    "copy.deepcopy."
)


class _Frozen:
    """Refuses changes: nobody would run an added tool, or send a changed description. Copies are plain."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        plain = list if isinstance(self, list) else dict
        return plain, (plain(self),)  # type: ignore[call-overload]  # it is one of the two

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(HOW_TO_ADD)

    __init__: Any
    __init__ = __setitem__ = __delitem__ = __iadd__ = __imul__ = __ior__ = append = clear = extend = insert = _refuse
    pop = popitem = remove = reverse = setdefault = sort = update = _refuse


class FrozenList(_Frozen, list[Any]):
    __slots__ = ()


class FrozenDict(_Frozen, dict[str, Any]):
    __slots__ = ()


def freeze(value: Any) -> Any:
    """JSON in lists and dicts of its own, which refuse a change."""
    if isinstance(value, dict):
        entries = FrozenDict.__new__(FrozenDict)
        dict.update(entries, {name: freeze(each) for name, each in value.items()})
        return entries
    if isinstance(value, (list, tuple)):
        items = FrozenList.__new__(FrozenList)
        list.extend(items, map(freeze, value))
        return items
    return value


class Registry:
    """Tools by name, in the order they were added, and the list of them for an OpenAI-compatible server."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._aliases: dict[str, str] = {}  # other name -> name
        self.openai_tools: list[dict[str, Any]] = freeze([])  # one list that grows with the registry
        self.notices: list[str] = []  # about tools that are missing, for the user

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools or name in self._aliases

    def __getitem__(self, name: str) -> Tool:
        return self._tools.get(name) or self._tools[self._aliases[name]]

    def without(self, *names: str) -> Registry:
        """The same tools but these, which are switched off for a session."""
        rest = type(self)()
        rest.notices = list(self.notices)
        for each in self:
            if each.definition.name not in names:
                rest.add(each)
        return rest

    def plus(self, tools: Iterable[Tool]) -> Registry:
        """The same tools and these, for a session that has more. Raises ConfigError if a name is taken."""
        more = self.without()
        for each in tools:
            try:
                more.add(each)
            except (TypeError, ValueError) as error:
                raise ConfigError(f"A tool of yours cannot be added: {error}", "Give it another name.") from error
        return more

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(each.definition for each in self)

    def add(self, function: Tool[P, R] | Callable[P, R]) -> Tool[P, R]:
        """Add a tool, or make one of a function. Raises TypeError for a name that servers refuse, ValueError for one
        that is taken.
        """
        added = function if isinstance(function, Tool) else tool(function)
        definition = added.definition
        if not NAME.fullmatch(definition.name):
            raise TypeError(f"a tool's name matches {NAME.pattern}, and {definition.name!r} does not")
        if definition.name in self._tools:
            raise ValueError(f"there is a tool {definition.name} already")
        self._tools[definition.name] = added
        self._aliases |= dict.fromkeys(definition.aliases, definition.name)
        list.append(self.openai_tools, freeze(to_openai_tool(definition)))
        return added

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """The decorator `tool`, which also adds the tool to this registry."""

        def add(function: Callable[..., Any]) -> Tool:
            return self.add(tool(function, **options))

        return add if function is None else add(function)

    def risk(self, name: str) -> Risk:
        """The risk of a tool; an unknown one is of high risk."""
        return self[name].risk if name in self else "high"

    def access(self, name: str) -> Access | None:
        """The access of the command that a tool runs; None if it runs none, or each call names its own."""
        return self[name].access if name in self else None

    def runs_aside(self, name: str) -> bool:
        """Whether a call of the tool needs a thread of its own; see Tool."""
        return name in self and self[name].runs_aside

    def signature(self, name: str) -> str:
        """The signature of the tool of that name, or of the nearest; "" if none is near."""
        near = [name] if name in self else find_near(name, self._tools)
        return self[near[0]].signature if near else ""

    def unwrap(self, call: CallT) -> CallT:
        """The call that one of `call_tool` stands for; others stay, also those of a user's tool of that name."""
        if call.name in self and self[call.name] is call_tool:
            call = unwrap_call(call)
        if call.name in self._tools or call.name not in self._aliases:
            return call
        return replace(call, name=self._aliases[call.name])  # rules and hooks know no aliases

    def check(self, call: ToolCall) -> ToolResult | None:
        """The error for a call that cannot be run, before its approval is asked for; None if it can."""
        if call.name not in self:
            return self._refuse_unknown(call)
        try:
            self[call.name].check_arguments(call.arguments)
        except WrongArguments as error:
            return ToolResult(call.id, call.name, "error", error.message)
        return None

    def _refuse_unknown(self, call: ToolCall) -> ToolResult:
        near = find_near(call.name, self._tools)
        usages = "; ".join(self[name].signature for name in dict.fromkeys([*near, *self._tools])) or "none"
        if len(usages) > MAX_USAGES_CHARS:
            usages = "; ".join([*(self[name].signature for name in near), ", ".join(self._tools)])
        text = f"There is no tool {quote(call.name)}. Available tools, the nearest first: {usages}."
        return ToolResult(call.id, call.name, "error", text)

    def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        """Run a call; whatever is wrong with it becomes an error."""
        if call.name not in self:
            return self._refuse_unknown(call)
        began = monotonic()
        result = self[call.name].run(call, ctx)
        return replace(result, seconds=monotonic() - began)

    async def run_async(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        """As run, for a tool that `is_coroutine`, inside an event loop."""
        began = monotonic()
        outcome = await self[call.name].execute_async(call.arguments, replace(ctx, call=call))
        return replace(outcome.to_result(call, ctx.wiring.outputs), seconds=monotonic() - began)

    def is_coroutine(self, name: str) -> bool:
        """Whether the tool is a coroutine function."""
        return name in self and inspect.iscoroutinefunction(self[name].function)

    def preview(self, call: ToolCall, ctx: ToolContext) -> str | ToolResult:
        """What a call that `check` accepts would change, as text; "" if that is not known.

        A result is what the call would have without a run: it cannot succeed, or changes nothing.
        """
        preview = self[call.name].preview_call(call.arguments, replace(ctx, call=call))
        return preview if isinstance(preview, str) else preview.to_result(call, None)


def registry_of(tools: Iterable[Callable[..., object]]) -> Registry:
    """A registry of these tools only; functions become tools. Raises TypeError, or ConfigError if two have one name."""
    if callable(tools):
        raise TypeError(f"tools is a list of functions: write tools=[{getattr(tools, '__name__', 'function')}]")
    if isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable):
        raise TypeError(f"tools is a list of functions, and {tools!r:.80} is none")
    registry = Registry()
    for each in tools:
        try:
            registry.add(each)
        except ValueError as error:
            raise ConfigError(f"tools: {error}.", "Give one of the two another name.") from error
    return registry


REGISTRY = Registry()
