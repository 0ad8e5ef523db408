"""The programs of docs/examples run, and use documented names only. CI checks their types with mypy --strict."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import sys

import pytest

import src
from src.cli.demo.loopback import serve
from src.cli.demo.protocol import DemoServer, DemoTurn
from tests.app.library.servers import serve_one_call
from tests.sources import ROOT

EXAMPLES = ROOT / "docs" / "examples"
FILES = sorted(EXAMPLES.glob("*.py"))


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """The package under the name that it is installed under."""
    monkeypatch.setitem(sys.modules, "vllm_bot", src)


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_uses_documented_names_of_the_package_only(file):
    imports = [
        node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)
    ]
    names = [alias.name for node in imports if (node.module or "").startswith("vllm_bot") for alias in node.names]
    assert {node.module for node in imports if (node.module or "").startswith("vllm_bot")} == {"vllm_bot"}
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in page] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_named_in_the_documentation(file):
    assert f"examples/{file.name}" in (ROOT / "docs" / "library.md").read_text(encoding="utf-8")


class TestTheWeatherBot:
    def run(self, *calls, capsys):
        """What it prints where the model makes these calls, one a turn."""

        def respond(conversation):
            answered = sum(message["role"] == "tool" for message in conversation.messages)
            if answered < len(calls):
                return DemoTurn("", calls=(calls[answered],))
            return DemoTurn(conversation.messages[-1]["content"])

        with serve(DemoServer(respond, lambda _: None)) as address:
            load("weather_bot").main(f"{address}/v1")
        return capsys.readouterr().out

    def test_it_looks_in_its_database(self, capsys):
        assert "Oslo: rain, 7 degrees" in self.run(("look_up_weather", {"city": "Oslo"}), capsys=capsys)

    def test_it_sends_to_whom_it_may(self, capsys):
        call = ("send_warning", {"to": "ann@example.org", "text": "Rain!"})
        assert "sent" in self.run(call, capsys=capsys)

    def test_it_sends_to_nobody_else(self, capsys):
        call = ("send_warning", {"to": "ann@example.com", "text": "Rain!"})
        assert "send_warning did not run: Warnings go to addresses of example.org only." in self.run(
            call, capsys=capsys
        )


def test_the_loop_forces_the_tool_and_prints_the_answer(capsys):
    with serve_one_call("weather", {"city": "Oslo"}) as url:
        load("own_loop").main(url)
    assert capsys.readouterr().out.strip() == "I was told: Oslo: rain, 7 degrees"


def test_each_cell_of_the_notebook_runs_twice(capsys):
    def respond(conversation):
        last = conversation.messages[-1]
        answer = '{"city": "Oslo", "degrees": 7}'
        return DemoTurn(answer) if last["role"] == "tool" else DemoTurn("", calls=(("read", {"city": "Oslo"}),))

    with serve(DemoServer(respond, lambda _: None)) as address:
        text = (EXAMPLES / "notebook.py").read_text(encoding="utf-8").replace("http://localhost:8000", address)
        cells, names = text.split("# %%\n"), {"__name__": "notebook"}
        for cell in cells:
            for _ in range(2):
                exec(compile(cell, "notebook.py", "exec", dont_inherit=True), names)
    assert capsys.readouterr().out.startswith("Oslo 7\nOslo 7\n")


class TestTheWebEndpoint:
    async def get(self, app, path, query):
        """The body of the answer to one request."""
        sent, asked = [], [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive():
            if asked:
                return asked.pop(0)
            return await asyncio.Event().wait()  # the client stays

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "headers": [], "http_version": "1.1", "scheme": "http", "server": ("test", 80), "app": app,
        }  # fmt: skip
        await app(scope, receive, send)
        return b"".join(message.get("body", b"") for message in sent).decode()

    def test_it_streams_to_many_users_and_keeps_their_conversations(self, monkeypatch):
        with serve_one_call("weather", {"city": "Oslo"}) as url:
            monkeypatch.setenv("MODEL_SERVER", url)
            app = load("web_endpoint").app

            async def ask():
                async with app.router.lifespan_context(app):
                    asked = [self.get(app, "/ask", f"user=u{number}&question=rain") for number in range(8)]
                    return await asyncio.gather(*asked), await self.get(app, "/export", "user=u1")

            answers, exported = asyncio.run(ask())
        assert answers == ["I was told: Oslo: rain, 7 degrees"] * 8
        assert src.Conversation.from_json(exported).text == answers[0]
