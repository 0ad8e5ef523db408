"""What `vllm-bot doctor` checks, one function a check.

A check takes the diagnosis so far, adds what it finds out, and returns a finding. BASIC checks build on each other;
PROBES are independent, and return None where they do not apply to the provider; LOCAL ones do not need the server. A
BotError that a check raises is what fails.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from msgspec.structs import replace

from ...app.address import complete_address
from ...app.connect import Connections
from ...app.discovery import scan_ports
from ...app.model import Model
from ...app.permissions import defer_sandbox, make_policy
from ...app.toolset import connect_mcp, make_tools
from ...config import SETTINGS, Settings
from ...errors import BotError, NeverReached, TokensUnsupported, join_names
from ...model.recovery import RECOVERED_NOTICE
from ...negotiation import ServerApi
from ...negotiation.call_path import NO_STREAM, Reason
from ...negotiation.continuity import describe_kept
from ...negotiation.evidence import probe_grammar
from ...negotiation.formats.written_format import PROBE_TOOL
from ...negotiation.thoughts import PLAIN_PROBE, THOUGHT_PROBE, probe_thoughts
from ...parsing import list_parsers
from ...providers import vllm
from ...providers.base import ChatRequest, decode
from ...providers.engines import find_engine
from ...providers.server_errors import read_refusal
from ...providers.vllm_parsers import Family, find_family, name_tool_parser
from ...security.sandbox.deferred import SandboxChoice
from ...tools.sdk.tool_search import describe_savings
from ...types.effects import Aside
from ...types.events import Completed, Notice
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

T = TypeVar("T")
Status = Literal["pass", "warn", "fail"]
MIN_CONTEXT_TOKENS = 8192  # below it the instructions and a few files fill it
REQUEST_TIMEOUT_S = 60.0
PROBE_TOKENS = 512
QUESTION = [UserMessage("Call the tool read with the path notes.txt. Call it now, and say nothing else.")]
CALL_ID = "abcdefghi"
KEPT_SHARE = 0.99  # less is told as a warning
RESULT = "The heron stands in the reeds."
THOUGHTS_KEPT: Mapping[bool | None, str] = {
    True: "the chat template shows earlier thoughts",
    False: "the chat template drops earlier thoughts",
    None: "the server does not tell what becomes of earlier thoughts",
}


class Finding(NamedTuple):
    """What a check found, in one line; `advice` says what to do about it. --output json prints the fields."""

    status: Status
    said: str
    advice: str = ""


class Diagnosis:
    """The setup that is checked, and what is known about it so far."""

    def __init__(self, load: Callable[[], Settings]) -> None:
        self.load = load  # may raise ConfigError
        self.settings = Settings()
        self.model_name = ""
        self.root = ""  # name of the model's weights, if the server gives it
        self.models: list[str] = []
        self.version = ""
        self.context: int | None = None  # of the model, in tokens
        self.engine = ""  # a server other than vLLM, by its name
        self.family: Family | None = None
        self.parser = ""  # the server's tool parser that reads the format which the model wrote
        self.native = False
        self.model: Model | None = None  # that was asked for a call
        self.response: Response | None = None
        self.wire: list[Response] = []  # answers as the server sent them, before our own parser
        self.notices: list[str] = []  # what the bot would have told the user
        self.pieces = 0
        self.first, self.took = 0.0, 0.0  # seconds

    @property
    def is_vllm(self) -> bool:
        return self.settings.vllm.provider == "vllm"

    def ask(self, question: Callable[[ServerApi], Aside[T]]) -> T:
        """Run one of the server's questions. Raises what it raises."""
        with Connections(self.settings).open_server(REQUEST_TIMEOUT_S) as server:
            return server.ask(question)


def _check_configuration(diagnosis: Diagnosis) -> Finding:
    diagnosis.settings = diagnosis.load()
    make_policy(diagnosis.settings, None)
    places = diagnosis.settings.places.items()
    files = dict.fromkeys(place.removesuffix(f": {key}") for key, place in places if place.endswith(f": {key}"))
    source = ", ".join(each for each in files if each != "command line") or "no file, the defaults"
    outer_keys = [key for key, place in places if place.startswith(("environment", "command line"))]
    if elsewhere := [key for key in outer_keys if key in SETTINGS]:  # and not once more for each of `servers`
        source += f"; also {', '.join(elsewhere)}"
    return Finding("pass", source)


