"""One rule says which names are this machine's, for who may ask the gateway, where it listens, and proxies."""

from __future__ import annotations

import pytest

from src.types.hosts import is_loopback, leads_here, read_host
from tests.each import check_rows

LOOPBACKS = ["localhost", "LOCALHOST", "vllm.localhost", "127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"]
OTHERS = [
    "", "localhost.", "localhost.example", "notlocalhost", "127.1", "2130706433", "127.0.0.1.example", "128.0.0.1", "::2",
    "::ffff:128.0.0.1", "::ffff:0.0.0.0", "10.0.0.1", "host.docker.internal",
]  # fmt: skip


@check_rows("host", LOOPBACKS)
def test_a_loopback_is_known_by_its_names(host):
    assert is_loopback(host)
    assert leads_here(host)


@check_rows("host", OTHERS)
def test_another_name_is_none(host):
    assert not is_loopback(host)
    assert not leads_here(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_connection_to_any_address_stays_here_and_who_listens_there_is_no_loopback(host):
    assert leads_here(host)
    assert not is_loopback(host)


HOSTS = [
    ("gateway.example", "gateway.example"), ("Gateway.Example.:443", "gateway.example"), ("10.0.0.1:80", "10.0.0.1"),
    ("[fd00::1]", "fd00::1"), ("[FD00:0::1]:8010", "fd00::1"), ("gateway.example:", "gateway.example"),
]  # fmt: skip


@check_rows("text, host", HOSTS)
def test_a_host_is_read_without_its_port(text, host):
    assert read_host(text) == host


@check_rows(
    "text", ["", ".", ":80", "fd00::1", "[localhost]", "[::1", "[::1].x", "a b", "x@y", "http://x", "x/y", "x:y"]
)
def test_what_is_no_host_is_not_read(text):
    assert read_host(text) is None
