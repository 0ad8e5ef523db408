"""A client's model that goes round in circles is told so, in the history that the server gets."""

from __future__ import annotations

import json
from typing import Any

from src.serve.loop_notes import LoopNotes
from src.serve.turn_options import TurnOptions
from tests.each import check_rows
from tests.serve.test_gateway import BODY, drive, read_metrics
from tests.serve.test_guards import call_read, post

USER = {"role": "user", "content": "Go."}
NOTE = (
    "contents\n\n<system-reminder>\nread: the same calls gave the same results 3 times in a row. "
    "Making them again gives nothing new: use these results, do something else, or answer.\n</system-reminder>"
)


def add_round(messages: list[dict[str, Any]], result: Any = "contents", path: str = "a") -> list[dict[str, Any]]:
    number = len(messages)
    function = {"name": "read", "arguments": json.dumps({"path": path})}
    call = {"id": f"c{number}", "type": "function", "function": function}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    return [*messages, answer, {"role": "tool", "tool_call_id": f"c{number}", "content": result}]


class Client:
    """A client that goes on with one conversation. `pause`: seconds that each call takes."""

    def __init__(self, pause: float = 0.1) -> None:
        self.messages: list[dict[str, Any]] = [USER]
        self.pause = pause
        self.now = 0.0
        self.kept = LoopNotes(self.messages, b"", 0.0).encode(0.0)
        self.places: list[int] = []

    def go_on(self, *results: Any, pause: float | None = None) -> Client:
        for result in results:
            self.messages = add_round(self.messages, result)
            self.now += self.pause if pause is None else pause
            self.send()
        return self

    def send(self) -> None:
        notes = LoopNotes(self.messages, self.kept, self.now)
        sent = notes.apply(self.messages)
        self.places = [place for place, each in enumerate(sent) if each != self.messages[place]]
        self.last = sent[-1]["content"]
        self.kept = notes.encode(self.now)


def test_the_third_result_gets_a_note_which_stays_there():
    client = Client().go_on(*["contents"] * 3)
    assert client.last == NOTE
    client.go_on("contents", "other")
    assert client.places == [6]
    client.messages = [*client.messages, {"role": "assistant", "content": "Done."}, USER]
    client.send()
    assert client.places == [6]


def test_a_result_in_parts_gets_a_part_more():
    parts = [{"type": "text", "text": "contents"}]
    assert [part["text"][:9] for part in Client().go_on(parts, parts, parts).last] == ["contents", "<system-r"]


def test_another_result_or_a_slow_call_is_no_loop():
    assert not Client().go_on("1", "2", "3", "4").places
    assert not Client(pause=5.1).go_on(*["not yet"] * 9).places
    assert not Client().go_on("a", "a").go_on("a", pause=6).places


def test_what_was_asked_before_does_not_count():
    client = Client().go_on("contents", "contents")
    client.messages = [*client.messages, {"role": "assistant", "content": "Done."}, USER]
    client.send()
    assert not client.go_on("contents").places


def test_without_what_was_kept_nothing_is_a_loop():
    messages = [USER]
    for _ in range(5):
        messages = add_round(messages)
    notes = LoopNotes(messages, b"", 0.0)
    assert notes.apply(messages) == messages


@check_rows("messages", [[], [USER], [{"role": "tool", "content": "x"}], [{"role": "tool"}, {}, {"role": "tool"}]])
def test_odd_histories_get_nothing(messages):
    for kept in (b"", LoopNotes([], b"", 0.0).encode(0.0)):
        assert LoopNotes(messages, kept, 1.0).apply(messages) == messages


class TestTheGateway:
    def go_round(self, tmp_path, rounds: int, **options: Any) -> tuple[list[Any], list[str], list[str]]:
        """The last result in each request, what the headers tell, and the counts."""
        sent: list[Any] = []
        told: list[str] = []
        counts: list[str] = []

        async def use(client, fake):
            messages = BODY["messages"]
            for _ in range(rounds):
                header, text = await post(client, {**BODY, "messages": messages})
                told.append(header)
                message = json.loads(text)["choices"][0]["message"]
                result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "contents"}
                messages = [*messages, message, result]
            sent.extend(
                [each["content"] for each in body["messages"] if each["role"] == "tool"] for body in fake.bodies
            )
            counts.extend(await read_metrics(client))

        drive(tmp_path, lambda _: call_read('{"path": "a.txt"}'), use, options=TurnOptions(**options))
        return sent, told, counts

    def test_tells_the_model_and_counts_it(self, tmp_path):
        sent, told, counts = self.go_round(tmp_path, 6, guards=("loops",))
        assert sent[-1] == ["contents", "contents", NOTE, "contents", "contents"]
        assert sent[3] == ["contents", "contents", NOTE]
        assert ["guards=loops:1" in each for each in told] == [False] * 3 + [True, False, False]
        assert 'vllm_bot_guards_total{guard="loops",model="m"} 1.0' in counts

    def test_tells_nothing_by_default(self, tmp_path):
        assert self.go_round(tmp_path, 6)[0][-1] == ["contents"] * 5
