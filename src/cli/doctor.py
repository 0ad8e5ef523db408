"""`vllm-bot doctor`: what works here and what does not, one line each, and what to do about it.

Each check is a function of the patient that gives a Check, or None where there is nothing to be said of this provider.
They are made in order; what is found out on the way stays with the patient.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

from .. import config
from ..errors import BotError, ConfigError, NeverReached
from ..messages import (
    JSON,
    Completed,
    Message,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
)
from ..security.sanitise import plain
from . import connect, find, start

if TYPE_CHECKING:
    from ..model import Model
    from ..wire.families import Family

Status = Literal["pass", "warn", "fail"]
SMALL_CONTEXT = 8192  # tokens; below it the instructions and a few files fill it
PATIENCE = 60.0  # seconds for one request
PROBE_TOKENS = 512
QUESTION = "Call the tool read with the path notes.txt. Call it now, and say nothing else."
DOCS = "https://docs.vllm.ai/en/latest/features/tool_calling/"
COLOURS = {"pass": "32", "warn": "33", "fail": "31"}


class Check(NamedTuple):
    """`advice`: what to do, empty where there is nothing to be done."""

    name: str
    status: Status
    said: str
    advice: str = ""


class Patient:
    """What is examined, and what is known of it so far."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.settings = config.Settings()
        self.model_name = ""
        self.root = ""  # what the model's weights are called, where the server says it
        self.models: list[str] = []
        self.version = ""
        self.family: Family | None = None
        self.parser = ""  # of the server, that reads what the model wrote
        self.native = False
        self.response: Response | None = None
        self.wire: list[Response] = []  # answers as the server told them, before our own parser saw them
        self.pieces = 0
        self.first, self.took = 0.0, 0.0  # seconds

    @property
    def is_vllm(self) -> bool:
        return self.settings.vllm.provider == "vllm"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", choices=("text", "json"), default=argparse.SUPPRESS, help="json: one object")


def run(given: argparse.Namespace) -> int:
    """0 where nothing fails, else 1."""
    as_json = given.output not in (None, "text")
    patient, checks = Patient(given), []
    for check in examine(patient):
        checks.append(check)
        if not as_json:
            print(_line(check), flush=True)
    failed = any(check.status == "fail" for check in checks)
    if as_json:
        found = {"checks": [check._asdict() for check in checks], "serve": serve(patient), "exit_code": int(failed)}
        print(json.dumps(found, indent=2))
    elif patient.models and patient.is_vllm:
        print(f"\n{_advice(patient)}")
    return int(failed)


def examine(patient: Patient) -> Iterator[Check]:
    """The checks as they are made. One that fails ends those that need what it looked for."""
    for step in (_configuration, _server, _model):
        check = step(patient)
        yield check
        if check.status == "fail":
            break
    else:
        for probe in (_version, _context, _calls, _template, _constrained, _streaming, _reasoning):
            if found := probe(patient):
                yield found
    if check.name != "configuration":
        yield _sandbox(patient.settings)
    yield _terminal()


def serve(patient: Patient) -> str | None:
    """The command that would make this model's tool calls native; None where its family is not known."""
    name = patient.root or patient.model_name
    if patient.family and patient.parser in ("", patient.family.tool_parser):
        return f"vllm serve {name} {patient.family.flags}"
    if patient.parser:
        return f"vllm serve {name} --enable-auto-tool-choice --tool-call-parser {patient.parser}"
    return None


def _line(check: Check) -> str:
    status: str = check.status
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        status = f"\x1b[{COLOURS[status]}m{status}\x1b[0m"
    lines = [f"{status}  {check.name:21} {plain(check.said)}"]
    lines += [f"{'':27} {plain(line)}" for line in check.advice.splitlines()]
    return "\n".join(lines)


