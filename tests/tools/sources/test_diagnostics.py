"""What checkers say of changed files. They are scripts here, but for ruff, which the tests themselves need."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from src.tools.sdk.context import ToolContext
from src.tools.sources import diagnostics
from src.tools.sources.diagnostics import CHECKERS, MAX_TOLD, Checker, Checks, Diagnostics
from src.types.messages import CHECKS_LEAD
from tests.each import check_rows

LINES = next(each for each in CHECKERS if each.name == "ruff").read_errors
LINT = Checker("lint", (".py",), ("lint.toml", "setup.cfg:[lint"), ("lint", "--check"), LINES)


def finish(checks: Checks, lines: list[str], *, is_allowed: bool = True) -> str:
    """The note of the checks, all of whose command lines may run, or none."""
    try:
        lines.append(next(checks))
        while True:
            lines.append(checks.send(is_allowed))
    except StopIteration as end:
        return end.value


class Project:
    """A workspace with a checker `lint`, which prints `says` and keeps what it was given."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lines: list[str] = []
        self.diagnostics = Diagnostics([LINT])
        self.write("lint.toml")
        self.write("a.py")
        self.write(".venv/bin/lint", '#!/bin/sh\npwd >>"$0.ran"; echo "$@" >>"$0.ran"\ncat "$0.says"; exit 1\n')
        (root / ".venv/bin/lint").chmod(0o755)

    def write(self, name: str, text: str = "") -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def check(self, *files: str, says: str = "", is_allowed: bool = True) -> str:
        self.write(".venv/bin/lint.says", says)
        context = ToolContext(self.root, {"PATH": "/usr/bin:/bin"})
        return finish(self.diagnostics.check(files or ("a.py",), context), self.lines, is_allowed=is_allowed)

    @property
    def ran(self) -> list[str]:
        file = self.root / ".venv/bin/lint.ran"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path.resolve())


def test_errors_of_the_changed_files_are_told_and_no_others(project):
    note = project.check(says="a.py:3:5: F821 Undefined name `x`\nb.py:1:1: E1 Other\nFound 2 errors.\n")
    assert note == f"{CHECKS_LEAD}\na.py:3:5: F821 Undefined name `x` [lint]"
    assert project.ran == [str(project.root), "--check a.py"]


def test_without_errors_there_is_no_note(project):
    assert project.check(says="All good.\n") == ""


def test_a_file_of_another_kind_or_one_that_is_gone_is_not_checked(project):
    project.write("a.txt")
    assert project.check("a.txt", "gone.py", "../a.py", says="a.txt:1:1: E1 x\n") == ""
    assert project.ran == []


def test_a_project_that_is_not_configured_for_it_is_not_checked(project):
    (project.root / "lint.toml").unlink()
    project.write("setup.cfg", "[other]\n")
    assert project.check(says="a.py:1:1: E1 x\n") == ""
    project.write("setup.cfg", "[lint]\n")
    assert "E1 x" in project.check(says="a.py:1:1: E1 x\n")


def test_it_runs_in_the_nearest_folder_that_is_configured(project):
    project.write("sub dir/lint.toml")
    project.write("sub dir/in/b.py")
    note = project.check("sub dir/in/b.py", says="in/b.py:1:1: E1 x\n")
    assert "sub dir/in/b.py:1:1: E1 x" in note
    assert project.ran == [str(project.root / "sub dir"), "--check in/b.py"]


def test_a_checker_that_is_not_installed_is_left_out(project):
    shutil.rmtree(project.root / ".venv")
    assert project.check(says="") == ""
    assert project.lines == []


def test_a_command_that_would_ask_is_not_run(project):
    assert project.check(says="a.py:1:1: E1 x\n", is_allowed=False) == ""
    assert project.lines == [f"{project.root}/.venv/bin/lint --check a.py"]
    assert project.ran == []


def test_one_that_does_not_end_in_time_is_not_run_again(project):
    project.diagnostics = Diagnostics([LINT], max_s=0.2)
    project.write(".venv/bin/lint", '#!/bin/sh\necho "$@" >>"$0.ran"; sleep 60\n')
    assert project.check() == ""
    project.write("b.py")
    assert project.check("b.py") == ""
    assert len(project.ran) <= 1


