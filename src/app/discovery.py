"""Finding the server, its model, and how its tools are called.

If no server was named and none answers at the default address, the default ports of vLLM and similar servers on this
machine are tried. The API key is never sent to a server found that way. What the user should know on the way is
shown as notices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ..config import GivenValue, Settings, check_value
from ..config.settings import MAIN_SERVER
from ..errors import BotError, ConfigError, NeverReached, ServerError, join_names
from ..types.events import ModelEvent, Notice
from ..types.hosts import leads_here
from ..types.messages import UserMessage
from .address import complete_address
from .candidates import USUAL_PORTS
from .factory import Factory

if TYPE_CHECKING:
    from ..negotiation import CallPath

IDENTIFY_TIMEOUT_S = 3.0
PROBE_TIMEOUT_S = 2.0  # for finding out how tools are called
PLACE = "found on this machine"  # where a setting comes from, as `vllm-bot config` names it

NEXT_STEPS = """\
Start one:       vllm serve Qwen/Qwen3-8B --enable-auto-tool-choice --tool-call-parser hermes
Use another one: --base-url HOST, HOST:PORT or a URL
Try without one: --demo"""


class ServerTarget(Struct, frozen=True):
    """The server and model that answer: `settings` lead to the server and name the model.

    `version` is vLLM's; empty for another server, or if it was not asked (see probe_call_path). `context` is in
    tokens, `path` is how its tools are called; both are None where unknown.
    """

    settings: Settings
    version: str = ""
    context: int | None = None
    path: CallPath | None = None

    @property
    def model(self) -> str:
        return self.settings.vllm.model


def discover(
    factory: Factory,
    choose: Callable[[list[str]], str],
    show: Callable[[ModelEvent], object],
    ports: Mapping[int, str] = USUAL_PORTS,
) -> ServerTarget:
    """The server and model that will answer. If the settings name a model and a whole address, nothing is asked.

    `choose` picks one of several models; `show` gets notices. Raises BotError.
    """
    settings, completed = complete_address(factory.settings)
    for text in filter(None, (completed, *_list_warnings(settings))):
        show(Notice(text))
    if settings.vllm.model:
        return ServerTarget(settings)
    try:
        models = factory.with_settings(settings).connections.wait_for_models(show)
    except NeverReached as error:
        if settings.is_server_named:
            raise
        settings, models = _find_first(settings, ports, error)
        show(Notice(f"{error.message} Using the one at {settings.vllm.base_url}."))
    if not models:
        raise ServerError(
            f"The server at {settings.vllm.base_url} lists no model.", "Choose one with --model or vllm.model."
        )
    model = models[0] if len(models) == 1 else choose(models)
    settings = replace(settings, vllm=replace(settings.vllm, model=model))
    told = Factory(settings).connections.make_server().info  # with the list of its models
    return ServerTarget(settings, context=(told.context_lengths or {}).get(model))


def find_server(settings: Settings) -> Settings:
    """The settings that lead to the server and name its model, where nobody can be asked or told. Raises BotError."""
    return discover(Factory(settings), lambda names: names[0], lambda _: None).settings


def probe_call_path(target: ServerTarget) -> ServerTarget:
    """Add vLLM's version and how tools are called: as learned before, else as found out by one short request.

    If the server takes too long, it stays unknown until the first question.
    """
    from .toolset import make_tools  # loads the tools

    settings = target.settings
    with Factory(settings).connections.open_server(IDENTIFY_TIMEOUT_S) as server:
        target = replace(target, version=server.ask(lambda it: it.version()))
    vllm = settings.get_model_settings(target.model)
    if vllm.provider != "vllm" or not vllm.enable_function_calling:
        return target
    memory = Factory(settings).server_memory
    if path := memory.find(settings.vllm.base_url, target.model, lambda: target.version):
        return replace(target, path=path)
    brief = Factory(replace(settings, vllm=replace(settings.vllm, max_tokens=1)))
    model = brief.connections.make_model(target.model, within=PROBE_TIMEOUT_S)
    try:
        for _ in model.respond([UserMessage("Hello")], make_tools(settings).definitions):
            pass
        if model.path.is_learned:
            memory.save(settings.vllm.base_url, target.model, target.version, model.path)
    except (BotError, OSError):
        return target
    return replace(target, path=model.path)


def scan_ports(settings: Settings, ports: Mapping[int, str] = USUAL_PORTS) -> list[tuple[Settings, list[str]]]:
    """The servers on this machine that list models: settings for each, and its models."""
    from concurrent.futures import ThreadPoolExecutor  # loads logging

    from ..transport.http import find_open_ports  # loads urllib3

    numbers = find_open_ports(list(ports))
    if not numbers:
        return []
    settings = replace(settings, places={**settings.places, "vllm.base_url": PLACE, "vllm.provider": PLACE})
    local = replace(settings.vllm, api_key="", headers={})
    targets = [replace(settings, vllm=replace(local, base_url=f"http://localhost:{port}/v1")) for port in numbers]
    with ThreadPoolExecutor(len(targets)) as pool:
        servers = list(pool.map(_identify, targets))
    return [each for each in servers if each[1]]


def place_server(settings: Settings, typed: str) -> Settings:
    """Settings that lead to the server that the user typed the address of. Raises ConfigError and RequestFailed."""
    address = check_value(GivenValue("vllm.base_url", typed, "address")).value
    places = {**settings.places, "vllm.base_url": "argument typed"}
    settings = replace(settings, vllm=replace(settings.vllm, base_url=address), places=places)
    settings, _ = complete_address(settings)
    return _identify(settings)[0]


def locate_model(settings: Settings, text: str) -> Settings:
    """Settings for another model. `text`: MODEL, SERVER or SERVER:MODEL. Raises BotError if it is not served."""
    wanted, _ = complete_address(settings.with_model(text))
    models = list(Factory(wanted).connections.list_models())
    if not models:
        raise ServerError(f"The server at {wanted.vllm.base_url} lists no model.")
    model, where = wanted.vllm.model, f"The server {wanted.server}".rstrip()
    if model in models:
        return wanted
    if model:
        raise ConfigError(f"{where} does not serve {model}. It serves: {join_names(models)}.")
    if len(models) > 1:
        raise ConfigError(f"{where} serves several models: {join_names(models)}.", f"Name one: {wanted.server}:MODEL.")
    return replace(wanted, vllm=replace(wanted.vllm, model=models[0]))


def _find_first(settings: Settings, ports: Mapping[int, str], error: NeverReached) -> tuple[Settings, list[str]]:
    if servers := scan_ports(settings, ports):
        return servers[0]
    usual: dict[str, list[str]] = {}
    for port, name in ports.items():
        usual.setdefault(name, []).append(str(port))
    tried = ", ".join(f"{name} ({', '.join(numbers)})" for name, numbers in usual.items())
    raise NeverReached(f"No server answers on this machine. Tried the usual ports of {tried}.", NEXT_STEPS) from error


def _identify(settings: Settings) -> tuple[Settings, list[str]]:
    """Settings with the right provider, and the models; none if it is no such server, or too slow."""
    settings = replace(settings, vllm=replace(settings.vllm, provider="vllm"))
    try:
        with Factory(settings).connections.open_server(IDENTIFY_TIMEOUT_S) as server:
            models = server.ask(lambda it: it.list_models())
            # vLLM tells its version, SGLang and llama.cpp their models' contexts; Ollama neither.
            is_vllm = server.ask(lambda it: it.version()) or server.ask(lambda it: it.context_lengths())
    except BotError:
        return settings, []
    if not is_vllm:
        settings = replace(settings, vllm=replace(settings.vllm, provider="ollama"))
    return settings, models


def _list_warnings(settings: Settings) -> Iterator[str]:
    """About settings that let others read or change what is sent, or that keep the key from being sent."""
    yield from _list_key_warnings(settings)
    url = urlsplit(settings.vllm.base_url)
    if url.scheme == "https" and not settings.vllm.ssl_verify:
        yield f"The identity of {url.netloc} is not checked (vllm.ssl_verify is false)."


def _list_key_warnings(settings: Settings) -> Iterator[str]:
    vllm, url = settings.vllm, urlsplit(settings.vllm.base_url)
    if settings.key_to_send and url.scheme == "http" and not leads_here(url.hostname or ""):
        yield f"The API key goes to {url.netloc} unencrypted: anyone between here and there can read it."
    if not settings.is_server_named and (vllm.api_key or vllm.headers):
        subject = "vllm.headers are"
        if vllm.api_key:
            subject = "The API key is"
        hint = "To send it, use --base-url or VLLM_BASE_URL."
        yield f"{subject} not sent to {url.netloc}, because no address was named. {hint}"
    is_key_in_environment = settings.places.get("vllm.api_key", "").startswith("environment")
    if is_key_in_environment and settings.servers and MAIN_SERVER not in settings.servers:
        hint = f"The key of {settings.server} is servers.{settings.server}.api_key."
        yield f"VLLM_API_KEY goes to no server, because vllm has no address. {hint}"
