"""May this command of a line run without asking? What its row permits, and nothing outside the workspace.

A command with a row in src/security/shell/option_table.py is judged option by option. One that a rule allows and
that has no row is judged by its words: plain ones, none of which can be read as a path that leads out of the
workspace. A command that is word for word what the rule says is the user's own, and is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from .globs import expand
from .launchers import running
from .option_table import LAUNCHING, ROWS
from .options import Given, own_words, read_find, read_options
from .parse import Command, is_name
from .unclear import Unclear
from .workspace import Ground, in_workspace

KNOWN = frozenset({"find", *(name.split()[0] for name in ROWS)})
PLAIN = re.compile(r"[\w \-./:,=@%+#\[\]()^~*?'!]*")
NO_PATH = re.compile(r"[^\w\-./~+*?\[\]]+")  # what separates paths in a word: PATH=a:b, --file=x, @x
PATH_START = re.compile(r"/|\.\.")
_SHELLS = "sh bash dash zsh ksh mksh fish csh tcsh busybox toybox rbash"
_LAUNCHERS = (
    "env xargs nice nohup timeout time sudo doas su runuser setsid stdbuf ionice chrt taskset chroot unshare nsenter"
    " strace ltrace gdb watch parallel flock script expect ssh systemd-run firejail bwrap prlimit setpriv npx uvx pipx"
    " bunx entr unbuffer catchsegv dbus-run-session xvfb-run fakeroot proot nsjail vi vim nvim view ex ed emacs nano"
    " less more most"
)
_OF_THE_SHELL = (
    ". source eval exec command builtin export declare typeset local readonly alias unalias hash enable trap set shopt"
    " let test [ printf read mapfile readarray getopts unset cd pushd popd dirs umask ulimit bind complete compgen"
    " compopt history fc coproc exit return logout break continue shift suspend disown"
)
SHELLS = frozenset(_SHELLS.split())
LAUNCHERS = SHELLS | frozenset(_LAUNCHERS.split())
OF_THE_SHELL = frozenset(_OF_THE_SHELL.split())  # run or evaluate what they are given, or change what later words mean


class View(NamedTuple):
    """What a command is judged in: the workspace, the PATH, which paths in the workspace must not be read, and why
    one must not be written, if so.
    """

    ground: Ground
    path: str
    is_hidden: Callable[[str], bool]
    protected: Callable[[str], str]

    def of(self, command: Command) -> Iterator[View]:
        """What the command is judged in, for each folder that it may run in."""
        return (self._replace(ground=self.ground.at(folder)) for folder in command.folders)

    def check(self, paths: Iterable[str]) -> None:
        """Unclear for a path that leads out of the workspace, or that a rule hides."""
        for path in paths:
            where = self.ground.where(path)
            if where is None:
                raise Unclear(f"{path} is outside the workspace")
            if self.is_hidden(where):
                raise Unclear(f"a rule denies reading {path}")

    def check_unwritten(self, paths: Iterable[str]) -> None:
        """Unclear for a path that no file tool may write, given to a command that may write it."""
        for path in paths:
            if (where := self.ground.where(path)) and (why := self.protected(where)):
                raise Unclear(f"{path}: {why}")


def require_harmless(command: Command, ruled: Sequence[str], view: View) -> None:
    """Unclear unless the command, whose first words a rule has as `ruled`, is harmless wherever it may run."""
    for place in view.of(command):
        _require_harmless(command, ruled, place)


def require_inside(change: Command, view: View) -> None:
    """Unclear unless a `cd` of one word leads into the workspace, to a folder that is there, wherever it starts."""
    folder = change.words[1].text
    for place in view.of(change):
        place.check([folder, *(word.text for word in change.reads)])
        if not place.ground.is_folder(folder):
            raise Unclear(f"there is no folder {folder}")
        if not place.ground.is_met_without_links(folder):
            raise Unclear(f"{folder} leads through a link")


def launched(command: Command) -> Command | None:
    """What a command runs that only runs another, and git without its --no-pager; None where it is no such.

    Unclear where that is not clear.
    """
    if command.texts[:2] in (("git", "--no-pager"), ("git", "-P")):
        return command._replace(words=(command.words[0], *command.words[2:]))
    row = LAUNCHING.get(command.name)
    if row is None:
        return None
    own = 1 + own_words(command.name, row, command.texts[1:])
    if own == len(command.words) or any(word.is_glob for word in command.words[:own]):
        raise Unclear(f"it is not clear what {command.name} would run")
    inner = command._replace(words=command.words[own:])
    if not is_name(inner.words[0]) or (inner.name in OF_THE_SHELL and row_of(inner) not in ROWS):
        raise Unclear(f"{inner.name!a} is not a plain program name")
    return inner


def require_systems_own(name: str, view: View) -> None:
    if in_workspace(name, view.path, view.ground):
        raise Unclear(f"{name} may be a program in the workspace")


def row_of(command: Command) -> str:
    """The name of the command's row, if it has one: that of its sub-command comes first."""
    both = " ".join(command.texts[:2])
    return both if both in ROWS else command.name


