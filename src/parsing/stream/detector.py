"""Whether a block begins at a character of prose: none, not yet to be told, or found.

What is asked depends on the character; what stands before it (a name, `TOOL_CALL`) is part of the block and was
held back by `held`, which is the same look backwards from the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Union

from ..arguments.tool_index import Toolbox
from ..decode.call_shapes import CALL_KEYS, NAME_KEYS
from . import openers
from .buffer import LOOK_BACK
from .lookback import TO, Here, Word, in_word, lead, own_lead
from .openers import Found

_HARMONY_LEAD = re.compile(TO + r"([\w.:-]{1,80})\s{0,4}(?:code|json|commentary)?\s{0,4}\Z")
_LINE_START = re.compile(r"[\s\"'>*+\-#$`\d.)(\[\]]*(?:(?:\w+\s*=|print\(|await|return|call:?)\s*)?")
_AFTER_COLON = re.compile(r".*(?::|=|->|→|=>)\s*[`*\"'(\[]*\s*", re.DOTALL)
OWN, _FUNCTOOLS = "TOOL_CALL:", "functools"
_INLINE = re.compile(r"`[^`\n]{1,400}`")
_INLINE_BEGUN = re.compile(r"`[^`\n]{0,400}\Z")
_METHOD = frozenset("\\$-./")  # before a name they make it another's
_GLUED = re.compile(r"[\w.\\/:$-]")  # before a label they make it part of another word
_LABEL = re.compile(
    r"(?<![\w.\\/:$-])\*{0,3}`?(action|(?:tool|function)(?:[ _]name|[ _]call)?|name)[*`\"']{0,4}\Z",
    re.IGNORECASE,
)


class Hold(NamedTuple):
    """It cannot be told yet; the text from `start` on is held back."""

    start: int


class Passed(NamedTuple):
    """Markers that nothing follows: they are text, up to `end`."""

    end: int


Sight = Union[Found, Hold, Passed, None]


class Lookout:
    """Asks the patterns, for the tools in `box`."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._kinds: dict[str, Callable[[Here], Sight]] = {
            "<": self._angle,
            "{": self._brace,
            "[": self._bracket,
            "(": self._parenthesis,
            "`": self._backtick,
            ":": self._colon,
            ">": self._chevron,
        }

    def look(self, here: Here) -> Sight:
        """What begins at the anchor."""
        sight = self._kinds[here.text[here.at]](here)
        if (
            isinstance(sight, Found)
            and here.text[here.at] == "{"
            and not here.text[here.at + 1 : here.at + 67].removeprefix("{").strip()
        ):
            return Hold(sight.start)  # what comes next tells whether the brace opens an object at all
        return sight

    def _angle(self, here: Here) -> Sight:
        text, at, floor, line, _ = here
        start = at - 1 if at > floor and text[at - 1] == "]" and text[at + 1 : at + 2] in "]" else at
        if sight := self._marked(text, start, start):
            return sight
        if match := openers.alone().match(text, start):
            return Found(start, start, "tags", "<invoke" if "invoke" in match[0] else match[0].rstrip("\"'>"))
        if openers.alone().begun(text, start):
            return Hold(start)
        if match := openers.element().match(text, at):
            tool = self._box.tools.get(match["name"])
            return Found(at, match.end(), "element", "", match["name"], False) if tool and _starts_line(line) else None
        if openers.element().begun(text, at) and self._box.may_begin(text[at + 1 : at + 100]):
            return Hold(at)
        return None

    def _marked(self, text: str, at: int, start: int, opener: str = "") -> Sight:
        """Wrapping markers at `at` and the start of a body; markers without a body are prose."""
        run = openers.run().match(text, at)
        body = run.end() if run else at
        if run or opener:
            match = openers.bodies().match(text, body)
            if match and not _may_go_on(match, text):
                return self._opened(match, start, opener or (run[0] if run else ""))
            if match or openers.bodies().begun(text, body):
                return Hold(start)
        if openers.openers().begun(text, body):
            return Hold(start)
        return Passed(body) if run else None

    def _opened(self, match: re.Match[str], start: int, opener: str) -> Sight:
        """The body that follows wrapping markers. A bare name there must be a tool's, or it is prose."""
        groups = match.groupdict()
        if groups["json"]:
            return Found(start, match.end() - 1, "json", opener)
        if groups["tags"]:
            return Found(start, match.start("tags"), "tags", opener)
        for kind, group in (("pairs", "name"), ("empty", "empty_name")):
            if groups[kind]:
                known = kind == "pairs" or self._box.find(groups[group]) is not None
                return Found(start, match.start(group), kind, opener, groups[group]) if known else Passed(match.end())
        name, bracket = match["called"], match["bracket"]
        asks = bracket == "{" and "[TOOL_CALLS]" not in opener and opener != OWN
        if not asks and self._box.find(name) is None:
            return Passed(match.end())
        return Found(start, match.end() - 1, "named" if bracket == "{" else "pythonic", opener, name)

    def _brace(self, here: Here) -> Sight:
        text, at, floor, _, _ = here
        window = max(floor, at - LOOK_BACK)
        if own := own_lead(here):
            return Found(own.start(), at, "json", OWN)
        to = _HARMONY_LEAD.search(text, window, at) if text.find("to=", window, at) >= 0 else None
        if to and not (to.start() == floor and in_word(here.before)):
            return Found(to.start(), at, "named", "<|channel|>", to[1])
        word = lead(self._box, here)
        if word and (found := self._led(here, word)):
            return found
        return self._object(text, at, at)

    def _led(self, here: Here, word: Word) -> Sight:
        """A name, then its arguments as an object."""
        text, at, _, line, _ = here
        if text[word.start] == "@":
            return None
        before = line[: len(line) - (at - word.start)] if "\n" not in text[word.start : at] else ""
        if not (word.gap or word.mark or not before.strip() or before.rstrip()[-1:] in "`>.:"):
            return None
        return Found(word.start, at, "named", "", word.name.rstrip(":"), False)

    def _object(self, text: str, at: int, start: int) -> Sight:
        """An object that says a call: its first key is one of a call's, or a tool's name."""
        key = openers.object_key().match(text, at)
        if not key:
            return Hold(start) if openers.object_key().begun(text, at) else None
        body = key.start() + key[0].startswith("{{")
        if key["key"] not in CALL_KEYS and not self._box.find(key["key"]):
            return None
        if key["key"] in NAME_KEYS:
            value = openers.object_name().match(text, at)
            if value and not self._box.find(value["value"]) and "(" not in value["value"]:
                return None
            if not value and openers.object_name().begun(text, at):
                return Hold(start)
        return Found(start, body if start == at else start, "json", "", asks=False)

    def _bracket(self, here: Here) -> Sight:
        text, at, floor, _, before = here
        own = own_lead(here)
        lead = own.start() if own else at - len(_FUNCTOOLS)
        if own or (
            text.startswith(_FUNCTOOLS, max(lead, floor))
            and lead >= floor
            and not in_word(text[lead - 1] if lead > floor else before)
        ):
            inside = text[at + 1 : at + 66].lstrip()
            if not inside:
                return Hold(lead)
            if inside[0] not in "/!":
                return Found(lead, at, "json", OWN if own else _FUNCTOOLS)
        return self._marked(text, at, at) or self._list(text, at)

    def _list(self, text: str, at: int) -> Sight:
        match = openers.listed().match(text, at)
        if not match:
            begun = openers.listed().begun(text, at)
            name = text[at + 1 : at + 200].lstrip(" \n\t\r[(\"'“‘`")
            return Hold(at) if begun and (len(text) - at < 20 or self._box.may_begin(name)) else None
        if match["object"]:
            inner = self._object(text, match.start("object"), at)
            return inner._replace(body=at) if isinstance(inner, Found) else inner
        if not self._box.find(match["name"]):
            return None
        return Found(at, at, "pythonic", "", asks=False)

    def _parenthesis(self, here: Here) -> Sight:
        text, at, _, line, _ = here
        word = lead(self._box, here)
        if not word or word.gap or word.previous in _METHOD:
            return None
        if word.mark and word.mark != text[word.start : word.begin]:  # what decorates the name stands on both sides
            return None
        if text[word.start] == "@":
            if match := openers.numbered().match(text, at):
                return Found(word.start, match.end() - 1, "named", "@", word.name)
            return Hold(word.start) if openers.numbered().begun(text, at) else None
        before = line[: len(line) - (at - word.begin)]
        if not (_LINE_START.fullmatch(before) or _AFTER_COLON.fullmatch(before)):
            return None
        start = word.start if word.mark else word.begin
        return Found(start, at, "pythonic", "", word.name, asks=False, alone=True)

    def _backtick(self, here: Here) -> Sight:
        """A fence or a quoting backtick whose first content is a block belongs to the block."""
        text, at, _, line, _ = here
        word = (
            lead(self._box, here) if "```".startswith(text[at : at + 3]) else None
        )  # three, or fewer at the text's end
        if word and "\n" in word.gap and (sight := self._named_before_fence(text, at, word)):
            return sight
        inner = self._quoted(text, at)
        quotes = not text.startswith("``", at) and not _starts_line(line)
        if isinstance(inner, Found) and quotes:
            return _inline(text, at)
        if isinstance(inner, Hold):
            return Hold(at)
        return inner._replace(start=at, alone=False) if isinstance(inner, Found) else None

    def _named_before_fence(self, text: str, at: int, word: Word) -> Sight:
        """A name, then its arguments in a fence."""
        match = openers.fence().match(text, at)
        if not match:
            return Hold(word.start) if openers.fence().begun(text, at) else None
        body = match.end() - 1
        return Found(word.start, body, "named", "", word.name.rstrip(":"), False) if text[body] == "{" else None

    def _quoted(self, text: str, at: int) -> Sight:
        """The block that stands first after the backticks: directly, or after a language and a space."""
        ticks = len(text[at : at + 4]) - len(text[at : at + 4].lstrip("`"))
        if sight := self._named_in_fence(text, at + ticks):
            return sight
        match = openers.fence().match(text, at)
        if not match:
            return Hold(at) if openers.fence().begun(text, at) else None
        first = match.end() - 1
        return self.look(Here(text, first, first, "")) if text[first] in "<{[" else self._fenced(text, first)

    def _named_in_fence(self, text: str, at: int) -> Sight:
        """`TOOL_CALL` or a tool's name directly after the backticks, where a fence names its language."""
        own, matcher = openers.own(), openers.fenced_word()
        if match := own.match(text, at):
            return self._own(text, match.end(), at)
        if at < len(text) and own.begun(text, at):
            return Hold(at)
        match = matcher.match(text, at)
        if match and match["mark"] in "({" and self._box.find(match["name"]):
            return self._fenced(text, at)
        if not matcher.begun(text, at):
            return None
        name = text[at : at + 100].rpartition("=")[2].strip().removeprefix("print(").removeprefix("await")
        return Hold(at) if self._box.may_begin(name.strip()) and at < len(text) else None

    def _fenced(self, text: str, at: int) -> Sight:
        """The block whose first word is at `at`."""
        own, matcher = openers.own(), openers.fenced_word()
        if match := own.match(text, at):
            return self._own(text, match.end(), at)
        match = matcher.match(text, at)
        if own.begun(text, at) or ((not match or match["name"] == "print") and matcher.begun(text, at)):
            return Hold(at)
        if match:
            mark = match.start("mark")
            if text[mark] == ":":  # where nothing stands behind it yet, it may be part of the name before a bracket
                begun = len(text) < mark + 10 and not text[mark + 1 :].strip()
                return Hold(at) if begun else self._colon(Here(text, mark, at, ""))
            return self.look(Here(text, mark, match.start("name"), text[at:mark]))
        return None

    def _colon(self, here: Here) -> Sight:
        text, at, floor, _, _ = here
        window = max(floor, at - LOOK_BACK)
        if own := own_lead(here):
            return self._own(text, at, own.start())
        label = _LABEL.search(text, max(window, at - 32), at)
        if not label or (label.start() == floor and _GLUED.match(here.before)):
            return None
        start = label.start()
        if not _LINE_START.fullmatch(here.line[: len(here.line) - (at - start)]):
            return None
        if label[1] == "TOOL_NAME":
            return Found(start, start, "arguments", "TOOL_NAME:")
        return self._labelled(text, label.start(1), start)

    def _own(self, text: str, at: int, start: int) -> Sight:
        """What follows `TOOL_CALL`."""
        gap = openers.gap().match(text, at)
        assert gap  # noqa: S101 - it matches nothing, too
        return self._marked(text, gap.end(), start, OWN)

    def _labelled(self, text: str, at: int, start: int) -> Sight:
        for matcher in (openers.labelled(), openers.action_object()):
            if match := matcher.match(text, at):
                groups = match.groupdict()
                name = groups.get("name") or ""
                action = text[at : at + 6].casefold() == "action"
                if not action and not self._box.find(name):
                    return None
                if groups.get("json") and _may_go_on(match, text):
                    return Hold(start)
                if groups.get("json"):
                    return Found(
                        start, match.end() - 1, "named" if name else "json", "Action:", name, action and bool(name)
                    )
                return Found(start, match.start("line"), "labels", "Action:", name, action) if action else None
        if (match := openers.bracketed().match(text, at)) and self._box.find(match["name"]):
            return Found(start, match.end(), "labels", "Action:", match["name"], False)
        matchers = (openers.labelled(), openers.action_object(), openers.bracketed())
        return Hold(start) if any(matcher.begun(text, at) for matcher in matchers) else None

    def _chevron(self, here: Here) -> Sight:
        text, at, _, line, _ = here
        matcher = openers.chevrons()
        match = matcher.match(text, at)
        if not match:
            return Hold(at) if matcher.begun(text, at) else None
        if not self._box.find(match["name"]) or not _starts_line(line):
            return None
        kind = "named" if match["bracket"] == "{" else "pythonic"
        return Found(at, match.end() - 1, kind, ">>>", match["name"], False)


def _starts_line(line: str) -> bool:
    return _LINE_START.fullmatch(line) is not None


def _inline(text: str, at: int) -> Sight:
    """Past inline code, which quotes; without its end it is none."""
    if code := _INLINE.match(text, at):
        return Passed(code.end())
    return Hold(at) if _INLINE_BEGUN.match(text, at) else None


def _may_go_on(match: re.Match[str], text: str) -> bool:
    """Whether the bracket that seems to open the body may yet begin one more marker."""
    body = match.end() - 1
    return text[body] == "[" and openers.openers().begun(text, body)
