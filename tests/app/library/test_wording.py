"""The library advises arguments of its own, and nothing of the command line."""

import ast
import copy
import re

import pytest

from src import ConfigError, Notice, Server
from src.app.library.wording import reword
from src.errors import CHECK_ADDRESS, Advice, BotError, ContextTooLong, Unauthorized
from tests.doubles import ScriptedServer
from tests.sources import SOURCES, SRC, is_string, nodes

OF_THE_COMMAND_LINE = re.compile(
    r"(?<![\w/.])(vllm|agent|security|review|tools)\.[a-z_]{3,}|(?<![\w/])/(compact|new|undo|model)\b"
    r"|config\.json|VLLM_|--(model|yes|allow)\b|`vllm-bot"
)
ROOMS = ("agent/", "model/", "negotiation/", "providers/", "transport/", "errors.py")
NO_ADVICE = {
    "agent.max_tool_turns",  # a LimitHit, whose key gives the argument its name
    "not sent back: vllm.send_thoughts is never",  # a line of /status
}


def find_advice(path):
    """The calls of Advice in a module, and the texts of both of their arguments."""
    for node in nodes(path):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Advice":
            yield node, *(" ".join(each.value for each in ast.walk(text) if is_string(each)) for text in node.args)


def list_files():
    """The modules of the rooms that an agent's errors and notices come from."""
    return [path for path in SOURCES if path.relative_to(SRC).as_posix().startswith(ROOMS)]


def test_a_text_that_names_settings_or_commands_says_the_same_for_a_program():
    bare = set()
    for path in list_files():
        others = [call for call, *_ in find_advice(path)]
        others += [node for node in nodes(path) if isinstance(node, ast.Expr) and is_string(node.value)]  # docstrings
        within = {id(each) for other in others for each in ast.walk(other)}
        texts = [node.value for node in nodes(path) if is_string(node) and id(node) not in within]
        bare |= {text for text in texts if "\n" not in text and OF_THE_COMMAND_LINE.search(text)}
    assert bare == NO_ADVICE


def test_what_is_said_for_a_program_names_nothing_of_the_command_line():
    advice = [texts for path in list_files() for _, *texts in find_advice(path)]
    assert len(advice) > 25
    assert [library for _, library in advice if OF_THE_COMMAND_LINE.search(library)] == []


def test_advice_is_copied_and_continued_with_both_texts():
    advice = copy.deepcopy(Advice("Check vllm.base_url.", "Check `base_url`.") + " It is http.")
    assert (advice, advice.library) == ("Check vllm.base_url. It is http.", "Check `base_url`. It is http.")


@pytest.mark.parametrize(
    ("hint", "library"), [(CHECK_ADDRESS, "Check `base_url`. So."), ("No.", "No. So."), ("", "So.")]
)
def test_what_is_added_to_a_hint_is_for_all(hint, library):
    error = BotError("Gone.", hint)
    error.add_hint("So.")
    assert reword(error.hint) == library


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