def _check_server(diagnosis: Diagnosis) -> Finding:
    diagnosis.settings, _ = complete_address(diagnosis.settings)
    settings = diagnosis.settings
    try:
        diagnosis.models = diagnosis.ask(ServerApi.list_models)
        diagnosis.engine = find_engine(diagnosis.ask(ServerApi.owner))
    except NeverReached as error:
        if settings.is_server_named or not (elsewhere := scan_ports(settings)):
            return Finding("fail", error.message, f"{error.hint}\nOr try the program without a server: vllm-bot --demo")
        diagnosis.settings, diagnosis.models = elsewhere[0]
        url = diagnosis.settings.vllm.base_url
        return Finding("warn", f"{error.message} But there is one at {url}.", f"Set vllm.base_url to {url}.")
    return Finding("pass", f"{settings.vllm.base_url} answers")


def _check_model(diagnosis: Diagnosis) -> Finding:
    wanted, served = diagnosis.settings.vllm.model, diagnosis.models
    names = join_names(served)
    if wanted and served and wanted not in served:
        return Finding("fail", f"{wanted} is not served; there is {names}", "Set vllm.model, or --model.")
    if not served and not wanted:
        return Finding("fail", "the server lists none", "Set vllm.model, or start the server with a model.")
    diagnosis.model_name = wanted or served[0]
    diagnosis.root = Connections(diagnosis.settings).find_root(diagnosis.model_name)
    if diagnosis.is_vllm:
        diagnosis.family = find_family(diagnosis.root, diagnosis.model_name)
    if not wanted and len(served) > 1:
        return Finding("warn", f"there are several: {names}; checking {served[0]}", "Name one: vllm.model, or --model.")
    if diagnosis.root in ("", diagnosis.model_name):
        return Finding("pass", diagnosis.model_name)
    return Finding("pass", f"{diagnosis.model_name} ({diagnosis.root})")


def _check_version(diagnosis: Diagnosis) -> Finding:
    diagnosis.version = diagnosis.ask(ServerApi.version)
    if diagnosis.version:
        return Finding("pass", f"vLLM {diagnosis.version}")
    if diagnosis.engine:
        return Finding("pass", diagnosis.engine)
    return Finding("warn", "the server gives no version: it may not be vLLM", "See vllm.provider.")


def _check_context(diagnosis: Diagnosis) -> Finding:
    length = diagnosis.context = diagnosis.ask(lambda each: each.context_length(diagnosis.model_name))
    if length is None:
        return Finding(
            "warn", "the server does not say how long its context is", "A full context will show as an error."
        )
    if length < MIN_CONTEXT_TOKENS:
        return Finding("warn", f"{length:,} tokens is little", "Start the server with a larger --max-model-len.")
    return Finding("pass", f"{length:,} tokens")


def _check_calls(diagnosis: Diagnosis) -> Finding:
    """A tool is offered, and the model asked to call it."""
    diagnosis.model = model = _make_small_model(diagnosis, ("native", "template", "text"))
    began = time.monotonic()
    for event in model.respond(QUESTION, _offer_read(diagnosis)):
        if isinstance(event, Completed):
            diagnosis.response = event.response
        elif isinstance(event, Notice):
            diagnosis.notices.append(event.text)
        elif not diagnosis.pieces:
            diagnosis.first = time.monotonic() - began
        diagnosis.pieces += not isinstance(event, Completed)
    diagnosis.took = time.monotonic() - began
    response = diagnosis.response or Response(())
    origins = [call.origin for call in response.calls]
    diagnosis.native = "native" in origins
    leaked = next((origin for origin in origins if origin not in ("native", "text")), "")
    diagnosis.parser = next(iter(list_parsers(leaked)), "")
    return _judge_calls(diagnosis, model, response)


