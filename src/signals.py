"""The signals with which a system, a terminal that closes or a user ends this program, beside SIGINT."""

from __future__ import annotations

import signal

ENDING_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