def _advice(patient: Patient) -> str:
    command = serve(patient)
    if command is None:
        return f"Which --tool-call-parser reads the calls of {plain(patient.model_name)} is listed in {DOCS}"
    why = "Its tool calls are native. A server like it is started with" if patient.native else "For native tool calls"
    return f"{why}:\n  {plain(command)}"


def _configuration(patient: Patient) -> Check:
    try:
        patient.settings = start.settings_of(patient.given)
        start.policy(patient.settings)
    except ConfigError as error:
        return Check("configuration", "fail", error.message, error.hint)
    usual = [file for file in patient.settings.files if file.is_file()]
    source = patient.given.config or (usual[0] if usual else "no file, the defaults")
    places = patient.settings.places.items()
    elsewhere = [key for key, place in places if place.startswith(("environment", "command line"))]
    beside = f"; beside it: {', '.join(elsewhere)}" if elsewhere else ""
    return Check("configuration", "pass", f"{source}{beside}")


def _server(patient: Patient) -> Check:
    settings = patient.settings
    try:
        patient.models = _models_of(patient)
    except NeverReached as error:
        elsewhere = find.look(settings) if find.may_look(settings) else []
        if not elsewhere:
            return Check("server", "fail", error.message, f"{error.hint}\nOr try the program without one: --demo")
        patient.settings, patient.models = elsewhere[0]
        url = patient.settings.vllm.base_url
        return Check("server", "warn", f"{error.message} There is one at {url}.", f"Set vllm.base_url to {url}.")
    except BotError as error:
        return Check("server", "fail", error.message, error.hint)
    return Check("server", "pass", f"{settings.vllm.base_url} answers")


def _models_of(patient: Patient) -> list[str]:
    with connect.server(patient.settings, within=PATIENCE) as server:
        return server.models()


def _model(patient: Patient) -> Check:
    wanted, served = patient.settings.vllm.model, patient.models
    names = ", ".join(served[:5]) + (", ..." if len(served) > 5 else "")
    if wanted and served and wanted not in served:
        return Check("model", "fail", f"{wanted} is not served; there is {names}", "Set vllm.model, or --model.")
    if not served and not wanted:
        return Check("model", "fail", "the server lists none", "Set vllm.model, or start it with one.")
    patient.model_name = wanted or served[0]
    patient.root = _root(patient) if patient.is_vllm else ""
    if patient.is_vllm:
        from ..wire.families import family_of

        patient.family = family_of(patient.root) or family_of(patient.model_name)
    if not wanted and len(served) > 1:
        return Check("model", "warn", f"several: {names}; looking at {served[0]}", "Name one: vllm.model, or --model.")
    called = f" ({patient.root})" if patient.root not in ("", patient.model_name) else ""
    return Check("model", "pass", f"{patient.model_name}{called}")


def _root(patient: Patient) -> str:
    """What vLLM says the model's weights are: it may serve them under any name."""
    with connect.client(patient.settings, time.sleep, PATIENCE) as client, suppress(BotError, ValueError, TypeError):
        with client.open("GET", "models") as reply:
            listed = json.loads(reply.read())["data"]
        roots = {each["id"]: each.get("root") for each in listed}
        return str(roots.get(patient.model_name) or "")
    return ""


def _version(patient: Patient) -> Check | None:
    if not patient.is_vllm:
        return None
    with connect.server(patient.settings, within=PATIENCE) as server:
        patient.version = server.version()
    if patient.version:
        return Check("version", "pass", f"vLLM {patient.version}")
    return Check("version", "warn", "the server tells no version: perhaps it is no vLLM", "See vllm.provider.")


def _context(patient: Patient) -> Check | None:
    if not patient.is_vllm:
        return None
    with connect.server(patient.settings, within=PATIENCE) as server:
        length = server.context_length(patient.model_name)
    if length is None:
        return Check("context", "warn", "the server does not say how long it is", "A full one shows as an error then.")
    if length < SMALL_CONTEXT:
        return Check("context", "warn", f"{length:,} tokens are few", "Start the server with a larger --max-model-len.")
    return Check("context", "pass", f"{length:,} tokens")


