"""A web endpoint that streams answers to many users at once, and remembers each user's conversation.

Needs `pip install "vllm-bot[async]" starlette uvicorn`. Run it with `uvicorn web_endpoint:app`, and ask it with
`curl -N 'http://localhost:8000/ask?user=ann&question=hello'`. Where a user goes away, the model stops.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from vllm_bot import AsyncServer, BotError, Conversation, TextDelta, tool

URL = os.environ.get("MODEL_SERVER", "http://localhost:8000/v1")
conversations: dict[str, Conversation] = {}


@tool(risk="low")
async def weather(city: str) -> str:
    """The weather in a city, now."""
    await asyncio.sleep(0)
    return f"{city}: rain, 7 degrees"


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with AsyncServer(URL) as server:
        app.state.server = server
        yield


async def ask(request: Request) -> Response:
    server: AsyncServer = request.app.state.server
    conversation = conversations.setdefault(request.query_params["user"], Conversation())
    agent = server.agent([weather], conversation=conversation)

    async def stream() -> AsyncIterator[str]:
        try:
            async with agent.ask(request.query_params["question"]) as run:
                async for event in run:
                    if isinstance(event, TextDelta):
                        yield event.text
        except BotError as error:
            yield f"\n{error}"

    return StreamingResponse(stream(), media_type="text/plain")


async def export(request: Request) -> Response:
    return JSONResponse(conversations[request.query_params["user"]].to_dict())


app = Starlette(routes=[Route("/ask", ask), Route("/export", export)], lifespan=lifespan)
