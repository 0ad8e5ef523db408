"""How requests to one server and model are made, and what they have refused so far. A value that can be stored.

Three paths, in the order of preference. native: `tools`, and the server parses the calls. template: `tools` with
tool_choice "none": the chat template still shows them, the model answers in the format that it was trained for, and
our parser reads it. text: TOOL_CALL instructions in the system prompt. A refusal disables only what was refused, and
it stays disabled.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

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


@dataclass(slots=True)
class CallPath:
    """`reason`: how the mode came about, for the user; `disabled_fields`: of a request, refused by the server."""

    mode: Mode = "native"
    reason: str = "the default"
    alternate: bool = False
    fold_system: bool = False
    text_only: bool = False
    disabled_fields: list[str] = field(default_factory=list)

    def downgrade(self, refusal: ServerError, sent: frozenset[str], template_shows_tools: bool) -> str:
        """Disable what the server refused; returns a notice for the user, "" if it does not concern them.

        `sent`: the optional fields of the refused request. Raises the refusal if nothing is left to disable.
        """
        if isinstance(refusal, ToolsUnsupported) and self.mode != "text":
            self.mode = "template" if template_shows_tools and self.mode == "native" else "text"
            self.reason = "the server was started without --enable-auto-tool-choice or --tool-call-parser"
            return NOTICES[self.mode]
        if isinstance(refusal, TemplateRejected):
            return self._downgrade_roles(refusal)
        if isinstance(refusal, ContentRejected) and not self.text_only:
            self.text_only = True
            return TEXT_ONLY
        for name in OPTIONAL_FIELDS:
            if name in sent and name not in self.disabled_fields and _blames(refusal, name):
                self.disabled_fields.append(name)
                return ""
        raise refusal

    def _downgrade_roles(self, refusal: TemplateRejected) -> str:
        if not self.alternate:
            self.alternate = True
            return ROLES_MERGED
        if not self.fold_system:
            self.fold_system = True
            return SYSTEM_FOLDED
        raise refusal

    def disable_native(self) -> str:
        """Stop using native calls: the server announced some and returned none. Returns a notice for the user."""
        self.mode, self.reason = "text", "the server announced calls and returned none"
        return LOST_CALLS

    def choose(self, mode: Mode) -> None:
        """Set the path that the user chose."""
        self.mode, self.reason = mode, BY_HAND

    @property
    def is_learned(self) -> bool:
        """Whether it was learned from the server, and not set by the user."""
        return self.reason not in (BY_HAND, BY_CONFIGURATION) and self != CallPath()

    def to_dict(self) -> dict[str, Any]:
        """What from_dict takes: JSON values only, under the names that files of earlier versions have."""
        return {_STORED_NAMES.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> CallPath:
        """Raises TypeError or ValueError if `stored` is not what to_dict gave."""
        names = {stored_name: name for name, stored_name in _STORED_NAMES.items()}
        path = cls(**{names.get(key, key): value for key, value in stored.items()})
        if path.mode not in MODES:
            raise ValueError(f"no such path: {path.mode!r}")
        kinds = {name: type(value) for name, value in cls().to_dict().items()}
        if {name: type(value) for name, value in stored.items()}.items() - kinds.items():
            raise TypeError("a value of another kind than it should be")
        if not all(isinstance(name, str) for name in path.disabled_fields):
            raise TypeError("a field without a name")
        return path


def blames_grammar(refusal: ServerError) -> bool:
    return "grammar" in refusal.body.lower()


def _blames(refusal: ServerError, name: str) -> bool:
    """Whether the refusal names this field; a grammar that cannot be compiled is named differently."""
    if name in ("structured_outputs", "strict") and blames_grammar(refusal):
        return True
    return refusal.status in (400, 422) and name in refusal.body
