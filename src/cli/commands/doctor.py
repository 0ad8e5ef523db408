"""`vllm-bot doctor`: one line per check, saying what works, what does not, and what to do about it.

Each check is a function of the patient, which keeps what is found out on the way. A probe gives None where it does
not apply to the provider.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from ... import config
from ...app import connect, discovery, factory
from ...errors import BotError, ConfigError, NeverReached
from ...security.text.sanitize import sanitize
from ...types.events import Completed
from ...types.messages import (
    JSON,
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

if TYPE_CHECKING:
    from ...model import Model
    from ...providers.vllm_parsers import Family

Status = Literal["pass", "warn", "fail"]
SMALL_CONTEXT = 8192  # tokens; below it the instructions and a few files fill it
PATIENCE = 60.0  # seconds for one request
PROBE_TOKENS = 512
ASKED = [UserMessage("Call the tool read with the path notes.txt. Call it now, and say nothing else.")]
DOCS = "https://docs.vllm.ai/en/latest/features/tool_calling/"
COLOURS = {"pass": "32", "warn": "33", "fail": "31"}


class Finding(NamedTuple):
    """What a check found; `advice` says what to do about it."""

    status: Status
    said: str
    advice: str = ""


class Patient:
    """The setup that is checked, and what is known about it so far."""

    def __init__(self, settings_of: Callable[[], config.Settings]) -> None:
        self.settings_of = settings_of  # may raise ConfigError
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
    return report(lambda: factory.settings_of(given), as_json=given.output not in (None, "text"))


def report(settings_of: Callable[[], config.Settings], *, as_json: bool = False) -> int:
    """Check these settings and print what was found; 0 where nothing fails, else 1."""
    patient, checks = Patient(settings_of), dict[str, Finding]()
    for name, found in examine(patient):
        checks[name] = found
        if not as_json:
            print(_line(name, found), flush=True)
    failed = any(found.status == "fail" for found in checks.values())
    if as_json:
        rows = [{"name": name, **found._asdict()} for name, found in checks.items()]
        print(json.dumps({"checks": rows, "serve": serve(patient), "exit_code": int(failed)}, indent=2))
    elif patient.models and patient.is_vllm:
        print(f"\n{_advice(patient)}")
    return int(failed)


def examine(patient: Patient) -> Iterator[tuple[str, Finding]]:
    """The findings as they are made. When a basic check fails, those that depend on it are left out."""
    for name, check in BASIC.items():
        found = check(patient)
        yield name, found
        if found.status == "fail":
            break
    else:
        for probe_name, probe in PROBES.items():
            if (patient.is_vllm or probe not in VLLM_ONLY) and (told := probe(patient)):
                yield probe_name, told
    if name != "configuration":
        yield "sandbox", _sandbox(patient.settings)
        if servers := patient.settings.tools.mcp:
            yield "MCP servers", _mcp(servers)
    yield "terminal", _terminal()


def serve(patient: Patient) -> str | None:
    """The command that would make this model's tool calls native; None where its family is not known."""
    name = patient.root or patient.model_name
    if patient.family and patient.parser in ("", patient.family.tool_parser):
        return f"vllm serve {name} {patient.family.flags}"
    if patient.parser:
        return f"vllm serve {name} --enable-auto-tool-choice --tool-call-parser {patient.parser}"
    return None


def _line(name: str, found: Finding) -> str:
    status: str = found.status
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        status = f"\x1b[{COLOURS[status]}m{status}\x1b[0m"
    lines = [f"{status}  {name:21} {sanitize(found.said)}"]
    lines += [f"{'':27} {sanitize(line)}" for line in found.advice.splitlines()]
    return "\n".join(lines)


def _advice(patient: Patient) -> str:
    command = serve(patient)
    if command is None:
        return f"Which --tool-call-parser reads the calls of {sanitize(patient.model_name)} is listed at {DOCS}"
    why = "Its tool calls are native. To start a server like this one" if patient.native else "For native tool calls"
    return f"{why}:\n  {sanitize(command)}"


def _configuration(patient: Patient) -> Finding:
    try:
        patient.settings = patient.settings_of()
        factory.policy(patient.settings)
    except ConfigError as error:
        return Finding("fail", error.message, error.hint)
    usual = [file for file in patient.settings.files if file.is_file()]
    source = usual[0] if usual else "no file, the defaults"
    places = patient.settings.places.items()
    elsewhere = [key for key, place in places if place.startswith(("environment", "command line"))]
    beside = f"; also {', '.join(elsewhere)}" if elsewhere else ""
    return Finding("pass", f"{source}{beside}")


def _server(patient: Patient) -> Finding:
    settings = patient.settings
    try:
        with connect.server(settings, within=PATIENCE) as server:
            patient.models = server.models()
    except NeverReached as error:
        elsewhere = discovery.look(settings) if discovery.may_look(settings) else []
        if not elsewhere:
            return Finding("fail", error.message, f"{error.hint}\nOr try the program without a server: --demo")
        patient.settings, patient.models = elsewhere[0]
        url = patient.settings.vllm.base_url
        return Finding("warn", f"{error.message} But there is one at {url}.", f"Set vllm.base_url to {url}.")
    except BotError as error:
        return Finding("fail", error.message, error.hint)
    return Finding("pass", f"{settings.vllm.base_url} answers")


