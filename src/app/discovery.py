"""Finding the server, its model, and how its tools are called.

If no server was named and none answers at the default address, the default ports of vLLM and similar servers on this
machine are tried. The API key is never sent to a server found that way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from .. import config
from ..errors import BotError, NeverReached, ServerError
from ..types.events import Notice
from ..types.messages import UserMessage
from . import connect, factory

if TYPE_CHECKING:
    from ..model import CallPath

Choose = Callable[[list[str]], str]


class Place(NamedTuple):
    """A port, and the server that uses it by default, according to its documentation."""

    port: int
    name: str


PLACES = (
    Place(8000, "vLLM"),
    Place(8001, "vLLM"),
    Place(30000, "SGLang"),
    Place(11434, "Ollama"),
    Place(8080, "llama.cpp"),
    Place(1234, "LM Studio"),
    Place(23333, "LMDeploy"),
    Place(5000, "text-generation-webui"),
    Place(1337, "Jan"),
    Place(4000, "LiteLLM"),
)
PATIENCE = 3.0  # seconds a server may take to identify itself
PROBE_PATIENCE = 2.0  # seconds for finding out how tools are called
BY_LOOKING = "found on this machine"

HOW_TO_GO_ON = """\
Start one:       vllm serve Qwen/Qwen3-8B --enable-auto-tool-choice --tool-call-parser hermes
Use another one: --base-url http://HOST:PORT/v1
Try without one: --demo"""


class Met(NamedTuple):
    """What will answer: `settings` lead to it and name its model.

    `version` is vLLM's, empty where it is none or was not asked; `context` is in tokens and `path` how its tools are
    called, None where unknown.
    """

    settings: config.Settings
    version: str = ""
    context: int | None = None
    path: CallPath | None = None

    @property
    def model(self) -> str:
        return self.settings.vllm.model


def meet(
    settings: config.Settings,
    shown: connect.Shown,
    choose: Choose,
    sleep: Callable[[float], None],
    places: Sequence[Place] = PLACES,
) -> Met:
    """The server and model that will answer. If the settings name a model, nothing is asked of the network.

    `choose` picks one of several models. Raises BotError.
    """
    if settings.vllm.model:
        return Met(settings)
    try:
        models = connect.served_models(settings, shown, sleep)
    except NeverReached as error:
        if not may_look(settings):
            raise
        settings, models = _first(settings, places, error)
        shown.draw(Notice(f"{error.message} Using the one at {settings.vllm.base_url}."))
    if not models:
        raise ServerError(f"The server at {settings.vllm.base_url} serves no model.")
    model = models[0] if len(models) == 1 else choose(models)
    settings = replace(settings, vllm=replace(settings.vllm, model=model))
    with connect.server(settings, within=PATIENCE) as server:
        return Met(settings, server.version(), server.context_length(model))


def with_path(met: Met) -> Met:
    """Add how tools are called: as learned before, else as found out by one short request.

    If the server takes too long, it stays unknown until the first question.
    """
    from .server_memory import Learnt

    settings = met.settings
    if settings.vllm.provider != "vllm" or not settings.vllm.enable_function_calling:
        return met
    learnt = Learnt(settings.state)
    if known := learnt.recall(settings.vllm.base_url, met.model, met.version):
        return met._replace(path=known)
    asked = replace(settings, vllm=replace(settings.vllm, max_tokens=1))
    model = connect.model(asked, met.model, lambda _: None, within=PROBE_PATIENCE)
    try:
        for _ in model.respond([UserMessage("Hello")], factory.tools(settings).definitions):
            pass
        if model.path.is_learnt:
            learnt.keep(settings.vllm.base_url, met.model, met.version, model.path)
    except (BotError, OSError):
        return met
    return met._replace(path=model.path)


def may_look(settings: config.Settings) -> bool:
    """Whether no server was named: the address is the default, not from the command line or environment."""
    by_hand = settings.places.get("vllm.base_url", "").startswith(("command line", "environment"))
    return not by_hand and settings.vllm.base_url == config.BASE_URLS["vllm"]


def look(settings: config.Settings, places: Sequence[Place] = PLACES) -> list[tuple[config.Settings, list[str]]]:
    """The servers on this machine that list models: settings for each, and its models."""
    from concurrent.futures import ThreadPoolExecutor

    from ..transport.http import listening

    ports = listening([place.port for place in places])
    if not ports:
        return []
    with ThreadPoolExecutor(len(ports)) as pool:
        found = list(pool.map(lambda port: _ask(_led_to(settings, port)), ports))
    return [each for each in found if each[1]]


def _first(
    settings: config.Settings, places: Sequence[Place], error: NeverReached
) -> tuple[config.Settings, list[str]]:
    for found in look(settings, places):
        return found
    looked = ", ".join(f"{name} ({', '.join(ports)})" for name, ports in _by_name(places).items())
    said = f"No server answers on this machine. Tried the usual ports of {looked}."
    raise NeverReached(said, HOW_TO_GO_ON) from error


def _by_name(places: Sequence[Place]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for place in places:
        names.setdefault(place.name, []).append(str(place.port))
    return names


def _ask(settings: config.Settings) -> tuple[config.Settings, list[str]]:
    """Settings with the right provider, and the models; none if it is no such server, or too slow."""
    try:
        with connect.server(settings, within=PATIENCE) as server:
            models = server.models()
            provider = "vllm" if server.version() else "ollama"  # OpenAI's interface, and none of vLLM's own
    except BotError:
        return settings, []
    return replace(settings, vllm=replace(settings.vllm, provider=provider)), models


def _led_to(settings: config.Settings, port: int) -> config.Settings:
    vllm = replace(settings.vllm, base_url=f"http://localhost:{port}/v1", api_key="", provider="vllm")
    given = dict.fromkeys(("vllm.base_url", "vllm.provider"), BY_LOOKING)
    return replace(settings, vllm=vllm, places={**settings.places, **given})
