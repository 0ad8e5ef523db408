"""The cases of an eval: questions, the tools on offer, the calls that are expected, and what the tools answer.

A case is written in YAML or JSON, the built-in ones in cases.yaml beside this file. Its tools are never run: their
results stand in the case. A call that is expected names some arguments, each with a value or a matcher; arguments that
it does not name are not looked at.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import CodeType
from typing import Any

from msgspec import Struct

from ..config.files import read_file
from ..errors import ConfigError
from ..types.messages import JSON, ToolCall, ToolDefinition

BUILT_IN = Path(__file__).with_name("cases.yaml")
NO_RESULT = "done"  # of a tool whose result the case does not tell
EXAMPLE = "See docs/eval.md for an example."

MATCHERS: dict[str, Callable[[Any, Any], bool]] = {
    "contains": lambda value, part: str(part).lower() in str(value).lower(),
    "matches": lambda value, pattern: bool(re.search(pattern, str(value))),
    "one_of": lambda value, choices: any(fits_value(value, each) for each in choices),
    "any": lambda _value, _: True,
}


class ExpectedCall(Struct, frozen=True):
    """A call by the name of its tool and the arguments that count."""

    name: str
    arguments: Mapping[str, JSON]

    def fits(self, call: ToolCall) -> bool:
        return call.name == self.name and all(
            key in call.arguments and fits_value(call.arguments[key], wanted) for key, wanted in self.arguments.items()
        )


class Turn(Struct, frozen=True):
    """One answer of the model. `ask`: what the user says before it; "" behind the results of calls.

    `expect`: the calls, in any order; None: they are not looked at. `results`: of the calls, in the order of `expect`.
    `check`: a Python expression over `calls`, `text` and `call`, the first one.
    """

    ask: str
    expect: tuple[ExpectedCall, ...] | None
    results: tuple[str, ...] = ()
    check: str = ""

    def judge(self, calls: Sequence[ToolCall], text: str) -> str:
        """Why the answer is not as expected; "" if it is."""
        if self.expect is not None and (why := _compare(self.expect, calls)):
            return why
        if not self.check:
            return ""
        return _check_answer(self.check, calls, text)

    def pick_result(self, call: ToolCall) -> str:
        """What the tool answers."""
        pairs = zip(self.expect or (), self.results, strict=False)
        return next((result for expected, result in pairs if expected.fits(call)), NO_RESULT)


class Case(Struct, frozen=True):
    id: str
    tools: tuple[ToolDefinition, ...]
    turns: tuple[Turn, ...]


def fits_value(value: object, wanted: object) -> bool:
    """Texts are compared without regard to case and blanks around them, numbers by their value."""
    if isinstance(wanted, dict) and len(wanted) == 1 and (name := next(iter(wanted))) in MATCHERS:
        return MATCHERS[name](value, wanted[name])
    if isinstance(wanted, list) and isinstance(value, list):
        return len(wanted) == len(value) and all(map(fits_value, value, wanted))
    if isinstance(wanted, dict) and isinstance(value, dict):  # which may have more members
        return all(key in value and fits_value(value[key], each) for key, each in wanted.items())
    return _fits_scalar(value, wanted)


def _fits_scalar(value: object, wanted: object) -> bool:
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    if isinstance(wanted, (int, float)) and isinstance(value, (int, float)):
        return abs(value - wanted) < 1e-9 * max(1.0, abs(wanted))
    if isinstance(wanted, str) and isinstance(value, str):
        return wanted.strip().lower() == value.strip().lower()
    return value == wanted


def read_cases(path: Path) -> list[Case]:
    """Raises ConfigError, which names the case and what is wrong with it."""
    content = read_file(path)
    if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
        raise ConfigError(f"{path}: expected `tools` and a list of `cases`.", EXAMPLE)
    tools = _read_tools(path, content.get("tools", {}))
    cases = [_read_case(f"{path}: case {number}", row, tools) for number, row in enumerate(content["cases"], 1)]
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise ConfigError(f"{path}: two cases have the id {case.id!r}.")
        seen.add(case.id)
    if not cases:
        raise ConfigError(f"{path}: it holds no cases.", EXAMPLE)
    return cases


def fingerprint(cases: Sequence[Case]) -> str:
    """What tells one set of cases from another."""
    return hashlib.sha256(repr(cases).encode()).hexdigest()[:12]


def _compare(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> str:
    """Each expected call must be found in one call of its own."""
    calls_left = list(calls)
    for wanted in expected:
        fitting = next((call for call in calls_left if wanted.fits(call)), None)
        if fitting is None:
            return f"expected {_show(wanted.name, wanted.arguments)}, got {_show_all(calls)}"
        calls_left.remove(fitting)
    if calls_left:
        return f"expected {len(expected) or 'no'} calls, got {_show_all(calls)}"
    return ""


def _show_all(calls: Sequence[ToolCall]) -> str:
    return ", ".join(_show(call.name, call.arguments) for call in calls) or "no call"


def _show(name: str, arguments: Mapping[str, JSON]) -> str:
    return f"{name}({', '.join(f'{key}={json.dumps(value, ensure_ascii=False)}' for key, value in arguments.items())})"


def _check_answer(check: str, calls: Sequence[ToolCall], text: str) -> str:
    names = {"calls": list(calls), "call": next(iter(calls), None), "text": text}
    try:
        holds = eval(_compile(check), {"re": re, "json": json, **names})  # noqa: S307 - the user's own file
    except Exception as error:  # noqa: BLE001 - whatever the user's expression raises of this answer
        return f"{check}: {type(error).__name__}: {error}"
    if holds:
        return ""
    return f"it does not hold: {check}"


def _compile(check: str) -> CodeType:
    return compile(ast.parse(check.strip(), mode="eval"), "assert", "eval")


def _read_case(place: str, row: object, tools: Mapping[str, ToolDefinition]) -> Case:
    if not isinstance(row, dict):
        raise ConfigError(f"{place}: expected an object, got {row!r:.60}.", EXAMPLE)
    name = str(row.get("id") or "")
    if not name:
        raise ConfigError(f"{place}: it has no id.", EXAMPLE)
    place = f"{place} ({name})"
    offered = _read_offered(place, row.get("tools", list(tools)), tools)
    return Case(name, tuple(tools[each] for each in offered), _read_turns(place, row, tools))


def _read_offered(place: str, names: object, tools: Mapping[str, ToolDefinition]) -> list[str]:
    offered: list[Any] = names if isinstance(names, list) else [names]
    for each in offered:
        if not isinstance(each, str) or each not in tools:
            raise ConfigError(f"{place}: there is no tool {each!r}; there is {', '.join(tools) or 'none'}.")
    return offered


def _read_turns(place: str, row: Mapping[str, Any], tools: Mapping[str, ToolDefinition]) -> tuple[Turn, ...]:
    rows = row.get("turns", [row])
    if not isinstance(rows, list) or not rows or not all(isinstance(each, dict) for each in rows):
        raise ConfigError(f"{place}: expected a list of turns.", EXAMPLE)
    turns = tuple(_read_turn(f"{place}, turn {number}", each, tools) for number, each in enumerate(rows, 1))
    if not turns[0].ask:
        raise ConfigError(f"{place}: its first turn has no question: `ask`.", EXAMPLE)
    for number, (before, turn) in enumerate(pairwise(turns), 2):
        if not turn.ask and not before.expect:
            raise ConfigError(f"{place}, turn {number}: it needs a question, since no call comes before it.")
    return turns


def _read_turn(place: str, row: Mapping[str, Any], tools: Mapping[str, ToolDefinition]) -> Turn:
    if unknown := row.keys() - {"id", "tools", "ask", "expect", "results", "assert"}:
        raise ConfigError(f"{place}: there is no key {min(unknown)!r}.", EXAMPLE)
    check = str(row.get("assert", ""))
    if check:
        _check_source(_compile, check, f"{place}: assert")
    elif "expect" not in row:
        raise ConfigError(f"{place}: it needs `expect`, `assert`, or both.", EXAMPLE)
    expected, expect = row.get("expect") or [], None
    if not isinstance(expected, list):
        raise ConfigError(f"{place}: `expect` is a list of calls, got {expected!r:.60}.", EXAMPLE)
    if "expect" in row:
        expect = tuple(_read_call(place, each, tools) for each in expected)
    results = row.get("results", [])
    if not isinstance(results, list) or len(results) > len(expected):
        raise ConfigError(f"{place}: `results` is a list with one text for each expected call.", EXAMPLE)
    return Turn(str(row.get("ask", "")), expect, tuple(map(str, results)), check)


def _check_source(compiles: Callable[[Any], object], source: Any, place: str) -> None:
    """Raises ConfigError for what cannot be compiled."""
    try:
        compiles(source)
    except (re.error, SyntaxError, TypeError, ValueError, MemoryError, RecursionError) as error:
        # The last two tell nothing: it is nested too deep.
        raise ConfigError(f"{place}: {str(error) or 'it is nested too deep'}.") from error


def _read_call(place: str, row: object, tools: Mapping[str, ToolDefinition]) -> ExpectedCall:
    if isinstance(row, str):
        row = {row: {}}
    if not isinstance(row, dict) or len(row) != 1:
        raise ConfigError(f"{place}: an expected call is written as TOOL: {{ARGUMENT: VALUE}}, got {row!r:.60}.")
    name, arguments = next(iter(row.items()))
    if name not in tools:
        raise ConfigError(f"{place}: it expects the tool {name!r}, which is not among `tools`.")
    arguments = arguments or {}
    if not isinstance(arguments, dict):
        raise ConfigError(f"{place}: the arguments of {name}: expected an object, got {arguments!r:.60}.")
    for key, value in arguments.items():
        if isinstance(value, dict) and "matches" in value:
            _check_source(re.compile, value["matches"], f"{place}: {name}.{key}: matches")
    return ExpectedCall(name, arguments)


def _read_tools(path: Path, rows: object) -> dict[str, ToolDefinition]:
    if not isinstance(rows, dict):
        raise ConfigError(f"tools: expected an object, got {rows!r:.60}.", EXAMPLE)
    return {name: _read_tool(f"{path}: tools.{name}", name, row) for name, row in rows.items()}


def _read_tool(place: str, name: str, row: object) -> ToolDefinition:
    if not isinstance(row, dict) or not re.fullmatch(r"[\w-]{1,64}", str(name), re.ASCII):
        raise ConfigError(f"{place}: a tool has a name of letters and digits, a description and parameters.", EXAMPLE)
    parameters = row.get("parameters")
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        raise ConfigError(f"{place}: `parameters` is a JSON Schema of type object.", EXAMPLE)
    return ToolDefinition(name, str(row.get("description", "")), parameters)