def _model(patient: Patient) -> Finding:
    wanted, served = patient.settings.vllm.model, patient.models
    names = ", ".join(served[:5]) + (", ..." if len(served) > 5 else "")
    if wanted and served and wanted not in served:
        return Finding("fail", f"{wanted} is not served; there is {names}", "Set vllm.model, or --model.")
    if not served and not wanted:
        return Finding("fail", "the server lists none", "Set vllm.model, or start the server with a model.")
    patient.model_name = wanted or served[0]
    patient.root = _root(patient) if patient.is_vllm else ""
    if patient.is_vllm:
        from ...providers.vllm_parsers import family_of

        patient.family = family_of(patient.root) or family_of(patient.model_name)
    if not wanted and len(served) > 1:
        return Finding("warn", f"there are several: {names}; checking {served[0]}", "Name one: vllm.model, or --model.")
    called = f" ({patient.root})" if patient.root not in ("", patient.model_name) else ""
    return Finding("pass", f"{patient.model_name}{called}")


def _root(patient: Patient) -> str:
    """What vLLM says the model's weights are: it may serve them under any name."""
    with connect.client(patient.settings, time.sleep, PATIENCE) as client, suppress(BotError, ValueError, TypeError):
        with client.open("GET", "models") as reply:
            listed = json.loads(reply.read())["data"]
        roots = {each["id"]: each.get("root") for each in listed}
        return str(roots.get(patient.model_name) or "")
    return ""


def _version(patient: Patient) -> Finding:
    with connect.server(patient.settings, within=PATIENCE) as server:
        patient.version = server.version()
    if patient.version:
        return Finding("pass", f"vLLM {patient.version}")
    return Finding("warn", "the server gives no version: it may not be vLLM", "See vllm.provider.")


def _context(patient: Patient) -> Finding:
    with connect.server(patient.settings, within=PATIENCE) as server:
        length = server.context_length(patient.model_name)
    if length is None:
        return Finding(
            "warn", "the server does not say how long its context is", "A full context will show as an error."
        )
    if length < SMALL_CONTEXT:
        return Finding("warn", f"{length:,} tokens is little", "Start the server with a larger --max-model-len.")
    return Finding("pass", f"{length:,} tokens")


def _calls(patient: Patient) -> Finding:
    """A tool is offered, and the model asked to call it."""
    small = replace(patient.settings, vllm=replace(patient.settings.vllm, max_tokens=PROBE_TOKENS))
    model = connect.model(small, patient.model_name, lambda _: None, within=PATIENCE)
    began = time.monotonic()
    try:
        for event in model.respond(ASKED, _tools(patient)):
            if isinstance(event, Completed):
                patient.response = event.response
            elif not patient.pieces:
                patient.first = time.monotonic() - began
            patient.pieces += not isinstance(event, Completed)
    except BotError as error:
        return Finding("fail", error.message, error.hint)
    patient.took = time.monotonic() - began
    return _verdict(patient, model, patient.response or Response(()))


def _verdict(patient: Patient, model: Model, response: Response) -> Finding:
    from ...parsing import parsers_of

    origins = [call.origin for call in response.calls]
    patient.native = "native" in origins
    leaked = next((origin for origin in origins if origin not in ("native", "text")), "")
    patient.parser = next(iter(parsers_of(leaked)), "")
    came = f"the model's call came in its text ({origins[0]})" if origins else f"the model {_did(response)}"
    flags = f"Start the server with --enable-auto-tool-choice --tool-call-parser {patient.parser or 'PARSER'}."
    if model.path.mode != "native":
        if not patient.settings.vllm.enable_function_calling:
            return Finding("pass" if origins else "warn", f"switched off in the settings; {came}")
        return Finding("warn", f"the server does not accept tools; {came}", flags)
    if patient.native:
        return Finding("pass", "the server accepts tools, and returned the model's call as a tool call")
    if patient.parser:
        return Finding("warn", f"the server accepts tools, but {came}", flags)
    advice = "The model may be weak, or the server's tool parser may be the wrong one."
    return Finding("warn", f"the server accepts tools; {came}", advice)


def _did(response: Response) -> str:
    said = " ".join(response.text.split())
    return f"made no call when asked to; it said: {said[:60]!r}" if said else "made no call when asked to"


