"""Folders for temporary files: those that a program holds stay, and those of killed programs are removed."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from pathlib import Path

import pytest

from src.security.sandbox.scratch import (
    BATCH_PREFIX,
    PREFIXES,
    SANDBOX_PREFIX,
    hold_folder,
    remove_abandoned,
    remove_tree,
)

NOBODY, PR_SET_DUMPABLE = 65534, 4


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_folders_that_no_program_holds_are_removed_and_no_others(tmp_path: Path, prefix: str) -> None:
    killed, held, link = (tmp_path / f"{prefix}{name}" for name in "abc")
    other, elsewhere = tmp_path / "other", tmp_path / "elsewhere"
    for folder in (killed, held, other, elsewhere):
        (folder / "tmp").mkdir(parents=True)
    link.symlink_to(elsewhere)
    descriptors = [hold_folder(held), hold_folder(held)]
    for descriptor in descriptors:
        remove_abandoned(tmp_path)
        os.close(descriptor)
    assert not killed.exists()
    assert all((folder / "tmp").exists() for folder in (held, link, other))
    remove_abandoned(tmp_path)
    assert not held.exists()


def test_a_folder_that_is_being_made_is_not_lost_to_another_start(tmp_path: Path) -> None:
    is_over = threading.Event()

    def clean() -> None:
        while not is_over.is_set():
            remove_abandoned(tmp_path)

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    made = [Path(tempfile.mkdtemp(dir=tmp_path, prefix=SANDBOX_PREFIX)) for _ in range(50)]
    descriptors = [hold_folder(folder) for folder in made]
    is_over.set()
    cleaner.join()
    assert all(folder.is_dir() for folder in made)
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to somebody else")
def test_a_folder_of_another_user_is_neither_held_nor_removed(tmp_path: Path) -> None:
    folder = tmp_path / f"{BATCH_PREFIX}a"
    folder.mkdir()
    os.chown(folder, 65534, -1)
    remove_abandoned(tmp_path)
    with pytest.raises(PermissionError):
        hold_folder(folder)


def test_a_folder_that_is_closed_to_its_own_user_is_removed_too() -> None:
    folder = Path(tempfile.mkdtemp(prefix="vllm-bot-test-"))
    (folder / "closed" / "below").mkdir(parents=True)
    child = os.fork()
    if not child:  # root may enter every folder
        if os.geteuid() == 0:
            for each in (folder, folder / "closed", folder / "closed" / "below"):
                os.chown(each, NOBODY, NOBODY)
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self is root's
        (folder / "closed" / "below").chmod(0)
        (folder / "closed").chmod(0)
        remove_tree(folder)
        os._exit(0)
    os.waitpid(child, 0)
    assert list(folder.parent.glob(f"{folder.name}/*")) == []
