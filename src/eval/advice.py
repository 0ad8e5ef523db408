"""What to change: the settings of the best arm, and the flags with which vLLM parses this model's calls itself."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..config import Settings
from ..parsing import list_parsers
from ..providers.vllm_parsers import find_family
from ..types.messages import JSON, NATIVE
from .arms import Arm, describe_changes, find_new
from .outcomes import Outcome
from .search import Search

FEW = 0.1  # the share of native answers that may need help before flags are advised
UNIVERSAL_PARSER = "any"  # of this project's plugin
NO_THINKING = """--default-chat-template-kwargs '{"enable_thinking": false}'"""

IN_THOUGHTS = (
    "Calls end up in thoughts: the server's --reasoning-parser does not end a thought where a call begins. Leave it "
    "out, or name one that does."
)


class ServerFacts(NamedTuple):
    """`root`: the name of the weights; `template`: a chat template that was made for this model and shows tools."""

    model: str
    root: str = ""
    is_vllm: bool = True
    template: Path | None = None

    @property
    def weights(self) -> str:
        return self.root or self.model


class Advice(NamedTuple):
    """`headline`: what to change, in a line; `settings`: by their keys; `command`: how to start the server; `why`."""

    headline: str
    settings: Mapping[str, JSON]
    command: str = ""
    why: tuple[str, ...] = ()


def advise(best: Arm, search: Search, settings: Settings, facts: ServerFacts) -> Advice:
    outcomes = [each for arm in search.outcomes.values() for each in arm.values() if each.counts]
    changes = find_new(best, settings, search.list_offered())
    flags, why = _find_flags(best, search, outcomes, facts) if facts.is_vllm else ([], [])
    if facts.is_vllm and _hides_tools(outcomes) and facts.template is None:
        why.append("The chat template shows the model no tools.")
    failed = [name for name, standing in search.standings.items() if standing.verdict == "failed"]
    why += [
        f"Undecided, because its runs failed by themselves: {name}. To try it, run the eval again." for name in failed
    ]
    command = " ".join(["vllm serve", shlex.quote(facts.weights), *flags]) if flags else ""
    return Advice(_write_headline(changes, command), changes, command, tuple(why))


def _write_headline(changes: Mapping[str, JSON], command: str) -> str:
    here = f"set {'; '.join(describe_changes(changes))}"
    if command and changes:
        return f"Restart the server: {command}\nUntil then, {here}"
    if command:
        return f"Restart the server: {command}"
    return f"{here[0].upper()}{here[1:]}" if changes else "Nothing to change: no arm does better than what you have."


def hides_tools(search: Search) -> bool:
    """Whether the chat template shows the model no tools."""
    return _hides_tools([each for arm in search.outcomes.values() for each in arm.values()])


def _hides_tools(outcomes: Sequence[Outcome]) -> bool:
    return any(each.shows_tools is False for each in outcomes)


def _is_telling(outcome: Outcome, best: Arm) -> bool:
    """Of the best arm, where that is native: what other settings spoil is no reason to restart the server."""
    return outcome.arm == best.name if best.path == "native" else outcome.arm.split(",")[0] == "native"


def _find_flags(
    best: Arm, search: Search, outcomes: Sequence[Outcome], facts: ServerFacts
) -> tuple[list[str], list[str]]:
    """The flags for native calls, and why; none where native calls come as they should."""
    why: list[str] = []
    thinks_less = "chat_template_kwargs" in "".join(best.changes)
    native = [each for each in outcomes if _is_telling(each, best) and each.origins]
    foreign = [each for each in native if set(each.origins) != {NATIVE}]
    refused = search.standings.get("native")
    is_refused = refused is not None and refused.verdict == "refused"
    if is_refused:
        why.append("The server refuses native calls: it was started without a tool parser, or with tools left out.")
    elif native and len(foreign) > FEW * len(native):
        why.append(f"{len(foreign)} of {len(native)} native answers had calls that the server's parser did not read.")
    elif not thinks_less:
        return [], []
    written = Counter(origin for each in outcomes if each.passed for origin in each.origins if list_parsers(origin))
    hidden = _hides_tools(outcomes)
    family = find_family(facts.weights)
    parser = UNIVERSAL_PARSER
    if hidden and facts.template:
        parser = "hermes"
        why.append("The chat template shows the model no tools; the one named here does, and is otherwise the same.")
    elif written:
        origin = written.most_common(1)[0][0]
        parser = list_parsers(origin)[0]
        why.append(f"The model writes its calls in the format {origin}, which the parser {parser} reads.")
    elif family:
        parser = family.tool_parser
        why.append(f"The parser is the one for models named like {facts.weights}.")
    else:
        why.append("The parser `any` comes with vllm-bot: install it beside vLLM (docs/plugin.md).")
    flags = ["--enable-auto-tool-choice", f"--tool-call-parser {parser}"]
    if hidden and facts.template:
        flags.append(f"--chat-template {shlex.quote(str(facts.template))}")
    elif family and family.template and hidden:
        flags.append(f"--chat-template examples/{family.template}")
    if thinks_less:
        flags.append(NO_THINKING)
        why.append("With thinking, calls end up in thoughts.")
    elif sum(each.in_thoughts for each in foreign) > FEW * len(native):
        why.append(IN_THOUGHTS)
    return flags, why
