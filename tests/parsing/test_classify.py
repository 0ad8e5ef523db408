"""Raw calls into verdicts."""

from src.parsing.arguments.tool_index import Toolbox
from src.parsing.classify import Judge, counted_ids
from src.parsing.decode.call_shapes import Decoded, RawCall
from src.types.messages import MalformedCall, ToolCall
from tests.parsing.laws import TOOLS


def judge(given=(), max_calls=32):
    return Judge(Toolbox(TOOLS), counted_ids(), given, max_calls)


def verdict(call, *, asks=True, repairs=(), repeated=False, by=None):
    found = (by or judge()).verdicts(Decoded([call], repairs), "raw", "text", asks=asks, repeated=repeated)
    return found[0] if found else None


def test_a_call_says_what_was_repaired_in_it_in_its_name_and_in_its_arguments():
    call = verdict(RawCall("functions.get_weather:0", {"city": "Oslo", "days": "3"}, []), repairs=("quotes",))
    assert call == ToolCall(
        "000000001", "get_weather", {"city": "Oslo", "days": 3}, "text", ("quotes", "name", "days string to integer")
    )


def test_what_asks_by_name_and_does_not_fit_is_malformed_and_says_why():
    found = verdict(RawCall("get_weather", {}, []))
    assert found == MalformedCall(
        "000000001", "get_weather", "raw", "get_weather: the required parameter 'city' (string) is missing.", "text"
    )


def test_what_merely_looks_like_a_call_and_does_not_fit_is_text():
    assert verdict(RawCall("get_weather", {}, []), asks=False) is None
    assert verdict(RawCall("unknown", {"city": "Oslo"}, []), asks=False) is None


def test_placeholders_are_text_even_where_a_call_is_asked_for():
    assert verdict(RawCall("tool_name", {}, [])) is None
    assert verdict(RawCall("get_weather", {"city": "..."}, [])) is None
    assert verdict(RawCall("get_weather", {"city": "<city>"}, [])) is None
    assert verdict(RawCall("get_weather", {"city": "YOUR_CITY"}, [])) is None
    assert verdict(RawCall("get_weather", {"city": "<your city>"}, [])) is None
    assert verdict(RawCall("<function-name>", {}, [])) is None
    assert verdict(RawCall("None", {}, [])) is None


def test_so_is_what_says_of_a_tools_arguments_what_they_are():
    assert verdict(RawCall("read", {"path": {"type": "string", "description": "The file"}}, [])) is None
    assert isinstance(verdict(RawCall("read", {"path": {"type": "module"}}, [])), ToolCall)
    signature = Decoded([RawCall("read", {"path": "string"}, [])])
    for raw in ("read(path: string),", "```\nread(path: string)\n```"):
        assert not judge().verdicts(signature, raw, "text", asks=True, repeated=False)
    assert judge().verdicts(signature, "read(path='string')", "text", asks=True, repeated=False)


def test_a_value_that_speaks_of_you_is_a_value():
    assert isinstance(verdict(RawCall("get_weather", {"city": "your name"}, [])), ToolCall)


def test_a_tool_that_is_named_like_a_placeholder_is_a_tool():
    by = Judge(Toolbox([{"function": {"name": "example", "parameters": {}}}]), counted_ids(), (), 32)
    assert isinstance(verdict(RawCall("example", {}, []), by=by), ToolCall)


def test_what_looks_like_a_call_made_before_is_text_after_text_and_a_call_otherwise():
    by = judge()
    call = RawCall("read", {"path": "a"}, [])
    assert verdict(call, by=by)
    assert verdict(call, asks=False, repeated=True, by=by) is None
    assert verdict(call, asks=False, repeated=False, by=by)


def test_the_promised_id_is_the_next_call_s():
    by = judge()
    promised = by.promised_id()
    assert verdict(RawCall("read", {}, []), by=by).id == promised
    assert verdict(RawCall("read", {}, []), by=by).id != promised


def test_beyond_the_limit_the_judge_is_full():
    by = judge(max_calls=1)
    call = RawCall("read", {"path": "a"}, [])
    assert isinstance(verdict(call, by=by), ToolCall)
    assert not by.is_full
    assert isinstance(verdict(call, by=by), MalformedCall)
    assert by.is_full


def test_ids_are_nine_digits_and_differ():
    new_id = counted_ids()
    ids = [new_id() for _ in range(5_000)]
    assert len(set(ids)) == len(ids)
    assert all(len(each) == 9 and each.isascii() and each.isalnum() for each in ids)


def test_two_sources_give_the_same_ids():
    assert counted_ids()() == counted_ids()()
