"""JSON whose objects hold each key once."""

import pytest

from src.types.strict_json import loads_strict


def test_json_without_repeated_keys_is_read_as_json_reads_it():
    assert loads_strict('{"a": {"b": [1, null]}, "b": {"a": 2}}') == {"a": {"b": [1, None]}, "b": {"a": 2}}


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "a": 1}}]'])
def test_a_repeated_key_is_an_error_at_any_depth(text):
    with pytest.raises(ValueError, match="a key stands twice in an object"):
        loads_strict(text)


def test_the_caller_words_the_error_with_the_key():
    with pytest.raises(ValueError, match="again: path"):
        loads_strict('{"path": 1, "path": 2}', error=lambda key: ValueError(f"again: {key}"))


def test_options_go_to_json():
    assert loads_strict('{"a": "x\ny"}', strict=False) == {"a": "x\ny"}
    with pytest.raises(ValueError, match="control character"):
        loads_strict('{"a": "x\ny"}')
