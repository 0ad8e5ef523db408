"""One model on asyncio, as model.py. It needs aiohttp: `pip install "vllm-bot[async]"`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from ..config import Settings
from ..errors import ConfigError
from ..model import ModelCore
from ..transport.async_driver import drive_async, run_async
from ..transport.async_http import AsyncClient
from ..types.events import ModelEvent
from ..types.messages import Message, ToolChoice, ToolDefinition
from .endpoint import DEFAULT_URL, fill_client, make_core, make_settings, take_only
from .model import BaseModel


def make_async_client(settings: Settings, within: float | None = None, **more: Any) -> AsyncClient:
    """A client of asyncio; the arguments as in fill_client. Raises ConfigError."""
    if settings.vllm.provider == "copilot":
        hint = "Use Server, Agent or Model; for `vllm-bot serve`, name the server that the CLI would use."
        raise ConfigError("The provider copilot answers in threads only, not on asyncio.", hint)
    return fill_client(AsyncClient, settings, within, **more)


class AsyncModel(BaseModel):
    """A model that answers conversations, one at a time. One that belongs to a server uses its client."""

    @classmethod
    async def connect(
        cls,
        base_url: str = DEFAULT_URL,
        model: str = "",
        *,
        api_key: str = "",
        provider: str = "vllm",
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> AsyncModel:
        """See Model.connect."""
        settings = make_settings(
            base_url, provider, model=model, api_key=api_key, temperature=temperature, max_tokens=max_tokens
        )
        connected = cls(make_async_client(settings), make_core(settings, model, is_name_fixed=True))
        if not model:
            try:
                names = await run_async(connected.core.server.find_models(), connected._client)
                connected.core.name = take_only(names, base_url)
            except BaseException:
                await connected.close()
                raise
        return connected

    def __init__(self, client: AsyncClient, core: ModelCore, check_server: Callable[[], object] | None = None) -> None:
        super().__init__(core, check_server)
        self._client = client

    def respond(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition] = (),
        tool_choice: ToolChoice = "auto",
    ) -> AsyncGenerator[ModelEvent, None]:
        """The model's next turn; the last event is Completed. Raises BotError, and CancelledError where its task is
        cancelled. No call of a turn that raises may be run."""
        return drive_async(self._start_turn(messages, tools, tool_choice), self._client)

    async def close(self) -> None:
        """Close the connections, unless they are those of a server."""
        self._is_closed = True
        if not self._check_server:
            await self._client.close()

    async def __aenter__(self) -> AsyncModel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
