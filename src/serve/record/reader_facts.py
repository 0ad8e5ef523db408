"""What a turn knew of its server when it began, as JSON: it decides how an answer is asked for and read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from ...negotiation.call_path import CallPath
from ...negotiation.facts import FactStore, ServedModel, ServerInfo
from ...providers.wire_json import as_dict


def describe_facts(facts: FactStore, served: ServedModel) -> dict[str, Any]:
    """What restore_facts takes."""
    path = facts.avoid_parser(served, facts.paths.get(served))
    ends = [tokens for model, tokens in facts.clean_ends.get(served.address) if model == served.model]
    return {
        "info": to_builtins(facts.infos.get(served.address)),
        "path": path.to_dict(),
        "thought_starts": sorted(facts.thought_starts.get(served)),
        "unshown_thoughts": facts.unshown_thoughts.get(served),
        "measured": facts.measured.get(served),
        "late_system": facts.late_system.get(served),
        "untold_thoughts": facts.untold_thoughts.get(served),
        "grammar_failures": facts.grammar_failures.get(served),
        "clean_ends": ends,
    }


def restore_facts(stored: Mapping[str, Any], address: str, model: str) -> FactStore:
    """Raises TypeError, ValueError and AttributeError where it is not what describe_facts gave."""
    facts = FactStore()
    info = ServerInfo(**as_dict(stored.get("info")))
    served = ServedModel(address, model, info.version or "")
    path = CallPath.from_dict(as_dict(stored.get("path")))
    ends = frozenset((model, tuple(tokens)) for tokens in stored.get("clean_ends") or ())
    facts.infos.update(address, lambda _: info)
    facts.paths.update(served, lambda _: path)
    facts.thought_starts.update(served, lambda _: frozenset(stored.get("thought_starts") or ()))
    facts.unshown_thoughts.update(served, lambda _: int(stored.get("unshown_thoughts") or 0))
    facts.measured.update(served, lambda _: bool(stored.get("measured")))
    facts.late_system.update(served, lambda _: stored.get("late_system"))
    facts.untold_thoughts.update(served, lambda _: bool(stored.get("untold_thoughts")))
    facts.grammar_failures.update(served, lambda _: int(stored.get("grammar_failures") or 0))
    facts.clean_ends.update(address, lambda _: ends)
    return facts
