"""What a client drops of an answer is put back into its own conversation, and into no other."""

import asyncio
import json
import random
from typing import Any

import pytest

from src.serve.memory import AnswerMemory, SharedMemory, serve_memory, share_memory
from src.serve.restore import HistoryDigest, HistoryMemo, KeptAnswer, make_kept, put_back
from src.types.messages import Reasoning, Response, Text, ToolCall
from tests.each import check_rows
from tests.serve.test_gateway import BODY, ask, drive
from tests.thorough import sample

USER = {"role": "user", "content": "Go."}
ANSWER = Response(
    (Reasoning("Hm."), Text("Let me look.\n"), ToolCall("c1", "read", {"path": "ä"}, written='{"path":"ä"}'))
)
SENT = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"ä"}'}}


def as_client(response: Response, **changes: Any) -> dict[str, Any]:
    """The answer as a client keeps it that knows no thoughts and writes arguments anew."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in response.calls
    ]
    return {"role": "assistant", "content": response.text.strip() or None, "tool_calls": calls} | changes


class Kept:
    """A memory, as the gateway uses it."""

    def __init__(self) -> None:
        self.memory = AnswerMemory()
        self.memo = HistoryMemo()

    def keep(self, messages, response, credential="key", model="m"):
        kept = make_kept(response, with_thought=True)
        self.memory.keep(HistoryDigest(credential, model, messages).make_key(response), kept.encode())

    def restore(self, messages, credential="key", model="m"):
        key, history = self.memo.take(credential, model, messages, with_thoughts=True)
        restored, _ = put_back(messages, history, self.memory.find([*history.keys.values()]), with_thoughts=True)
        self.memo.keep(key, history)
        return restored


@pytest.fixture
def kept():
    kept = Kept()
    kept.keep([USER], ANSWER)
    return kept


def test_a_thought_and_the_exact_arguments_come_back(kept):
    restored = kept.restore([USER, as_client(ANSWER)])[1]
    assert restored["reasoning"] == "Hm."
    assert restored["tool_calls"] == [SENT]


def test_an_id_that_a_client_dropped_comes_back_in_the_call_and_its_result(kept):
    call = {"id": "", "type": "function", "function": {"name": "read", "arguments": '{"path": "ä"}'}}
    result = {"role": "tool", "tool_call_id": "", "content": "x"}
    _, answer, told = kept.restore([USER, as_client(ANSWER, tool_calls=[call]), result])
    assert answer["tool_calls"][0]["id"] == told["tool_call_id"] == "c1"


def test_a_thought_that_the_client_kept_is_the_client_s(kept):
    assert kept.restore([USER, as_client(ANSWER, reasoning_content="Mine.")])[1].get("reasoning") is None


@pytest.mark.parametrize(
    ("messages", "who"),
    [
        ([USER, as_client(ANSWER)], {"credential": "other"}),
        ([USER, as_client(ANSWER)], {"model": "other"}),
        ([{**USER, "content": "Go!"}, as_client(ANSWER)], {}),
        ([USER, as_client(ANSWER, content="Let me see.")], {}),
        ([USER, as_client(ANSWER, tool_calls=[{**SENT, "id": "call_1"}])], {}),
        ([USER, USER, as_client(ANSWER)], {}),
        ([as_client(ANSWER)], {}),
    ],
)
def test_what_is_not_exactly_that_conversation_gets_nothing(kept, messages, who):
    assert kept.restore(messages, **who) == messages


def test_a_mark_for_a_cache_that_moves_changes_nothing(kept):
    marked = {**USER, "cache_control": {"type": "ephemeral"}}
    assert "reasoning" in kept.restore([marked, as_client(ANSWER)])[1]


def test_answers_that_differ_in_their_thoughts_alone_are_told_apart_by_ids_or_not_at_all(kept):
    other = Response((Reasoning("Other."), Text("Let me look."), ToolCall("c2", "read", {"path": "ä"})))
    kept.keep([USER], other)
    assert kept.restore([USER, as_client(ANSWER)])[1]["reasoning"] == "Hm."
    assert kept.restore([USER, as_client(other)])[1]["reasoning"] == "Other."
    without_id = as_client(ANSWER, tool_calls=[{**SENT, "id": ""}])
    assert "reasoning" not in kept.restore([USER, without_id])[1]


class World:
    """Conversations of several credentials, whose words come from few, so that they resemble each other."""

    WORDS = ("go", "stop", "look")

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kept = Kept()
        self.thoughts: dict[tuple[str, str], str] = {}  # of credential and thought: the conversation's words so far
        self.histories: list[tuple[str, list[dict[str, Any]]]] = []
        self.count = 0

    def answer(self, credential, history):
        """An answer to the history, as its client keeps it."""
        self.count += 1
        word, number = self.random.choice(self.WORDS), self.random.randrange(3)
        call = ToolCall(f"call_{number}", "read", {"path": word})
        blocks = (Text(word),) if self.random.random() < 0.3 else (Text(word), call)
        response = Response((Reasoning(f"thought {self.count}"), *blocks))
        self.kept.keep(history, response, credential)
        message = as_client(response)
        self.thoughts[credential, f"thought {self.count}"] = json.dumps([*history, message])
        return message

    def grow(self, credential, turns):
        history: list[dict[str, Any]] = []
        for _ in range(turns):
            history.append({"role": "user", "content": self.random.choice(self.WORDS)})
            history.append(self.answer(credential, history))
        self.histories.append((credential, history))

    def change(self):
        """A history that was shuffled, edited, forked, or given to somebody else."""
        credential, history = self.random.choice(self.histories)
        history = [dict(each) for each in history]
        kind = self.random.randrange(5)
        if kind == 0:
            self.random.shuffle(history)
        elif kind == 1:
            history[self.random.randrange(len(history))]["content"] = self.random.choice(self.WORDS)
        elif kind == 2:
            other = self.random.choice(self.histories)[1]
            cut = self.random.randrange(len(history))
            history = history[:cut] + other[cut:]
        elif kind == 3:
            credential = f"key {self.random.randrange(20)}"
        return credential, history

    def count_wrong(self, credential, history):
        """The thoughts in a history that are not of this very conversation."""
        wrong = right = 0
        for place, message in enumerate(self.kept.restore(history, credential)):
            if thought := message.get("reasoning"):
                is_own = self.thoughts.get((credential, thought)) == json.dumps(history[: place + 1])
                wrong, right = wrong + (not is_own), right + is_own
        return wrong, right


@pytest.mark.thorough
def test_10_000_changed_histories_of_20_credentials_get_no_thought_that_is_not_their_own():
    world = World(7)
    for number in range(400):
        world.grow(f"key {number % 20}", 1 + number % 6)
    told = [world.count_wrong(*world.change()) for _ in sample(range(10_000), 5)]
    assert sum(wrong for wrong, _ in told) == 0
    assert sum(right for _, right in told) > len(told) // 10


class TestAHistoryThatGoesOn:
    def grow(self, kept, turns):
        """Each history of a client that drops thoughts, and a question between."""
        history = [USER]
        for number in range(turns):
            answer = Response(
                (Reasoning(f"Hm {number}."), Text("Look."), ToolCall("c1", "read", {"path": f"{number}"}))
            )
            kept.keep(history, answer)
            history = [*history, as_client(answer), USER]
            yield history

    def test_is_restored_as_one_that_is_new(self, kept):
        for history in self.grow(kept, 6):
            restored = kept.restore(json.loads(json.dumps(history)))
            kept.memo = HistoryMemo()
            assert restored == kept.restore(history)
            assert sum("reasoning" in each for each in restored) == len(history) // 2

    def test_is_known_from_the_turn_before(self, kept):
        for history in self.grow(kept, 3):
            kept.restore(history)
        goes_on = [*history, as_client(ANSWER), USER]
        _, digest = kept.memo.take("key", "m", goes_on, with_thoughts=True)
        assert sorted(digest.restored) == [1, 3, 5]
        assert digest.keys == HistoryDigest("key", "m", goes_on).keys

    @pytest.mark.parametrize("who", [{"credential": "other"}, {"model": "other"}, {"with_thoughts": False}])
    def test_is_another_s_for_another(self, kept, who):
        for history in self.grow(kept, 3):
            kept.restore(history)
        asked = {"credential": "key", "model": "m", "with_thoughts": True, **who}
        _, digest = kept.memo.take(messages=[*history, as_client(ANSWER)], **asked)
        assert not digest.restored

    def test_takes_no_more_than_its_bound(self, kept):
        kept.memo = HistoryMemo(max_bytes=20_000)
        for history in self.grow(kept, 40):
            kept.restore(history)
        _, digest = kept.memo.take("key", "m", [*history, as_client(ANSWER)], with_thoughts=True)
        assert not digest.restored

    def test_gets_nothing_once_two_answers_are_possible(self, kept):
        call = {**SENT, "id": ""}
        history = [USER, as_client(ANSWER, tool_calls=[call])]
        assert "reasoning" in kept.restore([*history, USER])[1]
        kept.keep([USER], Response((Reasoning("Other."), Text("Let me look."), ToolCall("c2", "read", {"path": "ä"}))))
        assert "reasoning" not in kept.restore([*history, USER, as_client(ANSWER), USER])[1]


class TestTheMemory:
    def test_is_bounded_for_1_000_conversations_of_10_long_turns(self):
        memory = AnswerMemory()
        value = KeptAnswer(("abcdefghi",), "I think. " * 1_000, ("",), "").encode()
        for number in range(10_000):
            memory.keep(number.to_bytes(16, "big"), value)
        assert memory.size <= 64 * 1024 * 1024
        assert memory.find([(9_999).to_bytes(16, "big")]) == [(value,)]
        assert memory.find([bytes(16)]) == [()]

    def test_forgets_what_is_longest_unused(self):
        memory = AnswerMemory(max_entries=2)
        for key in (b"a", b"b"):
            memory.keep(key, b"x")
        memory.find([b"a"])
        memory.keep(b"c", b"x")
        assert [bool(each) for each in memory.find([b"a", b"b", b"c"])] == [True, False, True]

    def test_forgets_what_was_not_used_for_long(self):
        now = [0.0]
        memory = AnswerMemory(max_age=10, read_clock=lambda: now[0])
        memory.keep(b"a", b"x")
        now[0] = 11
        assert memory.find([b"a"]) == [()]
        assert (len(memory), memory.size) == (0, 0)

    @check_rows("workers", [1, 2, 3, 16, 1000])
    def test_is_bounded_with_the_histories_of_all_workers(self, workers):
        share = share_memory(workers)
        assert 0 < share.answers + workers * share.histories <= 64_000_000
        assert share.answers >= 48_000_000

    def test_keeps_nothing_that_is_larger_than_all_of_it(self):
        memory = AnswerMemory(max_bytes=1000)
        memory.keep(b"a", b"x" * 2000)
        assert len(memory) == 0

    def test_is_one_for_all_workers(self, tmp_path):
        async def use():
            one, other = SharedMemory(tmp_path), SharedMemory(tmp_path)
            for _ in range(1000):
                await one.keep(b"a", b"x")
                if await one.find([b"a"]) != [()]:
                    break
                await asyncio.sleep(0.05)  # the socket is not there yet
            await one.replace(b"b", b"y", b"")
            found = await other.find([b"a", b"b", b"c"])
            for each in (one, other):
                each.close()
            await asyncio.sleep(0)  # the connections close in the loop
            return found

        serve_memory(tmp_path)
        assert asyncio.run(use()) == [(b"x",), (b"y",), ()]

    def test_that_cannot_be_reached_finds_nothing(self, tmp_path):
        async def use():
            memory = SharedMemory(tmp_path)
            await memory.keep(b"a", b"x")
            return await memory.find([b"a"])

        assert asyncio.run(use()) == [()]


def think(body):
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a.txt"}'}}
    message = {"role": "assistant", "content": None, "reasoning": "Hm.", "tool_calls": [call]}
    ids = [1, 2] if len(body["messages"]) < 3 else [1, 2, 7, 9]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "token_ids": [7, 8, 0]}
    return {"id": "1", "created": 1, "model": body["model"], "choices": [choice], "prompt_token_ids": ids}


def go_on(answer):
    """The next request of a client that drops thoughts, and writes arguments anew."""
    message = dict(answer["choices"][0]["message"])
    message.pop("reasoning", None)
    call = message["tool_calls"][0]
    arguments = json.dumps(json.loads(call["function"]["arguments"]))
    message["tool_calls"] = [{**call, "function": {**call["function"], "arguments": arguments}}]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "x"}
    return {**BODY, "messages": [*BODY["messages"], message, result]}


class TestTheGateway:
    def second(self, tmp_path, change=lambda body: body, headers=None, first=None):
        """The history of the second request as the server gets it."""

        async def use(client, fake):
            _, answer = await ask(client, {**BODY, **(first or {})}, Authorization="Bearer a")
            await ask(client, change(go_on(answer)), **{"Authorization": "Bearer a", **(headers or {})})
            self.sent = next(each for each in fake.bodies[-1]["messages"] if each["role"] == "assistant")

        drive(tmp_path, think, use)
        return self.sent

    def test_puts_the_thought_and_the_arguments_back(self, tmp_path):
        sent = self.second(tmp_path)
        assert sent["reasoning"] == "Hm."
        assert sent["tool_calls"][0]["function"]["arguments"] == '{"path":"a.txt"}'

    def test_counts_what_it_puts_back(self, tmp_path):
        tool = {"name": "read", "input_schema": {"type": "object"}}
        body = {"model": "m", "max_tokens": 9, "tools": [tool], "messages": [{"role": "user", "content": "Read it."}]}

        async def use(client, fake):
            async with client.post("/v1/messages", json=body) as reply:
                (call,) = (each for each in (await reply.json())["content"] if each["type"] == "tool_use")
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": "x"}
            answer, results = {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}
            counted = {"model": "m", "tools": [tool], "messages": [*body["messages"], answer, results]}
            async with client.post("/v1/messages/count_tokens", json=counted) as reply:
                assert (reply.status, reply.headers["x-vllm-bot"]) == (200, "path=native; restored=1")
            sent = fake.counted[-1]["messages"][1]
            assert sent["reasoning"] == "Hm."
            assert sent["tool_calls"][0]["function"]["arguments"] == '{"path":"a.txt"}'

        drive(tmp_path, think, use)

    @pytest.mark.parametrize(
        ("change", "headers"),
        [
            (lambda body: body, {"Authorization": "Bearer b"}),
            (lambda body: body, {"x-vllm-bot-off": "1"}),
            (lambda body: {**body, "model": "other"}, {}),
            (lambda body: {**body, "include_reasoning": False}, {}),
        ],
    )
    def test_puts_nothing_back_for_somebody_else_or_who_wants_none(self, tmp_path, change, headers):
        assert "reasoning" not in self.second(tmp_path, change, headers)

    def test_goes_on_without_thoughts_where_the_server_refuses_the_field(self, tmp_path):
        def answer(body):
            refusal = {"error": {"message": "messages.1.reasoning: Extra inputs are not permitted"}}
            return (400, refusal) if any(each.get("reasoning") for each in body["messages"]) else think(body)

        async def use(client, fake):
            _, first = await ask(client, BODY)
            for _ in range(2):
                assert (await ask(client, go_on(first)))[0] == 200
            assert len(fake.bodies) == 5  # refused once, and proven once

        drive(tmp_path, answer, use)

    def test_tells_in_a_header_and_in_the_counts_what_was_kept_and_restored(self, tmp_path):
        async def use(client, fake):
            _, answer = await ask(client, BODY)
            async with client.post("/v1/chat/completions", json=go_on(answer)) as reply:
                assert reply.headers["x-vllm-bot"].endswith("restored=1; kept=0.750; broken_by=answer")
            async with client.get("/metrics") as reply:
                told = await reply.text()
            assert 'vllm_bot_kept_share_count{model="m"} 1.0' in told
            assert 'vllm_bot_prefix_breaks_total{model="m",reason="answer"} 1.0' in told
            assert 'vllm_bot_restored_total{model="m"} 1.0' in told

        drive(tmp_path, think, use)

    def test_warns_once_a_conversation_of_a_client_that_breaks_its_own_prefix_at_the_head(self, tmp_path, caplog):
        async def use(client, fake):
            system = [{"role": "system", "content": "One."}]
            _, answer = await ask(client, {**BODY, "messages": [*system, *BODY["messages"]]})
            for number in range(2):
                body = go_on(answer)
                body["messages"].insert(0, {"role": "system", "content": f"Now {number}."})
                await ask(client, body)

        def answer(body):
            said = think(body)
            said["prompt_token_ids"] = [len(body["messages"][0]["content"]), *said["prompt_token_ids"]]
            return said

        drive(tmp_path, answer, use)
        assert [each.message for each in caplog.records if "prefix" in each.message] == [
            "A client broke the prefix of its own conversation: the system prompt changed. Message 1 (system) is the"
            " first that differs."
        ]
