"""`vllm-bot eval --replay`: recorded answers are read once more, and what differs is told by record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from src.cli.main import main
from src.eval.record_lines import DamagedLine, RecordLine, read_lines
from src.eval.replay import Replayed, compare, replay
from src.parsing.formats.table import FORMATS
from src.serve.record.log_file import LogFile
from src.serve.record.recorder import Recorder
from tests.serve.test_gateway import BODY, CALL, NO_PARSER, STREAMED, ask, drive, say, stream
from tests.thorough import sample, take_turns

LARGE = 10**9


def record(folder: Path, answer: Any, *requests: dict[str, Any], path: str = "/v1/chat/completions") -> Path:
    """The record of these requests. `answer`: see FakeServer."""

    async def use(client: Any, fake: Any) -> None:
        fake.tells_tokens = True
        for body in requests or (BODY,):
            async with client.post(path, json=body) as reply:
                await reply.read()

    file = LogFile(folder / "record.jsonl", LARGE, 1)
    drive(folder, answer, use, recorder=Recorder(file))
    return file.path


def read_entry(path: Path) -> dict[str, Any]:
    (line,) = read_lines([path])
    assert isinstance(line, RecordLine)
    return line.entry


def rewrite(path: Path, change: Any) -> None:
    """Change the only entry of a record."""
    entry = json.loads(path.read_text(encoding="utf-8"))
    change(entry)
    path.write_text(json.dumps(entry) + "\n", encoding="utf-8")


WAYS = [(*each, is_streamed) for each in STREAMED for is_streamed in (True, False)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("row", "path", "body", "is_streamed"), [(row, *way) for row, way in take_turns(sample(FORMATS, 5), WAYS)]
)
def test_what_was_recorded_is_read_as_it_was(tmp_path, row, path, body, is_streamed):
    def answer(sent):
        return stream(row.example) if sent.get("stream") else say(row.example)

    entry = read_entry(record(tmp_path, answer, {**body, "stream": is_streamed}, path=path))
    assert compare(entry, replay(entry)) == []


def test_a_refusal_that_changed_the_path_is_replayed_as_well(tmp_path):
    def answer(body):
        return (400, NO_PARSER) if body.get("tool_choice") != "none" else say(CALL)

    entry = read_entry(record(tmp_path, answer))
    assert entry["path"] == "template"
    assert compare(entry, replay(entry)) == []


def test_a_path_that_was_known_is_replayed(tmp_path):
    def answer(body):
        return (400, NO_PARSER) if body.get("tool_choice") != "none" else say(CALL)

    path = record(tmp_path, answer, BODY, BODY)
    first, second = (line.entry for line in read_lines([path]) if isinstance(line, RecordLine))
    assert len(first["exchanges"]) > len(second["exchanges"])
    assert compare(second, replay(second)) == []


def test_a_stream_that_broke_off_is_replayed_with_what_saved_it(tmp_path):
    answers = iter([stream("It is so.")[:4], stream("s so.")])
    entry = read_entry(record(tmp_path, lambda _: next(answers), {**BODY, "stream": True}))
    assert entry["choices"][0]["text"] == "It is so."
    assert compare(entry, replay(entry)) == []


def test_a_server_that_was_not_there_is_replayed(tmp_path):
    async def use(client, _):
        await ask(client, BODY)

    file = LogFile(tmp_path / "record.jsonl", LARGE, 1)
    drive(tmp_path, lambda _: say("x"), use, dead=1, alive=0, recorder=Recorder(file))
    entry = read_entry(file.path)
    assert (entry["status"], entry["ended"]) == (502, "broken")
    assert compare(entry, replay(entry)) == []


def test_another_call_and_another_text_are_told(tmp_path):
    entry = read_entry(record(tmp_path, lambda _: say(CALL)))
    entry["choices"][0]["text"] = "Here."
    entry["choices"][0]["calls"][0]["arguments"] = {"path": "b.txt"}
    assert compare(entry, replay(entry)) == [
        "text: 'Here.' -> ''",
        """call 1: 'read({"path":"b.txt"}), text' -> 'read({"path":"a.txt"}), text'""",
    ]


@pytest.fixture(name="cancelled")
def record_cancelled(tmp_path):
    """The entry of a client that left once it had a whole call."""

    async def use(client, _):
        reply = await client.post("/v1/chat/completions", json={**BODY, "stream": True})
        received = b""
        while b'"tool_calls"' not in received:
            received += await reply.content.readany()
        reply.close()

    file = LogFile(tmp_path / "record.jsonl", LARGE, 1)
    drive(tmp_path, lambda _: stream(CALL + "\n" + "More text. " * 3000), use, recorder=Recorder(file))
    entry = read_entry(file.path)
    assert entry["ended"] == "cancelled"
    return entry


def test_the_calls_of_a_client_that_left_are_compared(cancelled):
    assert compare(cancelled, replay(cancelled)) == []
    (call,) = cancelled["choices"][0]["calls"]
    call |= {"name": "delete", "arguments": {"path": "/"}}
    assert compare(cancelled, replay(cancelled)) == ["""call 1: 'delete({"path":"/"})' -> 'read({"path":"a.txt"})'"""]


@pytest.mark.parametrize(
    ("old", "new", "differences"),
    [
        ([("read", '{"pa')], [("read", '{"path": "a')], 0),
        ([("read", '{"path": "a')], [("read", '{"pa')], 0),
        ([("read", '{"path": "a')], [("read", '{"path": "b')], 1),
        ([("read", '{"pa')], [("read", {"path": "a"})], 0),
        ([("edit", '{"pa')], [("read", {"path": "a"})], 1),
        ([("read", {"path": "a"})], [("read", {"path": "ab"})], 1),
        ([("read", {})], [("read", {}), ("read", {})], 0),
        ([("read", {}), ("read", {})], [], 0),
    ],
)
def test_calls_of_a_client_that_left_are_compared_as_far_as_both_have_them(old, new, differences):
    before, after = (
        [{"index": 0, "calls": [{"name": name, "arguments": each, "how": how} for name, each in calls]}]
        for how, calls in (("native", old), ("text", new))
    )
    assert len(compare({"ended": "cancelled", "choices": before}, Replayed(after, [], []))) == differences


def test_a_request_that_the_record_holds_no_answer_to_is_told(tmp_path):
    entry = read_entry(record(tmp_path, lambda _: say(CALL)))
    entry["exchanges"] = [each for each in entry["exchanges"] if each["path"] != "chat/completions"]
    told = compare(entry, replay(entry))
    assert told[0] == "POST chat/completions is asked, and the record holds no answer"


class TestCommand:
    def run(self, *files: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
        code = main(["eval", "--replay", *map(str, files)])
        return code, *capsys.readouterr()

    def test_without_a_difference_it_ends_with_0(self, tmp_path, capsys):
        path = record(tmp_path, lambda _: say(CALL))
        assert self.run(path, capsys=capsys) == (0, "1 calls were read again, 0 differ.\n", "")

    def test_a_difference_is_shown_with_its_line_and_ends_with_1(self, tmp_path, capsys):
        path = record(tmp_path, lambda _: say("It is."))
        rewrite(path, lambda entry: entry["choices"][0].update(text="It was."))
        code, shown, _ = self.run(path, capsys=capsys)
        assert code == 1
        assert f"{path}:1" in shown
        assert "text: 'It was.' -> 'It is.'" in shown

    def test_damaged_lines_are_told_by_number_and_skipped(self, tmp_path, capsys):
        path = record(tmp_path, lambda _: say(CALL))
        whole = path.read_text(encoding="utf-8")
        path.write_text(f"{whole[:99]}\n[1]\n{whole}{whole.replace('version', 'v', 1)}", encoding="utf-8")
        code, shown, told = self.run(path, capsys=capsys)
        assert (code, shown) == (0, "1 calls were read again, 0 differ; not read: 3 damaged.\n")
        assert [line.partition(" is skipped")[0] for line in told.splitlines()] == [
            f"! {path}:{number}" for number in (1, 2, 4)
        ]

    def test_what_was_known_of_the_server_may_be_damaged(self, tmp_path, capsys):
        path = record(tmp_path, lambda _: say(CALL))
        rewrite(path, lambda entry: entry["reader"].pop("repair_turns"))
        code, _, told = self.run(path, capsys=capsys)
        assert code == 2
        assert "what was known of the server is not in it" in told

    def test_a_redacted_record_is_refused(self, tmp_path, capsys):
        path = record(tmp_path, lambda _: say(CALL))
        rewrite(path, lambda entry: entry.update(redacted=True))
        code, _, told = self.run(path, capsys=capsys)
        assert code == 2
        assert "A redacted record holds no answers of the server" in told

    def test_a_record_of_relayed_answers_alone_is_refused_as_that(self, tmp_path, capsys):
        path = record(tmp_path, lambda _: say("Yes."), {**BODY, "tools": []})
        code, _, told = self.run(path, capsys=capsys)
        assert code == 2
        assert "Relayed answers passed as they came" in told
        assert "redacted" not in told

    def test_an_empty_record_is_refused_as_that(self, tmp_path, capsys):
        (tmp_path / "record").touch()
        code, _, told = self.run(tmp_path / "record", capsys=capsys)
        assert code == 2
        assert told == "vllm-bot: No call of the record can be replayed.\nIt holds no calls.\n"

    def test_a_file_that_is_missing_is_told(self, tmp_path, capsys):
        code, _, told = self.run(tmp_path / "none", capsys=capsys)
        assert code == 2
        assert "The record cannot be read" in told


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"[]", b"{}", b'{"version": 2, "choices": []}', b'"text"'])
def test_a_line_that_is_no_call_is_damaged(tmp_path, line):
    (tmp_path / "record").write_bytes(line + b"\n\n")
    (read,) = read_lines([tmp_path / "record"])
    assert isinstance(read, DamagedLine)