def test_what_was_told_is_not_told_again_when_it_moves_but_when_it_comes_back(project):
    assert project.check(says="a.py:3:5: E1 x\n")
    assert project.check(says="a.py:4:5: E1 x\n") == ""
    assert project.check(says="a.py:4:5: E1 x\na.py:9:1: E2 y\n") == f"{CHECKS_LEAD}\na.py:9:1: E2 y [lint]"
    assert project.check(says="") == ""
    assert project.check(says="a.py:3:5: E1 x\n")


@pytest.mark.parametrize("is_allowed", [True, False], ids=["had no time", "would ask"])
def test_what_was_told_is_not_told_again_behind_a_round_in_which_the_checker_was_not_run(project, is_allowed):
    assert project.check(says="a.py:3:5: E1 x\n")
    project.diagnostics.max_s = 0
    assert project.check(says="a.py:3:5: E1 x\n", is_allowed=is_allowed) == ""
    assert len(project.ran) == 2  # two lines of one run
    project.diagnostics.max_s = diagnostics.MAX_S
    assert project.check(says="a.py:3:5: E1 x\n") == ""


def test_of_many_errors_the_first_are_told(project):
    note = project.check(says="".join(f"a.py:{line}:1: E{line}\n" for line in range(1, 31)))
    assert len(note.splitlines()) == 1 + MAX_TOLD + 1
    assert note.endswith("\nand 20 more")


def test_names_that_no_file_can_have_cost_no_other_errors(project):
    (project.root / "circle").symlink_to("circle")
    names = ("a\0.py", "circle/a.py", "b" * 300)
    says = "".join(f"{name}:1:1: E1 x\n" for name in names)
    assert project.check(says=f"{says}a.py:1:1: E2 y\n") == f"{CHECKS_LEAD}\na.py:1:1: E2 y [lint]"


def test_what_only_json_can_name_costs_no_other_errors_either(project):
    paths = (5, "\ud800.py", "\0.py", "a.py")
    report = [{"filePath": path, "messages": [{"message": "one\ntwo"}]} for path in paths]
    eslint = next(each for each in CHECKERS if each.name == "eslint")
    project.diagnostics = Diagnostics([replace(LINT, read_errors=eslint.read_errors)])
    assert project.check(says=json.dumps(report)) == f"{CHECKS_LEAD}\na.py:1:1: one two [lint]"


ESLINT = [
    {
        "filePath": "/w/a.ts",
        "messages": [
            {"ruleId": "no-undef", "severity": 2, "message": "'x' is not defined.", "line": 3, "column": 5},
            {"ruleId": None, "fatal": True, "severity": 2, "message": "Parsing error: ;"},
        ],
    }
]


@check_rows(
    "name, output, errors",
    [
        (
            "mypy",
            'a.py:3:12: error: Name "x" is not defined  [name-defined]\na.py:3: note: see\nb.py: error: no place\n',
            [("a.py", '3:12: error: Name "x" is not defined  [name-defined]')],
        ),
        ("tsc", "src/a.ts(3,5): error TS2304: No 'x'.\nother\n", [("src/a.ts", "3:5: error TS2304: No 'x'.")]),
        (
            "cargo",
            "src/main.rs:2:5: error[E0425]: cannot find value `x`\nsrc/main.rs:1:5: warning: unused\nerror: could not",
            [("src/main.rs", "2:5: error[E0425]: cannot find value `x`")],
        ),
        (
            "eslint",
            f"(node) warning\n{json.dumps(ESLINT)}\n[exit code 1]",
            [("/w/a.ts", "3:5: 'x' is not defined. (no-undef)"), ("/w/a.ts", "1:1: Parsing error: ;")],
        ),
        ("eslint", "Oops! Something went wrong! [{", []),
        ("eslint", '[{"a":' * 30_000, []),
        ("eslint", "", []),
    ],
)
def test_the_output_of_each_checker_is_read(name, output, errors):
    checker = next(each for each in CHECKERS if each.name == name)
    assert list(checker.read_errors(output)) == errors


def test_ruff_checks_as_the_project_says(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.ruff.lint]\nselect = ["F"]\n')
    (tmp_path / "a.py").write_text("import os\nprint(x )\n")
    where = ToolContext(tmp_path.resolve(), {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"})
    note = finish(Diagnostics().check(["a.py"], where), [])
    assert [line.split(" ")[1] for line in note.splitlines()[1:]] == ["F401", "F821"]
