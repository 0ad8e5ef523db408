"""What to change: the settings of the best arm, and the flags with which vLLM parses this model's calls itself."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

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


class ServerFacts(Struct, frozen=True):
    """`root`: the name of the weights; `template`: a chat template that was made for this model and shows tools."""

    model: str
    root: str = ""
    is_vllm: bool = True
    template: Path | None = None

    @property
    def weights(self) -> str:
        return self.root or self.model


class Advice(Struct, frozen=True):
    """`headline`: what to change, in a line; `settings`: by their keys; `command`: how to start the server; `why`."""

    headline: str
    settings: Mapping[str, JSON]
    command: str = ""
    why: tuple[str, ...] = ()


def advise(best: Arm, search: Search, settings: Settings, facts: ServerFacts) -> Advice:
    outcomes = [each for arm in search.outcomes.values() for each in arm.values() if each.counts]
    changes = find_new(best, settings, search.list_offered())
    flags: list[str] = []
    why: list[str] = []
    if facts.is_vllm:
        flags, why = _find_flags(best, search, outcomes, facts)
        if _hides_tools(outcomes) and facts.template is None:
            why.append("The chat template shows the model no tools.")
    for name, standing in search.standings.items():
        if standing.verdict == "failed":
            why.append(f"Undecided, because its runs failed by themselves: {name}. To try it, run the eval again.")
    command = ""
    if flags:
        command = " ".join(["vllm serve", shlex.quote(facts.weights), *flags])
    return Advice(_write_headline(changes, command), changes, command, tuple(why))


def _write_headline(changes: Mapping[str, JSON], command: str) -> str:
    here = f"set {'; '.join(describe_changes(changes))}"
    if command and changes:
        return f"Restart the server: {command}\nUntil then, {here}"
    if command:
        return f"Restart the server: {command}"
    if changes:
        return f"{here[0].upper()}{here[1:]}"
    return "Nothing to change: no arm does better than what you have."


def hides_tools(search: Search) -> bool:
    """Whether the chat template shows the model no tools."""
    return _hides_tools([each for arm in search.outcomes.values() for each in arm.values()])


def _hides_tools(outcomes: Sequence[Outcome]) -> bool:
    return any(each.shows_tools is False for each in outcomes)


def _find_flags(
    best: Arm, search: Search, outcomes: Sequence[Outcome], facts: ServerFacts
) -> tuple[list[str], list[str]]:
    """The flags for native calls, and why; none where native calls come as they should."""
    thinks_less = "chat_template_kwargs" in "".join(best.changes)
    native = _list_native(best, outcomes)
    foreign = [each for each in native if set(each.origins) != {NATIVE}]
    problem = _describe_problem(search, native, foreign)
    if not problem and not thinks_less:
        return [], []
    parser, reason = _choose_parser(outcomes, facts)
    why = [reason]
    if problem:
        why.insert(0, problem)
    flags = ["--enable-auto-tool-choice", f"--tool-call-parser {parser}"]
    if template := _choose_template(outcomes, facts):
        flags.append(f"--chat-template {template}")
    if thinks_less:
        flags.append(NO_THINKING)
        why.append("With thinking, calls end up in thoughts.")
    elif sum(each.in_thoughts for each in foreign) > FEW * len(native):
        why.append(IN_THOUGHTS)
    return flags, why


def _list_native(best: Arm, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes with calls, of the best arm, where that is native: what other settings spoil is no reason to restart
    the server.
    """
    if best.path == "native":
        telling = [each for each in outcomes if each.arm == best.name]
    else:
        telling = [each for each in outcomes if each.arm.split(",")[0] == "native"]
    return [each for each in telling if each.origins]


def _describe_problem(search: Search, native: Sequence[Outcome], foreign: Sequence[Outcome]) -> str:
    """Why native calls do not come as they should; "" where they do."""
    standing = search.standings.get("native")
    if standing is not None and standing.verdict == "refused":
        return "The server refuses native calls: it was started without a tool parser, or with tools left out."
    if native and len(foreign) > FEW * len(native):
        return f"{len(foreign)} of {len(native)} native answers had calls that the server's parser did not read."
    return ""


def _choose_parser(outcomes: Sequence[Outcome], facts: ServerFacts) -> tuple[str, str]:
    """The name of the parser, and why it is that one."""
    if facts.template and _hides_tools(outcomes):
        reason = "The chat template shows the model no tools; the one named here does, and is otherwise the same."
        return "hermes", reason
    written = Counter(origin for each in outcomes if each.passed for origin in each.origins if list_parsers(origin))
    if written:
        origin = written.most_common(1)[0][0]
        parser = list_parsers(origin)[0]
        return parser, f"The model writes its calls in the format {origin}, which the parser {parser} reads."
    if family := find_family(facts.weights):
        return family.tool_parser, f"The parser is the one for models named like {facts.weights}."
    return UNIVERSAL_PARSER, "The parser `any` comes with vllm-bot: install it beside vLLM (docs/plugin.md)."


def _choose_template(outcomes: Sequence[Outcome], facts: ServerFacts) -> str:
    """A chat template that shows the model its tools, where its own does not; "": there is none, or no need."""
    if not _hides_tools(outcomes):
        return ""
    if facts.template:
        return shlex.quote(str(facts.template))
    family = find_family(facts.weights)
    if family and family.template:
        return f"examples/{family.template}"
    return ""
