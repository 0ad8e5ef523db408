"""Whether a block begins at an anchor: it does, it does not, or more text decides."""

from src.parsing.arguments.tool_index import ToolIndex
from src.parsing.stream.detector import BlockDetector
from src.parsing.stream.lookback import Position
from src.parsing.stream.openers import BlockStart, NeedMore, Skip
from tests.each import check_rows
from tests.parsing.laws import TOOLS

DETECTOR = BlockDetector(ToolIndex(TOOLS).names)


def detect(text, anchor):
    at = text.index(anchor)
    return DETECTOR.detect(Position(text, at, 0, text[:at].rpartition("\n")[2]))


@check_rows(
    "text, anchor, kind, opener",
    [
        ('<tool_call>\n{"', "<", "json", "<tool_call>\n"),
        ("<tool_call><function=", "<", "tags", "<tool_call>"),
        ('TOOL_CALL: {"', ":", "json", "TOOL_CALL:"),
        ("[read(", "[", "pythonic", ""),
        ('{"name": "read"', "{", "json", ""),
        ('read\n{"', "{", "named", ""),
        ("so: read(", "(", "pythonic", ""),
        ("so: <read>", "<", "element", ""),
        ('so?>>>read\n{"', ">", "named", ">>>"),
    ],
)
def test_a_block_is_found_with_its_kind_and_its_marker(text, anchor, kind, opener):
    found = detect(text, anchor)
    assert isinstance(found, BlockStart)
    assert (found.kind, found.opener) == (kind, opener)


@check_rows(
    "text, anchor",
    [("<tool_", "<"), ("<tool_call>\n", "<"), ('{"na', "{"), ('{"name": "re', "{"), ("[re", "["), ("```js", "`")],
)
def test_what_may_yet_be_one_is_held(text, anchor):
    assert isinstance(detect(text, anchor), NeedMore)


@check_rows(
    "text, anchor",
    [
        ("<div>", "<"),
        ('{"city": ', "{"),
        ('{"name": "John"', "{"),
        ("[link](", "["),
        ("open(", "("),
        ("note: x", ":"),
        ("x>>>read(", ">"),
    ],
)
def test_other_text_is_none_at_once(text, anchor):
    assert detect(text, anchor) is None


def test_markers_that_no_body_follows_are_passed_together():
    assert detect("<tool_call><tool_call> is a tag", "<") == Skip(23)
