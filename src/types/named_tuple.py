"""`typing.NamedTuple` for the modules that a start loads.

typing compiles each annotation of each class, which was a ninth of the instructions of a start. Type checkers see
typing's own; `typing.get_type_hints` reads the annotations where somebody asks for them.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _NamedTupleMeta(type):
        """Makes a class whose base is NamedTuple a named tuple."""

        def __new__(cls, name: str, _: tuple[type, ...], body: dict[str, Any]) -> type:
            fields = body.get("__annotations__", {})
            defaults = [body[each] for each in fields if each in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            made.__annotations__ = fields
            for key in body.keys() - fields.keys() - {"__module__", "__annotations__"}:
                setattr(made, key, body[key])
            return made

    NamedTuple = type.__new__(_NamedTupleMeta, "NamedTuple", (), {})
