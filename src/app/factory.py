"""The one composition: from settings to a running agent and its conversation, for every front end.

Nothing here prints or needs a terminal. `Factory` is cheap to make and to import. What needs the model, the tools or
the network is in connect.py and runtime.py, which `connections` and `make_runtime` import when they are first used, so
that the chat shows its prompt before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ..config import Settings, describe_environment, get_user_guide, read_guides, render_guides
from ..security.text.sanitize import sanitize
from ..session.session import Session
from ..session.store import Store
from ..types.file_names import escape_name
from ..types.messages import JSON, Message, SystemMessage
from ..types.process import StartedProcess
from ..types.special_tokens import neutralize_with_note
from .state_files import RuleMemory, ServerMemory, TrustMemory

if TYPE_CHECKING:
    from threading import Event as CancelToken

    from ..security.permissions.approval import Approver
    from ..tools.sources.skills import SkillSet
    from .connect import Connections
    from .runtime import Runtime, Workplace


class Factory:
    """Makes what one set of settings describes. `sleep` waits between attempts to reach the server.

    Once `cancelled` is set, by any thread, what the agent does ends, and it raises Cancelled.
    """

    def __init__(
        self,
        settings: Settings,
        sleep: Callable[[float], None] = time.sleep,
        cancelled: CancelToken | None = None,
    ) -> None:
        self.settings = settings
        self.sleep = sleep
        self.cancelled = cancelled

    def with_settings(self, settings: Settings) -> Factory:
        return Factory(settings, self.sleep, self.cancelled)

    @property
    def connections(self) -> Connections:
        from .connect import Connections

        return Connections(self.settings, self.sleep, self.cancelled)

    def make_runtime(
        self,
        model_name: str,
        approver: Approver,
        find_session: Callable[[], Session] | None = None,
        only: Sequence[str] | None = None,
        workplace: Workplace | None = None,
    ) -> Runtime:
        """The agent on this model. `find_session`: where the files that tools write and the processes they start are
        recorded. `only`: the names of the tools on offer; None: all. `workplace`: where commands run, if it outlives
        the runtime.

        Raises ConfigError for tools, rules or reviewers that cannot be used.
        """
        from .runtime import make_runtime

        return make_runtime(self.connections, model_name, approver, find_session, only, workplace=workplace)

    @property
    def server_memory(self) -> ServerMemory:
        return ServerMemory(self.settings.state)

    @property
    def rule_memory(self) -> RuleMemory:
        return RuleMemory(self.settings.state, self.settings.root)

    @property
    def trust_memory(self) -> TrustMemory:
        return TrustMemory(self.settings.state, self.settings.root)

    def load_skills(self) -> SkillSet:
        """The skills and commands of the user, and of the workspace if the user trusts it."""
        return self.trust_memory.load_skills(os.environ)

    @cached_property
    def redact(self) -> Callable[[str], str]:
        """Gives a text without secrets."""
        from ..security.text.redact import redact  # start-up is measured: not before something is written

        return partial(redact, secrets=tuple(self.settings.keys))

    def clean(self, text: str) -> str:
        """The text without terminal escapes and secrets."""
        return self.redact(sanitize(text))

    def make_store(self) -> Store:
        """Where conversations are saved, with secrets removed."""
        return Store(self.settings.state, lambda text: self.redact(text), find_living=_find_living)

    def make_session(self, model_name: str, store: Store | None = None, *, one_shot: bool = False) -> Session:
        """A new conversation, which is saved where there is a store. `one_shot`: it is one question of a script."""
        opening, root = self.make_system_messages(), self.settings.root
        if store is None:
            return Session(opening, root)
        meta: dict[str, JSON] = {"workspace": str(root), "server": self.settings.vllm.base_url}
        if model_name:
            meta["model"] = model_name
        if one_shot:
            meta["one_shot"] = True
        return store.create(opening, root, meta)

    def open_session(self, resume: str | None) -> tuple[Session, list[str]]:
        """The session to continue ("" is the last one, None a new one for one question), and notices about it.

        Raises BotError.
        """
        store = self.make_store()
        if resume is None:
            return self.make_session(self.settings.vllm.model, store, one_shot=True), []
        return store.resume(resume, self.make_system_messages(), self.settings.root)

    def is_unreadable(self, path: str) -> bool:
        """Whether a rule denies reading a file, by its path in the workspace, to the model. Raises ConfigError."""
        from .permissions import make_policy  # start-up is measured

        return make_policy(self.settings, None).is_unreadable(path)

    def make_system_messages(self) -> list[Message]:
        """How a conversation begins: the system prompt, with what AGENTS.md files say."""
        prompt, root = self.settings.system_prompt, self.settings.root
        notes = [
            note.replace("{workspace}", str(root)).replace("{workspace_dir}", str(root))
            for note in (prompt.role, prompt.workspace_note, prompt.tools_note)
        ]
        if self.settings.added:
            folders = ", ".join(escape_name(each) for each in self.settings.added)
            notes.append(f"These folders can be read and changed like your files, by their whole paths: {folders}.")
        if prompt.environment:
            notes.append(describe_environment(root, self.settings.security, time.strftime("%Y-%m-%d, %A")))
        guides = []
        if self.settings.workspace.agents_md:
            guides = read_guides(
                root,
                get_user_guide(os.environ),
                is_unreadable=lambda path: (
                    path.is_relative_to(root) and self.is_unreadable(str(path.relative_to(root)))
                ),
            )
        rules = render_guides(guides)
        if rules:
            rules = neutralize_with_note(rules)
        return [SystemMessage("\n\n".join(filter(None, [*notes, rules])))]


def _find_living(processes: Iterable[StartedProcess]) -> Mapping[StartedProcess, Sequence[int]]:
    from ..tools.process.proc import find_living  # start-up is measured

    return find_living(processes)
