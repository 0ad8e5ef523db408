"""How requests to one server and model are made, and what they have refused so far. A value that can be stored.

Four paths, in the order of preference. tokens: the server renders the prompt and generates from its tokens, and our
parser reads the text. native: `tools`, and the server parses the calls. template: `tools` with tool_choice "none": the
chat template still shows them, the model answers in the format that it was trained for, and our parser reads it.
text: TOOL_CALL instructions in the system prompt. A refusal disables only what was refused, and it stays disabled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from ..errors import (
    ContentRejected,
    ParserFailed,
    ServerError,
    TemplateFailed,
    TemplateRejected,
    ToolsDropped,
    ToolsUnsupported,
)
from ..types.lazy_pattern import LazyPattern
from ..types.value import Value

Mode = Literal["tokens", "native", "template", "text"]
MODES: tuple[Mode, ...] = ("tokens", "native", "template", "text")

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
FEWER_MEDIA = "The server takes {limit} images at once; of older ones the model is told that they were left out."
DEFAULT_MAX_MEDIA = 20  # images and sounds in one request; 20 images may have 100 MB
LOST_CALLS = (
    "The server returned nothing of what the model wrote; using calls in the text instead. Its --tool-call-parser may "
    "not be one for this model."
)
TOOLS_DROPPED = (
    "This server leaves tools out of the prompt that it is not to parse calls of; using calls in the text instead."
)
TOOLS_LEFT_OUT = (
    "The server left the tools out of the prompt of this answer; from now on the system prompt lists them. Ask again "
    "if the answer needed one."
)
TEMPLATE_FAILED = "The model's chat template fails with tools; using calls in the text instead."
IN_TEXT = "Using calls in the text instead."
ASKED_IN_TEXT = "The server could not parse what the model wrote; asking once more, with calls in the text."
NO_STREAM = "The server does not stream this; its answers come whole."
TOOLS_HIDDEN = "The model's chat template shows it no tools; using calls in the text instead."
NO_TOKENS_NOTICE = "This server does not generate from tokens. For that, start it with --enable-scale-out."


class Reason(Enum):
    """How the mode of a path came about: a sentence for the user, by which it is stored, too."""

    DEFAULT = "the default"
    CHOSEN = "chosen by hand"
    CONFIGURED = "enable_function_calling is false"
    NO_TOKENS = "the server was started without --enable-scale-out"
    NO_PARSER = "the server was started without --enable-auto-tool-choice or --tool-call-parser"
    REFUSED_HERE = "the server refused native calls in this conversation"
    PARSER_FAILED = "the server's parser failed on an answer"  # for one turn, or for a day: see parser_record.py
    TEMPLATE_FAILED = "the chat template fails with tools"
    TOOLS_HIDDEN = "the chat template shows no tools"
    TOOLS_DROPPED = "the server leaves tools out of the prompt"
    CALLS_LOST = "the server returned nothing of what the model wrote"


GRAMMAR_FIELD = "structured_outputs"
THOUGHTS_FIELD = "reasoning"  # of an assistant's message; it stands for `reasoning_content`, too
GRAMMAR_FIELDS = frozenset({GRAMMAR_FIELD, "strict"})  # by which a server makes a grammar
# Fields of a request that a server may not know, and that an answer does not need.
OPTIONAL_FIELDS = (
    "return_token_ids",
    GRAMMAR_FIELD,
    "response_format",
    "stream_options",
    "skip_special_tokens",
    "strict",
    THOUGHTS_FIELD,
)

_NAMELESS = LazyPattern(  # a refusal of a field that it does not name
    r"([\w. ]*(error|exception)\s?[:-]\s*)*(extra (inputs|fields)( are)? not permitted|(unknown|unrecognized|unexpected"
    r"|unsupported)( request)? (arguments?|fields?|parameters?|keys?|propert(y|ies)))\W*\Z",
    re.IGNORECASE,
)
_NO_STREAM = LazyPattern(  # Bedrock behind proxies, and servers that stream no calls
    r"\b(stream(ing)?)\b.{0,40}(not|n't) (be )?(support|allow|enabl|available)|(not|n't) support.{0,40}\bstream(ing)?\b"
    r"|\bstreaming (is )?unsupported",
    re.IGNORECASE,
)
# A refusal of what only a request with native tools has: a schema, too many tools, a message of a call or a result.
_ABOUT_TOOLS = LazyPattern(
    r"\b(tools?|functions?)\b|\btool_|content\b.{0,40}\b(non-?empty|not be empty|empty)\b", re.IGNORECASE
)
_THOUGHTS = LazyPattern(r"\breasoning(_content)?\b")  # and not reasoning_effort
# What one of two paths has learned, and the other not yet.
_OF_EITHER = ("alternate", "fold_system", "text_only", "system_first", "written_format", "grammar")
_STORED_NAMES = {"reason": "why", "disabled_fields": "without"}


class CallPath(Value, frozen=True):
    """`order`: the modes to use, the first one first.

    `disabled_fields`: of a request, refused by the server; "tokens" stands for the mode of that name, and instead of
    "max_tokens" the server wants max_completion_tokens.
    `text_only`: images and sound are left out, and so are those before the last `max_media`.
    `template_shows_tools`: whether the chat template shows the model the tools of a request; None: not known.
    `grammar`: the field by which a probe was held to its grammar, "none" if by no field; "" before that is known.
    `system_first`: the template accepts one system message, before all others. Only conversations with more need it.
    `written_format`: the name of the format in which the model writes calls; "": not asked yet.
    `shows_thoughts`: whether the chat template shows the model its earlier thoughts in this mode; None: not known.
    `call_gap`: the blanks that the template writes between the text of an answer and its calls; None: not asked yet.
    `mended`: the history is sent as all servers take it. It holds for one request.
    `proven`: an answer showed that the mode does what it is for: the prompt held the tools, or a call came as one.
    """

    UNCOMPARED = ("mended", "order")
    mode: Mode = "native"
    reason: Reason = Reason.DEFAULT
    alternate: bool = False
    fold_system: bool = False
    text_only: bool = False
    max_media: int = DEFAULT_MAX_MEDIA
    disabled_fields: tuple[str, ...] = ()
    template_shows_tools: bool | None = None
    system_first: bool = False
    proven: bool = False
    written_format: str = ""
    grammar: str = ""
    shows_thoughts: bool | None = None
    call_gap: str | None = None
    mended: bool = False
    order: tuple[Mode, ...] = MODES

    @property
    def sends_calls(self) -> bool:
        """Whether earlier calls are sent as calls, and not as text."""
        return self.prompt_style != "text" and not self.alternate

    @property
    def prompt_style(self) -> Mode:
        """The mode whose prompt this one has: a prompt for tokens is made as for template, or else as for text."""
        if self.mode != "tokens":
            return self.mode
        return "template" if self.template_shows_tools else "text"

    def downgrade(self, refusal: ServerError, sent: frozenset[str], *, are_tools_ours: bool = True) -> Downgrade:
        """The path without what the server refused.

        `sent`: the optional fields of the refused request. `are_tools_ours`: else a refusal of their schemas or of the
        choice is for the client who sent them. Raises the refusal if nothing is left to disable.
        """
        if isinstance(refusal, ParserFailed):
            return self._avoid_parser(refusal)
        if isinstance(refusal, ToolsDropped) and self.mode == "native":
            return Downgrade(replace(self, template_shows_tools=False), "")
        if "stream" in sent and _NO_STREAM.search(refusal.body):
            return Downgrade(self.disable_fields(["stream"]), NO_STREAM)
        if isinstance(refusal, (ToolsUnsupported, ToolsDropped, TemplateFailed)) and self.mode != "text":
            return self._step_down(refusal)
        if plainer := self._write_plainer(refusal):
            return plainer
        return self._leave_out(refusal, sent - frozenset(self.disabled_fields), are_tools_ours=are_tools_ours)

    def _leave_out(self, refusal: ServerError, sent: frozenset[str], *, are_tools_ours: bool) -> Downgrade:
        """See downgrade: the path without one field of the request, or else without native calls."""
        if blamed := _list_blamed(refusal, sent):
            return Downgrade(self.disable_fields(blamed), "")
        is_about_tools = are_tools_ours and refusal.status in (400, 422) and _ABOUT_TOOLS.search(refusal.body)
        if type(refusal) is ServerError and is_about_tools and self.mode != "tokens" and "text" in self._list_lower():
            path = self._change_mode("text", Reason.REFUSED_HERE)  # others may offer other tools
            return Downgrade(path, f"{refusal.message} {IN_TEXT}")
        raise refusal

    def _avoid_parser(self, refusal: ParserFailed) -> Downgrade:
        """The text path for one turn. Raises the refusal of a turn that was asked so already."""
        is_asked_again = self.reason is Reason.PARSER_FAILED
        if is_asked_again or self.mode not in ("native", "template") or "text" not in self._list_lower():
            refusal.max_retries = 0
            raise refusal
        return Downgrade(self.for_text_turn, ASKED_IN_TEXT)

    @property
    def for_text_turn(self) -> CallPath:
        """The text path, because of the server's parser: see `for_others`."""
        return self._change_mode("text", Reason.PARSER_FAILED)

    @property
    def for_raw_turn(self) -> CallPath:
        """In place of `for_text_turn`: the template shows the tools, and the text behind its prompt is asked for."""
        return self._change_mode("template", Reason.PARSER_FAILED).disable_fields([GRAMMAR_FIELD])

    @property
    def is_raw(self) -> bool:
        """Whether it is `for_raw_turn`."""
        return self.mode == "template" and self.reason is Reason.PARSER_FAILED

    def drop_tools(self) -> CallPath:
        """The path after the server left the tools out of a prompt: the system prompt lists them."""
        if self.mode != "native" and "text" in self._list_lower():
            return self._change_mode("text", Reason.TOOLS_DROPPED)
        return replace(self, template_shows_tools=False)

    def forget_proof(self) -> CallPath:
        """The path after a doubt of what was proven: the server may have been started anew with other flags."""
        if self.mode == "template":
            return replace(self, proven=False)
        return replace(self, proven=False, template_shows_tools=None)  # it is looked for again

    def _write_plainer(self, refusal: ServerError) -> Downgrade | None:
        """The path with plainer roles or contents of messages; None if the refusal is not about these."""
        if isinstance(refusal, TemplateRejected):
            if not self.alternate:
                return Downgrade(replace(self, alternate=True), ROLES_MERGED)
            if not self.fold_system:
                return Downgrade(replace(self, fold_system=True), SYSTEM_FOLDED)
            raise refusal
        if not isinstance(refusal, ContentRejected) or self.text_only:
            return None
        if 0 < refusal.max_media < self.max_media:
            return Downgrade(replace(self, max_media=refusal.max_media), FEWER_MEDIA.format(limit=refusal.max_media))
        return Downgrade(replace(self, text_only=True), TEXT_ONLY)

    def _step_down(self, refusal: ServerError) -> Downgrade:
        """The next mode of the order. Raises the refusal if there is none."""
        if isinstance(refusal, TemplateFailed) and "text" in self._list_lower():
            return Downgrade(self._believe_refusal("text", Reason.TEMPLATE_FAILED), TEMPLATE_FAILED)
        if self.mode == "tokens":
            return self.leave_tokens(refusal)
        modes = [mode for mode in self._list_lower() if mode != "template" or self.template_shows_tools]
        if not modes:
            raise refusal
        if isinstance(refusal, ToolsDropped):
            path = self._change_mode(modes[0], Reason.TOOLS_DROPPED)
            return Downgrade(path, TOOLS_DROPPED if path.mode == "text" else "")
        return Downgrade(self._believe_refusal(modes[0], Reason.NO_PARSER), NOTICES.get(modes[0], ""))

    def leave_tokens(self, refusal: ServerError) -> Downgrade:
        """The path with the mode after tokens, which the server does not take. Raises the refusal if there is none."""
        path = self.disable_fields(["tokens"]).skip_tokens(Reason.NO_TOKENS)
        if path.mode == self.mode:
            raise refusal
        return Downgrade(path, NO_TOKENS_NOTICE if self.is_chosen else "")

    def skip_tokens(self, reason: Reason = Reason.DEFAULT) -> CallPath:
        """The path with the mode after tokens; itself if there is none."""
        if self.mode != "tokens":
            return self
        return next((self._change_mode(mode, reason) for mode in self._list_lower()), self)

    def _list_lower(self) -> list[Mode]:
        """The modes that may take the place of this one."""
        start = self.order.index(self.mode) + 1 if self.mode in self.order else 0
        return [mode for mode in self.order[start:] if mode not in (self.mode, *self.disabled_fields)]

    def _believe_refusal(self, mode: Mode, reason: Reason) -> CallPath:
        """One refusal does not disprove what the server has shown: it may be about this conversation."""
        return self._change_mode(mode, Reason.REFUSED_HERE if self.proven else reason)

    @property
    def for_others(self) -> CallPath:
        """The path without what holds for this conversation, or this turn, only."""
        is_own = self.reason in (Reason.REFUSED_HERE, Reason.PARSER_FAILED)
        return self._change_mode("native", Reason.DEFAULT) if is_own else self

    def _change_mode(self, mode: Mode, reason: Reason) -> CallPath:
        return replace(self, mode=mode, reason=reason, proven=False, shows_thoughts=None)

    def disable_native(self) -> Downgrade:
        """The path after the server lost calls, or all of an answer."""
        return Downgrade(self._change_mode("text", Reason.CALLS_LOST), LOST_CALLS)

    def learn_template(self, *, shows_tools: bool) -> Downgrade:
        """The path once the text of a prompt was seen, on a server that reads calls only where that shows tools."""
        path = replace(self, template_shows_tools=shows_tools)
        if shows_tools or "text" not in self._list_lower():
            return Downgrade(path, "")
        return Downgrade(path._change_mode("text", Reason.TOOLS_HIDDEN), TOOLS_HIDDEN)

    def learn_grammar(self, field: str) -> CallPath:
        """The path on which a probe was held to its grammar by this field of a request, or by none."""
        path = replace(self, grammar=field or "none")
        return path if field == GRAMMAR_FIELD else path.disable_fields([GRAMMAR_FIELD])

    def disable_fields(self, names: Iterable[str]) -> CallPath:
        """The path on which these fields of a request are left out too."""
        new = [name for name in names if name not in self.disabled_fields]
        return replace(self, disabled_fields=(*self.disabled_fields, *new))

    def choose(self, mode: Mode) -> CallPath:
        """The path with the mode that the user chose."""
        return self._change_mode(mode, Reason.CHOSEN)

    def join(self, other: CallPath) -> CallPath:
        """What both have learned."""
        best = self._choose_mode_of(other)
        of_mode = [path for path in (self, other) if path.mode == best.mode]
        either = {name: getattr(self, name) or getattr(other, name) for name in _OF_EITHER}
        return CallPath(
            best.mode,
            best.reason,
            max_media=min(self.max_media, other.max_media),
            disabled_fields=tuple(dict.fromkeys((*self.disabled_fields, *other.disabled_fields))),
            template_shows_tools=_join_facts(self.template_shows_tools, other.template_shows_tools),
            proven=any(path.proven for path in of_mode),
            shows_thoughts=_join_facts(*(path.shows_thoughts for path in of_mode)),
            call_gap=other.call_gap if self.call_gap is None else self.call_gap,
            order=self.order,
            **either,
        )

    def _choose_mode_of(self, other: CallPath) -> CallPath:
        """The one of both whose mode counts. One that the user chose stays; else the later one of the order counts.

        Tokens stay until they are refused, whatever else was.
        """
        if self.mode == "tokens" and "tokens" not in other.disabled_fields:
            return self
        if self.is_chosen or other.is_chosen or other.mode not in self._list_lower():
            return self
        return other

    @property
    def is_chosen(self) -> bool:
        """Whether the mode was set by the user."""
        return self.reason in (Reason.CHOSEN, Reason.CONFIGURED)

    @property
    def is_learned(self) -> bool:
        """Whether it was learned from the server, and not set by the user."""
        return not self.is_chosen and self != CallPath(self.mode if self.mode == "tokens" else "native")

    def to_dict(self) -> dict[str, Any]:
        """What from_dict takes: JSON values only, under the names that files of earlier versions have."""
        values = {**asdict(self), "reason": self.reason.value, "disabled_fields": list(self.disabled_fields)}
        del values["order"], values["mended"]  # a setting, and what holds for one request
        return {_STORED_NAMES.get(name, name): value for name, value in values.items()}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> CallPath:
        """Raises TypeError or ValueError if `stored` is not what to_dict gave."""
        names = {stored_name: name for name, stored_name in _STORED_NAMES.items()}
        path = cls(**{names.get(key, key): value for key, value in stored.items()})
        if path.mode not in MODES or stored.keys() & {"order", "mended"}:
            raise ValueError(f"no such path: {path.mode!r}")
        kinds: dict[str, tuple[type, ...]] = {name: (type(value),) for name, value in cls().to_dict().items()}
        kinds["call_gap"] = (str, type(None))
        kinds["template_shows_tools"] = kinds["shows_thoughts"] = (bool, type(None))
        if any(type(value) not in kinds[name] for name, value in stored.items()):
            raise TypeError("a value of another kind than it should be")
        if not all(isinstance(name, str) for name in path.disabled_fields):
            raise TypeError("a field without a name")
        return replace(path, reason=Reason(path.reason), disabled_fields=tuple(path.disabled_fields))


