import asyncio
import logging
import socket
import threading
from contextlib import contextmanager
from importlib.util import find_spec

import pytest
import requests
import responses

from src.errors import Cancelled, ClientError, ConnectFailed, StreamCut, Timeout
from src.transport import Client, Timeouts
from src.transport.async_http import AsyncClient
from src.transport.http import LOOPBACK, MAX_RETRY_AFTER_S, find_open_ports, is_loopback

URL = "http://server.test/v1"


def get(client=None, path="models"):
    with (client or Client(URL)).open("GET", path) as reply:
        return reply, reply.read()


class TestRequests:
    @responses.activate
    def test_an_answer_is_handed_out_with_status_type_and_body(self):
        responses.get(f"{URL}/models", body=b"{}", content_type="application/json")
        reply, body = get()
        assert (reply.status, reply.content_type, body) == (200, "application/json", b"{}")

    @responses.activate
    def test_a_refusal_is_an_answer_too(self):
        responses.get(f"{URL}/models", status=503, body=b"loading")
        reply, body = get()
        assert (reply.status, body) == (503, b"loading")

    @responses.activate
    def test_the_body_is_posted_as_json(self):
        responses.post(f"{URL}/chat/completions", body=b"")
        with Client(URL).open("POST", "chat/completions", b'{"a": 1}'):
            pass
        sent = responses.calls[0].request
        assert (sent.body, sent.headers["Content-Type"]) == (b'{"a": 1}', "application/json")

    @responses.activate
    def test_the_key_is_sent_as_a_bearer_token_and_nothing_where_there_is_none(self):
        responses.get(f"{URL}/models")
        get(Client(URL, "sekret"))
        get(Client(URL))
        sent = [call.request.headers.get("Authorization") for call in responses.calls]
        assert sent == ["Bearer sekret", None]

    @responses.activate
    def test_the_key_goes_under_the_providers_header_with_the_headers_it_wants(self):
        responses.get(f"{URL}/models")
        get(Client(URL, "sekret", key_header="x-api-key", key_prefix="", headers={"anthropic-version": "1"}))
        sent = responses.calls[0].request.headers
        assert (sent["x-api-key"], sent["anthropic-version"]) == ("sekret", "1")
        assert "Authorization" not in sent

    @responses.activate
    def test_a_redirect_is_not_followed_and_its_target_is_handed_out(self):
        responses.get(f"{URL}/models", status=302, headers={"Location": "http://elsewhere.test/"})
        reply, _ = get(Client(URL, "sekret"))
        assert (reply.status, reply.location, len(responses.calls)) == (302, "http://elsewhere.test/", 1)

    @responses.activate
    def test_the_log_has_bodies_and_never_the_key(self, caplog):
        responses.get(f"{URL}/models", body=b"the body")
        with caplog.at_level(logging.DEBUG, logger="src.transport"):
            get(Client(URL, "sekret"))
        assert "the body" in caplog.text
        assert "sekret" not in caplog.text


