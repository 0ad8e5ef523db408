"""Stand-ins that speak the real types."""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, Union

from src.app.endpoint import random_id
from src.app.model import Model
from src.cli.demo.loopback import JSON, STREAM, LoopbackReply, LoopbackRequest, serve
from src.errors import ToolError
from src.model import ModelCore, ModelOptions
from src.model.retry import RetryPolicy
from src.negotiation import FactStore, ServerApi
from src.negotiation.call_path import CallPath
from src.providers.base import Codec
from src.providers.openai import OpenAICodec
from src.security.permissions.approval import Answer, Request
from src.security.permissions.policy import Policy
from src.tools.sdk.registry import Registry, ToolContext
from src.transport import Client, HttpReply
from src.transport.driver import drive, run
from src.types.effects import AgentSteps, ReplyHead
from src.types.events import Completed, Event, ModelEvent, TextDelta
from src.types.messages import Message, Response, Text, ToolCall, ToolChoice, ToolDefinition
from tests.waiting import PATIENCE_S, wait_until

T = TypeVar("T")


def make_core(
    address: str,
    name: str,
    *,
    codec: Codec | None = None,
    path: CallPath | None = None,
    max_tokens: int | None = None,
    new_id: Callable[[], str] = random_id,
    jitter: Callable[[], float] = random.random,
    facts: FactStore | None = None,
    **options: Any,
) -> ModelCore:
    """A model's logic. `facts`: shared with other models; by default its own. `options`: of ModelOptions."""
    return ModelCore(
        name,
        codec or OpenAICodec(new_id),
        address,
        facts or FactStore(),
        options=ModelOptions(**options),
        path=path or CallPath(),
        max_tokens=max_tokens,
        new_id=new_id,
        jitter=jitter,
        retry_policy=RetryPolicy(),
    )


def make_model(client: Client, name: str, **options: Any) -> Model:
    """A model of threads; the options as in make_core."""
    return Model(client, make_core(client.base_url, name, **options))


def says(text: str, *calls: ToolCall, **fields) -> Response:
    """A turn of the model: text, then calls."""
    content = ((Text(text),) if text else ()) + calls
    return Response(content, **({"stop_reason": "tool_use" if calls else "end_turn"} | fields))


class Asked(NamedTuple):
    """What the model was asked: the conversation as it was, the tools offered, and the choice of them."""

    messages: list[Message]
    tools: list[str]
    tool_choice: ToolChoice = "auto"


class ScriptedModel:
    """Gives the turns it was made with, one a request; an exception in their place is raised after `partial` text."""

    def __init__(self, *turns: Union[Response, BaseException], partial: str = "") -> None:
        self.turns = list(turns)
        self.partial = partial
        self.asked: list[Asked] = []
        self.name = "tiny"
        self.thoughts, self.kept = "are sent back", None
        self.path = CallPath()
        self.context_length = 1000

    def respond(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = (), tool_choice: ToolChoice = "auto"
    ) -> Iterator[ModelEvent]:
        self.asked.append(Asked(list(messages), [tool.name for tool in tools], tool_choice))
        turn = self.turns.pop(0)
        if isinstance(turn, BaseException):
            if self.partial:
                yield TextDelta(self.partial)
            raise turn
        if turn.text:
            yield TextDelta(turn.text)
        yield Completed(turn)

    @property
    def core(self) -> ScriptedModel:
        return self

    def measure_fill(self, *_: object, **__: object) -> AgentSteps[float]:
        yield from ()
        return 0.5

    def drive(self, steps: AgentSteps[T], on_silence: object = None) -> Generator[Event, None, T]:
        return perform(steps)


def perform(steps: AgentSteps[T]) -> Generator[Event, None, T]:
    """The events of a run, in which no request is sent."""
    return drive(steps, ScriptedClient())


class ScriptedApprover:
    """Answers as told, yes, no or more than that, and keeps what it was asked."""

    def __init__(self, *answers: Union[bool, Answer]) -> None:
        self.answers = list(answers)
        self.asked: list[ToolCall] = []
        self.requests: list[Request] = []

    def approve(self, request: Request) -> Answer:
        self.asked.append(request.call)
        self.requests.append(request)
        answer = self.answers.pop(0)
        return answer if isinstance(answer, Answer) else Answer(answer, "the user said no.")


def toolbox() -> tuple[Registry, list[str]]:
    """Three tools of every kind, and the list in which they note their runs."""
    registry, ran = Registry(), []

    @registry.tool(risk="low")
    def look(path: str) -> str:
        """Look at a file."""
        ran.append(f"look {path}")
        return f"contents of {path}"

    @registry.tool(risk="high")
    def change(path: str) -> str:
        """Change a file."""
        ran.append(f"change {path}")
        return "changed"

    @registry.tool(risk="low")
    def wait(ctx: ToolContext) -> str:
        """Wait for the user, who presses Ctrl-C."""
        press_ctrl_c()
        ctx.cancelled.wait(PATIENCE_S)
        raise ToolError("it was cancelled")

    return registry, ran


