"""Who may ask the gateway, request by request: browsers, pages of others, other names of this machine, plain clients."""

from __future__ import annotations

import pytest

from src.serve.admission import (
    AccessRules,
    Asked,
    Refused,
    check_access,
    drop_key,
    find_cors_headers,
    is_allowed_origin,
)
from tests.each import check_rows

CHAT = "/v1/chat/completions"


def ask(method: str = "POST", path: str = CHAT, content_type: str = "application/json", **headers: str) -> Asked:
    named = {name.replace("_", "-"): [value] for name, value in headers.items()}
    return Asked(method, path, {"host": ["127.0.0.1:8010"], **named}, content_type)


def find_status(asked: Asked, **rules) -> int:
    """The status of the refusal; 200 if there is none."""
    try:
        check_access(asked, AccessRules(**rules))
    except Refused as refusal:
        return refusal.status
    return 200


CLIENTS = {  # the headers of ordinary clients
    "openai and anthropic SDKs": ask(user_agent="OpenAI/Python 3.54", accept="application/json"),
    "openai-node, whose fetch names its mode": ask(sec_fetch_mode="cors", user_agent="OpenAI/JS 6.1"),
    "curl with -d and no header": ask(content_type="application/x-www-form-urlencoded", user_agent="curl/8.9"),
    "curl of HTTP/1.0, without Host": Asked("POST", CHAT, {}, "application/json"),
    "LangChain": ask(host="localhost:8010", user_agent="langchain-openai"),
    "LangChain's embeddings": ask(path="/v1/embeddings", host="localhost:8010"),
    "Open WebUI, from its container": ask(host="host.docker.internal:8010", user_agent="Python/3.11 aiohttp/3.14"),
    "a page of Open WebUI on this machine": ask(origin="http://localhost:3000", sec_fetch_site="same-site"),
    "our own page": ask("GET", "/vllm-bot/events", sec_fetch_site="same-origin", sec_fetch_mode="cors"),
    "a link to our page on another site": ask("GET", "/", sec_fetch_site="cross-site", sec_fetch_mode="navigate"),
    "a desktop client": ask(origin="app://obsidian.md"),
    "a desktop client on Windows": ask(origin="http://tauri.localhost"),
    "an editor's view": ask(origin="vscode-webview://1a2b"),
    "nginx in front, with its default Host": ask(host="localhost"),
    "a name that ends in a dot": ask(host="LocalHost.:8010"),
    "IPv6": ask(host="[::1]:8010"),
    "a development name": ask(host="gateway.localhost:8010"),
    "a health check": ask("GET", "/health", user_agent="kube-probe/1.30"),
    "a look at a base URL": ask("GET", "/v1"),
    "the server's own pages": ask("GET", "/docs"),
    "a session of SGLang": ask(path="/open_session"),
    "whether the server sleeps": ask("GET", "/is_sleeping"),
    "what llama.cpp was started with": ask("GET", "/props"),
    "a client of Ollama": ask(path="/api/chat"),
    "what LM Studio has": ask("GET", "/api/v0/models"),
    "the prompt of a conversation": ask(path="/v1/chat/completions/render"),
    "a model that is named with slashes": ask("GET", "/v1/models/org/name"),
    "a vLLM that answers with tokens": ask(path="/inference/v1/generate"),
    "a stored answer": ask("DELETE", "/v1/responses/resp_1"),
    "a transcription": ask(path="/v1/audio/transcriptions", content_type="multipart/form-data"),
    "a client of SGLang": ask("PUT", "/generate"),
}


@check_rows("client", CLIENTS)
def test_an_ordinary_client_is_answered(client):
    check_access(CLIENTS[client], AccessRules())