class TestNoConnection:
    @pytest.mark.parametrize(
        ("raised", "error", "said"),
        [
            (requests.ConnectionError("[Errno 111] Connection refused"), ConnectFailed, "Connection refused"),
            (requests.ConnectTimeout(), ConnectFailed, "no connection within 5 seconds"),
            (requests.ReadTimeout(), Timeout, "sent nothing for 600 seconds"),
            (requests.exceptions.SSLError("certificate verify failed"), ClientError, "TLS"),
            (requests.exceptions.ProxyError(), ClientError, "proxy"),
            (requests.exceptions.InvalidURL("bad"), ClientError, "failed: bad"),
        ],
    )
    @responses.activate
    def test_each_failure_is_one_of_ours_and_names_the_address(self, raised, error, said):
        responses.get(f"{URL}/models", body=raised)
        with pytest.raises(error) as caught:
            get()
        assert said in caught.value.message
        assert URL in caught.value.message

    def test_a_refused_connection_says_how_to_start_a_server(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
            with pytest.raises(ConnectFailed) as caught:
                get(Client(f"http://127.0.0.1:{taken.getsockname()[1]}/v1"))
        assert "Connection refused" in caught.value.message
        assert "vllm serve" in caught.value.hint


@contextmanager
def raw_server(*parts, stall=False):
    """A server on loopback that answers one request with these bytes, then closes, or says no more."""
    done = threading.Event()

    def serve(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            for part in parts:
                connection.sendall(part)
            if stall:
                done.wait()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            done.set()
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


class TestStreams:
    def test_each_chunk_is_handed_out_as_it_comes(self):
        with (
            raw_server(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", stall=True) as url,
            Client(url).open("GET", "x") as reply,
        ):
            assert next(reply.chunks) == b"hello"

    def test_a_body_that_ends_with_the_connection_is_as_prompt(self):
        with (
            raw_server(HEAD + b"Connection: close\r\n\r\nhello", stall=True) as url,
            Client(url).open("GET", "x") as reply,
        ):
            assert next(reply.chunks) == b"hello"

    @pytest.mark.parametrize(
        "body",
        [
            b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n9\r\nwor",
            b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n",
            b"Content-Length: 100\r\n\r\nhello",
        ],
    )
    def test_a_broken_body_is_cut_after_what_came(self, body):
        with raw_server(HEAD + body) as url, Client(url).open("GET", "x") as reply:
            assert next(reply.chunks) == b"hello"
            with pytest.raises(StreamCut, match="broke in the middle"):
                list(reply.chunks)

    def test_a_chunk_of_negative_size_is_the_end_of_the_answer(self):
        chunks = b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n-5\r\nworld\r\n"
        with raw_server(HEAD + chunks, stall=True) as url, Client(url).open("GET", "x") as reply:
            assert next(reply.chunks) == b"hello"
            with pytest.raises(StreamCut, match="broke in the middle"):
                list(reply.chunks)

    def test_silence_in_the_middle_is_a_timeout(self):
        with (
            raw_server(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", stall=True) as url,
            Client(url, clocks=Timeouts(first_token=0.05, idle=0.05)).open("GET", "x") as reply,
        ):
            assert next(reply.chunks) == b"hello"
            with pytest.raises(Timeout):
                next(reply.chunks)

    def test_silence_before_the_answer_is_a_timeout(self):
        with raw_server(stall=True) as url, pytest.raises(Timeout):
            get(Client(url, clocks=Timeouts(first_token=0.05, idle=0.05)))


class TestTheEnvironment:
    @pytest.fixture
    def proxied(self, monkeypatch):
        """Every scheme has a proxy that takes no connections."""
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    def test_this_machine_is_never_asked_through_a_proxy(self, proxied, host):
        with raw_server(HEAD + b"Content-Length: 2\r\n\r\n{}") as url:
            assert get(Client(url.replace("127.0.0.1", host), "sekret"))[1] == b"{}"

    @pytest.mark.parametrize("host", ["server.test", "127.0.0.1.server.test", "localhost.server.test", "10.0.0.1"])
    def test_another_machine_is(self, proxied, host):
        with pytest.raises(ClientError, match="The proxy for http://.* cannot be reached"):
            get(Client(f"http://{host}/v1"))

    @pytest.mark.parametrize(
        ("host", "is_here"),
        [("::1", True), ("127.1.2.3", True), ("LOCALHOST", True), ("", False), ("::2", False), ("128.0.0.1", False)],
    )
    def test_this_machine_is_known_by_its_names(self, host, is_here):
        assert is_loopback(host) == is_here

    @pytest.mark.skipif(find_spec("socks") is not None, reason="the package is installed")
    def test_a_socks_proxy_without_its_package_says_what_to_install(self, monkeypatch):
        monkeypatch.setenv("http_proxy", "socks5h://127.0.0.1:9")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with pytest.raises(ClientError, match="SOCKS") as raised:
            get(Client(URL))
        assert "pip install PySocks" in raised.value.hint

    def test_a_socks_proxy_is_none_for_asyncio(self, monkeypatch):
        monkeypatch.setenv("http_proxy", "socks5h://127.0.0.1:9")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)

        async def ask() -> None:
            async with AsyncClient(URL) as client:
                await client.open("GET", "models")

        with pytest.raises(ClientError, match="asyncio cannot use"):
            asyncio.run(ask())


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("1.5", 1.5),
        ("-5", 0.0),
        ("nan", 0.0),
        ("-inf", 0.0),
        ("inf", MAX_RETRY_AFTER_S),
        ("1e300", MAX_RETRY_AFTER_S),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER_S),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0),
        ("soon", None),
        ("", None),
    ],
)
@responses.activate
def test_a_wait_that_the_server_asks_for_is_a_finite_number_of_seconds(header, seconds):
    responses.get(f"{URL}/models", status=429, headers={"Retry-After": header})
    assert get()[0].retry_after == seconds


def test_a_cancelled_client_waits_no_longer():
    client, cancelled = Client(URL), threading.Event()
    client.bind_cancellation(cancelled)
    client.sleep(0)
    cancelled.set()
    with pytest.raises(Cancelled):
        client.sleep(60)


def test_open_ports_are_those_that_take_a_connection_in_the_order_given():
    with socket.create_server((LOOPBACK, 0)) as one, socket.create_server((LOOPBACK, 0)) as other:
        open_ports = [one.getsockname()[1], other.getsockname()[1]]
        with socket.create_server((LOOPBACK, 0)) as gone:
            closed = gone.getsockname()[1]
        assert find_open_ports([open_ports[0], closed, open_ports[1]]) == open_ports
        assert find_open_ports(open_ports[::-1]) == open_ports[::-1]


def test_no_port_is_open_of_none():
    assert find_open_ports([]) == []
