"""`vllm-bot eval --export`: records as OpenAI's fine-tuning examples, and as trajectories that harbor reads."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from src.cli.main import main
from tests.serve.test_gateway import BODY, CALL, TOOL, ask, drive, say

from .test_replay import LARGE, LogFile, Recorder, record, rewrite


def with_ids(answer: dict[str, Any]) -> dict[str, Any]:
    (choice,) = answer["choices"]
    logprobs = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}]}
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    choice = {**choice, "token_ids": [7, 8], "logprobs": logprobs}
    return {**answer, "prompt_token_ids": [1, 2, 3], "choices": [choice], "usage": usage}


def record_conversation(folder: Path) -> Path:
    """Of a question, a call, its result, and an answer with a thought."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        if len(body["messages"]) == 1:
            return with_ids(say(CALL))
        done = say("It says: text.")
        done["choices"][0]["message"]["reasoning"] = "Now I know."
        return done

    async def use(client: Any, fake: Any) -> None:
        fake.written = CALL
        _, first = await ask(client, BODY)
        message = first["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "text"}
        await ask(client, {**BODY, "messages": [*BODY["messages"], message, result]})

    file = LogFile(folder / "record.jsonl", LARGE, 1)
    drive(folder, answer, use, recorder=Recorder(file))
    return file.path


def export(form: str, path: Path, out: Path) -> int:
    return main(["eval", "--export", form, str(path), "--out", str(out)])


class TestOpenAI:
    def test_a_conversation_is_one_example_with_its_tools(self, tmp_path, capsys):
        assert export("openai", record_conversation(tmp_path), tmp_path / "train.jsonl") == 0
        (example,) = map(json.loads, (tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines())
        assert [each["role"] for each in example["messages"]] == ["user", "assistant", "tool", "assistant"]
        (call,) = example["messages"][1]["tool_calls"]
        assert call["function"] == {"name": "read", "arguments": '{"path": "a.txt"}'}  # as the model wrote it
        assert call["id"] == example["messages"][2]["tool_call_id"]
        assert example["messages"][3] == {"role": "assistant", "content": "It says: text."}
        assert example["tools"] == [TOOL]
        assert capsys.readouterr().out.startswith("1 conversations of 2 calls are in ")

    def test_an_answer_that_ends_in_calls_is_one_too(self, tmp_path):
        export("openai", record(tmp_path, lambda _: say(CALL)), tmp_path / "train.jsonl")
        example = json.loads((tmp_path / "train.jsonl").read_text(encoding="utf-8"))
        answer = example["messages"][-1]
        assert (answer["content"], answer["tool_calls"][0]["function"]["arguments"]) == (None, '{"path":"a.txt"}')

    def test_calls_that_share_an_index_are_calls_of_their_own(self, tmp_path):
        rows = [("a", '{"path":"a"}'), ("b", {"path": "b"})]  # the second as some servers write arguments
        pieces = [{"index": 0, "id": id, "function": {"name": "read", "arguments": each}} for id, each in rows]
        chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
        answer = [*(f"data: {json.dumps(each)}\n\n".encode() for each in chunks), b"data: [DONE]\n\n"]
        export("openai", record(tmp_path, lambda _: answer, {**BODY, "stream": True}), tmp_path / "train.jsonl")
        example = json.loads((tmp_path / "train.jsonl").read_text(encoding="utf-8"))
        assert [(each["id"], each["function"]["arguments"]) for each in example["messages"][-1]["tool_calls"]] == [
            ("a", '{"path":"a"}'),
            ("b", '{"path":"b"}'),
        ]

    def test_what_is_kept_for_the_prompt_alone_is_left_out(self, tmp_path):
        path = record(tmp_path, lambda _: say("Yes."))
        rewrite(path, lambda entry: entry["messages"][0].update({"x-vllm-bot-written": "a", "reasoning": "b"}))
        export("openai", path, tmp_path / "train.jsonl")
        example = json.loads((tmp_path / "train.jsonl").read_text(encoding="utf-8"))
        assert example["messages"][0] == {"role": "user", "content": "Read it."}

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"status": 400}, "refused"),
            ({"ended": "broken"}, "cut off"),
            ({"choices": []}, "without an answer"),
            ({"messages": None}, "without messages"),
        ],
    )
    def test_what_teaches_nothing_is_left_out_and_told(self, tmp_path, capsys, change, why):
        path = record(tmp_path, lambda _: say("Yes."))
        rewrite(path, lambda entry: entry.update(change))
        export("openai", path, tmp_path / "train.jsonl")
        assert (tmp_path / "train.jsonl").read_bytes() == b""
        assert f"left out: 1 {why}" in capsys.readouterr().out

    def test_a_file_that_was_there_is_the_user_s_alone_from_then_on(self, tmp_path):
        (tmp_path / "train.jsonl").touch(0o644)
        export("openai", record(tmp_path, lambda _: say("Yes.")), tmp_path / "train.jsonl")
        assert stat.S_IMODE((tmp_path / "train.jsonl").stat().st_mode) == 0o600

    @pytest.mark.parametrize("link", [None, Path.symlink_to, Path.hardlink_to])
    def test_the_record_itself_is_never_written_over(self, tmp_path, capsys, link):
        path = out = record(tmp_path, lambda _: say("Yes."))
        before = path.read_bytes()
        if link:
            out = tmp_path / "train.jsonl"
            link(out, path)
        assert export("openai", path, out) == 2
        assert path.read_bytes() == before
        assert f"{out} is the record itself." in capsys.readouterr().err

    def test_a_source_that_is_missing_leaves_what_there_was(self, tmp_path):
        (tmp_path / "train.jsonl").write_text("an earlier one")
        assert export("openai", tmp_path / "none", tmp_path / "train.jsonl") == 2
        assert [each.read_text() for each in tmp_path.iterdir()] == ["an earlier one"]

    def test_a_folder_that_is_missing_is_told(self, tmp_path, capsys):
        assert export("openai", record(tmp_path, lambda _: say("Yes.")), tmp_path / "no" / "train.jsonl") == 2
        assert f"{tmp_path}/no/train.jsonl cannot be written: No such file or directory." in capsys.readouterr().err


