"""Decides what a decoded block is: calls that may run, malformed calls that are answered, or text.

A block whose format asks for a call (`explicit`) is a call or malformed. What merely looks like a call counts only if
the tool is offered and the arguments fit. A block that is about calls (mention.py) is text, or its calls are guessed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from ..types.lazy_pattern import LazyPattern
from ..types.messages import MalformedCall, ToolCall
from .arguments.coerce import get_kind
from .arguments.fit import ArgumentMismatch, Fitter, accepts_kind, match_parameter
from .arguments.indexed_tool import IndexedTool
from .arguments.tool_index import ToolIndex
from .decode.call_shapes import ARGUMENT_KEYS, NAME_KEYS, DecodedBlock, RawCall, find_begun_calls
from .decode.nodes import Guess, Node, RepeatedKey
from .echo import GivenText, Parser, SoughtCall
from .events import Classification
from .mention import (
    is_in_quoting_fence,
    is_inside_string,
    may_stand_amid_text,
    presents_call,
    stands_as_mention,
)

_HEAD_CHARS = 160  # of a block, in which its name stands
_BEGUN_CALL = LazyPattern(  # a name, and the key behind it
    rf"(?:{'|'.join(NAME_KEYS)})[\"']?\s{{0,8}}:\s{{0,8}}[\"']([^\W\d][\w.:/-]{{0,80}})[\"']"
    r"(?:\s{0,8},\s{0,64}[\"']?(\w{1,80})[\"']?\s{0,8}:)?"
)
_NAME_WORD = LazyPattern(r"[^\W\d][\w.:/-]*")


class BlockText(Struct, frozen=True):
    """A block as it stands in the answer.

    `explicit`: its format asks for a call. `is_bare`: nothing escapes the quotes or tags in its values. `after_text`:
    text followed the last call; what then merely looks like one of the calls before is text. `lead`: the text before
    the block; after nothing but blanks that of the block before it counts. `is_mentioned`: where it stands shows
    that it is quoted.
    """

    raw: str
    origin: str
    explicit: bool
    is_bare: bool = False
    after_text: bool = False
    lead: str = ""
    is_mentioned: bool = False


def _may_be_arguments(arguments: dict[str, Node], positional: list[Node], tool: IndexedTool) -> bool:
    """Whether these, of which the last may be cut off, may be arguments of the tool."""
    if not tool.properties:
        return True
    if len(positional) == 1 and not arguments and isinstance(positional[0], dict):
        arguments, positional = positional[0], []  # which stands for them
    for key, value in arguments.items():
        if key in ARGUMENT_KEYS and isinstance(value, dict):  # which holds the arguments
            arguments = value
    members = [*zip(tool.properties, positional, strict=False), *arguments.items()]
    return len(positional) <= len(tool.properties) and all(_may_be_argument(*member, tool) for member in members)


def _may_be_argument(key: str, value: Node, tool: IndexedTool) -> bool:
    """Whether a member, whose value may be cut off, may be an argument of the tool or hold all of them."""
    if value in (None, "") or (key in ARGUMENT_KEYS and isinstance(value, str)):
        return True
    parameter = match_parameter(tool, key)
    if parameter is None:
        return False
    is_container = isinstance(value, (dict, list))  # which the value of a parameter often is not
    return not is_container or accepts_kind(tool, tool.properties[parameter], get_kind(value))


class CallClassifier:
    """Classifies the calls of one answer.

    A call that stands in one of the `given` texts, which are read with a `new_parser`, is an echo. `reads_strings`: see
    StreamParser.
    """

    def __init__(
        self,
        tools: ToolIndex,
        new_id: Callable[[], str],
        given: Iterable[GivenText],
        max_calls: int,
        new_parser: Callable[[], Parser],
        *,
        reads_strings: bool = False,
    ) -> None:
        self._tools = tools
        self._new_id = new_id
        self._given = tuple(given)
        self._max_calls = max_calls
        self._new_parser = new_parser
        self._reads_strings = reads_strings
        self._count = 0
        self._made: list[ToolCall] = []
        self._ids: list[str] = []  # reserved and not used yet
        self._is_presented = False  # the text before the block presents it as an example or a quotation
        self._is_broken = False  # a block with bare values could not be read: what follows may be part of a value

    def may_be_call(self, name: str, text: str) -> bool:
        """Whether the beginning of an object may be that of a call: of the tool `name`, or of one that it names.

        All that it holds so far has to be a call's, of an offered tool and with no other arguments than that has.
        """
        calls = find_begun_calls(name, text, self.is_known)
        if calls is None:
            return True
        for call in calls:
            tool = self._tools.find(call.name)
            if tool is None or call.arguments is None or call.repairs:
                continue
            if _may_be_arguments(call.arguments, call.positional, tool):
                return True
        return False

    def is_known(self, name: str) -> bool:
        return self._tools.find(name) is not None

    def resolve_name(self, name: str) -> str:
        """The name of the offered tool that `name` means, or an empty string."""
        return self._tools.names.find(name) or ""

    def rank_parameter(self, name: str, key: str) -> int:
        """2 for a required parameter of the tool, 1 for another, 0 for none; 1 if the parameters are not known."""
        tool = self._tools.find(name)
        if tool is None or not tool.properties:
            return 1
        parameter = match_parameter(tool, key)
        if parameter is None:
            return 0
        return 2 if parameter in tool.required else 1

    def reserve_id(self) -> str:
        """The id that the next call will have."""
        if not self._ids:
            self._ids.append(self._new_id())
        return self._ids[0]

    def _take_id(self) -> str:
        self.reserve_id()
        return self._ids.pop(0)

    @property
    def has_overflowed(self) -> bool:
        """Whether there were more calls and malformed calls than one answer may hold."""
        return self._count > self._max_calls

    def is_certain(self, name: str, lead: str) -> bool:
        """Whether a block of the tool `name` behind `lead` is a call, if it can be read and is no echo or pattern."""
        if not self._tools.names.is_exact(name) or self._is_broken or self._count >= self._max_calls:
            return False
        if stands_as_mention(lead) or may_stand_amid_text(lead) or is_inside_string(lead):
            return False
        return not self.presents_call(lead)

    def presents_call(self, lead: str) -> bool:
        """Whether the text before a block presents it as an example or a quotation.

        After nothing but blanks the text before the last call counts.
        """
        if not lead.strip() and self._made:
            return self._is_presented
        return presents_call(lead)

    def reject_long(self, name: str, raw: str, origin: str, limit: int) -> MalformedCall:
        return self._reject(name, raw, f"The block is longer than {limit} characters.", origin)

    def classify(self, decoded: DecodedBlock, block: BlockText) -> list[Classification]:
        """The calls and malformed calls of a block; none if it is text."""
        if not self._reads_strings and (is_inside_string(block.lead) or is_in_quoting_fence(block.lead)):
            return []
        self._is_presented = block.is_mentioned or stands_as_mention(block.lead) or self.presents_call(block.lead)
        if decoded.problem:
            classified = self._reject_unreadable(decoded, block)
        else:
            classified = self._classify_calls(decoded, block)
        return self._count_calls(classified, block.raw)

    def _reject_unreadable(self, decoded: DecodedBlock, block: BlockText) -> list[Classification]:
        """The malformed call of a block that cannot be read; none if it is about calls, or nothing asks for one."""
        self._is_broken = self._is_broken or block.is_bare
        if self._is_presented:
            return []
        name = next((call.name for call in decoded.calls), "")
        if not block.explicit:
            name = self._find_begun(decoded, block.raw)
            if not name:
                return []
        return [self._reject(name, block.raw, str(decoded.problem), block.origin)]

    def _classify_calls(self, decoded: DecodedBlock, block: BlockText) -> list[Classification]:
        classified = [self._classify_call(call, decoded, block) for call in decoded.calls]
        calls = [call for call in classified if isinstance(call, ToolCall)]
        if block.is_bare:
            classified = self._doubt_bare_values(classified, calls, decoded)
        if self._is_text(calls, decoded, block):
            self._ids = [call.id for call in classified] + self._ids
            return []
        self._made += calls
        return classified

    def _doubt_bare_values(
        self, classified: list[Classification], calls: list[ToolCall], decoded: DecodedBlock
    ) -> list[Classification]:
        """A value of the calls that could be read may go on in one that could not, or behind the block."""
        is_partly_malformed = len(calls) < len(classified) and not self._is_presented
        if is_partly_malformed or (decoded.guessed and decoded.repairs):
            self._is_broken = True
        if not is_partly_malformed:
            return classified
        return [replace(call, guessed=True) if isinstance(call, ToolCall) else call for call in classified]

    def _is_text(self, calls: list[ToolCall], decoded: DecodedBlock, block: BlockText) -> bool:
        """Whether a block that could be read is text: nothing in it may run and nothing asks for a call."""
        if not calls and (self._is_presented or not (block.explicit or self._find_begun(decoded, block.raw))):
            return True
        if block.explicit or not block.after_text:
            return False
        made = [(call.name, call.arguments) for call in self._made]
        return all((call.name, call.arguments) in made for call in calls)  # it repeats them

    def _find_begun(self, decoded: DecodedBlock, raw: str) -> str:
        """The tool of a block that only looks like a call, if it is one but for its end or a key that stands twice."""
        if decoded.cut:
            head = _BEGUN_CALL.search(raw)  # of what may stand in it, too, only the first counts
            return self.resolve_name(head[1]) if head and head[2] in ARGUMENT_KEYS else ""
        problems = (decoded.problem, *(call.problem for call in decoded.calls))
        if not any(isinstance(problem, RepeatedKey) for problem in problems):
            return ""
        words = _NAME_WORD.findall(raw[:_HEAD_CHARS])
        return next(filter(None, map(self.resolve_name, words)), "")

    def _classify_call(self, call: RawCall, decoded: DecodedBlock, block: BlockText) -> Classification:
        tool = self._tools.find(call.name)
        if tool is None:
            near = self._tools.find_nearest(call.name) or list(self._tools.tools)[:8]
            reason = f"There is no tool named '{call.name[:80]}'; on offer: {', '.join(near) or 'none'}."
            return self._reject(call.name, block.raw, reason, block.origin)
        if call.arguments is None:
            return self._reject(tool.name, block.raw, f"{tool.name}: {call.problem}", block.origin)
        fitter = Fitter(tool, lenient=block.explicit)
        try:
            arguments = fitter.fit(call.arguments, list(call.positional))
        except ArgumentMismatch as error:
            return self._reject(tool.name, block.raw, str(error), block.origin)
        renamed = () if call.name == tool.name else ("name",)
        repairs = (*decoded.repairs, *call.repairs, *renamed, *fitter.changes)
        is_read_otherwise = decoded.guessed or any(isinstance(repair, Guess) for repair in repairs)
        is_named = call.name == tool.name or self._tools.names.is_exact(call.name)
        is_doubtful = self._is_presented or self._is_broken or not is_named
        made = ToolCall(
            self._take_id(), tool.name, arguments, block.origin, tuple(map(str, repairs)),
            guessed=is_read_otherwise or is_doubtful,
        )  # fmt: skip
        sought = SoughtCall(made, block.raw)
        if any(text.holds_call(sought, self._tools.names, self._new_parser) for text in self._given):
            made = replace(made, echo=True)
        return made

    def _count_calls(self, calls: list[Classification], raw: str) -> list[Classification]:
        """The calls up to the first one beyond the limit, which is malformed."""
        free = max(0, self._max_calls - self._count)
        self._count += len(calls)
        if len(calls) <= free:
            return calls
        reason = f"More than {self._max_calls} calls in one answer: nothing from here on was read."
        first = calls[free]
        return [*calls[:free], MalformedCall(first.id, first.name, raw, reason, first.origin)]

    def _reject(self, name: str, raw: str, reason: str, origin: str) -> MalformedCall:
        return MalformedCall(self._take_id(), name, raw, reason, origin)


def make_id_source() -> Callable[[], str]:
    """A source of ids for calls that came without one; every source counts from 1.

    Nine digits: every server and chat template accepts them.
    """
    counter = itertools.count(1)
    return lambda: f"{next(counter):09d}"
