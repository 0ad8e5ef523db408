"""What `@` finds, of which files."""

import os
import subprocess

import pytest

from src.cli.chat.input.file_search import MAX_MATCHES, MIN_AGE_S, FileIndex, list_paths, match_paths
from tests.each import check_rows


@pytest.fixture
def root(tmp_path):
    (tmp_path / "deep" / "inner").mkdir(parents=True)
    (tmp_path / "deep" / "inner" / "scanner.py").touch()
    (tmp_path / "README.md").touch()
    return tmp_path


def git(root, *arguments):
    subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(root):
    git(root, "init")
    (root / ".gitignore").write_text("*.log\n")
    (root / "noise.log").touch()
    (root / ".github").mkdir()
    (root / ".github" / "ci.yml").touch()
    git(root, "add", "README.md")
    return root


FOUND = ["README.md", "deep/", "deep/inner/", "deep/inner/scanner.py"]


def test_without_git_the_folders_are_walked(root):
    (root / ".cache").mkdir()
    (root / ".cache" / "x").touch()
    (root / "node_modules").mkdir()
    (root / "node_modules" / "x").touch()
    assert sorted(list_paths(root)) == FOUND


def test_git_lists_tracked_and_new_files_and_no_ignored_ones(repository):
    assert sorted(list_paths(repository)) == [".github/", ".github/ci.yml", ".gitignore", *FOUND]


def test_only_what_is_below_the_folder_is_listed(repository):
    assert sorted(list_paths(repository / "deep")) == ["inner/", "inner/scanner.py"]


def test_a_folder_that_git_ignores_is_walked(repository):
    (repository / ".gitignore").write_text("deep\n")
    assert sorted(list_paths(repository / "deep")) == ["inner/", "inner/scanner.py"]


def test_no_program_of_the_repository_runs(repository, tmp_path):
    git(repository, "config", "core.fsmonitor", f"touch {tmp_path / 'ran'}; false")
    assert list_paths(repository)
    assert not (tmp_path / "ran").exists()


def test_odd_names_are_found(repository):
    (repository / "new\nline.txt").touch()
    (repository / os.fsdecode(b"caf\xe9.txt")).touch()
    index = FileIndex(repository)
    assert index.search("newline") == ["new\nline.txt"]
    assert index.search("caf") == [os.fsdecode(b"caf\xe9.txt")]


PATHS = ["src/parse.py", "src/stream/parser.py", "tests/test_parser.py", "src/pa/rx/se.txt", "docs/spare.md", "parser/"]


@check_rows(
    "typed, found",
    [
        ("parser", ["parser/", "src/stream/parser.py", "tests/test_parser.py"]),
        ("PARSE.", ["src/parse.py"]),
        ("srcpy", ["src/parse.py", "src/stream/parser.py"]),
        ("src/str", ["src/stream/parser.py"]),
        ("sp", ["docs/spare.md", "src/parse.py", "src/stream/parser.py", "tests/test_parser.py", "src/pa/rx/se.txt"]),
        ("xyz", []),
        ("[.*", []),
    ],
)
def test_characters_in_their_order_match_and_the_name_counts_most(typed, found):
    assert [path for path in match_paths(typed, PATHS) if path in found] == found
    assert set(match_paths(typed, PATHS)) >= set(found)
    assert bool(match_paths(typed, PATHS)) == bool(found)


def test_the_list_is_kept_for_some_seconds(root):
    times = [0.0]
    index = FileIndex(root, lambda: times[0])
    assert index.search("new") == []
    (root / "new.txt").touch()
    assert index.search("new") == []
    times[0] += MIN_AGE_S
    assert index.search("new") == ["new.txt"]


def test_a_file_that_is_gone_is_not_offered(repository):
    git(repository, "add", "deep")
    index = FileIndex(repository)
    assert index.search("scanner") == ["deep/inner/scanner.py"]
    (repository / "deep" / "inner" / "scanner.py").unlink()
    assert index.search("scanner") == []


def test_there_are_only_so_many(root):
    for number in range(MAX_MATCHES + 10):
        (root / f"same{number}").touch()
    assert len(FileIndex(root).search("same")) == MAX_MATCHES


def test_a_git_in_the_workspace_is_not_run(tmp_path, monkeypatch):
    (tmp_path / "git").write_text("#!/bin/sh\ntouch ran\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert list_paths(tmp_path) == ["git"]
    assert not (tmp_path / "ran").exists()


def test_files_of_added_folders_have_whole_paths(root, tmp_path_factory):
    added = tmp_path_factory.mktemp("lib")
    (added / "scan_more.py").touch()
    assert FileIndex(root, added=(added,)).search("scan_more") == [f"{added}/scan_more.py"]
