"""What in a git repository's configuration runs nothing. Pure.

git runs programs that its configuration names (core.fsmonitor, filters, aliases, ...), and reads more configuration
from elsewhere (include.path). New versions add to them, so this is a closed list of what is kept. Source: git-config(1)
of git 2.47.
"""

from __future__ import annotations

from collections.abc import Callable

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
    """`text`: the lines that run nothing; `dropped`: the names of the others."""

    text: str
    dropped: tuple[str, ...]


def clean_config(
    text: str, trusted: str = "", is_inside: Callable[[str], bool] = lambda _worktree: False
) -> SafeConfig:
    """The part of a configuration that runs nothing, or that `trusted`, an earlier one, has as well.

    `is_inside`: whether a core.worktree is in the workspace; by default none is.
    """
    trusted_settings = {(name, value) for _line, name, value in _read_entries(trusted)}
    lines: list[str] = []
    dropped: list[str] = []
    for line, name, value in _read_entries(text):
        if name is None:
            dropped.append(line.strip()[:60])
        elif not name or (name, value) in trusted_settings or _is_harmless(name, value, is_inside):
            lines.append(f"{line}\n")
        else:
            dropped.append(name)
    return SafeConfig("".join(lines), tuple(dropped))


def find_value(text: str, name: str) -> str | None:
    """The last value of an entry, without its quotes."""
    for _line, setting, value in reversed(_read_entries(text)):
        if setting == name:
            return value.strip('"')
    return None


def _read_entries(text: str) -> list[tuple[str, str | None, str]]:
    """Each line with the name that git writes, such as `remote.origin.url`, and the value.

    The name is None if the line is not of the usual form, and "" if it is no setting.
    """
    entries: list[tuple[str, str | None, str]] = []
    section = ""
    for line in text.split("\n"):
        if not line.strip() or line.lstrip()[0] in "#;":
            entries.append((line, "", ""))
        elif heading := SECTION.fullmatch(line):
            section = heading[1].lower() + ("" if heading[2] is None else f".{heading[2]}")
            entries.append((line, "", ""))
        elif (setting := ENTRY.fullmatch(line)) and not line.rstrip().endswith("\\") and section:
            entries.append((line, f"{section}.{setting[1].lower()}", setting[2] or ""))
        else:
            entries.append((line, None, ""))
    return entries


def _is_harmless(name: str, value: str, is_inside: Callable[[str], bool]) -> bool:
    is_readable = not name.endswith(PLACES) or PLACE.fullmatch(value) is not None
    leads_out = name == "core.worktree" and not is_inside(value.strip('"'))
    return is_readable and not leads_out and HARMLESS.fullmatch(name) is not None
