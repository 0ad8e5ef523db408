"""What in a git repository's configuration runs nothing. Pure.

git runs programs that its configuration names (core.fsmonitor, filters, aliases, ...), and reads more configuration
from elsewhere (include.path). New versions add to them, so this is a closed list of what is kept. Source: git-config(1)
of git 2.47.
"""

from __future__ import annotations

from typing import NamedTuple

from ...types.lazy_pattern import LazyPattern

SECTION = LazyPattern(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\\n]|\\.)*)")?\s*\]\s*')
ENTRY = LazyPattern(r"\s*([A-Za-z][\w-]*)\s*(?:=\s*(.*?))?\s*")
HARMLESS = LazyPattern(  # names of settings
    r"advice\..+|branch\..+\.(?:remote|merge|rebase|description|pushremote)"
    r"|core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|compression|quotepath|abbrev|bigfilethreshold|sharedrepository|worktree|whitespace|untrackedcache)"
    r"|extensions\.(?:worktreeconfig|objectformat|partialclone|refstorage|compatobjectformat)"
    r"|init\.defaultbranch|merge\.(?:ff|conflictstyle)|pull\.(?:rebase|ff)"
    r"|push\.(?:default|autosetupremote|followtags)|remote\.pushdefault"
    r"|remote\..+\.(?:url|pushurl|fetch|push|prune|tagopt|mirror|promisor|partialclonefilter|skipdefaultupdate)"
    r"|submodule\.(?:recurse|active)|submodule\..+\.(?:url|active|branch|ignore|fetchrecursesubmodules)"
    r"|user\.(?:name|email|signingkey|useconfigonly)"
)
PLACES = (".url", ".pushurl", "core.worktree")  # entries whose value must be read as git does
PLACE = LazyPattern(r'(?!.*::)(?:"[^"\\\0]*"|[^"\\#;\0]*)')  # git runs a program to reach an address with ::


class GitEntry(NamedTuple):
    """`name`: as git writes it, such as `remote.origin.url`."""

    name: str
    value: str


class SafeConfig(NamedTuple):
    """`text`: the lines that run nothing; `dropped`: the names of the others; `worktrees`: values of core.worktree."""

    text: str
    dropped: tuple[str, ...]
    worktrees: tuple[str, ...] = ()


def clean_config(text: str, trusted: str = "") -> SafeConfig:
    """The part of a configuration that runs nothing, or that `trusted`, an earlier one, has as well."""
    known = {entry for _line, entry in _read_entries(trusted) if entry}
    lines: list[str] = []
    dropped: list[str] = []
    worktrees: list[str] = []
    for line, entry in _read_entries(text):
        if entry is None:
            dropped.append(line.strip()[:60])
        elif entry.name and entry not in known and not _is_harmless(entry):
            dropped.append(entry.name)
        else:
            lines.append(f"{line}\n")
            if entry.name == "core.worktree" and entry not in known:
                worktrees.append(entry.value)
    return SafeConfig("".join(lines), tuple(dropped), tuple(worktrees))


def find_value(text: str, name: str) -> str | None:
    """The last value of an entry, without its quotes."""
    for _line, entry in reversed(_read_entries(text)):
        if entry and entry.name == name:
            return entry.value.strip('"')
    return None


def _read_entries(text: str) -> list[tuple[str, GitEntry | None]]:
    """Each line with its entry: None if it is not of the usual form; an entry without a name is no setting."""
    found: list[tuple[str, GitEntry | None]] = []
    section = ""
    for line in text.split("\n"):
        if not line.strip() or line.lstrip()[0] in "#;":
            found.append((line, GitEntry("", "")))
        elif heading := SECTION.fullmatch(line):
            section = heading[1].lower() + ("" if heading[2] is None else f".{heading[2]}")
            found.append((line, GitEntry("", "")))
        elif (setting := ENTRY.fullmatch(line)) and not line.rstrip().endswith("\\") and section:
            found.append((line, GitEntry(f"{section}.{setting[1].lower()}", setting[2] or "")))
        else:
            found.append((line, None))
    return found


def _is_harmless(entry: GitEntry) -> bool:
    is_place = entry.name.endswith(PLACES)
    return HARMLESS.fullmatch(entry.name) is not None and not (is_place and not PLACE.fullmatch(entry.value))
