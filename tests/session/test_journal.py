"""The journal's file: its lines, its errors and its lock."""

import json
import sys

import pytest

from src.security.text.redact import redact
from src.session.journal import Journal, Locked, Record, redact_value
from tests.each import check_rows

KEY = "AKIA" + "A1B2" * 4
KEY_IN_BASE64 = f"iVBOR+{KEY}+AAAA=="


def test_a_line_begins_with_its_kind_and_number(tmp_path):
    journal = Journal(tmp_path / "x.jsonl")
    journal.write(Record("meta", 0, {"version": 1}))
    journal.write(Record("resumed", 1, {}))
    journal.close()
    assert journal.path.read_bytes() == b'{"type":"meta","n":0,"version":1}\n{"type":"resumed","n":1}\n'


def test_secrets_are_redacted_in_keys_and_values_at_any_depth(tmp_path):
    journal = Journal(tmp_path / "x.jsonl", lambda text: text.replace("secret", "*"))
    journal.write(Record("call", 0, {"a": ["secret", {"secret": 1}, None, 2.5]}))
    journal.write(Record("delta", 1, {"text": "secret"}), clean=True)
    journal.close()
    first, second = map(json.loads, journal.path.read_text().splitlines())
    assert (first["a"], second["text"]) == (["*", {"*": 1}, None, 2.5], "secret")


@check_rows(
    "value",
    [
        {"type": "image", "data": KEY_IN_BASE64, "mimeType": "image/png"},
        {"type": "audio", "data": KEY_IN_BASE64, "mimeType": "audio/wav"},
        {"signature": KEY_IN_BASE64},
        {"redacted_thinking": KEY_IN_BASE64},
        {"thoughtSignature": KEY_IN_BASE64},
    ],
)
def test_base64_that_must_not_change_is_left_alone(value):
    assert redact_value([value], redact) == [value]


@pytest.mark.parametrize("value", [{"type": "text", "data": KEY_IN_BASE64}, {"type": "image", "data": "the " + KEY}])
def test_any_other_text_under_those_names_is_redacted(value):
    assert KEY not in str(redact_value(value, redact))


@pytest.mark.parametrize("secret", ["correct horse", "a\"b'c\\d\ne", "pässwört"])
def test_a_secret_is_known_by_its_name_too(secret):
    call = {"name": "login", "arguments": {"password": secret, "user": secret, "old": {"api_key": secret}}}
    cleaned = redact_value(call, redact)["arguments"]
    assert cleaned == {"password": "[redacted]", "user": secret, "old": {"api_key": "[redacted]"}}


@check_rows("value", [{"token": "the next"}, {"key": "Enter"}, {"password": ""}, {"tokens": "many words"}])
def test_other_words_under_such_a_name_stay(value):
    assert redact_value(value, redact) == value


@pytest.mark.parametrize("secret", ["x", "correct horse", "a\"b'c\\d\ne", "pässwört", "[redacted]"])
def test_the_word_behind_the_option_of_a_secret_is_one_too(secret):
    words = ["serve", "--token", secret, "--github-personal-access-token", secret, "--user", secret, "--api-key"]
    cleaned = redact_value({"args": words}, redact)["args"]
    mark = "[redacted]"
    assert cleaned == ["serve", "--token", mark, "--github-personal-access-token", mark, "--user", secret, "--api-key"]


@check_rows(
    "words",
    [
        ["--token", "$TOKEN"],
        ["--token", "--port"],
        ["--tokenizer", "qwen"],
        ["--token", ""],
        ["--token", 5],
        ["token", "x"],
    ],
)
def test_other_words_of_a_command_line_stay(words):
    assert redact_value(words, redact) == words


def test_a_lone_surrogate_is_escaped(tmp_path):
    journal = Journal(tmp_path / "x.jsonl")
    journal.write(Record("delta", 0, {"text": "a\ud800ä"}))
    journal.close()
    assert json.loads(journal.path.read_text())["text"] == "a\ud800ä"


def test_a_value_that_is_not_json_ends_the_journal(tmp_path):
    journal = Journal(tmp_path / "x.jsonl")
    journal.write(Record("meta", 0, {}))
    journal.write(Record("result", 1, {"result": object()}))
    journal.write(Record("user", 2, {}))
    journal.close()
    assert "a result cannot be written as JSON" in journal.broken
    assert journal.path.read_bytes() == b'{"type":"meta","n":0}\n'


def test_a_disk_that_cannot_be_synced_ends_the_journal(tmp_path):
    journal = Journal(tmp_path / "x.jsonl")
    journal.write(Record("meta", 0, {}))
    with (tmp_path / "pipe").open("w") as other:
        file, journal._file = journal._file, other.fileno()
    journal.sync()
    journal._file = file
    journal.close()
    assert "Bad file descriptor" in journal.broken


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_journal_is_open_once(tmp_path):
    journal = Journal(tmp_path / "x.jsonl")
    journal.write(Record("meta", 0, {}))
    with pytest.raises(Locked):
        Journal(journal.path, old=True)
    journal.close()
    Journal(journal.path, old=True).close()


def test_an_old_journal_that_is_missing_is_broken(tmp_path):
    journal = Journal(tmp_path / "x.jsonl", old=True)
    journal.end_line()
    journal.sync()
    journal.close()
    assert "No such file" in journal.broken


def test_a_folder_that_others_can_read_is_made_private(tmp_path):
    folder = tmp_path / "sessions"
    folder.mkdir(mode=0o755)
    journal = Journal(folder / "x.jsonl")
    journal.write(Record("meta", 0, {}))
    journal.close()
    assert folder.stat().st_mode & 0o777 == 0o700