def _calls(patient: Patient) -> Check:
    """A tool is offered, and the model asked to call it."""
    model = connect.model(_small(patient.settings), patient.model_name, lambda _: None, within=PATIENCE)
    began = time.monotonic()
    try:
        for event in model.respond(_asked(), _tools(patient)):
            if isinstance(event, Completed):
                patient.response = event.response
            elif not patient.pieces:
                patient.first = time.monotonic() - began
            patient.pieces += not isinstance(event, Completed)
    except BotError as error:
        return Check("native calls", "fail", error.message, error.hint)
    patient.took = time.monotonic() - began
    return _verdict(patient, model, patient.response or Response(()))


def _verdict(patient: Patient, model: Model, response: Response) -> Check:
    from ..protocol import parsers_of

    origins = [call.origin for call in response.calls]
    patient.native = "native" in origins
    leaked = next((origin for origin in origins if origin not in ("native", "text")), "")
    patient.parser = next(iter(parsers_of(leaked)), "")
    came = f"the model's call came in its text ({origins[0]})" if origins else f"the model {_did(response)}"
    flags = f"Start the server with --enable-auto-tool-choice --tool-call-parser {patient.parser or 'PARSER'}."
    if model.path.mode != "native":
        if not patient.settings.vllm.enable_function_calling:
            return Check("native calls", "pass" if origins else "warn", f"switched off in the settings; {came}")
        return Check("native calls", "warn", f"the server takes none; {came}", flags)
    if patient.native:
        return Check("native calls", "pass", "the server takes tools, and the model's call came back as one")
    if patient.parser:
        return Check("native calls", "warn", f"the server takes tools, but {came}", flags)
    return Check("native calls", "warn", f"the server takes tools; {came}", "A weak model, or another model's parser.")


def _did(response: Response) -> str:
    said = " ".join(response.text.split())
    return f"called nothing when asked to, and said: {said[:60]!r}" if said else "called nothing when asked to"


def _template(patient: Patient) -> Check | None:
    """Whether the chat template shows tools, and which roles it takes, as the server makes prompts of them."""
    if not patient.is_vllm:
        return None
    from ..wire.codec import ChatRequest

    user, tools = _asked(), _tools(patient)
    call = ToolCall("abcdefghi", "read", {"path": "notes.txt"})
    exchange: list[Message] = [
        *user,
        Response((call,), "tool_use"),
        ToolResults((ToolResult(call.id, "read", "text", "hello"),)),
    ]
    with connect.server(patient.settings, within=PATIENCE) as server:

        def size(messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()) -> int | None:
            prompt = server.prompt(ChatRequest(patient.model_name, messages, tools))
            return None if prompt is None else len(prompt.tokens)

        plain_size = size(user)
        if plain_size is None:
            return Check("template", "warn", "the server does not make prompts to look at (/tokenize)")
        shows = (size(user, tools=tools) or 0) > plain_size
        takes_system = size([SystemMessage("Be brief."), *user]) is not None
        takes_results = size(exchange, tools=tools) is not None
    missing = [
        name
        for name, there in (
            ("shows no tools", shows),
            ("takes no system prompt", takes_system),
            ("takes no tool results", takes_results),
        )
        if not there
    ]
    if missing:
        advice = "The bot goes round it, in the text. vLLM's examples/ has templates for tools: --chat-template."
        return Check("template", "warn", ", ".join(missing), advice)
    return Check("template", "pass", "shows tools, and takes a system prompt and tool results")


