"""What the agents of a server share."""

import asyncio
import gc
import math
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from src import AsyncServer, Server, Timeouts, tool
from src.app.candidates import USUAL_PORTS
from src.errors import BotError, ConfigError
from src.negotiation import FactStore
from src.testing import ScriptedServer as TurnServer
from src.types.messages import UserMessage
from tests.app.library.servers import ParserlessServer
from tests.doubles import ScriptedServer
from tests.each import check_rows
from tests.faults.scripts import HELLO
from tests.faults.server import FaultServer
from tests.sources import ROOT
from tests.waiting import PATIENCE_S

USERS = 8
HI = [{"content": "Hi"}, {"finish": "stop"}]


@tool(risk="low")
def weather(city: str) -> str:
    """The weather in a city, now."""
    return f"{city}: rain"


def ask_in_threads(url):
    answers = []

    def work(server):
        with server.agent([weather]) as agent:
            answers.append(agent.answer("Do I need an umbrella?").text)

    with Server(url) as server:
        threads = [threading.Thread(target=work, args=(server,)) for _ in range(USERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return answers


def ask_in_tasks(url):
    async def ask():
        async with AsyncServer(url) as server:
            results = await asyncio.gather(*(server.agent([weather]).answer("Umbrella?") for _ in range(USERS)))
            return [result.text for result in results]

    return asyncio.run(ask())


@pytest.mark.parametrize("kind", [Server, AsyncServer])
def test_completion_offers_documented_names_only(kind):
    async def list_names():
        server = kind("http://localhost:8000/v1")
        agent = server.agent()
        offered = {name for each in (server, agent, agent.ask("x")) for name in dir(each) if not name.startswith("_")}
        if kind is AsyncServer:
            await server.close()
        return offered

    page = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    assert [name for name in asyncio.run(list_names()) if not re.search(rf"\b{name}\b", page)] == []


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1"),
        ("http://gpu:8000/", "http://gpu:8000/v1"),
        ("http://gpu:8000/openai", "http://gpu:8000/openai"),
    ],
)
def test_an_address_without_a_path_is_that_of_the_api(given, used):
    assert Server(given, provider="anthropic").base_url == used


@pytest.mark.parametrize("ask", [ask_in_threads, ask_in_tasks])
def test_the_first_questions_of_eight_users_find_out_once_how_to_ask(ask):
    fake = ParserlessServer()
    with fake.serve() as url:
        assert ask(url) == ["It rains."] * USERS
    assert len(fake.asked) <= 2 * USERS + 5
    assert sum(path.endswith("/models") for path in fake.asked) == 1


def test_where_the_one_who_finds_out_fails_the_others_go_on():
    """The first conversation loses its server in the middle; who waited for it asks on."""
    facts = FactStore()
    assert facts.claim("how") is None
    waiting = facts.claim("how")
    facts.release("how")
    assert waiting.done()
    assert facts.claim("how") is None


@check_rows(
    "given, used",
    [
        ("localhost", "http://localhost:8000/v1"),
        ("gpu:9000", "http://gpu:9000/v1"),
        ("gpu:9000/v1", "http://gpu:9000/v1"),
        ("http://gpu/v1/", "http://gpu/v1"),
    ],
)
def test_an_address_without_a_scheme_is_completed(given, used, monkeypatch):
    for port in [*USUAL_PORTS][1:]:  # at which a server may listen here
        monkeypatch.delitem(USUAL_PORTS, port, raising=False)
    with Server(given) as server:
        assert server.base_url == used


class TestTheModel:
    def test_a_wrong_name_raises_with_the_names_there_are(self):
        wrong = pytest.raises(ConfigError, match="no model 'tiny'.*\n.*big, small")
        with ScriptedServer(models=("big", "small")) as scripted, Server(scripted.url) as server, wrong:
            server.agent(model="tiny").answer("Hi")
        assert scripted.requests == []

    def test_a_wrong_name_raises_on_asyncio(self):
        async def ask(url):
            async with AsyncServer(url) as server:
                await server.agent(model="tiny").answer("Hi")

        with ScriptedServer(models=("big", "small")) as scripted, pytest.raises(ConfigError, match="big, small"):
            asyncio.run(ask(scripted.url))

    def test_of_several_one_must_be_named(self):
        several = pytest.raises(ConfigError, match="serves several models: a, b")
        with ScriptedServer(models=("a", "b")) as scripted, Server(scripted.url) as server, several:
            server.agent().answer("Hi")

    def test_a_model_that_is_gone_is_not_replaced_by_another(self):
        missing = (404, {"error": {"message": "The model `a` does not exist.", "type": "NotFoundError", "code": 404}})
        with ScriptedServer(missing, models=("a",)) as scripted, Server(scripted.url) as server:
            agent = server.agent(model="a")
            scripted.models = ("a",)
            assert server.list_models() == ["a"]
            scripted.models = ("b",)
            with pytest.raises(BotError, match="does not exist"):
                agent.answer("Hi")
            assert len(scripted.requests) == 1


