"""The GitHub Copilot CLI as a server: a request for a turn of the model goes to a session of the CLI.

A session continues while a conversation goes on where the session stands: with the results that it waits for, or with
the user's next message. Any other conversation is told to a new session. A call's permission is what the results say,
since the agent's own rules decided: a denied call is rejected with its reason. A request of the CLI to the model that
fails ends the turn, so that the retries are those of the settings. One process serves one client, and ends with it.
GET requests go to the address over HTTP, as to any server. Codec: providers/copilot.py.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import Advice, ClientError, ConfigError, ConnectFailed, ServerError, StreamCut
from ..types.effects import ReplyHead
from .copilot_session import CopilotSession, retell
from .deadlines import POLL_INTERVAL_S, Deadline, Timeouts
from .http import Client, HttpReply
from .json_rpc import JsonRpcProcess, RpcMessage

PATH_VARIABLE = "COPILOT_CLI_PATH"  # as in github-copilot-sdk
PROTOCOL_VERSION = 3
SESSION_PATH = "session"  # of the codec's requests
OK, BAD_REQUEST, NOT_FOUND = 200, 400, 404
MAX_PROMPT_TOKENS = 10_000_000  # the server knows its limit; the CLI takes 128,000 for that of all
DELETE_TIMEOUT_S = 2.0  # for all sessions
NAME = "The Copilot CLI"
_INSTALL_HINT = f"Install it with: npm install -g @github/copilot, or set {PATH_VARIABLE} to its path."
_SIGN_IN_HINT = Advice(
    "Sign in: run `copilot login`, or set COPILOT_GITHUB_TOKEN. For another server, set vllm.base_url.",
    "Sign in: run `copilot login`, or set COPILOT_GITHUB_TOKEN. For another server, set `base_url`.",
)
# The events that are passed on; with the first of them the server has answered.
_ANSWERS = frozenset(
    {
        "assistant.message_delta",
        "assistant.reasoning_delta",
        "assistant.tool_call_delta",
        "assistant.usage",
        "assistant.message",
        "session.idle",
    }
)

log = logging.getLogger(__name__.rpartition(".")[0])


class _CallFailed(Exception):
    """A request to the model failed: the status of its answer, 0 if there was none, and what was the matter."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class CopilotClient(Client):
    """A client whose turns, POST requests to SESSION_PATH, are the CLI's. The other arguments are those of Client.

    `is_service`: the address stands for GitHub's own service, which the CLI finds and signs in to by itself.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        clocks: Timeouts = Timeouts(),  # noqa: B008 - a NamedTuple
        *,
        is_service: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(base_url, api_key, clocks, **options)
        headers = dict(options.get("headers") or {})
        self._cli = _Cli(self._deadline, base_url, api_key, headers, is_service=is_service)

    def __exit__(self, *raised: Any) -> None:
        self._cli.end()
        super().__exit__(*raised)

    @contextmanager
    def open(
        self, method: str, path: str, body: bytes | None = None, *, within: float | None = None
    ) -> Iterator[HttpReply]:
        """See Client.open. Raises ConfigError if the CLI is not installed, or speaks another protocol."""
        if method != "POST" and not self._cli.is_service:
            with super().open(method, path, body, within=within) as reply:
                yield reply
            return
        self._deadline.start()
        if within is not None:
            self._deadline.cap(within)
        if (method, path) == ("GET", "models"):
            yield self._cli.list_models()
            return
        if (method, path) != ("POST", SESSION_PATH):  # /tokenize too: the CLI may count other tokens than the server
            yield HttpReply(ReplyHead(NOT_FOUND), iter(()))
            return
        try:
            yield self._cli.begin_turn(json.loads(body or b"{}"))
        finally:
            self._cli.leave_turn()


_NOT_ALLOWED = {"textResultForLlm": "It was not allowed.", "resultType": "denied"}
_NOT_RUN = {"textResultForLlm": "It was not run.", "resultType": "failure"}


class _Cli:
    """The CLI's process, and the one session in it. `base_url`: of the model's server; not of GitHub's service."""

    def __init__(
        self, deadline: Deadline, base_url: str, key: str, headers: dict[str, str], *, is_service: bool
    ) -> None:
        self.is_service = is_service
        self._deadline = deadline
        self._base_url = base_url
        self._key = key
        self._headers = headers
        self._process: JsonRpcProcess | None = None
        self._session: CopilotSession | None = None
        self._sessions: list[str] = []  # that are to be deleted
        self._is_answering = False
        self._results: dict[str, dict[str, Any]] = {}  # of calls, by their id, that the session waits for
        self._backlog: list[RpcMessage] = []  # events that came while an answer was waited for
        self._requested: set[int] = set()  # requests of this turn
        self._finalizer: weakref.finalize[Any, Any] | None = None

    @property
    def _address(self) -> str:
        """For messages to the user."""
        return "GitHub Copilot" if self.is_service else self._base_url

    def list_models(self) -> HttpReply:
        listed = self._call("models.list", {})
        names = [{"id": each.get("id")} for each in listed.get("models") or ()]
        return HttpReply(ReplyHead(OK, "application/json"), iter([json.dumps({"data": names}).encode()]))

    def begin_turn(self, asked: dict[str, Any]) -> HttpReply:
        """The reply, once its first event has come, or the status with which the model's server refused."""
        self._is_answering = True
        settings = {**asked["session"], **self._make_provider(asked["session"])}
        messages = asked["messages"]
        session, news = self._find_session(settings, messages)
        session.begin_turn(messages)
        self._requested = set()
        self._results = {each["id"]: each["result"] for each in news.get("results") or ()}
        if not self._results:
            prompt = {"prompt": news["text"], "attachments": news.get("attachments") or []}
            self._request("session.send", {"sessionId": session.id, **prompt})
        chunks = self._follow(session)
        try:
            first = next(chunks, b"")
        except _CallFailed as failed:
            if not failed.status:
                raise self._explain(failed) from None
            return HttpReply(ReplyHead(failed.status, "application/json"), iter([failed.reason.encode()]))
        return HttpReply(ReplyHead(OK, "text/event-stream"), self._stream_rest(first, chunks))

    def _find_session(
        self, settings: dict[str, Any], messages: list[dict[str, Any]]
    ) -> tuple[CopilotSession, dict[str, Any]]:
        """The session that stands where the conversation goes on, or a new one, and the message to continue with."""
        session = self._session
        if session and session.settings == settings and (news := session.find_news(messages)):
            return session, news
        self._drop_session()
        session = self._session = self._create_session(settings)
        return session, retell(messages)

    def _stream_rest(self, first: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
        try:
            for chunk in chain([first], chunks):
                yield chunk
                self._deadline.note_progress(chunk)
        except _CallFailed as failed:
            raise self._explain(failed) from None

    def _explain(self, failed: _CallFailed) -> ClientError:
        """For a request that failed without a status, or in the middle of an answer."""
        if "ECONNREFUSED" in failed.reason or "tcp connect" in failed.reason:
            return ConnectFailed(f"{NAME} cannot reach {self._address}: {failed.reason}")
        return StreamCut(f"The answer of {self._address} to {NAME[0].lower() + NAME[1:]} broke: {failed.reason}")

    def _make_provider(self, session: Mapping[str, Any]) -> dict[str, Any]:
        """What leads the session to the address; for GitHub's service, its key if there is one."""
        if self.is_service:
            return {"provider": None, "gitHubToken": self._key or None}  # what is None is not sent
        address = {"type": "openai", "baseUrl": self._base_url, "wireApi": "completions", "headers": self._headers}
        provider = {**address, "maxPromptTokens": MAX_PROMPT_TOKENS}
        if self._key:
            provider["apiKey"] = self._key
        return {"provider": {**provider, **(session.get("provider") or {})}}

    def _create_session(self, settings: dict[str, Any]) -> CopilotSession:
        named = {name: value for name, value in settings.items() if value is not None}
        session = CopilotSession(str(uuid.uuid4()), settings)
        self._call("session.create", {"sessionId": session.id, **named})
        if self.is_service:
            self._sessions.append(session.id)
        return session

    def leave_turn(self) -> None:
        """Drop the session, if its turn is not over: it was left, or it failed."""
        if self._is_answering:
            self._is_answering = False
            self._drop_session()

    def _drop_session(self) -> None:
        """Leave the session, and have the CLI stop it."""
        session, self._session = self._session, None
        if session and self._process:
            self._send("session.abort", {"sessionId": session.id})

    def _follow(self, session: CopilotSession) -> Iterator[bytes]:
        """The session's events as a stream of server-sent events, until the turn is over.

        Raises ClientError, Cancelled, _CallFailed.
        """
        while self._is_answering:
            event = self._receive_event(session)
            kind, data = str(event.get("type")), event.get("data") or {}
            if kind == "permission.requested":
                self._decide(session, data)
            elif kind == "external_tool.requested":
                result = self._results.get(str(data.get("toolCallId")), _NOT_RUN)
                params = {"sessionId": session.id, "requestId": data.get("requestId"), "result": result}
                self._request("session.tools.handlePendingToolCall", params)
            elif kind == "model.call_failure":
                raise _read_failure(data)
            elif kind == "session.error" and not session.answer_id:
                raise _explain_error(data)
            elif kind in _ANSWERS:
                session.note(kind, data)
                self._is_answering = kind != "session.idle" and not session.calls
                yield b"data: %s\n\n" % json.dumps(event).encode()

    def _decide(self, session: CopilotSession, data: dict[str, Any]) -> None:
        """Answer the question for permission as the agent's rules, or the user, decided about this call."""
        asked = data.get("permissionRequest") or {}
        result = self._results.get(str(asked.get("toolCallId")), _NOT_ALLOWED)
        decision = {"kind": "approve-once"}
        if result["resultType"] == "denied":
            decision = {"kind": "reject", "feedback": result["textResultForLlm"]}
        params = {"sessionId": session.id, "requestId": data.get("requestId"), "result": decision}
        self._request("session.permissions.handlePendingPermissionRequest", params)

    def _call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a request to the CLI; events that come before it are kept. Raises ServerError for a refusal."""
        number = self._send(method, params)
        while True:
            message = self._receive()
            if message.get("id") == number and "method" not in message:
                break
            self._backlog.append(message)
        _raise_refusal(message)
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    def _request(self, method: str, params: Mapping[str, Any]) -> None:
        """Send what has no result but a refusal, which ends the turn."""
        self._requested.add(self._send(method, params))

    def _send(self, method: str, params: Mapping[str, Any]) -> int:
        if self._process is None:
            self._process = self._start()
        log.debug("%s %s %s", NAME, method, params)
        return self._process.send(method, params)

    def _receive_event(self, session: CopilotSession) -> dict[str, Any]:
        """The session's next event, but for those of the CLI's own agents."""
        while True:
            message = self._backlog.pop(0) if self._backlog else self._receive()
            if message.get("method") == "session.event":
                event: dict[str, Any] = message["params"]["event"]
                if message["params"].get("sessionId") == session.id and not event.get("agentId"):
                    return event
            elif "method" in message and "id" in message and self._process:
                self._process.refuse(message)
            elif message.get("id") in self._requested:
                _raise_refusal(message)

    def _receive(self) -> RpcMessage:
        """Raises Timeout, Cancelled, and StreamCut if the CLI ended."""
        process = self._process or self._start()
        while True:
            try:
                seconds = min(self._deadline.remaining(), POLL_INTERVAL_S)
            except TimeoutError:
                raise self._deadline.timeout_error(self._address) from None
            try:
                message = process.receive(seconds)
            except StreamCut:
                self.end()
                raise
            if message is not None:
                log.debug("received %s", message)
                return message
            self._deadline.on_silence()

    def _start(self) -> JsonRpcProcess:
        """Raises ConfigError and ClientError."""
        program = os.environ.get(PATH_VARIABLE) or "copilot"
        path = shutil.which(program)
        if not path:
            raise ConfigError(f"{NAME} is not installed: there is no program {program}.", _INSTALL_HINT)
        folder = tempfile.mkdtemp(prefix="vllm-bot-copilot-")
        command = [str(Path(path).absolute()), "--headless", "--stdio", "--no-auto-update"]
        command += ["--log-level", "none", "--log-dir", folder]
        environ = {**os.environ, "COPILOT_AUTO_UPDATE": "false"}
        if not self.is_service:  # no sign-in, and nothing of the user's own sessions and settings
            # The CLI starts offline only with an address and a model; each session names its own.
            environ |= {"COPILOT_HOME": folder, "COPILOT_OFFLINE": "true"}
            environ |= {"COPILOT_PROVIDER_BASE_URL": self._address, "COPILOT_MODEL": "any"}
        try:
            process = JsonRpcProcess(NAME, command, environ, folder)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ClientError(f"{NAME} cannot be started: {error}.", _INSTALL_HINT) from error
        self._sessions = []
        self._finalizer = weakref.finalize(self, _clean_up, process, folder, self._sessions)
        self._process = process
        try:
            answer = self._call("connect", {})
        except StreamCut as error:
            raise ClientError(error.message) from None  # it would end again
        if answer.get("protocolVersion") != PROTOCOL_VERSION:
            self.end()
            spoken = f"version {answer.get('protocolVersion')} of its protocol"
            raise ConfigError(f"{NAME} {answer.get('version', '')} speaks {spoken}, this program {PROTOCOL_VERSION}.")
        return process

    def end(self) -> None:
        """End the process."""
        self._process, self._session, self._backlog = None, None, []
        if self._finalizer is not None:
            self._finalizer()


def _clean_up(process: JsonRpcProcess, folder: str, sessions: Sequence[str]) -> None:
    """End the process, its `sessions` first: the CLI would keep them among the user's."""
    waiting = {process.send("sessions.delete", {"sessionId": id}) for id in sessions}
    deadline = time.monotonic() + DELETE_TIMEOUT_S
    with suppress(StreamCut):
        while waiting and (left := deadline - time.monotonic()) > 0:
            waiting.discard((process.receive(left) or {}).get("id", 0))
    process.end()
    shutil.rmtree(folder, ignore_errors=True)


def _raise_refusal(answer: RpcMessage) -> None:
    """Raise ServerError if the CLI refused a request."""
    if "error" in answer:
        reason = str((answer["error"] or {}).get("message"))
        raise ServerError(f"{NAME}: {reason}", _SIGN_IN_HINT if _is_about_sign_in(reason) else "")


def _is_about_sign_in(reason: str) -> bool:
    return "uthenticat" in reason or "OAuth token" in reason


def _explain_error(data: Mapping[str, Any]) -> Exception:
    reason = str(data.get("message"))
    if _is_about_sign_in(reason):
        return ServerError(f"{NAME}: {reason}", _SIGN_IN_HINT)
    return _CallFailed(data.get("statusCode") or BAD_REQUEST, reason)


def _read_failure(data: Mapping[str, Any]) -> _CallFailed:
    """Of a request to the model; its reason is a JSON string in a string."""
    reason = str(data.get("errorMessage") or "it failed")
    with suppress(ValueError):
        read = json.loads(reason)
        if isinstance(read, str):
            reason = read
    return _CallFailed(data.get("statusCode") or 0, reason)
