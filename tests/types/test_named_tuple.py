"""The named tuple that a start makes: what `typing.NamedTuple` gives, it gives too."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import get_type_hints

import pytest

from src.types.named_tuple import NamedTuple


class Place(NamedTuple):
    """Where something is."""

    path: Path
    line: int = 1

    @property
    def title(self) -> str:
        return f"{self.path}:{self.line}"

    @classmethod
    def of(cls, text: str) -> Place:
        return cls(Path(text))


def test_it_is_a_tuple_of_its_fields():
    path, line = Place(Path("a.py"), 3)
    assert (path, line) == Place(Path("a.py"), line=3) == (Path("a.py"), 3)


def test_a_field_has_its_default():
    assert Place(Path("a.py")).line == 1
    assert Place._field_defaults == {"line": 1}


def test_it_has_its_properties_and_methods():
    assert Place.of("a.py").title == "a.py:1"


def test_a_field_that_is_missing_is_an_error():
    with pytest.raises(TypeError, match="path"):
        Place()  # type: ignore[call-arg]


def test_it_cannot_be_changed_but_replaced():
    place = Place(Path("a.py"))
    with pytest.raises(AttributeError):
        place.line = 2  # type: ignore[misc]
    assert place._replace(line=2).line == 2


def test_it_has_its_name_docstring_module_and_hints():
    assert (Place.__name__, Place.__doc__, Place.__module__) == ("Place", "Where something is.", __name__)
    assert get_type_hints(Place) == {"path": Path, "line": int}


def test_it_is_shown_and_stored_as_a_named_tuple():
    place = Place(Path("a.py"))
    assert repr(place) == f"Place(path={Path('a.py')!r}, line=1)"
    assert pickle.loads(pickle.dumps(place)) == place


def test_a_field_may_not_have_the_name_of_a_method_of_named_tuples():
    with pytest.raises(ValueError, match="underscore"):

        class Odd(NamedTuple):
            _secret: str


def test_a_class_without_fields_is_an_empty_tuple():
    class Nothing(NamedTuple):
        pass

    assert Nothing() == ()
