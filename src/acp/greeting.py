"""The answer to `initialize`, made without the SDK.

Loading the SDK's schema takes most of a second, and an editor shows nothing before this answer. So it is given first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

PROTOCOL_VERSION = 1
SETUP = "setup"  # the method of authentication: the server's address and its key, asked for in a terminal
SETUP_OPTION = "--setup"
SETUP_NAME = "Set up the model server"
SETUP_ADVICE = (
    "Run `vllm-bot acp --setup` in a terminal, which asks for the server's address and key, or set VLLM_BASE_URL and "
    "VLLM_API_KEY in the editor's configuration of this agent."
)


class EditorAbilities(Struct, frozen=True):
    """What the editor offers: its own reading and writing of files, a terminal to sign in, forms to fill in."""

    reads_files: bool = False
    writes_files: bool = False
    opens_terminal: bool = False
    shows_forms: bool = False


def read_abilities(capabilities: object) -> EditorAbilities:
    """Those in the `clientCapabilities` of `initialize`; what cannot be read is not offered."""
    fs, auth, elicitation = (_find(capabilities, name) for name in ("fs", "auth", "elicitation"))
    return EditorAbilities(
        reads_files=_find(fs, "readTextFile") is True,
        writes_files=_find(fs, "writeTextFile") is True,
        opens_terminal=_find(auth, "terminal") is True,
        shows_forms=_find(elicitation, "form") is not None,
    )


def _find(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


def make_greeting(abilities: EditorAbilities, version: str) -> dict[str, Any]:
    """The result of `initialize`."""
    setup: dict[str, Any] = {"id": SETUP, "name": SETUP_NAME, "description": SETUP_ADVICE}
    if abilities.opens_terminal:
        setup |= {"type": "terminal", "args": [SETUP_OPTION]}
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {"name": "vllm-bot", "title": "vLLM Bot", "version": version},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": False},
            "sessionCapabilities": {
                **{name: {} for name in ("list", "delete", "fork", "resume", "close", "additionalDirectories")}
            },
        },
        "authMethods": [setup],
    }


def answer_greeting(message: object, version: str) -> tuple[dict[str, Any], EditorAbilities] | None:
    """The whole answer to a message that is an `initialize`; None for another one, which is for the SDK."""
    params = _find(message, "params")
    if _find(message, "method") != "initialize" or not isinstance(_find(params, "protocolVersion"), int):
        return None
    request_id = _find(message, "id")
    if not isinstance(request_id, (int, str)):
        return None
    abilities = read_abilities(_find(params, "clientCapabilities"))
    return {"jsonrpc": "2.0", "id": request_id, "result": make_greeting(abilities, version)}, abilities