def _check_continuity(diagnosis: Diagnosis) -> Finding | None:
    """What the next prompt has of the first one and of the answer to it, and whether thoughts stay in it."""
    model, response = diagnosis.model, diagnosis.response
    if model is None or response is None:
        return None
    results = tuple(ToolResult(call.id, call.name, "text", RESULT) for call in response.requested_calls)
    follows = ToolResults(results) if results else UserMessage(RESULT)
    for _ in model.respond([*QUESTION, response, follows], _offer_read(diagnosis)):
        pass
    shown, hidden = (ChatRequest(diagnosis.model_name, each, [PROBE_TOOL]) for each in (THOUGHT_PROBE, PLAIN_PROBE))
    thoughts = THOUGHTS_KEPT[diagnosis.ask(lambda each: probe_thoughts(each, shown, hidden))]
    prefix = model.core.kept
    if prefix is None:
        return Finding("pass", f"not measured, since the server tells no token ids; {thoughts}")
    if prefix.share >= KEPT_SHARE:
        return Finding("pass", f"{describe_kept(prefix)}; {thoughts}")
    advice = "From there on the server reads each prompt anew. See docs/paths.md, What goes back."
    return Finding("warn", f"{describe_kept(prefix)} ({prefix.cause}); {thoughts}", advice)


def _make_small_model(diagnosis: Diagnosis, paths: tuple[str, ...]) -> Model:
    """One that answers briefly, and is offered tools in these ways."""
    vllm = replace(diagnosis.settings.vllm, max_tokens=PROBE_TOKENS, paths=paths)
    small = replace(diagnosis.settings, vllm=vllm)
    return Connections(small).make_model(diagnosis.model_name, within=REQUEST_TIMEOUT_S)


def _check_tokens(diagnosis: Diagnosis) -> Finding:
    """A turn is rendered by the server and generated from its tokens, so that no parser of the server reads it."""
    response = Response(())
    try:
        for event in _make_small_model(diagnosis, ("tokens",)).respond(QUESTION, _offer_read(diagnosis)):
            if isinstance(event, Completed):
                response = event.response
    except TokensUnsupported:
        if diagnosis.engine:
            return Finding("pass", f"not offered by {diagnosis.engine}")
        advice = "With --enable-scale-out no call can be lost: vLLM 0.32 generates from tokens, and parses nothing."
        return Finding("pass", "not offered: calls depend on the checks above and below", advice)
    except BotError as error:
        return Finding("warn", error.message, error.hint)
    return Finding("pass", f"the server generates from tokens; {_tell_call(response, 'was read from them')}")


def _judge_calls(diagnosis: Diagnosis, model: Model, response: Response) -> Finding:
    came = _tell_call(response, "came in its text")
    parser = diagnosis.parser or name_tool_parser(diagnosis.root, diagnosis.model_name)
    flags = f"Start the server with --enable-auto-tool-choice --tool-call-parser {parser}."
    if not diagnosis.settings.get_model_settings(diagnosis.model_name).enable_function_calling:
        return Finding("pass" if response.calls else "warn", f"switched off in the settings; {came}")
    if model.path.mode != "native":
        why = model.path.reason.value
        if model.path.reason is Reason.NO_PARSER:
            why = "the server does not accept tools"
        return Finding("warn", f"{why}; {came}", flags)
    if RECOVERED_NOTICE in diagnosis.notices:
        return Finding("warn", f"the server accepts tools, but its parser lost the call; {came}", flags)
    if diagnosis.native:
        return Finding("pass", "the server accepts tools, and returned the model's call as a tool call")
    if diagnosis.parser:
        return Finding("warn", f"the server accepts tools, but {came}", flags)
    advice = "The model may be weak, or the server's tool parser may be the wrong one."
    return Finding("warn", f"the server accepts tools; {came}", advice)


def _tell_call(response: Response, how: str) -> str:
    """`how`: what is said of its first call, if it has one."""
    if response.calls:
        return f"the model's call {how} ({response.calls[0].origin})"
    message = "the model made no call when asked to"
    if text := " ".join(response.text.split()):
        message += f"; it said: {text[:60]!r}"
    return message


def _check_template(diagnosis: Diagnosis) -> Finding:
    """Whether the chat template shows tools, and which roles it takes, as the server makes prompts of them."""
    user, tools = QUESTION, _offer_read(diagnosis)
    call = ToolCall(CALL_ID, "read", {"path": "notes.txt"})
    exchange: list[Message] = [
        *user,
        Response((call,), "tool_use"),
        ToolResults((ToolResult(call.id, "read", "text", "hello"),)),
    ]

    def count_tokens(messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()) -> int | None:
        request = ChatRequest(diagnosis.model_name, messages, tools)
        prompt = diagnosis.ask(lambda each: each.tokenize_prompt(request))
        return None if prompt is None else len(prompt.tokens)

    plain_size = count_tokens(user)
    if plain_size is None:
        return Finding("warn", "the server has no /tokenize, so its prompts cannot be inspected")
    checks = {
        "does not show tools": (count_tokens(user, tools=tools) or 0) > plain_size,
        "accepts no system prompt": count_tokens([SystemMessage("Be brief."), *user]) is not None,
        "accepts no tool results": count_tokens(exchange, tools=tools) is not None,
    }
    missing = [fault for fault, passed in checks.items() if not passed]
    if missing:
        advice = "The bot works around it in text. vLLM's examples/ has tool templates for --chat-template."
        return Finding("warn", ", ".join(missing), advice)
    return Finding("pass", "shows tools, accepts a system prompt and tool results")


