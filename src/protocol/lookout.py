"""Whether a block begins at a character of prose: none, not yet to be told, or found.

What is asked depends on the character; what stands before it (a name, `TOOL_CALL`) is part of the block and was
held back by `held`, which is the same look backwards from the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Union

from . import heads
from .heads import Found
from .tape import LOOK_BACK
from .toolbox import Toolbox

ANCHORS = "<{[(`:>"
ANCHOR = re.compile(r"<(?=[|｜/a-zA-Z\[\]\s]|\Z)|\{(?=\s*[\"'\w“‘{}]|\s*\Z)|\[|\((?<=[\w)]\()|`|:|>(?=>>|>?\Z)")

_OWN = re.compile(
    r"(?<![^\W_])\**T(?:O(?:O(?:L(?:[ _-]?(?:C(?:A(?:L(?:L(?:S?[:*`\s]{0,24})?)?)?)?)?)?)?)?)?\Z", re.IGNORECASE
)
_OWN_LEAD = re.compile(r"(?<![^\W_])\**TOOL[ _-]?CALLS?[*`\s]{0,24}\Z", re.IGNORECASE)
_WORD = re.compile(r"(?:@|>{1,3})?\**`?([^\W\d][\w.\\/:$-]{0,80})([`*\"']{0,4}(?::\**)?)(\s{0,16})\Z")
_HARMONY_LEAD = re.compile(
    r"(?:assistant)?(?:commentary|analysis|final)?\s{0,4}to=([\w.:-]{1,80})\s{0,4}(?:code|json|commentary)?\s{0,4}\Z"
)
_HARMONY = re.compile(
    r"(?<!\w)(?:assistant)?(?:commentary|analysis|final)?\s{0,4}to=[\w.:-]{0,80}\s{0,4}[a-z]{0,10}\s{0,4}\Z"
)
_CHANNELS = ("assistantcommentary", "assistantanalysis", "assistant", "commentary", "analysis", "final")
_CHANNEL = re.compile(r"(?<!\w)(?:" + "|".join(_CHANNELS) + r")\s{1,4}t?o?\Z")
_LINE_START = re.compile(r"[\s>*+\-#$`\d.)(\[\]]*(?:(?:\w+\s*=|print\(|await|return|call:?)\s*)?")
_AFTER_COLON = re.compile(r".*(?::|=|->|→|=>)\s*[`*\"'(\[]*\s*", re.DOTALL)
_LABELS = frozenset(
    ("action", "tool", "name", "function", "tool_name", "function_name", "tool name", "function name", "function call")
)
_KEYWORDS = frozenset((*_LABELS, *_CHANNELS, "to", "functools", "call", "observation"))


class Here(NamedTuple):
    """An anchor in a text; nothing before `floor` can be part of a block, `line` is the anchor's line so far."""

    text: str
    at: int
    floor: int
    line: str


class Hold(NamedTuple):
    """It cannot be told yet; the text from `start` on is held back."""

    start: int


