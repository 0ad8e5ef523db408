"""vLLM's endpoints for tokens: a chat request rendered by the server, its tokens sent back, the model's text. Pure.

/v1/chat/completions/render  a chat request -> the tokens of its prompt and the settings of sampling
/inference/v1/generate       these -> text and tokens, as the model wrote them: no tool or reasoning parser is used

Served with --enable-scale-out. Shapes: vLLM 0.32, entrypoints/scale_out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from ..errors import TokensUnsupported
from .base import Decoder, HttpRequest, WireEvent
from .openai import CompletionChoice, CompletionDelta, OpenAIStream
from .stream.decoder import BodySniffer

RENDER_PATH = "chat/completions/render"
GENERATE_PATH = "/inference/v1/generate"
NO_PROMPT = "The server rendered something that is not a prompt."
_NULL = msgspec.Raw(b"null")
_TEXT = msgspec.Raw(b'"text"')  # without it the answer is token ids alone


class RenderedPrompt(Struct, frozen=True):
    """`ids`: of the prompt, as the server writes them in a list, without brackets; `fields`: all that it answered."""

    ids: bytes
    fields: dict[str, msgspec.Raw]

    @property
    def request(self) -> HttpRequest:
        """It makes the model answer."""
        ids = msgspec.Raw(b"[%s]" % self.ids)
        return HttpRequest(GENERATE_PATH, msgspec.json.encode(self.fields | {"token_ids": ids, "output_mode": _TEXT}))

    @property
    def size(self) -> int:
        """In tokens."""
        return self.ids.count(b",") + 1

    @property
    def has_media(self) -> bool:
        """Whether images or sound have their places among the ids."""
        return self.fields.get("features", _NULL) != _NULL


def read_rendered(body: bytes) -> RenderedPrompt:
    """The answer of the render endpoint. Raises TokensUnsupported."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        ids = bytes(fields["token_ids"]).strip(b"[] \n")
    except (msgspec.DecodeError, KeyError) as error:
        raise TokensUnsupported(NO_PROMPT) from error
    if not ids or ids.translate(None, b"0123456789, \n"):
        raise TokensUnsupported(NO_PROMPT)
    return RenderedPrompt(ids, fields)


def make_generate_decoder(content_type: str, new_id: Callable[[], str]) -> Decoder:
    return BodySniffer(content_type, GenerateStream(new_id))


class GenerateStream(OpenAIStream):
    """An answer of /inference/v1/generate. All that its tokens were is in its text."""

    def _add_choice(self, choice: CompletionChoice, found: list[WireEvent]) -> None:
        if choice.text is None and choice.token_ids:
            raise TokensUnsupported("The server generates token ids without their text.")
        self._add_delta(CompletionDelta(content=choice.text), found)
        if choice.token_ids:
            self._add_ids(choice.token_ids, choice.finish_reason)
        if isinstance(choice.stop_reason, str):  # the text ends before it, and the ids behind it
            self._token_ids = []

    def read_whole(self, answer: Any) -> list[WireEvent]:
        """See StreamDecoder."""
        events = super().read_whole(answer)
        self._is_done = True
        return events
