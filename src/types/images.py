"""The images that models are shown: which files are some, and how large one may be.

They are sent as they are. The kinds are those that all providers take; the size is the smallest of the providers'
limits: Anthropic takes 5 MiB of base64 (Vision, in its documentation), OpenAI and Gemini more.
"""

from __future__ import annotations

MAX_IMAGE_BYTES = 3_750_000
HEAD_BYTES = 12  # of a file, which tell its kind
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def detect_image(head: bytes) -> str:
    """The MIME type of an image that begins so; "" for one that models are not shown."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


def describe_excess(size: int) -> str:
    """Why an image of so many bytes is not shown; "" if it is."""
    if size <= MAX_IMAGE_BYTES:
        return ""
    return f"an image of {size:,} bytes; one may have {MAX_IMAGE_BYTES:,}. Make it smaller first"
