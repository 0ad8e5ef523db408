"""A client's request as negotiation asks the server for it. Sans-IO.

What a refusal changes is this request's alone, until the server refuses a request of our own for the same reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import Any

from msgspec.structs import replace

from ..errors import ParserFailed, ServerError, ToolsDropped
from ..negotiation.call_gap import GAP_PROBE, learn_gap
from ..negotiation.call_path import GRAMMAR_FIELD, PARSER_FAILED, CallPath
from ..negotiation.downgrade import avoid_parser
from ..negotiation.evidence import DROPPED, MAX_BYTES_PER_TOKEN, probe_late_system, probe_template
from ..negotiation.facts import FactStore, ServedModel
from ..negotiation.formats.markers import list_markers
from ..negotiation.formats.written_format import PROBE, PROBE_TOOL, detect_format
from ..negotiation.history.exchange_text import THOUGHTS
from ..negotiation.history.messages import has_wire_gap
from ..negotiation.server import MAX_BODY_BYTES, ServerApi, read_body, read_refusal
from ..negotiation.thoughts import PLAIN_PROBE, THOUGHT_PROBE, probe_thoughts
from ..providers.base import ChatRequest
from ..providers.openai import CHAT_PATH, OpenAICodec
from ..providers.stream.decoder import BLANK, Form, build_page_error, detect_form, read_kind
from ..providers.text_completions import make_body
from ..providers.wire_json import encode_json
from ..types.effects import READ, Aside, Fetch, Open, Reply, ReplyHead
from ..types.tool_schema import to_openai_tool
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
        self._refusals = Refusals(request, self._server, self._ask_aside, options.constrained)

    def choose_path(self) -> CallPath:
        """The path to begin with. A call that is required needs no parser: it is held to the tools' schemas."""
        known = self._facts.paths.get(self._served)
        is_free = self._request.choice == "auto" and known.mode != "tokens"
        if not is_free:
            known = replace(known, mode="native")
        if self._may_avoid_parser:
            return self._facts.avoid_parser(self._served, known)
        return known

    def prepare(self, path: CallPath) -> Aside[CallPath]:
        """The path with what the template does to the history, and the format in which the model writes calls."""
        path = yield from self._look_at_template((yield from self._learn_history(path)))
        if path.mode != "template" or path.written_format:
            return path
        if self._constrained == "off" or GRAMMAR_FIELD in path.disabled_fields:
            return path  # which format it is concerns the grammar only
        probe = ChatRequest(self._request.model, PROBE, [PROBE_TOOL])
        return replace(path, written_format=(yield from detect_format(self._server, probe)))

    def _look_at_template(self, path: CallPath) -> Aside[CallPath]:
        """The path with whether the template shows tools, on llama.cpp's server, which takes them in any case. It tells
        how many parameters its models have, and no version.
        """
        if path.mode != "native" or path.template_shows_tools is not None or self._served.version:
            return path
        yield from self._server.context_lengths()
        if not self._server.info.parameter_counts or not self._request.may_be_asked_in_text:
            return path
        body = {"model": self._request.model, "messages": [{"role": "user", "content": "Hello."}]}
        hidden = yield from self._server.apply_template(encode_json(body))
        shown = yield from self._server.apply_template(encode_json({**body, "tools": [to_openai_tool(PROBE_TOOL)]}))
        if hidden is None or shown is None:
            return path
        path = path.learn_template(shows_tools=shown != hidden).path
        self._facts.paths.update(self._served, lambda known: known.join(path))
        return path

    def _learn_history(self, path: CallPath) -> Aside[CallPath]:
        """Each is asked once for a model on a server, and only for a history that holds such messages."""
        request, known = self._request, self._facts.late_system
        if request.has_late_system and not path.system_first and known.get(self._served) is None:
            is_in_place = yield from probe_late_system(self._server, request.model)
            known.update(self._served, lambda _: is_in_place is not False)  # else a refusal may tell
            path = replace(path, system_first=is_in_place is False)
        if request.has_inline_thoughts and path.shows_thoughts is None:
            probes = (ChatRequest(request.model, each, [PROBE_TOOL]) for each in (THOUGHT_PROBE, PLAIN_PROBE))
            path = replace(path, shows_thoughts=bool((yield from probe_thoughts(self._server, *probes))))
        probe_gap = partial(ChatRequest, request.model, GAP_PROBE, [PROBE_TOOL])
        return (yield from learn_gap(self._server, path, map(has_wire_gap, request.messages), probe_gap))

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

    def accept(self, path: CallPath, without: Set[str], grammar_refusal: ServerError | None) -> None:  # noqa: ARG002
        """A grammar may be refused for the client's tools: that tells nothing about the server."""
        self._report.path = "raw" if path.is_raw else path.mode
        self._report.mended = self._request.list_mended(path)
        self.path = path
        if not self._refusals.are_proven:
            return
        if path.reason == PARSER_FAILED:
            return  # it holds for this turn
        if self._request.choice != "auto":
            path = replace(path, mode="native")
        if path != CallPath():
            self._facts.paths.update(self._served, lambda known: known.join(path))

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
    _prompt: str | None = None  # of a turn that avoids the server's parser, as text
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
        if path.reason != PARSER_FAILED:
            return (yield from super().prepare(path))
        if path.mode == "text" or self.continued:  # what the client has of the answer is part of the prompt
            body = self._continue(self._request.edit(path.for_raw_turn))
            self._prompt = yield from self._server.apply_template(encode_prompt(body))
        return path if self._prompt is None else path.for_raw_turn

    def send(self, body: Mapping[str, Any], path: CallPath) -> Aside[None]:
        sent = encode_json(body)
        if path.is_raw:
            raw = make_body(body, self._prompt or "", list_markers())
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

    def prepare(self, path: CallPath) -> Aside[CallPath]:
        return (yield from self._learn_history(path))

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
