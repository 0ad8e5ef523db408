"""`--demo`: a scripted model inside the process, for a machine without a GPU, a server or a download.

It speaks vLLM's protocol on a loopback port, so that all of the program runs as on a real server, and works in a
folder of its own, made anew each time.
"""

from __future__ import annotations

from .run import running

__all__ = ["running"]
