"""BFCL's cases are read from its package, and judged by its checker: here from a small package of the same form."""

from __future__ import annotations

import json
import sys

import pytest

from src.errors import ConfigError
from src.eval.bfcl import CATEGORIES, read_bfcl
from src.types.messages import ToolCall

CHECKER = """\
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING
from bfcl_eval.constants.enums import Language

def ast_checker(functions, output, answers, language, category, model):
    assert language is Language.PYTHON and MODEL_CONFIG_MAPPING[model].underscore_to_dot
    valid = len(output) == len(answers) and output[0]["math_add"]["a"] in answers[0]["math.add"]["a"]
    return {"valid": valid, "error": ["not that"], "error_type": category}
"""
FUNCTION = {
    "name": "math.add",
    "description": "Adds.",
    "parameters": {
        "type": "dict",
        "properties": {"a": {"type": "float"}, "of": {"type": "tuple", "items": {"type": "any"}}},
        "required": ["a"],
    },
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    root = tmp_path / "bfcl_eval"
    for folder in ("constants", "eval_checker/ast_eval", "data/possible_answer"):
        (root / folder).mkdir(parents=True)
    for module in ("", "constants/", "eval_checker/", "eval_checker/ast_eval/"):
        (root / f"{module}__init__.py").write_text("")
    (root / "constants/model_config.py").write_text("import a_package_that_is_not_there")
    (root / "constants/enums.py").write_text("from enum import Enum\nclass Language(Enum):\n    PYTHON = 'python'\n")
    (root / "eval_checker/ast_eval/ast_checker.py").write_text(CHECKER)
    for category in CATEGORIES:
        rows = [
            {"id": f"{category}_{n}", "question": [[{"role": "user", "content": f"Add {n}."}]], "function": [FUNCTION]}
            for n in range(5)
        ]
        answers = [{"id": f"{category}_{n}", "ground_truth": [{"math.add": {"a": [n]}}]} for n in range(5)]
        name = f"BFCL_v4_{category}.json"
        (root / "data" / name).write_text("\n".join(map(json.dumps, rows)))
        (root / "data/possible_answer" / name).write_text("\n".join(map(json.dumps, answers)))
    forget()
    monkeypatch.syspath_prepend(tmp_path)
    yield root
    forget()


def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == "bfcl_eval"]:
        del sys.modules[name]


def test_cases_are_spread_over_all_categories(package):
    assert [case.id for case in read_bfcl(4)] == [f"{category}_0" for category in CATEGORIES]
    assert len({case.id for case in read_bfcl(1000)}) == 20


def test_a_tool_is_described_as_a_server_takes_it(package):
    (tool,) = read_bfcl(1)[0].tools
    assert tool.name == "math_add"
    assert tool.parameters == {
        "type": "object",
        "properties": {"a": {"type": "number"}, "of": {"type": "array", "items": {"type": "string"}}},
        "required": ["a"],
    }


def test_an_answer_is_judged_by_the_packages_checker(package):
    turn = read_bfcl(20)[3].turns[0]
    assert turn.judge([ToolCall("1", "math_add", {"a": 3})], "") == ""
    assert turn.judge([ToolCall("1", "math_add", {"a": 4})], "") == "simple_python: ['not that']"
    assert turn.judge([], "I cannot.") == "no call"


def test_nothing_stands_for_the_packages_table_of_models_afterwards(package):
    read_bfcl(1)
    assert "bfcl_eval.constants.model_config" not in sys.modules


def test_without_the_package_it_is_said_how_to_install_it(monkeypatch):
    monkeypatch.setattr("src.eval.bfcl.PACKAGE", "a_package_that_is_not_there")
    with pytest.raises(ConfigError, match="pip install --no-deps bfcl-eval"):
        read_bfcl(1)


def test_other_data_are_named(package):
    (package / "data/BFCL_v4_parallel.json").write_text("{")
    with pytest.raises(ConfigError, match=r"BFCL_v4_parallel\.json"):
        read_bfcl(1)
