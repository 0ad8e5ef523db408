"""What still fits: old tool results shortened, old turns summed up."""

from .compact import Compactor
from .room import make_room

__all__ = ["Compactor", "make_room"]
