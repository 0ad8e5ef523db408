"""A weather bot: a tool that looks, a tool that asks before it acts, and a database that both share.

Run it with `python weather_bot.py http://localhost:8000/v1`.
"""

import sqlite3
import sys
from collections.abc import Iterator

from vllm_bot import Answer, CallDenied, DependencyKey, Request, Server, TextDelta, ToolContext, tool


def open_database() -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("CREATE TABLE weather (city TEXT, sky TEXT)")
    database.execute("INSERT INTO weather VALUES ('Oslo', 'rain, 7 degrees')")
    yield database
    database.close()


DATABASE = DependencyKey("database", open_database, cached="run")


@tool(risk="low")
def look_up_weather(city: str, ctx: ToolContext) -> str:
    """The weather in a city, now."""
    row = ctx.get(DATABASE).execute("SELECT sky FROM weather WHERE city = ?", (city,)).fetchone()
    return f"{city}: {row[0]}" if row else f"There is no weather of {city}."


@tool
def send_warning(to: str, text: str, ctx: ToolContext) -> str:
    """Send a warning by mail."""
    ctx.logger.info("to %s: %s", to, text)
    return "sent"


def approve(request: Request) -> Answer:
    to = str(request.call.arguments["to"])
    if to.endswith("@example.org"):
        return Answer(True)
    return Answer(False, "Warnings go to addresses of example.org only.")


def main(url: str) -> None:
    with Server(url) as server:
        agent = server.agent([look_up_weather, send_warning], approve=approve)
        for event in agent.ask("Warn everybody@example.org if it rains in Oslo."):
            if isinstance(event, TextDelta):
                print(event.text, end="", flush=True)
            elif isinstance(event, CallDenied):
                print(f"\n({event.call.name} did not run: {event.reason})")
        print(f"\n{agent.usage.output_tokens} tokens")


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["http://localhost:8000/v1"])
