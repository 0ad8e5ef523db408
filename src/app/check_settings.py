"""Checks of settings that need more than the settings themselves, before any server is asked.

An error names the file that holds what is wrong. Nothing is loaded for settings that are not given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..config import GivenValue, Settings, check_value, split_key
from ..errors import ConfigError
from ..security.permissions.rules import parse_rules

if TYPE_CHECKING:
    from ..security.permissions.hooks import HookEvent


def check_settings(settings: Settings) -> None:
    """Check the added folders, the rules, the reviewers, the MCP servers, and what is asked of the server's API.

    Raises ConfigError.
    """
    if settings.added:
        from ..security.shell.workspace import check_added

        with _name_file(settings, "workspace.add_dirs"):
            own = (*settings.files, settings.state)
            check_added(settings.added, settings.root, own, os.environ)
    if settings.security.rules:
        with _name_file(settings, "security.rules"):
            parse_rules(settings.security.rules)
    if settings.review.models:
        from ..providers.table import PROVIDERS
        from ..security.permissions.review import parse_reviewers

        with _name_file(settings, "review.models"):
            parse_reviewers(settings.review.models, tuple(PROVIDERS), settings.server_models)
    if settings.tools.mcp:
        from ..tools.sources.mcp_config import parse_servers

        with _name_file(settings, "tools.mcp"):
            parse_servers(settings.tools.mcp, os.environ, settings.root)
    for event, rows in list_hook_rows(settings).items():
        from ..security.permissions.hook_programs import parse_hooks

        with _name_file(settings, f"hooks.{event}"):
            parse_hooks({event: rows})
    if settings.vllm.provider != "vllm":  # whose API takes all
        from .sampling import make_model_body

        make_model_body(settings, settings.vllm.model)


def list_hook_rows(settings: Settings) -> dict[HookEvent, Sequence[Mapping[str, Any]]]:
    """The rows of each event that has some."""
    hooks = settings.hooks
    rows: dict[HookEvent, Sequence[Mapping[str, Any]]] = {
        "before_call": hooks.before_call,
        "after_call": hooks.after_call,
        "turn_end": hooks.turn_end,
    }
    return {event: listed for event, listed in rows.items() if listed}


def check_given(key: str, value: object) -> None:
    """Check the value of one key, as a settings file would hold it. Raises ConfigError."""
    table, name, option = split_key(key)
    checked = check_value(GivenValue(option, value, key, table, name))
    if not table:
        section, _, last = option.partition(".")
        settings = Settings(servers={})
        check_settings(replace(settings, **{section: replace(getattr(settings, section), **{last: checked.value})}))


@contextmanager
def _name_file(settings: Settings, key: str) -> Iterator[None]:
    """Put the place where the key was set before the error."""
    try:
        yield
    except ConfigError as error:
        file, colon, _ = settings.places.get(key, "").rpartition(f": {key}")
        if not colon:
            raise
        raise ConfigError(f"{file}: {error.message}", error.hint) from error
