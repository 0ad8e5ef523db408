"""Decides what a decoded block is: calls that may run, malformed calls that are answered, or text.

A block whose format asks for a call (`explicit`) is a call or malformed. What merely looks like a call counts only if
the tool is offered and the arguments fit. A block with placeholders explains how to call, and is text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Union

from ..types.lazy_pattern import LazyPattern
from ..types.messages import MalformedCall, ToolCall
from .arguments.fit import NULL_OR_TEXT, POSITIONAL, ArgumentMismatch, Fitter, match_parameter
from .arguments.tool_index import ToolIndex
from .decode.call_shapes import TWO_ARGUMENTS, DecodedBlock, RawCall
from .decode.json_repair import LOSSY
from .decode.nodes import STANDS_TWICE, Node
from .echo import GivenText, Parser, SoughtCall

_PLACEHOLDER_NAMES = frozenset(
    ("tool_name", "function_name", "name", "tool", "function", "toolname", "functionname", "func", "func_name",
     "func_name1", "func_name2", "your_tool", "some_tool", "example", "example_function", "example_tool",
     "tool_name_here", "none")
)  # fmt: skip
_COUNTER = LazyPattern(r"_?\d{1,2}\Z")
_DOTS = r"\s*(?:\.\.\.|…|\{\.\.\.\}|\[\.\.\.\]|<\.\.\.>)\s*"
_FILL_IN = LazyPattern(rf"{_DOTS}|YOUR_[A-Z_]{{2,40}}|(?i:[<\[](?:your|insert)[ _-][\w -]{{2,40}}[>\]])")
_TYPE_NAMES = "string|str|integer|int|number|float|boolean|bool|array|object|list|dict|any"
_SIGNATURE = LazyPattern(  # `read(path: string, lines?: integer)`, as prompts describe tools
    rf"(?:\s{{0,9}}`{{3}}\w*\s)?\s{{0,64}}[\w.-]+\(\s*"
    rf"(?:\w+\??\s*:\s*(?:{_TYPE_NAMES})\b(?: of \w+|\[\w*\])?\s*(?:,\s*)?)+\)[\s,;]*(?:`{{3}})?\s*"
)
_SCHEMA_KEYS = frozenset(("type", "description", "title", "enum", "default", "items", "format", "minimum", "maximum"))

_HEAD_CHARS = 160  # of a block, in which its name stands
_NAME_WORD = re.compile(r"[^\W\d][\w.:/-]*")
_QUOTES = frozenset("\"'`“‘")
_TEMPLATE = LazyPattern(r"\{[{%][ -]|\{[A-Za-z_.-]+\}")  # of Jinja, or of Python
_FRAMED = LazyPattern(r"\s*<[|｜][^<>]{1,40}>.*<[^<>]{1,40}[|｜]>\s*", re.DOTALL)  # by special tokens of a model
_CUT_OBJECT = LazyPattern(  # up to the arguments of a call that is cut off
    r"""[\s`\[{]*(?:(?<=`)json\s+[\[{\s]*)?["'](?:name|tool|function)["']\s*:\s*["'](?P<name>[\w.:-]+)["']\s*,\s*"""
    r"""["'](?:arguments|args|parameters|input)["']"""
)
_LINE_START = LazyPattern(r"(?:\A|\n)[ \t]*(?:\*\*)?\Z")
# Repairs that may lose a part of an argument, or give it to another parameter.
GUESSES = LOSSY | {POSITIONAL, NULL_OR_TEXT, TWO_ARGUMENTS}
_SENTENCE_END = LazyPattern(r"[.!?](?=\s)|\n\s*\n")
# Of a sentence in lower case, which is searched faster.
_EXAMPLE = LazyPattern(
    r"\be\.g\.|\b(?:for (?:example|instance)|such as|like (?:this|so|these)|as follows|looks? like|usage|syntax|how to|"
    r"examples?\s*(?:calls?|usage|commands?)?\s*[:,(]|used? (?:it|as|like)|to (?:call|use|invoke) (?:it|this|the tool)|"
    r"(?:would|could|can|might|may|should) (?:be|then|also|now|just|simply)|"
    r"(?:you|one|they|users?) (?:can|could|may|might|would|should|must|need to)|"
    r"instead of|never|avoid|(?:do not|don't) (?:run|call|use|write|do))\b"
)
_QUOTATION = LazyPattern(
    r"\b(?:says?|said|reads|contain(?:s|ed)?|includes?|shows?|has|had|holds?|states?|wrote|quotes?|quoted|mentions?|"
    r"defines?|lists?|line \d+|comments?|docstrings?|readme|documentation|docs|instructions?|asks?|suggests?|"
    r"recommends?)\b"
)
_INTENTION = LazyPattern(  # "Okay, now let me look at what the file says"
    r"\s*(?:[*#>-]+\s*)?(?:(?:ok(?:ay)?|sure|now|first|next|then|so|and)\b\W*)*(?:(?:i|let|we)\b|i['’]|we['’])"
)

Classification = Union[ToolCall, MalformedCall]


class CallClassifier:
    """Classifies the calls of one answer.

    A call that stands in one of the `given` texts, which are read with a `new_parser`, is an echo.
    """

    def __init__(
        self,
        tools: ToolIndex,
        new_id: Callable[[], str],
        given: Iterable[GivenText],
        max_calls: int,
        new_parser: Callable[[], Parser],
    ) -> None:
        self._tools = tools
        self._new_id = new_id
        self._given = tuple(given)
        self._max_calls = max_calls
        self._new_parser = new_parser
        self._count = 0
        self._made: list[ToolCall] = []
        self._ids: list[str] = []  # reserved and not used yet
        self._is_presented = False  # the text before the block presents it as an example or a quotation
        self._is_broken = False  # a block with bare values could not be read: what follows may be part of a value

    def has_name(self, text: str) -> bool:
        """Whether a word of the text is an offered tool's name."""
        return any(map(self._tools.names.names_tool, _NAME_WORD.findall(text)))

    def is_known(self, name: str) -> bool:
        return self._tools.find(name) is not None

    def resolve_name(self, name: str) -> str:
        """The name of the offered tool that `name` means, or an empty string."""
        tool = self._tools.find(name) if name else None
        return tool.name if tool else ""

    def rank_parameter(self, name: str, key: str) -> int:
        """2 for a required parameter of the tool, 1 for another, 0 for none; 1 if the parameters are not known."""
        tool = self._tools.find(name)
        if tool is None or not tool.properties:
            return 1
        known = match_parameter(tool, key)
        return 0 if known is None else 2 if known in tool.required else 1

    def reserve_id(self) -> str:
        """The id that the next call will have."""
        if not self._ids:
            self._ids.append(self._new_id())
        return self._ids[0]

    def _take_id(self) -> str:
        return self._ids.pop(0) if self._ids else self._new_id()

    def classify(
        self,
        decoded: DecodedBlock,
        raw: str,
        origin: str,
        *,
        explicit: bool,
        is_bare: bool = False,
        after_text: bool,
        lead: str = "",
    ) -> list[Classification]:
        """The calls and malformed calls of a block; none if it is text.

        `is_bare`: nothing escapes the quotes or tags in its values.
        `after_text`: text followed the last call; what then merely looks like one of the calls before is text.
        `lead`: the text before the block; after nothing but blanks that of the block before it counts.
        """
        blanks = [_find_placeholders(call) for call in decoded.calls]
        if _SIGNATURE.fullmatch(raw) or any(map(self._is_pattern, decoded.calls, blanks, itertools.repeat(explicit))):
            return []
        self._is_presented = self.presents_call(lead)
        if decoded.problem:
            self._is_broken = self._is_broken or is_bare
            name = decoded.calls[0].name if decoded.calls else ""
            is_meant = explicit and self._is_meant(name, raw, lead)
            if not explicit and not self._is_presented:
                name = self._find_begun(decoded, raw)
                is_meant = bool(name)
            return self._count_calls([self._reject(name, raw, decoded.problem, origin)], raw) if is_meant else []
        classified = [
            self._classify_call(call, raw, origin, decoded, explicit, is_doubtful=any(to_fill_in))
            for call, to_fill_in in zip(decoded.calls, blanks, strict=True)
        ]
        calls = [call for call in classified if isinstance(call, ToolCall)]
        if is_bare and decoded.guessed and decoded.repairs:  # what is missing may stand behind what is read next
            self._is_broken = True
        if is_bare and len(calls) < len(classified):
            self._is_broken = True
            classified = [replace(each, guessed=True) if isinstance(each, ToolCall) else each for each in classified]
        is_text = not calls and not (explicit and self._is_meant(decoded.calls[0].name, raw, lead))
        is_text = is_text and (self._is_presented or not self._find_begun(decoded, raw))
        if not explicit and after_text and not is_text:
            made = [(call.name, call.arguments) for call in self._made]
            is_text = all((call.name, call.arguments) in made for call in calls)  # it repeats them
        if is_text:
            self._ids = [each.id for each in classified] + self._ids
            return []
        self._made += calls
        return self._count_calls(classified, raw)

    def _find_begun(self, decoded: DecodedBlock, raw: str) -> str:
        """The tool of a block that only looks like a call, if it is one but for its end or a key that stands twice."""
        if decoded.cut:
            begun = _CUT_OBJECT.match(raw)
            return self.resolve_name(begun["name"]) if begun else ""
        problems = (decoded.problem, *(call.problem for call in decoded.calls))
        if not any(problem.endswith(STANDS_TWICE) for problem in problems):
            return ""
        words = _NAME_WORD.findall(raw[:_HEAD_CHARS])
        return next((name for word in words if (name := self.resolve_name(word))), "")

    def presents_call(self, lead: str) -> bool:
        """Whether the text before a block presents it as an example or a quotation.

        After nothing but blanks the text before the last call counts.
        """
        if not lead.strip() and self._made:
            return self._is_presented
        return is_presentation(lead) or _is_quoted(lead)

    def _is_meant(self, name: str, raw: str, lead: str) -> bool:
        """Whether a block that cannot be read was meant as a call, so that the model is told.

        It names an offered tool, or nearly so, or begins its line, and is not quoted. Otherwise it is about calls.
        """
        if _is_quoted(lead):
            return False
        if self.resolve_name(name) or self._tools.names.mention.search(raw):
            return True
        is_apart = (
            _LINE_START.search(lead) is not None
            or _FRAMED.fullmatch(raw) is not None
            or bool(name and self._tools.find_nearest(name))
        )
        return is_apart and not _TEMPLATE.search(raw)

    def reject_long(self, name: str, raw: str, origin: str, limit: int) -> MalformedCall:
        return self._reject(name, raw, f"The block is longer than {limit} characters.", origin)

    def is_certain(self, name: str, lead: str) -> bool:
        """Whether a block of the tool `name` behind `lead` is a call, if it can be read and is no echo or pattern."""
        if not self._tools.names.is_exact(name) or self._is_broken or self._count >= self._max_calls:
            return False
        if lead.strip() or not self._made:
            return not (is_presentation(lead) or _is_quoted(lead))
        return not self._is_presented

    def _classify_call(
        self, call: RawCall, raw: str, origin: str, decoded: DecodedBlock, explicit: bool, *, is_doubtful: bool
    ) -> Classification:
        tool = self._tools.find(call.name)
        if tool is None:
            return self._reject(call.name, raw, self._explain_unknown(call.name), origin)
        if call.arguments is None:
            return self._reject(tool.name, raw, f"{tool.name}: {call.problem}", origin)
        fitter = Fitter(tool, lenient=explicit)
        try:
            arguments = fitter.fit(call.arguments, list(call.positional))
        except (ArgumentMismatch, RecursionError) as error:
            reason = str(error) if isinstance(error, ArgumentMismatch) else "The arguments are nested too deep."
            return self._reject(tool.name, raw, reason, origin)
        renamed = () if call.name == tool.name else ("name",)
        repaired = (*decoded.repairs, *call.repairs, *renamed, *fitter.changes)
        guessed = is_doubtful or decoded.guessed or self._is_presented or self._is_broken
        guessed = guessed or not GUESSES.isdisjoint(repaired)
        guessed = guessed or bool(renamed and not self._tools.names.is_exact(call.name))
        made = ToolCall(self._take_id(), tool.name, arguments, origin, repaired, guessed=guessed)
        if self._given:
            sought, names = SoughtCall(made, raw), self._tools.names
            if any(text.holds_call(sought, names, self._new_parser) for text in self._given):
                return replace(made, echo=True)
        return made

    def _count_calls(self, calls: list[Classification], raw: str) -> list[Classification]:
        free = max(0, self._max_calls - self._count)
        self._count += len(calls)
        if len(calls) <= free:
            return calls
        reason = f"More than {self._max_calls} calls in one answer: nothing from here on was read."
        return calls[:free] + [MalformedCall(each.id, each.name, raw, reason, each.origin) for each in calls[free:]]

    @property
    def is_full(self) -> bool:
        """Whether there were more calls and malformed calls than one answer may hold."""
        return self._count > self._max_calls

    def _reject(self, name: str, raw: str, reason: str, origin: str) -> MalformedCall:
        return MalformedCall(self._take_id(), name, raw, reason, origin)

    def _explain_unknown(self, name: str) -> str:
        near = self._tools.find_nearest(name) or list(self._tools.tools)[:8]
        offered = ", ".join(near) or "none"
        return f"There is no tool named '{name[:80]}'; on offer: {offered}."

    def _is_pattern(self, call: RawCall, to_fill_in: list[bool], explicit: bool) -> bool:
        """Whether a call is a pattern to fill in: with placeholders for its name or arguments, or with their types."""
        tool, arguments = self._tools.find(call.name), call.arguments or {}
        if tool is None and _is_placeholder_name(call.name):
            return True
        if any(to_fill_in):
            return all(to_fill_in) or not explicit
        if call.positional or not tool or not all(map(_is_schema, arguments.values())):
            return False
        return not tool.scalar_types.keys().isdisjoint(arguments)  # schemas of its parameters in place of values


def is_presentation(lead: str) -> bool:
    """Whether the sentence that a call follows presents it as an example, or as a quotation.

    A sentence that tells what the model is about to do presents a call only with the words of an example.
    """
    text = lead.rstrip(" \t\r\n`*_>-").removesuffix("json").rstrip(" \t\r\n`*_>-")
    if text.endswith((".", "!", "?")) and not text.endswith("e.g."):
        return False
    sentence = _SENTENCE_END.split(text)[-1].lower()
    return bool(_EXAMPLE.search(sentence) or (_QUOTATION.search(sentence) and not _INTENTION.match(sentence)))


def _is_quoted(lead: str) -> bool:
    """Whether a quote opens before the block, behind other text."""
    return lead[-1:] in _QUOTES and bool(lead[:-1].strip())


def make_id_source() -> Callable[[], str]:
    """A source of ids for calls that came without one; every source counts from 1.

    Nine digits: every server and chat template accepts them.
    """
    counter = itertools.count(1)
    return lambda: f"{next(counter):09d}"


def _find_placeholders(call: RawCall) -> list[bool]:
    """Whether each argument is a placeholder."""
    arguments = call.arguments or {}
    named = map(is_placeholder, arguments.values(), arguments)
    return [*named, *map(is_placeholder, call.positional, itertools.repeat(""))]


def _is_placeholder_name(name: str) -> bool:
    bare = _COUNTER.sub("", name.strip("<>[]{}$ \n").casefold().replace("-", "_").replace(" ", "_"))
    return bare in _PLACEHOLDER_NAMES or is_placeholder(name, "") or (name[:1] == "<" and name[-1:] == ">")


def is_placeholder(value: Node, name: str) -> bool:
    """Whether the value of the parameter `name` is to be filled in: `...`, `<name>`, `YOUR_NAME`, `<your name>`."""
    if not isinstance(value, str):
        return False
    return value == f"<{name}>" or _FILL_IN.fullmatch(value) is not None


def _is_schema(value: Node) -> bool:
    return isinstance(value, dict) and value.get("type") in _TYPE_NAMES.split("|") and value.keys() <= _SCHEMA_KEYS
