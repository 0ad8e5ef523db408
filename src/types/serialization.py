"""Values as JSON objects, and back: a value that is read equals the one that was written.

"type" names the class of an object. Fields that have their default value are left out, and unknown ones are ignored.
How a field is read follows from its type. JSON may come from a file that somebody edited, so reading checks types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from msgspec import NODEFAULT
from msgspec.structs import fields

from .value import Value

T = TypeVar("T", bound="Serializable")
_PLAIN_KINDS: Mapping[Any, type] = {Mapping: dict, dict: dict, Literal: str}  # a newer version may know more words
Reader = Callable[[Any], Any]


class Serializable(Value, frozen=True):
    """Base of values that are stored. `TYPE` is the class's name in JSON. `UNSTORED`: the fields that are left out."""

    TYPE: ClassVar[str]
    UNSTORED: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        written: dict[str, Any] = {"type": self.TYPE}
        for name, default in _list_defaults(type(self)):
            value = getattr(self, name)
            if value != default or type(value) is not type(default):
                written[name] = _write(value)
        return written

    @classmethod
    def from_dict(cls: type[T], value: object) -> T:
        """Raises ValueError if `value` is not an object of this type."""
        if not isinstance(value, dict) or value.get("type") != cls.TYPE:
            raise ValueError(f"expected an object of type {cls.TYPE}")
        readers = _list_readers(cls)
        try:
            return cls(**{name: readers[name](held) for name, held in value.items() if name in readers})
        except TypeError as error:  # a field is missing
            raise ValueError(f"{cls.TYPE}: {error}") from error


def read_as(value: object, hint: Any) -> Any:
    """The value as the type `hint` describes it. Raises ValueError."""
    return _reader_of(hint)(value)


def _write(value: Any) -> Any:
    if isinstance(value, Serializable):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_write(each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value


@cache
def _list_defaults(kind: type[Serializable]) -> list[tuple[str, object]]:
    """The fields that are stored, each with its default. A required one has NODEFAULT, which equals no value."""
    defaults: list[tuple[str, object]] = []
    for each in fields(kind):
        default = each.default
        if each.default_factory is not NODEFAULT:
            default = each.default_factory()
        if each.name not in kind.UNSTORED:
            defaults.append((each.name, default))
    return defaults


@cache
def _list_readers(kind: type[Serializable]) -> dict[str, Reader]:
    return {each.name: _reader_of(each.type) for each in fields(kind) if each.name not in kind.UNSTORED}


@cache
def _reader_of(hint: Any) -> Reader:
    arms = get_args(hint)
    if type(None) in arms:
        others = tuple(each for each in arms if each is not type(None))
        return partial(_read_optional, _reader_of(Union[others]))
    classes = {each.TYPE: each for each in (hint, *arms) if isinstance(each, type) and issubclass(each, Serializable)}
    if get_origin(hint) is tuple:
        read = _reader_of(arms[0])
        return lambda value: tuple(map(read, _read_plain(list, value)))
    if classes:
        return partial(_read_object, classes)
    if hint in (str, int, bool):
        return partial(_read_plain, hint)
    return partial(_read_plain, _PLAIN_KINDS.get(get_origin(hint), object))


def _read_optional(read: Reader, value: object) -> object:
    if value is None:
        return None
    return read(value)


def _read_object(classes: Mapping[str, type[Serializable]], value: object) -> object:
    name = isinstance(value, dict) and value.get("type")
    if not isinstance(name, str) or name not in classes:
        raise ValueError(f"expected an object of type {' or '.join(classes)}")
    return classes[name].from_dict(value)


def _read_plain(kind: type, value: Any) -> Any:
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")