def _check_grammar(diagnosis: Diagnosis) -> Finding:
    """Whether the server can hold calls in the text to their grammar."""
    options: dict[str, JSON] = {"structured_outputs": vllm.constrain_calls(_offer_read(diagnosis))}
    request = ChatRequest(diagnosis.model_name, QUESTION, options=options, max_tokens=PROBE_TOKENS)
    connections = Connections(diagnosis.settings)
    codec = connections.make_codec(lambda: CALL_ID)
    wire = codec.encode(request)
    try:
        with connections.make_client(REQUEST_TIMEOUT_S) as client, client.open("POST", wire.path, wire.body) as reply:
            if reply.head.status != 200:
                message = read_refusal(reply.head.status, reply.read()).message
                advice = "The bot works without it, but calls in the text may be malformed."
                return Finding("warn", message, advice)
            for events in decode(codec.make_decoder(reply.head.content_type), reply.chunks):
                diagnosis.wire += [event.response for event in events if isinstance(event, Completed)]
    except BotError as error:
        return Finding("warn", error.message, "Set text_protocol.constrained to off to do without.")
    return _judge_grammar(diagnosis)


def _judge_grammar(diagnosis: Diagnosis) -> Finding:
    """Servers may accept a field and ignore it, so one is probed that leaves the model no choice."""
    try:
        field = diagnosis.ask(lambda each: probe_grammar(each, diagnosis.model_name))
    except BotError as error:
        return Finding("warn", error.message, error.hint)
    if field == "structured_outputs":
        return Finding("pass", "a probe was held to its grammar, so calls in the text are (structural_tag)")
    if field:
        return Finding(
            "warn", f"{field} alone holds a probe to its grammar", "Calls that are required are constrained."
        )
    problem = "the server accepts structured_outputs and ignores it: a probe was not held to its grammar"
    return Finding("warn", problem, "The bot works without it, but calls in the text may be malformed.")


def _check_streaming(diagnosis: Diagnosis) -> Finding | None:
    if diagnosis.response is None:
        return None
    if NO_STREAM in diagnosis.notices:
        return Finding("warn", "the server does not stream the probe: answers come whole", "Nothing is lost by it.")
    if diagnosis.pieces > 1:
        times = f"{diagnosis.pieces} pieces, the first after {diagnosis.first:.2f} s, all after {diagnosis.took:.2f} s"
        return Finding("pass", times)
    return Finding("warn", "the answer came in one piece", "The answer may be short, or a proxy may buffer it.")


def _check_reasoning(diagnosis: Diagnosis) -> Finding | None:
    """Thoughts come in a field of their own where the server has a parser for them."""
    blocks = [block for response in diagnosis.wire for block in response.content]
    if not blocks:
        return None
    if any(isinstance(block, Reasoning) for block in blocks):
        return Finding("pass", "thoughts come in a separate field")
    if not any(isinstance(block, Text) and "</think>" in block.text for block in blocks):
        return Finding("pass", "the model showed no thoughts")
    parser = "PARSER"
    if diagnosis.family:
        parser = diagnosis.family.reasoning_parser or parser
    advice = f"The bot separates them itself. To have the server do it: --reasoning-parser {parser}."
    return Finding("warn", "thoughts are part of the answer", advice)


HOW_TO_CONTAIN = {
    "linux": "Install bubblewrap with your package manager, or use Linux 6.2 or later with Landlock.\n"
    "In a container, allow user namespaces for bubblewrap, or the system calls of Landlock (444 to 446).",
}
NO_LOOPBACK = (
    "Commands reach no server that another command started (a development server), since this system gives no network\n"
    "namespaces. Install bubblewrap with your package manager; in a container, allow user namespaces."
)
BETTER_SANDBOX = "Better is bubblewrap: with that package commands have a /tmp and shared memory (multiprocessing)."
NO_SANDBOX = "There is no sandbox for this system yet; run the program in a virtual machine or container with Linux."


