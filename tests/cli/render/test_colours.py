"""Which colours a terminal gets."""

import pytest

from src.cli.render.colours import DARK, LIGHT, NONE, find_colours, paint, take_background
from tests.each import check_rows


@check_rows(
    "theme, environment, colours",
    [
        ("auto", {}, None),
        ("auto", {"COLORFGBG": "15;0"}, DARK),
        ("auto", {"COLORFGBG": "0;default;15"}, LIGHT),
        ("auto", {"TERM": "linux"}, DARK),
        ("light", {"COLORFGBG": "15;0"}, LIGHT),
        ("dark", {}, DARK),
        ("light", {"NO_COLOR": "1"}, NONE),
        ("auto", {"NO_COLOR": ""}, None),
    ],
)
def test_the_setting_decides_then_the_environment(theme, environment, colours):
    assert find_colours(theme, environment) == colours


@pytest.mark.parametrize(
    ("answer", "colours"),
    [
        ("\x1b]11;rgb:ffff/ffff/ffff\x1b\\", LIGHT),
        ("\x1b]11;rgb:fd/f6/e3\x07", LIGHT),
        ("\x1b]11;rgb:0000/2b2b/3636\x1b\\", DARK),
    ],
)
def test_what_the_terminal_answers_is_taken_out_of_the_keys(answer, colours):
    assert take_background(f"ab{answer}c") == ("abc", colours)


def test_other_keys_stay_as_they_are():
    assert take_background("a\x1b]11;b\x1b[A") == ("a\x1b]11;b\x1b[A", None)


def test_no_colour_is_no_escape():
    assert paint("x", NONE.error) == "x"
    assert paint("x", DARK.error) == "\x1b[31mx\x1b[0m"
