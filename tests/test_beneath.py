"""Where paths lead below a folder, and opening that without following a link."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from src.beneath import FOLDER, MAX_PATH_CHARS, LinkMet, find_relative, open_beneath, read_beneath


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "top" / "src").mkdir(parents=True)
    return tmp_path / "top"


@pytest.mark.parametrize("path", ["/etc", "..", "out/a", "a\0b", "\ud800", "a/" * MAX_PATH_CHARS])
def test_a_path_that_leads_out_or_nowhere_is_below_no_folder(path, top):
    (top / "out").symlink_to("..")
    assert find_relative(path, top) is None


def test_a_link_that_may_not_be_read_leads_below_no_folder(top, monkeypatch):
    def refuse(path: object) -> str:
        if "1/root" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", "/proc/1/root")
        return str(path)

    monkeypatch.setattr(os.path, "realpath", refuse)
    assert find_relative("/proc/1/root/etc/hosts", top) is None


@pytest.mark.parametrize(("path", "found"), [("src/../a", "a"), (".", "."), ("in/x", "src/x"), ("circle", "circle")])
def test_one_that_leads_into_it_is_named_by_its_end(path, found, top):
    (top / "in").symlink_to("src")
    (top / "circle").symlink_to("circle")
    assert find_relative(path, top) == found


def test_where_everything_is_the_top_every_path_is_in_it():
    assert find_relative("/etc/hosts", Path("/")) == "etc/hosts"
    assert find_relative("/", Path("/")) == "."


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """a/b/file, and links of every kind; a secret beside it."""
    (tmp_path / "secret").write_text("CANARY")
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_text("alpha")
    for name, target in {
        "up": "..",
        "out": "../secret",
        "in": "a",
        "abs": "/",
        "a/to_b": "b",
        "proc": "/proc/self/root",
    }.items():
        (root / name).symlink_to(target)
    descriptor = os.open(root, FOLDER)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("path", ["a/b/file", "./a//b/./file"])
def test_a_file_below_is_opened(path, folder):
    with os.fdopen(open_beneath(folder, path, os.O_RDONLY), "rb") as file:
        assert file.read() == b"alpha"


@pytest.mark.parametrize("path", [".", "a", "a/b", "a/b/"])
def test_a_folder_below_is_opened(path, folder):
    os.close(open_beneath(folder, path, FOLDER))


@pytest.mark.parametrize("path", ["out", "up/secret", "in/b/file", "a/to_b/file", "abs/etc/passwd", "proc/etc/passwd"])
def test_a_link_is_an_error_of_its_own(path, folder):
    with pytest.raises(LinkMet):
        open_beneath(folder, path, os.O_RDONLY)


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../secret", "..", "/"])
def test_no_way_out_is_taken(path, folder):
    with pytest.raises(OSError) as refusal:
        open_beneath(folder, path, os.O_RDONLY)
    assert refusal.value.errno == errno.EXDEV


@pytest.mark.parametrize(
    ("path", "number"), [("a/no", errno.ENOENT), ("a/b/file/x", errno.ENOTDIR), ("a/" + "x" * 300, errno.ENAMETOOLONG)]
)
def test_the_usual_errors_are_the_systems_own(path, number, folder):
    with pytest.raises(OSError) as refusal:
        open_beneath(folder, path, os.O_RDONLY)
    assert refusal.value.errno == number


def test_a_folder_that_may_only_be_passed_through_is_passed_through(folder, tmp_path):
    (tmp_path / "root" / "a").chmod(0o111)
    os.close(open_beneath(folder, "a/b/file", os.O_RDONLY))


def test_no_descriptor_is_left_open(folder):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("a/b/file", "a/b/no", "up/secret", "a/no/x"):
        with suppress(OSError):
            os.close(open_beneath(folder, path, os.O_RDONLY))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_and_a_link_are_read_and_a_pipe_and_a_folder_are_only_looked_at(top):
    (top / "file").write_text("alpha")
    (top / "src" / "link").symlink_to("../file")
    os.mkfifo(top / "pipe")
    read = {path: read_beneath(top, path)[1] for path in ("file", "src/link", "pipe", "src", ".")}
    assert read == {"file": b"alpha", "src/link": b"../file", "pipe": None, "src": None, ".": None}


def test_the_folder_itself_may_be_given_by_a_link(top):
    (top / "file").write_text("alpha")
    top.with_name("alias").symlink_to(top)
    assert read_beneath(top.with_name("alias"), "file")[1] == b"alpha"
