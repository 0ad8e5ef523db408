"""The folders of the settings and of the program's own data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def list_default_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The settings files without --config: beside cli.py in a checkout, then in the user's configuration folder.

    The current folder is not searched: many projects have a config.json of their own.
    """
    here = Path(__file__).resolve().parents[1]
    is_checkout = here.name == "src" and (here.parent / "cli.py").is_file()
    folders = [here.parent] if is_checkout else []
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if base.is_absolute():
        folders.append(base / "vllm-bot")
    elif home := _get_home(environ):
        folders.append(home / ".config" / "vllm-bot")
    return tuple(folder / "config.json" for folder in folders)


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
