"""A call that is being written: which of its arguments may leave now. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...types.messages import ToolCall
from ..arguments.indexed_tool import IndexedTool
from ..arguments.tool_index import ToolIndex
from ..decode.tag_style import TagStyle
from ..echo import GivenText
from .arguments import (
    CALL_HEAD,
    HEAD,
    KEY_HEAD,
    ArgumentReader,
    BareArgumentReader,
    CallArgumentReader,
    JSONArgumentReader,
    find_arguments,
    has_bare_keys,
)
from .tag_arguments import TagArgumentReader

MIN_PROOF_CHARS = 50  # more than a placeholder has
MAX_HEAD_CHARS = 400  # before the arguments
_UNSURE_CHARS = 8  # at the end of a string that goes on: they may be the half of an entity or an escape


class BegunCall:
    """A call that is being written. `given`: what it may be an echo of.

    `kind`: how it is written. Of `json` and `keywords` the text begins with what names the tool; of `named` and `tags`
    it is the arguments. `style`: of the tags that these are written in; None if they are in none.
    """

    def __init__(
        self,
        id: str,
        tool: IndexedTool,
        tools: ToolIndex,
        given: Sequence[GivenText],
        kind: str,
        style: TagStyle | None = None,
    ) -> None:
        self.id = id
        self.name = tool.name
        self._tools = tools
        self.has_left = False  # a piece of it
        self._given = given
        self._arguments: ArgumentReader = JSONArgumentReader(tool.scalar_types)
        if style:
            self._arguments = TagArgumentReader(tool.scalar_types, tool.properties, style)
        self._types = tool.scalar_types
        self._kind = kind
        self._head: str | None = "" if kind != "tags" else None  # None behind it
        self._unsent = ""  # until it is proven that the call is no echo
        self._proof_chars = MIN_PROOF_CHARS  # that the open string must have for the next look
        self._is_proven = False

    def feed(self, text: str) -> str:
        """Take in a piece of the block; returns the arguments that may leave now."""
        if self._head is not None:
            self._head += text
            text = self._pass_head(self._head)
            if not text and len(self._head) <= MAX_HEAD_CHARS:
                return ""
            if not text:
                self._arguments.stop()
            self._head = None
        piece = self._arguments.feed(text)
        if self._is_proven:
            return piece
        self._unsent += piece
        # A string that stands in nothing the model was given proves that the call repeats none of it.
        self._is_proven = any(
            not any(given.may_hold(string) for given in self._given) for string in self._list_strings()
        )
        return self._unsent if self._is_proven else ""

    def _pass_head(self, head: str) -> str:
        """What of the text stands behind its head; empty if that has not ended."""
        if self._kind == "json":
            return self._pass_json_head(head)
        if self._kind == "named":
            return self._look_at_keys(head)
        _, text = find_arguments(head, CALL_HEAD)
        if text:
            self._arguments = CallArgumentReader(self._types, has_keywords=text[0] != "{")
        return text

    def _pass_json_head(self, head: str) -> str:
        key, text = find_arguments(head, KEY_HEAD)
        if text and self._tools.names.find(key) == self.name:
            return text
        name, text = find_arguments(head, HEAD)
        if text and self._tools.names.find(name) != self.name:
            self._arguments.stop()
        return text

    def _look_at_keys(self, head: str) -> str:
        """The whole text, once it shows how the keys are written."""
        is_bare = has_bare_keys(head)
        if is_bare is None:
            return ""
        if is_bare:
            self._arguments = BareArgumentReader(self._types)
        return head

    def _list_strings(self) -> Iterator[str]:
        """The strings to look at, without the end of the one that goes on."""
        arguments = self._arguments
        for string in arguments.take_strings():
            self._proof_chars = MIN_PROOF_CHARS
            if len(string) >= MIN_PROOF_CHARS:
                yield string
        if arguments.open_chars >= self._proof_chars:
            self._proof_chars = 2 * arguments.open_chars
            yield arguments.read_open_string()[:-_UNSURE_CHARS]

    def finish(self, call: ToolCall) -> str | None:
        """The rest of the arguments of the whole call; None if it does not begin as what has left."""
        return self._arguments.finish(call.arguments) if call.name == self.name else None
