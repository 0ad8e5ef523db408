"""Connections to the configured server: a client, the server's facts, its models, and the models that review calls.

Nothing is sent before a method is called. This module loads urllib3, so the chat imports it once its prompt is shown.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from threading import Event as CancelToken
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..agent.compaction import Compactor
from ..config import Settings
from ..config.settings import BASE_URLS, VllmSettings
from ..errors import BotError, ConfigError
from ..model.retry import RetryPolicy, with_retries
from ..negotiation import ServerApi
from ..providers.base import Codec
from ..providers.table import PROVIDERS
from ..transport import Client
from ..transport.driver import drive, run
from ..types.effects import Aside, Turn
from ..types.ending import find_ending
from ..types.events import Completed, ModelEvent
from ..types.messages import JSON, Message, ToolChoice, ToolDefinition, UserMessage
from ..types.special_tokens import neutralize_with_note
from .endpoint import FACTS, make_client, make_core, random_id, take_only
from .model import Model

if TYPE_CHECKING:
    from ..agent.compaction import Compactor, SummaryModel
    from ..security.permissions.review import ReviewBoard, ReviewerConfig

T = TypeVar("T")
ROOT_TIMEOUT_S = 5.0


class OpenServer(Struct, frozen=True):
    """A server, and the client that asks it."""

    client: Client
    server: ServerApi

    def ask(self, question: Callable[[ServerApi], Aside[T]]) -> T:
        """Run one of the server's questions. Raises what it raises."""
        return run(question(self.server), self.client)


class ReviewerModel(Struct, frozen=True):
    """A Reviewer, see security/permissions/review.py."""

    name: str
    model: Model

    def ask(self, prompt: str) -> str:
        """The text of the model's answer; empty if the answer is not complete. Raises BotError."""
        texts = [
            event.response.text
            for event in self.model.respond([UserMessage(neutralize_with_note(prompt))])
            if isinstance(event, Completed) and find_ending(event.response) == "end_turn"
        ]
        return texts[-1] if texts else ""


class SeparateWriter(Struct, frozen=True):
    """A SummaryModel on another server: its effects are performed by its own client."""

    model: Model

    def respond(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = (), tool_choice: ToolChoice = "auto"
    ) -> Turn[None]:
        yield from self.model.respond(messages, tools, tool_choice)

    def measure_fill(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = (), *, exact_from: float = 0.0
    ) -> Aside[float | None]:
        yield from ()
        return self.model.measure_fill(messages, tools, exact_from=exact_from)


class Panel(Struct, frozen=True):
    """Models that answer side by side, and the one that sums up, with settings that lead to it.

    `chair` is None if the chat's own model sums up.
    """

    members: Sequence[ReviewerModel]
    chair: ReviewerModel | None = None
    chair_settings: Settings | None = None