class Downgrade(Struct, frozen=True):
    """`notice` is for the user; "" if the change does not concern them."""

    path: CallPath
    notice: str


def _join_facts(*facts: bool | None) -> bool | None:
    """None if all are unknown; false if one is: it was seen."""
    answers = [fact for fact in facts if fact is not None]
    if not answers:
        return None
    return all(answers)


def blames_grammar(refusal: ServerError) -> bool:
    return "grammar" in refusal.body.lower()


def _list_blamed(refusal: ServerError, sent: frozenset[str]) -> list[str]:
    """The field that the refusal names, of those that were sent; all if it is about one, and does not say which."""
    if "max_tokens" in sent and "max_completion_tokens" in refusal.body:
        return ["max_tokens"]
    named = [name for name in OPTIONAL_FIELDS if name in sent]
    for name in named:
        if _blames(refusal, name):
            return [name]
    if refusal.status in (400, 422) and _NAMELESS.match(refusal.body):
        return named
    return []


def _blames(refusal: ServerError, name: str) -> bool:
    """Whether the refusal names this field; a grammar that cannot be compiled is named differently."""
    if name in GRAMMAR_FIELDS and blames_grammar(refusal):
        return True
    if refusal.status not in (400, 422):
        return False
    if name == THOUGHTS_FIELD:
        return bool(_THOUGHTS.search(refusal.body))
    return name in refusal.body
