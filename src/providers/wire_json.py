"""JSON on the wire: what servers send is read however odd it is, and what is sent is always valid. No I/O.

An event of the documented shape is read by msgspec into a struct in one step, which skips unknown fields. Of any other
event (a field of another type, NaN, a lone surrogate, bytes that are not UTF-8), the fields that do not fit are left
out and the others are read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec

from ..errors import WireError

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)  # json.dumps makes one a call
_split_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_split_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_decode_string = msgspec.json.Decoder(str).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)

log = logging.getLogger(__name__.rpartition(".")[0])


class WireStruct(msgspec.Struct, gc=False):
    """An object in a server's answer. Its fields are `Any`, or a type or None, which is the default."""


T = TypeVar("T", bound=WireStruct)


class StructReader(Generic[T]):
    """Reads JSON objects as structs of one type."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode

    def read(self, data: bytes) -> T:
        """Raises WireError if it is not JSON."""
        try:
            return self._decode(data)
        except _UNREADABLE:
            return to_struct(load_json(data), self._kind)


def to_struct(value: object, kind: type[T]) -> T:
    """The fields of an object that have the right type; none if it is not an object."""
    if not isinstance(value, dict):
        log.debug("Skipped an event that is not an object: %s", type(value).__name__)
        return kind()
    fields = msgspec.structs.fields(kind)
    return kind(**{each.name: _fit(value[each.encode_name], each.type) for each in fields if each.encode_name in value})


def _fit(value: object, kind: Any) -> Any:
    """The value as this type; None if it is of another."""
    arguments = get_args(kind)
    if get_origin(kind) is list:
        return _fit_items(value, arguments[0])
    if arguments:  # a type or None
        return _fit(value, arguments[0])
    if kind is Any:
        return value
    if issubclass(kind, WireStruct) and isinstance(value, dict):
        return to_struct(value, kind)
    return value if isinstance(value, kind) else None


def _fit_items(value: object, kind: Any) -> Any:
    """The items of a list that have this type; None if it is no list."""
    if isinstance(value, dict):  # some servers send one object in place of a list
        value = [value]
    if not isinstance(value, list):
        return None
    fitting = [_fit(item, kind) for item in value]
    return [item for item in fitting if item is not None]


def load_json(data: bytes) -> Any:
    """Raises WireError."""
    try:
        return msgspec.json.decode(data)
    except _UNREADABLE:
        pass  # the standard library reads more: NaN, lone surrogates, and text with wrong bytes replaced
    try:
        return json.loads(data.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        beginning = data[:100].decode(errors="replace")
        raise WireError(f"The server sent an event that is not JSON: {beginning}") from error


def count_items(data: bytes, name: str) -> int:
    """How many items the list `name` of an object has, without making them; 0 if that cannot be told."""
    try:
        return len(_split_list(_split_object(data)[name]))
    except (KeyError, *_UNREADABLE):
        return 0


def is_object(text: str) -> bool:
    """Whether a text is a JSON object. Its values are not made."""
    try:
        _split_object(text)
    except _UNREADABLE:
        return False
    return True


def load_string(data: bytes) -> str:
    """One string. Raises WireError, also for a lone surrogate."""
    try:
        return _decode_string(data)
    except _UNREADABLE as error:
        raise WireError("The server sent a string that is not JSON.") from error


def dump_json(value: object) -> str:
    """Compact JSON; NaN and infinities become null."""
    try:
        return _COMPACT.encode(value)
    except ValueError:
        return _COMPACT.encode(json.loads(json.dumps(value), parse_constant=lambda _: None))


def encode_json(value: object) -> bytes:
    """As dump_json, in UTF-8; a lone surrogate, which has none, becomes a question mark."""
    try:
        return _encode(value)
    except (ValueError, OverflowError, RecursionError):  # a lone surrogate, an integer of more than 64 bits
        return dump_json(value).encode(errors="replace")


def encode_body(name: str, items: Sequence[bytes], *objects: bytes) -> bytes:
    """The body of a request: the list of `items` under `name`, then the fields of `objects`, all of them JSON already.

    The list comes first, so that the beginning of a conversation has the same bytes every turn. It may be long, and is
    copied once.
    """
    pieces = [*items] or [b""]
    pieces[0] = b'{"%s":[' % name.encode() + pieces[0]
    pieces[-1] += b"],%s}" % b",".join(each[1:-1] for each in objects)
    return b",".join(pieces)


def as_dicts(value: object) -> list[dict[str, Any]]:
    """The objects in a list or tuple; none if it is neither."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, (list, tuple)) else []


def as_dict(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_str(value: object) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""
