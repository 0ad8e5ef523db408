"""Connections to the configured server: a client, the server's facts, its models, and the models that review calls.

Nothing is sent before a method is called. This module loads requests, so the chat imports it once its prompt is shown.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ..config import Settings
from ..model import BY_CONFIGURATION, CallPath, FactStore, Server
from ..model.retry import RetryPolicy, with_retries
from ..providers.base import Codec
from ..providers.table import PROVIDERS
from ..providers.vllm import fits_nothing
from ..security.permissions.review import ANSWER_SCHEMA, ReviewBoard, parse_reviewers
from ..transport import Client, Timeouts
from ..transport.driver import drive, run
from ..types.effects import Aside
from ..types.events import Completed, ModelEvent
from ..types.messages import JSON, UserMessage
from ..types.special_tokens import neutralize_with_note
from .model import Model, ask_once, random_id

T = TypeVar("T")


class OpenServer(NamedTuple):
    """A server, and the client that asks it."""

    client: Client
    server: Server

    def ask(self, question: Callable[[Server], Aside[T]]) -> T:
        """Run one of the server's questions. Raises what it raises."""
        return run(question(self.server), self.client)


FACTS = FactStore()  # what this program knows of servers: its agents share it


class ReviewerModel(NamedTuple):
    """A Reviewer, see security/permissions/review.py."""

    name: str
    model: Model

    def ask(self, prompt: str) -> str:
        """The text of the model's answer; empty if the answer is not complete. Raises BotError."""
        texts = [
            event.response.text
            for event in self.model.respond([UserMessage(neutralize_with_note(prompt))])
            if isinstance(event, Completed) and event.response.stop_reason == "end_turn"
        ]
        return texts[-1] if texts else ""


class Connections:
    """What talks to the server of these settings. `sleep` waits between attempts.

    `within`, wherever a method takes it, is a time limit in seconds that is tighter than the settings' own.
    """

    def __init__(self, settings: Settings, sleep: Callable[[float], None] = time.sleep) -> None:
        self.settings = settings
        self.sleep = sleep
        self._provider = PROVIDERS[settings.vllm.provider]

    def make_codec(self, new_id: Callable[[], str] = random_id) -> Codec:
        """`new_id` names the calls that arrive without an id."""
        return self._provider.codec(new_id)

    def make_client(self, within: float | None = None) -> Client:
        """Raises ConfigError where the API key cannot be sent."""
        vllm, row = self.settings.vllm, self._provider
        limits = Timeouts(vllm.connect_timeout, vllm.first_token_timeout, vllm.timeout, vllm.total_timeout)
        return Client(
            vllm.base_url,
            vllm.api_key,
            limits if within is None else Timeouts(*(min(limit, within) for limit in limits)),
            key_header=row.key_header,
            key_prefix=row.key_prefix,
            headers=row.headers,
            ssl_verify=vllm.ssl_verify,
            sleep=self.sleep,
        )

    def make_server(self) -> Server:
        return Server(
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
            names = server.ask(Server.list_models)
            lengths = server.ask(Server.context_lengths)
        return {name: lengths.get(name) for name in names}

    def find_models(self, client: Client) -> list[str]:
        """The names of the models, asked for by one thread only, and only if they are not known. Raises BotError."""
        server = self.make_server()
        if server.info.models is None:
            ask_once(client.base_url, lambda: run(server.list_models(), client))
        return list(server.info.models or ()) or run(server.list_models(), client)

    def wait_for_models(self) -> Generator[ModelEvent, None, list[str]]:
        """The names of the models, asked for again as often as the settings allow. Raises BotError."""
        with self.open_server() as (client, server):
            attempts = drive(with_retries(server.list_models, self._retry_policy, random.random), client)
            return (yield from attempts)

    def make_model(
        self,
        name: str,
        *,
        client: Client | None = None,
        within: float | None = None,
        answer_schema: Mapping[str, JSON] | None = None,
    ) -> Model:
        """With `within` nothing is tried twice. `answer_schema`: as in Model."""
        vllm = self.settings.vllm
        return Model(
            client or self.make_client(within),
            name,
            codec=self.make_codec(),
            is_vllm=vllm.provider == "vllm",
            path=CallPath() if vllm.enable_function_calling else CallPath("text", BY_CONFIGURATION),
            strict=self._provider.strict if vllm.strict_tools else fits_nothing,
            stream=vllm.stream,
            temperature=vllm.temperature,
            max_tokens=vllm.max_tokens,
            constrained=self.settings.text_protocol.constrained,
            answer_schema=answer_schema,
            retry_policy=self._retry_policy if within is None else RetryPolicy(0, 0),
            facts=FACTS,
        )

    def make_review_board(self) -> ReviewBoard | None:
        """The configured reviewers; None if there are none. Raises ConfigError."""
        review = self.settings.review
        if not review.models:
            return None
        reviewers = []
        for seat in parse_reviewers(review.models, tuple(PROVIDERS)):
            vllm = replace(
                self.settings.vllm,
                provider=seat.provider,
                base_url=seat.base_url.rstrip("/"),
                api_key=seat.api_key,
                temperature=None,
                max_tokens=None,
            )
            theirs = Connections(replace(self.settings, vllm=vllm), self.sleep)
            model = theirs.make_model(seat.model, within=review.timeout, answer_schema=ANSWER_SCHEMA)
            reviewers.append(ReviewerModel(seat.name, model))
        return ReviewBoard(reviewers, review.rule, review.on, review.timeout)

    @property
    def _retry_policy(self) -> RetryPolicy:
        return RetryPolicy(self.settings.vllm.retries, self.settings.vllm.load_timeout)
