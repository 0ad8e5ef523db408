"""A client's request as negotiation asks the server for it. Sans-IO.

What a refusal changes is this request's alone, until the server refuses a request of our own for the same reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from msgspec.structs import replace

from ..errors import ParserFailed, ServerError, ToolsDropped
from ..negotiation.call_path import GRAMMAR_FIELD, CallPath, Reason
from ..negotiation.downgrade import avoid_parser
from ..negotiation.evidence import DROPPED, MAX_BYTES_PER_TOKEN, look_at_template, probe_grammar, probe_template
from ..negotiation.facts import FactStore, ServedModel
from ..negotiation.formats.markers import list_markers
from ..negotiation.formats.written_format import PROBE_TOOL
from ..negotiation.history.exchange_text import THOUGHTS
from ..negotiation.history.messages import has_inline_thought, has_wire_gap
from ..negotiation.path_learner import PathLearner
from ..negotiation.server import MAX_BODY_BYTES, ServerApi, read_body, read_refusal
from ..providers.base import ChatRequest
from ..providers.openai import CHAT_PATH, OpenAICodec
from ..providers.stream.decoder import BLANK, Form, build_page_error, detect_form, read_kind
from ..providers.text_completions import make_body
from ..providers.wire_json import encode_json
from ..types.effects import READ, Aside, Fetch, Open, Reply, ReplyHead
from ..types.messages import UserMessage
from .chat_request import ChatBody
from .chunks.text_run import count_prompt_tokens
from .refusals import Refusals
from .report import Report
from .turn_options import TurnOptions

RAW_PATH = "completions"
PROMPT_FIELDS = ("model", "messages", "tools", "chat_template", "chat_template_kwargs", "add_generation_prompt")


class ClientAsker:
    """Of `served`, of which `facts` are known. `new_id` names calls.

    `body`: the last one that was edited; `head`: of the last answer or refusal; `refused`: what the server answered
    last, if that was no answer.
    """

    def __init__(
        self,
        served: ServedModel,
        facts: FactStore,
        request: ChatBody,
        new_id: Callable[[], str],
        report: Report,
        options: TurnOptions,
    ) -> None:
        self._constrained = options.constrained
        self._may_avoid_parser = options.recovers_parser_errors and request.may_be_asked_in_text
        self.body: dict[str, Any] = {}
        self.path = CallPath()  # that the server accepted
        self.head = ReplyHead(0)
        self.refused: Reply | None = None
        self._served = served
        self._facts = facts
        self._request = request
        self._report = report
        self._server = ServerApi(OpenAICodec(new_id), served.address, facts, is_vllm=True)  # of other prompts
        self._learner = PathLearner(  # the choice none is refused on no path
            self._server,
            facts,
            served,
            lambda messages, _: ChatRequest(request.model, messages, [PROBE_TOOL], tool_choice="none"),
        )
        self._refusals = Refusals(request, self._server, self._ask_aside, options.constrained)

    def choose_path(self) -> CallPath:
        """The path to begin with. A call that is required needs no parser: it is held to the tools' schemas."""
        path = self._facts.paths.get(self._served)
        is_free = self._request.choice == "auto" and path.mode != "tokens"
        if not is_free:
            path = replace(path, mode="native")
        if self._may_avoid_parser:
            return self._facts.avoid_parser(self._served, path)
        return path

    def prepare(self, path: CallPath) -> Aside[CallPath]:
        """The path with what is learned for the request, which is kept whatever becomes of it."""
        learned = yield from self._learn(path)
        if learned is not path:
            self._keep(learned)
        return learned

    def _learn(self, path: CallPath) -> Aside[CallPath]:
        """The path with what the template does to the history."""
        request = self._request
        # Results as text are messages of the user, before which a template may show no thoughts: they stay in the text.
        thoughts = (path.mode != "text" and has_inline_thought(each) for each in request.messages)
        gaps = map(has_wire_gap, request.messages)
        return (yield from self._learner.learn_history(path, thoughts, gaps, has_late_system=request.has_late_system))

    def edit(self, path: CallPath, without: Set[str]) -> dict[str, Any]:
        self.body = self._request.edit(path, without, self._constrained)
        return self.body

    def list_optional_fields(self, body: Mapping[str, Any]) -> frozenset[str]:
        required = {GRAMMAR_FIELD} if self._constrained == "on" else frozenset()
        return self._request.list_optional_fields(body) - required

    def avoid_parser(self, path: CallPath, failure: ParserFailed) -> CallPath:
        """As avoid_parser, for the client's turn."""
        avoiding = avoid_parser(self._facts, self._served, path, failure, may_ask_again=self._may_avoid_parser).path
        self._report.extra_requests += 1
        self._report.rescues.append("parser")
        return avoiding

    def change(
        self, path: CallPath, refusal: ServerError, body: Mapping[str, Any], without: Set[str]
    ) -> Aside[CallPath]:
        is_of_history = self._request.has_bad_arguments and not path.mended  # it may be the request that is not parsed
        if isinstance(refusal, ParserFailed) and not is_of_history:
            return self.avoid_parser(path, refusal)
        self._report.extra_requests += 1
        if isinstance(refusal, ToolsDropped):
            shows_tools = yield from probe_template(self._server, self._request.model, self._request.tools)
            return path.drop_tools() if shows_tools is False else path
        return (yield from self._refusals.downgrade(path, refusal, self.list_optional_fields(body), without))

    def accept(self, path: CallPath, without: Set[str]) -> None:  # noqa: ARG002
        self._report.path = "raw" if path.is_raw else path.mode
        self._report.mended = self._request.list_mended(path)
        self.path = path
        self._keep(path)

    def _keep(self, path: CallPath) -> None:
        """Keep the path for other requests, unless it was changed for this client's words."""
        if self._request.choice != "auto":
            path = replace(path, mode="native")
        if self._refusals.are_proven:
            self._facts.keep_path(self._served, path)

    def _ask_aside(self, body: Mapping[str, Any]) -> Fetch:
        self._report.extra_requests += 1
        return Fetch("POST", CHAT_PATH, encode_json(body))

    def _refuse(self, reply: Reply) -> ServerError:
        self.refused = reply
        return read_refusal(reply.head, reply.body, self._request.body)


