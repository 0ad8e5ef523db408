"""Addresses that lack something: what is tried, and what is taken."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from src.app.address import complete_address, is_complete
from src.app.candidates import list_candidates
from src.config import Settings
from src.errors import HostUnknown, NeverReached
from tests.doubles import ScriptedServer
from tests.each import check_rows
from tests.faults.scripts import body
from tests.faults.server import FaultServer


def place(base_url: str, **values: object) -> Settings:
    settings = Settings()
    return replace(settings, vllm=replace(settings.vllm, base_url=base_url, **values))


@check_rows(
    "address, answer",
    [
        ("http://gpu:8000/v1", True),
        ("https://x.example/api/v4", True),
        ("http://gpu:8000", False),
        ("http://gpu:8000/", False),
        ("gpu", False),
        ("gpu:8000/v1", False),
        ("http://gpu:8000/v1/chat/completions", False),
        ("http://gpu:8000/v1/chat/completions/", False),
        ("http://gpu:8000/v1/models?limit=1", False),
    ],
)
def test_an_address_is_complete_with_a_scheme_and_the_path_of_the_api(address, answer):
    assert is_complete(address) is answer


def test_the_likeliest_address_is_tried_first():
    assert list_candidates("gpu:9000") == [
        *("http://gpu:9000/v1", "http://gpu:9000", "https://gpu:9000/v1", "https://gpu:9000"),
    ]
    assert list_candidates("gpu")[:5] == [
        *("http://gpu:8000/v1", "http://gpu:8000", "https://gpu/v1", "https://gpu", "http://gpu/v1"),
    ]
    assert list_candidates("8190")[:2] == ["http://localhost:8190/v1", "http://localhost:8190"]
    assert list_candidates("gpu:8443")[0] == "https://gpu:8443/v1"
    assert list_candidates("gpu:") == list_candidates("gpu")
    assert list_candidates("0") == [
        f"{scheme}://localhost:0{end}" for scheme in ("http", "https") for end in ("/v1", "")
    ]
    assert list_candidates("http://gpu") == ["http://gpu/v1", "http://gpu"]
    assert list_candidates("gpu:1/v1/chat/completions") == ["http://gpu:1/v1", "https://gpu:1/v1"]
    assert list_candidates("gpu:1/v1/chat/completions/") == ["http://gpu:1/v1", "https://gpu:1/v1"]
    assert list_candidates("http://gpu:1/v1/models?limit=1") == ["http://gpu:1/v1"]


def test_scheme_and_path_are_found_by_asking():
    with ScriptedServer() as server:
        where = urlsplit(server.url).netloc
        for given in (where, f"http://{where}", f"{where}/v1", f"{server.url}/chat/completions"):
            settings, said = complete_address(place(given))
            assert settings.vllm.base_url == server.url
            assert said == f"The server is at {server.url} (given: {given})."


def test_a_whole_address_is_taken_without_asking():
    assert complete_address(place("http://gpu.invalid/v1")) == (place("http://gpu.invalid/v1"), "")


def test_neither_the_key_nor_the_users_headers_are_sent_to_find_out():
    with FaultServer(body('{"data": [{"id": "m"}]}'), aside={}) as server:
        secrets = {"api_key": "sekret", "headers": {"X-Token": "sekret"}}
        settings, _ = complete_address(place(f"127.0.0.1:{server.port}/api", **secrets))
        assert settings.vllm.api_key == "sekret"
    assert server.requests[0].line.startswith("GET /api/models")
    assert "sekret" not in str(server.requests)


def test_a_server_that_wants_a_key_is_found():
    denied = b"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    with FaultServer(aside={"/v1/models": ([denied],)}) as server:
        settings, _ = complete_address(place(f"127.0.0.1:{server.port}"))
    assert settings.vllm.base_url == f"http://127.0.0.1:{server.port}/v1"


def test_what_answers_nowhere_is_an_error_that_names_the_address():
    with pytest.raises(NeverReached, match=r"No server answers at 127\.0\.0\.1:9\. Tried http://127"):
        complete_address(place("127.0.0.1:9"))
    with pytest.raises(HostUnknown):
        complete_address(place("no-such-host.invalid"))


def test_an_address_with_a_scheme_that_answers_nowhere_is_left_for_the_question_to_fail_at():
    assert complete_address(place("http://127.0.0.1:9")) == (place("http://127.0.0.1:9"), "")
