"""Skills and commands: Markdown files that users write for a model, read by one loader.

    skills/NAME/SKILL.md    as https://agentskills.io describes: front matter with name and description, then the text
    commands/NAME.md        a message with $ARGUMENTS and $1 to $9; front matter may give its description

The model is told the names and descriptions of skills, in the description of the tool `skill`, and reads the text when
it needs it. The user runs both as /NAME. A file that cannot be used is left out, with a sentence about it. The text is
the model's to read: it gives no permissions.
"""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct

from ...beneath import find_relative, open_file
from ...errors import ToolError
from ...types.file_names import escape_name
from ...types.lazy_pattern import LazyPattern
from ...types.special_tokens import neutralize_with_note
from ...types.strict_yaml import load_strict
from ..sdk.tool import Tool, tool

NAME = LazyPattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
PLACEHOLDER = LazyPattern(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")
FRONT_MATTER = LazyPattern(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
MAX_FILE_CHARS = 100_000
MAX_DESCRIPTION_CHARS = 1_024  # as agentskills.io says
MAX_SHARE = 0.02  # of the context, for names and descriptions
CHARS_PER_TOKEN = 3  # fewer than any tokenizer has for English
USUAL_CONTEXT = 8_192  # tokens, where the server does not say
INTRODUCTION = "Read a skill, which says how to do work of its kind, before you do such work."


class SkillFolder(Struct, frozen=True):
    """A folder that holds `skills` or `commands`. `top`: where its files must be, links resolved; None: anywhere."""

    path: Path
    top: Path | None = None


class Skill(Struct, frozen=True):
    """`path`: in its folder, to which links led when it was loaded. `is_command`: only the user runs it."""

    name: str
    description: str
    path: Path
    text: str
    is_command: bool


class SkillSet(Struct, frozen=True):
    """By name; of two with one name the first. `problems`: a sentence for each file that is left out."""

    skills: Mapping[str, Skill]
    problems: tuple[str, ...] = ()

    def expand(self, line: str) -> str | None:
        """The message that `/NAME ARGUMENTS` stands for; None if there is no such skill or command."""
        name, _, arguments = line.partition(" ")
        skill = self.skills.get(name.removeprefix("/"))
        return _fill(neutralize_with_note(skill.text), arguments.strip()) if skill else None


def load_skills(folders: Iterable[SkillFolder]) -> SkillSet:
    """What the folders hold, those of the first one first."""
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    for folder in folders:
        for path, name in _list_files(folder.path):
            try:
                skill = _read_skill(path, name, folder.top)
            except ValueError as error:
                problems.append(f"{escape_name(path)}: {error}. It is left out.")
                continue
            skills.setdefault(skill.name, skill)
    return SkillSet(skills, tuple(problems))


def make_skill_tool(skills: Iterable[Skill], context_length: int | None) -> Tool:
    """The tool that reads these skills. It names them in at most MAX_SHARE of the context."""
    by_name = {each.name: each for each in skills}

    def skill(
        name: Annotated[str, "Name of the skill"],
        file: Annotated[str, "Another file of it, which its text names; default: its text"] = "",
    ) -> str:
        if name not in by_name:
            raise ToolError(f"there is no skill {name!r}; there are {', '.join(by_name)}")
        return _read_file(by_name[name], file) if file else by_name[name].text

    room = int((context_length or USUAL_CONTEXT) * MAX_SHARE * CHARS_PER_TOKEN)
    return tool(skill, risk="low", description=_describe(list(by_name.values()), room))


def _describe(skills: list[Skill], room: int) -> str:
    """The introduction, then names with descriptions; where `room` is small names alone, then as many as fit."""
    names = [each.name for each in skills]
    full = f"{INTRODUCTION} " + "; ".join(f"{each.name}: {each.description}" for each in skills)
    if len(full) <= room:
        return full
    short = f"{INTRODUCTION} {', '.join(names)}"
    while len(short) > room and names:
        names.pop()
        short = f"{INTRODUCTION} {', '.join([*names, 'and others: a wrong name lists all'])}"
    return short


def _list_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Each file that may be a skill or a command, with the name that its place gives it."""
    skills: list[Path] = []
    commands: list[Path] = []
    with suppress(OSError):  # a folder that may not be read, such as the home of another user
        skills = sorted((folder / "skills").glob("*/SKILL.md"))
    with suppress(OSError):
        commands = sorted((folder / "commands").glob("*.md"))
    yield from ((path, path.parent.name) for path in skills)
    yield from ((path, path.stem) for path in commands)


def _read_text(path: Path, top: Path | None) -> str:
    """Raises ValueError, which says what is wrong."""
    if top and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(top)):
        raise ValueError("a link leads out of the folder")
    try:
        if not path.is_file():
            raise ValueError("it is no file")
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            text = file.read(MAX_FILE_CHARS + 1)
    except OSError as error:
        raise ValueError(str(error.strerror)) from error
    if len(text) > MAX_FILE_CHARS:
        raise ValueError(f"it has more than {MAX_FILE_CHARS:,} characters")
    return text


def _read_skill(path: Path, name: str, top: Path | None) -> Skill:
    """Raises ValueError, which says what is wrong."""
    fields, body = _split(_read_text(path, top))
    is_command = path.name != "SKILL.md"
    if not is_command:
        name = fields.get("name", name)
    if not isinstance(name, str):
        raise ValueError("its name in the front matter is not one of letters, digits and hyphens")
    if not NAME.fullmatch(name):
        raise ValueError(f"its name {name[:80]!r} is not one of letters, digits and hyphens")
    description = fields.get("description", "")
    if not isinstance(description, str) or not (description.strip() or is_command):
        raise ValueError("its front matter has no description")
    if not body:
        raise ValueError("it has no text")
    line = " ".join((description or body.split("\n", 1)[0]).split())
    place = Path(os.path.realpath(path.parent), path.name)
    return Skill(name, line[:MAX_DESCRIPTION_CHARS], place, body, is_command)


def _split(text: str) -> tuple[dict[Any, Any], str]:
    """The front matter and the rest. Raises ValueError."""
    if not text.startswith("---"):
        return {}, text.strip()
    match = FRONT_MATTER.match(text)
    if match is None:
        raise ValueError("its front matter has no end (---)")
    try:
        fields = load_strict(f"\n{match[1]}")  # in place of the line with ---: errors name lines of the file
    except ValueError as error:
        raise ValueError(f"its front matter is not valid YAML: {error}") from error
    except RecursionError as error:
        raise ValueError("its front matter is nested too deeply") from error
    if not isinstance(fields, dict):
        raise ValueError("its front matter holds no names and values")
    return fields, text[match.end() :].strip()


def _read_file(skill: Skill, file: str) -> str:
    """Another file of a skill. Raises ToolError.

    It is opened without following a link: the folder itself may have become one since the skill was loaded.
    """
    folder = skill.path.parent
    relative = find_relative(file, folder)
    if relative is None or not (folder / relative).is_file():
        raise ToolError(f"{escape_name(file)} is no file of the skill {skill.name}")
    try:
        from_root = str(folder.relative_to(folder.anchor) / relative)
        with io.TextIOWrapper(open_file(Path(folder.anchor), from_root), "utf-8", "replace") as opened:
            return opened.read()
    except OSError as error:
        raise ToolError(f"{escape_name(file)} of the skill {skill.name} cannot be read") from error


def _fill(text: str, arguments: str) -> str:
    """The text with the arguments in their places; without a place for them, they follow it."""
    try:
        words = shlex.split(arguments)
    except ValueError:  # a quote without its end
        words = arguments.split()

    def find(match: re.Match[str]) -> str:
        if match[1] is None:
            return arguments
        place = int(match[1]) - 1
        return "".join(words[place : place + 1])

    filled, count = PLACEHOLDER.subn(find, text)
    if arguments and not count:
        filled += f"\n\n{arguments}"
    return filled
