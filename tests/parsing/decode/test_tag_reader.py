"""Calls written in tags: their arguments, what a value may hold, and which readings are marked as guessed."""

import pytest

from src.parsing.decode.nodes import DeclaredText, RepeatedKey
from src.parsing.decode.xml import Markup, parse_elements, parse_structure
from src.parsing.formats.format_set import FORMAT_SET
from tests.each import check_rows


def read_block(text, kind="tags", opener=""):
    """The block of a whole text."""
    reader = FORMAT_SET.make_tag_reader(kind, opener)
    reader.feed(text, 0, final=True)
    return reader.read(text)[0]


def parse_invocations(text):
    return read_block(text).calls


def read_classes(text):
    """The values of a call, and of which class each is."""
    return [(value, type(value)) for value in parse_invocations(text)[0].arguments.values()]


def parse_pairs(text):
    return read_block(text, "pairs", "<tool_call>").calls


def parse_element(name, text):
    return read_block(f"<{name}>{text}", "element").calls


BLOCKS = {
    "invoke": '<invoke name="f">\n<parameter name="a">x</parameter>\n</invoke>',
    "function": "<function=f>\n<parameter=a>\nx\n</parameter>\n</function>",
    "a parameter not closed": "<function=f>\n<parameter=a>\nx\n</function>",
    "a parameter that drifted": "<function=f>\n<parameter=a=x</parameter>\n</function>",
    "a namespace": '<minimax:invoke name="f"><minimax:parameter name="a">x</minimax:parameter></minimax:invoke>',
    "JSON inside": '<function=f>{"a": "x"}</function>',
    "child elements": '<invoke name="f"><a>x</a></invoke>',
    "name and arguments in elements": "<tool_call><name>f</name><arguments><a>x</a></arguments></tool_call>",
    "open and close tokens": '<|open|>call tool="f"<|sep|><|open|>argument key="a"<|sep|>x<|close|>argument<|sep|><|close|>call<|sep|>',
}


@check_rows("block", BLOCKS.values())
def test_each_dialect_says_the_same_call(block):
    assert [(call.name, call.arguments) for call in parse_invocations(block)] == [("f", {"a": "x"})]


def test_a_value_keeps_its_text_but_for_the_newlines_that_set_it_apart():
    block = "<function=f>\n<parameter=a>\n\n  def f(x):\n    return '<b>'\n\n</parameter>\n</function>"
    assert parse_invocations(block)[0].arguments == {"a": "\n  def f(x):\n    return '<b>'\n"}


def test_a_value_said_to_be_no_string_is_text_that_is_declared_so():
    block = '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">[1, 2]</｜DSML｜parameter></｜DSML｜invoke>'
    assert read_classes(block) == [("[1, 2]", DeclaredText)]


def test_a_parameter_that_is_not_closed_ends_with_its_call():
    calls = "<function=f>\n<parameter=a>\nx\n</function>\n<function=f>\n<parameter=a>\ny\n</parameter></function>"
    block = read_block(f"{calls}</tool_call>", opener="<tool_call>")
    assert [call.arguments for call in block.calls] == [{"a": "x"}, {"a": "y"}]
    assert (block.guessed, block.repairs) == (True, ("missing closers",))


def test_several_invocations_in_one_block_are_several_calls():
    text = BLOCKS["invoke"] * 3 + "</function_calls>"
    assert len(read_block(text, opener="<function_calls>").calls) == 3


def test_pairs_of_keys_and_values_follow_the_name():
    assert parse_pairs("f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>")[0].arguments == {"a": "x"}
    assert parse_pairs("f</tool_call>")[0].arguments == {}


HTML = '<div class="a">\n  <invoke name="g"></call></tool>\n</div>\n'


@check_rows(
    "block",
    [
        f'<invoke name="f"><parameter name="a">{HTML}</parameter></invoke>',
        f"<function=f>\n<parameter=a>\n{HTML}\n</parameter>\n</function>",
        f'<function name="f"><param name="a"><![CDATA[{HTML}]]></param></function>',
        f'<invoke name="f"><a>{HTML}</a></invoke>'.replace('<invoke name="g">', "<p>"),
        f"<tool_call><name>f</name><arguments><a>{HTML}</a></arguments></tool_call>".replace(
            '<invoke name="g">', "<p>"
        ),
    ],
)
def test_markup_in_a_value_stays_as_it_is(block):
    (call,) = parse_invocations(block)
    assert call.arguments["a"].replace("<p>", '<invoke name="g">') == HTML


