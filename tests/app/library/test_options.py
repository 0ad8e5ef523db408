"""The options of an agent, as its user is told of them."""

import pydoc

import pytest

from src import Agent, AsyncServer, Server
from src.app.library.options import Sampling
from tests.each import check_rows

WRONG = """
from vllm_bot import Agent, Answer, AsyncServer, Request, Server


async def approve(request: Request) -> Answer:
    return Answer(True)


Agent.connect("http://gpu:8000/v1", "tiny", approve=approve)
Server().agent((), "tiny", systm="Be brief.")
Server().agent(timeout="10")
AsyncServer().agent(approve=approve, temperature="hot")
AsyncServer().agent((), "tiny", approve=approve, temperature=0, timeout=None)
"""


@check_rows("function", [Agent.connect, Server.agent, AsyncServer.agent])
def test_help_names_them_with_their_defaults(function):
    told = pydoc.render_doc(function, renderer=pydoc.plaintext)
    assert "max_tool_turns: 'int' = 10" in told
    assert "temperature: 'float | None' = None" in told


@pytest.mark.thorough
def test_a_type_checker_knows_them(list_type_errors):
    lines = [error.split(": error: ") for error in list_type_errors(WRONG)]
    assert [place for place, _ in lines] == ["use.py:9", "use.py:10", "use.py:11", "use.py:12"]
    assert 'did you mean "system"' in lines[1][1]


def test_traces_are_told_how_the_model_answers_and_nothing_else():
    with (
        Server("http://127.0.0.1:9/v1") as server,
        server.agent(model="m", system="Be brief.", temperature=0.5) as agent,
    ):
        told = agent.request_settings
    assert set(told) == {"stream", *Sampling.__annotations__}
    assert (told["temperature"], told["top_p"]) == (0.5, None)
