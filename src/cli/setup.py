"""Asks for the server's address and key at the terminal, and saves them: what an editor needs before a session."""

from __future__ import annotations

import os
import sys
from getpass import getpass

from msgspec.structs import replace

from ..app.discovery import discover, place_server
from ..app.factory import Factory
from ..config import Settings, get_user_file, write_setting
from ..errors import ConfigError, RequestFailed, Unauthorized
from ..security.text.sanitize import sanitize

ASK_ADDRESS = "Where is your server? HOST, HOST:PORT or a URL [{default}]: "
ASK_KEY = "Its API key (it is not shown): "


def set_up(settings: Settings) -> int:
    """Ask until a server answers. Returns the exit code. Raises ConfigError."""
    file = get_user_file(os.environ)
    if file is None:
        raise ConfigError("There is no home folder for a settings file.", "Set VLLM_BASE_URL and VLLM_API_KEY instead.")
    while True:
        try:
            typed = input(ASK_ADDRESS.format(default=settings.vllm.base_url)).strip() or settings.vllm.base_url
        except EOFError:
            print(file=sys.stderr)
            return 1
        try:
            placed = _find(place_server(settings, typed))
        except (ConfigError, RequestFailed) as error:
            print(sanitize(str(error)), file=sys.stderr)
            continue
        saved = {"vllm.base_url": placed.vllm.base_url, "vllm.provider": placed.vllm.provider}
        if placed.vllm.api_key != settings.vllm.api_key:
            saved["vllm.api_key"] = placed.vllm.api_key
        for key, value in saved.items():
            write_setting(file, key, value)
        print(sanitize(f"{placed.vllm.base_url} answers, with {placed.vllm.model}. Saved in {file}."))
        return 0


def _find(settings: Settings) -> Settings:
    """The server and a model that answer; a key is asked for where the server wants one. Raises BotError."""
    try:
        return discover(Factory(settings), lambda names: names[0], lambda _: None).settings
    except Unauthorized:
        key = getpass(ASK_KEY).strip()
        if not key:
            raise
    with_key = replace(settings, vllm=replace(settings.vllm, api_key=key))
    return discover(Factory(with_key), lambda names: names[0], lambda _: None).settings