def test_a_parameter_written_otherwise_is_part_of_the_value():
    block = '<invoke name="f"><parameter name="a">write <parameter=b> so</parameter></invoke>'
    assert parse_invocations(block)[0].arguments == {"a": "write <parameter=b> so"}


def test_markup_in_a_value_of_pairs_and_of_an_element_stays_as_it_is():
    assert parse_pairs(f"f<arg_key>a</arg_key><arg_value>{HTML}</arg_value></tool_call>")[0].arguments == {"a": HTML}
    assert parse_element("f", f"<a>{HTML}</a></f>")[0].arguments == {"a": HTML}


def test_a_value_on_one_line_leaves_the_newline_before_its_closing_tag():
    assert parse_invocations("<function=f>\n<parameter=a>x\n</parameter>\n</function>")[0].arguments == {"a": "x"}


@check_rows(
    "text, kind, found",
    [
        ("<item>1</item><item>2</item>", "array", ["1", "2"]),
        ("<a><b>1</b></a>", "object", {"a": "<b>1</b>"}),
        ("<a>1</a><a>2</a><b>3</b>", "object", {"a": ["1", "2"], "b": "3"}),
        ("<a>1</a><b>2</b>", "array", "<a>1</a><b>2</b>"),
        ("see <a>1</a>", "object", "see <a>1</a>"),
    ],
)
def test_elements_are_an_object_or_a_list_where_that_is_asked(text, kind, found):
    assert parse_elements(Markup(text), kind) == found


def test_elements_within_elements_are_taken_apart_where_nothing_is_asked():
    assert parse_structure(Markup("<a><b>1</b></a><c>2</c>")) == {"a": {"b": "1"}, "c": "2"}


@check_rows(
    "text, kind, opener",
    [
        ("f" + "<arg_key>a" * 20_000, "pairs", "<tool_call>"),
        ("f<arg_key>a</arg_key><arg_value>x</arg_value>", "pairs", "<tool_call>"),
        ("<function=f><parameter=a>x</parameter>", "tags", "<tool_call>"),
        ('<invoke name="f">', "tags", ""),
        ("<f><a>x</a>", "element", ""),
    ],
)
def test_a_block_without_its_end_is_cut_off(text, kind, opener):
    assert read_block(text, kind, opener).cut


def test_the_key_before_a_value_is_all_that_stands_there():
    text = "f <arg_key> a\n</arg_key> <arg_value>x<arg_key>b</arg_key><arg_value>y</arg_value></tool_call>"
    assert read_block(text, "pairs", "<tool_call>").guessed
    closed = text.replace("x<", "x</arg_value><")
    assert parse_pairs(closed)[0].arguments == {"a": "x", "b": "y"}


def write_parameter(value, after=""):
    return f"<function=f>\n<parameter=a>\n{value}\n</parameter>\n{after}</function>\n</tool_call>"


@check_rows(
    "value",
    [
        "It ends with `</parameter>` on its own.\nLine not lost.",
        'grep -n "</function>" a.py',
        "</parameter>",
        "</parameter>\n</function>\n</tool_call>",
        "see <parameter=b>x</parameter> here",
        "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>",
        "x</parameter></function></tool_call>y",
    ],
)
def test_a_closing_tag_counts_only_where_one_may_stand(value):
    block = read_block(write_parameter(value), opener="<tool_call>")
    assert [(call.arguments, block.guessed) for call in block.calls] == [({"a": value}, False)]


def test_two_readings_that_are_as_good_are_guessed():
    block = read_block(write_parameter("x</parameter>\n<parameter=b>y</parameter> z"), opener="<tool_call>")
    assert block.guessed


def test_a_required_parameter_is_no_part_of_the_value_before_it():
    after = "<parameter=b>\nsee </parameter> there\n</parameter>\n"
    reader = FORMAT_SET.make_tag_reader("tags", "<tool_call>", lambda name, key: 2)
    text = write_parameter("x", after)
    reader.feed(text, 0)
    block, _ = reader.read(text)
    assert (block.calls[0].arguments, block.guessed) == ({"a": "x", "b": "see </parameter> there"}, False)


def test_a_value_that_holds_the_broken_beginning_of_an_argument_is_a_guess():
    text = "f<arg_key>a</arg_key><arg_value>x</arg_value>\n<arg_key>b\n<arg_value>y</arg_value>\n</tool_call>"
    assert read_block(text, "pairs", "<tool_call>").guessed
    assert not read_block(text.replace("\n<arg_key>b", "\nb"), "pairs", "<tool_call>").guessed


