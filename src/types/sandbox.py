"""What the tools need of a sandbox; src/security/sandbox makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol


class Launch(Protocol):
    """A command as it is started."""

    @property
    def argv(self) -> Sequence[str]: ...
    @property
    def environment(self) -> Mapping[str, str]: ...
    @property
    def before_exec(self) -> Callable[[], None] | None:
        """Called in the child."""

    @property
    def inherited(self) -> Sequence[int]:
        """File descriptors that the child keeps."""

    def settle(self) -> None:
        """To be called once the program has ended, or was not started: waits for what ends with it."""

    def ended(self) -> Sequence[str]:
        """To be called once after that, when its session is dead: what else had to be done, in words."""


class Sandbox(Protocol):
    """Where commands run."""

    def launch(self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Launch:
        """Raises OSError where it cannot be made ready."""
