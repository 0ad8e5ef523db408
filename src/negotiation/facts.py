"""What is known of servers, shared by all models of a program: frozen values, changed by compare-and-set.

Two kinds: what a server tells of itself, by address, and what it has refused, by address, model and version. What was
refused only grows (see CallPath.join), so that no order of changes loses one. Thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

from msgspec import Struct

from ..types.effects import Aside, Await
from .call_path import CallPath, Reason
from .parser_record import ParserRecord

K = TypeVar("K")
V = TypeVar("V")


class ServerInfo(Struct, frozen=True):
    """None: not asked yet. `context_lengths`: in tokens, by model. `version` is empty if the server does not say.

    `parameter_counts`: of the models whose number of parameters it tells. `owner`: of its models, as it says.
    """

    models: tuple[str, ...] | None = None
    context_lengths: Mapping[str, int] | None = None
    version: str | None = None
    parameter_counts: Mapping[str, int] = {}
    owner: str = ""


class ServedModel(Struct, frozen=True):
    """What a path is known for."""

    address: str
    model: str
    version: str


class FactTable(Generic[K, V]):
    """Frozen values by key. `default` is the value of a key that was never set."""

    def __init__(self, default: V) -> None:
        self._default = default
        self._values: dict[K, V] = {}
        self._lock = Lock()

    def get(self, key: K) -> V:
        return self._values.get(key, self._default)

    def update(self, key: K, change: Callable[[V], V]) -> V:
        """Replace the value by what `change` makes of it, which asks nothing of this table. Returns the new value."""
        with self._lock:
            old = self.get(key)
            new = change(old)
            if new != old:
                self._values[key] = new
            return new

    def forget(self, key: K) -> None:
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


class FactStore:
    """`infos`: what servers tell of themselves; `paths`: what was learned from refusals.

    `accepted`: the models whose server has accepted a request with tools. `thought_starts`: the last tokens of prompts
    in which the template of a model opens a thought that the server leaves in the text, their ids joined by commas; ""
    if the server tells no tokens. `unshown_thoughts`: where it shows no prompt, of how many more answers the calls
    wait, because one ended such a thought. `measured`: the models of which a prompt looked too short for its tools,
    which is measured once. `late_system`: whether the template shows a late system message in its place; None: it was
    not asked yet. `untold_thoughts`: the models whose server does not tell whether the template shows thoughts.
    `grammar_failures`: how many requests in a row failed with a grammar only. `parser_records`: how often the server's
    parser failed on a model's answers. `clean_ends`: by address, models that write calls without tags, each with the
    last tokens of an answer of which the server's parser lost nothing. What one conversation is finding out by `claim`,
    others wait for. `now`: seconds from any fixed point.
    """

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self._now = now
        self.infos: FactTable[str, ServerInfo] = FactTable(ServerInfo())
        self.paths: FactTable[ServedModel, CallPath] = FactTable(CallPath())
        self.accepted: FactTable[ServedModel, bool] = FactTable(False)
        self.thought_starts: FactTable[ServedModel, frozenset[str]] = FactTable(frozenset())
        self.unshown_thoughts: FactTable[ServedModel, int] = FactTable(0)
        self.measured: FactTable[ServedModel, bool] = FactTable(False)
        self.late_system: FactTable[ServedModel, bool | None] = FactTable(None)
        self.untold_thoughts: FactTable[ServedModel, bool] = FactTable(False)
        self.grammar_failures: FactTable[ServedModel, int] = FactTable(0)
        self.parser_records: FactTable[ServedModel, ParserRecord] = FactTable(ParserRecord())
        self.clean_ends: FactTable[str, frozenset[tuple[str, tuple[int, ...]]]] = FactTable(frozenset())
        self._claims: dict[Hashable, Future[None]] = {}
        self._lock = Lock()

    def note_parser(self, model: ServedModel, *, failed: bool) -> None:
        """Keep whether the server's parser failed on an answer of the model."""
        if failed or any(self.parser_records.get(model).failures):  # a record without failures says nothing
            self.parser_records.update(model, lambda known: known.add(failed=failed, now=self._now()))

    def note_grammar(self, model: ServedModel, *, failed: bool) -> bool:
        """Keep whether a request failed with a grammar only. Whether the last two did: one may have other reasons."""
        return self.grammar_failures.update(model, lambda known: known + 1 if failed else 0) > 1

    def keep_path(self, model: ServedModel, path: CallPath) -> None:
        """Keep what was learned on this path for others, unless it holds for one turn."""
        if path.is_learned and path.reason is not Reason.PARSER_FAILED:
            self.paths.update(model, lambda known: known.join(path.for_others))

    def avoid_parser(self, model: ServedModel, path: CallPath) -> CallPath:
        """The path for the next turn: in text where the server's parser fails on the model again and again."""
        prefers_text = self.parser_records.get(model).prefers_text(self._now())
        return path.for_text_turn if prefers_text and path.mode == "native" and "text" in path.order else path

    def claim(self, question: Hashable) -> Future[None] | None:
        """None: the caller is to answer the question, and to `release` it then; else what settles at its release."""
        with self._lock:
            if question in self._claims:
                return self._claims[question]
            self._claims[question] = Future()
            return None

    def release(self, question: Hashable) -> None:
        """The question is answered, or cannot be."""
        with self._lock:
            claimed = self._claims.pop(question)
        claimed.set_result(None)

    def ask_once(self, question: Hashable, ask: Callable[[], Aside[object]]) -> Aside[None]:
        """Run `ask`, or wait for the end of another one that asks the same. Raises what its own `ask` raises."""
        if running := self.claim(question):
            yield Await(running)
            return
        try:
            yield from ask()
        finally:
            self.release(question)

    def clear(self) -> None:
        """Forget all of it, as a new program would."""
        for table in vars(self).values():
            if isinstance(table, FactTable):
                table.clear()
