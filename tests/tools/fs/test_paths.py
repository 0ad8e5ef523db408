"""No path leads a file tool out of the workspace: not through links, not through a race, not to a device."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.beneath import LinkMet
from src.errors import ToolError
from src.tools import REGISTRY, ToolContext
from src.tools.fs import paths
from src.types.messages import ToolCall

SECRET = "CANARY"


@pytest.fixture
def outside(tmp_path: Path, workspace: Path) -> Path:
    """A folder beside the workspace, and in the workspace the ways there."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    (workspace / "a.txt").write_text("alpha")
    (workspace / "my file.txt").write_text("alpha")
    (workspace / "inner").mkdir()
    links = {
        "link_file": "../outside/secret.txt",
        "link_new": "../outside/new",
        "link_dir": "../outside",
        "inner/up": "../..",
        "link_inside": "a.txt",
        "loop": "loop",
        "root": "/",
        "proc": "/proc/self/root",
    }
    for name, target in links.items():
        (workspace / name).symlink_to(target)
    return folder


REACHED = ["a.txt", "./a.txt", "my file.txt", "link_inside", "inner/../a.txt", "link_dir/../workspace/a.txt"]
REFUSED = [
    ("../outside/secret.txt", "outside the workspace"),
    ("/etc/passwd", "outside the workspace"),
    ("/dev/zero", "outside the workspace"),
    ("/proc/self/environ", "outside the workspace"),
    ("link_file", "outside the workspace"),
    ("link_new", "outside the workspace"),
    ("link_dir/secret.txt", "outside the workspace"),
    ("inner/up/outside/secret.txt", "outside the workspace"),
    ("root/etc/passwd", "outside the workspace"),
    ("proc/etc/passwd", "outside the workspace"),
    ("../workspace2/a.txt", "outside the workspace"),
    ("..", "outside the workspace"),
    ("loop", "a circle of links"),
    (".", "a folder"),
    ("inner", "a folder"),
    ("a.txt/x", "a.txt/x"),
    ("~/.ssh/id_rsa", "not expanded"),
    ("~", "not expanded"),
    ("a.txt\0.png", "not a path"),
    ("\ud800", "not a path"),
    ("", "not a path"),
    ("  ", "not a path"),
    ("A" * 300 + ".txt", "name too long"),
    ("a/" * 50_000, "too long"),
]


@pytest.mark.parametrize("path", REACHED)
def test_a_path_that_leads_inside_is_reached(path, run, outside):
    assert run("read", path=path).value.startswith("1\talpha\n")
    assert run("write", path=path, content="new").kind == "text"
    assert run("read", path=path).value.startswith("1\tnew\n")


def test_an_absolute_path_that_leads_inside_is_reached(run, outside, workspace):
    assert run("read", path=str(workspace / "a.txt")).value.startswith("1\talpha\n")


@pytest.mark.parametrize(("path", "said"), REFUSED, ids=[ascii(row[0][:30]) for row in REFUSED])
def test_any_other_path_is_refused_by_every_tool(path, said, run, outside):
    for result in (
        run("read", path=path),
        run("write", path=path, content="x"),
        run("edit", path=path, oldText=SECRET, newText="x"),
    ):
        assert result.kind == "error"
        assert said in result.value
        assert SECRET not in result.value
    assert sorted(each.name for each in outside.iterdir()) == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == SECRET


def test_an_empty_path_that_the_policy_took_for_the_workspace_has_a_name(workspace):
    with pytest.raises(ToolError, match=r"^\. is a folder"), paths.open_parent(paths.make_target("", workspace, "")):
        pass


def test_variables_are_plain_names(run, workspace):
    assert run("read", path="$HOME/.ssh/id_rsa").value == "Error executing tool: $HOME/.ssh/id_rsa does not exist"
    run("write", path="$HOME/x", content="x")
    assert (workspace / "$HOME" / "x").exists()


def test_folders_are_made_inside_the_workspace(run, workspace):
    assert run("write", path="new/dir/file.txt", content="x").kind == "text"
    assert (workspace / "new" / "dir" / "file.txt").read_text() == "x"


@pytest.mark.parametrize("path", ["new/dir/" + "A" * 300, "new/" + "A" * 300 + "/x", "new/../old/new/" + "A" * 300])
def test_folders_made_for_a_file_that_cannot_be_written_are_removed_again(path, run, workspace):
    (workspace / "old").mkdir()
    assert run("write", path=path, content="x").kind == "error"
    assert [str(each.relative_to(workspace)) for each in workspace.rglob("*")] == ["old"]


def test_a_new_folder_that_is_in_use_by_then_stays(workspace):
    with pytest.raises(OSError, match="full"), paths.open_parent(paths.resolve("a/b/c", workspace), create=True):
        (workspace / "a" / "theirs").touch()
        raise OSError("full")
    assert [each.name for each in (workspace / "a").iterdir()] == ["theirs"]


