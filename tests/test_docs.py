"""What the pages say holds: links lead somewhere, tables are those of the code, quoted messages exist.

`python -m tests.test_docs` prints the tables as they should be.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

from importlinter.api import read_configuration

from src import Agent
from src.cli.chat.slash.table import COMMANDS as SLASH_COMMANDS
from src.cli.main import COMMANDS, make_parser
from src.config import ENVIRONMENT, SETTINGS
from src.parsing.formats.table import FORMATS
from tests.each import check_each, check_rows

from .sources import ROOT, SOURCES, is_string, nodes

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
COMMAND = re.compile(r"<!-- command: (\w+) -->\n```sh\n(.+?)\n```")


def anchor(heading: str) -> str:
    """The name that a heading has as the target of a link."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def option_table() -> str:
    rows = ["| option | what it does |", "|---|---|"]
    for action in filter(lambda each: each.option_strings, make_parser()._actions):
        names = ", ".join(f"`{name}`" for name in action.option_strings)
        rows.append(f"| {names} | {action.help} |")
    return "\n".join(rows)


def command_table() -> str:
    return "\n".join(
        ["| command | what it is for |", "|---|---|", *(f"| `{name}` | {about} |" for name, about in COMMANDS.items())]
    )


def slash_table() -> str:
    rows = ["| command | what it does |", "|---|---|"]
    for command in SLASH_COMMANDS:
        usage = command.usage.replace("|", "\\|")
        also = f" (also {', '.join(f'`{name}`' for name in command.aliases)})" if command.aliases else ""
        rows.append(f"| `{usage}` | {command.help}{also} |")
    return "\n".join(rows)


def layer_list() -> str:
    """The layers of import-linter's first contract, the highest first."""
    layers = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"][0]["layers"]
    return "\n".join(f"    {layer.replace('|', '  ')}" for layer in layers)


@check_each(page=PAGES)
def test_every_relative_link_leads_somewhere(page):
    for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, part = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), target
        if part:
            assert part in map(anchor, HEADING.findall(file.read_text(encoding="utf-8"))), target


@check_each(page=PAGES)
def test_every_file_of_ours_that_is_named_is_there(page):
    named = re.findall(r"`((?:src|tests|docs)/[\w./]+)`", page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


@check_each(page=PAGES)
def test_every_name_of_the_package_that_is_given_is_there(page):
    for name in re.findall(r"\bvllm_bot((?:\.[a-zA-Z]\w*)+)", page.read_text(encoding="utf-8")):
        resolve_name(f"src{name}")


NOT_OURS = {  # names of other programs, and of examples
    *("--flag", "--follow", "--served-model-name", "--shell", "--tool-parser-plugin", "vllm.general_plugins"),
    *("files_NAME", "iter_content", "iter_lines", "make_test_database", "model_providers.NAME", "patch_stdout"),
}
SECTIONS = {key.partition(".")[0] for key in SETTINGS}
NAME = re.compile(r"(?<![\w./-])(?:--[a-z][\w-]+|[a-zA-Z_]\w*(?:\.[a-zA-Z_]\w*)?)")


@cache
def words() -> set[str]:
    """Every option and every word in the code, the tests and the scripts, and the names of their files."""
    files = [path for folder in ("src", "tests", "docs") for path in (ROOT / folder).rglob("*.py")]
    text = "\n".join(path.read_text("utf-8") for path in [*files, *(ROOT / ".ci").iterdir()] if path != Path(__file__))
    return {*re.findall(r"--[a-z][\w-]+|\w+", text), *(path.stem for path in files)}


def find_modules(name: str) -> list[Path]:
    return [path for path in SOURCES if name in (path.stem, path.parent.name)]


def is_defined(name: str, path: Path) -> bool:
    return bool(re.search(rf"^(class |def )?{name}\b", path.read_text(encoding="utf-8"), re.MULTILINE))


def exists(name: str) -> bool:
    """Whether a setting, a class of a module, an option or a name from code exists. Any other word is prose."""
    first, _, rest = name.partition(".")
    if first in SECTIONS and rest not in ("", "py"):
        return name in SETTINGS or hasattr(Agent, rest)
    if rest[:1].isupper() and not first[0].isupper():
        return first in sys.stdlib_module_names or any(is_defined(rest, path) for path in find_modules(first))
    is_from_code = name.startswith("--") or "_" in name or re.search("[a-z][A-Z]", name)
    return not is_from_code or set(name.split(".")) <= words()


@check_each(page=[page for page in PAGES if page.name != "CHANGELOG.md"])  # which names what has gone
def test_every_name_in_backticks_exists(page):
    quoted = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCED.sub("", page.read_text(encoding="utf-8")))
    names = {name for text in quoted for name in NAME.findall(text)} - NOT_OURS
    assert sorted(name for name in names if not exists(name)) == []