def _check_sandbox(diagnosis: Diagnosis) -> Finding:
    """Where commands would run; it is tried out."""
    settings = diagnosis.settings
    if not settings.security.exec_enabled:
        return Finding("pass", "not needed: commands are switched off (security.exec_enabled)")
    choice = defer_sandbox(settings).choice
    sandbox, advice = choice.sandbox, [*choice.tried]
    if sandbox.is_enforcing and sandbox.kind != "refused":
        return _judge_sandbox(choice)
    if sandbox.kind != "refused":
        advice.append("So every command asks, also with access=read.")
    if settings.security.sandbox == "off":
        advice.append("See security.sandbox.")
    else:
        advice.append(HOW_TO_CONTAIN.get(sys.platform, NO_SANDBOX))
    return Finding("warn", sandbox.description, "\n".join(advice))


def _judge_sandbox(choice: SandboxChoice) -> Finding:
    """Of a sandbox that holds commands: what it does not give them."""
    advice = [choice.note]
    if not choice.sandbox.has_loopback:
        advice.append(NO_LOOPBACK)
    status: Status = "warn" if any(advice) else "pass"
    if choice.sandbox.kind == "landlock":
        advice.append(BETTER_SANDBOX)
    return Finding(status, choice.sandbox.description, "\n".join(filter(None, advice)))


def _check_mcp(diagnosis: Diagnosis) -> Finding | None:
    """The servers, started as for a first question, and what went wrong with them."""
    servers = diagnosis.settings.tools.mcp
    if not servers:
        return None
    advice = list(connect_mcp(diagnosis.settings).notices)
    message = f"{len(servers)}, all reached over the network"
    if here := ", ".join(str(each.get("name")) for each in servers if "command" in each):
        message = f"outside the sandbox, with your rights: {here}"
        advice.append("Configure only servers that you trust.")
    return Finding("warn" if advice else "pass", message, "\n".join(advice))


def _check_tool_search(diagnosis: Diagnosis) -> Finding | None:
    """Whether the tools of MCP servers take so much of a prompt that they are searched instead."""
    tools = make_tools(diagnosis.settings, get_context=lambda: diagnosis.context)
    savings = describe_savings(tools.definitions, diagnosis.settings.tools.search)
    return Finding("pass", savings) if savings else None


def check_terminal() -> Finding:
    encoding = (sys.stdout.encoding or "").lower()
    if encoding.replace("-", "") != "utf8":
        return Finding("warn", f"its encoding is {encoding or 'unknown'}", "Set PYTHONUTF8=1, or a UTF-8 locale.")
    if not sys.stdout.isatty():
        return Finding("pass", "none, so output is plain")
    size, kind = shutil.get_terminal_size(), os.environ.get("TERM", "")
    if kind in ("", "dumb"):
        return Finding("warn", "TERM is unset or dumb, so output is plain", "Set TERM, e.g. to xterm-256color.")
    return Finding("pass", f"{kind}, {size.columns} x {size.lines}, {encoding}")


def _offer_read(diagnosis: Diagnosis) -> list[ToolDefinition]:
    return [tool for tool in make_tools(diagnosis.settings).definitions if tool.name == "read"]


BASIC: dict[str, Callable[[Diagnosis], Finding]] = {
    "configuration": _check_configuration,
    "server": _check_server,
    "model": _check_model,
}
PROBES: dict[str, Callable[[Diagnosis], Finding | None]] = {
    "version": _check_version,
    "context": _check_context,
    "native calls": _check_calls,
    "tokens": _check_tokens,
    "template": _check_template,
    "constrained decoding": _check_grammar,
    "streaming": _check_streaming,
    "reasoning": _check_reasoning,
    "continuity": _check_continuity,
}
LOCAL: dict[str, Callable[[Diagnosis], Finding | None]] = {
    "sandbox": _check_sandbox,
    "MCP servers": _check_mcp,
    "tool search": _check_tool_search,
}
VLLM_ONLY = (_check_version, _check_context, _check_tokens, _check_template, _check_grammar, _check_continuity)