def _require_harmless(command: Command, ruled: Sequence[str], view: View) -> None:
    view.check(word.text for word in command.reads)
    if command.name == "git" and view.ground.has_repository_of_its_own():
        raise Unclear("git may take a folder of the workspace for a repository, and run what its settings say")
    if _is_own(command, ruled):
        if command.name in KNOWN:
            require_systems_own(command.name, view)
        return
    if command.name in LAUNCHERS:
        raise Unclear(f"{command.name} runs what it is given, so a rule must name all of its words")
    name = row_of(command).split()
    words = [text for word in command.words[len(name) :] for text in expand(word, view.ground)]
    given = _given(name, words, ruled, view)
    view.check(given.paths)
    if given.follows and not view.ground.is_closed(given.tops):
        raise Unclear(f"{command.name} would follow a link out of the workspace")


def _is_own(command: Command, ruled: Sequence[str]) -> bool:
    """Whether it is the user's own words; a shell's name alone says nothing of what it would run."""
    says_enough = len(ruled) > 1 or command.name not in LAUNCHERS | OF_THE_SHELL
    if command.folders != (".",):
        return False  # the user's words are meant for the workspace's own folder
    return says_enough and command.texts == tuple(ruled) and not any(word.is_glob for word in command.words)


def _given(name: Sequence[str], words: Sequence[str], ruled: Sequence[str], view: View) -> Given:
    row = ROWS.get(" ".join(name))
    is_find = tuple(name) == ("find",)
    if row is None and not is_find:
        _refuse_unknown(name[0], words, ruled, view)
        pieces = [piece for word in words for piece in _pieces(word)]
        view.check_unwritten(pieces)
        return Given(pieces)
    require_systems_own(name[0], view)
    return read_find(words) if row is None else read_options(" ".join(name), row, words, view.ground)


def _refuse_unknown(name: str, words: Sequence[str], ruled: Sequence[str], view: View) -> None:
    """For a command that is known by nothing but a rule of the user's."""
    if name in OF_THE_SHELL:
        raise Unclear(f"{name} changes the shell itself, or runs what it is given")
    if any(not folder.startswith("/") for folder in view.path.split(":")):
        raise Unclear("PATH contains a relative folder")
    if name == "git" and (len(ruled) < 2 or any(word.startswith("-") for word in words[len(ruled) - 1 :])):
        raise Unclear("it is not known what git does with that, and no rule allows it word for word")
    if name == "ln":
        raise Unclear("where a link leads depends on where it is made, so a rule must name all of its words")
    if word := running(name, words[len(ruled) - 1 :]):
        raise Unclear(f"{name} {word} runs what it is given, so a rule must name it")
    for word in words:
        if not PLAIN.fullmatch(word):
            raise Unclear(f"{word!a} is not a plain word, and it is not known what {name} does with it")


def _pieces(word: str) -> list[str]:
    """All of a word that may be a path: itself, what follows an = or another sign, what follows -o."""
    pieces = [piece for piece in NO_PATH.split(word) if piece]
    behind = [piece[at:] for piece in pieces if piece.startswith("-") for at in _path_starts(piece)]
    return [word, *pieces, *behind, *(f"/{piece}" for piece in pieces if piece.startswith("~"))]


def _path_starts(option: str) -> list[int]:
    return [2, *(match.start() for match in PATH_START.finditer(option))]
