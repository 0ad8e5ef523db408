"""The arguments of a call while they are written: what is given is always the beginning of the final JSON text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from src.parsing.decode.json_repair import read_whole
from src.parsing.decode.nodes import CallNode
from src.parsing.landing.arguments import CALL_HEAD, HEAD, CallArgumentReader, JSONArgumentReader, find_arguments
from tests.each import check_rows

TYPES = {"path": str, "content": str, "count": int, "share": float, "force": bool}


def stream(text: str, size: int) -> tuple[JSONArgumentReader, str]:
    arguments = JSONArgumentReader(TYPES)
    return arguments, "".join(arguments.feed(text[at : at + size]) for at in range(0, len(text), size))


members = st.fixed_dictionaries(
    {},
    optional={
        "path": st.text(max_size=40),
        "content": st.text(alphabet='ab"\\\n{},: é😀\t', max_size=40),
        "count": st.integers(),
        "share": st.floats(allow_nan=False, allow_infinity=False),
        "force": st.booleans(),
        "other": st.lists(st.integers(), max_size=3),
    },
)


@given(
    members,
    st.booleans(),
    st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    st.integers(1, 9),
)
def test_what_is_given_and_the_rest_are_the_arguments(values, is_ascii, separators, size):
    arguments, given = stream(json.dumps(values, ensure_ascii=is_ascii, separators=separators), size)
    assert json.loads(given + arguments.finish(values)) == values


def test_a_string_is_given_while_it_is_written():
    _, given = stream('{"path": "a.py", "content": "one two', 4)
    assert given == '{"path": "a.py", "content": "one two'


def test_a_closing_quote_waits_for_the_next_member():
    _, given = stream('{"content": "say "hello"', 1)
    assert given == '{"content": "say '


def test_a_quote_that_was_part_of_the_string_is_escaped_at_the_end():
    arguments, given = stream('{"content": "say "hello" now"}', 1)
    assert given + arguments.finish({"content": 'say "hello" now'}) == '{"content": "say \\"hello\\" now"}'


def test_a_line_end_that_was_not_escaped_is():
    _, given = stream('{"content": "one\ntwo', 1)
    assert given == '{"content": "one\\ntwo'


@check_rows("half", ["\\", "\\u", "\\u00e", "\\ud83d", "\\ud83d\\", "\\ud83d\\ude0"])
def test_half_of_an_escape_is_held_back(half):
    _, given = stream('{"content": "a' + half, 1)
    assert given == '{"content": "a'


def test_a_value_that_the_schema_does_not_have_ends_the_stream():
    arguments, given = stream('{"path": "a", "count": "5", "content": "b"}', 1)
    assert given + arguments.finish({"path": "a", "count": 5, "content": "b"}) == (
        '{"path": "a", "count": 5, "content": "b"}'
    )


def test_arguments_that_became_others_are_not_completed():
    arguments, _ = stream('{"path": "a.py", "content": "one', 4)
    assert arguments.finish({"path": "b.py", "content": "one"}) is None
    assert arguments.finish({"path": "a.py", "content": "two"}) is None


@check_rows(
    "text, found",
    [
        ('\n{"name": "write", "arguments": {"path', ("write", '{"path')),
        ('[{"name":"write","parameters":{', ("write", "{")),
        ('[{"tool_call_id": "0", "tool_name": "write", "parameters": {"path', ("write", '{"path')),
        ('{"id": 7, "name": "write", "arguments": {', ("write", "{")),
        ('{"id": {"name": "read"}, "name": "write", "arguments": {', ("", "")),
        ('{"arguments": {"path": 1}, "name": "write"}', ("", "")),
        ("{'name': 'write'", ("", "")),
    ],
)
def test_arguments_are_found_behind_the_name(text, found):
    assert find_arguments(text, HEAD) == found


@check_rows(
    "text, found",
    [
        ('[write(path="a', 'path="a'),
        ('(path="a', 'path="a'),
        ('write.call({"path', '{"path'),
        ("[write", ""),
        ("(  ", ""),
    ],
)
def test_arguments_of_a_call_in_python_s_notation_are_found_behind_its_bracket(text, found):
    assert find_arguments(text, CALL_HEAD)[1] == found


def stream_call(text: str, size: int) -> tuple[CallArgumentReader, str]:
    arguments = CallArgumentReader(TYPES, has_keywords=text[0] != "{")
    return arguments, "".join(arguments.feed(text[at : at + size]) for at in range(0, len(text), size))


odd_texts = st.lists(
    st.sampled_from(
        ['"', "'", "\\", "\n", "C:\\temp", '\\"', ', path="', "a", ")", '"""', "\\u00e9", "\\d", "é", "=", "# "]
    ),
    max_size=9,
).map("".join)


@given(odd_texts, odd_texts, st.booleans(), st.booleans(), st.integers(1, 9))
def test_what_is_given_of_a_call_is_how_it_is_read_in_the_end(path, content, is_escaped, has_keywords, size):
    """Also where quotes and backslashes in its strings are not escaped, if it can be read at all."""
    written = [json.dumps(each) if is_escaped else f'"{each}"' for each in (path, content)]
    names = ("path=", "content=") if has_keywords else ('{"path": ', '"content": ')
    text = f"{names[0]}{written[0]}, {names[1]}{written[1]}" + ("" if has_keywords else "}")
    try:
        call = read_whole(f"write({text})")
    except ValueError:
        return
    assert isinstance(call, CallNode)
    read = call.keywords or call.positional[0]
    if not isinstance(read, dict) or not all(isinstance(value, str) for value in read.values()):
        return
    arguments, given = stream_call(f"{text})", size)
    rest = arguments.finish(read)
    assert rest is not None
    assert json.loads(given + rest) == read


@check_rows(
    "text, given",
    [
        ('path="a.py", count=3, content="one two', '{"path": "a.py", "count": 3, "content": "one two'),
        ('{"path": "a.py", "content": "one two', '{"path": "a.py", "content": "one two'),
        ("path='a.py', content=\"one two", ""),
        ('content="""one two', '{"content": "'),
        ('path="C:\\temp', '{"path": "'),
        ('content="say "hello"', '{"content": "say '),
        ('count="3", content="one two', ""),
    ],
)
def test_a_string_of_a_call_is_given_while_it_is_written(text, given):
    assert stream_call(text, 1)[1] == given
