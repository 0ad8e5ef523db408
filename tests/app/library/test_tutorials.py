"""Twenty programs that a library of agents is expected to make short, each in no more lines than elsewhere.

`most` is the number of lines, without blank ones and comments, that the documentation of pydantic-ai takes to show the
same behaviour. The programs and what their scripted model says are our own.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest

import src
from src.testing import ScriptedServer, Turn, call
from tests.each import check_rows


class Program(NamedTuple):
    """`turns`: what the model says. `prints`: what the program prints then."""

    most: int
    turns: tuple[Turn, ...]
    text: str
    prints: str


def tell(messages) -> str:
    """Say what the last tool returned."""
    return f"It said {messages[-1]['content']}"


PROGRAMS = {
    "a game with a tool and the player's name": Program(
        21,
        ([call("roll"), call("name_player")], tell),
        """
import random
from vllm_bot import Agent, DependencyKey, ToolContext, tool
PLAYER = DependencyKey("player", lambda: "nobody")
@tool(risk="low")
def roll() -> int:
    '''Roll a die.'''
    return random.randint(1, 6)
@tool(risk="low")
def name_player(ctx: ToolContext) -> str:
    '''The name of the player.'''
    return ctx.get(PLAYER)
agent = Agent.connect(URL, tools=[roll, name_player], system="Roll, and name the player.", overrides={PLAYER: lambda: "Ann"})
print(agent.answer("I say 4."))
""",
        "It said Ann",
    ),
    "the same tools in two agents": Program(
        33,
        (call("name_player"), tell, call("name_player"), tell),
        """
from vllm_bot import DependencyKey, Server, ToolContext, tool
PLAYER = DependencyKey("player", lambda: "nobody")
@tool(risk="low")
def name_player(ctx: ToolContext) -> str:
    '''The name of the player.'''
    return ctx.get(PLAYER)
with Server(URL) as server:
    for name in ("Ann", "Bob"):
        agent = server.agent([name_player], overrides={PLAYER: lambda name=name: name})
        print(agent.answer("Who plays?"))
""",
        "It said Ann\nIt said Bob",
    ),
    "tools that return times, objects and pictures": Program(
        28,
        ([call("tell_time"), call("find_user"), call("draw")], lambda messages: "Seen."),
        """
from datetime import datetime
from pydantic import BaseModel
from vllm_bot import Agent, Media, tool
class User(BaseModel):
    name: str
    age: int
@tool(risk="low")
def tell_time() -> datetime:
    '''The time.'''
    return datetime(2026, 1, 2)
@tool(risk="low")
def find_user() -> User:
    '''The user.'''
    return User(name="Ann", age=30)
@tool(risk="low")
def draw() -> Media:
    '''A picture.'''
    return Media(b"png", "image/png")
result = Agent.connect(URL, tools=[tell_time, find_user, draw]).answer("Look.")
for each in result.calls:
    print(each.result.text)
""",
        '2026-01-02T00:00:00\n{"name": "Ann", "age": 30}\n[image of type image/png, not shown]',
    ),
    "descriptions of parameters from the docstring": Program(
        14,
        (),
        """
from vllm_bot import tool
@tool(risk="low")
def bake(flour: int, fruit: dict[str, list[float]]) -> str:
    '''Bake a cake.

    Args:
        flour: grams of it
        fruit: weights by kind
    '''
    return "cake"
for name, schema in bake.definition.parameters["properties"].items():
    print(name, schema["description"])
""",
        "flour grams of it\nfruit weights by kind",
    ),
    "an answer as an object": Program(
        9,
        ('{"city": "Oslo", "country": "Norway"}',),
        """
from pydantic import BaseModel
from vllm_bot import Agent
class Place(BaseModel):
    city: str
    country: str
result = Agent.connect(URL).answer("Where is it?", schema=Place)
print(result.value)
print(result.usage.output_tokens > 0)
""",
        "city='Oslo' country='Norway'\nTrue",
    ),
    "an object or a text": Program(
        19,
        ('"Which unit?"', '{"width": 1, "unit": "cm"}'),
        """
from pydantic import BaseModel
from vllm_bot import Agent
class Box(BaseModel):
    width: int
    unit: str
agent = Agent.connect(URL, system="Read the size of a box, or ask for what is missing.")
print(agent.answer("It is 1 wide.", schema=Box | str).value)
print(agent.answer("It is 1 cm wide.", schema=Box | str).value)
""",
        "Which unit?\nwidth=1 unit='cm'",
    ),
    "one of two lists": Program(
        10,
        ('["red", "blue"]', "[1, 2]"),
        """
