"""What the tools need of a sandbox; the sandboxes themselves are in src/security/sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, Union, get_args

from msgspec import Struct

# What a command needs: the workspace to read, the workspace to change, or that and the network.
Access = Literal["read", "write", "network"]
ACCESSES: tuple[Access, ...] = get_args(Access)  # each includes those before it
Grant = Union[Access, Literal["outside"]]  # outside: without the sandbox, which only the user can allow


class Launch(Struct, frozen=True):
    """How to start a command, and what to call once its program has ended."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    before_exec: Callable[[], None] | None = None  # called in the child process
    inherited_fds: Sequence[int] = ()  # file descriptors that the child keeps
    settle: Callable[[], None] = lambda: None  # after the program's end, or a failed start: waits for what ends with it
    tidy_up: Callable[[], Sequence[str]] = lambda: ()  # after that, once the session is dead: says what it had to do
    share_network: Callable[[], None] = lambda: None  # while it runs: see RunningCommand.share_network
    ends_with_parent: bool = False  # whether all that it starts ends when its program ends, or this one
    scope_signals: Callable[[], None] | None = None  # from then on kill(-1) of a process reaches only what it starts
    max_tasks: int = 0  # processes and threads that this program holds it to; 0: the kernel does


class Sandbox(Protocol):
    """Where commands run. `kind` is a word such as "landlock", `description` a line for people.

    `is_enforcing`: whether the kernel holds a command to its access, so that one with access "read" changes nothing.
    `can_hide_files`: whether commands cannot read the files of the workspace that a rule denies to `read`.
    `has_loopback`: whether commands without the network have a loopback, as a server for development needs.
    """

    @property
    def kind(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def is_enforcing(self) -> bool: ...
    @property
    def can_hide_files(self) -> bool: ...
    @property
    def has_loopback(self) -> bool: ...
    def has_network(self, access: Access) -> bool: ...
    def launch(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], access: Access = "write"
    ) -> Launch:
        """Raises OSError if the command cannot be contained as promised."""
