"""Decides whether the rules allow a command line: each of its commands must be allowed and, to its last word, harmless.

A command with a row in src/security/shell/option_table.py is judged option by option. One without is judged by its
words: plain ones, none of which can be read as a path out of the workspace. A command that is word for word what a
rule says is the user's own, and is not judged. Denying is wide instead: see src/security/shell/deny.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..permissions.rules import Rule
from .globs import expand
from .launchers import LAUNCHERS, SHELL_BUILTINS, find_runner
from .option_table import ROWS, WRAPPERS
from .options import FileAccess, count_own_words, read_find, read_options
from .parse import parse_line
from .scanner import SimpleCommand, UnsafeToParse, is_name, split_words
from .workspace import Workspace, is_in_workspace

NO_LABEL = ""  # of a command that needs no rule beside one that does: `|| true`, `cd src`
KNOWN = frozenset({"find", *(name.split()[0] for name in ROWS)})
PLAIN = re.compile(r"[\w \-./:,=@%+#\[\]()^~*?'!]*")
NO_PATH = re.compile(r"[^\w\-./~+*?\[\]]+")  # separates the paths in a word: PATH=a:b, --file=x, @x
PATH_START = re.compile(r"/|\.\.")


class AllowedCommand(NamedTuple):
    """A command that a rule allows, by its first words, or as a whole line; `label` names the rule for people."""

    words: tuple[str, ...]
    label: str
    line: str = ""


class LineVerdict(NamedTuple):
    """`reason`: what allows the line, or why it is not known to be harmless."""

    is_allowed: bool
    reason: str
    label: str = ""


class JudgeContext(NamedTuple):
    """Where a command is judged: the workspace, PATH, whether a rule hides a path of the workspace, and why a path must
    not be written ("" if it may be).
    """

    workspace: Workspace
    path: str
    is_hidden: Callable[[str], bool]
    explain_protection: Callable[[str], str]

    def for_folders(self, command: SimpleCommand) -> Iterator[JudgeContext]:
        """The context in each folder that the command may run in."""
        return (self._replace(workspace=self.workspace.enter(folder)) for folder in command.folders)

    def require_readable(self, paths: Iterable[str]) -> None:
        """Raises UnsafeToParse for a path that leads out of the workspace, or that a rule hides."""
        for path in paths:
            relative = self.workspace.relative_or_none(path)
            if relative is None:
                raise UnsafeToParse(f"{path} is outside the workspace")
            if self.is_hidden(relative):
                raise UnsafeToParse(f"a rule denies reading {path}")

    def require_unprotected(self, paths: Iterable[str]) -> None:
        """Raises UnsafeToParse for a path that no tool may write, given to a command that may write it."""
        for path in paths:
            relative = self.workspace.relative_or_none(path)
            if relative and (why := self.explain_protection(relative)):
                raise UnsafeToParse(f"{path}: {why}")

    def require_program_outside(self, name: str) -> None:
        """Raises UnsafeToParse if the command may be a program of the workspace."""
        if is_in_workspace(name, self.path, self.workspace):
            raise UnsafeToParse(f"{name} may be a program in the workspace")


def make_entry(rule: Rule) -> AllowedCommand:
    if rule.exact:
        return AllowedCommand((), str(rule), rule.command.strip())
    return AllowedCommand(split_words(rule.command), str(rule))


def judge_line(line: object, entries: Sequence[AllowedCommand], context: JudgeContext) -> LineVerdict:
    """Whether the entries allow a command line."""
    if not isinstance(line, str):
        return LineVerdict(False, "there is no command")
    for entry in entries:
        if entry.line and entry.line == line.strip(" \t\n"):
            return LineVerdict(True, "it is allowed as it stands", entry.label)
    try:
        labels = dict.fromkeys(_find_label(command, entries, context) for command in parse_line(line))
    except UnsafeToParse as error:
        return LineVerdict(False, str(error))
    labels.pop(NO_LABEL, None)
    if not labels:
        return LineVerdict(False, "no rule allows it")
    return LineVerdict(True, "all of its commands are allowed, and stay in the workspace", ", ".join(labels))


def list_narrow_rules(line: object) -> list[Rule]:
    """Rules that might let a line run without asking, the narrowest first.

    A command with a row is allowed by its name, since the row limits what it may do; anything else as the line stands.
    """
    if not isinstance(line, str):
        return []
    try:
        names = dict.fromkeys(get_row_name(unwrap(command) or command) for command in parse_line(line))
    except UnsafeToParse:
        return []
    by_name = [Rule("exec", "allow", name) for name in names if name in ROWS or name == "find"]
    return [*by_name, Rule("exec", "allow", line.strip(" \t\n"), exact=True)]


def unwrap(command: SimpleCommand) -> SimpleCommand | None:
    """The command that `time`, `nice` and the like run, or git without --no-pager; None for any other command.

    Raises UnsafeToParse if it is not clear what is run.
    """
    if command.texts[:2] in (("git", "--no-pager"), ("git", "-P")):
        return command._replace(words=(command.words[0], *command.words[2:]))
    row = WRAPPERS.get(command.name)
    if row is None:
        return None
    own = 1 + count_own_words(command.name, row, command.texts[1:])
    if own == len(command.words) or any(word.is_glob for word in command.words[:own]):
        raise UnsafeToParse(f"it is not clear what {command.name} would run")
    inner = command._replace(words=command.words[own:])
    if not is_name(inner.words[0]) or (inner.name in SHELL_BUILTINS and get_row_name(inner) not in ROWS):
        raise UnsafeToParse(f"{inner.name!a} is not a plain program name")
    return inner


def get_row_name(command: SimpleCommand) -> str:
    """The name of the command's row, if it has one. That of its sub-command comes first."""
    both = " ".join(command.texts[:2])
    return both if both in ROWS else command.name


