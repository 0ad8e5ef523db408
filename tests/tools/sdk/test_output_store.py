"""Whole outputs on disk under references, and what the model sees of them."""

from __future__ import annotations

import itertools
import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from src.errors import ToolError
from src.tools.sdk.output_store import Outputs


@pytest.fixture
def store(tmp_path: Path) -> Outputs:
    return Outputs(tmp_path / "state" / "outputs")


def whole(store: Outputs, ref: str) -> str:
    with store.open(ref) as file:
        return file.read().decode()


def test_what_is_stored_is_there_whole_under_its_reference(store):
    refs = [store.put(text) for text in ("one", "grün\n" * 100_000, "")]
    assert [whole(store, ref) for ref in refs] == ["one", "grün\n" * 100_000, ""]


def test_an_output_may_come_in_pieces(store):
    with closing(store.open_writer()) as writer:
        for piece in (b"one ", b"", b"t\xffwo"):
            writer.write(piece)
    with store.open(writer.ref) as file:
        assert file.read() == b"one t\xffwo"
    assert (writer.size, writer.complete) == (8, True)


def test_what_is_over_the_most_of_one_output_is_left_out(tmp_path):
    store = Outputs(tmp_path, max_output_bytes=5)
    with closing(store.open_writer()) as writer:
        writer.write(b"123")
        writer.write(b"456")
        writer.write(b"7")
    assert (whole(store, writer.ref), writer.complete) == ("12345", False)


def test_only_the_user_can_read_an_output(store, tmp_path):
    folder = tmp_path / "state" / "outputs"
    file = folder / store.put("secret")
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, file)] == [0o700, 0o600]


def test_a_reference_that_is_taken_is_not_given_again(tmp_path):
    names = itertools.chain(["o00000001", "o00000001"], iter(["o00000002"]))
    store = Outputs(tmp_path, new_ref=lambda: next(names))
    assert [store.put("one"), store.put("two")] == ["o00000001", "o00000002"]
    assert whole(store, "o00000001") == "one"


@pytest.mark.parametrize("ref", ["", "../secret", "o1", "/etc/passwd", "o0000000g", "o00000000\n", "x" * 9_999])
def test_an_invalid_reference_opens_nothing(ref, store):
    store.put("x")
    with pytest.raises(ToolError, match="is not a reference") as refusal:
        store.open(ref)
    assert len(str(refusal.value)) < 200


def test_an_output_that_was_removed_is_reported_as_removed(store):
    with pytest.raises(ToolError, match="no output o00000000 any more"):
        store.open("o00000000")


def test_a_link_in_the_folder_is_not_followed(store, tmp_path):
    store.put("x")
    (tmp_path / "secret").write_text("CANARY")
    (tmp_path / "state" / "outputs" / "o00000000").symlink_to(tmp_path / "secret")
    with pytest.raises(ToolError):
        store.open("o00000000")


def test_what_is_a_week_old_is_removed_once_something_new_is_stored(tmp_path):
    old, young = Outputs(tmp_path).put("old"), Outputs(tmp_path).put("young")
    os.utime(tmp_path / old, (0, 1_000_000))
    os.utime(tmp_path / young, (0, 1_000_000 + 3600))
    new = Outputs(tmp_path, now=lambda: 1_000_000 + 7 * 24 * 3600 + 1).put("new")
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([young, new])


def test_where_the_folder_holds_too_much_the_oldest_goes(tmp_path):
    refs = [Outputs(tmp_path).put("12345") for _ in range(3)]
    for age, ref in enumerate(reversed(refs)):
        os.utime(tmp_path / ref, (0, 1_000_000 - age))
    new = Outputs(tmp_path, max_folder_bytes=10, now=lambda: 1_000_000).put("new")
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([*refs[1:], new])


def test_where_nothing_can_be_stored_there_is_no_reference(tmp_path):
    (tmp_path / "file").touch()
    store = Outputs(tmp_path / "file" / "outputs")
    assert store.put("x") == ""
