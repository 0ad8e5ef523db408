"""The demo's server and folder."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from .loopback import serve
from .protocol import DemoServer
from .script import play_script

FILES = {
    "README.md": "# Greeter\n\nA small program to try things out on. `python3 greet.py` should greet the world.\n",
    "greet.py": 'def greet(name):\n    return f"Hello, {name}!"\n\n\nprint(great("world"))\n',
    "notes/ideas.txt": "greet in Japanese\ngreet by the time of day\n",
}


class Demo(Struct, frozen=True):
    """`overrides`: the settings that select the demo's server, whatever the user's own settings are."""

    folder: Path
    state: Path  # the state folder, deleted with the demo: it has none of the user's sessions
    overrides: dict[str, object]


@contextmanager
def start_demo(sleep: Callable[[float], None] = time.sleep, *, has_parser: bool = True) -> Iterator[Demo]:
    """Run a server on a loopback port in a folder of sample files; both last until the end of the block."""
    server = DemoServer(play_script, sleep, has_parser=has_parser)
    with tempfile.TemporaryDirectory(prefix="vllm-bot-demo-") as name, serve(server) as address:
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
                "review.models": [],
                "workspace.dir": str(folder),
            },
        )
