"""Where the API of a server may be, by what was given of its address: `gpu`, `gpu:8000`, `http://gpu`. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

USUAL_PORTS: Mapping[int, str] = {  # of servers, according to their documentation
    8000: "vLLM",
    8001: "vLLM",
    30000: "SGLang",
    11434: "Ollama",
    8080: "llama.cpp",
    1234: "LM Studio",
    23333: "LMDeploy",
    5000: "text-generation-webui",
    1337: "Jan",
    4000: "LiteLLM",
}
ENDPOINTS = ("/chat/completions", "/completions", "/messages", "/models", "/responses")  # pasted with the address
WITH_V1 = ("vllm", "openai", "ollama", "anthropic", "copilot")  # providers whose API is usually below /v1


def list_candidates(address: str, *, has_v1: bool = True) -> list[str]:
    """Where the API may be, the likeliest first."""
    address = address.partition("?")[0].rstrip("/")
    for endpoint in ENDPOINTS:
        if address.endswith(endpoint):
            address = address.removesuffix(endpoint)
            break
    scheme, _, rest = address.rpartition("://")
    host, _, path = rest.partition("/")
    host = host.removesuffix(":")  # behind which no port was written
    if host.isdecimal():  # of this machine, a port
        host = f"localhost:{host}"
    bases = [f"{scheme}://{host}"] if scheme else _list_bases(host)
    if path:
        return [f"{base}/{path}" for base in bases]
    ends = ("/v1", "") if has_v1 else ("",)
    return [f"{base}{end}" for base in bases for end in ends]


def _list_bases(host: str) -> list[str]:
    """The schemes and ports at which a server of this host may listen."""
    if urlsplit(f"//{host}").port is not None:
        schemes = ("https", "http") if host.endswith("443") else ("http", "https")
        return [f"{scheme}://{host}" for scheme in schemes]
    first, *others = (f"http://{host}:{port}" for port in USUAL_PORTS)
    return [first, f"https://{host}", f"http://{host}", *others]
