import logging
import socket
import sys
import threading
from contextlib import contextmanager

import pytest

from src.errors import Cancelled, ClientError, ConnectFailed, HostUnknown, StreamCut, Timeout
from src.transport import Client, Timeouts
from src.transport.http import LOOPBACK, find_free_port, find_open_ports
from src.transport.server_access import MAX_RETRY_AFTER_S, parse_retry_after
from tests.drivers import fetch
from tests.each import check_rows
from tests.faults.scripts import body, refused
from tests.faults.server import FaultServer
from tests.waiting import PATIENCE_S


def get(client, path="models"):
    with client.open("GET", path) as reply:
        return reply, reply.read()


class TestRequests:
    @pytest.fixture
    def server(self):
        with FaultServer(body("the body")) as server:
            server.url = f"http://127.0.0.1:{server.port}/v1"
            yield server

    def test_an_answer_is_handed_out_with_status_type_and_body(self, server, connect):
        reply = connect(server.url).run(fetch())
        assert (reply.head.status, reply.head.content_type, reply.body) == (200, "application/json", b"the body")

    def test_a_refusal_is_an_answer_too(self, server, connect):
        server.scripts = (refused("503 Service Unavailable", "loading"),)
        reply = connect(server.url).run(fetch())
        assert reply.head.status == 503
        assert b"loading" in reply.body

    def test_the_body_is_posted_as_json(self, server, connect):
        connect(server.url).run(fetch(body=b'{"a": 1}'))
        (sent,) = server.requests
        assert (sent.line, sent.body) == ("POST /v1/chat/completions HTTP/1.1", b'{"a": 1}')
        assert (sent.headers["content-type"], sent.headers["user-agent"]) == ("application/json", "vllm-bot")

    def test_the_key_is_sent_as_a_bearer_token_and_nothing_where_there_is_none(self, server, connect):
        connect(server.url, "sekret").run(fetch())
        connect(server.url).run(fetch())
        assert [each.headers.get("authorization") for each in server.requests] == ["Bearer sekret", None]

    def test_the_key_goes_under_the_providers_header_with_the_headers_it_wants(self, server, connect):
        connect(server.url, "sekret", key_header="x-api-key", key_prefix="", headers={"anthropic-version": "1"}).run(
            fetch()
        )
        sent = server.requests[0].headers
        assert (sent["x-api-key"], sent["anthropic-version"]) == ("sekret", "1")
        assert "authorization" not in sent

    def test_a_redirect_elsewhere_is_not_followed_and_its_target_is_handed_out(self, server, connect):
        server.scripts = (body("", "", "Location: http://elsewhere.test/", status="302 Found"),)
        head = connect(server.url, "sekret").run(fetch()).head
        assert (head.status, head.location, len(server.requests)) == (302, "http://elsewhere.test/", 1)

    @pytest.mark.parametrize("status", ["307 Temporary Redirect", "200 OK"])
    def test_a_redirect_to_what_is_no_address_is_handed_out(self, server, connect, status):
        server.scripts = (body("", "", "Location: http://[::1", status=status),)
        assert connect(server.url).run(fetch()).head.location == "http://[::1"

    @pytest.mark.parametrize("interim", ["100 Continue", "102 Processing", "103 Early Hints"])
    def test_an_answer_may_follow_interim_ones(self, server, connect, interim):
        hints = f"HTTP/1.1 {interim}\r\nLink: </style.css>\r\n\r\n".encode()
        server.scripts = ([hints, *body("{}")],)
        assert connect(server.url).run(fetch()).body == b"{}"

    def test_a_header_may_be_long(self, server, connect):
        server.scripts = (body("{}", "application/json", f"Content-Security-Policy: {'a' * 60_000}"),)
        assert connect(server.url).run(fetch()).body == b"{}"

    def test_a_path_is_sent_without_its_dots(self, server, connect):
        connect(server.url).run(fetch("GET", "../up", None))
        assert server.requests[0].line == "GET /up HTTP/1.1"

    def test_the_log_has_bodies_and_never_the_key(self, server, caplog):
        with caplog.at_level(logging.DEBUG, logger="src.transport"):
            get(Client(server.url, "sekret"), "anything")
        assert "the body" in caplog.text
        assert "sekret" not in caplog.text