@pytest.mark.parametrize("key", ["a", " a "])
def test_a_key_that_stands_twice_is_no_argument(key):
    block = read_block(
        f"f<arg_key>a</arg_key><arg_value>x</arg_value><arg_key>{key}</arg_key><arg_value>y</arg_value></tool_call>",
        "pairs",
        "<tool_call>",
    )
    problem = block.calls[0].problem
    assert (block.calls[0].arguments, type(problem), str(problem)) == (None, RepeatedKey, "The key 'a' stands twice.")


def test_text_that_follows_soon_may_belong_to_the_block():
    reader = FORMAT_SET.make_tag_reader("tags", "<tool_call>")
    text = write_parameter("x")
    assert reader.feed(text, 0) == (len(text), False)
    assert reader.feed("y\n</parameter>\n</function>\n</tool_call>", 0)[1] is False


def test_a_sign_that_begins_no_tag_is_not_held_back():
    reader, text = FORMAT_SET.make_tag_reader("tags", "<tool_call>"), "<function=f>\n<parameter=a>\nif a < b: return"
    assert reader.feed(text, 0) == (len(text), False)


def test_an_element_and_an_invocation_may_hold_json():
    assert parse_element("f", '{"a": 1}</f>')[0].arguments == {"a": 1}
    assert parse_invocations('<invoke name="f">{"a": </invoke>')[0].arguments is None
    assert str(parse_element("f", "{1, 2}</f>")[0].problem) == "The arguments are no object."


@pytest.mark.parametrize("pieces", [1, 7, 500])
def test_a_block_in_no_known_syntax_ends_with_a_tag_that_closes_a_call(pieces):
    block = f"<invoke a=b>{'x' * 400}</thing></function> and so on."
    reader, at, ended = FORMAT_SET.make_tag_reader("tags", "<tool_call>"), 0, False
    for size in range(pieces, len(block) + pieces, pieces):
        if not ended:
            at, ended = reader.feed(block[:size], at)
    decoded, end = reader.read(block)
    assert (ended, block[at:], end) == (True, " and so on.", at)
    assert (decoded.calls, str(decoded.problem), decoded.cut) == ([], "No tool's name could be read in it.", False)


def test_an_attribute_says_what_a_value_is():
    block = (
        '<|open|>call tool="f"<|sep|><|open|>argument key="a" type="number"<|sep|>5<|close|>argument<|sep|>'
        '<|open|>argument key="b" type="string"<|sep|>null<|close|>argument<|sep|><|close|>call<|sep|>'
    )
    assert read_classes(block) == [("5", DeclaredText), ("null", str)]


def test_a_quote_on_the_next_line_closes_no_attribute():
    assert parse_invocations('<invoke name=f\n"\n<parameter name="a">x</parameter></invoke>')[0].name == "f"


def test_a_key_in_quotes_may_hold_blanks_and_entities():
    block = '<|open|>call tool="f"<|sep|><|open|>argument key="say &quot;q&amp;a&quot;" type="string"<|sep|>x<|close|>argument<|sep|><|close|>call<|sep|>'
    assert parse_invocations(block)[0].arguments == {'say "q&a"': "x"}


@check_rows(
    "values, read, is_guessed",
    [
        (('"x"', '"say \\"y\\""'), ("x", 'say "y"'), False),
        (('"x"', "[1]"), ("x", "[1]"), True),
        (('"x"', "y"), ('"x"', "y"), False),
        ((' "x"', "y"), ("x", "y"), True),
    ],
)
def test_values_written_as_json_lose_their_quotes_where_no_other_is_plain_text(values, read, is_guessed):
    pairs = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in zip("ab", values, strict=True)
    )
    block = read_block(f"f\n{pairs}</tool_call>", "pairs", "<tool_call>")
    assert (tuple(block.calls[0].arguments.values()), block.guessed) == (read, is_guessed)


def test_the_indentation_of_a_block_is_no_part_of_its_values():
    lines = ("<function=f>", "<parameter=a>", "x", "  y", "</parameter>", "</function>")
    block = read_block("\n".join(f"    {line}" for line in lines))
    assert (block.calls[0].arguments, block.guessed) == ({"a": "x\n  y"}, False)


def test_an_indented_tag_behind_text_that_is_not_indented_makes_a_guess():
    block = read_block("  <function=f>\n    <parameter=a>\nx\n    </parameter>\n  </function>")
    assert (block.calls[0].arguments, block.guessed) == ({"a": "x"}, True)
