"""What is kept of a workspace before a command, and what is found to have changed after it."""

from __future__ import annotations

import hashlib
import os
import stat

import pytest

from src.tools.fs import baseline as module
from src.tools.fs.baseline import Baseline


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


@pytest.fixture
def baseline(workspace, tmp_path):
    return Baseline(workspace, tmp_path / "state")


def changes_of(baseline, change):
    """Each path with its content before and after; None: there was none, or it was not kept."""
    baseline.refresh()
    change()
    return {
        each.path: tuple(state and baseline.read(state.digest) for state in (each.before, each.after))
        for each in baseline.find_changes()[0]
    }


def test_a_file_that_is_written_made_or_removed(baseline, workspace):
    (workspace / "gone.txt").write_text("gone\n")

    def change():
        (workspace / "a.txt").write_text("two\n")
        (workspace / "new.txt").write_text("new\n")
        (workspace / "gone.txt").unlink()

    assert changes_of(baseline, change) == {
        "a.txt": (b"one\n", b"two\n"),
        "gone.txt": (b"gone\n", None),
        "new.txt": (None, b"new\n"),
    }


def test_the_same_size_and_time_do_not_hide_a_change(baseline, workspace):
    def change():
        was = (workspace / "a.txt").stat()
        (workspace / "a.txt").write_text("two\n")
        os.utime(workspace / "a.txt", ns=(was.st_atime_ns, was.st_mtime_ns))

    assert changes_of(baseline, change) == {"a.txt": (b"one\n", b"two\n")}


def test_modes_links_and_folders_count(baseline, workspace):
    (workspace / "l").symlink_to("a")
    baseline.refresh()
    (workspace / "a.txt").chmod(0o755)
    (workspace / "l").unlink()
    (workspace / "l").symlink_to("b")
    (workspace / "f").mkdir()
    found = {each.path: each for each in baseline.find_changes()[0]}
    assert stat.S_IMODE(found["a.txt"].after.mode) == 0o755
    assert [baseline.read(each.digest) for each in (found["l"].before, found["l"].after)] == [b"a", b"b"]
    assert stat.S_ISDIR(found["f"].after.mode)


def test_nothing_changed_is_nothing_found(baseline, workspace):
    assert changes_of(baseline, lambda: os.utime(workspace / "a.txt")) == {}


@pytest.mark.parametrize(
    ("folder", "marker"),
    [(".git", ""), ("node_modules", ""), ("ignored", ""), ("env", "pyvenv.cfg"), ("c", "CACHEDIR.TAG")],
)
def test_folders_that_are_left_out(folder, marker, baseline, workspace):
    (workspace / ".gitignore").write_text("ignored/\n*.log\n")
    (workspace / folder).mkdir()
    if marker:
        (workspace / folder / marker).touch()

    def change():
        (workspace / folder / "x").write_text("x")
        (workspace / "a.log").write_text("x")  # a file that git ignores is kept

    assert changes_of(baseline, change) == {"a.log": (None, b"x")}


def test_nothing_is_read_behind_a_link(baseline, workspace, tmp_path):
    (tmp_path / "outside").mkdir()
    (workspace / "l").symlink_to(tmp_path / "outside")
    assert changes_of(baseline, (tmp_path / "outside" / "x").touch) == {}


def test_a_file_too_large_to_be_kept_is_found_without_a_content(baseline, workspace, monkeypatch):
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 3)
    assert changes_of(baseline, lambda: (workspace / "a.txt").write_text("two!\n")) == {"a.txt": (None, None)}


def test_what_there_is_no_room_for_is_found_without_a_content(baseline, workspace, monkeypatch):
    monkeypatch.setattr(module, "MAX_KEPT_BYTES", 4)
    assert changes_of(baseline, lambda: (workspace / "a.txt").write_text("two\n")) == {"a.txt": (b"one\n", None)}


def test_beyond_so_many_files_it_is_said_that_not_all_was_found(baseline, workspace, monkeypatch):
    baseline.refresh()
    assert baseline.find_changes()[1]
    monkeypatch.setattr(module, "MAX_FILES", 1)
    (workspace / "b.txt").touch()
    assert not baseline.find_changes()[1]


def test_nothing_is_left_in_the_folder_and_nobody_else_reads_it(baseline, tmp_path):
    baseline.refresh()
    assert list((tmp_path / "state").iterdir()) == []
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_a_pipe_is_not_read(baseline, workspace):
    os.mkfifo(workspace / "pipe")
    assert changes_of(baseline, (workspace / "pipe").unlink) == {"pipe": (None, None)}


def test_a_folder_that_becomes_a_link_while_it_is_looked_at_is_not_entered(baseline, workspace, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("secret")
    (workspace / "folder").mkdir()
    for path, _ in baseline._look():
        if path == "folder":
            (workspace / "folder").rmdir()
            (workspace / "folder").symlink_to(tmp_path / "outside")
    assert baseline.read(hashlib.sha256(b"secret").hexdigest()) is None