class TestClosing:
    def test_agents_of_a_closed_server_answer_no_more(self):
        with ScriptedServer() as scripted:
            with Server(scripted.url) as server:
                agent = server.agent()
            with pytest.raises(BotError, match="server is closed"):
                agent.answer("Hi")

    def test_agents_of_a_closed_server_answer_no_more_on_asyncio(self):
        async def ask(url):
            async with AsyncServer(url) as server:
                agent = server.agent()
            await agent.answer("Hi")

        with ScriptedServer() as scripted, pytest.raises(BotError, match="server is closed"):
            asyncio.run(ask(scripted.url))

    def test_models_of_a_closed_server_answer_no_more(self):
        with ScriptedServer(HI) as scripted:
            with Server(scripted.url) as server:
                model = server.model("tiny")
                begun_later = model.respond([UserMessage("Hi")])
            for ask in (
                lambda: list(begun_later),
                lambda: list(model.respond([UserMessage("Hi")])),
                lambda: model.context_length,
                lambda: model.server_version,
                lambda: model.measure_fill([UserMessage("Hi")]),
            ):
                with pytest.raises(BotError, match="server is closed"):
                    ask()
            assert scripted.requests == []

    def test_models_of_a_closed_server_answer_no_more_on_asyncio(self):
        async def ask(url):
            async with AsyncServer(url) as server:
                model = await server.model("tiny")
            return [event async for event in model.respond([UserMessage("Hi")])]

        with ScriptedServer(HI) as scripted:
            with pytest.raises(BotError, match="server is closed"):
                asyncio.run(ask(scripted.url))
            assert scripted.requests == []

    @pytest.mark.parametrize("ask", [Server.list_models, Server.model])
    def test_a_closed_server_answers_no_more(self, ask):
        with ScriptedServer() as scripted:
            with Server(scripted.url) as server:
                pass
            with pytest.raises(BotError, match="server is closed"):
                ask(server)

    @pytest.mark.parametrize("ask", [AsyncServer.list_models, AsyncServer.model])
    def test_a_closed_server_answers_no_more_on_asyncio(self, ask):
        async def use(url):
            async with AsyncServer(url) as server:
                pass
            await ask(server)

        with ScriptedServer() as scripted, pytest.raises(BotError, match="server is closed"):
            asyncio.run(use(scripted.url))

    def test_an_answer_that_its_server_ends_on_asyncio_says_so(self):
        async def use(scripted):
            async with AsyncServer(scripted.url) as server:
                answer = asyncio.create_task(server.agent().answer("Hi"))
                await asyncio.to_thread(has_begun.wait, PATIENCE_S)
            await answer

        def hold(_):
            has_begun.set()
            is_over.wait(PATIENCE_S)
            return "Hi"

        has_begun, is_over = threading.Event(), threading.Event()
        with TurnServer(hold) as scripted:
            with pytest.raises(BotError, match="The connections to .* are closed"):
                asyncio.run(use(scripted))
            is_over.set()

    def test_a_closed_agent_answers_no_more_and_others_do(self):
        with ScriptedServer([{"content": "Hi"}, {"finish": "stop"}]) as scripted, Server(scripted.url) as server:
            with server.agent() as agent:
                pass
            with pytest.raises(BotError, match="agent is closed"):
                agent.answer("Hi")
            assert server.agent().answer("Hi").text == "Hi"


def test_settings_of_the_connection_reach_the_server():
    with FaultServer(HELLO) as fake:
        url = f"http://127.0.0.1:{fake.port}/v1"
        with Server(url, provider="openai", api_key="secret", headers={"X-Team": "blue"}) as server:
            server.agent(model="tiny").answer("Hi")
    (request,) = fake.requests
    sent = {name.lower(): value for name, value in request.headers.items()}
    assert (sent["x-team"], sent["authorization"]) == ("blue", "Bearer secret")


def test_settings_of_sampling_are_those_of_one_agent():
    answers = [[{"content": "Hi"}, {"finish": "stop"}] for _ in range(2)]
    with ScriptedServer(*answers) as scripted, Server(scripted.url) as server:
        options = {"temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.1, "seed": 7, "stop": ["END"]}
        penalties = {"presence_penalty": 0.1, "frequency_penalty": 0.2, "repetition_penalty": 1.1}
        extra = {"chat_template_kwargs": {"enable_thinking": False}}
        server.agent(max_tokens=100, extra_body=extra, **options, **penalties).answer("Hi")
        server.agent().answer("Hi")
    first, second = scripted.requests
    wanted = {"max_tokens": 100, **options, **penalties, **extra}
    assert {name: first[name] for name in wanted} == wanted
    assert not wanted.keys() & second.keys()


def test_a_limit_that_no_clock_holds_is_no_limit():
    with (
        ScriptedServer(HI) as scripted,
        Server(scripted.url, timeouts=Timeouts(1e300, 1e300, math.inf, 1e300)) as server,
    ):
        assert server.agent().answer("Hi").text == "Hi"


def test_files_may_be_given_as_paths(tmp_path):
    file = tmp_path / "ca.pem"
    file.touch()
    with Server(verify=file, cert=(file, str(file)), api_key=None) as server:
        vllm, cert = server._settings.vllm, server._client_options["cert"]
    assert (vllm.ssl_verify, cert, vllm.api_key) == (str(file), (str(file), str(file)), "")


class TestEventLoops:
    @pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
    def test_a_server_goes_on_in_the_next_event_loop(self):
        with ScriptedServer(HI, HI) as scripted:
            server = AsyncServer(scripted.url)
            agent = server.agent()
            assert [asyncio.run(agent.answer("Hi")).text for _ in range(2)] == ["Hi", "Hi"]
            asyncio.run(server.close())
            gc.collect()  # the connections of the first loop

    def test_it_is_not_for_two_at_once(self):
        async def ask(agent):
            with ThreadPoolExecutor() as pool:
                await agent.answer("Hi")
                await asyncio.wrap_future(pool.submit(asyncio.run, agent.answer("Hi")))

        async def use(url):
            async with AsyncServer(url) as server:
                await ask(server.agent())

        with ScriptedServer(HI, HI) as scripted, pytest.raises(BotError, match="in two event loops at once"):
            asyncio.run(use(scripted.url))
