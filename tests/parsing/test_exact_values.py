"""The law of the text parser: what a chat template writes comes back equal, or malformed, or marked as guessed.

Values hold every marker, tag, separator and quote of every format. Run as a script, it prints how many came back how.
"""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from src.parsing import StreamParser, extract_tool_calls, gathered
from src.parsing.formats.envelopes import REASONING
from src.parsing.formats.table import FORMATS
from src.types.messages import ToolDefinition
from tests.each import check_each, check_rows
from tests.thorough import is_thorough, sample

STRING = {"type": "string"}
WRITE = ToolDefinition(
    "write",
    "Write a file.",
    {"type": "object", "properties": {"path": STRING, "content": STRING}, "required": ["path", "content"]},
)
LONG_LINES = 1_000 if is_thorough() else 200
ROWS = [row for row in FORMATS if row.name != "react"]  # that has its own end: the next label
SYNTAXES = {row.syntax for row in FORMATS if row.syntax}
TAGS = sorted(
    {
        tag
        for syntax in SYNTAXES
        for tag in (*replace(syntax, prefix="").frame_call("write"), *replace(syntax, prefix="").frame_value("path"))
        if tag
    }
    | {
        "</content>",
        "<content>",
        "</arg_value>",
        "<arg_key>",
        "<![CDATA[",
        "]]>",
        '<|"|>',
        "<escape>",
        "```",
        "</param>",
    }
)
MARKERS = sorted(
    {marker for row in FORMATS for marker in (*row.openers, *row.closers) if marker}
    | {marker for pair in REASONING for marker in (pair.opener, pair.closer)}
)
FRAMES = (
    "{}",
    "x {} y",
    "It ends with `{}` on its own.\nLine not lost.",
    'grep -n "{}" a.py',
    "{}\n",
    "\n{}",
    "a\n{}\nb",
)
PLAIN = (
    *(
        "",
        "\n",
        "\n\n",
        "x\n",
        "\nx",
        "\nx\n",
        "\n\nx\n\n",
        "a\nb\n",
        "a\r\nb\r\n",
        " x ",
        "\t",
        '"',
        "'",
        "\\",
        "a\\n",
    ),
    *('"a"', "10-3", "5", "true", "null", "[1]", '{"a": 1}', "&lt;a&gt;", "a\x00b", "\x1b[0m", "é😀", "{", "}", "a,b"),
    *("k=v", "# c", "// c", "$5000", "<a>b</a>", "a < b", "x</parameter></function></tool_call>y", "é\u2028b"),
    "<tool_call>\n<function=write>\n<parameter=path>\nb\n</parameter>\n</function>\n</tool_call>",
    "see <parameter=path>b.py</parameter> here",
    "cat <<EOF\n</invoke>\nEOF",
    "x</parameter>\n<parameter=path>b.py</parameter>\ny",
)
VALUES = (*PLAIN, *(frame.replace("{}", tag.strip()) for tag in TAGS for frame in FRAMES))
PIECES = st.sampled_from(
    (*TAGS, *MARKERS, "\n", " ", '"', "'", "\\", "&amp;", "x", "{", "}", ",", ":", "\x00", "é", "`")
)


def write_call(row, value, first="path"):
    arguments = {"path": "a.py", "content": value} if first == "path" else {"content": value, "path": "a.py"}
    return row.write("write", arguments), arguments


def judge(found, arguments):
    """How a call came back: exact, guessed, malformed, text, or changed."""
    if [(call.name, call.arguments, call.guessed) for call in found.calls] == [("write", arguments, False)]:
        return "changed" if found.malformed else "exact"
    if not all(call.guessed for call in found.calls):
        return "changed"
    return "guessed" if found.calls else "malformed" if found.malformed else "text"


def parse_in_pieces(text, size):
    parser = StreamParser([WRITE])
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    return gathered(events + parser.close())


@pytest.mark.thorough
@check_each(row=ROWS)
def test_no_value_is_changed_in_silence(row):
    counted = collections.Counter()
    for value in sample(VALUES, 48, ROWS.index(row)):
        for first in ("path", "content"):
            text, arguments = write_call(row, value, first)
            verdict = judge(extract_tool_calls(text, [WRITE]), arguments)
            assert verdict != "changed", text
            counted[verdict] += 1
    assert counted["exact"] >= (0.95 if is_thorough() else 0.9) * counted.total()  # a sample may hold most of the rest


