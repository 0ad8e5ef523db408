"""What calls may do under these settings: the policy, the sandbox of commands, and what tools work with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from ..config import Settings
from ..security.permissions.hooks import Hooks
from ..security.permissions.policy import Policy
from ..security.permissions.rules import Rule, parse_rules
from ..security.sandbox.deferred import DeferredSandbox, SandboxChoice
from ..security.sandbox.limits import ResourceLimits
from ..security.sandbox.view import SandboxView, complete_view, drop_secrets, select_environment
from ..security.shell.workspace import list_start_files
from ..tools import ToolContext
from ..tools.sdk.output_store import Outputs
from ..tools.sdk.wiring import Wiring
from ..types.sandbox import Sandbox
from .check_settings import list_hook_rows
from .state_files import ALLOWED, RuleMemory


def make_tool_context(settings: Settings, policy: Policy) -> ToolContext:
    """What tools work with, under these settings."""
    wiring = Wiring(
        max_file_bytes=settings.workspace.max_file_bytes,
        added_folders=settings.added,
        protected=policy.protected,
        exec_timeout=settings.security.exec_timeout,
        exec_max_timeout=settings.longest_timeout,
        exec_max_output=settings.security.exec_max_output,
        outputs=Outputs(settings.state / "outputs"),
        sandbox=policy.sandbox,
        can_show=policy.can_show,
    )
    environment = select_environment(os.environ, settings.security.environment, settings.keys)
    return ToolContext(settings.root, environment, wiring=wiring)


def make_policy(settings: Settings, sandbox: Sandbox | None) -> Policy:
    """What may run, where commands run in `sandbox`. Raises ConfigError for an invalid rule."""
    security = settings.security
    return Policy(
        workspace=settings.root,
        mode=security.mode_in_force,
        rules=_list_rules(settings),
        allowed_commands=security.allowed_commands,
        protected=(*settings.files, _resolve_state(settings), *list_start_files(os.environ.get("HOME", ""))),
        sandbox=sandbox,
        added=settings.added,
    )


def _list_rules(settings: Settings) -> tuple[Rule, ...]:
    """Raises ConfigError for an invalid one."""
    saved = RuleMemory(settings.state, settings.root).read()
    return (*parse_rules(settings.security.rules), *parse_rules(saved))


def make_hooks(settings: Settings, get_session: Callable[[], str]) -> Hooks | None:
    """The user's hooks, if there are some. Raises ConfigError."""
    rows = list_hook_rows(settings)
    if not rows:
        return None
    from ..security.permissions.hook_programs import HookPrograms, parse_hooks  # start-up is measured

    environment = drop_secrets(os.environ, settings.keys)
    return HookPrograms(parse_hooks(rows), settings.root, environment, get_session)


def defer_sandbox(settings: Settings) -> DeferredSandbox:
    """The best sandbox that works here and that the settings allow; trying it out takes about 20 ms."""
    security, environment = settings.security, dict(os.environ)
    readable = tuple(Path(each).expanduser() for each in security.sandbox_read)

    def look() -> SandboxView:
        state = _resolve_state(settings)
        name = sha256(os.fsencode(settings.root)).hexdigest()[:16]
        policy = Policy(settings.root, rules=_list_rules(settings), added=settings.added)  # what it says of reading
        own = SandboxView(
            settings.root,
            readable=readable,
            protected=(*settings.files, state / ALLOWED),  # not all of the state, which this program writes meanwhile
            network=security.sandbox_network,
            hidden=(state,),
            cache=state / "caches" / name,
            aside=state / "aside" / name,
            is_unreadable=policy.is_unreadable if policy.denies_reading else None,
            added=settings.added,
        )
        return complete_view(own, environment, (sys.prefix, sys.base_prefix))

    def choose_sandbox(view: SandboxView) -> SandboxChoice:
        """Raises BotError where no container of the image can be had."""
        from ..security.sandbox.choose import choose  # loads all kinds of sandboxes
        from ..security.sandbox.container import ContainerOptions, open_container

        limits = ResourceLimits(security.exec_memory_mb, security.exec_processes, security.exec_file_size_mb)
        if security.exec_enabled and security.container_image:
            options = ContainerOptions(security.container_image, security.container_runtime, security.container_cpus)
            image_view = replace(view, readable=readable)  # programs are those of the image
            return SandboxChoice(open_container(options, image_view, limits, environment))
        return choose(security.sandbox if security.exec_enabled else "off", view, limits, environment)

    return DeferredSandbox(look, choose_sandbox)


def _resolve_state(settings: Settings) -> Path:
    """The state folder, which tools may not touch even if it is inside the workspace."""
    return Path(os.path.realpath(settings.state))