def _template(patient: Patient) -> Finding:
    """Whether the chat template shows tools, and which roles it takes, as the server makes prompts of them."""
    from ...providers.base import ChatRequest

    user, tools = ASKED, _tools(patient)
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
            return Finding("warn", "the server has no /tokenize, so its prompts cannot be inspected")
        checks = {
            "does not show tools": (size(user, tools=tools) or 0) > plain_size,
            "accepts no system prompt": size([SystemMessage("Be brief."), *user]) is not None,
            "accepts no tool results": size(exchange, tools=tools) is not None,
        }
    missing = [said for said, passed in checks.items() if not passed]
    if missing:
        advice = "The bot works around it in text. vLLM's examples/ has tool templates for --chat-template."
        return Finding("warn", ", ".join(missing), advice)
    return Finding("pass", "shows tools, accepts a system prompt and tool results")


def _constrained(patient: Patient) -> Finding:
    """Whether the server can hold calls in the text to their grammar."""
    from ...providers import vllm
    from ...providers.base import ChatRequest, decode
    from ...providers.server_errors import refusal

    options: dict[str, JSON] = {"structured_outputs": vllm.constrained(_tools(patient))}
    request = ChatRequest(patient.model_name, ASKED, options=options, max_tokens=PROBE_TOKENS)
    codec = connect.provider(patient.settings).codec(lambda: "abcdefghi")
    wire = codec.encode(request)
    try:
        with connect.client(patient.settings, time.sleep, PATIENCE) as client, client.open("POST", *wire) as reply:
            if reply.status != 200:
                said = refusal(reply.status, reply.read()).message
                advice = "The bot works without it, but calls in the text may be malformed."
                return Finding("warn", said, advice)
            for events in decode(codec.decoder(reply.content_type), reply.chunks):
                patient.wire += [event.response for event in events if isinstance(event, Completed)]
    except BotError as error:
        return Finding("warn", error.message, "Set text_protocol.constrained to off to do without.")
    return Finding("pass", "calls in the text can be constrained by a grammar (structural_tag)")


def _streaming(patient: Patient) -> Finding | None:
    if patient.response is None:
        return None
    if patient.pieces > 1:
        said = f"{patient.pieces} pieces, the first after {patient.first:.2f} s, all after {patient.took:.2f} s"
        return Finding("pass", said)
    return Finding("warn", "the answer came in one piece", "The answer may be short, or a proxy may buffer it.")


def _reasoning(patient: Patient) -> Finding | None:
    """Thoughts come in a field of their own where the server has a parser for them."""
    blocks = [block for response in patient.wire for block in response.content]
    if not blocks:
        return None
    if any(isinstance(block, Reasoning) for block in blocks):
        return Finding("pass", "thoughts come in a separate field")
    if any(isinstance(block, Text) and "</think>" in block.text for block in blocks):
        parser = patient.family.reasoning_parser if patient.family else ""
        advice = f"The bot separates them itself. To have the server do it: --reasoning-parser {parser or 'PARSER'}."
        return Finding("warn", "thoughts are part of the answer", advice)
    return Finding("pass", "the model showed no thoughts")


def _sandbox(settings: config.Settings) -> Finding:
    """Where commands would run; it is tried out."""
    if not settings.security.exec_enabled:
        return Finding("pass", "not needed: commands are switched off (security.exec_enabled)")
    choice = factory.sandbox(settings)
    tried = "\n".join(choice.tried)
    if choice.sandbox.kind in ("none", "refused"):
        advice = f"{tried}\nInstall bubblewrap, or see docs/security.md." if tried else "See security.sandbox."
        return Finding("warn", choice.sandbox.description, advice)
    return Finding("pass", choice.sandbox.description)


def _mcp(servers: Sequence[Mapping[str, object]]) -> Finding:
    """Not tried out: starting them may do anything."""
    here = ", ".join(str(each.get("name")) for each in servers if "command" in each)
    if not here:
        return Finding("pass", f"{len(servers)}, all reached over the network")
    return Finding("warn", f"outside the sandbox, with your rights: {here}", "Configure only servers that you trust.")


def _terminal() -> Finding:
    encoding = (sys.stdout.encoding or "").lower()
    if encoding.replace("-", "") != "utf8":
        return Finding("warn", f"its encoding is {encoding or 'unknown'}", "Set PYTHONUTF8=1, or a UTF-8 locale.")
    if not sys.stdout.isatty():
        return Finding("pass", "none, so output is plain")
    size, kind = shutil.get_terminal_size(), os.environ.get("TERM", "")
    if kind in ("", "dumb"):
        return Finding("warn", "TERM is unset or dumb, so output is plain", "Set TERM, e.g. to xterm-256color.")
    return Finding("pass", f"{kind}, {size.columns} x {size.lines}, {encoding}")


def _tools(patient: Patient) -> list[ToolDefinition]:
    return [tool for tool in factory.tools(patient.settings).definitions if tool.name == "read"]


BASIC: dict[str, Callable[[Patient], Finding]] = {"configuration": _configuration, "server": _server, "model": _model}
PROBES: dict[str, Callable[[Patient], Finding | None]] = {
    "version": _version,
    "context": _context,
    "native calls": _calls,
    "template": _template,
    "constrained decoding": _constrained,
    "streaming": _streaming,
    "reasoning": _reasoning,
}
VLLM_ONLY = (_version, _context, _template, _constrained)
