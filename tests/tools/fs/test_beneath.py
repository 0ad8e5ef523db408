"""Both ways of opening what lies below a folder refuse the same."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.tools.fs.beneath import FOLDER, by_kernel, by_steps, open_beneath

READ = os.O_RDONLY


def kernel_has_it() -> bool:
    root = os.open("/", FOLDER)
    try:
        os.close(by_kernel(root, ".", FOLDER))
    except OSError as error:
        return error.errno not in (errno.ENOSYS, errno.EPERM)
    finally:
        os.close(root)
    return True


NEEDED = pytest.mark.skipif(not kernel_has_it(), reason="the kernel has no openat2")
WAYS = pytest.mark.parametrize("way", [pytest.param(by_kernel, marks=NEEDED), by_steps, open_beneath])


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


def content(way, folder: int, path: str) -> bytes:
    with os.fdopen(way(folder, path, READ), "rb") as file:
        return file.read()


@WAYS
@pytest.mark.parametrize("path", ["a/b/file", "./a//b/./file"])
def test_what_lies_below_is_opened(way, path, folder):
    assert content(way, folder, path) == b"alpha"


@WAYS
@pytest.mark.parametrize("path", [".", "a", "a/b"])
def test_a_folder_too(way, path, folder):
    os.close(way(folder, path, FOLDER))


@WAYS
@pytest.mark.parametrize(
    "path", ["out", "up/secret", "in/b/file", "a/to_b/file", "abs/etc/passwd", "proc/etc/passwd", "../secret", "/etc/passwd",
             "a/../../secret"],
)  # fmt: skip
def test_neither_a_link_nor_a_way_out_is_followed(way, path, folder):
    with pytest.raises(OSError) as refusal:
        way(folder, path, READ)
    assert refusal.value.errno in (errno.ELOOP, errno.EXDEV, errno.ENOTDIR)


@WAYS
@pytest.mark.parametrize(
    ("path", "number"), [("a/no", errno.ENOENT), ("a/b/file/x", errno.ENOTDIR), ("a/" + "x" * 300, errno.ENAMETOOLONG)]
)
def test_the_usual_errors_are_the_systems_own(way, path, number, folder):
    with pytest.raises(OSError) as refusal:
        way(folder, path, READ)
    assert refusal.value.errno == number


@WAYS
def test_no_descriptor_is_left_open(way, folder):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("a/b/file", "a/b/no", "up/secret", "a/no/x"):
        try:
            os.close(way(folder, path, READ))
        except OSError:
            continue
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@NEEDED
@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(["a", "b", "file", "up", "in", "out", ".", ""]), min_size=1, max_size=5).map("/".join))
def test_both_open_the_same_of_any_path(tmp_path_factory, path):
    root = tmp_path_factory.getbasetemp() / "same"
    if not root.exists():
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "b" / "file").write_text("alpha")
        for name, target in {"up": "..", "in": "a", "out": "/"}.items():
            (root / name).symlink_to(target)
    descriptor = os.open(root, FOLDER)
    try:
        assert identity(by_kernel, descriptor, path) == identity(by_steps, descriptor, path)
    finally:
        os.close(descriptor)


def identity(way, folder: int, path: str) -> tuple[int, int] | None:
    try:
        found = way(folder, path, READ)
    except OSError:
        return None
    state = os.fstat(found)
    os.close(found)
    return state.st_dev, state.st_ino
