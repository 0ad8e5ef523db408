"""The library advises arguments of its own, and nothing of the command line."""

import re

import pytest

from src import ConfigError, Notice, Server
from src.app.library.wording import reword
from src.errors import BotError, ContextTooLong, Unauthorized
from tests.doubles import ScriptedServer
from tests.sources import SOURCES, SRC, is_string, nodes

OF_THE_COMMAND_LINE = re.compile(
    r"(?<![\w/.])(vllm|agent|security|review|tools)\.[a-z_]{3,}|(?<![\w/])/(compact|new|undo|model)\b"
    r"|config\.json|VLLM_|--(model|yes|allow)\b|`vllm-bot"
)
ROOMS = ("agent", "model", "providers", "transport")
NO_ADVICE = {  # the rooms' own names of modules, and keys that are no text for a user
    "vllm.tokens", "agent.max_tool_turns",
}  # fmt: skip


def list_texts():
    """The strings of the rooms that an agent's errors and notices come from, but for docstrings."""
    for path in SOURCES:
        if path.relative_to(SRC).parts[0] in ROOMS:
            for node in nodes(path):
                if is_string(node) and "\n" not in node.value:
                    yield node.value


def test_a_text_that_names_settings_or_commands_is_reworded():
    advice = {text for text in list_texts() if OF_THE_COMMAND_LINE.search(text)}
    assert len(advice) > 15
    assert [text for text in sorted(advice) if OF_THE_COMMAND_LINE.search(reword(text))] == []


def raised_by(agent):
    with pytest.raises(BotError) as caught:
        agent.answer("Hi")
    return caught.value


@pytest.mark.parametrize(
    ("refusal", "kind", "said"),
    [
        ((401, {"error": {"message": "no"}}), Unauthorized, "Pass `api_key` to the server"),
        (
            (400, {"error": {"message": "This model's maximum context length is 10 tokens."}}),
            ContextTooLong,
            "Ask for less at once",
        ),
    ],
)
def test_an_error_names_the_argument(refusal, kind, said):
    with ScriptedServer(refusal, refusal) as scripted, Server(scripted.url) as server:
        error = raised_by(server.agent())
    assert isinstance(error, kind)
    assert said in str(error)


def test_a_notice_names_the_argument():
    with ScriptedServer([{"content": "Hi"}, {"finish": "length"}]) as scripted, Server(scripted.url) as server:
        (notice,) = [event for event in server.agent().ask("Hi") if isinstance(event, Notice)]
    assert "`max_tokens`" in notice.text
    assert "vllm." not in notice.text


def test_a_server_that_is_not_there():
    with Server("http://127.0.0.1:9/v1", retries=0) as server:
        assert not OF_THE_COMMAND_LINE.search(str(raised_by(server.agent())))


def test_of_several_models_one_is_named_by_the_argument():
    with (
        ScriptedServer(models=("a", "b")) as scripted,
        Server(scripted.url) as server,
        pytest.raises(ConfigError, match="model="),
    ):
        server.agent().answer("Hi")
