"""vLLM's endpoints for tokens: a chat request rendered by the server, its tokens sent back, the model's text. Pure.

/v1/chat/completions/render  a chat request -> the tokens of its prompt and the settings of sampling
/inference/v1/generate       these -> text and tokens, as the model wrote them: no tool or reasoning parser is used

Served with --enable-scale-out. Shapes: vLLM 0.32, entrypoints/scale_out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ..errors import TokensUnsupported
from .base import Decoder, HttpRequest, WireEvent
from .openai import CompletionChoice, CompletionDelta, OpenAIStream, drop_end
from .stream.decoder import BodySniffer

RENDER_PATH = "chat/completions/render"
GENERATE_PATH = "/inference/v1/generate"
_TEXT = msgspec.Raw(b'"text"')  # without it the answer is token ids alone


class RenderedPrompt(NamedTuple):
    """`request` makes the model answer; `ids`: of the prompt, as the server writes them in a list, without brackets."""

    request: HttpRequest
    ids: bytes

    @property
    def size(self) -> int:
        """In tokens."""
        return self.ids.count(b",") + 1


def read_rendered(body: bytes) -> RenderedPrompt:
    """The answer of the render endpoint; its fields are passed on as they came. Raises TokensUnsupported."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        tokens = bytes(fields["token_ids"])
    except (msgspec.DecodeError, KeyError) as error:
        raise TokensUnsupported("The server rendered something that is not a prompt.") from error
    request = HttpRequest(GENERATE_PATH, msgspec.json.encode(fields | {"output_mode": _TEXT}))
    return RenderedPrompt(request, tokens.strip(b"[] \n"))


def make_generate_decoder(content_type: str, new_id: Callable[[], str]) -> Decoder:
    return BodySniffer(content_type, GenerateStream(new_id))


class GenerateStream(OpenAIStream):
    """An answer of /inference/v1/generate. All that its tokens were is in its text."""

    def _add_choice(self, choice: CompletionChoice, found: list[WireEvent]) -> None:
        if choice.text is None and choice.token_ids:
            raise TokensUnsupported("The server generates token ids without their text.")
        self._add_delta(CompletionDelta(content=choice.text), found)
        self._token_ids += drop_end(choice.token_ids or [], choice.finish_reason)

    def read_whole(self, answer: Any) -> list[WireEvent]:
        """See StreamDecoder."""
        found = super().read_whole(answer)
        self._is_done = True
        return found
