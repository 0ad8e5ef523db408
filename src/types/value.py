"""Values: structs of msgspec, of which some fields may not count in a comparison."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct


class Value(Struct, frozen=True, eq=False, repr_omit_defaults=True):
    """Base of values with fields that say how one came about. `UNCOMPARED` names those: they do not count in `==`."""

    UNCOMPARED: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name)
            for name in self.__struct_fields__
            if name not in self.UNCOMPARED
        )

    def __ne__(self, other: object) -> bool:  # that of Struct does not ask __eq__
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__struct_fields__ if name not in self.UNCOMPARED))
