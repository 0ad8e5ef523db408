"""What is wrong with the settings of a record is told before the gateway starts."""

from __future__ import annotations

import pytest

from src.app.keys import hash_key
from src.config import load
from src.errors import ConfigError
from src.serve.run import check


def check_with(**options: object) -> None:
    values = {"serve.listen": "127.0.0.1:0", "serve.upstreams": ["127.0.0.1:9"]}
    check(load(None, {**values, **{f"serve.{name}": value for name, value in options.items()}}, {}))


def test_a_record_that_can_be_written_is_made_at_once(tmp_path):
    check_with(record=str(tmp_path / "record.jsonl"))
    assert (tmp_path / "record.jsonl").read_bytes() == b""


@pytest.mark.parametrize("name", ["missing/record.jsonl", ""])
def test_a_record_that_cannot_be_written_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="The record cannot be written"):
        check_with(record=str(tmp_path / name))


def test_a_chosen_key_that_is_none_is_refused(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text(f"sha256:{hash_key('one')}  # alice\n")
    check_with(keys=str(file), record_keys=["alice"])
    with pytest.raises(ConfigError, match="there is no key of the name 'bob'"):
        check_with(keys=str(file), record_keys=["bob"])