ATTACKS = {
    "a page's fetch without a content type": (
        ask(content_type="application/octet-stream", origin="https://x.example"),
        403,
    ),
    "the same from this machine": (ask(content_type="application/octet-stream", origin="http://localhost:9"), 415),
    "a form of a page": (ask(content_type="application/x-www-form-urlencoded", origin="https://x.example"), 403),
    "a page's text/plain without Origin": (ask(content_type="text/plain", sec_fetch_site="cross-site"), 415),
    "a page in a sandbox": (ask(origin="null"), 403),
    "a name that begins like ours": (ask(origin="http://localhost.x.example"), 403),
    "an address that begins like ours": (ask(origin="http://127.0.0.1.x.example"), 403),
    "a user's name that is ours": (ask(origin="http://localhost@x.example"), 403),
    "DNS rebinding": (ask("GET", "/metrics", host="evil.example:8010"), 403),
    "DNS rebinding of the page": (ask("GET", "/", host="evil.example:8010"), 403),
    "a Host that begins like ours": (ask(host="127.0.0.1.evil.example"), 403),
    "a Host with a user": (ask(host="localhost@evil.example"), 403),
    "a Host in another spelling": (ask(host="127.1"), 403),
    "a Host that is a number": (ask(host="2130706433"), 403),
    "a Host that means any address": (ask(host="0.0.0.0:8010"), 403),
    "a page of any address": (ask(origin="http://0.0.0.0:9"), 403),
    "an empty Host": (ask(host=""), 403),
    "a Host with a port that is none": (ask(host="127.0.0.1:evil.example"), 403),
    "a Host with a user behind a port": (ask(host="localhost:80@evil.example"), 403),
    "a Host that goes on behind a bracket": (ask(host="[::1].evil.example"), 403),
    "a Host whose bracket stays open": (ask(host="[::1"), 403),
    "a Host with a path": (ask(host="evil.example/.localhost"), 403),
    "what removes a model, by another spelling": (ask(path="/x/../api/./delete"), 403),
    "two Hosts": (Asked("GET", "/", {"host": ["localhost", "evil.example"]}), 400),
    "a page that empties the cache": (ask(path="/reset_prefix_cache", origin="http://localhost:9"), 403),
    "a page that asks for embeddings": (ask(path="/v1/embeddings", origin="http://localhost:9"), 403),
    "weights": (ask(path="/update_weights"), 403),
    "an adapter, with odd slashes": (ask(path="/v1//load_lora_adapter/"), 403),
    "code on the workers": (ask(path="/collective_rpc"), 403),
    "sleep": (ask(path="/sleep"), 403),
    "the weights of SGLang": (ask(path="/update_weights_from_disk"), 403),
    "a slot of llama.cpp": (ask(path="/slots/0"), 403),
    "a model of Ollama": (ask("DELETE", "/api/delete"), 403),
}


CHANGING = {  # paths that change a server, run code in it or reach from it, and the method they have there
    "vLLM": [
        "POST /sleep", "POST /wake_up", "POST /reset_prefix_cache", "POST /collective_rpc", "POST /v1/load_lora_adapter",
        "POST /v1/unload_lora_adapter", "POST /update_weights", "POST /pause", "POST /abort_requests",
        "POST /inference/v1/abort_requests", "POST /scale_elastic_ep", "POST /fault_tolerance/apply",
        "POST /start_profile",
    ],
    "SGLang": [
        "GET /flush_cache", "GET /start_profile", "GET /stop_profile", "GET /release_memory_occupation",
        "GET /clear_hicache_storage_backend", "POST /hicache/storage-backend/clear", "DELETE /hicache/storage-backend",
        "GET /configure_logging", "GET /slow_down", "GET /freeze_gc", "POST /update_weights_from_ipc",
        "POST /init_weights_send_group_for_remote_instance", "POST /send_weights_to_remote_instance",
        "POST /dumper/configure", "POST /add_external_corpus", "GET /dump_expert_distribution_record",
        "PUT /set_internal_state",
    ],
    "llama.cpp": [
        "POST /models", "DELETE /models", "POST /models/load", "POST /models/unload", "POST /lora-adapters",
        "POST /props", "POST /slots/0", "POST /tools", "GET /cors-proxy",
    ],
    "Ollama": [
        "POST /api/pull", "POST /api/push", "POST /api/create", "POST /api/copy", "DELETE /api/delete",
        "POST /api/blobs/sha256:1", "POST /api/signout",
    ],
    "LM Studio": ["POST /api/v1/models/load", "POST /api/v1/models/unload", "POST /api/v1/models/download"],
    "one that does not exist yet": ["GET /erase", "POST /v1/erase", "POST /api/v1/erase", "POST /", "POST /metrics"],
}  # fmt: skip


