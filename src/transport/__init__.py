"""HTTP to one server: the only socket, time limits for every wait, errors translated."""

from .deadlines import CANCELLED, Timeouts
from .http import Client, HttpReply

__all__ = ["CANCELLED", "Client", "HttpReply", "Timeouts"]