def test_every_page_is_on_the_map():
    docs = ROOT / "docs"
    listed = {(docs / target).resolve() for target in LINK.findall((docs / "README.md").read_text(encoding="utf-8"))}
    assert {page for page in PAGES if docs in page.parents} - listed - {docs / "README.md"} == set()


def test_the_page_on_the_architecture_has_the_layers():
    assert layer_list() in read_page("architecture"), f"it should hold:\n{layer_list()}"


def test_the_page_on_the_architecture_has_every_folder():
    page = read_page("architecture")
    folders = {str(path.parent.relative_to(ROOT)) for path in SOURCES if path.name != "__init__.py"} - {"src"}
    assert {folder for folder in folders if f"| `{folder}` |" not in page} == set()


def read_page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def test_the_page_on_options_has_every_option_of_the_command_line():
    assert option_table() in read_page("options"), f"it should hold:\n{option_table()}"


def test_the_page_on_options_has_every_command():
    assert command_table() in read_page("options"), f"it should hold:\n{command_table()}"


@check_rows("variable", [*ENVIRONMENT, "DEBUG"])
def test_the_page_on_configuration_names_every_variable_of_the_environment(variable):
    assert f"`{variable}`" in read_page("configuration")


def test_the_readme_counts_the_formats_of_the_table():
    (count,) = re.findall(r"in (\d+) formats", README)
    assert int(count) == len({row.call_origin for row in FORMATS})


def test_the_readme_has_the_address_of_the_package():
    (address,) = re.findall(r'^Repository = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert f"git clone {address} &&" in README


@cache
def messages() -> list[str]:
    """Every piece of text in src."""
    return [node.value for path in SOURCES for node in nodes(path) if is_string(node)]


QUOTED = re.findall(r"^## `(.+)`$", read_page("troubleshooting"), re.MULTILINE)


@check_rows("message", QUOTED)
def test_a_symptom_in_the_troubleshooting_is_a_message_of_the_program(message):
    assert any(message in text for text in messages())


QUOTED_COMMANDS = dict(COMMAND.findall(README))


class TestTheTwoCommands:
    def test_there_are_two(self):
        assert QUOTED_COMMANDS.keys() == {"run", "test"}

    def test_both_set_everything_up(self):
        for command in QUOTED_COMMANDS.values():
            assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt && ")

    def test_ci_takes_the_test_command_from_the_readme(self):
        """It runs what stands behind the marker, so there is no second copy to drift."""
        script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
        assert "<!-- command: test -->" in script
        assert "python -m pytest" not in script.partition('step "style and types"')[0]


def requirements() -> list[str]:
    """The run-time part of requirements.txt: what stands above the comment."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return lines[: next(number for number, line in enumerate(lines) if line.startswith("#"))]


def test_the_package_asks_for_what_requirements_txt_does():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")  # no tomllib before Python 3.11
    (dependencies,) = re.findall(r"^dependencies = (\[.*?\])$", project, re.MULTILINE | re.DOTALL)
    assert json.loads(dependencies) == requirements()


def test_the_readme_lists_every_extra():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (section,) = re.findall(r"^\[project\.optional-dependencies\]\n(.*?)\n\n", project, re.MULTILINE | re.DOTALL)
    (listed,) = re.findall(r"adds extras: (.+)\.$", README, re.MULTILINE)
    assert re.findall(r"`(\w+)`", listed) == sorted(re.findall(r"^(\w+) =", section, re.MULTILINE))


def test_the_page_on_the_chat_has_every_command():
    assert slash_table() in read_page("chat"), f"it should hold:\n{slash_table()}"


def test_every_requirement_has_a_lower_bound():
    assert [line for line in requirements() if ">=" not in line] == []


if __name__ == "__main__":
    print(option_table(), command_table(), slash_table(), layer_list(), sep="\n\n")
