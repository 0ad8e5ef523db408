"""What a slash command is, and what it acts on: one row of a table, and the state of the chat.

A command is a function of the state and the words behind its name. Whatever module has commands exports a
tuple of rows; src/cli/commands.py puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple, Protocol

from ..config import Settings
from ..messages import Completed, Event, Message, Notice, Response, Usage
from ..session.session import Session
from ..session.store import Store
from . import start
from .debug import Debug

CHARACTERS_PER_TOKEN = 4  # where the server has not counted


class Display(Protocol):
    """Where a chat is drawn. src.cli.render.Screen is one."""

    thinking: str  # how thoughts are shown: fold, show or hide

    def draw(self, event: Event) -> None: ...

    def say(self, text: str) -> None:
        """Lines of the program's own. What others wrote in them has been made plain."""

    def put(self, text: str) -> None:
        """Lines as others wrote them, made plain: never broken, so that they can be copied."""

    def wipe(self) -> None:
        """Begin at the top of an empty screen, where there is one."""

    def expand(self) -> None:
        """Show all of what was last shown in short."""


class State:
    """One chat: what was said, who answers, and what happens next.

    `make_bot`: what answers, for a model's name; it is made when it is first needed, and again for another model.
    `store`: where conversations are kept; None: nowhere.
    """

    def __init__(
        self,
        settings: Settings,
        screen: Display,
        debug: Debug,
        make_bot: Callable[[str], start.Bot],
        model_name: str = "",
        store: Store | None = None,
    ) -> None:
        self.settings = settings
        self.screen = screen
        self.debug = debug
        self.model_name = model_name
        self.store = store
        self.session = self._new_session()
        self.questions: list[str] = []  # asked next, one after another, before the user is asked for more
        self.draft = ""  # what stands in the prompt already, for the user to go on with
        self.notes: list[str] = []  # what goes to the model above the next question
        self.left = False
        self.spent = Usage()  # of this chat
        self.last: Usage | None = None  # of the last answer
        self.context_length: int | None = None  # in tokens, once the server has said it
        self.known_path = ""  # how tools are called, as it was found before anything was asked
        self._make_bot = make_bot
        self._bot: start.Bot | None = None

    @property
    def made_bot(self) -> start.Bot | None:
        """What answers, where it has been needed."""
        return self._bot

    def bot(self) -> start.Bot:
        """What answers. Raises BotError where it cannot be made."""
        if self._bot is None:
            self._bot = self._make_bot(self.model_name)
            self._bot.recall(self.session)
            if self._bot.warning:
                self.screen.draw(Notice(self._bot.warning))
        return self._bot

    @property
    def path(self) -> str:
        """How tools are called; empty where nobody knows yet."""
        return self._bot.model.path.mode if self._bot else self.known_path

    def switch(self, model_name: str) -> None:
        """Another model of the server goes on with the conversation."""
        self.model_name, self._bot, self.last, self.context_length = model_name, None, None, None
        self.known_path = ""
        self.settings = replace(self.settings, vllm=replace(self.settings.vllm, model=model_name))

    @property
    def conversation(self) -> list[Message]:
        """What was said; the loop appends to it."""
        return self.session.messages

    def renew_bot(self) -> None:
        """What answers is made anew when it is next needed: what it was made of has changed."""
        self._bot = None

    def begin_anew(self) -> None:
        self.go_on_with(self._new_session())

    def go_on_with(self, session: Session) -> None:
        """Another conversation takes the place of this one, which stays in its journal."""
        self.session.close()
        self.session = session
        self.notes, self.last = [], None
        if self._bot:
            self._bot.recall(session)

    def _new_session(self) -> Session:
        if self.store:
            return start.session(self.settings, self.model_name, self.store)
        return Session(start.opening(self.settings), self.settings.root)

    def count(self, event: Event) -> None:
        """Keep the tokens that an answer took."""
        if isinstance(event, Completed) and (usage := event.response.usage):
            self.last = usage
            self.spent = Usage(
                self.spent.input_tokens + usage.input_tokens, self.spent.output_tokens + usage.output_tokens
            )

    @property
    def context_used(self) -> int:
        """Tokens of the conversation: as the server counted them last, else a guess."""
        if self.last:
            return self.last.input_tokens + self.last.output_tokens
        return sum(len(str(message)) for message in self.conversation) // CHARACTERS_PER_TOKEN

    @property
    def last_answer(self) -> str:
        """The text of the model's last turn that has any; empty where there is none."""
        said = (message.text for message in reversed(self.conversation) if isinstance(message, Response))
        return next((text for text in said if text.strip()), "")


def no_words(_state: State) -> Iterable[str]:
    return ()


class Command(NamedTuple):
    """One row. `argument` shows what may stand behind the name; `complete` gives the words that may."""

    name: str  # with its slash
    help: str
    run: Callable[[State, str], None]
    argument: str = ""
    aliases: tuple[str, ...] = ()
    complete: Callable[[State], Iterable[str]] = no_words

    @property
    def usage(self) -> str:
        return f"{self.name} {self.argument}".strip()
