"""What a glob may stand for; tests/security/shell/test_differential.py compares it with real shells."""

from __future__ import annotations

from pathlib import Path

import pytest

from src.security.shell.globs import MAX_WORDS, expand
from src.security.shell.parse import parse_line
from src.security.shell.scanner import UnsafeToParse
from src.security.shell.workspace import Workspace

NAMES = ("a", "b", "é", "ab", ".hidden", "sub/c")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return Workspace(tmp_path)


def expand_text(text: str, workspace: Workspace) -> list[str]:
    return sorted(expand(parse_line(f"echo {text}")[0].words[1], workspace))


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("?", ["a", "b", "é"]),
        ("[a-b]", ["a", "b", "é"]),  # as in a locale in which a range has other letters
        ("[!a-b]", ["a", "b", "é"]),
        ("[b-a]", [".", "..", ".hidden", "a", "ab", "b", "sub", "é"]),  # not understood: it may match anything
        ("[[:alpha:]]", [".", "a", "b", "é"]),  # a class counts as any one character
        ("s*/[c]", ["sub/c"]),
        ("s*/'c'", ["sub/c"]),
        (".h*", [".hidden"]),
        ("none*", ["none*"]),
        ("'*'", ["*"]),
    ],
)
def test_a_glob_stands_for_these_names(glob, expected, workspace):
    assert expand_text(glob, workspace) == expected


def test_a_glob_that_matches_too_much_is_not_judged(tmp_path):
    for number in range(MAX_WORDS + 1):
        (tmp_path / str(number)).touch()
    with pytest.raises(UnsafeToParse, match="matches more than 2,000 files"):
        expand_text("*", Workspace(tmp_path))


def test_a_name_that_looks_like_an_option_is_not_judged(workspace, tmp_path):
    (tmp_path / "-R").touch()
    with pytest.raises(UnsafeToParse, match="looks like an option"):
        expand_text("*", workspace)


@pytest.mark.parametrize("glob", ["../*", "/etc/*", "sub/../../*"])
def test_a_glob_of_outside_is_refused(glob, workspace):
    with pytest.raises(UnsafeToParse, match="is outside the workspace"):
        expand_text(glob, workspace)