from vllm_bot import Agent
agent = Agent.connect(URL, system="Find the colours or the sizes.")
print(agent.answer("red, blue", schema=list[str] | list[int]).value)
print(agent.answer("one, two", schema=list[str] | list[int]).value)
""",
        "['red', 'blue']\n[1, 2]",
    ),
    "a function of the text": Program(
        9,
        ("Two words.",),
        """
from vllm_bot import Agent
print(Agent.connect(URL).answer("Say something.").text.split())
""",
        "['Two', 'words.']",
    ),
    "the messages of an answer": Program(
        5,
        ("A joke.",),
        """
from vllm_bot import Agent
agent = Agent.connect(URL, system="Be brief.")
print(agent.answer("A joke?"))
print([type(message).__name__ for message in agent.conversation])
""",
        "A joke.\n['SystemMessage', 'UserMessage', 'Response']",
    ),
    "the messages while an answer comes": Program(
        8,
        ("A joke.",),
        """
from vllm_bot import Agent, TextDelta
agent = Agent.connect(URL, system="Be brief.")
with agent.ask("A joke?") as run:
    print("".join(event.text for event in run if isinstance(event, TextDelta)))
print(len(agent.conversation))
""",
        "A joke.\n3",
    ),
    "a second question in the same conversation": Program(
        7,
        ("A joke.", lambda messages: f"I said: {messages[-2]['content']}"),
        """
from vllm_bot import Agent
agent = Agent.connect(URL, system="Be brief.")
print(agent.answer("A joke?"))
print(agent.answer("Explain."))
print(len(agent.conversation))
""",
        "A joke.\nI said: A joke.\n5",
    ),
    "an approval that ends the run and is given later": Program(
        38,
        ([call("update", path="a", text="x"), call("delete", path="b")], tell),
        """
from vllm_bot import LATER, Agent, Answer, tool
@tool
def update(path: str, text: str) -> str:
    '''Update a file.'''
    return f"{path} is updated"
@tool
def delete(path: str) -> str:
    '''Delete a file.'''
    return f"{path} is deleted"
def approve(request):
    return LATER if request.call.name == "delete" or request.call.arguments["path"] == ".env" else True
agent = Agent.connect(URL, tools=[update, delete], approve=approve)
result = agent.answer("Update a, delete b.")
print([(each.name, each.arguments["path"]) for each in result.pending])
answers = {each.id: Answer(False, "No deleting.") for each in result.pending}
print(agent.resume(answers).finish())
""",
        '[(\'delete\', \'b\')]\nIt said {"error":"Not run: No deleting.","denied":true}',
    ),
    "an approval that is given at once": Program(
        36,
        (call("delete", path="b"), tell),
        """
from vllm_bot import Agent, Answer, tool
@tool
def delete(path: str) -> str:
    '''Delete a file.'''
    return f"{path} is deleted"
def approve(request):
    return Answer(False, "No deleting.") if request.call.name == "delete" else True
print(Agent.connect(URL, tools=[delete], approve=approve).answer("Delete b."))
""",
        'It said {"error":"Not run: No deleting.","denied":true}',
    ),
    "an agent as a tool of another": Program(
        24,
        (call("invent", count=2), '["a joke", "another"]', tell),
        """
from vllm_bot import Server, tool
server = Server(URL)
@tool(risk="low")
def invent(count: int) -> list[str]:
    '''Invent jokes.'''
    return server.agent().answer(f"Invent {count} jokes.", schema=list[str]).value
agent = server.agent([invent], system="Choose the best of several jokes.", max_tool_turns=5)
result = agent.answer("A joke?")
print(result)
print(result.usage.input_tokens > 0)
""",
        'It said ["a joke","another"]\nTrue',
    ),
    "two agents that share a connection": Program(
        45,
        (call("invent", count=2), call("fetch", count=2), '["2 with key k"]', tell),
        """
from dataclasses import dataclass
from vllm_bot import DependencyKey, Server, ToolContext, tool
@dataclass
class Source:
    key: str
SOURCE = DependencyKey("source", lambda: Source("k"))
server = Server(URL)
@tool(risk="low")
def fetch(count: int, ctx: ToolContext) -> str:
    '''Fetch jokes.'''
    return f"{count} with key {ctx.get(SOURCE).key}"
@tool(risk="low")
def invent(count: int) -> list[str]:
    '''Invent jokes.'''
    return server.agent([fetch]).answer(f"Fetch {count} jokes.", schema=list[str]).value