def test_the_workspace_may_be_given_through_a_link(workspace, tmp_path):
    (tmp_path / "alias").symlink_to(workspace)
    call = ToolCall("1", "write", {"path": "a.txt", "content": "x"})
    assert REGISTRY.run(call, ToolContext(tmp_path / "alias")).kind == "text"
    assert (workspace / "a.txt").read_text() == "x"


def test_a_link_inside_is_followed_and_stays_a_link(run, workspace, outside):
    run("write", path="link_inside", content="x")
    assert (workspace / "link_inside").is_symlink()
    assert (workspace / "a.txt").read_text() == "x"


def test_a_hard_link_to_outside_is_replaced_and_not_written_through(run, workspace, outside):
    os.link(outside / "secret.txt", workspace / "hard")
    assert run("write", path="hard", content="new").kind == "text"
    assert (outside / "secret.txt").read_text() == SECRET
    assert (workspace / "hard").read_text() == "new"


@pytest.fixture
def inside(workspace: Path) -> Iterator[None]:
    """The workspace as current folder: a socket's path must be short."""
    before = Path.cwd()
    os.chdir(workspace)
    yield
    os.chdir(before)


def make_special(path: Path, kind: str) -> None:
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("making a device takes root")
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a socket"])
def test_what_is_no_file_is_neither_read_nor_replaced(kind, run, workspace, inside):
    make_special(Path("special"), kind)
    for result in (run("read", path="special"), run("write", path="special", content="x")):
        assert result.value == f"Error executing tool: special is {kind}"
    assert not stat.S_ISREG((workspace / "special").lstat().st_mode)


# What changes between the look and the opening


