"""What a tool returned, as a result."""

from __future__ import annotations

import pytest

from src.errors import ToolError
from src.tools.sdk.result import Media, outcome

PICTURE = Media(b"\x89PNG", "image/png")
BLOCK = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}

CASES = [
    ("words", ("text", "words")),
    ({"a": (1, None)}, ("data", {"a": [1, None]})),
    (["a", "b"], ("data", ["a", "b"])),
    (None, ("data", None)),
    (PICTURE, ("multimodal", [BLOCK])),
    (["See:", PICTURE, {"k": 1}], ("multimodal", [{"type": "text", "text": "See:"}, BLOCK, {"type": "text", "text": '{"k": 1}'}])),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), CASES, ids=[str(row[0])[:20] for row in CASES])
def test_what_is_returned_has_one_kind(value, expected):
    assert outcome(value) == (*expected, "")


def test_media_that_no_model_takes_are_refused():
    with pytest.raises(ToolError, match="application/pdf"):
        outcome(Media(b"", "application/pdf"))
