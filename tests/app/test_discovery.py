import json
import os

import pytest
from msgspec.structs import replace

from src import config
from src.app.candidates import USUAL_PORTS
from src.app.discovery import NEXT_STEPS, ServerTarget, discover, locate_model, probe_call_path
from src.app.factory import Factory
from src.cli.chat.open import format_banner
from src.config import BASE_URLS
from src.config.settings import SecuritySettings
from src.errors import ConfigError, NeverReached, ServerError
from src.negotiation import CallPath
from src.types.events import Notice
from tests.doubles import ScriptedServer

HELLO = [{"content": "H"}, {"finish": "length"}]
NO_PARSER = (400, {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice'}})


def settings(environ=None, **options):
    return config.load(
        None,
        {f"vllm.{key}": value for key, value in options.items()},
        environ or {"HOME": "/nowhere", "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]},
    )


class Run:
    """One discovery: the `target`, and the `notices` on the way to it."""

    def __init__(self, settings, choose, ports=USUAL_PORTS):
        self.notices = []
        self.target = discover(Factory(settings, lambda _: None), choose, self.notices.append, ports)


def never_choose(names):
    raise ConfigError(f"Several: {names}")


def port_of(server):
    return int(server.url.rsplit(":", 1)[1].removesuffix("/v1"))


@pytest.fixture
def unreachable_default(monkeypatch):
    """The default address is one that does not answer, whatever runs on this machine."""
    monkeypatch.setitem(BASE_URLS, "vllm", "http://localhost:9/v1")

    def default(**options):
        usual = settings(**options)
        return replace(usual, vllm=replace(usual.vllm, base_url="http://localhost:9/v1"), places={})

    return default


class TestTheModel:
    def test_a_model_that_is_named_is_taken_without_asking_anybody(self):
        named = settings(base_url="http://127.0.0.1:9/v1", model="mine")
        assert Run(named, never_choose).target == ServerTarget(named)

    def test_the_only_one_is_taken(self):
        with ScriptedServer() as server:
            target = Run(settings(base_url=server.url), never_choose).target
        assert target.model == "tiny"

    def test_an_address_that_was_completed_is_asked_once_for_its_models(self):
        with ScriptedServer() as server:
            given = server.url.removeprefix("http://").removesuffix("/v1")
            assert Run(settings(base_url=given), never_choose).target.model == "tiny"
        assert sorted(server.lists) == ["/models", "/v1/models"]

    def test_of_several_one_is_chosen(self):
        with ScriptedServer(models=("big", "small")) as server:
            target = Run(settings(base_url=server.url), lambda names: names[1]).target
        assert target.model == "small"


class TestTheServer:
    def test_without_an_answer_at_the_default_address_a_local_server_is_found(self, unreachable_default):
        with ScriptedServer() as server:
            found = port_of(server)
            run = Run(unreachable_default(), never_choose, {9: "none", found: "test"})
        target = run.target
        assert target.settings.vllm.base_url == f"http://localhost:{found}/v1"
        assert target.settings.vllm.provider == "ollama"  # it tells no version and no context, so it is no vLLM
        assert target.settings.places["vllm.base_url"] == "found on this machine"
        (notice,) = run.notices
        assert isinstance(notice, Notice)
        assert f"Using the one at http://localhost:{found}/v1" in notice.text

    def test_a_llama_cpp_server_that_is_found_is_asked_as_vllm_and_its_context_is_known(self, unreachable_default):
        with ScriptedServer(card={"owned_by": "llamacpp", "meta": {"n_ctx": 8192}}) as server:
            target = Run(unreachable_default(), never_choose, {port_of(server): "llama.cpp"}).target
        assert (target.settings.vllm.provider, target.context) == ("vllm", 8192)

    def test_the_key_is_not_sent_to_a_server_that_was_not_named(self, unreachable_default):
        with ScriptedServer() as server:
            target = Run(unreachable_default(api_key="sekret"), never_choose, {port_of(server): "test"}).target
        assert target.settings.vllm.api_key == ""

    @pytest.mark.parametrize(
        ("given", "is_sent"),
        [
            ({}, False),  # config.json of this folder, which has the default address, does not count
            ({"base_url": "http://localhost:8000/v1"}, True),
            ({"base_url": "http://gpu:8000/v1"}, True),
        ],
    )
    def test_the_key_goes_to_a_default_address_only_if_it_was_named(self, given, is_sent):
        target = settings(api_key="sekret", model="tiny", **given)
        assert target.key_to_send == ("sekret" if is_sent else "")
        notices = Run(target, never_choose).notices
        assert any("The API key is not sent" in notice.text for notice in notices) == (not is_sent)

    @pytest.mark.parametrize(
        ("main", "is_told"), [({}, True), ({"vllm": {"base_url": "http://main:1/v1"}}, False)], ids=str
    )
    def test_a_key_that_goes_to_none_of_the_servers_is_told(self, tmp_path, main, is_told):
        file = tmp_path / "config.json"
        file.write_text(json.dumps({"servers": {"one": {"base_url": "http://one:1/v1", "model": "m"}}, **main}))
        target = config.load(file, {"vllm.model": "one"}, {"HOME": "/nowhere", "VLLM_API_KEY": "sekret"})
        notices = [each.text for each in Run(target, never_choose).notices]
        told = "VLLM_API_KEY goes to no server, because vllm has no address."
        assert notices == [f"{told} The key of one is servers.one.api_key."] * is_told
        assert target.vllm.api_key == ""

    def test_what_lists_no_models_is_passed_over(self, unreachable_default):
        with ScriptedServer(models=()) as other, ScriptedServer() as server:
            target = Run(unreachable_default(), never_choose, {port_of(other): "test", port_of(server): "test"}).target
        assert str(port_of(server)) in target.settings.vllm.base_url

    def test_without_a_server_the_next_steps_are_named(self, unreachable_default):
        with pytest.raises(NeverReached) as error:
            Run(unreachable_default(), never_choose, {9: "vLLM"})
        assert "Tried the usual ports of vLLM (9)." in error.value.message
        assert error.value.hint == NEXT_STEPS
        assert "--demo" in NEXT_STEPS

    @pytest.mark.parametrize("given", [{"base_url": "http://localhost:8000/v1"}, {"base_url": "http://gpu:8000/v1"}])
    def test_one_that_was_named_is_taken_at_its_word(self, given):
        assert settings(**given).is_server_named
        assert settings({"HOME": "/nowhere", "VLLM_BASE_URL": given["base_url"]}).is_server_named
        assert not settings().is_server_named


class TestAnotherModel:
    @pytest.fixture
    def among(self, tmp_path):
        """Settings with these servers, of which the first is the one in use."""

        def among(**servers):
            file = tmp_path / "config.json"
            file.write_text(json.dumps({"servers": {name: {"base_url": url} for name, url in servers.items()}}))
            return config.load(file, {}, {"HOME": "/nowhere"})

        return among

    def test_a_server_without_its_model_has_its_only_one(self, among):
        with ScriptedServer(models=("big", "small")) as one, ScriptedServer() as other:
            chosen = locate_model(among(one=one.url, other=other.url), "other")
            assert (chosen.server, chosen.vllm.model) == ("other", "tiny")

    @pytest.mark.parametrize("text", ["one", "other"])
    def test_of_several_one_is_to_be_named_as_it_can_be_typed(self, among, text):
        with ScriptedServer(models=("big", "small")) as server, pytest.raises(ConfigError) as error:
            locate_model(among(one=server.url, other=server.url), text)
        assert error.value.message == f"The server {text} serves several models: big, small."
        assert error.value.hint == f"Name one: {text}:MODEL."

    @pytest.mark.parametrize("text", ["one", "one:big"])
    def test_a_server_that_lists_none_is_told_by_its_address(self, among, text):
        with ScriptedServer(models=()) as server, pytest.raises(ServerError) as error:
            locate_model(among(one=server.url), text)
        assert error.value.message == f"The server at {server.url} lists no model."

    def test_a_model_that_is_not_served_is_told_with_those_that_are(self, among):
        with ScriptedServer(models=("big", "small")) as server:
            with pytest.raises(ConfigError, match=r"^The server one does not serve other\. It serves: big, small\.$"):
                locate_model(among(one=server.url), "one:other")
            with pytest.raises(ConfigError, match=r"^The server does not serve other\."):
                locate_model(settings(base_url=server.url), "other")


class TestThePath:
    @pytest.fixture
    def target(self):
        def target(server):
            return ServerTarget(settings(base_url=server.url, model="tiny"))

        return target

    def test_a_server_that_takes_tools_has_native_calls(self, target):
        with ScriptedServer(HELLO) as server:
            assert probe_call_path(target(server)).path.mode == "native"
            assert (server.requests[0]["max_tokens"], bool(server.requests[0]["tools"])) == (1, True)

    def test_one_that_refuses_them_is_remembered(self, target, state_folder):
        with ScriptedServer(NO_PARSER, HELLO) as server:
            assert probe_call_path(target(server)).path.mode == "text"
            assert probe_call_path(target(server)).path.mode == "text"
            assert len(server.requests) == 2
        assert json.loads((state_folder / "vllm-bot" / "servers.json").read_text())

    def test_where_it_cannot_be_found_out_it_stays_unknown(self, target):
        with ScriptedServer((500, {"error": {"message": "no"}})) as server:
            assert probe_call_path(target(server)).path is None


class TestTheBanner:
    def test_all_that_is_known_is_in_two_lines(self):
        target = ServerTarget(settings(base_url="http://gpu:8000/v1", model="tiny"), "0.32.0", 16384, CallPath())
        lines = format_banner(target, yes=False).splitlines()
        assert lines[1].split(None, 1) == ["server", "http://gpu:8000/v1 (vLLM 0.32.0)"]
        assert lines[2].split(None, 1) == ["model", "tiny, 16,384 tokens of context, native tool calls"]

    def test_an_unknown_figure_is_left_out(self):
        lines = format_banner(
            ServerTarget(settings(base_url="http://gpu:8000/v1", model="tiny")), yes=True
        ).splitlines()
        assert lines[1].split(None, 1) == ["server", "http://gpu:8000/v1"]
        assert lines[2].split(None, 1) == ["model", "tiny, native tool calls, else in its text"]
        assert "mode ask, and what asks is answered with yes" in lines[3]

    def test_it_says_what_needs_no_question(self):
        lines = format_banner(ServerTarget(settings(model="tiny")), yes=False).splitlines()
        assert lines[3].endswith("mode ask: what only reads needs no question; everything else asks")

    @pytest.mark.parametrize(
        ("security", "is_told"),
        [({}, True), ({"sandbox": "off"}, False), ({"exec_enabled": False}, False)],
    )
    def test_where_bubblewrap_is_not_installed_it_says_so(self, security, is_told, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        chosen = replace(settings(model="tiny"), security=SecuritySettings(**security))
        lines = format_banner(ServerTarget(chosen), yes=False).splitlines()
        assert ["install bubblewrap" in line for line in lines].count(True) == is_told
        (tmp_path / "bwrap").touch(mode=0o755)
        assert "bubblewrap" not in format_banner(ServerTarget(chosen), yes=False)