class Connections:
    """What talks to the server of these settings. `sleep` waits between attempts; `cancelled`: see Factory.

    `within`, wherever a method takes it, is a time limit in seconds that is tighter than the settings' own.
    """

    def __init__(
        self,
        settings: Settings,
        sleep: Callable[[float], None] = time.sleep,
        cancelled: CancelToken | None = None,
    ) -> None:
        self.settings = settings
        self.sleep = sleep
        self.cancelled = cancelled
        self._provider = PROVIDERS[settings.vllm.provider]

    def make_codec(self, new_id: Callable[[], str] = random_id) -> Codec:
        """`new_id` names the calls that arrive without an id."""
        return self._provider.codec(new_id)

    def make_client(self, within: float | None = None) -> Client:
        """Raises ConfigError where the API key cannot be sent."""
        client = make_client(self.settings, within, sleep=self.sleep)
        if self.cancelled:
            client.bind_cancellation(self.cancelled)
        return client

    def make_server(self) -> ServerApi:
        return ServerApi(
            self.make_codec(), self.settings.vllm.base_url, FACTS, is_vllm=self.settings.vllm.provider == "vllm"
        )

    @contextmanager
    def open_server(self, within: float | None = None) -> Iterator[OpenServer]:
        """For questions about the server."""
        with self.make_client(within) as client:
            yield OpenServer(client, self.make_server())

    def list_models(self) -> dict[str, int | None]:
        """The models that the server has, each with the length of its context in tokens, if known. Raises BotError."""
        with self.open_server() as server:
            names = server.ask(ServerApi.list_models)
            lengths = server.ask(ServerApi.context_lengths)
        return {name: lengths.get(name) for name in names}

    def find_root(self, model: str) -> str:
        """What vLLM says the model's weights are, as it may serve them under any name; "" if nothing says it."""
        if self.settings.vllm.provider != "vllm":
            return ""
        with self.make_client(ROOT_TIMEOUT_S) as client, suppress(BotError, ValueError, TypeError, KeyError):
            with client.open("GET", "models") as reply:
                listed = json.loads(reply.read())["data"]
            return str({each["id"]: each.get("root") for each in listed}.get(model) or "")
        return ""

    def wait_for_models(self, show: Callable[[ModelEvent], object]) -> list[str]:
        """The names of the models, asked for where they are not known, several times if need be. Raises BotError.

        `show` gets a notice of each attempt that failed.
        """
        policy = RetryPolicy(self.settings.vllm.retries, self.settings.vllm.load_timeout)
        with self.open_server() as opened:
            attempts = drive(with_retries(opened.server.find_models, policy, random.random), opened.client)
            while True:
                try:
                    show(next(attempts))
                except StopIteration as end:
                    names: list[str] = end.value
                    return names

    def choose_model(self) -> str:
        """The model that the settings name, else the only one that the server has. Raises BotError."""
        return self.settings.vllm.model or take_only(list(self.list_models()), self.settings.vllm.base_url)

    def make_model(
        self,
        name: str,
        *,
        client: Client | None = None,
        within: float | None = None,
        answer_schema: Mapping[str, JSON] | None = None,
    ) -> Model:
        """With `within` nothing is tried twice. `answer_schema`: as in Model."""
        core = make_core(self.settings, name, answer_schema=answer_schema, is_retried=within is None)
        return Model(client or self.make_client(within), core)

    def make_compactor(self, model: Model) -> Compactor:
        """What summarizes the conversations of `model`, with the model that the settings name for it."""
        config = self.settings.agent

        @cache
        def make_writer() -> SummaryModel:
            if config.compact_model in ("", model.name):
                return model.core
            settings = self.settings.with_model(config.compact_model)
            theirs = Connections(settings, self.sleep, self.cancelled)
            writer = theirs.make_model(theirs.choose_model())
            return writer.core if settings.server == self.settings.server else SeparateWriter(writer)

        return Compactor(
            model.core,
            at=config.compact_at,
            writer=make_writer,
            directives=config.compact_directives,
            retained_turns=config.retain_last_turns,
        )

    def make_review_board(self) -> ReviewBoard | None:
        """The configured reviewers; None if there are none. Raises ConfigError."""
        review = self.settings.review
        if not review.models:
            return None
        from ..security.permissions.review import ANSWER_SCHEMA, ReviewBoard  # start-up is measured

        reviewers = [self._make_reviewer(seat, ANSWER_SCHEMA) for seat in self._read_seats()]
        return ReviewBoard(reviewers, review.rule, review.on, review.timeout)

    def make_panel(self) -> Panel:
        """The models of `review.models`, and the one that `review.chair` names. Raises ConfigError."""
        seats, chair = self._read_seats(), self.settings.review.chair
        if not seats:
            raise ConfigError("A panel needs models.", "Name them in `review.models`; see docs/configuration.md.")
        named = [seat for seat in seats if chair in (seat.model, seat.name)]
        if chair and not named:
            names = ", ".join(seat.model for seat in seats)
            raise ConfigError(f"review.chair: there is no model {chair!r} in review.models; it is one of {names}.")
        members = [self._make_reviewer(seat) for seat in seats]
        if not chair:
            return Panel(members)
        return Panel(members, members[seats.index(named[0])], self._lead_to(named[0]))

    def _read_seats(self) -> tuple[ReviewerConfig, ...]:
        from ..security.permissions.review import parse_reviewers

        return parse_reviewers(self.settings.review.models, tuple(PROVIDERS), self.settings.server_models)

    def _make_reviewer(self, seat: ReviewerConfig, schema: Mapping[str, JSON] | None = None) -> ReviewerModel:
        theirs = Connections(self._lead_to(seat), self.sleep)
        model = theirs.make_model(seat.model, within=self.settings.review.timeout, answer_schema=schema)
        return ReviewerModel(seat.name, model)

    def _lead_to(self, seat: ReviewerConfig) -> Settings:
        """Settings that lead to a reviewer's server, which gets nothing that is meant for ours."""
        if seat.server:
            return self.settings.with_model(f"{seat.server}:{seat.model}")
        ours = self.settings.vllm
        address = seat.base_url.rstrip("/") or BASE_URLS[seat.provider]
        if not address:
            raise ConfigError(
                f"review.models: {seat.provider} has no address of its own; {seat.model} needs a base_url."
            )
        theirs = VllmSettings(seat.provider, address, seat.model, seat.api_key)
        own_names = (
            *("timeout", "connect_timeout", "first_token_timeout", "total_timeout", "load_timeout", "retries"),
            *("ssl_verify", "stream", "strict_tools", "send_thoughts", "enable_function_calling"),
        )
        vllm = replace(theirs, **{name: getattr(ours, name) for name in own_names})
        places = {**self.settings.places, "vllm.base_url": "argument of review.models"}
        return replace(self.settings, vllm=vllm, places=places)