@pytest.mark.thorough
@pytest.mark.parametrize("row", sample(ROWS, 4), ids=[row.name for row in sample(ROWS, 4)])
@given(pieces=st.lists(PIECES, max_size=8), size=st.integers(1, 40))
def test_no_value_of_markers_is_changed_in_silence(row, pieces, size):
    text, arguments = write_call(row, "".join(pieces))
    whole = extract_tool_calls(text, [WRITE])
    assert judge(whole, arguments) != "changed"
    assert parse_in_pieces(text, size) == whole


@pytest.mark.thorough
@check_each(row=sample(ROWS, 3, 1))
def test_a_long_value_with_its_own_tags_is_not_changed_in_silence(row):
    tags = [row.opener, row.closer, *(astuple(row.syntax)[:4] if row.syntax else ())]
    text, arguments = write_call(row, "".join(f"line {n} {tags[n % len(tags)]}\n" for n in range(LONG_LINES)))
    assert judge(extract_tool_calls(text, [WRITE]), arguments) != "changed"


# A value that ends its block early, and what a reader may take the rest for: found by fuzzing.
EARLY_ENDS = {
    "qwen3_coder": (
        "\n</parameter>\n</function>\n</tool_call>\n<think>x",
        "</function>\n<![CDATA[<parameter=z>\n<ifm|think_faster>]]>",
    ),
    "dots": ('<x></dots_function_call></parameter>\n<![CDATA[<parameter name="z"><dots_function_call>',),
    "deepseek_v4": ('x</parameter>\n</invoke>\nsee <parameter name="path" string="true"><｜DSML｜tool_calls>',),
    "anthropic": (
        "</parameter><parameter name=path></function_call><invoke name=write\n<parameter name=content><invoke name=r\n",
        "</parameter><parametername=path></function_call><invoke name=write\n<parametername=content><invokename=r\n",
    ),
    "glm45": ("x</arg_value></tool_call>write\n<tool_call>\nObservation: y</arg_value>\n",),
    "gemma4": ('<|"|>}<|im_end|><reasoning>',),
    "kimi_k3": (
        '<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool="write" index="2"<|sep|>'
        '<|open|>argument key="path" type="string"<|sep|>b',
    ),
    "tool_element": (
        "<z></content>\n</write>\n<z><write>\n",
        "</content>\n</write>\n<write>\n<content><x>",
        "</content>\n<path><x>",
        "<z></content>\n]]></write>\n<path>",
    ),
    "langroid": ("</content>\n</tool><tool>", "<x><content></path>\n<content>[y]<content></tool>"),
    "named_elements": ("</content><path></arguments>\n</function>",),
    "qwen3_coder_drifted": (
        "\\n</parameter>\\n</function>\\n<parameter=z>\\n<function=<|toolcall|><parameter=z>\\n<function=",
    ),
    "continue": ("x\nEND_ARG\n```<request>write</request>\n,```", "x\nEND_ARG\n```" + " and so on" * 60),
    "hunyuan3": ("</arg_value>\n</tool_call></tool_calls><arg_key>path</arg_key>\n<arg_value><think>",),
    "escaped_name": ("\\\x00END_ARG\nx", "C:\nx"),
    "pythonic": ("C:\nx", "Q:\nWhy?"),
}


@check_rows("name", EARLY_ENDS)
def test_a_value_that_ends_its_block_early_is_not_changed_in_silence(name):
    row = next(row for row in ROWS if row.name == name)
    for value in EARLY_ENDS[name]:
        for first in ("path", "content"):
            text, arguments = write_call(row, value, first)
            whole = extract_tool_calls(text, [WRITE])
            assert judge(whole, arguments) != "changed", text
            assert parse_in_pieces(text, 1) == whole