Sight = Union[Found, Hold, None]


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

    def look(self, text: str, at: int, floor: int, line: str) -> Sight:
        """What begins at the anchor `at`; nothing before `floor` can be part of it, `line` is its line so far."""
        return self._kinds[text[at]](Here(text, at, floor, line))

    def held(self, text: str, floor: int) -> int:
        """Where the end of `text` begins that may belong to a block still to come."""
        start, end, last = max(floor, len(text) - LOOK_BACK), len(text), text[-1:]
        if not (last.isalnum() or last in "_.\\/:$*`\"'@>=]- \n\t\r"):
            return end
        if begun := _OWN.search(text, start) or _CHANNEL.search(text, max(start, end - 30)):
            return begun.start()
        if text.find("to=", start) >= 0 and (begun := _HARMONY.search(text, start)):
            return begun.start()
        if last in "]@>*`":
            return max(floor, end - min(end - len(text.rstrip(last)), 3))
        word = self._word(text, end, start)
        return word.start() if word and self._may_begin(word) else end

    def _may_begin(self, word: re.Match[str]) -> bool:
        name, mark, gap = word.groups()
        bare = name.rstrip(":")
        if gap or mark or bare != name:
            return self._box.find(bare) is not None or bare.casefold() in _KEYWORDS
        return self._box.may_begin(bare) or any(key.startswith(bare.casefold()) for key in _KEYWORDS)

    def _word(self, text: str, end: int, start: int) -> re.Match[str] | None:
        """The last word before `end`, with what decorates it and the gap after it."""
        solid = end
        while solid > start and text[solid - 1].isspace() and end - solid < 17:
            solid -= 1
        begin = solid
        while begin > start and not text[begin - 1].isspace() and solid - begin < 90:
            begin -= 1
        return _WORD.search(text, begin, end)

    def _angle(self, here: Here) -> Sight:
        text, at, floor, line = here
        start = at - 1 if at > floor and text[at - 1] == "]" and text[at + 1 : at + 2] in "]" else at
        matcher = heads.strong()
        if match := matcher.match(text, start):
            return self._opened(match)
        if matcher.begun(text, start):
            return Hold(start)
        if match := heads.element().match(text, at):
            tool = self._box.tools.get(match["name"])
            return Found(at, match.end(), "element", "", match["name"], False) if tool and _starts_line(line) else None
        if heads.element().begun(text, at) and self._box.may_begin(text[at + 1 :]):
            return Hold(at)
        return None

    def _opened(self, match: re.Match[str]) -> Sight:
        """The body that follows wrapping markers. A bare name there must be a tool's, or it is prose."""
        groups = match.groupdict()
        run = groups.get("run") or ""
        if groups.get("alone"):
            opener = "<invoke" if "invoke" in match[0] else match[0].rstrip("\"'>")
            return Found(match.start(), match.start(), "tags", opener)
        if groups.get("json"):
            return Found(match.start(), match.end() - 1, "json", run)
        if groups.get("tags"):
            return Found(match.start(), match.start("tags"), "tags", run)
        for kind, group in (("pairs", "name"), ("empty", "empty_name")):
            if groups.get(kind):
                known = kind == "pairs" or self._box.find(groups[group]) is not None
                return Found(match.start(), match.start(group), kind, run, groups[group]) if known else None
        return self._named(match, run)

    def _named(self, match: re.Match[str], run: str) -> Sight:
        name, bracket = match["called"], match["bracket"]
        asks = (bracket == "{" and "[TOOL_CALLS]" not in run) or self._box.find(name) is not None
        kind = "named" if bracket == "{" else "pythonic"
        return Found(match.start(), match.end() - 1, kind, run, name) if asks else None

    def _brace(self, here: Here) -> Sight:
        text, at, floor, line = here
        window = max(floor, at - LOOK_BACK)
        if own := _OWN_LEAD.search(text, window, at):
            return Found(own.start(), at, "json", "TOOL_CALL:")
        if to := _HARMONY_LEAD.search(text, window, at):
            return Found(to.start(), at, "named", "<|channel|>", to[1])
        word = self._word(text, at, window)
        if word and (found := self._led(text, at, word, line)):
            return found
        return self._object(text, at, at)

    def _led(self, text: str, at: int, word: re.Match[str], line: str) -> Sight:
        """A name, then its arguments as an object."""
        name = word[1].rstrip(":")
        if text[word.start()] == "@" or not self._box.find(name):
            return None
        before = line[: len(line) - (at - word.start())] if "\n" not in text[word.start() : at] else ""
        if not (word[3] or word[2] or not before.strip() or before.rstrip()[-1:] in "`>.:"):
            return None
        return Found(word.start(), at, "named", "", name, False)

    def _object(self, text: str, at: int, start: int) -> Sight:
        """An object that says a call: its first key is one of a call's, or a tool's name."""
        key = heads.object_key().match(text, at)
        if not key:
            return Hold(start) if heads.object_key().begun(text, at) else None
        body = key.start() + key[0].startswith("{{")
        if not heads.says_call(key["key"]) and not self._box.find(key["key"]):
            return None
        if heads.says_name(key["key"]):
            value = heads.object_name().match(text, at)
            if value and not self._box.find(value["value"]) and "(" not in value["value"]:
                return None
            if not value and heads.object_name().begun(text, at):
                return Hold(start)
        return Found(start, body if start == at else start, "json", "", asks=False)

    def _bracket(self, here: Here) -> Sight:
        text, at, floor, _ = here
        window = max(floor, at - LOOK_BACK)
        if own := _OWN_LEAD.search(text, window, at):
            return Found(own.start(), at, "json", "TOOL_CALL:")
        if text.startswith("functools", max(window, at - 9)) and at - 9 >= floor:
            return Found(at - 9, at, "json", "functools")
        matcher = heads.strong()
        if match := matcher.match(text, at):
            return self._opened(match)
        if matcher.begun(text, at):
            return Hold(at)
        return self._list(text, at)

    def _list(self, text: str, at: int) -> Sight:
        match = heads.listed().match(text, at)
        if not match:
            begun = heads.listed().begun(text, at)
            name = text[at + 1 :].lstrip(" \n\t\r[(\"'“‘`")
            return Hold(at) if begun and (len(text) - at < 20 or self._box.may_begin(name)) else None
        if match["object"]:
            inner = self._object(text, match.start("object"), at)
            return inner._replace(body=at) if isinstance(inner, Found) else inner
        if not self._box.find(match["name"]):
            return None
        return Found(at, at, "pythonic", "", asks=False)

    def _parenthesis(self, here: Here) -> Sight:
        text, at, floor, line = here
        word = self._word(text, at, max(floor, at - LOOK_BACK))
        if not word or word[3] or word[2]:
            return None
        name = word[1]
        if text[word.start()] == "@":
            if match := heads.numbered().match(text, at):
                return Found(word.start(), match.end() - 1, "named", "@", name)
            return Hold(word.start()) if heads.numbered().begun(text, at) else None
        if not self._box.find(name):
            return None
        before = line[: len(line) - (at - word.start(1))]
        if not (_LINE_START.fullmatch(before) or _AFTER_COLON.fullmatch(before)):
            return None
        return Found(word.start(1), at, "pythonic", "", name, asks=False, alone=True)

    def _backtick(self, here: Here) -> Sight:
        """A fence or a quoting backtick whose first content is a block belongs to the block."""
        text, at, _, line = here
        solid = at + len(text[at : at + 4]) - len(text[at : at + 4].lstrip("`"))
        if text[solid : solid + 1].isalpha() and solid - at == 3:
            direct = heads.fenced_word().match(text, solid)
            if direct and direct["mark"] in "({" and self._box.find(direct["name"]):
                inner = self._fenced(text, solid)
                if isinstance(inner, Found):
                    return inner._replace(start=at, alone=False)
        match = heads.fence().match(text, at)
        if not match:
            return Hold(at) if heads.fence().begun(text, at) else None
        first = match.start("first")
        inner = self.look(text, first, first, "") if match["first"] in "<{[" else self._fenced(text, first)
        quoted = not text.startswith("``", at) and not _starts_line(line)
        if inner is None or (quoted and not isinstance(inner, Hold)):
            return None
        return Hold(at) if isinstance(inner, Hold) else inner._replace(start=at, alone=False)

    def _fenced(self, text: str, at: int) -> Sight:
        matcher = heads.fenced_word()
        if match := matcher.match(text, at):
            mark = match.end() - 1
            if match["mark"] == ":":
                return self._colon(Here(text, mark, at, ""))
            return self.look(text, mark, match.start("name"), text[at:mark])
        if matcher.begun(text, at):
            return Hold(at)
        return None

    def _colon(self, here: Here) -> Sight:
        text, at, floor, line = here
        window = max(floor, at - LOOK_BACK)
        if own := _OWN_LEAD.search(text, window, at):
            return self._own(text, at, own.start())
        word = self._word(text, at, window)
        if not word or word[1].casefold() not in _LABELS:
            return None
        start = word.start()
        if not _LINE_START.fullmatch(line[: len(line) - (at - start)]):
            return None
        if word[1] == "TOOL_NAME":
            return Found(start, start, "arguments", "TOOL_NAME:")
        return self._labelled(text, word.start(1), start)

    def _own(self, text: str, at: int, start: int) -> Sight:
        matcher = heads.own()
        match = matcher.match(text, at)
        if not match:
            return Hold(start) if matcher.begun(text, at) else None
        if match["json"]:
            return Found(start, match.end() - 1, "json", "TOOL_CALL:")
        found = self._named(match, "TOOL_CALL:")
        return found._replace(start=start) if isinstance(found, Found) and self._box.find(found.name) else None

    def _labelled(self, text: str, at: int, start: int) -> Sight:
        for matcher in (heads.labelled(), heads.action_object()):
            if match := matcher.match(text, at):
                groups = match.groupdict()
                name = groups.get("name") or ""
                action = text[at : at + 6].casefold() == "action"
                if not action and not self._box.find(name):
                    return None
                if groups.get("json"):
                    return Found(
                        start, match.end() - 1, "named" if name else "json", "Action:", name, action and bool(name)
                    )
                return Found(start, match.start("line"), "labels", "Action:", name, action) if action else None
        begun = heads.labelled().begun(text, at) or heads.action_object().begun(text, at)
        return Hold(start) if begun else None

    def _chevron(self, here: Here) -> Sight:
        text, at, _, line = here
        matcher = heads.chevrons()
        match = matcher.match(text, at)
        if not match:
            return Hold(at) if matcher.begun(text, at) else None
        if not self._box.find(match["name"]) or not _starts_line(line):
            return None
        return Found(
            at, match.end() - 1, "named" if match["bracket"] == "{" else "pythonic", ">>>", match["name"], False
        )


def _starts_line(line: str) -> bool:
    return _LINE_START.fullmatch(line) is not None
