"""The sandbox of a session, which is chosen when it is first used or asked about: most questions run no command.

Choosing it tries it out, and loads all kinds of sandboxes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ...types.sandbox import Access, Launch, Sandbox

if TYPE_CHECKING:
    from .leftovers import Leftovers, SetAside
    from .view import SandboxView


class SandboxChoice(Struct, frozen=True):
    """`tried`: why each kind that comes before the chosen one cannot be used here. `note`: what it does not open."""

    sandbox: Sandbox
    tried: tuple[str, ...] = ()
    note: str = ""

    @property
    def warning(self) -> str:
        """What the user must know before commands run; empty if they are contained as usual, or it is off."""
        if not self.tried or self.sandbox.kind not in ("none", "refused"):
            return self.note
        return f"Sandbox: {self.sandbox.description} ({'; '.join(self.tried)})"


class DeferredSandbox:
    """A Sandbox that is chosen when it is first used or asked about: most questions run no command.

    `look` finds what it shows to commands. It is chosen before the first call that may change anything: what a model
    wrote, as a link to a Python in the workspace, does not widen what its commands see.
    """

    def __init__(self, look: Callable[[], SandboxView], choose: Callable[[SandboxView], SandboxChoice]) -> None:
        self._look = look
        self._choose = choose
        self._has_warned = False

    @cached_property
    def view(self) -> SandboxView:
        return self._look()

    @cached_property
    def choice(self) -> SandboxChoice:
        return self._choose(self.view)

    def choose_now(self) -> None:
        """Raises BotError where commands have to run in a container, and there is none."""
        _ = self.choice

    @property
    def is_chosen(self) -> bool:
        """Whether it has been chosen, so that asking about it takes no time."""
        return "choice" in vars(self)

    @property
    def kind(self) -> str:
        return self.choice.sandbox.kind

    @property
    def description(self) -> str:
        return self.choice.sandbox.description

    @property
    def is_enforcing(self) -> bool:
        return self.choice.sandbox.is_enforcing

    @property
    def can_hide_files(self) -> bool:
        return self.choice.sandbox.can_hide_files

    @property
    def has_loopback(self) -> bool:
        return self.choice.sandbox.has_loopback

    def has_network(self, access: Access) -> bool:
        return self.choice.sandbox.has_network(access)

    def launch(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], access: Access = "write"
    ) -> Launch:
        return self.choice.sandbox.launch(argv, cwd, environment, access)

    def take_set_aside(self) -> list[SetAside]:
        """What commands left to run later, and is set aside; each only once. Those in the background may still run."""
        if leftovers := self._find_leftovers():
            return leftovers.take_kept()
        return []

    def put_back(self, item: SetAside) -> None:
        """Put back what was set aside. Raises OSError."""
        if leftovers := self._find_leftovers():
            leftovers.put_back(item)

    def _find_leftovers(self) -> Leftovers | None:
        if not self.is_chosen:
            return None
        return getattr(self.choice.sandbox, "leftovers", None)  # only what contains commands keeps them

    def take_warning(self) -> str:
        """What the user must know before commands run; empty the next time."""
        if self._has_warned:
            return ""
        warning = self.choice.warning
        self._has_warned = True
        return warning