class TestNoConnection:
    @pytest.fixture
    def closed_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
            yield taken.getsockname()[1]

    def test_a_refused_connection_says_how_to_start_a_server(self, connect, closed_port):
        with pytest.raises(ConnectFailed) as caught:
            connect(f"http://127.0.0.1:{closed_port}/v1").run(fetch())
        assert f"No server at http://127.0.0.1:{closed_port}/v1" in caught.value.message
        assert "Connection refused" in caught.value.message
        assert "vllm serve" in caught.value.hint

    def test_a_connection_that_takes_too_long_is_none(self, connect):
        """A listener whose queue is full answers no further connection."""
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            address = full.getsockname()
            waiting = [socket.socket() for _ in range(4)]
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(address)
            with pytest.raises(ConnectFailed, match=r"no connection within 0\.05 seconds"):
                connect(f"http://127.0.0.1:{address[1]}/v1", clocks=Timeouts(connect=0.05)).run(fetch())
            for each in waiting:
                each.close()

    def test_a_host_may_have_a_name_in_any_script(self, connect):
        with pytest.raises(HostUnknown, match=r"no host named bücher\.invalid"):
            connect("http://bücher.invalid/v1").run(fetch())

    def test_an_address_that_is_none_is_an_error_of_ours(self, connect):
        with pytest.raises(ClientError, match="http://a..test/v1"):
            connect("http://a..test/v1").run(fetch())


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
            raw_server(HEAD + b"Transfer-Encoding: chunked\r\n\r\n6\r\nhello\n\r\n", stall=True) as url,
            Client(url, clocks=Timeouts(first_token=PATIENCE_S, idle=0.05)).open("GET", "x") as reply,
        ):
            assert next(reply.chunks) == b"hello\n"  # only a whole line is progress
            with pytest.raises(Timeout, match="fell silent"):
                next(reply.chunks)

    def test_silence_before_the_answer_is_a_timeout(self):
        with raw_server(stall=True) as url, pytest.raises(Timeout):
            get(Client(url, clocks=Timeouts(first_token=0.05, idle=0.05)))


@check_rows(
    "header, seconds",
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
        ("Mon, 01 Jan 2030 00:00:00 +99999999999999", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_wait_that_the_server_asks_for_is_a_finite_number_of_seconds(header, seconds):
    assert parse_retry_after(header) == seconds


def test_a_key_that_a_refusal_quotes_is_hidden_and_a_placeholder_is_not_looked_for():
    url = "http://server.test/v1"
    assert Client(url, "sk-abcdef").redact_key(b"unknown key: sk-abcdef") == b"unknown key: [API key]"
    assert Client(url, "token").redact_key(b"unknown field: return_token_ids") == b"unknown field: return_token_ids"


def test_a_wait_that_the_server_asks_for_is_handed_out(connect):
    with FaultServer(refused("429 Too Many Requests", "", "Retry-After: 7")) as server:
        assert connect(f"http://127.0.0.1:{server.port}/v1").run(fetch()).head.retry_after == 7.0


def test_a_cancelled_client_waits_no_longer():
    client, cancelled = Client("http://server.test/v1"), threading.Event()
    client.bind_cancellation(cancelled)
    client.sleep(0)
    cancelled.set()
    with pytest.raises(Cancelled):
        client.sleep(60)


def test_open_ports_are_those_that_take_a_connection_in_the_order_given():
    with socket.create_server((LOOPBACK, 0)) as one, socket.create_server((LOOPBACK, 0)) as other:
        open_ports = [one.getsockname()[1], other.getsockname()[1]]
        closed = find_free_port()
        assert find_open_ports([open_ports[0], closed, open_ports[1]]) == open_ports
        assert find_open_ports(open_ports[::-1]) == open_ports[::-1]


def test_no_port_is_open_of_none():
    assert find_open_ports([]) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere what is bound cannot be shared")
def test_a_free_port_is_kept_for_who_is_told_of_it():
    port = find_free_port()
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((LOOPBACK, port))
    with socket.create_server((LOOPBACK, port)):
        assert find_open_ports([port]) == [port]
