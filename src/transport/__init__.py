"""HTTP to one server: the only socket, time limits for every wait, errors translated."""

from .deadlines import Timeouts
from .http import Client, HttpReply

__all__ = ["Client", "HttpReply", "Timeouts"]