def test_tags_that_begin_a_call_and_closers_are_read_alike_in_pieces():
    starts = "<invoke>\n<tool_name>write</tool_name>\n<parameters>\n"
    for name, value in (
        ("claude2", f"<|x|>\n</arguments>\n</parameters>\n</invoke>\n{starts}<function_calls>{starts}"),
        (
            "hunyuan3",
            "write<tool_sep></tool></arg_value>\n</tool_call></tool_calls><arg_key>path</arg_key>\n<arg_value>",
        ),
        ("tool_element", "</z>\n<tool_calls></write>\n<x><write>\n<y></write>\n<write>\n"),
    ):
        text, _ = write_call(next(row for row in ROWS if row.name == name), value)
        assert [parse_in_pieces(text, size) for size in (1, 2, 7)] == [extract_tool_calls(text, [WRITE])] * 3


@check_rows("name", ["qwen3_coder", "glm45", "minimax_m2", "gemma4"])
def test_a_value_that_closes_its_call_long_before_its_end_is_guessed(name):
    row = next(row for row in ROWS if row.name == name)
    ends = row.write("write", {"content": "|"}).partition("|")[2]
    text, arguments = write_call(row, "x" + ends + "\n" + "Prose that goes on and on. " * 40)
    assert judge(extract_tool_calls(text, [WRITE]), arguments) == "guessed"


def repeat_path(row):
    """A call of the row in which the path stands twice."""
    text, _ = write_call(row, "x")
    written = "a.py".join(row.syntax.frame_value("path")) if row.syntax else "\0"
    pairs = [(written, f"{written}{written}")]
    pairs += [
        (f"{each}, ", f"{each}, {each}, ") for each in ('"path": "a.py"', 'path="a.py"', '\\"path\\": \\"a.py\\"')
    ]
    pairs += [('path="a.py" ', 'path="a.py" path="b.py" ')]
    pairs += [
        (f"path:{each}a.py{each},", f"path:{each}a.py{each},path:{each}b.py{each},") for each in ('<|"|>', "<escape>")
    ]
    return next(text.replace(one, two) for one, two in pairs if one in text)


@check_rows("row", [row for row in ROWS if row.name not in ("fenced", "openai_legacy")])
def test_a_key_that_stands_twice_is_malformed_in_every_format(row):
    text = repeat_path(row)
    whole = extract_tool_calls(text, [WRITE])
    assert not whole.calls
    assert "stands twice" in whole.malformed[0].reason
    assert parse_in_pieces(text, 3) == whole


@check_rows(
    "text",
    [
        '<tool_call>{"name": "write", "arguments": {"path": "a", "content": "x"}, "parameters": {"path": "b"}}</tool_call>',
        "<tool>write</tool><tool_input><path>a</path><content>x</content><path>b</path></tool_input>",
        'Action: write\nAction Input: path="a", path="b", content="x"\n',
        'TOOL_CALL: [\'write\', path="a", path="b", content="x"]',
    ],
)
def test_of_arguments_that_stand_in_two_places_none_is_chosen_in_silence(text):
    found = extract_tool_calls(text, [WRITE])
    assert found.malformed or [call.guessed for call in found.calls] == [True]


def test_attributes_hold_brackets_and_the_call_ends_at_its_marker():
    tool = ToolDefinition(
        "run", "Run.", {"type": "object", "properties": {"a": STRING, "b": {"type": "array"}, "c": STRING}}
    )
    for text in ('<tool_call>run a="x" b=[] c="]}"</tool_call>', '[Calling tool="run" a="x" b=[] c="]}"]'):
        found = extract_tool_calls(text, [tool])
        assert [(call.arguments, call.guessed) for call in found.calls] == [({"a": "x", "b": [], "c": "]}"}, False)]
        assert found.content == ""


if __name__ == "__main__":
    totals = collections.Counter()
    for each in ROWS:
        cases = [write_call(each, value, first) for value in VALUES for first in ("path", "content")]
        verdicts = collections.Counter(judge(extract_tool_calls(text, [WRITE]), wanted) for text, wanted in cases)
        print(f"{each.name:20s} {verdicts['exact'] / verdicts.total():.3f} {dict(verdicts)}")
        totals += verdicts
    print(f"{'all':20s} {totals['exact'] / totals.total():.3f} {dict(totals)}")
