"""Cases of the Berkeley Function Calling Leaderboard, from the package bfcl-eval, judged by its own checker.

The package is installed beside, without what it needs itself: its data are read where they are, and of its code the
checker of calls is loaded, which needs a table of models that would load them all; a table of one stands for it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from ..errors import ConfigError
from ..types.messages import ToolCall, ToolDefinition
from .cases import Case, Turn

PACKAGE = "bfcl_eval"
MODELS = f"{PACKAGE}.constants.model_config"
CHECKER = f"{PACKAGE}.eval_checker.ast_eval.ast_checker"
CATEGORIES = ("simple_python", "multiple", "parallel", "parallel_multiple")
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}  # as JSON Schema calls them
MODEL = "any"
OTHER_DATA = "This version of bfcl-eval has other data than 2026.3."
INSTALL = "Install it beside: pip install --no-deps bfcl-eval"

Checker = Callable[..., Mapping[str, Any]]


class BfclTurn(Turn, frozen=True):
    """One answer. `functions` and `answers` are the package's own."""

    category: str = ""
    functions: tuple[Mapping[str, Any], ...] = ()
    answers: tuple[Mapping[str, Any], ...] = ()
    checker: Checker = lambda *_: {}

    def judge(self, calls: Sequence[ToolCall], text: str) -> str:  # noqa: ARG002 - as of a Turn
        output = [{call.name: dict(call.arguments)} for call in calls]
        if not output:
            return "no call"
        python = import_module(f"{PACKAGE}.constants.enums").Language.PYTHON
        verdict = self.checker([*self.functions], output, [*self.answers], python, self.category, MODEL)
        if verdict["valid"]:
            return ""
        return f"{verdict.get('error_type', '')}: {verdict['error']}"


def read_bfcl(count: int) -> list[Case]:
    """So many cases, spread evenly over those of all categories. Raises ConfigError where the package is not there."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("The package bfcl-eval is not installed.", INSTALL)
    data = Path(next(iter(spec.submodule_search_locations))) / "data"
    checker = _load_checker()
    cases = [case for category in CATEGORIES for case in _read_category(data, category, checker)]
    count = min(count, len(cases))
    return [cases[at * len(cases) // count] for at in range(count)]


def _read_category(data: Path, category: str, checker: Checker) -> Iterator[Case]:
    name = f"BFCL_v4_{category}.json"
    answers = {row["id"]: row["ground_truth"] for row in _read_lines(data / "possible_answer" / name)}
    for row in _read_lines(data / name):
        if row["id"] not in answers:
            raise ConfigError(f"{data / name}: {row['id']} has no answer.", OTHER_DATA)
        (messages,) = row["question"]
        ask = "\n\n".join(message["content"] for message in messages)
        tools = tuple(_convert_tool(each) for each in row["function"])
        functions, wanted = tuple(row["function"]), tuple(answers[row["id"]])
        turn = BfclTurn(ask, None, category=category, functions=functions, answers=wanted, checker=checker)
        yield Case(row["id"], tools, (turn,))


def _read_lines(path: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}.", OTHER_DATA) from error


def _convert_tool(function: Mapping[str, Any]) -> ToolDefinition:
    """A name has no dots in OpenAI's API; the checker takes it that way."""
    return ToolDefinition(
        function["name"].replace(".", "_"), function["description"], _convert_schema(function["parameters"])
    )


def _convert_schema(value: Any) -> Any:
    if isinstance(value, list):
        return [_convert_schema(each) for each in value]
    if not isinstance(value, dict):
        return value
    converted = {key: _convert_schema(each) for key, each in value.items()}
    if isinstance(kind := converted.get("type"), str):
        converted["type"] = TYPES.get(kind, kind)
    return converted


def _load_checker() -> Checker:
    stands_in = ModuleType(MODELS)
    table = {MODEL: SimpleNamespace(underscore_to_dot=True)}
    stands_in.MODEL_CONFIG_MAPPING = table  # type: ignore[attr-defined]
    before = sys.modules.get(MODELS)
    sys.modules[MODELS] = stands_in
    try:
        checker: Checker = import_module(CHECKER).ast_checker
    except ImportError as error:
        raise ConfigError(f"The checker of bfcl-eval cannot be loaded: {error}.", INSTALL) from error
    finally:
        if before is None:
            del sys.modules[MODELS]
        else:
            sys.modules[MODELS] = before
    return checker