class TestAtif:
    def read(self, folder: Path) -> dict[str, Any]:
        (file,) = (folder / "out").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        return json.loads(file.read_text(encoding="utf-8"))

    def test_a_conversation_is_one_trajectory_with_the_tokens_of_its_answers(self, tmp_path):
        export("atif", record_conversation(tmp_path), tmp_path / "out")
        trajectory = self.read(tmp_path)
        user, call, answer = trajectory["steps"]
        assert [each["step_id"] for each in trajectory["steps"]] == [1, 2, 3]
        assert (user["source"], user["message"]) == ("user", "Read it.")
        (made,) = call["tool_calls"]
        assert (made["function_name"], made["arguments"]) == ("read", {"path": "a.txt"})
        assert made["extra"] == {"how": "text", "origin": "hermes"}
        assert call["observation"] == {"results": [{"source_call_id": made["tool_call_id"], "content": "text"}]}
        assert call["metrics"] == {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "prompt_token_ids": [1, 2, 3],
            "completion_token_ids": [7, 8],
            "logprobs": [-0.5, -0.25],
        }
        assert (answer["message"], answer["reasoning_content"]) == ("It says: text.", "Now I know.")
        assert trajectory["agent"]["tool_definitions"] == [TOOL]

    def test_a_result_without_its_call_and_calls_without_ids_are_steps(self, tmp_path):
        path = record(tmp_path, lambda _: say("Yes."))
        history = [
            {"role": "system", "content": "Be brief."},
            {"role": "assistant", "tool_calls": [{"function": {"name": "read", "arguments": "{broken"}}]},
            {"role": "tool", "tool_call_id": "other", "content": [{"type": "text", "text": "lost"}]},
        ]
        rewrite(path, lambda entry: entry.update(messages=history))
        export("atif", path, tmp_path / "out")
        system, call, result, _ = self.read(tmp_path)["steps"]
        assert system == {"source": "system", "message": "Be brief.", "step_id": 1}
        assert call["tool_calls"][0]["extra"] == {"written": "{broken"}
        assert result["observation"]["results"] == [{"content": "lost"}]

    def test_the_name_of_a_session_cannot_leave_the_folder(self, tmp_path):
        path = record(tmp_path, lambda _: say("Yes."))
        rewrite(path, lambda entry: entry.update(session="../../evil"))
        export("atif", path, tmp_path / "out")
        assert [each.name for each in (tmp_path / "out").iterdir()] == ["______evil.json"]

    def test_a_record_of_the_name_of_a_trajectory_is_never_written_over(self, tmp_path):
        path = record(tmp_path, lambda _: say("Yes."))
        path = path.rename(tmp_path / "seven.json")
        rewrite(path, lambda entry: entry.update(session="seven"))
        before = path.read_bytes()
        assert export("atif", path, tmp_path) == 2
        assert path.read_bytes() == before

    def test_a_source_that_is_missing_leaves_no_folder(self, tmp_path):
        assert export("atif", tmp_path / "none", tmp_path / "out") == 2
        assert not [*tmp_path.iterdir()]

    def test_harbor_reads_what_is_written(self, tmp_path):
        trajectories = pytest.importorskip("harbor.models.trajectories")
        export("atif", record_conversation(tmp_path), tmp_path / "out")
        read = trajectories.Trajectory.model_validate(self.read(tmp_path))
        assert [step.source for step in read.steps] == ["user", "agent", "agent"]


@pytest.mark.parametrize("words", [["openai"], ["csv", "x"], ["openai", "x"]])
def test_a_wrong_export_is_told(tmp_path, capsys, words):
    assert main(["eval", "--export", *words]) == 2
    assert "--export" in capsys.readouterr().err


def test_a_replay_and_an_export_are_two_commands(tmp_path, capsys):
    path = str(record(tmp_path, lambda _: say("Yes.")))
    with pytest.raises(SystemExit, match="2"):
        main(["eval", "--replay", path, "--export", "openai", path, "--out", str(tmp_path / "train.jsonl")])
    assert "not allowed with" in capsys.readouterr().err