def swap_for_link(folder: Path, target: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(target)


def test_a_folder_that_became_a_link_after_the_look_is_not_followed_to_read(workspace, outside):
    (workspace / "inner" / "secret.txt").write_text("mine")
    target = paths.resolve("inner/secret.txt", workspace)
    swap_for_link(workspace / "inner", outside)
    with pytest.raises(LinkMet):
        paths.open_to_read(target)


def test_a_folder_that_became_a_link_after_the_look_is_not_followed_to_write(workspace, outside):
    target = paths.resolve("inner/new.txt", workspace)
    swap_for_link(workspace / "inner", outside)
    with pytest.raises(LinkMet):
        paths.replace(target, b"x", ())
    assert [each.name for each in outside.iterdir()] == ["secret.txt"]


def test_a_file_that_became_a_link_after_the_look_is_not_followed(workspace, outside):
    target = paths.resolve("a.txt", workspace)
    (workspace / "a.txt").unlink()
    (workspace / "a.txt").symlink_to(outside / "secret.txt")
    with pytest.raises(LinkMet):
        paths.open_to_read(target)
    with pytest.raises(LinkMet):
        paths.replace(target, b"x", ())
    assert (outside / "secret.txt").read_text() == SECRET


# A write that fails leaves the old file, and nothing beside it


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_write_that_the_disk_has_no_room_for_leaves_nothing(workspace):
    (workspace / "a.txt").write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            paths.replace(paths.resolve("a.txt", workspace), b"x" * 5_000, ())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (names_in(workspace), (workspace / "a.txt").read_text()) == (["a.txt"], "old")


def test_a_write_to_a_file_changed_by_others_leaves_nothing(workspace):
    (workspace / "a.txt").write_text("old")
    seen = (workspace / "a.txt").stat()
    (workspace / "a.txt").write_text("theirs")
    with pytest.raises(ToolError, match="was changed meanwhile"):
        paths.replace(paths.resolve("a.txt", workspace), b"ours", (), seen)
    assert (names_in(workspace), (workspace / "a.txt").read_text()) == (["a.txt"], "theirs")


@pytest.mark.parametrize("seconds", [0.0001, 0.0003, 0.001, 0.003, 0.01])
def test_an_interrupted_write_leaves_nothing(seconds, workspace):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    (workspace / "a.txt").write_text("old")
    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # an interrupt in a callback of the collector would be lost
    try:
        with suppress(KeyboardInterrupt):  # which may also come as the write ends
            signal.setitimer(signal.ITIMER_REAL, seconds)
            paths.replace(paths.resolve("a.txt", workspace), b"x" * 20_000_000, ())
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        gc.enable()
        signal.signal(signal.SIGALRM, before)
    assert names_in(workspace) == ["a.txt"]
    assert (workspace / "a.txt").stat().st_size in (3, 20_000_000)


class TestPuttingBack:
    FILE, LINK, FOLDER = 0o100640, 0o120777, 0o040750

    def put(self, workspace, name, content, mode, protected=()):
        paths.put_back(paths.resolve(name, workspace), content, mode, protected)

    def test_a_file_has_its_content_and_its_mode_and_its_folders(self, workspace):
        self.put(workspace, "a/b/c", b"x", self.FILE)
        assert (workspace / "a/b/c").read_bytes() == b"x"
        assert (workspace / "a/b/c").stat().st_mode == self.FILE

    def test_without_a_mode_the_one_it_has_stays(self, workspace):
        (workspace / "a").touch(0o755)
        self.put(workspace, "a", b"x", 0)
        assert (workspace / "a").stat().st_mode & 0o777 == 0o755

    def test_a_link_is_made_and_not_followed(self, workspace):
        self.put(workspace, "l", b"/etc/passwd", self.LINK)
        assert str((workspace / "l").readlink()) == "/etc/passwd"

    def test_what_is_of_another_kind_is_replaced(self, workspace):
        (workspace / "a").mkdir()
        self.put(workspace, "a", b"x", self.FILE)
        assert (workspace / "a").read_bytes() == b"x"
        self.put(workspace, "a", None, self.FOLDER)
        assert (workspace / "a").stat().st_mode == self.FOLDER

    def test_what_was_not_there_is_removed_a_folder_only_if_it_is_empty(self, workspace):
        (workspace / "folder").mkdir()
        (workspace / "folder/a").touch()
        with pytest.raises(OSError, match="not empty"):
            self.put(workspace, "folder", None, 0)
        self.put(workspace, "folder/a", None, 0)
        self.put(workspace, "folder", None, 0)
        assert names_in(workspace) == []

    def test_what_no_tool_may_write_is_not_put_back(self, workspace):
        with pytest.raises(ToolError, match="git's own files"):
            self.put(workspace, ".git/config", b"x", self.FILE)


# What no tool may write

PROTECTED = ["config.json", "CONFIG.JSON", "inner/../config.json", "config.json/x", "to_config", "kept/a", "kept/b/c"]
GIT = [".git/hooks/pre-commit", ".git/config", ".GIT/hooks/x", "sub/.git/hooks/x", ".git", "to_hooks/x"]


@pytest.mark.parametrize("path", PROTECTED)
def test_the_programs_own_settings_are_not_written_whether_they_exist_or_not(path, run, workspace, outside):
    (workspace / "to_config").symlink_to("config.json")
    guarded = {"protected": (workspace / "config.json", workspace / "kept")}
    for _ in ("missing", "present"):
        result = run("write", guarded, path=path, content="{}")
        assert result.kind == "error"
        assert "is protected" in result.value
        (workspace / "config.json").write_text("mine")
    assert "is protected" in run("edit", guarded, path="config.json", oldText="mine", newText="yours").value
    assert (workspace / "config.json").read_text() == "mine"
    assert "1\tmine\n" in run("read", guarded, path="config.json").value


@pytest.mark.parametrize("path", GIT)
def test_gits_own_files_are_not_written(path, run, workspace):
    (workspace / "to_hooks").symlink_to(".git/hooks")
    assert "git's own files" in run("write", path=path, content="#!/bin/sh").value
    assert not (workspace / ".git").exists()
    assert not (workspace / "sub").exists()


@pytest.mark.parametrize("path", [".gitignore", ".github/workflows/ci.yml", "git/hooks/x", "my.git/x"])
def test_files_that_only_look_like_gits_own_are_written(path, run):
    assert run("write", path=path, content="x").kind == "text"


# Any tree, any path

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.sampled_from(["a", "b", "c", ".", "..", "../outside", "/", "{base}/outside", "{base}/workspace", "/tmp"])
PATHS = st.lists(STEPS, min_size=1, max_size=5).map("/".join)
TREES = st.lists(st.tuples(st.sampled_from(["folder", "file", "link"]), PATHS, PATHS), max_size=8)


def build(base: Path, tree: list[tuple[str, str, str]]) -> None:
    """A tree of folders, files and links to anywhere; what cannot be made is left out."""
    for kind, at, target in tree:
        place = base / "workspace" / at.replace("{base}", str(base)).lstrip("/")
        if not Path(os.path.realpath(place.parent)).is_relative_to(base / "workspace"):
            continue
        try:
            if kind == "folder":
                place.mkdir(parents=True)
            elif kind == "file":
                place.write_text("inside")
            else:
                place.symlink_to(target.replace("{base}", str(base)))
        except OSError:
            continue


def contents(folder: Path) -> dict[str, str]:
    return {str(each): each.read_text() if each.is_file() else "" for each in sorted(folder.rglob("*"))}


@given(TREES, st.lists(PATHS, min_size=1, max_size=4))
def test_in_any_tree_no_path_reads_or_changes_anything_outside(tree, asked):
    with tempfile.TemporaryDirectory() as name:
        base = Path(name).resolve()
        for folder in ("workspace", "outside", "outside/a"):
            (base / folder).mkdir()
        for file in ("outside/b", "outside/a/c"):
            (base / file).write_text(SECRET)
        build(base, tree)
        before = contents(base / "outside")
        ctx = ToolContext(base / "workspace")
        for path in (each.replace("{base}", str(base)) for each in asked):
            read = REGISTRY.run(ToolCall("1", "read", {"path": path}), ctx)
            assert read.kind == "error" or read.value.startswith(("1\tinside\n", "1\twritten\n"))
            REGISTRY.run(ToolCall("1", "write", {"path": path, "content": "written"}), ctx)
        assert contents(base / "outside") == before
        assert sorted(each.name for each in base.iterdir()) == ["outside", "workspace"]