def _find_label(command: SimpleCommand, entries: Sequence[AllowedCommand], context: JudgeContext) -> str:
    """The label of the entry that allows the command. Raises UnsafeToParse if none does."""
    if command.name == "cd":
        _require_folder(command, context)
        return NO_LABEL
    error = UnsafeToParse(f"no rule allows {command.name}")
    for entry in entries:
        if entry.words and command.texts[: len(entry.words)] == entry.words:
            try:
                for place in context.for_folders(command):
                    _require_harmless(command, entry.words, place)
            except UnsafeToParse as unsafe:
                error = unsafe
            else:
                return entry.label
    if command.texts in (("true",), ("false",)):
        return NO_LABEL
    inner = unwrap(command)
    if inner is None:
        raise error
    context.require_program_outside(command.name)
    return _find_label(inner, entries, context)


def _require_folder(change: SimpleCommand, context: JudgeContext) -> None:
    """Raises UnsafeToParse unless a `cd` leads to a folder of the workspace, wherever it starts."""
    folder = change.words[1].text
    for place in context.for_folders(change):
        place.require_readable([folder, *(word.text for word in change.reads)])
        if not place.workspace.is_folder(folder):
            raise UnsafeToParse(f"there is no folder {folder}")
        if not place.workspace.has_no_symlinks(folder):
            raise UnsafeToParse(f"{folder} leads through a link")


def _require_harmless(command: SimpleCommand, ruled: Sequence[str], context: JudgeContext) -> None:
    """Raises UnsafeToParse unless the command is harmless in this folder. `ruled`: its first words, as in the rule."""
    context.require_readable(word.text for word in command.reads)
    if command.name == "git" and context.workspace.has_own_repository():
        raise UnsafeToParse("git may take a folder of the workspace for a repository, and run what its settings say")
    if _is_users_own(command, ruled):
        if command.name in KNOWN:
            context.require_program_outside(command.name)
        return
    if command.name in LAUNCHERS:
        raise UnsafeToParse(f"{command.name} runs what it is given, so a rule must name all of its words")
    name = get_row_name(command).split()
    words = [text for word in command.words[len(name) :] for text in expand(word, context.workspace)]
    access = _read_arguments(name, words, ruled, context)
    context.require_readable(access.paths)
    if access.follows_links and not context.workspace.has_no_link_out(access.roots):
        raise UnsafeToParse(f"{command.name} would follow a link out of the workspace")


def _is_users_own(command: SimpleCommand, ruled: Sequence[str]) -> bool:
    """Whether a rule has all of its words. A shell's name alone does not say what it would run."""
    if command.folders != (".",):
        return False  # the user's words are meant for the workspace's own folder
    says_enough = len(ruled) > 1 or command.name not in LAUNCHERS | SHELL_BUILTINS
    return says_enough and command.texts == tuple(ruled) and not any(word.is_glob for word in command.words)


def _read_arguments(
    name: Sequence[str], words: Sequence[str], ruled: Sequence[str], context: JudgeContext
) -> FileAccess:
    row = ROWS.get(" ".join(name))
    is_find = tuple(name) == ("find",)
    if row is None and not is_find:
        _require_plain(name[0], words, ruled, context)
        pieces = [piece for word in words for piece in _list_possible_paths(word)]
        context.require_unprotected(pieces)
        return FileAccess(pieces)
    context.require_program_outside(name[0])
    return read_find(words) if row is None else read_options(" ".join(name), row, words, context.workspace)


def _require_plain(name: str, words: Sequence[str], ruled: Sequence[str], context: JudgeContext) -> None:
    """For a command that has no row, only a rule of the user's."""
    if name in SHELL_BUILTINS:
        raise UnsafeToParse(f"{name} changes the shell itself, or runs what it is given")
    if any(not folder.startswith("/") for folder in context.path.split(":")):
        raise UnsafeToParse("PATH contains a relative folder")
    if name == "git" and (len(ruled) < 2 or any(word.startswith("-") for word in words[len(ruled) - 1 :])):
        raise UnsafeToParse("it is not known what git does with that, and no rule allows it word for word")
    if name == "ln":
        raise UnsafeToParse("where a link leads depends on where it is made, so a rule must name all of its words")
    if word := find_runner(name, words[len(ruled) - 1 :]):
        raise UnsafeToParse(f"{name} {word} runs what it is given, so a rule must name it")
    for word in words:
        if not PLAIN.fullmatch(word):
            raise UnsafeToParse(f"{word!a} is not a plain word, and it is not known what {name} does with it")


def _list_possible_paths(word: str) -> list[str]:
    """Every part of a word that may be a path: all of it, what follows `=` or another sign, what follows `-o`."""
    pieces = [piece for piece in NO_PATH.split(word) if piece]
    behind = [piece[at:] for piece in pieces if piece.startswith("-") for at in _list_path_starts(piece)]
    return [word, *pieces, *behind, *(f"/{piece}" for piece in pieces if piece.startswith("~"))]


def _list_path_starts(option: str) -> list[int]:
    return [2, *(match.start() for match in PATH_START.finditer(option))]
