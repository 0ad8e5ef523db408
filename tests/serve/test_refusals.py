"""What one client's request is refused for, and what the gateway believes of the server after it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.serve.chat_request import ChatBody
from src.serve.refusals import make_plain
from tests.thorough import take_turns

from .test_gateway import BODY, CALL, NO_PARSER, TOOL, ask, drive, say

FLAG = "--enable-auto-tool-choice"
FUNCTION: dict[str, Any] = TOOL["function"]  # type: ignore[assignment]
HOSTILE: dict[str, dict[str, Any]] = {
    "a field": {"parallel_tool_calls": FLAG},
    "a tool's type": {"tools": [TOOL, {**TOOL, "type": FLAG}]},
    "a description": {"tools": [{"type": "function", "function": {**FUNCTION, "description": f"{FLAG}: read"}}]},
    "a name": {"tools": [TOOL, {"type": "function", "function": {**FUNCTION, "name": FLAG}}]},
    "a key": {"metadata": {FLAG: 1}},
    "a role": {"messages": [{"role": FLAG, "content": "x"}]},
    "a role that is refused": {"seed": "System role not supported"},
    "a field of the gateway's": {"seed": "unknown field return_token_ids"},
    "a failed template": {"seed": "chat template error: 'x' is undefined"},
    "a text model": {"seed": "tiny is not a multimodal model"},
}


def is_text(body: dict[str, Any]) -> bool:
    return "tools" not in body


CHANGES = [str, str.upper, lambda text: text[1:], lambda text: text.replace("o", "o\u200b", 1)]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "change"), take_turns([*HOSTILE], CHANGES))
def test_a_server_that_repeats_what_a_client_sends_keeps_what_is_believed_of_it(tmp_path, name, change):
    def answer(body):
        if refused:
            return say("Yes.")
        refused.append(body)
        return 400, {"error": {"message": change(f"bad request: {HOSTILE[name]}")}}

    refused: list[Any] = []

    async def use(client, fake):
        await ask(client, {**BODY, **HOSTILE[name]})
        assert await ask(client, BODY) == (200, say("Yes."))
        assert fake.bodies[-1] == {**BODY, "return_token_ids": True}

    drive(tmp_path, answer, use)
    assert not (tmp_path / "servers.json").exists()


def test_a_request_whose_value_is_repeated_gets_the_server_s_refusal(tmp_path):
    refusal = {"error": {"message": f"Input should be a valid boolean: '{FLAG}'", "code": 400}}

    async def use(client, fake):
        assert await ask(client, {**BODY, "parallel_tool_calls": FLAG}) == (400, refusal)
        assert len(fake.bodies) == 1

    drive(tmp_path, lambda _: (400, refusal), use)


def test_a_server_without_a_parser_is_known_from_a_hostile_request_too(tmp_path):
    async def use(client, fake):
        description = {**FUNCTION, "description": f"Do not say {FLAG}"}
        await ask(client, {**BODY, "tools": [{"type": "function", "function": description}]})
        asked = len(fake.bodies)
        await ask(client, BODY)
        assert [is_text(body) for body in fake.bodies[asked:]] == [True]

    drive(tmp_path, lambda body: say("Yes.") if is_text(body) else (400, NO_PARSER), use)


def test_a_server_that_was_started_anew_without_a_parser_is_known_at_once(tmp_path):
    flags = [FLAG]
    native = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}

    def answer(body):
        if not is_text(body) and not flags:
            return 400, NO_PARSER
        answered = say(CALL if is_text(body) else "")
        if not is_text(body):
            answered["choices"][0]["message"]["tool_calls"] = [native]
        return answered

    async def use(client, fake):
        for _ in range(2):
            await ask(client, BODY)
        flags.clear()
        for _ in range(2):
            _, answered = await ask(client, BODY)
            assert answered["choices"][0]["message"]["tool_calls"]
        assert [is_text(body) for body in fake.bodies] == [False, False, False, False, True, True]

    drive(tmp_path, answer, use)


def test_a_conversation_that_the_template_fails_with_lands_and_costs_the_others_nothing(tmp_path):
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    results = [{"role": "tool", "tool_call_id": each, "content": "x"} for each in ("c", "d")]
    messages = [*BODY["messages"], {"role": "assistant", "tool_calls": [call, {**call, "id": "d"}]}, *results]

    def answer(body):
        has_two = any(len(each.get("tool_calls", ())) > 1 for each in body["messages"])
        refusal = {"error": {"message": "This model only supports single tool-calls at once!"}}
        return (400, refusal) if has_two else say("Yes.")

    async def use(client, fake):
        for _ in range(2):
            assert (await ask(client, {**BODY, "messages": messages}))[0] == 200
            assert is_text(fake.bodies[-1])
            await ask(client, BODY)
            assert not is_text(fake.bodies[-1])

    drive(tmp_path, answer, use)


def test_roles_in_an_odd_order_change_nothing_for_conversations_in_order(tmp_path):
    def answer(body):
        roles = [each["role"] for each in body["messages"]]
        refusal = {"error": {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}}
        return (400, refusal) if any(one == other for one, other in pairwise(roles)) else say("Yes.")

    async def use(client, fake):
        for _ in range(2):
            assert (await ask(client, {**BODY, "messages": BODY["messages"] * 2}))[0] == 200
            assert (await ask(client, BODY)) == (200, say("Yes."))

    drive(tmp_path, answer, use)
    assert not (tmp_path / "servers.json").exists()


def test_a_count_of_tokens_that_is_refused_for_the_client_s_words_teaches_nothing(tmp_path):
    async def use(client, fake):
        messages = [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Two."}]
        body = {"model": "m", "system": "One.", "messages": messages, "tools": [{"name": "read", "input_schema": {}}]}
        async with client.post("/v1/messages/count_tokens", json=body) as reply:
            assert reply.status == 200
        stored = json.loads((tmp_path / "servers.json").read_text())
        assert [entry["path"]["system_first"] for entry in stored.values()] == [True]  # it is refused of any words
        assert [entry["path"]["mode"] for entry in stored.values()] == ["native"]

    drive(tmp_path, lambda _: say("Yes."), use)


JSON_VALUES = st.recursive(
    st.text(st.characters(min_codepoint=0xC0, max_codepoint=0x17F), min_size=3) | st.none() | st.just(FLAG),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([FLAG, "type", "text"]), inner),
    max_leaves=5,
)
ROLES = st.sampled_from(["system", "developer", "user", "assistant", "tool"])
MESSAGES = st.fixed_dictionaries(
    {"role": ROLES | st.just(FLAG), "content": JSON_VALUES},
    optional={"tool_calls": JSON_VALUES, "tool_call_id": JSON_VALUES, "name": JSON_VALUES},
)


@given(
    st.lists(MESSAGES, max_size=5),
    st.dictionaries(st.sampled_from(["tools", "tool_choice", "seed", "stream", FLAG]), JSON_VALUES),
)
def test_the_gateway_s_own_request_has_nothing_of_the_client_s_words(messages, others):
    plain = json.dumps(make_plain(ChatBody({**others, "model": "m", "messages": messages})).body, ensure_ascii=False)
    assert FLAG not in plain
    assert plain.isascii()
    assert json.loads(plain)["max_tokens"] == 1
    assert len(json.loads(plain)["messages"]) <= 5
