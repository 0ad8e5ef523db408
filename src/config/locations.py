"""The folders of the settings and of the program's own data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def list_default_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The settings files without --config, the one that wins first: beside cli.py in a checkout, then the user's.

    The current folder is not searched: many projects have a config.json of their own.
    """
    return tuple(filter(None, (get_checkout_file(), get_user_file(environ))))


def get_checkout_file() -> Path | None:
    """The settings file beside cli.py; None where the program is installed."""
    here = Path(__file__).resolve().parents[1]
    is_checkout = here.name == "src" and (here.parent / "cli.py").is_file()
    return here.parent / "config.json" if is_checkout else None


def get_user_file(environ: Mapping[str, str]) -> Path | None:
    """The settings file in the user's configuration folder; None for a user without a home."""
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():
        home = _get_home(environ)
        if home is None:
            return None
        base = home / ".config"
    return base / "vllm-bot" / "config.json"


def get_state_folder(environ: Mapping[str, str]) -> Path:
    """The folder of sessions and of facts about servers: in XDG_STATE_HOME, else in ~/.local/state."""
    base = Path(environ.get("XDG_STATE_HOME", ""))
    if not base.is_absolute():
        usual = Path("/") if "HOME" in environ else Path.home()
        base = (_get_home(environ) or usual) / ".local" / "state"
    return base / "vllm-bot"


def _get_home(environ: Mapping[str, str]) -> Path | None:
    """None for a HOME that is empty or relative, which would mean the current folder."""
    home = Path(environ.get("HOME", ""))
    return home if home.is_absolute() else None
