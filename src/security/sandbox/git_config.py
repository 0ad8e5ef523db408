"""What in a git repository's configuration runs nothing. Pure.

git runs programs that its configuration names (core.fsmonitor, filters, aliases, ...), and reads more configuration
from elsewhere (include.path). New versions add to them, so this is a closed list of what is kept. Source: git-config(1)
of git 2.47.
"""

from __future__ import annotations

from msgspec import Struct

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


class SafeConfig(Struct, frozen=True):
    """`text`: the lines that run nothing; `dropped`: the names of the others; `worktrees`: values of core.worktree."""

    text: str
    dropped: tuple[str, ...]
    worktrees: tuple[str, ...] = ()


def clean_config(text: str, trusted: str = "") -> SafeConfig:
    """The part of a configuration that runs nothing, or that `trusted`, an earlier one, has as well."""
    known = {(name, value) for _line, name, value in _read_entries(trusted)}
    lines: list[str] = []
    dropped: list[str] = []
    worktrees: list[str] = []
    for line, name, value in _read_entries(text):
        is_new = (name, value) not in known
        if name is None:
            dropped.append(line.strip()[:60])
        elif name and is_new and not _is_harmless(name, value):
            dropped.append(name)
        else:
            lines.append(f"{line}\n")
            if name == "core.worktree" and is_new:
                worktrees.append(value)
    return SafeConfig("".join(lines), tuple(dropped), tuple(worktrees))


def find_value(text: str, name: str) -> str | None:
    """The last value of an entry, without its quotes."""
    for _line, found, value in reversed(_read_entries(text)):
        if found == name:
            return value.strip('"')
    return None


def _read_entries(text: str) -> list[tuple[str, str | None, str]]:
    """Each line with the name that git writes, such as `remote.origin.url`, and the value.

    The name is None if the line is not of the usual form, and "" if it is no setting.
    """
    found: list[tuple[str, str | None, str]] = []
    section = ""
    for line in text.split("\n"):
        if not line.strip() or line.lstrip()[0] in "#;":
            found.append((line, "", ""))
        elif heading := SECTION.fullmatch(line):
            section = heading[1].lower() + ("" if heading[2] is None else f".{heading[2]}")
            found.append((line, "", ""))
        elif (setting := ENTRY.fullmatch(line)) and not line.rstrip().endswith("\\") and section:
            found.append((line, f"{section}.{setting[1].lower()}", setting[2] or ""))
        else:
            found.append((line, None, ""))
    return found


def _is_harmless(name: str, value: str) -> bool:
    is_readable = not name.endswith(PLACES) or PLACE.fullmatch(value) is not None
    return is_readable and HARMLESS.fullmatch(name) is not None
