"""Lists the files that the redirections of a command line write, by their names and the folders they may be in.

A redirection is looked for wherever it may be, also in lines that the strict reader refuses, and in text that a shell
may be given. What cannot be known is None: a file of any name, a folder of any place. What a program writes by
itself, as `tee` and every script do, is not seen.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, pairwise

from ...types.file_names import UNPASSABLE
from ...types.lazy_pattern import LazyPattern
from .reader import MAX_LINE_CHARS, ReadWord, Token, list_tokens, split_names

Folders = Sequence[str | None]
MAX_DEPTH = 5  # command lines inside command lines
MAX_FOLDERS = 32  # from which a redirection is resolved
COMMAND_ENDS = (";", "&", "&&", "||", "|", "|&", "\n", "")
ENTERING = ("cd", "pushd", "popd")
ENTERING_OPTION = LazyPattern(r"-[a-z0]*C.*|-D|-(?:exec|ok)dir|--(?:ch|cw|dir|wd|work|pre)[\w-]*(?:=.*)?")
LOOPS = ("for", "while", "until", "select")
RUNNING_HERE = ("eval", "trap", "alias", "mapfile", "readarray")  # builtins whose text runs in the shell itself
SOURCING = (".", "source")
_RUNNING = (
    "eval trap alias mapfile readarray sh ash bash dash zsh ksh mksh csh tcsh fish rbash busybox env su sudo doas"
    " runuser watch parallel flock script unshare nsenter chroot tmux crontab hyperfine submodule rebase SHELL BASH"
)
RUNNING = frozenset(_RUNNING.split())  # names of what takes a command line as a word or as its input
RUNNING_AS_NAME = (*SOURCING, "at", "batch")  # those that are usual words elsewhere
REPLACING_OPTION = LazyPattern(r"-[0rt]*I(.*)|--replace=(.+)")  # of xargs: the sign in place of which a name is put


def list_written_files(line: str) -> Iterator[str | None]:
    """The files that the redirections of a line write; None for one that is known only when the line runs.

    After a `cd`, a file is listed for each folder that it may be in. Lines that are given to a shell count as well.
    """
    return _list_files(line, [""], MAX_DEPTH)


def _list_files(line: str, folders: Folders, depth: int) -> Iterator[str | None]:
    """`folders`: where the line may start; `depth`: how many lines may be in one another in it."""
    if ">" not in line:
        return
    if depth < 0 or len(line) > MAX_LINE_CHARS or UNPASSABLE.search(line):
        yield None
        return
    tokens = [*list_tokens(line, is_bash=depth == MAX_DEPTH)]
    folders_at = _Walk(tokens, folders).list_folders()
    for token, folders_here in zip(tokens, folders_at, strict=True):
        if token.word and ">" in token.operator:
            name = _get_known_text(token.word)
            yield from dict.fromkeys(_join(folder, name) for folder in folders_here)
    inner_folders = _find_inner_folders(tokens, folders_at)
    for text in _list_given_texts(tokens):
        yield from _list_files(text, inner_folders, depth - 1)


def _find_inner_folders(tokens: Sequence[Token], found: Sequence[Folders]) -> Folders:
    """Where text in a line may run: at any time, so in each folder that the line enters."""
    if any(ENTERING_OPTION.fullmatch(token.word.text) for token in tokens if token.word):
        return [None]
    return [*dict.fromkeys(chain(*found))]


class _Walk:
    """Goes through a line, and finds the folders that each command may run in.

    A program that is not known, and text that runs in the shell itself, may enter any from the next command on.
    """

    def __init__(self, tokens: Sequence[Token], folders: Folders) -> None:
        self._tokens = tokens
        self._folders = folders
        self._outer: list[tuple[Folders, bool]] = []  # of the parts in ( ) that are open: _folders and _is_leaving
        self._is_entering = False  # whether the next word is the folder of a `cd`
        self._is_sourcing = False  # whether the next word is the file of a `source`
        self._is_leaving = False  # whether this command may enter any folder
        self._loops = 0  # that are open
        self._has_function = False
        self._has_case = any(token.word.text == "case" for token in tokens if token.word)  # a ) may end a pattern
        self._has_search_path = any("CDPATH" in split_names(token.word.text) for token in tokens if token.word)

    def list_folders(self) -> list[Folders]:
        """The folders for each token."""
        folders: list[Folders] = []
        for token in self._tokens:
            folders.append(self._folders)
            if token.operator and token.word:
                continue  # the target of a redirection
            name = _get_known_text(token.word)
            self._enter(token, name)
            if self._folders != folders[-1] and (self._loops or self._has_function):
                return [[None]] * len(self._tokens)  # what stands before may run after it
            self._open_or_close(token.operator)
            self._is_entering = self._is_entering or name in ENTERING
            self._is_sourcing = _names(token, SOURCING)
            self._is_leaving = self._is_leaving or _is_unknown_program(token) or _names(token, RUNNING_HERE)
            self._follow_loops(token)
        return folders

    def _enter(self, token: Token, name: str | None) -> None:
        if self._is_entering and not re.fullmatch("-.+", name or ""):
            self._is_entering = False
            self._add_folder(None if name == "-" or self._has_search_path else name)
        # A file, as bin/activate, could write by itself as well, and is not read. What a line gives to `source` is.
        if self._is_sourcing and (name is None or name.startswith(("/dev/", "/proc/"))):
            self._is_leaving = True
        if self._is_leaving and not token.word and token.operator in COMMAND_ENDS:
            self._is_leaving = False
            self._folders = [None]

    def _add_folder(self, name: str | None) -> None:
        """A command may enter it. It may as well stay where it is."""
        entered = (_join(folder, name) for folder in self._folders)
        self._folders = [*dict.fromkeys([*self._folders, *entered])]
        if len(self._folders) > MAX_FOLDERS:
            self._folders = [None]

    def _follow_loops(self, token: Token) -> None:
        if _names(token, LOOPS, "reserved"):
            self._loops += 1
        elif _names(token, ("done",), "reserved") and self._loops:
            self._loops -= 1
        elif token.operator == "()" or _names(token, ("function",), "reserved"):
            self._has_function = True

    def _open_or_close(self, operator: str) -> None:
        if self._has_case:
            return
        if operator in ("(", "<(", ">("):
            self._outer.append((self._folders, self._is_leaving))
            self._is_leaving = False
        elif operator == ")":
            self._folders, self._is_leaving = self._outer.pop()


def _list_given_texts(tokens: Sequence[Token]) -> Iterator[str]:
    """The words that a shell may get as a command line, and the here-documents on a line that names one."""
    signs = _list_replaced_signs(tokens)
    is_for_shell = any(map(_may_be_shell, tokens))
    names_shell = named_shell = False  # whether this line of several names a shell, and the one before
    for token in tokens:
        if token.operator == "\n":
            names_shell, named_shell = False, names_shell
        names_shell = names_shell or _may_be_shell(token)
        is_given = named_shell if token.operator == "<<" else is_for_shell and ">" not in token.operator
        if token.word and is_given:
            yield _replace_signs(token.word.text, signs)


def _may_be_shell(token: Token) -> bool:
    """Whether a word names what runs text, wherever it stands, or a program that is not known."""
    if token.word is None or token.operator:
        return False
    if _names(token, RUNNING_AS_NAME) or _is_unknown_program(token):
        return True
    return any(name.rstrip("0123456789.-") in RUNNING for name in split_names(token.word.text))


def _names(token: Token, names: Collection[str], role: str = "name") -> bool:
    return token.role == role and _get_known_text(token.word) in names


def _is_unknown_program(token: Token) -> bool:
    return token.role == "name" and _get_known_text(token.word) is None


def _replace_signs(text: str, signs: Sequence[str]) -> str:
    """The text with something unknown in place of each sign."""
    for sign in signs:
        text = text.replace(sign, "$x")
    return text


def _list_replaced_signs(tokens: Sequence[Token]) -> list[str]:
    words = [token.word.text for token in tokens if token.word]
    pairs = [(REPLACING_OPTION.fullmatch(each), following) for each, following in pairwise([*words, ""])]
    return [*filter(None, (found[1] or found[2] or following for found, following in pairs if found))]


def _get_known_text(word: ReadWord | None) -> str | None:
    if word is None or word.unknown or word.is_glob:
        return None
    return word.text


def _join(folder: str | None, name: str | None) -> str | None:
    """Where a file of this name is, if it is opened in the folder; None if that is not known."""
    if name is None or (folder is None and not name.startswith("/")):
        return None
    return posixpath.join(folder or "", name)
