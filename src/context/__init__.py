"""What still fits: old tool results shortened, old turns summed up."""

from .compact import Compactor
from .room import make_room
from .trim import budget, trim

__all__ = ["Compactor", "budget", "make_room", "trim"]
