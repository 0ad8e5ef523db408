import json

import pytest

from src.app.server_memory import FILE, Learnt
from src.model import CallPath

PATH = CallPath("text", "because", alternate=True)


def test_what_was_learnt_is_had_back_for_the_same_server_model_and_version(tmp_path):
    learnt = Learnt(tmp_path / "state")
    learnt.keep("http://a", "tiny", "0.32.0", PATH)
    learnt.keep("http://b", "tiny", "0.32.0", CallPath("template"))
    assert Learnt(tmp_path / "state").recall("http://a", "tiny", "0.32.0") == PATH


@pytest.mark.parametrize(
    ("server", "model", "version"), [("http://b", "m", "1"), ("http://a", "n", "1"), ("http://a", "m", "2")]
)
def test_another_server_model_or_version_is_found_out_anew(tmp_path, server, model, version):
    learnt = Learnt(tmp_path)
    learnt.keep("http://a", "m", "1", PATH)
    assert learnt.recall(server, model, version) is None


def test_forgetting(tmp_path):
    learnt = Learnt(tmp_path)
    learnt.forget()
    learnt.keep("http://a", "m", "1", PATH)
    learnt.forget()
    assert learnt.recall("http://a", "m", "1") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"http://a m": 3}', '{"http://a m": {"version": "1", "path": {"mode": "x"}}}']
)
def test_a_file_that_is_not_ours_is_as_good_as_none(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    learnt = Learnt(tmp_path)
    assert learnt.recall("http://a", "m", "1") is None
    learnt.keep("http://a", "m", "1", PATH)
    assert learnt.recall("http://a", "m", "1") == PATH


def test_the_file_holds_no_more_than_paths(tmp_path):
    Learnt(tmp_path).keep("http://a", "m", "1", PATH)
    assert json.loads((tmp_path / FILE).read_text()) == {"http://a m": {"version": "1", "path": PATH.to_dict()}}


def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OSError):
        Learnt(tmp_path / "taken").keep("http://a", "m", "1", PATH)
