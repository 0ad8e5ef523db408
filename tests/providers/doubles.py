"""Codecs that name calls made0, made1 and so on, and what an answer gives when it is fed to one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from src.providers.base import Codec, decode
from src.providers.table import PROVIDERS
from src.types.events import ModelEvent
from src.types.messages import Response


def codec(provider: str) -> Codec:
    numbers = itertools.count()
    return PROVIDERS[provider].codec(lambda: f"made{next(numbers)}")


def decoded(
    codec: Codec, chunks: Iterable[bytes], content_type: str = "text/event-stream"
) -> tuple[list[ModelEvent], Response]:
    """The events but for the last, and the response in that."""
    decoder = codec.make_decoder(content_type)
    events = [event for found in decode(decoder, chunks) for event in found]
    return events[:-1], events[-1].response
