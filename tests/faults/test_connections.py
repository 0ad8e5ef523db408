"""How a connection that is reused, stale or redirected affects the next request and the API key."""

from contextlib import contextmanager

import pytest

from src.errors import StreamCut
from src.transport import Client

from .scripts import HELLO, body
from .server import KEEP, RESET, FaultServer


@contextmanager
def served(*scripts, key=""):
    with FaultServer(*scripts) as server, Client(f"http://127.0.0.1:{server.port}/v1", key) as client:
        yield server, client


def post(client):
    with client.open("POST", "chat/completions", b"{}") as reply:
        return reply.read()


def test_a_connection_serves_one_request_after_the_other():
    with served(HELLO) as (server, client):
        for _ in range(3):
            post(client)
        assert (len(server.requests), server.accepted) == (3, 1)


def test_it_does_so_too_where_the_reader_leaves_before_the_bodys_end_is_read():
    with served(HELLO) as (server, client):
        for _ in range(3):
            with client.open("POST", "chat/completions", b"{}") as reply:
                next(reply.chunks)
        assert (len(server.requests), server.accepted) == (3, 1)


def test_an_interrupted_answer_takes_its_connection_with_it():
    with served(HELLO) as (server, client):
        with pytest.raises(KeyboardInterrupt), client.open("POST", "chat/completions", b"{}"):
            raise KeyboardInterrupt
        post(client)
        assert (len(server.requests), server.accepted) == (2, 2)


@pytest.mark.parametrize("gone", [[b""], [RESET]], ids=["closed", "reset"])
def test_a_kept_connection_gone_stale_is_replaced_once_without_a_word(gone):
    with served(body("first"), gone, body("second")) as (server, client):
        assert post(client) == b"first"
        assert post(client) == b"second"
        assert (len(server.requests), server.accepted) == (3, 2)


def test_a_server_that_closed_meanwhile_is_reached_on_a_new_connection():
    with served([body("first")[0]], body("second")) as (server, client):  # no KEEP: closed behind the answer
        assert (post(client), post(client)) == (b"first", b"second")
        assert (len(server.requests), server.accepted) == (2, 2)


def test_a_new_connection_that_is_closed_is_no_stale_one():
    with served([b""]) as (server, client):
        with pytest.raises(StreamCut):
            post(client)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"]
)
def test_the_key_never_goes_to_another_port(status):
    with FaultServer(body("")) as other, served([b"", KEEP], key="sekret") as (server, client):
        target = f"Location: http://127.0.0.1:{other.port}/v1/chat/completions"
        server.scripts = (body("", "", target, status=status),)
        with client.open("POST", "chat/completions", b"{}") as reply:
            assert reply.location.endswith(f"{other.port}/v1/chat/completions")
        assert server.requests[0].headers["authorization"] == "Bearer sekret"
        assert other.requests == []


def test_a_redirect_within_the_server_keeps_method_body_and_key():
    moved = body("", "", "Location: /v2/chat", status="307 Temporary Redirect")
    with served(moved, body("{}"), key="sekret") as (server, client):
        post(client)
    first, second = server.requests
    assert (second.line, second.body) == ("POST /v2/chat HTTP/1.1", first.body)
    assert second.headers["authorization"] == "Bearer sekret"


def test_a_proxy_that_the_environment_names_is_gone_through(monkeypatch):
    for name in ("NO_PROXY", "no_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with FaultServer(body("{}")) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        with Client("http://elsewhere.test/v1") as client:
            assert post(client) == b"{}"
        assert proxy.requests[0].line == "POST http://elsewhere.test/v1/chat/completions HTTP/1.1"


def test_and_not_for_a_host_that_it_leaves_out(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with served(body("{}")) as (_, client):
        assert post(client) == b"{}"
