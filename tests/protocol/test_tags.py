"""Calls written in tags."""

import pytest

from src.protocol.tags import element_call, invoked, keyed

KNOWN = {"f"}.__contains__
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


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_each_dialect_says_the_same_call(block):
    assert [(call.name, call.arguments) for call in invoked(block, KNOWN)] == [("f", {"a": "x"})]


def test_a_value_keeps_its_text_but_for_the_newlines_that_set_it_apart():
    block = "<function=f>\n<parameter=a>\n\n  def f(x):\n    return '<b>'\n\n</parameter>\n</function>"
    assert invoked(block, KNOWN)[0].arguments == {"a": "\n  def f(x):\n    return '<b>'\n"}


def test_a_value_said_to_be_no_string_is_read():
    block = '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">[1, 2]</｜DSML｜parameter></｜DSML｜invoke>'
    assert invoked(block, KNOWN)[0].arguments == {"a": [1, 2]}


def test_several_invocations_in_one_block_are_several_calls():
    assert len(invoked(BLOCKS["invoke"] * 3, KNOWN)) == 3


def test_pairs_of_keys_and_values_follow_the_name():
    assert keyed("f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>")[0].arguments == {"a": "x"}
    assert keyed("f</tool_call>")[0].arguments == {}


def test_items_are_a_list():
    assert element_call("f", "<l><item>1</item><item>2</item></l></f>")[0].arguments == {"l": ["1", "2"]}
