"""A model with tools, for a program of one's own: what `from vllm_bot import Agent` gives.

    agent = Agent.connect("http://localhost:8000/v1", tools=[weather])
    for event in agent.ask("Do I need an umbrella in Oslo?"):
        ...

Everything is as in the chat: the model's calls run, whether they come natively or in the text; a bad call is answered
to the model; a call of high risk asks first. Nothing is read from a configuration file or the environment, nothing is
printed, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event as CancelToken
from threading import Lock
from types import TracebackType

from ..agent.loop import AgentLoop
from ..errors import BotError, Cancelled, ConfigError
from ..security.permissions.approval import REFUSE_ALL, Answer, Request
from ..security.permissions.policy import Policy
from ..tools import Media, Tool, ToolContext, registry_of
from ..tools.sdk.result import to_content_block
from ..transport import CANCELLED, Client
from ..transport.driver import drive
from ..types.events import Event
from ..types.messages import Message, Response, SystemMessage, ToolChoice, UserMessage
from .connect import Connections
from .endpoint import DEFAULT_URL, make_settings, take_only
from .model import find_models

SYSTEM = "You are a helpful assistant. Use the tools to look and to act, rather than guessing."


class Agent:
    """One conversation with one model. `conversation` holds its messages, which may be read, stored and passed in.

    `connect` makes one. It is a context manager, which closes the connection at its end.
    """

    def __init__(self, loop: AgentLoop, client: Client, model: str, conversation: list[Message]) -> None:
        self.conversation = conversation
        self.model = model
        self._loop = loop
        self._client = client
        self._cancelled = CancelToken()  # of the last run
        self._running = Lock()

    @classmethod
    def connect(
        cls,
        base_url: str = DEFAULT_URL,
        model: str = "",
        *,
        tools: Iterable[Tool | Callable[..., object]] = (),
        approve: Callable[[Request], bool | Answer] | None = None,
        system: str = SYSTEM,
        api_key: str = "",
        provider: str = "vllm",
        workspace: str | Path = ".",
        temperature: float | None = None,
        max_tokens: int | None = None,
        max_tool_turns: int = 10,
    ) -> Agent:
        """An agent on a server. Without `model` it is the only one that the server has.

        `tools`: functions with type hints and a docstring, decorated with @tool or not. One of low risk,
        `@tool(risk="low")`, runs when the model calls it. For any other, `approve` is asked; without `approve` it does
        not run. `provider` is one of vllm, openai, ollama, anthropic, gemini and vertex. `workspace` is the folder of
        tools that work on files. `max_tokens` limits one answer.
        Raises BotError if the server does not answer, ConfigError for impossible arguments or if a model must be named,
        TypeError or ValueError for tools that cannot be offered. Nothing is left open then.
        """
        folder = Path(workspace).resolve()
        _check(folder, max_tool_turns)
        registry = registry_of(tools)
        settings = make_settings(base_url, model, api_key, provider, temperature, max_tokens)
        connections = Connections(settings)
        with ExitStack() as opened:
            client = opened.enter_context(connections.make_client())
            name = model or take_only(
                find_models(client, connections.make_codec(), is_vllm=provider == "vllm"), base_url
            )
            loop = AgentLoop(
                connections.make_model(name, client=client).core,
                registry,
                ToolContext(workspace=folder),
                _Asking(approve) if approve else REFUSE_ALL,
                Policy(workspace=folder),
                max_tool_turns=max_tool_turns,
            )
            opened.pop_all()  # from here on the agent closes it
        return cls(loop, client, name, [SystemMessage(system)] if system else [])

    def ask(
        self, question: str | Sequence[str | Media], *, tool_choice: ToolChoice = "auto"
    ) -> Generator[Event, None, None]:
        """Events, as they happen, until the question is answered. Raises BotError.

        `question`: a text, or a list of texts, images and sounds: `["What is this?", Media(data, "image/png")]`.
        `tool_choice`: "none": no tool may be called; "required" or `Named("weather")`: the first answer must call a
        tool, or this one, and a Notice tells if it does not.
        Whatever ends it early, closing this generator included, the conversation can be continued.
        """
        asked, cancelled = _to_message(question), CancelToken()
        if not self._running.acquire(blocking=False):
            raise BotError("This agent is answering another question.", "Ask it afterwards, or ask another agent.")
        try:
            self._cancelled = cancelled
            self._client.bind_cancellation(cancelled)
            self.conversation.append(asked)
            steps = self._loop.run(self.conversation, cancelled, tool_choice)
            with closing(drive(steps, self._client)) as events:
                for event in events:
                    yield event
                    if cancelled.is_set():
                        raise Cancelled(CANCELLED)
        finally:
            if any(last is asked for last in self.conversation[-1:]):
                self.conversation.pop()  # it has no answer: the next question must not inherit it
            self._running.release()

    def answer(self, question: str | Sequence[str | Media], *, tool_choice: ToolChoice = "auto") -> str:
        """The model's answer alone; `tool_choice` as in `ask`. Raises BotError."""
        for _ in self.ask(question, tool_choice=tool_choice):
            pass
        last = self.conversation[-1]
        return last.text.strip() if isinstance(last, Response) else ""

    def cancel(self) -> None:
        """Stop the run, from any thread: `ask` raises Cancelled in its own. Without a run, nothing happens.

        The server's answer and commands end at once; a tool of yours ends when it reads `ctx.cancelled`.
        """
        self._cancelled.set()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *raised: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._client.__exit__(*raised)


def _to_message(question: str | Sequence[str | Media]) -> UserMessage:
    if isinstance(question, str):
        return UserMessage(question)
    return UserMessage("", tuple(map(to_content_block, question)))


class _Asking:
    """An Approver that asks a function."""

    def __init__(self, approve: Callable[[Request], bool | Answer]) -> None:
        self._approve = approve

    def approve(self, request: Request) -> Answer:
        answer = self._approve(request)
        if isinstance(answer, Answer):
            return answer
        return Answer(True) if answer else Answer(False, "it was not approved.")


def _check(workspace: Path, max_tool_turns: int) -> None:
    """Raises ConfigError for impossible arguments, before the server is asked anything."""
    if not workspace.is_dir():
        raise ConfigError(f"workspace: there is no folder {workspace}.")
    if max_tool_turns < 1:
        raise ConfigError(f"max_tool_turns: expected at least 1, got {max_tool_turns}.")
