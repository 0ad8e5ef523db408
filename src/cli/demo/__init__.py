"""`--demo`: a scripted model inside the process, for a machine without a GPU, a server or a download.

It speaks vLLM's protocol on a loopback port, so that all of the program runs as on a real server. It works in a
temporary folder.
"""

from __future__ import annotations

from .run import start_demo

__all__ = ["start_demo"]