def press_ctrl_c() -> None:
    """Send the signal to the main thread, once it waits for the calls if it does not run them."""
    main = threading.main_thread()

    def waits_for_calls() -> bool:
        frame = sys._current_frames()[main.ident]
        return any(each.f_code.co_name == "_wait_for" for each, _ in traceback.walk_stack(frame))

    if threading.current_thread() is not main:
        wait_until(waits_for_calls, "the main thread does not wait for the calls")
    signal.pthread_kill(main.ident, signal.SIGINT)


def context(folder: Path = Path("/")) -> ToolContext:
    return ToolContext(workspace=folder)


# An edit is judged by the links in the whole workspace: that of a test is not the whole machine.
NOWHERE = Path("/nowhere")
POLICY = Policy(NOWHERE)  # that of no settings at all


class ScriptedClient:
    """A server's answers, one a chat request: (status, body), stream deltas, or a stream's bytes; keeps what was asked.

    `aside` are the answers of its other addresses, by path, as a JSON value, an exception or a function of the
    request's body.
    """

    base_url = "http://scripted/v1"

    def __init__(self, *answers: tuple[int, dict] | list[dict] | bytes, **aside: object) -> None:
        self.answers = list(answers)
        self.aside = aside
        self.statuses: dict[str, tuple[int, object]] = {}  # of other addresses that refuse, by path
        self.requests: list[dict] = []
        self.asked_aside: list[str] = []  # the other addresses
        self.slept: list[float] = []  # between attempts
        self.sleep = self.slept.append
        self.is_cancelled = lambda: False
        self.bind_silence = lambda on_silence: None  # its answers come at once

    @contextmanager
    def open(
        self, method: str, path: str, body: bytes | None = None, *, within: float | None = None
    ) -> Iterator[HttpReply]:
        asked = json.loads(body) if body else {}
        if is_chat(path):
            self.requests.append(asked)
            answer = self.answers.pop(0)
        else:
            answer = self._aside(path.strip("/"), asked)
        if isinstance(answer, tuple):
            status, value = answer
            yield HttpReply(ReplyHead(status, "application/json"), iter([json.dumps(value).encode()]))
            return
        stream = [answer] if isinstance(answer, bytes) else [*map(stream_event, answer), b"data: [DONE]\n\n"]
        yield HttpReply(ReplyHead(200, "text/event-stream"), iter(stream))

    def _aside(self, name: str, asked: dict) -> tuple[int, object]:
        self.asked_aside.append(name)
        if name in self.statuses:
            return self.statuses[name]
        if name not in self.aside:
            return 404, {"detail": "Not Found"}
        answer = self.aside[name]
        if isinstance(answer, BaseException):
            raise answer
        return 200, answer(asked) if callable(answer) else answer


def list_models(client, codec=None) -> list[str]:
    server = ServerApi(codec or OpenAICodec(str), client.base_url, FactStore(), is_vllm=False)
    return run(server.list_models(), client)


def is_chat(path: str) -> bool:
    """Whether the path of a request asks for a turn of the model, for any provider."""
    return path.endswith(("chat/completions", "messages", "inference/v1/generate")) or "enerateContent" in path


def stream_event(delta: dict) -> bytes:
    """One chunk of a chat completion as it is streamed; a delta's "finish" becomes its finish_reason."""
    choice = {"index": 0, "delta": delta, "finish_reason": delta.get("finish"), "token_ids": delta.get("ids")}
    chunk = {"model": "tiny", "choices": [choice], "usage": delta.get("usage")}
    return f"data: {json.dumps(chunk)}\n\n".encode()


class ScriptedServer:
    """A server on loopback: each chat takes the next answer, as ScriptedClient's; GET /v1/models lists `models`.

    `card`: what the list tells of each.
    """

    def __init__(
        self,
        *answers: tuple[int, dict] | list[dict] | Iterator[dict] | bytes,
        models: Sequence[str] = ("tiny",),
        card: Mapping[str, Any] | None = None,
    ) -> None:
        self.answers = list(answers)
        self.models = models
        self.card = card or {}
        self.lists: list[str] = []  # the paths at which lists of models were asked for
        self.requests: list[dict] = []
        self.url = ""

    def __enter__(self) -> ScriptedServer:
        self._serving = serve(self._answer)
        self.url = f"{self._serving.__enter__()}/v1"
        return self

    def __exit__(self, *left: Any) -> None:
        self._serving.__exit__(*left)

    def _answer(self, asked: LoopbackRequest) -> LoopbackReply:
        if asked.method == "GET":
            self.lists += [asked.path] if asked.path.endswith("/models") else []
            return _json(200, {"data": [{"id": name, **self.card} for name in self.models]})
        if not is_chat(asked.path):
            return _json(404, {"detail": "Not Found"})
        self.requests.append(json.loads(asked.body))
        answer = self.answers.pop(0)
        if isinstance(answer, tuple):
            return _json(*answer)
        if isinstance(answer, Iterator):  # which may have no end
            return LoopbackReply(200, STREAM, map(stream_event, answer))
        body = answer if isinstance(answer, bytes) else b"".join([*map(stream_event, answer), b"data: [DONE]\n\n"])
        return LoopbackReply(200, STREAM, [body])


def _json(status: int, value: object) -> LoopbackReply:
    return LoopbackReply(status, JSON, [json.dumps(value).encode()])
