"""One task with two tools, done by an agent library: `sdk_agents.py LIBRARY BASE_URL QUESTION`, run with its own Python.

BASE_URL ends with /v1. Each library streams over another API or way: LangChain chat completions streamed, openai-agents
Responses streamed, pydantic-ai chat completions whole. The last line of the output is the answer.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODEL, KEY = "tiny", "none"


def run_command(command: str) -> str:
    """Run a command of the shell and return its output."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    return f"exit code {done.returncode}\n{done.stdout}"


def write_file(path: str, content: str) -> str:
    """Write a text file."""
    Path(path).write_text(content, encoding="utf-8")
    return "written"


TOOLS: list[Callable[..., str]] = [run_command, write_file]


def ask_langchain(base_url: str, question: str) -> str:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=base_url, api_key=KEY, streaming=True)
    state: Any = create_agent(model, TOOLS).invoke({"messages": [{"role": "user", "content": question}]})
    return str(state["messages"][-1].content)


def ask_openai_agents(base_url: str, question: str) -> str:
    from agents import Agent, Runner, function_tool, set_default_openai_client, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(disabled=True)

    async def run() -> str:
        set_default_openai_client(AsyncOpenAI(base_url=base_url, api_key=KEY))
        agent = Agent(name="writer", model=MODEL, tools=[function_tool(each) for each in TOOLS])
        result = Runner.run_streamed(agent, question)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    return asyncio.run(run())


def ask_pydantic_ai(base_url: str, question: str) -> str:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=base_url, api_key=KEY))
    return str(Agent(model, tools=TOOLS).run_sync(question).output)


LIBRARIES = {"langchain": ask_langchain, "openai-agents": ask_openai_agents, "pydantic-ai": ask_pydantic_ai}

if __name__ == "__main__":
    library, url, asked = sys.argv[1:]
    print(LIBRARIES[library](url, asked))
