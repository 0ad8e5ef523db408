"""YAML whose objects hold each key once."""

import pytest

from src.types.strict_yaml import InvalidYaml, load_strict


def test_yaml_is_read_as_json_has_values():
    assert load_strict("a: [1, true, null, 2024-01-01]\nb: {c: x}") == {
        "a": [1, True, None, "2024-01-01"],
        "b": {"c": "x"},
    }


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: 1\na: 2", 'line 2, column 1: "a" stands twice in one object'),
        ("- b: {a: 1, c: 2, a: 1}", 'line 1, column 19: "a" stands twice in one object'),
    ],
)
def test_a_repeated_key_is_an_error_at_any_depth(text, error):
    with pytest.raises(InvalidYaml) as raised:
        load_strict(text)
    assert str(raised.value) == error


def test_a_key_that_is_merged_in_may_be_given_again():
    assert load_strict("base: &base {a: 1, b: 2}\nown:\n  <<: *base\n  a: 3")["own"] == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [1", "line 1, column 6: expected ',' or ']', but got '<stream end>'"),
        ("a: \0", "unacceptable character #x0000: special characters are not allowed"),
    ],
)
def test_what_is_not_yaml_is_said_in_one_line(text, error):
    with pytest.raises(InvalidYaml) as raised:
        load_strict(text)
    assert str(raised.value) == error