@check_rows("request", [each for requests in CHANGING.values() for each in requests])
def test_what_changes_a_server_is_not_relayed(request):
    method, path = request.split()
    assert find_status(ask(method, path)) == 403
    assert find_status(ask(method, f"/v1/chat/../..{path}/")) == 403


@check_rows("attack", ATTACKS)
def test_an_attack_is_refused(attack):
    asked, status = ATTACKS[attack]
    assert find_status(asked) == status


@check_rows("attack", [name for name in ATTACKS if "Host" not in name and "rebinding" not in name])
def test_with_keys_the_same_is_refused(attack):
    asked, status = ATTACKS[attack]
    assert find_status(asked, has_keys=True) == status


def test_with_keys_the_gateway_has_any_name():
    assert find_status(ask(host="gateway.example"), has_keys=True) == 200


def test_a_name_and_an_origin_of_the_settings_are_let_in():
    hosts = ("gateway.example", "fd00::1")
    for host in ("Gateway.Example:443", "gateway.example.", "[FD00:0::1]:8010"):
        asked = ask(host=host, origin="https://chat.example")
        assert find_status(asked, hosts=hosts, origins=("https://chat.example/",)) == 200


def test_a_path_of_the_settings_is_relayed():
    assert find_status(ask(path="/sleep"), relay=("/sleep",)) == 200
    assert find_status(ask(path="/wake_up"), relay=("/sleep",)) == 403
    assert find_status(ask(path="/sleepless"), relay=("/sleep",)) == 403
    assert find_status(ask("GET", "/dumper/configure"), relay=("/dumper",)) == 200
    assert find_status(ask(path="/anything"), relay=("/",)) == 200


@pytest.mark.parametrize(
    ("asked", "setting"),
    [
        (ask(host="x.example"), "serve.hosts"),
        (ask(origin="https://x.example"), "serve.origins"),
        (ask(path="/sleep"), "serve.relay"),
    ],
)
def test_a_refusal_names_the_setting(asked, setting):
    with pytest.raises(Refused, match=setting):
        check_access(asked, AccessRules())


@check_rows("origin", ["http://[", "http://", "", "localhost", "file://", "//localhost", "ftp://localhost"])
def test_an_odd_origin_is_not_allowed(origin):
    assert not is_allowed_origin(origin)


def test_pages_of_an_allowed_origin_may_read_answers():
    assert find_cors_headers(ask(origin="http://localhost:3000"), AccessRules()) == {
        "Access-Control-Allow-Origin": "http://localhost:3000",
        "Access-Control-Expose-Headers": "x-vllm-bot",
        "Vary": "Origin",
    }
    assert find_cors_headers(ask(origin="https://x.example"), AccessRules()) == {}
    assert find_cors_headers(ask(), AccessRules()) == {}


@check_rows("target, expected",
    [("/v1/models?key=vb-1", "/v1/models"), ("/x?a=1&KEY=2&key=3&b", "/x?a=1&KEY=2&b"), ("/x?%6bey=1&a=%7E", "/x?a=%7E"),
     ("/x?monkey=1", "/x?monkey=1"), ("/x", "/x"), ("/x?key", "/x")])  # fmt: skip
def test_a_key_is_taken_out_of_a_query_and_nothing_else(target, expected):
    assert drop_key(target) == expected
