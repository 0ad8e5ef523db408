"""Tools that a prompt only names: how they are listed, found and called."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from src.tools.sdk.tool_search import (
    MAX_FOUND,
    MAX_FOUND_CHARS,
    MAX_NAMES_CHARS,
    describe_found,
    fill_much,
    list_names,
    make_search_tools,
    measure_savings,
    rank,
)
from src.types.messages import CALL_TOOL, MalformedCall, ToolCall, ToolDefinition, unwrap_call
from tests.each import check_rows

ANY = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def name_only(name, description="", server="hub", schema=ANY):
    return ToolDefinition(name, description or f"Do {name}.", schema, named_by=server)


MANY = [name_only(f"{server}_tool_{each}", server=server) for server in ("big", "wide") for each in range(100)]
FEW = [
    name_only("hub_list_issues", "List what is open."),
    name_only("hub_createIssue", "Create a ticket with a title."),
    name_only("hub_merge", "Merge a branch, and close its issues."),
    name_only("mail_send", "Send a letter.", "mail"),
]


class TestNames:
    def test_names_stand_behind_their_server(self):
        assert list_names(FEW) == "hub: hub_list_issues, hub_createIssue, hub_merge; mail: mail_send"

    def test_where_they_are_too_many_each_server_keeps_as_many(self):
        shown = list_names([*MANY, name_only("mail_send", server="mail")], 80)
        assert shown == (
            "big: big_tool_0, big_tool_1, big_tool_2, and 97 more; "
            "wide: wide_tool_0, wide_tool_1, and 98 more; mail: mail_send"
        )

    @given(st.lists(st.integers(0, 300), min_size=1, max_size=5), st.integers(0, 9000))
    def test_the_room_is_kept_and_no_name_is_lost_from_the_count(self, sizes, room):
        named = [name_only(f"s{at}_{each}", server=f"s{at}") for at, size in enumerate(sizes) for each in range(size)]
        listed = {each.name for each in named} & {*re.findall(r"\w+", list_names(named, room))}
        left = re.findall(r"(\d+) (?:more|tools)", list_names(named, room))
        assert sum(map(len, listed)) <= room
        assert len(listed) + sum(map(int, left)) == len(named)

    def test_the_description_of_the_search_holds_the_names(self):
        search, _ = make_search_tools(MANY)
        assert list_names(MANY) in search.definition.description
        assert len(search.definition.description) < MAX_NAMES_CHARS + 300


class TestSearch:
    def find(self, query):
        return [each.name for each in rank(FEW, query)]

    def test_a_name_finds_its_tool_alone(self):
        assert describe_found(FEW, "HUB_merge").count("\n") == 0
        assert json.loads(describe_found(FEW, "hub_merge")) == {
            "name": "hub_merge",
            "description": "Merge a branch, and close its issues.",
            "parameters": ANY,
        }

    @given(st.lists(st.sampled_from(MANY), min_size=1, max_size=8, unique_by=lambda each: each.name))
    def test_names_find_all_of_them(self, wanted):
        shown = describe_found(MANY, ", ".join(each.name for each in wanted))
        assert {json.loads(line)["name"] for line in shown.splitlines()} == {each.name for each in wanted}

    def test_words_in_a_name_come_before_those_in_a_description(self):
        assert self.find("issue") == ["hub_list_issues", "hub_createIssue", "hub_merge"]

    def test_more_of_the_words_come_first(self):
        assert self.find("create an issue")[0] == "hub_createIssue"

    def test_of_equal_names_the_description_decides(self):
        assert self.find("hub: merge a branch")[0] == "hub_merge"
        assert self.find("hub title")[0] == "hub_createIssue"

    def test_a_tool_without_any_of_the_words_is_not_found(self):
        assert self.find("letter") == ["mail_send"]

    def test_nothing_found_says_so(self):
        assert describe_found(FEW, "weather").startswith("None of the 4 tools is found")

    def test_of_those_found_by_words_the_first_are_defined_and_others_named(self):
        *defined, rest = describe_found(MANY, "tool").splitlines()
        assert [json.loads(line)["name"] for line in defined] == [each.name for each in MANY[:MAX_FOUND]]
        assert rest.startswith("Found as well, the nearest first: big_tool_5, big_tool_6, ")
        assert rest.endswith(", and others")

    def test_definitions_that_are_too_long_together_are_named(self):
        long = [name_only(f"hub_{each}", "x" * (MAX_FOUND_CHARS // 2)) for each in range(3)]
        shown = describe_found(long, "hub_0 hub_1 hub_2")
        assert shown.endswith("Found as well, the nearest first: hub_1, hub_2")

    @given(st.text())
    def test_any_query_is_answered(self, query):
        assert describe_found(FEW, query)


class TestCall:
    def test_a_call_stands_for_one_of_the_tool_that_it_names(self):
        call = ToolCall("1", CALL_TOOL, {"tool": "hub_merge", "args": {"id": 3}})
        assert unwrap_call(call) == ToolCall("1", "hub_merge", {"id": 3})

    def test_without_arguments_it_stands_for_one_without(self):
        assert unwrap_call(ToolCall("1", CALL_TOOL, {"tool": "hub_merge"})) == ToolCall("1", "hub_merge", {})

    @check_rows(
        "call",
        [
            ToolCall("1", "hub_merge", {"tool": "hub_list_issues"}),
            ToolCall("1", CALL_TOOL, {"tool": 3, "args": {}}),
            ToolCall("1", CALL_TOOL, {"tool": "hub_merge", "args": "id"}),
            MalformedCall("1", CALL_TOOL, '{"tool": ', "cut"),
        ],
    )
    def test_any_other_call_stays_as_it_is(self, call):
        assert unwrap_call(call) is call


class TestMeasure:
    def test_a_tenth_of_the_context_is_much(self):
        assert [fill_much(MANY, size) for size in (4_000, 1_000_000)] == [True, False]

    def test_where_the_context_is_not_known_a_usual_one_counts(self):
        assert [fill_much(each, None) for each in (FEW, MANY)] == [False, True]

    def test_savings_count_what_leads_to_the_tools_against_them(self):
        leading = [each.definition for each in make_search_tools(MANY)]
        tools, tokens = measure_savings([*leading, *MANY])
        assert tools == 200
        assert 0 < tokens < measure_savings(MANY).tokens

    def test_tools_that_are_all_defined_save_nothing(self):
        assert measure_savings([ToolDefinition("read", "Read.", ANY)]) == (0, 0)
