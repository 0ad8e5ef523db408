"""From settings to a client, a server and a model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .. import config
from ..types.events import Completed, Event, Notice
from ..types.messages import JSON, UserMessage

if TYPE_CHECKING:  # requests loads behind the prompt, not before it
    from ..model import Model, Server
    from ..providers.table import Provider
    from ..security.permissions.review import ReviewBoard
    from ..transport import Client


class Shown(Protocol):
    """Anything that shows events."""

    def draw(self, event: Event) -> None: ...


@contextmanager
def server(settings: config.Settings, within: float | None = None) -> Iterator[Server]:
    """A connection for questions about the server; `within`: a tighter time limit than the settings', in seconds."""
    from ..model import Server, random_id

    with client(settings, time.sleep, within) as way:
        yield Server(way, provider(settings).codec(random_id), is_vllm=settings.vllm.provider == "vllm")


def models(settings: config.Settings) -> dict[str, int | None]:
    """The models served, each with the length of its context in tokens, if known. Raises BotError."""
    with server(settings) as asked:
        names = asked.models()
        lengths = asked.context_lengths()
    return {name: lengths.get(name) for name in names}


def served_models(settings: config.Settings, shown: Shown, sleep: Callable[[float], None]) -> list[str]:
    """The names of the models, with retries as the settings say. Raises BotError."""
    import random

    from ..model import random_id, served_models
    from ..transport.retry import Patience, persist

    names: list[str] = []
    codec, patience = provider(settings).codec(random_id), Patience(settings.vllm.retries, settings.vllm.load_timeout)
    with client(settings, sleep) as way:
        for event in persist(lambda: iter([served_models(way, codec)]), patience, sleep, random.random):
            if isinstance(event, Notice):
                shown.draw(event)
            else:
                names = event
    return names


def model(
    settings: config.Settings,
    name: str,
    sleep: Callable[[float], None],
    within: float | None = None,
    answer_schema: Mapping[str, JSON] | None = None,
) -> Model:
    """`within`: as in `server`, and without retries. `answer_schema`: as in Model."""
    from ..model import BY_CONFIGURATION, CallPath, Model, random_id
    from ..providers.vllm import never
    from ..transport.retry import Patience

    vllm = settings.vllm
    return Model(
        client(settings, sleep, within),
        name,
        codec=provider(settings).codec(random_id),
        is_vllm=vllm.provider == "vllm",
        path=CallPath() if vllm.enable_function_calling else CallPath("text", BY_CONFIGURATION),
        strict=provider(settings).strict if vllm.strict_tools else never,
        stream=vllm.stream,
        temperature=vllm.temperature,
        max_tokens=vllm.max_tokens,
        constrained=settings.text_protocol.constrained,
        answer_schema=answer_schema,
        patience=Patience(vllm.retries, vllm.load_timeout) if within is None else Patience(0, 0),
    )


def client(settings: config.Settings, sleep: Callable[[float], None], within: float | None = None) -> Client:
    from ..transport import Client, Clocks

    vllm, row = settings.vllm, provider(settings)
    limits = Clocks(vllm.connect_timeout, vllm.first_token_timeout, vllm.timeout, vllm.total_timeout)
    return Client(
        vllm.base_url,
        vllm.api_key,
        limits if within is None else Clocks(*(min(limit, within) for limit in limits)),
        key_header=row.key_header,
        key_prefix=row.key_prefix,
        headers=row.headers,
        ssl_verify=vllm.ssl_verify,
        sleep=sleep,
    )


def provider(settings: config.Settings) -> Provider:
    from ..providers.table import PROVIDERS

    return PROVIDERS[settings.vllm.provider]


class Asked(NamedTuple):
    """A model that reviews calls."""

    name: str
    model: Model

    def ask(self, prompt: str) -> str:
        """Its answer's text. Raises BotError."""
        from ..types.special_tokens import neutralize_with_note  # start-up is measured

        texts = [
            event.response.text
            for event in self.model.respond([UserMessage(neutralize_with_note(prompt))])
            if isinstance(event, Completed) and event.response.stop_reason == "end_turn"
        ]
        return texts[-1] if texts else ""


def panel(settings: config.Settings, sleep: Callable[[float], None]) -> ReviewBoard | None:
    """The configured reviewers; None if there are none. Raises ConfigError."""
    if not settings.review.models:
        return None
    from dataclasses import replace

    from ..providers.table import PROVIDERS
    from ..security.permissions.review import ANSWER_SCHEMA, ReviewBoard, parse_reviewers

    review = settings.review
    reviewers = []
    for seat in parse_reviewers(review.models, tuple(PROVIDERS)):
        vllm = replace(settings.vllm, provider=seat.provider, base_url=seat.base_url.rstrip("/"), api_key=seat.api_key)
        its = replace(settings, vllm=replace(vllm, temperature=None, max_tokens=None))
        way = model(its, seat.model, sleep, within=review.timeout, answer_schema=ANSWER_SCHEMA)
        reviewers.append(Asked(seat.name, way))
    return ReviewBoard(reviewers, review.rule, review.on, review.timeout)
