"""What to change: the settings of the best arm, and the flags with which vLLM parses this model's calls itself."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ..config import Settings
from ..parsing import list_parsers
from ..providers.vllm_parsers import find_family
from ..types.messages import JSON
from .arms import Arm, describe_changes, find_new
from .outcomes import CaseOutcome
from .search import Search

FEW = 0.1  # the share of answers with calls that may need help before something is said of it
UNIVERSAL_PARSER = "any"  # of this project's plugin
TEMPLATE_KWARGS = "vllm.chat_template_kwargs"

IN_THOUGHTS = (
    "Calls end up in thoughts: the server's --reasoning-parser does not end a thought where a call begins. Leave it "
    "out, or name one that does."
)


class ServerFacts(Struct, frozen=True):
    """`root`: the name of the weights; `template`: a file, made where the model's chat template shows it no tools."""

    model: str
    root: str = ""
    is_vllm: bool = True
    template: Path | None = None

    @property
    def weights(self) -> str:
        return self.root or self.model


class EvalAdvice(Struct, frozen=True):
    """`headline`: what to change, in a line; `settings`: by their keys; `command`: how to start the server; `why`."""

    headline: str
    settings: Mapping[str, JSON]
    command: str = ""
    why: tuple[str, ...] = ()


def advise(best: Arm, search: Search, settings: Settings, facts: ServerFacts) -> EvalAdvice:
    """The settings of the best arm that are not in force, and the flags with which vLLM reads native calls it lost."""
    changes = find_new(best, settings, search.list_offered())
    flags: list[str] = []
    why: list[str] = []
    if facts.is_vllm:
        flags, why = _find_flags(best, search, facts)
        if hides_tools(search) and facts.template is None:
            why.append("The chat template shows the model no tools.")
    if TEMPLATE_KWARGS in best.changes and _end_in_thoughts(search.list_all_outcomes()):
        why.append("With thinking, calls end up in thoughts.")
    for name, standing in search.standings.items():
        if standing.verdict == "failed":
            why.append(f"Undecided, because its runs failed by themselves: {name}. To try it, run the eval again.")
    command = ""
    if flags:
        command = " ".join(["vllm serve", shlex.quote(facts.weights), *flags])
    return EvalAdvice(_write_headline(changes, command), changes, command, tuple(why))


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
    return any(each.shows_tools is False for each in search.list_all_outcomes())


def _find_flags(best: Arm, search: Search, facts: ServerFacts) -> tuple[list[str], list[str]]:
    """The flags for native calls, and why; none where native calls come as they should."""
    native = _list_native(best, search)
    problem = _describe_problem(search, native)
    if not problem:
        return [], []
    parser, reason = _choose_parser(search, facts)
    why = [problem, reason]
    flags = ["--enable-auto-tool-choice", f"--tool-call-parser {parser}"]
    if template := _choose_template(search, facts):
        flags.append(f"--chat-template {template}")
    if TEMPLATE_KWARGS in best.changes:  # as the arm sends them
        kwargs = json.dumps(best.changes[TEMPLATE_KWARGS])
        flags.append(f"--default-chat-template-kwargs {shlex.quote(kwargs)}")
    elif _end_in_thoughts(native):
        why.append(IN_THOUGHTS)
    return flags, why


def _list_native(best: Arm, search: Search) -> list[CaseOutcome]:
    """The outcomes of the best arm, where that is native: what other settings spoil is no reason to restart the
    server. Else those of all native arms.
    """
    arms = [best]
    if best.path != "native":
        arms = [each.arm for each in search.standings.values() if each.arm.path == "native"]
    return [outcome for arm in arms for outcome in search.list_outcomes(arm)]


def _end_in_thoughts(outcomes: Sequence[CaseOutcome]) -> bool:
    """Whether more than a few calls had to be recovered from thoughts."""
    calling = [each for each in outcomes if each.thinks and each.origins]
    lost = [each for each in calling if each.in_thoughts and not each.is_native]
    return len(lost) > FEW * len(calling)


def _describe_problem(search: Search, native: Sequence[CaseOutcome]) -> str:
    """Why native calls do not come as they should; "" where they do."""
    if "native" not in search.list_offered():
        return "The server refuses native calls: it was started without a tool parser, or with tools left out."
    calling = [each for each in native if each.origins]
    foreign = [each for each in calling if not each.is_native]
    if len(foreign) > FEW * len(calling):
        return f"{len(foreign)} of {len(calling)} native answers had calls that the server's parser did not read."
    return ""


def _choose_parser(search: Search, facts: ServerFacts) -> tuple[str, str]:
    """The name of the parser, and why it is that one."""
    if facts.template:
        reason = "The chat template shows the model no tools; the one named here does, and is otherwise the same."
        return "hermes", reason
    passed = [each for each in search.list_all_outcomes() if each.passed]
    written = Counter(origin for each in passed for origin in each.origins if list_parsers(origin))
    if written:
        origin = written.most_common(1)[0][0]
        parser = list_parsers(origin)[0]
        return parser, f"The model writes its calls in the format {origin}, which the parser {parser} reads."
    if family := find_family(facts.weights):
        return family.tool_parser, f"The parser is the one for models named like {facts.weights}."
    return UNIVERSAL_PARSER, "The parser `any` comes with vllm-bot: install it beside vLLM (docs/plugin.md)."


def _choose_template(search: Search, facts: ServerFacts) -> str:
    """A chat template that shows the model its tools, where its own does not; "": there is none, or no need."""
    if facts.template:
        return shlex.quote(str(facts.template))
    family = find_family(facts.weights)
    if family and family.template and hides_tools(search):
        return f"examples/{family.template}"
    return ""
