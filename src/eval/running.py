"""Runs one case under one arm: the model is asked as the chat asks it, its tools are played, and what came is sorted.

What a run did is told by the core: where each call came from, what was repaired, which notices the user would have got.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from ..app.connect import Connections
from ..app.endpoint import fill_client
from ..app.model import Model
from ..config import Settings
from ..errors import (
    TRANSIENT_STATUS,
    BotError,
    Cancelled,
    ConfigError,
    ParserFailed,
    ServerError,
    TemplateFailed,
    ToolsDropped,
)
from ..model.recovery import CUT_NOTICE, PART_LOST_NOTICE, RECOVERED_NOTICE
from ..negotiation.call_path import LOST_CALLS
from ..parsing.formats.table import FORMATS, mentions_call
from ..transport.http import Client, HttpReply
from ..types.events import Completed, Notice, ReasoningDelta
from ..types.messages import (
    JSON,
    NATIVE,
    TEXT,
    Message,
    Reasoning,
    Response,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)
from .arms import Arm
from .cases import Case
from .outcomes import CaseOutcome, HttpExchange, Kind

SYSTEM_PROMPT = "You are a helpful assistant. Use the tools where they help, and answer directly where they do not."
MAX_TOKENS = 512  # of one answer: calls are short, and a weak model may write on and on
MAX_THINKING_TOKENS = 4096  # where the model was seen to think longer
MAX_KEPT_CHARS = 20_000  # of a request or an answer, for the report: its beginning and its end
ANSWERS = ("chat/completions", "completions", "messages", "responses", "inference/v1/generate", "embedContent")
# What is no repair where a format writes all values as text, or strings in either kind of quotes.
TAGGED = {row.call_origin for row in FORMATS if row.syntax}
PYTHONIC = {row.call_origin for row in FORMATS if row.grammar == "pythonic"}
LOST_NOTICES = (PART_LOST_NOTICE, LOST_CALLS)
RECOVERED_NOTICES = (RECOVERED_NOTICE, CUT_NOTICE)


class RecordingClient(Client):
    """Keeps what is sent to the model and what it answers. Questions about the server are not kept."""

    def start(self) -> None:
        self.exchanges: list[tuple[str, bytes, bytearray, int]] = []

    @contextmanager
    def open(
        self, method: str, path: str, body: bytes | None = None, *, within: float | None = None
    ) -> Iterator[HttpReply]:
        with super().open(method, path, body, within=within) as reply:
            if body is None or not path.endswith(ANSWERS):
                yield reply
                return
            received = bytearray()
            self.exchanges.append((path, body, received, reply.head.status))
            yield reply._replace(chunks=_tee(reply.chunks, received))


def _tee(chunks: Iterator[bytes], received: bytearray) -> Iterator[bytes]:
    for chunk in chunks:
        received += chunk
        yield chunk


class CaseRunner:
    """Asks the model `name` of these settings. `now` tells the time in seconds."""

    def __init__(self, settings: Settings, name: str, now: Callable[[], float] = time.monotonic) -> None:
        if settings.vllm.provider == "copilot":
            raise ConfigError("An eval cannot measure Copilot: its requests are made by another program.")
        self.settings = replace(settings, vllm=settings.get_model_settings(name), models={})
        self._name = name
        self._now = now
        self._max_tokens = MAX_TOKENS

    def run(self, arm: Arm, case: Case, seed: int) -> CaseOutcome:
        """One run. An error of the server is an outcome. Raises Cancelled, and ConfigError for impossible settings."""
        settings = arm.apply(self.settings, seed, self._max_tokens)
        client = fill_client(RecordingClient, settings)
        client.start()
        began = self._now()
        with Connections(settings).make_model(self._name, client=client) as model:
            played = _Play(model, case)
            try:
                played.run()
            except (Cancelled, ConfigError):
                raise
            except BotError as error:
                played.sort_error(error)
        if played.thought_long:
            self._max_tokens = MAX_THINKING_TOKENS
        return played.outcome(arm, seed, self._now() - began, client)


class _Play:
    """The conversation of one case, and what is found out in it."""

    def __init__(self, model: Model, case: Case) -> None:
        self._model = model
        self._case = case
        self._messages: list[Message] = [SystemMessage(SYSTEM_PROMPT)]
        self._responses: list[Response] = []
        self._notices: list[str] = []
        self._marks: list[tuple[Kind, str]] = []  # of answers that are right all the same
        self._kind: Kind = ""
        self._why = ""
        self._passed = False
        self._thoughts = ""  # of the last answer, as it was streamed
        self._in_thoughts = False  # a call was
        self.thought_long = False

    def run(self) -> None:
        """Raises BotError."""
        for turn in self._case.turns:
            if turn.ask:
                self._messages.append(UserMessage(turn.ask))
            response = self._ask()
            if why := turn.judge(response.calls, response.text):
                self._kind, self._why = self._sort_failure(response, why)
                return
            self._marks += self._list_marks(response)
            self._messages.append(response)
            if response.requested_calls:
                results = [ToolResult(each.id, each.name, "text", turn.pick_result(each)) for each in response.calls]
                self._messages.append(ToolResults(tuple(results)))
        self._passed = True
        if self._marks:
            self._kind, self._why = min(self._marks, key=lambda mark: mark[0] != "server")

    def _ask(self) -> Response:
        """The answer; one that ends in a thought has room for a longer one."""
        response = self._ask_once()
        if response.stop_reason == "max_tokens" and self._thoughts and self._model.max_tokens == MAX_TOKENS:
            self._model.max_tokens, self.thought_long = MAX_THINKING_TOKENS, True
            response = self._ask_once()
        self._responses.append(response)
        return response

    def _ask_once(self) -> Response:
        response, thoughts = Response(()), []
        for event in self._model.respond(self._messages, self._case.tools):
            if isinstance(event, Notice):
                self._notices.append(event.text)
            elif isinstance(event, ReasoningDelta):
                thoughts.append(event.text)
            elif isinstance(event, Completed):
                response = event.response
        self._thoughts = "".join(thoughts) or _join_thoughts(response)
        return response

    def _sort_failure(self, response: Response, why: str) -> tuple[Kind, str]:
        """A call that was written and did not arrive is lost; else the model chose another one, or none."""
        if response.malformed:
            return "lost", f"{response.malformed[0].reason} {response.malformed[0].raw}".strip()
        if lost := next((notice for notice in self._notices if notice in LOST_NOTICES), ""):
            return "lost", f"{why}. {lost}"
        if not response.calls and mentions_call(response.text + self._thoughts):
            return "lost", f"{why}. The answer holds what looks like a call."
        return "model", why

    def _list_marks(self, response: Response) -> list[tuple[Kind, str]]:
        """What was done so that the right calls arrived."""
        marks: list[tuple[Kind, str]] = []
        is_native = self._model.path.mode == "native"
        if response.calls and mentions_call(self._thoughts):
            self._in_thoughts = True
            marks.append(("server", "the call was recovered from a thought"))
        for call in response.calls:
            if is_native and call.origin != NATIVE:
                where = _describe_origin(call.origin)
                marks.append(("server", f"the call was recovered: it came {where} and not as a tool call"))
            if repairs := _list_repairs(call):
                marks.append(("format", f"repaired: {', '.join(repairs)}"))
        if noticed := next((notice for notice in self._notices if notice in RECOVERED_NOTICES), ""):
            marks.append(("server", noticed))
        return marks

    def sort_error(self, error: BotError) -> None:
        self._why = str(error)
        if isinstance(error, ParserFailed):
            self._kind = "lost"
        elif isinstance(error, (ToolsDropped, TemplateFailed)):
            self._kind = "refused"
        elif isinstance(error, ServerError) and error.is_about_request:
            # One that comes too soon, or took too long, the server may take later.
            self._kind = "harness" if error.status in TRANSIENT_STATUS else "refused"
        else:
            self._kind = "harness"

    def outcome(self, arm: Arm, seed: int, seconds: float, client: RecordingClient) -> CaseOutcome:
        usage = sum((response.usage for response in self._responses if response.usage), Usage())
        calls = [call for response in self._responses for call in response.calls]
        exchanges: tuple[HttpExchange, ...] = ()
        read: tuple[dict[str, JSON], ...] = ()
        if self._kind:  # what went well is not opened
            exchanges = tuple(
                HttpExchange(path, _decode(body), status, _decode(received))
                for path, body, received, status in client.exchanges
            )
            read = tuple(response.to_dict() for response in self._responses)
        return CaseOutcome(
            arm.name,
            self._case.id,
            seed,
            passed=self._passed,
            kind=self._kind,
            why=self._why,
            requests=len(client.exchanges),
            seconds=round(seconds, 3),
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
            thinks=bool(self._thoughts) or any(map(_join_thoughts, self._responses)),
            in_thoughts=self._in_thoughts,
            origins=tuple(call.origin for call in calls),
            shows_tools=self._model.path.template_shows_tools,
            notices=tuple(dict.fromkeys(self._notices)),
            exchanges=exchanges,
            read=read,
        )


def _join_thoughts(response: Response) -> str:
    return "".join(block.text for block in response.content if isinstance(block, Reasoning))


def _describe_origin(origin: str) -> str:
    if origin == TEXT:
        return "in a TOOL_CALL block"
    return f"in the format {origin}"


def _list_repairs(call: ToolCall) -> list[str]:
    """What was mended of the call, without what its format always needs."""
    repairs: list[str] = []
    if call.guessed:
        repairs.append("it can be read in two ways")
    for repair in call.repaired:
        is_usual = (call.origin in TAGGED and " string to " in repair) or (
            call.origin in PYTHONIC and repair == "quotes"
        )
        if not is_usual:
            repairs.append(repair)
    return repairs


def _decode(body: bytes | bytearray) -> str:
    text = bytes(body).decode(errors="replace")
    left_out = len(text) - MAX_KEPT_CHARS
    if left_out <= 0:
        return text
    half = MAX_KEPT_CHARS // 2
    return f"{text[:half]}\n[... {left_out:,} characters ...]\n{text[-half:]}"
