"""How requests to one server and model are made, and what they have refused so far. A value that can be stored.

Three paths, in the order of preference. native: `tools`, and the server parses the calls. template: `tools` with
tool_choice "none": the chat template still shows them, the model answers in the format that it was trained for, and
our parser reads it. text: TOOL_CALL instructions in the system prompt. A refusal disables only what was refused, and
it stays disabled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

from ..errors import ContentRejected, ServerError, TemplateRejected, ToolsUnsupported

Mode = Literal["native", "template", "text"]
MODES: tuple[Mode, ...] = ("native", "template", "text")

_START_WITH = "For native calls, start it with --enable-auto-tool-choice --tool-call-parser PARSER."
NOTICES: dict[Mode, str] = {
    "template": "This server does not parse tool calls; its chat template shows the model the tools, and its calls are "
    f"read from the text. {_START_WITH}",
    "text": f"This server accepts no native tool calls; using calls in the text instead. {_START_WITH}",
}
ROLES_MERGED = (
    "The model's chat template accepts only alternating user and assistant messages; the conversation is sent that way."
)
SYSTEM_FOLDED = "The model's chat template accepts no system prompt; it is sent with the first user message."
TEXT_ONLY = "The model accepts only text; it is told where images and sound were left out."
LOST_CALLS = "The server announced tool calls but returned none; using calls in the text instead."

BY_HAND = "chosen by hand"
BY_CONFIGURATION = "enable_function_calling is false"

# Fields of a request that a server may not know, and that an answer does not need.
OPTIONAL_FIELDS = (
    "return_token_ids",
    "structured_outputs",
    "response_format",
    "stream_options",
    "skip_special_tokens",
    "strict",
)

_STORED_NAMES = {"reason": "why", "disabled_fields": "without"}


@dataclass(frozen=True, slots=True)
class CallPath:
    """`reason`: how the mode came about, for the user; `disabled_fields`: of a request, refused by the server.

    `template_shows_tools`: whether the chat template shows the model the tools of a request; None: not known.
    `system_first`: the template accepts one system message, before all others. Only conversations with more need it.
    """

    mode: Mode = "native"
    reason: str = "the default"
    alternate: bool = False
    fold_system: bool = False
    text_only: bool = False
    disabled_fields: tuple[str, ...] = ()
    template_shows_tools: bool | None = None
    system_first: bool = False

    def downgrade(self, refusal: ServerError, sent: frozenset[str]) -> Downgrade:
        """The path without what the server refused.

        `sent`: the optional fields of the refused request. Raises the refusal if nothing is left to disable.
        """
        if isinstance(refusal, ToolsUnsupported) and self.mode != "text":
            mode: Mode = "template" if self.template_shows_tools and self.mode == "native" else "text"
            reason = "the server was started without --enable-auto-tool-choice or --tool-call-parser"
            return Downgrade(replace(self, mode=mode, reason=reason), NOTICES[mode])
        if isinstance(refusal, TemplateRejected):
            return self._downgrade_roles(refusal)
        if isinstance(refusal, ContentRejected) and not self.text_only:
            return Downgrade(replace(self, text_only=True), TEXT_ONLY)
        for name in OPTIONAL_FIELDS:
            if name in sent and name not in self.disabled_fields and _blames(refusal, name):
                return Downgrade(self.disable_fields([name]), "")
        raise refusal

    def _downgrade_roles(self, refusal: TemplateRejected) -> Downgrade:
        if not self.alternate:
            return Downgrade(replace(self, alternate=True), ROLES_MERGED)
        if not self.fold_system:
            return Downgrade(replace(self, fold_system=True), SYSTEM_FOLDED)
        raise refusal

    def disable_native(self) -> Downgrade:
        """The path after the server announced native calls and returned none."""
        reason = "the server announced calls and returned none"
        return Downgrade(replace(self, mode="text", reason=reason), LOST_CALLS)

    def disable_fields(self, names: Iterable[str]) -> CallPath:
        """The path on which these fields of a request are left out too."""
        new = [name for name in names if name not in self.disabled_fields]
        return replace(self, disabled_fields=(*self.disabled_fields, *new))

    def choose(self, mode: Mode) -> CallPath:
        """The path with the mode that the user chose."""
        return replace(self, mode=mode, reason=BY_HAND)

    def join(self, other: CallPath) -> CallPath:
        """What both have learned. A mode that the user chose stays; else the later one of MODES counts."""
        mode, reason = self.mode, self.reason
        is_lower = MODES.index(other.mode) > MODES.index(mode)
        if is_lower and not self.is_chosen and not other.is_chosen:
            mode, reason = other.mode, other.reason
        return CallPath(
            mode,
            reason,
            self.alternate or other.alternate,
            self.fold_system or other.fold_system,
            self.text_only or other.text_only,
            self.disable_fields(other.disabled_fields).disabled_fields,
            other.template_shows_tools if self.template_shows_tools is None else self.template_shows_tools,
            self.system_first or other.system_first,
        )

    @property
    def is_chosen(self) -> bool:
        """Whether the mode was set by the user."""
        return self.reason in (BY_HAND, BY_CONFIGURATION)

    @property
    def is_learned(self) -> bool:
        """Whether it was learned from the server, and not set by the user."""
        return not self.is_chosen and self != CallPath()

    def to_dict(self) -> dict[str, Any]:
        """What from_dict takes: JSON values only, under the names that files of earlier versions have."""
        values = {**asdict(self), "disabled_fields": list(self.disabled_fields)}
        return {_STORED_NAMES.get(name, name): value for name, value in values.items()}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> CallPath:
        """Raises TypeError or ValueError if `stored` is not what to_dict gave."""
        names = {stored_name: name for name, stored_name in _STORED_NAMES.items()}
        path = cls(**{names.get(key, key): value for key, value in stored.items()})
        if path.mode not in MODES:
            raise ValueError(f"no such path: {path.mode!r}")
        kinds: dict[str, tuple[type, ...]] = {name: (type(value),) for name, value in cls().to_dict().items()}
        kinds["template_shows_tools"] = (bool, type(None))
        if any(type(value) not in kinds[name] for name, value in stored.items()):
            raise TypeError("a value of another kind than it should be")
        if not all(isinstance(name, str) for name in path.disabled_fields):
            raise TypeError("a field without a name")
        return replace(path, disabled_fields=tuple(path.disabled_fields))


class Downgrade(NamedTuple):
    """`notice` is for the user; "" if the change does not concern them."""

    path: CallPath
    notice: str


def blames_grammar(refusal: ServerError) -> bool:
    return "grammar" in refusal.body.lower()


def _blames(refusal: ServerError, name: str) -> bool:
    """Whether the refusal names this field; a grammar that cannot be compiled is named differently."""
    if name in ("structured_outputs", "strict") and blames_grammar(refusal):
        return True
    return refusal.status in (400, 422) and name in refusal.body
