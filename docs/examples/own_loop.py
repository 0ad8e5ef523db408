"""A loop of one's own, which makes the model look before it answers.

Run it with `python own_loop.py http://localhost:8000/v1`.
"""

import sys

from vllm_bot import Completed, Message, Named, Response, Server, ToolChoice, ToolResults, UserMessage, tool


@tool(risk="low")
def weather(city: str) -> str:
    """The weather in a city, now."""
    return f"{city}: rain, 7 degrees"


def main(url: str) -> None:
    messages: list[Message] = [UserMessage("Do I need an umbrella in Oslo?")]
    choice: ToolChoice = Named("weather")
    with Server(url) as server, server.model(temperature=0) as model:
        while True:
            response = Response(())
            for event in model.respond(messages, [weather.definition], choice):
                if isinstance(event, Completed):
                    response = event.response
            messages.append(response)
            if not response.requested_calls:
                break
            messages.append(ToolResults(tuple(map(weather.run, response.requested_calls))))
            choice = "auto"
    print(response.text)


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["http://localhost:8000/v1"])
