"""Earlier contents of files, stored by hash."""

import errno
from pathlib import Path

import pytest
from msgspec.structs import replace

from src.session.snapshots import RestoredFiles, Snapshots, read_state
from src.session.state import Write
from src.types.file_names import FileState

from .doubles import restore_file


def test_a_content_is_stored_once_and_read_back(tmp_path):
    snapshots = Snapshots(tmp_path / "x.files", tmp_path)
    assert snapshots.save(b"old") == snapshots.save(b"old")
    assert snapshots.read(snapshots.save(b"old")) == b"old"
    assert len(list((tmp_path / "x.files").iterdir())) == 1


def test_a_damaged_or_missing_content_is_not_read(tmp_path):
    snapshots = Snapshots(tmp_path / "x.files", tmp_path)
    name = snapshots.save(b"old")
    (tmp_path / "x.files" / name).write_bytes(b"other")
    assert snapshots.read(name) is None
    assert snapshots.read("0" * 64) is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_write_that_fails_leaves_no_temporary_file(tmp_path):
    snapshots = Snapshots(tmp_path / "x.files", tmp_path)
    name = snapshots.save(b"old")
    (tmp_path / "x.files" / name).unlink()
    (tmp_path / "x.files" / name).with_suffix(".tmp").symlink_to("/dev/full")
    with pytest.raises(OSError) as error:
        snapshots.save(b"old")
    assert error.value.errno == errno.ENOSPC
    assert list((tmp_path / "x.files").iterdir()) == []


class TestRestoring:
    @pytest.fixture
    def write(self, tmp_path):
        """A file that a tool has changed from old to new."""
        self.snapshots = Snapshots(tmp_path / "x.files", tmp_path)
        path = tmp_path / "a.txt"
        path.write_bytes(b"new")
        return Write(
            1, str(path), FileState(0, self.snapshots.save(b"old")), after=read_state(path, self.snapshots.read_file)
        )

    def test_a_file_has_its_earlier_content_again(self, write, tmp_path):
        assert self.snapshots.restore([write], restore_file).restored == [write.path]
        assert (tmp_path / "a.txt").read_bytes() == b"old"

    def test_a_file_with_its_earlier_content_needs_nothing(self, write, tmp_path):
        (tmp_path / "a.txt").write_bytes(b"old")
        assert self.snapshots.restore([write], restore_file) == RestoredFiles([], [], [])

    def test_a_content_that_was_not_saved_is_a_reason_to_skip(self, write):
        missing = replace(write, before=FileState(0, "0" * 64))
        assert self.snapshots.restore([missing], restore_file).skipped == [
            (write.path, "its earlier content was not saved")
        ]

    def test_an_error_is_a_reason_to_skip(self, write):
        def fail(path, content, mode):
            raise PermissionError(errno.EACCES, "Permission denied")

        assert self.snapshots.restore([write], fail).skipped == [(write.path, "Permission denied")]
