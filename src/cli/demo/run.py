"""The demo's server and folder, for as long as it runs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .loopback import serving
from .protocol import Protocol
from .script import script

FILES = {
    "README.md": "# Greeter\n\nA small program to try things out on. `python3 greet.py` should greet the world.\n",
    "greet.py": 'def greet(name):\n    return f"Hello, {name}!"\n\n\nprint(great("world"))\n',
    "notes/ideas.txt": "greet in Japanese\ngreet by the time of day\n",
}


class Demo(NamedTuple):
    """`overrides`: the settings that lead to it, whatever the user's own are."""

    folder: Path
    state: Path  # what the program keeps, which is gone with it: the user's own sessions are elsewhere
    overrides: dict[str, object]


@contextmanager
def running(sleep: Callable[[float], None] = time.sleep) -> Iterator[Demo]:
    """A server on a loopback port and a folder of sample files; both are gone when the block is left."""
    with tempfile.TemporaryDirectory(prefix="vllm-bot-demo-") as name, serving(Protocol(script, sleep)) as address:
        folder, state = Path(name, "workspace"), Path(name, "state")
        folder.mkdir()
        for path, content in FILES.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(content, encoding="utf-8")
        yield Demo(
            folder,
            state,
            {
                "vllm.provider": "vllm",
                "vllm.base_url": f"{address}/v1",
                "vllm.model": "",
                "vllm.api_key": "",
                "workspace.dir": str(folder),
            },
        )
