"""A call that the server's parser made: what of it may be sent, and how a recovered call completes it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ...parsing.arguments.indexed_tool import IndexedTool
from ...parsing.arguments.native import NativeFitter
from ...types.events import ToolCallDelta
from ...types.messages import ToolCall, ToolDefinition
from .fitted_text import FittedText
from .json_prefix import JsonPrefix, complete_json

_FIRST_KEY = re.compile(r'\s*\{\s*"((?:[^"\\]|\\.)*)"\s*:')


class NativeCall:
    """`tools`: those on offer, by name. `may_be_cut`: a value may go on behind its end, as only the answer's tells.

    `is_fitted`: values that the tool's schema refuses are fitted to it.
    """

    def __init__(self, tools: Mapping[str, ToolDefinition], *, may_be_cut: bool, is_fitted: bool = False) -> None:
        self.name = ""
        self._tools = tools
        self._may_be_cut = may_be_cut
        self._is_fitted = is_fitted
        self._fitted: FittedText | None = None
        self._pieces: list[str] = []  # of its arguments, as they came
        self._sent = 0  # pieces
        self._json = JsonPrefix()
        self._begins_well = False

    def add(self, piece: ToolCallDelta) -> None:
        self.name = self.name or piece.name or ""
        self._json.feed(piece.arguments_delta)
        self._pieces.append(piece.arguments_delta)
        self._begins_well = self._begins_well or self._has_known_key()
        if self._is_fitted and self._fitted is None and (tool := self._tools.get(self.name)):
            self._fitted = FittedText(NativeFitter(IndexedTool(tool.name, tool.parameters)))
            for each in self._pieces[:-1]:
                self._fitted.feed(each)
        if self._fitted:
            self._fitted.feed(piece.arguments_delta)

    @property
    def pieces(self) -> list[str]:
        """Its arguments, piece by piece, as the client gets them."""
        return self._fitted.pieces if self._fitted else self._pieces

    @property
    def is_changed(self) -> bool:
        """Whether a value was fitted."""
        return bool(self._fitted and self._fitted.count)

    def end(self) -> None:
        """No more pieces come."""
        if self._fitted:
            self._fitted.release()

    def take_piece(self) -> tuple[str, str]:
        """The next piece to send, as it came and as the client gets it."""
        self._sent += 1
        return self._pieces[self._sent - 1], self.pieces[self._sent - 1]

    def _has_known_key(self) -> bool:
        """Whether a call of an offered tool has begun, and not one that the server's parser has garbled."""
        tool = self._tools.get(self.name)
        if tool is None:
            return False
        properties = tool.parameters.get("properties")
        if not isinstance(properties, dict) or not tool.parameters.get("required"):
            return True
        key = _FIRST_KEY.match("".join(self._pieces))
        return key is not None and key[1] in properties

    @property
    def is_certain(self) -> bool:
        """Whether what came so far may be sent."""
        if self._fitted and self._fitted.is_holding:
            return False
        is_settled = self._json.is_inside_value if self._may_be_cut else self._json.is_settled
        return self._begins_well and is_settled

    @property
    def is_complete(self) -> bool:
        """Whether its arguments are a JSON object."""
        return self._json.is_complete

    def is_broken(self, *, is_cut: bool) -> bool:
        """Whether a part was sent, and the whole is no JSON object.

        `is_cut`: the answer reached its limit of tokens, so the object's end may be missing.
        """
        if is_cut:
            return self.is_begun and not self._json.is_valid
        return self.is_begun and not self.is_complete

    @property
    def is_begun(self) -> bool:
        """Whether a part was sent."""
        return bool(self._sent)

    def complete(self, call: ToolCall) -> str | None:
        """The rest of the call's arguments; None if the call does not begin as what was sent."""
        if call.name != self.name:
            return None
        sent = "".join(self.pieces[: self._sent])
        if self._sent == len(self._pieces) and self.is_complete and json.loads(sent) == call.arguments:
            return ""
        return complete_json(sent, call.arguments)
