"""A client's chat completion request, and what is edited in it for a call path. Pure.

The client's JSON stays as it is: unknown fields, images, cache_control, logprobs and sampling settings pass. Only what
the path needs is changed: tool_choice, token ids, special tokens, the grammar, and on the text path the instructions at
the end of the system message and earlier calls and results as text. A history that the server refused is mended.
What the server would accept from the client without an edit keeps its bytes, so that the prefix cache holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import Any

from ..negotiation.call_gap import cut_gap
from ..negotiation.call_path import DEFAULT_MAX_MEDIA, GRAMMAR_FIELD, THOUGHTS_FIELD, CallPath
from ..negotiation.formats.call_ids import find_id_rule, name_chat_calls
from ..negotiation.formats.structural_tags import find_format
from ..negotiation.formats.written_format import constrain_calls
from ..negotiation.history.exchange_text import (
    THOUGHTS,
    WRITTEN,
    count_media,
    has_media,
    leave_out,
    read_text,
    render_exchanges,
)
from ..negotiation.history.mending import (
    Mended,
    has_bad_arguments,
    has_malformed_call,
    join_neighbours,
    mend_history,
    write_malformed_as_text,
)
from ..negotiation.history.messages import (
    has_wire_gap,
    is_system,
    join_contents,
    name_thoughts,
    place_late_system,
)
from ..parsing import GivenText, mentions_call, render_choice, render_instructions
from ..providers.wire_json import as_dict, as_dicts, as_list, as_str
from ..types.messages import JSON, Named, ToolChoice, ToolDefinition

# With these fields the answer's text is data in a form of the client's choice: what looks like a call in it is text.
_FORMS = (
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "guided_whitespace_pattern",
)
_CALL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls")


class ChatBody:
    """A chat completion request as the client sent it. `body` is its JSON object, which is never changed.

    `form`: the `response_format` that an answer without calls is held to; it is not part of `body`.
    """

    def __init__(self, body: Mapping[str, Any], form: Mapping[str, Any] | None = None) -> None:
        self.body = body
        self.form = form
        self.model = as_str(body.get("model"))
        self.stream = body.get("stream") is True
        self.tools = tuple(_read_tools(body.get("tools")))
        self.choice = _read_choice(body.get("tool_choice"))
        self.messages = as_dicts(body.get("messages"))

    @property
    def is_guarded(self) -> bool:
        """Whether its answer may hold calls that the server does not find; else it is relayed as it is."""
        if not self.tools or self.choice == "none" or len(self.messages) != len(as_list(self.body.get("messages"))):
            return False
        form = self.body.get("response_format")
        has_form = isinstance(form, dict) and form.get("type") not in (None, "text")
        return not has_form and not any(self.body.get(name) for name in _FORMS)

    def split_form(self) -> ChatBody:
        """The request with the form of its answer beside it: a grammar for the whole answer lets no tool be called.

        It is itself where no form stands beside tools, where several answers are wanted, and where any JSON will do: a
        call may be such JSON, too.
        """
        form = as_dict(self.body.get("response_format"))
        if form.get("type") != "json_schema" or self.wants_choices:
            return self
        free = ChatBody({name: value for name, value in self.body.items() if name != "response_format"}, form)
        if not free.is_guarded:
            return self
        return free

    def with_messages(self, messages: Sequence[dict[str, Any]]) -> ChatBody:
        return ChatBody({**self.body, "messages": messages}, self.form)

    @property
    def may_be_asked_in_text(self) -> bool:
        """Whether the text path holds all that it asks for: neither a required call, nor strict ones, nor choices."""
        is_strict = any(as_dict(each.get("function")).get("strict") for each in as_dicts(self.body.get("tools")))
        return self.choice == "auto" and not is_strict and not self.wants_choices

    @property
    def wants_choices(self) -> bool:
        """Whether several answers are wanted."""
        return self.body.get("n") not in (None, 1)

    @property
    def wants_token_ids(self) -> bool:
        return bool(self.body.get("return_token_ids"))

    @property
    def max_tokens(self) -> int | None:
        """Of one answer."""
        values = (self.body.get("max_completion_tokens"), self.body.get("max_tokens"))
        return next((value for value in values if isinstance(value, int)), None)

    @property
    def has_late_system(self) -> bool:
        """Whether it has a system message that is not the first message."""
        return any(map(is_system, self.messages[1:]))

    @property
    def has_media(self) -> bool:
        """Whether a message holds images or sound."""
        return any(has_media(each.get("content")) for each in self.messages)

    @property
    def new_media(self) -> int:
        """How many images and sounds the user has just sent. Behind a result they are of the tool."""
        *before, last = self.messages or [{}]
        is_of_tool = bool(before) and before[-1].get("role") == "tool"
        if last.get("role") != "user" or is_of_tool:
            return 0
        return count_media(last.get("content"))

    @cached_property
    def mended(self) -> Mended:
        """Its history as all servers take it."""
        return mend_history(self.messages)

    @property
    def has_bad_arguments(self) -> bool:
        """Whether a call in its history has arguments that are no JSON object."""
        return has_bad_arguments(self.messages)

    def list_mended(self, path: CallPath) -> list[str]:
        """What of the history is sent otherwise on this path, because the server refused it."""
        what: list[str] = []
        if path.mended:
            what += self.mended.what
        if path.sends_calls and any(map(has_malformed_call, self.messages)):
            what.append("exchanges")
        if path.system_first and self.has_late_system:
            what.append("system")
        if path.alternate or path.fold_system:
            what.append("roles")
        if self._limit_media(self.messages, path) != self.messages:
            what.append("media")
        return list(dict.fromkeys(what))

    def list_given(self) -> list[GivenText]:
        """The results of tools: a call that quotes one of them is an echo."""
        return [GivenText(text) for text in self._list_texts("tool")]

    def _list_texts(self, *roles: str) -> list[str]:
        return [read_text(each.get("content")) for each in self.messages if each.get("role") in roles]

    def edit(self, path: CallPath, without: Set[str] = frozenset(), constrained: str = "auto") -> dict[str, Any]:
        """The body for this path. `without`: optional fields that are left out. `constrained`: see TurnOptions."""
        left_out = {*path.disabled_fields, *without}
        body = dict(self.body)
        body["return_token_ids"] = True
        if self.form:  # the answer is looked at before any of it leaves
            body["stream"] = False
            body.pop("stream_options", None)
        if path.mode == "template":
            body["tool_choice"] = "none"
            body.setdefault("skip_special_tokens", False)  # in many formats the markers are special tokens
        elif path.mode == "text":
            for name in _CALL_FIELDS:
                body.pop(name, None)
        if grammar := self._constrain(path, constrained):
            body[GRAMMAR_FIELD] = grammar
        for name in left_out:
            if name not in self.body:
                body.pop(name, None)
        body["messages"] = self._edit_messages(path, has_grammar=GRAMMAR_FIELD in body)
        return body

    def _constrain(self, path: CallPath, constrained: str) -> dict[str, JSON]:
        """The grammar of calls in the text; empty if there is none.

        Every tag that begins a call becomes one under a grammar, so a conversation about tags goes without, unless a
        grammar is required.
        """
        if constrained == "off":
            return {}
        written = ""
        if path.mode == "template":
            written = path.written_format
        if path.mode != "text" and find_format(written) is None:
            return {}
        texts = self._list_texts("system", "developer", "user", "tool")
        if self.choice == "auto" and constrained == "auto" and any(map(mentions_call, texts)):
            return {}
        return constrain_calls(self.tools, self.choice, written)

    def list_optional_fields(self, body: Mapping[str, Any]) -> frozenset[str]:
        """The fields of an edited body that the client did not send, and that may be left out."""
        own = {name for name in body if name not in self.body}
        if any(each.get(THOUGHTS_FIELD) for each in as_dicts(body.get("messages"))):
            own.add(THOUGHTS_FIELD)
        return frozenset(own)

    def _edit_messages(self, path: CallPath, *, has_grammar: bool) -> list[dict[str, Any]]:
        messages = self._choose_history(path)
        if path.sends_calls:
            messages = self._edit_calls(messages, path)
        if path.system_first:
            messages = place_late_system(messages)
        if not path.sends_calls:
            messages = render_exchanges(messages)
        if path.mode == "text" and self.tools:
            messages = _add_instructions(messages, render_instructions(self.tools))
            if not has_grammar and (wish := render_choice(self.choice)):
                messages.append({"role": "user", "content": wish})
        return _fit_template(messages, path)

    def _choose_history(self, path: CallPath) -> list[dict[str, Any]]:
        """The messages that the server takes on this path, with their thoughts as it reads them."""
        history = self._limit_media(self.mended.messages if path.mended else self.messages, path)
        messages = [name_thoughts(each, moves_inline=bool(path.shows_thoughts)) for each in history]
        if THOUGHTS_FIELD in path.disabled_fields:
            messages = [leave_out(each, *THOUGHTS) for each in messages]
        return messages

    def _edit_calls(self, messages: Sequence[dict[str, Any]], path: CallPath) -> list[dict[str, Any]]:
        """The messages with their calls as the chat template is to write them."""
        edited: list[dict[str, Any]] = []
        for message in write_malformed_as_text(messages):
            kept = leave_out(message, WRITTEN)
            if has_wire_gap(kept):
                kept = {**kept, "content": cut_gap(kept["content"], path.call_gap or "")}
            edited.append(kept)
        return [*name_chat_calls(edited, find_id_rule(path.written_format, self.model))]

    def _limit_media(self, messages: Sequence[dict[str, Any]], path: CallPath) -> list[dict[str, Any]]:
        """The messages, of which the older ones name images and sound in words that the server does not take.

        What the user has just sent stays: without it the answer would be one to another question.
        """
        kept = [*messages]
        if not path.text_only and path.max_media == DEFAULT_MAX_MEDIA:
            return kept
        left = path.max_media
        if path.text_only:
            left = 0
        for place in reversed(range(len(kept))):
            left -= count_media(kept[place].get("content"))
            is_new = place == len(kept) - 1 and self.new_media
            if left < 0 and has_media(kept[place].get("content")) and not is_new:
                kept[place] = _flatten(kept[place])
        return kept


def _fit_template(messages: list[dict[str, Any]], path: CallPath) -> list[dict[str, Any]]:
    """The messages with the contents and the roles that the chat template takes."""
    if path.text_only:
        messages = [each if has_media(each.get("content")) else _flatten(each) for each in messages]
    if path.fold_system:
        messages = [{**each, "role": "user"} if is_system(each) else each for each in messages]
    if path.alternate:
        # templates count empty messages as turns
        messages = join_neighbours([each for each in messages if each.get("content")])
    return messages


def _flatten(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "content": read_text(message.get("content"))}


def _read_tools(tools: object) -> list[ToolDefinition]:
    """The functions among the tools. A tool of another kind is the server's, and is no call of the client's."""
    functions = as_dicts([each.get("function") for each in as_dicts(tools)])
    return [
        ToolDefinition(
            each["name"],
            as_str(each.get("description")),
            each["parameters"] if isinstance(each.get("parameters"), dict) else {"type": "object"},
        )
        for each in functions
        if isinstance(each.get("name"), str)
    ]


def _read_choice(choice: object) -> ToolChoice:
    if choice == "none":
        return "none"
    if choice == "required":
        return "required"
    name = as_dict(as_dict(choice).get("function")).get("name")
    if isinstance(name, str):
        return Named(name)
    return "auto"


def _add_instructions(messages: Sequence[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """At the end of the first system message."""
    first = next((place for place, each in enumerate(messages) if is_system(each)), None)
    if first is None:
        return [{"role": "system", "content": text}, *messages]
    system = messages[first]
    changed = {**system, "content": join_contents(system.get("content"), text)}
    return [*messages[:first], changed, *messages[first + 1 :]]