print(server.agent([invent], system="Choose the best joke.").answer("A joke?"))
""",
        'It said ["2 with key k"]',
    ),
    "one agent behind the other, until each has its answer": Program(
        73,
        (call("search", to="Oslo"), '{"number": "AK456"}', '{"reason": "which row?"}', '{"row": 1, "seat": "A"}'),
        """
from typing import Annotated, Literal
from pydantic import BaseModel, Field
from vllm_bot import Server, tool
class Flight(BaseModel):
    number: str
class Failed(BaseModel):
    reason: str
class Seat(BaseModel):
    row: int = Field(ge=1, le=30)
    seat: Literal["A", "B", "C"]
@tool(risk="low")
def search(to: str) -> Flight:
    '''Search a flight.'''
    return Flight(number="AK456")
with Server(URL) as server:
    flight = server.agent([search], max_tool_turns=15).answer("To Oslo.", schema=Flight | Failed).value
    agent, answers = server.agent(system="Read the seat."), iter(["a window", "1A"])
    while not isinstance(seat := agent.answer(next(answers), schema=Seat | Failed).value, Seat):
        print(seat.reason)
print(flight, seat)
""",
        "which row?\nnumber='AK456' row=1 seat='A'",
    ),
    "a prompt, a tool and a judge that use one service": Program(
        41,
        (call("find", subject="cats"), "A dog.", lambda messages: f"A cat, as {messages[-1]['content']}"),
        """
from vllm_bot import DependencyKey, Server, ToolContext, tool
SERVICE = {"prompt": "Be funny.", "cats": "Cats sleep.", "wanted": "cat"}
KEY = DependencyKey("service", lambda: SERVICE)
@tool(risk="low")
def find(subject: str, ctx: ToolContext) -> str:
    '''Find material for a joke.'''
    return ctx.get(KEY)[subject]
with Server(URL) as server:
    agent = server.agent([find], system=SERVICE["prompt"])
    answer = agent.answer("A joke?").text
    while SERVICE["wanted"] not in answer:
        answer = agent.answer(f"no {SERVICE['wanted']} is in it").text
print(answer)
""",
        "A cat, as no cat is in it",
    ),
    "other dependencies in a test": Program(
        30,
        (call("look_up"), tell),
        """
from vllm_bot import Agent, DependencyKey, ToolContext, tool
DATABASE = DependencyKey("database", lambda: "the real one")
@tool(risk="low")
def look_up(ctx: ToolContext) -> str:
    '''Look it up.'''
    return ctx.get(DATABASE)
def run_application(**options):
    return str(Agent.connect(URL, tools=[look_up], **options).answer("Look it up."))
print(run_application(overrides={DATABASE: lambda: "a double"}))
""",
        "It said a double",
    ),
    "an agent that a tool gets as its dependency": Program(
        20,
        (call("invent"), '["a joke"]', tell),
        """
from vllm_bot import DependencyKey, Server, ToolContext, tool
server = Server(URL)
FACTORY = DependencyKey("factory", lambda: server.agent(system="Invent jokes."))
@tool(risk="low")
def invent(ctx: ToolContext) -> str:
    '''Invent jokes.'''
    return ", ".join(ctx.get(FACTORY).answer("Invent one.", schema=list[str]).value)
print(server.agent([invent]).answer("A joke?"))
""",
        "It said a joke",
    ),
    "a yes or no that follows from a tool": Program(
        19,
        (call("spin", square=18), "true", call("spin", square=5), "false"),
        """
from vllm_bot import Agent, tool
WINNER = 18
@tool(risk="low")
def spin(square: int) -> str:
    '''Whether the square wins.'''
    return "wins" if square == WINNER else "loses"
agent = Agent.connect(URL, tools=[spin], system="Spin, and say whether the customer has won.")
print(agent.answer("Eighteen.", schema=bool).value)
print(agent.answer("Five.", schema=bool).value)
""",
        "True\nFalse",
    ),
}


def test_there_are_twenty():
    assert len(PROGRAMS) == 20


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_prints_what_is_expected(name, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "vllm_bot", src)
    program = PROGRAMS[name]
    with ScriptedServer(*program.turns) as scripted:
        exec(compile(program.text, name, "exec", dont_inherit=True), {"URL": scripted.url, "__name__": "program"})
    assert capsys.readouterr().out.strip() == program.prints
    assert scripted.turns == []


@check_rows("name", PROGRAMS)
def test_it_takes_no_more_lines(name):
    program = PROGRAMS[name]
    assert len([line for line in program.text.splitlines() if line.strip()]) <= program.most
