"""inspect-ai's own evals, with its tools and its log, on a call path. Skipped without inspect-ai."""

from __future__ import annotations

import pytest

inspect_ai = pytest.importorskip("inspect_ai", reason="needs inspect-ai: pip install 'vllm-bot[inspect]'")

from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, get_model  # noqa: E402
from inspect_ai.scorer import includes  # noqa: E402
from inspect_ai.solver import generate, use_tools  # noqa: E402
from inspect_ai.tool import tool  # noqa: E402

import src.eval.inspect_provider  # noqa: F401, E402 - an installed package is found by its entry point
from tests.doubles import ScriptedServer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of inspect-ai's own: deprecated names, streams left open

CALL = {"index": 0, "id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": '{"at": "0"}'}}
NATIVE = [{"tool_calls": [CALL], "finish": "tool_calls", "usage": {"prompt_tokens": 9, "completion_tokens": 3}}]
TEXT = [{"content": 'TOOL_CALL: {"name": "look", "args": {"at": "0"}}', "finish": "stop"}]
ANSWER = [{"content": "It is a door.", "finish": "stop"}]


@tool
def look():
    async def execute(at: str) -> str:
        """Looks.

        Args:
            at: Where to look.
        """
        return f"a door at {at}"

    return execute


def run(tmp_path, server, **values):
    task = inspect_ai.Task(
        dataset=[Sample(input="Look at 0.", target="door")],
        solver=[use_tools(look()), generate()],
        scorer=includes(),
    )
    model = get_model("vllm-bot/tiny", base_url=server.url, memoize=False, **values)
    (log,) = inspect_ai.eval(task, model=model, log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    return log


@pytest.mark.parametrize(("path", "answer"), [("native", NATIVE), ("text", TEXT)])
def test_a_call_is_run_and_its_result_sent_back(tmp_path, path, answer):
    with ScriptedServer(answer, ANSWER) as server:
        log = run(tmp_path, server, path=path)
    (sample,) = log.samples
    assert [message.role for message in sample.messages] == ["user", "assistant", "tool", "assistant"]
    assert sample.messages[2].text == "a door at 0"
    assert sample.output.completion == "It is a door."
    assert sample.scores["includes"].value == "C"
    assert bool(server.requests[0].get("tools")) == (path == "native")
    assert "a door at 0" in server.requests[1]["messages"][-1]["content"]


def test_sampling_is_sent(tmp_path):
    with ScriptedServer(ANSWER) as server:
        run(
            tmp_path,
            server,
            path="native",
            config=inspect_ai.model.GenerateConfig(temperature=0.5, seed=3, max_tokens=77),
        )
    assert (server.requests[0]["temperature"], server.requests[0]["seed"]) == (0.5, 3)


def test_an_output_says_where_its_calls_came_from(tmp_path):
    with ScriptedServer(TEXT, ANSWER) as server:
        log = run(tmp_path, server, path="native")
    outputs = [event.output for event in log.samples[0].events if event.event == "model"]
    assert outputs[0].metadata["origins"] == ["text"]


def test_an_image_is_refused_and_not_left_out(tmp_path):
    content = [ContentText(text="What is this?"), ContentImage(image="data:image/png;base64,AAAA")]
    with ScriptedServer(ANSWER) as server:
        task = inspect_ai.Task(dataset=[Sample(input=[ChatMessageUser(content=content)])], solver=[generate()])
        model = get_model("vllm-bot/tiny", base_url=server.url, memoize=False)
        (log,) = inspect_ai.eval(task, model=model, log_dir=str(tmp_path), display="none")
    assert log.status == "error"
    assert "A message holds image: this provider sends text only." in log.error.message
    assert server.requests == []
