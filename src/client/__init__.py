"""The only socket: bytes to and from one server, clocks over every wait, foreign errors translated."""

from .clock import Clocks
from .http import Client, HttpReply

__all__ = ["Client", "Clocks", "HttpReply"]
