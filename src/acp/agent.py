"""The protocol's methods for the SDK, which calls them by their names: sessions, prompts, modes and models.

They run in the event loop. Whatever may take long, such as a turn, a journal or a server, runs in a thread.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from acp import Client, RequestError
from acp.schema import (
    AuthenticateResponse,
    CloseSessionResponse,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    DeleteSessionRequest,
    ForkSessionResponse,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    ResumeSessionResponse,
    SessionInfo,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
)
from acp.schema import Usage as ReportedUsage
from msgspec.structs import replace

from .. import __version__
from ..app.discovery import find_server, locate_model
from ..app.factory import Factory
from ..config import Settings
from ..errors import BotError, ConfigError, HostUnknown, NeverReached, NotHttp, TlsFailed, Unauthorized
from ..security.permissions.modes import MODES
from ..session.session import Session
from ..types.messages import UserMessage
from . import choices
from .commands import parse_command
from .editor import Editor
from .editor_session import EditorSession, StopReason
from .greeting import SETUP, SETUP_ADVICE, EditorAbilities, make_greeting, read_abilities
from .json_lines import UNROUTED
from .prompt import read_prompt

T = TypeVar("T")
SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
PAGE = 50  # sessions in one answer of session/list
THREADS = 64  # turns and other long work at once
# Until a user does something about these, no prompt is answered. After others the next one may be.
SETUP_ERRORS = (NeverReached, HostUnknown, TlsFailed, NotHttp, Unauthorized)
AUTH_REQUIRED, INVALID_PARAMS, INTERNAL_ERROR = -32000, -32602, -32603


MakeSettings = Callable[[Path, Sequence[str]], Settings]


class EditorAgent:
    """An agent of the SDK. `make_settings`: those for sessions in a folder, and more folders; may raise ConfigError."""

    def __init__(self, make_settings: MakeSettings, abilities: EditorAbilities) -> None:
        self._make_settings = make_settings
        self._abilities = abilities
        self._client: Client
        self._sessions: dict[str, EditorSession] = {}
        self._models: dict[str, list[str]] = {}  # by the session's id
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(THREADS, "acp")

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **_: Any
    ) -> InitializeResponse:
        """Where the greeting did not answer it already."""
        del protocol_version, client_info
        capabilities = client_capabilities.model_dump(by_alias=True, exclude_none=True) if client_capabilities else None
        self._abilities = read_abilities(capabilities)
        return InitializeResponse.model_validate(make_greeting(self._abilities, __version__))

    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """Look whether the server answers now. What it needs is asked for in a terminal, by `vllm-bot acp --setup`."""
        if method_id != SETUP:
            raise RequestError(INVALID_PARAMS, f"There is no way to authenticate named {method_id}; there is {SETUP}.")
        settings = await self._work(self._find_settings, Path.cwd(), (), ())
        await self._work(Factory(settings).connections.list_models)
        return AuthenticateResponse()

    async def new_session(
        self, cwd: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any
    ) -> NewSessionResponse:
        settings = await self._open_settings(cwd, mcp_servers, additional_directories)
        factory = Factory(settings)
        session = await self._work(factory.make_session, settings.vllm.model, factory.make_store())
        opened = await self._add(settings, session)
        return NewSessionResponse(session_id=opened.id, **self._show_choices(opened))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any
    ) -> LoadSessionResponse:
        opened, notices = await self._reopen(cwd, session_id, mcp_servers, additional_directories)
        await self._work(opened.replay)
        await self._work(opened.show_notices, notices)
        return LoadSessionResponse(**self._show_choices(opened))

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any
    ) -> ResumeSessionResponse:
        opened, notices = await self._reopen(cwd, session_id, mcp_servers, additional_directories)
        await self._work(opened.show_notices, notices)
        return ResumeSessionResponse(**self._show_choices(opened))

    async def fork_session(
        self, session_id: str, cwd: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any
    ) -> ForkSessionResponse:
        settings = await self._open_settings(cwd, mcp_servers, additional_directories)
        factory = Factory(settings)
        store = factory.make_store()
        path = store.journal_path(_check_id(session_id))
        if path.exists():
            system = factory.make_system_messages()
            session = await self._work(Session.copy, path, system, settings.root, store.create_journal())
        elif session_id in self._sessions:  # which holds nothing yet
            session = await self._work(factory.make_session, settings.vllm.model, store)
        else:
            raise RequestError(INVALID_PARAMS, f"There is no session {session_id} to fork.")
        opened = await self._add(settings, session)
        return ForkSessionResponse(session_id=opened.id, **self._show_choices(opened))

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        settings = await self._work(self._make_settings, Path(cwd or Path.cwd()), ())
        listed = await self._work(Factory(settings).make_store().list_sessions)
        rows = [each for each in listed if cwd is None or each.workspace == str(settings.root)]
        begin = int(cursor) if cursor and cursor.isdecimal() else 0
        shown = [
            SessionInfo(
                session_id=each.id,
                cwd=each.workspace,
                title=each.name or each.title or None,
                updated_at=datetime.fromtimestamp(each.used, timezone.utc).isoformat(),
            )
            for each in rows[begin : begin + PAGE]
        ]
        more = str(begin + PAGE) if len(rows) > begin + PAGE else None
        return ListSessionsResponse(sessions=shown, next_cursor=more)

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        await self._close(self._find(session_id))
        return CloseSessionResponse()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """What the SDK does not route; see UNROUTED in json_lines.py."""
        if method not in UNROUTED:
            raise RequestError.method_not_found(f"_{method}")
        await self.delete_session(DeleteSessionRequest.model_validate(params).session_id)
        return {}

    async def delete_session(self, session_id: str) -> None:
        """Delete a saved session, open or not; one that is not there is deleted already."""
        if opened := self._sessions.get(_check_id(session_id)):
            await self._close(opened)
        settings = await self._work(self._make_settings, Path.cwd(), ())
        store = Factory(settings).make_store()
        if store.journal_path(session_id).exists():
            await self._work(store.delete, session_id)

    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> PromptResponse:
        opened = self._find(session_id)
        cancels = opened.cancels
        while opened.running:
            if not opened.is_cancelled:
                raise RequestError(INVALID_PARAMS, "This session answers another prompt. Cancel that one first.")
            await asyncio.wait([opened.running])
        if opened.cancels != cancels:  # this one, while it waited for the end of the last one
            return PromptResponse(stop_reason="cancelled")
        work = self._read_prompt(opened, prompt)
        opened.begin()
        opened.running = asyncio.ensure_future(self._work(work))
        try:
            reason = await opened.running
        finally:
            opened.running = None
        return PromptResponse(stop_reason=reason, usage=_report_usage(opened))

    async def cancel(self, session_id: str, **_: Any) -> None:
        if opened := self._sessions.get(session_id):
            opened.cancel()

    async def set_session_mode(self, mode_id: str, session_id: str, **_: Any) -> SetSessionModeResponse:
        self._switch_mode(self._find(session_id), mode_id)
        await self._announce(self._find(session_id))
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: Any, **_: Any
    ) -> SetSessionConfigOptionResponse:
        opened = self._find(session_id)
        if config_id == choices.MODE:
            self._switch_mode(opened, str(value))
            await self._announce(opened)
        elif config_id == choices.MODEL:
            opened.switch_model(await self._work(locate_model, opened.settings, str(value)))
        else:
            raise RequestError(INVALID_PARAMS, f"There is no option {config_id}; there are mode and model.")
        return SetSessionConfigOptionResponse(config_options=self._show_choices(opened)["config_options"])

    async def close_all(self) -> None:
        """End all turns and sessions: the editor is gone."""
        for opened in list(self._sessions.values()):
            await self._close(opened)
        self._threads.shutdown(wait=True)

    # What the methods share

    async def _work(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run it in a thread. Raises RequestError for what goes wrong, in words for the editor's user."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        except BotError as error:
            raise _explain(error) from error

    async def _open_settings(
        self, cwd: str, mcp_servers: Any, additional_directories: Sequence[str] | None
    ) -> Settings:
        added = additional_directories or ()
        for folder in (cwd, *added):
            if not os.path.isabs(folder):  # noqa: PTH117 - of another system it may be
                raise RequestError(INVALID_PARAMS, f"The folder of a session is an absolute path, and not {folder!r}.")
        try:
            rows = choices.convert_mcp_servers(mcp_servers)
        except ValueError as error:
            raise RequestError(INVALID_PARAMS, f"mcpServers: {error}.") from error
        return await self._work(self._find_settings, Path(cwd), rows, added)

    def _find_settings(self, folder: Path, mcp_rows: tuple[dict[str, Any], ...], added: Sequence[str]) -> Settings:
        """The settings of a session, which lead to a server that answers and name its model. Raises BotError."""
        settings = self._make_settings(folder, added)
        tools = replace(settings.tools, mcp=(*settings.tools.mcp, *mcp_rows))
        return find_server(replace(settings, tools=tools))

    async def _reopen(
        self, cwd: str, session_id: str, mcp_servers: Any, additional_directories: Sequence[str] | None
    ) -> tuple[EditorSession, Sequence[str]]:
        """Open a saved session, which may be open here already, and notices about it.

        One that holds nothing yet stays as it is.
        """
        if opened := self._sessions.get(_check_id(session_id)):
            if not opened.is_saved:
                return opened, ()
            await self._close(opened)
        settings = await self._open_settings(cwd, mcp_servers, additional_directories)
        factory = Factory(settings)
        session, notices = await self._work(
            factory.make_store().reopen, session_id, factory.make_system_messages(), settings.root
        )
        return await self._add(settings, session), notices

    async def _add(self, settings: Settings, session: Session) -> EditorSession:
        editor = Editor(self._client, self._abilities)
        opened = EditorSession(settings, session, editor, lambda session: editor.run(self._announce(session)).result())
        self._sessions[opened.id] = opened
        self._models[opened.id] = await self._work(choices.list_models, settings)
        asyncio.get_running_loop().call_soon(self._start, opened)
        return opened

    def _start(self, opened: EditorSession) -> None:
        """After the answer that names the session: an editor drops updates of one that it does not know."""

        async def show_commands() -> None:
            skills = await self._work(Factory(opened.settings).load_skills)
            with suppress(ConnectionError):
                await self._client.session_update(opened.id, choices.show_commands(skills))

        task = asyncio.ensure_future(show_commands())
        self._tasks.add(task)  # the event loop holds none
        task.add_done_callback(self._tasks.discard)

    def _read_prompt(self, opened: EditorSession, prompt: Sequence[Any]) -> Callable[[], StopReason]:
        """What to do for a prompt: to run a command of ours, or to answer a message."""
        try:
            message = read_prompt(prompt, opened.settings.root)
            if not message.blocks and (command := parse_command(message.text)):
                return partial(opened.run, command)
        except (ValueError, BotError) as error:
            raise RequestError(INVALID_PARAMS, f"The prompt cannot be used: {error}.") from error
        return partial(opened.answer, self._expand(opened, message))

    def _expand(self, opened: EditorSession, message: UserMessage) -> UserMessage:
        """The message that `/NAME ARGUMENTS` stands for, where it is a skill or a command of the user."""
        if message.blocks or not message.text.startswith("/"):
            return message
        if expanded := Factory(opened.settings).load_skills().expand(message.text):
            return UserMessage(expanded, typed=message.text)
        return message

    def _find(self, session_id: str) -> EditorSession:
        if session_id not in self._sessions:
            raise RequestError(INVALID_PARAMS, f"There is no open session {session_id}.")
        return self._sessions[session_id]

    def _switch_mode(self, opened: EditorSession, mode: str) -> None:
        if mode not in MODES:
            raise RequestError(INVALID_PARAMS, f"There is no mode {mode}; there are {', '.join(MODES)}.")
        opened.switch_mode(mode)

    async def _announce(self, opened: EditorSession) -> None:
        """Tell the editor the mode in force, in both ways that editors know."""
        options = self._show_choices(opened)["config_options"]
        for update in (
            CurrentModeUpdate(session_update="current_mode_update", current_mode_id=opened.mode),
            ConfigOptionUpdate(session_update="config_option_update", config_options=options),
        ):
            await self._client.session_update(opened.id, update)

    def _show_choices(self, opened: EditorSession) -> dict[str, Any]:
        options = choices.show_options(opened.settings, self._models.get(opened.id, ()))
        return {"modes": choices.show_modes(opened.mode), "config_options": options}

    async def _close(self, opened: EditorSession) -> None:
        self._sessions.pop(opened.id, None)
        opened.cancel()
        await self._work(opened.close)


def _check_id(session_id: str) -> str:
    if not SESSION_ID.fullmatch(session_id):
        raise RequestError(INVALID_PARAMS, f"{session_id!r} is not the id of a session.")
    return session_id


def _explain(error: BotError) -> RequestError:
    """Without a server or a key, the editor shows how to name one."""
    data = {"hint": error.hint} if error.hint else None
    if isinstance(error, SETUP_ERRORS):
        return RequestError(AUTH_REQUIRED, f"{error.message}\n{SETUP_ADVICE}", data)
    code = INVALID_PARAMS if isinstance(error, ConfigError) else INTERNAL_ERROR
    return RequestError(code, str(error), data)


def _report_usage(opened: EditorSession) -> ReportedUsage | None:
    usage = opened.usage
    if not (usage.input_tokens or usage.output_tokens):
        return None
    return ReportedUsage(
        total_tokens=usage.input_tokens + usage.output_tokens,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_read_tokens=usage.cached_tokens or None,
    )
