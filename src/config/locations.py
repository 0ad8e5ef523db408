"""Where settings are looked for, and where the program keeps what it learns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def default_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where settings are looked for without --config: beside cli.py in a checkout, then in the user's folder.

    Never in the current folder: many projects have a config.json, and it is not ours.
    """
    here = Path(__file__).resolve().parents[1]
    is_checkout = here.name == "src" and (here.parent / "cli.py").is_file()
    folders = [here.parent] if is_checkout else []
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if base.is_absolute():
        folders.append(base / "vllm-bot")
    elif home := _home(environ):
        folders.append(home / ".config" / "vllm-bot")
    return tuple(folder / "config.json" for folder in folders)


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where the program keeps what it learns: XDG_STATE_HOME, else ~/.local/state."""
    base = Path(environ.get("XDG_STATE_HOME", ""))
    if not base.is_absolute():
        usual = Path("/") if "HOME" in environ else Path.home()
        base = (_home(environ) or usual) / ".local" / "state"
    return base / "vllm-bot"


def _home(environ: Mapping[str, str]) -> Path | None:
    """A HOME that is empty or relative would lead into the current folder, which is not the user's."""
    home = Path(environ.get("HOME", ""))
    return home if home.is_absolute() else None
