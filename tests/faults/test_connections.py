"""How a connection that is reused, stale or redirected affects the next request and the API key, on both drivers."""

import pytest

from src.errors import StreamCut
from src.types.effects import Open, Read, Release
from tests.drivers import fetch

from .scripts import HALF, HELLO, body
from .server import KEEP, RESET, STALL, FaultServer


@pytest.fixture
def start(connect):
    """Starts a server of these scripts; it and a driver that asks it."""
    servers = []

    def make(*scripts, key=""):
        server = FaultServer(*scripts).__enter__()
        servers.append(server)
        return server, connect(f"http://127.0.0.1:{server.port}/v1", key)

    yield make
    for server in servers:
        server.__exit__()


def post(driver):
    return driver.run(fetch()).body


def read_beginning():
    yield Open("POST", "chat/completions", b"{}")
    yield Read()
    yield Release()


def interrupt():
    yield Open("POST", "chat/completions", b"{}")
    raise KeyboardInterrupt


def test_a_connection_serves_one_request_after_the_other(start):
    server, driver = start(HELLO)
    for _ in range(3):
        post(driver)
    assert (len(server.requests), server.accepted) == (3, 1)


def test_it_does_so_too_where_the_reader_leaves_before_the_bodys_end_is_read(start):
    server, driver = start(HELLO)
    for _ in range(3):
        driver.run(read_beginning())
    assert (len(server.requests), server.accepted) == (3, 1)


def test_an_interrupted_answer_takes_its_connection_with_it(start):
    server, driver = start([HALF, STALL], HELLO)
    with pytest.raises(KeyboardInterrupt):
        driver.run(interrupt())
    post(driver)
    assert (len(server.requests), server.accepted) == (2, 2)


@pytest.mark.parametrize("gone", [[b""], [RESET]], ids=["closed", "reset"])
def test_a_kept_connection_gone_stale_is_replaced_once_without_a_word(start, gone):
    server, driver = start(body("first"), gone, body("second"))
    assert post(driver) == b"first"
    assert post(driver) == b"second"
    assert (len(server.requests), server.accepted) == (3, 2)


def test_a_server_that_closed_meanwhile_is_reached_on_a_new_connection(start):
    server, driver = start([body("first")[0]], body("second"))  # no KEEP: closed behind the answer
    assert (post(driver), post(driver)) == (b"first", b"second")
    assert (len(server.requests), server.accepted) == (2, 2)


def test_a_new_connection_that_is_closed_is_no_stale_one(start):
    server, driver = start([b""])
    with pytest.raises(StreamCut):
        post(driver)
    assert len(server.requests) == 1


def test_a_cookie_of_a_load_balancer_comes_back_with_the_next_request(start):
    first = body("", "", "Set-Cookie: replica=b7; Path=/; HttpOnly", "Set-Cookie: zone=eu; Path=/")
    server, driver = start(first, body(""))
    post(driver)
    post(driver)
    sent = [set(each.headers.get("cookie", "").split("; ")) for each in server.requests]
    assert sent == [{""}, {"replica=b7", "zone=eu"}]


@pytest.mark.parametrize(
    "status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"]
)
def test_the_key_never_goes_to_another_port(start, status):
    with FaultServer(body("")) as other:
        server, driver = start([b"", KEEP], key="sekret")
        target = f"Location: http://127.0.0.1:{other.port}/v1/chat/completions"
        server.scripts = (body("", "", target, status=status),)
        assert driver.run(fetch()).head.location.endswith(f"{other.port}/v1/chat/completions")
        assert server.requests[0].headers["authorization"] == "Bearer sekret"
        assert other.requests == []


def test_a_redirect_within_the_server_keeps_method_body_and_key(start):
    server, driver = start(
        body("", "", "Location: /v2/chat", status="307 Temporary Redirect"), body("{}"), key="sekret"
    )
    post(driver)
    first, second = server.requests
    assert (second.line, second.body) == ("POST /v2/chat HTTP/1.1", first.body)
    assert second.headers["authorization"] == "Bearer sekret"
