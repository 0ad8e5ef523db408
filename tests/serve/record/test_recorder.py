"""What `serve --record` writes of each call of the APIs."""

from __future__ import annotations

import errno
import json
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from src.app.keys import KeyRing, hash_key
from src.security.text.redact import redact
from src.serve.gateway import OFF_HEADER
from src.serve.record.entry import Redact
from src.serve.record.log_file import LogFile
from src.serve.record.recorder import Recorder
from src.session.journal import redact_value
from tests.serve.test_gateway import BODY, CALL, STREAMED, ask, drive, say, stream

SECRET = "ghp_" + "a1B2" * 9
LARGE = 10**9


def record(
    folder: Path, answer: Callable[[Any], Any], use: Callable[..., Any], file: LogFile | None = None, **more: Any
) -> list[dict[str, Any]]:
    """The record of what `use` asks."""
    keys, options = more.pop("key_ring", None), more
    file = file or LogFile(folder / "record.jsonl", LARGE, 3)
    drive(folder, answer, use, recorder=Recorder(file, **options), keys=keys)
    return [json.loads(line) for line in file.path.read_text(encoding="utf-8").splitlines()]


async def ask_once(client: Any, _: Any) -> None:
    await ask(client, BODY)


def with_ids(answer: dict[str, Any]) -> dict[str, Any]:
    (choice,) = answer["choices"]
    logprobs = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}]}
    return {**answer, "prompt_token_ids": [1, 2, 3], "choices": [{**choice, "token_ids": [7, 8], "logprobs": logprobs}]}


def test_a_call_is_kept_with_what_was_sent_answered_and_read(tmp_path):
    (entry,) = record(tmp_path, lambda _: say(CALL), ask_once)
    assert entry["messages"] == BODY["messages"] and entry["tools"] == BODY["tools"]
    assert (entry["api"], entry["model"], entry["path"], entry["status"]) == ("chat/completions", "m", "native", 200)
    (choice,) = entry["choices"]
    (call,) = choice["calls"]
    assert (call["name"], call["arguments"], call["origin"]) == ("read", {"path": "a.txt"}, "hermes")
    assert call["how"] == "text"
    answer = next(each for each in entry["exchanges"] if each["path"] == "chat/completions")
    assert json.loads(answer["raw"]) == say(CALL)


@pytest.mark.parametrize(("path", "body"), STREAMED)
@pytest.mark.parametrize("is_streamed", [True, False])
def test_all_apis_are_kept_as_chat_completions(tmp_path, path, body, is_streamed):
    async def use(client, _):
        async with client.post(path, json={**body, "stream": is_streamed}) as reply:
            await reply.read()

    (entry,) = record(tmp_path, lambda sent: stream(CALL) if sent.get("stream") else say(CALL), use)
    assert f"/v1/{entry['api']}" == path
    assert entry["ended"] == "whole"
    assert entry["messages"][-1] == BODY["messages"][0]
    assert [call["arguments"] for call in entry["choices"][0]["calls"]] == [{"path": "a.txt"}]


def test_ids_and_logprobs_are_kept_where_the_server_gives_them(tmp_path):
    (entry,) = record(tmp_path, lambda _: with_ids(say("Yes.")), ask_once)
    assert entry["prompt_token_ids"] == [1, 2, 3]
    assert entry["choices"][0]["token_ids"] == [7, 8]
    assert [each["logprob"] for each in entry["choices"][0]["logprobs"]] == [-0.5, -0.25]


@pytest.mark.parametrize(
    ("answer", "repairs"),
    [
        ([{"id": "c1", "function": {"name": "read", "arguments": '{"path":"a"}'}}], []),
        (
            [{"id": "c1", "function": {"name": "count", "arguments": '{"lines":"5"}'}}],
            ["fitted lines: string to integer"],
        ),
    ],
)
def test_the_repairs_of_a_native_call_tell_what_was_fitted(tmp_path, answer, repairs):
    schema = {"type": "object", "properties": {"lines": {"type": "integer"}}}
    count = {"type": "function", "function": {"name": "count", "parameters": schema}}
    message = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", **each} for each in answer]}
    whole = say("")
    whole["choices"][0] |= {"message": message, "finish_reason": "tool_calls"}

    async def use(client, _):
        await ask(client, {**BODY, "tools": [*BODY["tools"], count]})

    (entry,) = record(tmp_path, lambda _: whole, use)
    (call,) = entry["choices"][0]["calls"]
    assert (call["how"], call["origin"], call["repairs"]) == ("native", "native", repairs)


