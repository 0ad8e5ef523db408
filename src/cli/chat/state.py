"""The state of a chat, on which slash commands act."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, TypeAlias, Union

from msgspec import Struct
from msgspec.structs import replace

from ... import app
from ...app.factory import Factory
from ...config import Settings
from ...config.environment import find_branch
from ...errors import BotError
from ...security.permissions.modes import CYCLE
from ...security.text.sanitize import sanitize
from ...session.session import Session
from ...session.store import Store
from ...types.events import (
    Completed,
    Event,
    ModeChanged,
    ReasoningDelta,
    SubagentStep,
    TextDelta,
    ToolCallDelta,
    TurnStarted,
)
from ...types.messages import (
    MEDIA_CHARS,
    Message,
    Response,
    ToolDefinition,
    ToolResults,
    Usage,
    UserMessage,
    count_media,
)
from ...types.tool_schema import to_openai_tool
from ..tracing.debug import Debug
from .input.file_search import FileIndex

if TYPE_CHECKING:
    from ...tools.process.jobs import BackgroundJob
    from ...tools.sources.skills import SkillSet
    from ..render.live import LiveScreen
    from ..render.plain import PlainScreen

BRANCH_S = 2.0
MIN_TIME_S = 0.01  # an answer that came whole tells no speed
MIN_READ_TOKENS = 64  # the time for fewer is that of the request
CHARACTERS_PER_TOKEN = 4  # an estimate, until the server has counted


# Lets the user choose from a list, which what is typed searches: rows of a key and a line; None if nothing is chosen.
PickRow = Callable[[str, Callable[[str], Sequence[tuple[str, str]]]], Union[str, None]]

# Shows lines in the user's pager if they fill more than a screen and there is one; else it returns False.
PageLines = Callable[[Sequence[str]], bool]


# Where a chat is drawn.
Display: TypeAlias = "Union[PlainScreen, LiveScreen]"


class ChatIO(Struct, frozen=True):
    """Reading from the terminal, for a chat.

    `read` works like input(); `turn` is entered around each answer, `suspend` around a program that takes the terminal.
    """

    read: Callable[[str], str] = input
    turn: Callable[[], AbstractContextManager[None]] = nullcontext
    suspend: Callable[[], AbstractContextManager[None]] = nullcontext


class AnswerClock:
    """The speed of the last answer: of reading the prompt and of writing, in tokens per second; 0 where not known."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = self._first = 0.0
        self.prefill = self.decode = 0.0

    def take(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self._began, self._first, self.prefill, self.decode = self._now(), 0.0, 0.0, 0.0
        elif isinstance(event, (TextDelta, ReasoningDelta, ToolCallDelta)):
            self._first = self._first or self._now()
        elif isinstance(event, Completed) and (usage := event.response.usage) and self._first:
            read = usage.input_tokens - usage.cached_tokens
            self.prefill = 0.0
            if read >= MIN_READ_TOKENS:
                self.prefill = _divide(read, self._first - self._began)
            self.decode = _divide(usage.output_tokens - 1, self._now() - self._first)


def _divide(tokens: int, seconds: float) -> float:
    return tokens / seconds if seconds >= MIN_TIME_S else 0.0


class State:
    """The state of one chat.

    `make_runtime` makes the runtime for a model's name when it is first needed, and again after a change. `store` saves
    conversations; without one they are not saved.
    """

    def __init__(
        self,
        settings: Settings,
        screen: Display,
        debug: Debug,
        make_runtime: Callable[[str], app.runtime.Runtime],
        model_name: str = "",
        store: Store | None = None,
    ) -> None:
        self.settings = settings
        self.screen = screen
        self.debug = debug
        self.model_name = model_name
        self.store = store
        self.pick: PickRow | None = None  # where there is a terminal for it
        self.page: PageLines | None = None  # the same
        self.files = FileIndex(settings.root, added=settings.added)
        self.session = self._new_session()
        self.queue: list[str] = []  # messages to handle before the user is prompted again
        self.draft = ""  # text in the next prompt, for the user to edit
        self.notes: list[str] = []  # for the model, above the next question
        self.asked_notes: list[str] = []  # above the last one
        self.unanswered = ""  # the last question, if it was stopped or failed before its answer
        self.should_exit = False
        self._skills: SkillSet | None = None
        self.total_usage = Usage()  # of this chat
        self.turn_input = self.turn_output = 0  # tokens that the last turn added to the conversation
        self._turn_base = 0  # tokens of the conversation before it
        self._branch: tuple[float, str] = (-math.inf, "")  # when it was read, and the git branch
        self.last_usage: Usage | None = None  # of the last answer
        self.overhead_tokens = 0  # of the tools and the template in every request; known after an answer
        self.context_length: int | None = None  # in tokens; None until the server has reported it
        self.known_path = ""  # how tools are called, as found at start
        self.clock = AnswerClock()
        self.effort = ""  # what /think was told; empty: as the settings and the server have it
        self._make_runtime = make_runtime
        self.runtime: app.runtime.Runtime | None = None
        self.workplace: app.runtime.Workplace | None = None  # made with the first runtime

    def show_lines(self, lines: Sequence[str]) -> None:
        """Show sanitized lines, of which there may be many."""
        if self.page is None or not self.page(lines):
            self.screen.put("\n".join(lines))

    def expand(self) -> None:
        """Show the last folded call or thought in full; the next time, the one before."""
        self.show_lines(self.screen.unfold())

    @property
    def factory(self) -> Factory:
        """A factory for the current settings."""
        return Factory(self.settings)

    @property
    def skills(self) -> SkillSet:
        """The skills and commands of the user; read once, and again after /trust."""
        self._skills = self._skills or self.factory.load_skills()
        return self._skills

    def trust_workspace(self, *, is_trusted: bool) -> None:
        """Let in what the workspace brings, or keep it out. Raises OSError where that cannot be saved."""
        self.factory.trust_memory.save(is_trusted=is_trusted)
        self._skills = None
        self.discard_runtime()

    def ensure_runtime(self) -> app.runtime.Runtime:
        """Returns the runtime, and makes it if necessary. Raises BotError."""
        if self.runtime is None:
            self.runtime = self._make_runtime(self.model_name)
            self.runtime.agent.set_mode(self.mode)  # which may have been switched before
            self.runtime.restore_todos(self.session)
        return self.runtime

    @property
    def path(self) -> str:
        """How tools are called; empty if not known yet."""
        return self.runtime.model.path.mode if self.runtime else self.known_path

    def switch_model(self, settings: Settings) -> None:
        """Continue the conversation with the model and the server of these settings."""
        self.settings, self.model_name = settings, settings.vllm.model
        self.runtime, self.last_usage, self.context_length = None, None, None
        self.known_path, self.overhead_tokens, self.effort = "", 0, ""
        self.clock = AnswerClock()

    @property
    def mode(self) -> str:
        """What may run without asking; one of MODES."""
        return self.settings.security.mode_in_force

    @property
    def next_mode(self) -> str:
        """The mode that Shift-Tab switches to. Mode full is left out: only its name switches to it."""
        if self.mode not in CYCLE:
            return CYCLE[0]
        return CYCLE[(CYCLE.index(self.mode) + 1) % len(CYCLE)]

    def switch_mode(self, mode: str) -> None:
        self.settings = replace(self.settings, security=replace(self.settings.security, mode=mode))
        if self.runtime:
            self.runtime.agent.set_mode(mode)

    @property
    def commands_ask(self) -> bool:
        """Whether no sandbox holds commands in mode auto, so that each of them asks; as far as that is known."""
        if self.mode != "auto" or self.workplace is None:
            return self.mode == "auto" and self.settings.security.sandbox == "off"
        sandbox = self.workplace.sandbox
        return sandbox is not None and sandbox.is_chosen and not sandbox.is_enforcing

    @property
    def branch(self) -> str:
        """The git branch of the workspace, read once in BRANCH_S: the status line is drawn with every key."""
        now = time.monotonic()
        if now - self._branch[0] > BRANCH_S:
            self._branch = now, sanitize(find_branch(self.settings.root))
        return self._branch[1]

    def can_send_to_background(self) -> bool:
        """Whether a command runs that can be sent to the background."""
        return self.workplace is not None and self.workplace.jobs.can_send

    def list_jobs(self) -> list[BackgroundJob]:
        """The commands that were started in the background."""
        if self.workplace is None:
            return []
        return list(self.workplace.jobs)

    def send_to_background(self) -> None:
        if self.workplace:
            self.workplace.jobs.request()

    @property
    def conversation(self) -> list[Message]:
        """The messages; the agent appends to them."""
        return self.session.messages

    def discard_runtime(self) -> None:
        """Make the runtime anew when it is next needed, because something it depends on has changed."""
        self.known_path, self.runtime = self.path, None

    def start_conversation(self) -> None:
        self.switch_session(self._new_session())

    def switch_session(self, session: Session) -> None:
        """Switch to another conversation; the current one stays in its journal."""
        self.session.close()
        self.session = session
        self.notes, self.asked_notes, self.unanswered, self.last_usage = [], [], "", None
        if self.runtime:
            self.runtime.restore_todos(session)

    def _new_session(self) -> Session:
        return self.factory.make_session(self.model_name, self.store)

    def count_usage(self, event: Event) -> None:
        """Add up the tokens of an answer, and take its time and the mode that it ended with."""
        self.clock.take(event)
        if isinstance(event, ModeChanged):
            self.switch_mode(event.mode)
        if isinstance(event, TurnStarted) and event.number == 1:
            base = self.last_usage or Usage()
            self._turn_base, self.turn_output = base.input_tokens + base.output_tokens, 0
        if isinstance(event, Completed) and (usage := event.response.usage):
            self._count_answer(event.response, usage)
        elif isinstance(event, SubagentStep) and isinstance(event.step, Completed):
            self.total_usage += event.step.response.usage

    def _count_answer(self, response: Response, usage: Usage) -> None:
        self.turn_input = max(0, usage.input_tokens - self.turn_output - self._turn_base)
        self.turn_output += usage.output_tokens
        self.last_usage = usage
        sent = [message for message in self.conversation if message is not response]
        self.overhead_tokens = max(0, usage.input_tokens - estimate_tokens(sent))
        self.total_usage += usage

    def estimate_overhead(self) -> None:
        """Estimate the tokens of the tools, until an answer tells. MCP servers are not started for that."""
        if self.settings.tools.mcp or self.overhead_tokens:
            return
        with suppress(BotError):  # which the first question shows
            chars = sum(len(json.dumps(to_openai_tool(tool))) for tool in self.list_tools())
            self.overhead_tokens = self.overhead_tokens or chars // CHARACTERS_PER_TOKEN

    def list_tools(self) -> Sequence[ToolDefinition]:
        """The tools that the model is offered; before the first question as far as settings tell."""
        if self.runtime:
            return self.runtime.agent.tools
        tools = app.toolset.make_tools(self.settings, get_context=lambda: self.context_length)
        return app.toolset.list_offered(self.settings, tools)

    @property
    def context_used(self) -> int:
        """Tokens of the conversation: the server's last count, else an estimate."""
        if self.last_usage:
            return self.last_usage.input_tokens + self.last_usage.output_tokens
        return estimate_tokens(self.conversation) + self.overhead_tokens

    @property
    def last_answer(self) -> str:
        """The model's last text; empty if there is none."""
        texts = (message.text for message in reversed(self.conversation) if isinstance(message, Response))
        return next((text for text in texts if text.strip()), "")


def estimate_tokens(messages: Iterable[Message]) -> int:
    """The approximate number of tokens."""
    return sum(map(_estimate_chars, messages)) // CHARACTERS_PER_TOKEN


def _estimate_chars(message: Message) -> int:
    media = count_media(message)
    if not media:
        return len(str(message))
    chars = MEDIA_CHARS * media
    if isinstance(message, UserMessage):
        chars += len(message.text)
    if isinstance(message, ToolResults):
        chars += sum(len(result.text) for result in message.results)
    return chars
