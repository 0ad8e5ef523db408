"""A notebook: each cell begins with `# %%`, and can be run again."""

# %%
from dataclasses import dataclass

from vllm_bot import Agent, Conversation, tool

URL = "http://localhost:8000/v1"


# %%
@tool(risk="low")
def read(city: str) -> str:
    """Read the thermometer of a city."""
    return f"{city}: 7 degrees"


# %%
@dataclass
class Reading:
    city: str
    degrees: int


agent = Agent.connect(URL, tools=[read])
result = agent.answer("How warm is it in Oslo?", schema=Reading)
print(result.value.city, result.value.degrees)

# %%
stored = agent.conversation.to_json()
agent.close()
again = Conversation.from_json(stored)
print(len(again), "messages;", again.usage.output_tokens, "tokens")
