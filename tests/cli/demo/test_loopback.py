"""The demo's server shares its terminal with a chat."""

import socket
import threading

from src.cli.demo.loopback import JSON, LoopbackReply, serve
from tests.waiting import wait_until


def test_a_client_that_leaves_before_it_has_read_the_answer_is_told_nowhere(capsys):
    before = set(threading.enumerate())
    with serve(lambda _: LoopbackReply(200, JSON, [b"{}"])) as address:
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            wait_until(lambda: client.recv(9999, socket.MSG_PEEK).endswith(b"{}"), "the answer does not come")
        # what was not read makes the end of this connection a reset
    wait_until(lambda: set(threading.enumerate()) <= before, "the server's threads do not end")
    assert capsys.readouterr().err == ""
