"""The descriptions of parameters that stand in a docstring."""

from __future__ import annotations

import inspect
from typing import Annotated

import pytest

from src.tools import tool
from src.tools.sdk.docstrings import read_descriptions
from tests.each import check_rows

GOOGLE = """Look.

    Args:
        city (str): Its name,
            in English.
        *days: How many: at most 7.

        unit: C or F

    Returns:
        text: The weather.
    """
NUMPY = """Look.

    Parameters
    ----------
    city : str
        Its name,
        in English.
    days : int, optional
        How many: at most 7.
    unit
        C or F

    Returns
    -------
    text
        The weather.
    """
SPHINX = """Look.

    :param city: Its name,
        in English.
    :param int days: How many: at most 7.
    :type city: str
    :param unit: C or F
    :returns: The weather.
    """


@pytest.mark.parametrize("doc", [GOOGLE, NUMPY, SPHINX], ids=["Google", "NumPy", "Sphinx"])
def test_they_are_read_in_three_styles(doc):
    assert read_descriptions(inspect.cleandoc(doc)) == {
        "city": "Its name, in English.",
        "days": "How many: at most 7.",
        "unit": "C or F",
    }


@check_rows(
    "doc, read",
    [
        (
            "Args:\n    at (tuple(int, int)): Where.\n    days (int, default (3)): How many.",
            {"at": "Where.", "days": "How many."},
        ),
        (
            "Parameters\n----------\nx, y : int\n    Where.\n*z, w\n    More.",
            {"x": "Where.", "y": "Where.", "z": "More.", "w": "More."},
        ),
    ],
)
def test_types_may_have_parentheses_and_names_may_share_a_description(doc, read):
    assert read_descriptions(doc) == read


@check_rows("doc", ["", "Look.", "Args:", "Args:\n\nNothing: here", "Parameters\n---", "A: b", ":param:"])
def test_where_there_are_none_there_are_none(doc):
    assert read_descriptions(doc) == {}


def test_the_model_is_told_them_where_the_hint_has_none():
    def look(city: str, days: Annotated[int, "Of the hint"], unknown: int = 1) -> str:
        """Look.

        Args:
            city: Its name.
            days: Of the docstring.
            none: There is no such parameter.
        """
        return city

    definition = tool(look).definition
    assert definition.description == "Look."
    properties = definition.parameters["properties"]
    assert [each.get("description") for each in properties.values()] == ["Its name.", "Of the hint", None]