def test_the_requests_of_a_conversation_have_one_session(tmp_path):
    async def use(client, _):
        _, answer = await ask(client, BODY)
        message = answer["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "text"}
        await ask(client, {**BODY, "messages": [*BODY["messages"], message, result]})
        await ask(client, BODY)

    def answer(body):
        return with_ids(say("Done." if len(body["messages"]) > 1 else CALL))

    first, second, other = record(tmp_path, answer, use)
    assert first["session"] == second["session"] != other["session"]
    assert first["contiguous"] is None
    assert second["contiguous"] is False  # the fake server gives each prompt the same tokens
    assert second["broken_by"] == "answer"


@pytest.mark.parametrize("path_and_body", STREAMED, ids=["chat", "messages", "responses"])
def test_a_relayed_answer_is_kept_as_the_server_sent_it(tmp_path, path_and_body):
    path, body = path_and_body

    async def use(client, fake):
        async with client.post(path, json={name: value for name, value in body.items() if name != "tools"}) as reply:
            raw.append((await reply.read()).decode())

    raw: list[str] = []
    (entry,) = record(tmp_path, lambda _: say("Yes."), use)
    assert entry["path"] == "relayed"
    (kept,) = entry["exchanges"]
    if path == "/v1/messages":  # whose errors reach the client in another shape
        assert kept["raw"] == "\0teapot"
    else:
        assert kept["raw"] == raw[0]


def test_a_relayed_chat_completion_has_its_text(tmp_path):
    async def use(client, _):
        await ask(client, {**BODY, "tools": []})

    (entry,) = record(tmp_path, lambda _: say("Yes."), use)
    assert entry["choices"][0]["text"] == "Yes."


def test_what_is_off_counted_or_of_no_api_is_not_kept(tmp_path):
    async def use(client, _):
        await ask(client, BODY, **{OFF_HEADER: "1"})
        for path in ("/v1/messages/count_tokens", "/v1/embeddings"):
            async with client.post(path, json={**BODY, "max_tokens": 5}) as reply:
                await reply.read()

    file = LogFile(tmp_path / "record.jsonl", LARGE, 1)
    file.check()
    assert record(tmp_path, lambda _: say("Yes."), use, file) == []


def test_a_refusal_is_kept(tmp_path):
    (entry,) = record(tmp_path, lambda _: (422, {"error": {"message": "no"}}), ask_once)
    assert (entry["status"], entry["choices"]) == (422, [])
    assert "no" in entry["exchanges"][-1]["raw"]


def test_a_stream_that_breaks_is_kept_as_far_as_it_came(tmp_path):
    async def use(client, _):
        async with client.post("/v1/chat/completions", json={**BODY, "stream": True}) as reply:
            await reply.read()

    error = b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
    answers = iter([[*stream("It is ")[:3], error], [error]])
    (entry,) = record(tmp_path, lambda _: next(answers), use)
    assert entry["ended"] == "broken"
    assert entry["choices"][0]["text"] == "It "
    assert "out of memory" in entry["exchanges"][-1]["raw"]


def test_a_client_that_goes_leaves_what_had_come(tmp_path):
    async def use(client, _):
        reply = await client.post("/v1/chat/completions", json={**BODY, "stream": True})
        await reply.content.readany()
        reply.close()

    (entry,) = record(tmp_path, lambda _: stream("It is" + " so" * 3000), use)
    assert entry["ended"] == "cancelled"
    text = entry["choices"][0]["text"]
    assert text and ("It is" + " so" * 3000).startswith(text)


class TestKeys:
    RING = KeyRing({hash_key("one"): "alice", hash_key("two"): "bob"})

    async def ask_with_both(self, client: Any, _: Any) -> None:
        for key in ("one", "two"):
            await ask(client, BODY, Authorization=f"Bearer {key}")

    def test_the_name_of_the_key_is_kept_and_the_key_is_not(self, tmp_path):
        entries = record(tmp_path, lambda _: say("Yes."), self.ask_with_both, key_ring=self.RING)
        assert [each["key"] for each in entries] == ["alice", "bob"]
        assert "Bearer" not in json.dumps(entries)

    def test_it_is_kept_of_a_key_in_the_address_too(self, tmp_path):
        async def use(client, _):
            async with client.post(f"{STREAMED[0][0]}?key=one", json=BODY) as reply:
                await reply.read()

        chosen = {"keys": ("alice",), "key_ring": self.RING}
        (entry,) = record(tmp_path, lambda _: say("Yes."), use, **chosen)
        assert entry["key"] == "alice"
        assert "?key" not in json.dumps(entry)

    def test_one_key_can_be_chosen(self, tmp_path):
        chosen = {"keys": ("alice",), "key_ring": self.RING}
        assert len(record(tmp_path, lambda _: say("Yes."), self.ask_with_both, **chosen)) == 1


class TestRedaction:
    REDACT: Redact = staticmethod(partial(redact_value, redact=partial(redact, secrets=("hunter22",))))

    def test_a_redacted_record_has_no_secrets_no_ids_and_no_words_of_the_server(self, tmp_path):
        async def use(client, fake):
            fake.written = f"I have {SECRET}."
            await ask(client, {**BODY, "messages": [{"role": "user", "content": f"Use {SECRET} and hunter22."}]})

        answer = with_ids(say(f"I have {SECRET}."))
        (entry,) = record(tmp_path, lambda _: answer, use, redact=self.REDACT)
        written = json.dumps(entry)
        assert SECRET not in written and "hunter22" not in written
        assert not {"exchanges", "prompt_token_ids", "reader"} & entry.keys()
        assert not {"token_ids", "logprobs"} & entry["choices"][0].keys()
        assert entry["redacted"] is True
        assert entry["messages"][0]["content"] == "Use [redacted] and [redacted]."
        assert entry["choices"][0]["text"] == "I have [redacted]."

    def test_an_argument_with_the_name_of_a_secret_is_one(self, tmp_path):
        call = CALL.replace('"path"', '"password"').replace("a.txt", "correct horse")
        (entry,) = record(tmp_path, lambda _: say(call), ask_once, redact=self.REDACT)
        assert entry["choices"][0]["calls"][0]["arguments"] == {"password": "[redacted]"}

    def test_a_request_that_is_nested_too_deep_for_it_is_told_in_a_line(self, tmp_path, caplog):
        deep: dict[str, Any] = {}
        for _ in range(700):
            deep = {"a": deep}

        async def use(client, _):
            for _ in range(3):
                await ask(client, {**BODY, "deep": deep})
            await ask(client, BODY)

        assert len(record(tmp_path, lambda _: say("Yes."), use, redact=self.REDACT)) == 1
        told = [each for each in caplog.records if "serve.record" in each.getMessage()]
        assert ["nested too deep" in told[0].getMessage(), "3 calls are not" in told[1].getMessage()] == [True, True]
        assert not any(each.exc_info for each in caplog.records)


class FullDisk(LogFile):
    """Refuses so many lines."""

    def __init__(self, path: Path, refused: int) -> None:
        super().__init__(path, LARGE, 1)
        self.refused = refused

    def append(self, line: bytes) -> None:
        self.refused -= 1
        if self.refused >= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(line)


def test_a_full_disk_is_told_once_and_stops_no_answer(tmp_path, caplog):
    async def use(client, _):
        for _ in range(4):
            status, _ = await ask(client, BODY)
            assert status == 200

    entries = record(tmp_path, lambda _: say("Yes."), use, FullDisk(tmp_path / "record.jsonl", 3))
    assert len(entries) == 1
    told = [each.getMessage() for each in caplog.records if "serve.record" in each.getMessage()]
    assert len(told) == 2
    assert "No space left on device" in told[0] and "The gateway goes on" in told[0]
    assert "3 calls are not in it" in told[1]


def test_the_file_is_the_user_s_alone(tmp_path):
    record(tmp_path, lambda _: say("Yes."), ask_once)
    assert stat.S_IMODE((tmp_path / "record.jsonl").stat().st_mode) == 0o600