def _constrained(patient: Patient) -> Check | None:
    """Whether the server can hold calls in the text to their grammar."""
    if not patient.is_vllm:
        return None
    from ..wire import vllm
    from ..wire.codec import ChatRequest, decode

    options: dict[str, JSON] = {"structured_outputs": vllm.constrained(_tools(patient))}
    request = ChatRequest(patient.model_name, _asked(), options=options, max_tokens=PROBE_TOKENS)
    codec = connect.provider(patient.settings).codec(lambda: "abcdefghi")
    wire = codec.encode(request)
    try:
        with connect.client(patient.settings, time.sleep, PATIENCE) as client, client.open("POST", *wire) as reply:
            if reply.status != 200:
                said = codec.refusal(reply.status, reply.read()).message
                advice = "The bot goes on without; calls in the text may be malformed."
                return Check("constrained decoding", "warn", said, advice)
            for events in decode(codec.decoder(reply.content_type), reply.chunks):
                patient.wire += [event.response for event in events if isinstance(event, Completed)]
    except BotError as error:
        return Check("constrained decoding", "warn", error.message, "text_protocol.constrained: off goes without.")
    return Check("constrained decoding", "pass", "calls in the text are held to their grammar (structural_tag)")


def _streaming(patient: Patient) -> Check | None:
    if patient.response is None:
        return None
    if patient.pieces > 1:
        said = f"{patient.pieces} pieces, the first after {patient.first:.2f} s, all after {patient.took:.2f} s"
        return Check("streaming", "pass", said)
    return Check("streaming", "warn", "the answer came in one piece", "A short answer, or a proxy that holds it back.")


def _reasoning(patient: Patient) -> Check | None:
    """Thoughts come in a field of their own where the server has a parser for them."""
    blocks = [block for response in patient.wire for block in response.content]
    if not blocks:
        return None
    if any(isinstance(block, Reasoning) for block in blocks):
        return Check("reasoning", "pass", "thoughts come in a field of their own")
    if any(isinstance(block, Text) and "</think>" in block.text for block in blocks):
        parser = patient.family.reasoning_parser if patient.family else ""
        advice = f"The bot tells them from it. To have the server do so: --reasoning-parser {parser or 'PARSER'}."
        return Check("reasoning", "warn", "thoughts stand in the answer", advice)
    return Check("reasoning", "pass", "the model showed no thoughts")


def _sandbox(settings: config.Settings) -> Check:
    """Where commands would run; it is tried out."""
    if not settings.security.exec_enabled:
        return Check("sandbox", "pass", "not needed: commands are switched off (security.exec_enabled)")
    choice = start.sandbox(settings)
    tried = "\n".join(choice.tried)
    if choice.sandbox.kind in ("none", "refused"):
        advice = f"{tried}\nInstall bubblewrap, or see docs/security.md." if tried else "See security.sandbox."
        return Check("sandbox", "warn", choice.sandbox.description, advice)
    return Check("sandbox", "pass", choice.sandbox.description)


def _terminal() -> Check:
    encoding = (sys.stdout.encoding or "").lower()
    if encoding.replace("-", "") != "utf8":
        return Check(
            "terminal", "warn", f"its encoding is {encoding or 'unknown'}", "Set PYTHONUTF8=1, or a UTF-8 locale."
        )
    if not sys.stdout.isatty():
        return Check("terminal", "pass", "none: output is plain")
    size, kind = shutil.get_terminal_size(), os.environ.get("TERM", "")
    if kind in ("", "dumb"):
        return Check("terminal", "warn", "TERM is unset or dumb: output is plain", "Set TERM, as to xterm-256color.")
    return Check("terminal", "pass", f"{kind}, {size.columns} x {size.lines}, {encoding}")


def _asked() -> list[UserMessage]:
    return [UserMessage(QUESTION)]


def _tools(patient: Patient) -> list[ToolDefinition]:
    return [tool for tool in start.tools(patient.settings).definitions if tool.name == "read"]


def _small(settings: config.Settings) -> config.Settings:
    from dataclasses import replace

    return replace(settings, vllm=replace(settings.vllm, max_tokens=PROBE_TOKENS))