class ChatAsker(ClientAsker):
    """Asks for the chat completion. `form`: that of the answer, which is open; `start`: what was read of it."""

    form: Form = "stream"
    start = b""
    _prompt = ""  # of a turn that avoids the server's parser, as text
    continued = ""  # a text of the assistant that the answer is to go on with

    def edit(self, path: CallPath, without: Set[str]) -> dict[str, Any]:
        self.body = body = self._continue(super().edit(path, without))
        return body

    def _continue(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body with the beginning of the answer, if it has one."""
        if self.continued:
            body["messages"] = [*body["messages"], {"role": "assistant", "content": self.continued}]
            if self._served.version:  # of vLLM; llama.cpp's server does so by itself
                body |= {"add_generation_prompt": False, "continue_final_message": True}
        return body

    def prepare(self, path: CallPath) -> Aside[CallPath]:
        """See ClientAsker; of a turn that avoids the server's parser, the prompt as text where the server makes one."""
        avoids_parser = path.reason is Reason.PARSER_FAILED
        if avoids_parser and (path.mode == "text" or self.continued):
            # What the client has of the answer is part of the prompt.
            body = self._continue(self._request.edit(path.for_raw_turn))
            self._prompt = (yield from self._server.apply_template(encode_prompt(body))) or ""
        if avoids_parser and self._prompt:
            return path.for_raw_turn
        if path.is_raw:  # the server makes no prompt any more
            path = path.for_text_turn
        return (yield from super().prepare(path))

    def _learn(self, path: CallPath) -> Aside[CallPath]:
        path = yield from super()._learn((yield from self._look_at_template(path)))
        if self._constrained == "off":
            return path
        # A failure with a grammar may be due to the client's tools: a grammar of ours tells.
        if self._facts.grammar_failures.get(self._served) > 1 and not path.grammar:
            path = path.learn_grammar((yield from probe_grammar(self._server, self._request.model)))
        return (yield from self._learner.learn_format(path))

    def _look_at_template(self, path: CallPath) -> Aside[CallPath]:
        """The path with whether the template shows tools, on llama.cpp's server, which takes them in any case. It tells
        how many parameters its models have, and no version.
        """
        if path.mode != "native" or path.template_shows_tools is not None or self._served.version:
            return path
        yield from self._server.context_lengths()
        if not self._server.info.parameter_counts or not self._request.may_be_asked_in_text:
            return path
        probe = ChatRequest(self._request.model, [UserMessage("Hello.")], [PROBE_TOOL])
        if (is_shown := (yield from look_at_template(self._server, probe))) is None:
            return path
        return path.learn_template(shows_tools=is_shown).path

    def accept(self, path: CallPath, without: Set[str]) -> None:
        super().accept(path, without)
        self._facts.note_grammar(self._served, failed=bool(without))

    def send(self, body: Mapping[str, Any], path: CallPath) -> Aside[None]:
        sent = encode_json(body)
        if path.is_raw:
            raw = make_body(body, self._prompt, list_markers())
            self.head = yield Open("POST", RAW_PATH, encode_json(raw))
        else:
            self.head = yield Open("POST", CHAT_PATH, sent)
        if not self.head.is_ok:
            raise self._refuse(Reply(self.head, (yield from read_body())))
        self.form, self.start = yield from _read_start(self.head)
        if self._refusals.are_proven and self._is_too_short(path, len(sent)):
            self._facts.measured.update(self._served, lambda _: True)
            raise ToolsDropped(DROPPED)

    def _is_too_short(self, path: CallPath, sent_bytes: int) -> bool:
        """Whether the prompt cannot hold the tools: the server may have been started anew, with flags that leave them
        out. It is doubted once.

        `sent_bytes`: the size of the request.
        """
        if path.mode != "template" or path.is_raw or self._request.has_media or self._facts.measured.get(self._served):
            return False
        tokens = count_prompt_tokens(self.start)
        if not 0 < tokens < sent_bytes // MAX_BYTES_PER_TOKEN:
            return False
        # A grammar is no part of the prompt, and a template may leave thoughts out.
        messages = [{**each, **dict.fromkeys(THOUGHTS)} for each in self.body["messages"]]
        size = len(encode_json({**self.body, GRAMMAR_FIELD: None, "messages": messages}))
        return tokens < size // MAX_BYTES_PER_TOKEN


class CountAsker(ClientAsker):
    """Asks for the number of tokens of the prompt. `counted`: the server's answer."""

    counted = b""

    def choose_path(self) -> CallPath:
        return self._facts.paths.get(self._served)

    def list_optional_fields(self, body: Mapping[str, Any]) -> frozenset[str]:  # noqa: ARG002
        return frozenset()  # of a prompt

    def send(self, body: Mapping[str, Any], path: CallPath) -> Aside[None]:  # noqa: ARG002
        reply = yield self._ask_aside(body)
        if not reply.head.is_ok:
            raise self._refuse(reply)
        self.counted = reply.body

    def _ask_aside(self, body: Mapping[str, Any]) -> Fetch:
        return Fetch("POST", "/tokenize", encode_prompt(body))


def encode_prompt(body: Mapping[str, Any]) -> bytes:
    """What /tokenize takes, of a chat completion's body."""
    return encode_json({name: body[name] for name in PROMPT_FIELDS if name in body})


def _read_start(head: ReplyHead) -> Aside[tuple[Form, bytes]]:
    """What the open answer is, and its first bytes, or a whole answer. Raises WireError where it is a page."""
    kind, start = read_kind(head.content_type), b""
    form: Form | None = None
    while form is None and (piece := (yield READ)) is not None:
        start = (start + piece).lstrip(BLANK)
        form = detect_form(kind, start) if start else None
    if form == "page":
        raise build_page_error(kind, start + (yield from read_body()))
    if form == "whole":
        start += yield from read_body(MAX_BODY_BYTES)
    return form or "stream", start
