"""One model on asyncio, as model.py. It needs aiohttp: `pip install "vllm-bot[async]"`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from ..transport.async_driver import drive_async, run_async
from ..transport.async_http import AsyncClient
from ..types.events import ModelEvent
from ..types.messages import Message, ToolChoice, ToolDefinition
from .endpoint import DEFAULT_URL, check_async, make_client_options, make_model_options, make_settings, take_only
from .model import BaseModel


class AsyncModel(BaseModel):
    """A model that answers conversations, one at a time; models may share a client. `options`: see make_core."""

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
        options = make_model_options(settings, model) | {"is_name_fixed": True}
        check_async(provider)
        connected = cls(AsyncClient(**make_client_options(settings)), model, **options)
        if not model:
            try:
                core, client = connected._core, connected._client
                core.name = take_only(await run_async(core.server.find_models(), client), base_url)
            except BaseException:
                await connected.close()
                raise
        return connected

    def __init__(self, client: AsyncClient, name: str, **options: Any) -> None:
        super().__init__(client.base_url, name, **options)
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
        """Close the client's connections."""
        await self._client.close()

    async def __aenter__(self) -> AsyncModel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
