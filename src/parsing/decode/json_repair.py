"""Broken JSON, Python literals and calls into values: text in, nodes out. No I/O, linear, bounded depth.

Strict JSON is tried before (call_shapes.py), and what it accepts is never changed. RepairReader reads the union of
JSON, Python and JavaScript literals in one pass and notes each repair: quotes, escapes, keys, commas, comments,
closers. If quotes inside a string are not escaped, the string ends at the first quote that is followed by what may
follow a string in that place. Text that cannot be read raises UnreadableValue with a sentence for the model.
"""

from __future__ import annotations

import re

from ...types.lazy_pattern import LazyPattern
from .nodes import CallNode, Guess, Node, Pair, Source, UnreadableValue, put
from .scalars import eval_constant, unescape

MAX_DEPTH = 100
MISSING_CLOSERS = "missing closers"
_INNER_QUOTES = Guess("quotes inside a string")
_UNQUOTED_TEXT = Guess("unquoted text")
_NO_TEXT = Guess("no text behind a key")
MAX_STRAY_QUOTES = 2_000  # in one string, that are not escaped

_SKIP = LazyPattern(
    r"(?:\s+|\\[nrt](?![\w])|//[^\n]*|#[^\n]*|/\*.*?\*/|<\|[a-z_]{2,24}\|>|```(?:\w{0,16}\s|(?=\s*[,}\])]|\Z)))+",
    re.DOTALL,
)
_NUMBER = LazyPattern(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?=\s*(?:[,;}\])\n#]|//(?!\d)|/\*|\\n|<\||\Z)|\s+\"[\w.-]{1,64}\"\s*:)"
)
_WORD = LazyPattern(r"(?P<name>[^\W\d][\w.]*(?:\\_[\w.]*|-[^\W\d][\w.]*)*)")
_QUOTED_NAME = LazyPattern(r"""["'`](?P<name>[^\W\d][\w.]{0,80})["'`]\s?(?=\()""")
_STRING_START = LazyPattern(r"""(?:[rbfuRBFU]{1,2}(?=["']))?(\"\"\"|'''|<\|"\|>|<\|\\"\|>|<escape>|\\"|["'`“”‘’])""")
_KEYWORD = LazyPattern(r"""\s*(?:([\w.\\$-]+)|"([^"\n]{1,64})"|'([^'\n]{1,64})')\s*(?:=(?![=])|:)\s*""")
_BARE_KEY = LazyPattern(r"[^\s:=,{}\[\]\"'][^:=,{}\[\]\"'\n]{0,63}?(?=\s*(?::|=>?))")
_BARE = LazyPattern(r"[^,;()\[\]{}\"'\n<]+|<(?!\||/|escape>)")
_COLON = LazyPattern(r"\s*(?:=>|[:=])\s*")

_CLOSERS = {"“": '”“"', "”": '”“"', "‘": "’‘'", "’": "’‘'"}
_LIST_CLOSERS = {"[": "]", "(": ")"}
_LITERALS: dict[str, Node] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "None", "nil", "undefined", "NULL"), None),
}
_NO_VALUE = frozenset(("NaN", "nan", "Infinity", "inf", "Inf"))

# What may follow the quote that ends a string, by where the string stands; unescaped code has much of it.
_GAP = r"\s*(?:(?:\\n|(?://|\#)[^\n]{0,400}\n)\s*){0,8}"
_QUOTED_KEY = r"""(?:"[^"\n]{0,64}"|'[^'\n]{0,64}'|[“‘][^”’\n]{0,64}[”’])\s*:"""
_NEXT_KEY = r"""(?:"[^"\n]{0,64}"|'[^'\n]{0,64}'|[“‘][^”’\n]{0,64}[”’]|[\w.\\$-]{1,64})\s*(?::|=)"""
# Behind a bare value: the next member, with the separator that the one before it has, in code that is a value. In a
# signature an optional parameter has a question mark.
_NEXT_MEMBER = {
    separator: LazyPattern(
        rf"(?:,|\n(?=[ \t]*[^\s])){_GAP}(?:[}})\]]|\Z|(?:{_QUOTED_KEY}|[^\W\d][\w.\\$-]{{0,63}}\??\s*{separator}))"
    )
    for separator in (":", "=")
}
_AFTER_ARGUMENT = LazyPattern(r"\s*(?:[,;]|[)}\]][)}\]\s]{0,64}(?![\"'`\w)}\]\s])|<\||</|\Z|\n|\#|[+*%])")
_AFTER = {
    "key": LazyPattern(r"\s*(?::|=)"),
    "pair": LazyPattern(
        rf"{_GAP}(?:\}}|\](?=\s*(?:[}}\],<]|\Z))|<\||</|\Z|,{_GAP}(?:[}}\]]|\Z|{_NEXT_KEY})|;{_GAP}(?:[}}\]]|{_QUOTED_KEY}))"
        rf"|\s*\n\s*(?:{_QUOTED_KEY}|[\w$-]{{1,64}}\s*:)|\s+\"[\w.-]{{1,64}}\"\s*:"
    ),
    "item": LazyPattern(r"\s*(?:[,;}\])]|\\n|<\||</|\Z|\n|//|\#)"),
    **dict.fromkeys(("argument", "keyword"), _AFTER_ARGUMENT),
    "top": LazyPattern(r"\s*(?:\Z|[,;}\])]|<|\n)"),
}
_AFTER_LONG = LazyPattern(r"\s*(?:[,}\])<\\;]|\Z)")
_MEMBER = LazyPattern(
    r"""[\s,]*(?:"([^"'\\\n<]{1,64})"|'([^"'\\\n<]{1,64})'|([A-Za-z_]\w{0,63}))\s*:\s*"""
    r"""(?:"([^"\\\x00-\x1f]*)"|'([^'\\\x00-\x1f]*)'|(-?\d{1,15}(?:\.\d{1,15})?)|(true|false|null|True|False|None))"""
    rf"(?=\s*(?:\}}|,\s*(?:[}}\]]|{_NEXT_KEY})))"
)
_BODY_OF: dict[str, LazyPattern] = {
    quote: LazyPattern(rf"[^{quote}\\]*(?:\\.[^{quote}\\]*)*", re.DOTALL) for quote in ('"', "'", "`", '”“"', "’‘'")
}


class RepairReader:
    """Reads nodes from `text`, from `position` on.

    `repairs` names what was wrong, as an ordered set; `unclosed` holds the containers that the text ended in.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.repairs: dict[str, None] = {}
        self.unclosed: list[object] = []
        self._depth = 0
        self._separator = ":"  # behind the last key

    def read_value(self, place: str = "top") -> Node:
        """The value at the position, which has at least one character. Raises UnreadableValue.

        `place`, a key of _AFTER, is where the value stands.
        """
        self.skip_space()
        text, position = self.text, self.position
        character = text[position : position + 1]
        if character == "{":
            return self._read_object()
        if closer := _LIST_CLOSERS.get(character):
            return self._read_list(closer)
        if quoted := _QUOTED_NAME.match(text, position):
            return self._read_call(quoted)
        if start := _STRING_START.match(text, position):
            return self._read_string(start, place)
        if number := _NUMBER.match(text, position):
            return self._read_number(number)
        return self._read_word(place)

    def skip_space(self) -> None:
        """Skips whitespace, comments and special tokens; notes the last two."""
        if match := _SKIP.match(self.text, self.position):
            self.position = match.end()
            if not match.group().isspace():
                self.repairs["comments or stray tokens"] = None

    def pass_separators(self) -> bool:
        """Passes separators and the space around them; whether one stood there."""
        self.skip_space()
        start = self.position
        while self.is_at(",;"):
            self.position += 1
            self.skip_space()
        return self.position > start

    def is_at(self, characters: str) -> bool:
        return self.text[self.position : self.position + 1] in characters and self.position < len(self.text)

    def _enter(self, container: object) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableValue(f"The value is nested more than {MAX_DEPTH} deep.")
        self.position += 1
        self.unclosed.append(container)

    def _has_more(self, closer: str) -> bool:
        """Whether another element follows; passes separators, and the closer if there is one."""
        if self.pass_separators() and self.is_at(closer):
            self.repairs["trailing comma"] = None
        if self.position >= len(self.text):
            self.repairs[MISSING_CLOSERS] = None
            return False
        if not self.is_at("}])"):
            return True
        if self.is_at(closer):
            self.position += 1
        else:  # the closer of an outer container: this one's is missing
            self.repairs[MISSING_CLOSERS] = None
        self.unclosed.pop()
        self._depth -= 1
        return False

    def _read_object(self) -> Node:
        result: dict[str, Node] = {}
        members: list[Node] = []
        self._enter(result)
        self._read_simple_members(result)
        while self._has_more("}"):
            key = self._read_key()
            if key is None:
                members.append(self.read_value("item"))  # a Python set
                self.repairs["set"] = None
                continue
            value: Node = ""
            self.skip_space()
            if self.is_at(",}") and "unquoted keys" in self.repairs:  # models that write such keys write no empty text
                self.repairs[_NO_TEXT] = None
            else:
                value = self.read_value("pair")
            put(result, key, value)
            self._read_simple_members(result)
        if members and result:
            raise UnreadableValue("Some of it is neither a key nor its value: are the quotes inside a string escaped?")
        return members or result

    def _read_simple_members(self, result: dict[str, Node]) -> None:
        """Members with a simple value, each read in one match."""
        text, position, value = self.text, self.position, None  # type: tuple[str, int, Node]
        while member := _MEMBER.match(text, position):
            double, single, bare, string, quoted, number, word = member.groups()
            if word is not None:
                value = self._read_literal(word)
            elif number is not None:
                value = _parse_number(number)
            else:
                value = string or quoted or ""
            if bare is not None:
                self.repairs["unquoted keys"] = None
            if single is not None or quoted is not None:
                self.repairs["quotes"] = None
            put(result, double or single or bare, value)
            position = member.end()
        self.position = position

    def _read_literal(self, word: str) -> Node:
        if word not in ("true", "false", "null"):
            self.repairs["literals"] = None
        return _LITERALS[word]

    def _read_key(self) -> str | None:
        text, start = self.text, self.position
        if quote := _STRING_START.match(text, start):
            try:
                key = self._read_string(quote, "key")
            except UnreadableValue:
                key = None
            colon = _COLON.match(text, self.position)
            if not isinstance(key, str) or not colon:
                self.position = start
                return None
        elif bare := _BARE_KEY.match(text, start):
            key = bare.group()
            self.repairs["unquoted keys"] = None
            colon = _COLON.match(text, bare.end())
        else:
            return None
        assert colon  # noqa: S101 - the key's own pattern looked for it
        self._separator = colon[0].strip()[:1]
        self.position = colon.end()
        return key

    def _read_list(self, closer: str) -> Node:
        result: list[Node] = []
        self._enter(result)
        if closer == ")":
            self.repairs["tuple"] = None
        while self._has_more(closer):
            keyword = _KEYWORD.match(self.text, self.position)
            if keyword and result:  # `["read", path="a"]`
                self.position = keyword.end()
                result.append(Pair({_get_keyword(keyword): self.read_value("item")}))
            else:
                result.append(self.read_value("item"))
        return result

    def _read_string(self, start: re.Match[str], place: str) -> str:
        """The string that `start` opens; it ends at the first quote that may end it in this place."""
        opener, prefix = start.group(1), start.group()[: -len(start.group(1))]
        if opener != '"' or prefix:
            self.repairs["quotes"] = None
        raw, self.position = self._find_string_end(start.end(), _CLOSERS.get(opener, opener), place)
        is_raw = opener[0] == "<" or ("r" in prefix.lower() and len(opener) == 1)
        if is_raw:
            return raw
        return unescape(raw, self.repairs)

    def _find_string_end(self, begin: int, closers: str, place: str) -> tuple[str, int]:
        """The string from `begin` to one of `closers`, and the position behind it."""
        if closers not in _BODY_OF:
            return self._find_long_end(begin, closers, place)
        text, after, stray_quotes = self.text, _AFTER[place], 0
        body, end = _BODY_OF[closers], begin
        while True:
            end = body.match(text, end).end()  # type: ignore[union-attr]  # it matches the empty string, too
            if end >= len(text) or text[end] == "\\":
                raise UnreadableValue("A string is not closed.")
            if after.match(text, end + 1):
                return text[begin:end], end + 1
            self.repairs[_INNER_QUOTES] = None
            end, stray_quotes = end + 1, stray_quotes + 1
            if stray_quotes > MAX_STRAY_QUOTES:
                raise UnreadableValue("Quotes inside a string are not escaped.")

    def _find_long_end(self, begin: int, closer: str, place: str) -> tuple[str, int]:
        """The same for a closer of several characters."""
        text, after = self.text, _AFTER_LONG
        if place == "key":
            after = _AFTER["key"]
        end = text.find(closer, begin)
        while end >= 0 and not after.match(text, end + len(closer)):
            end = text.find(closer, end + len(closer))
        if end < 0:
            raise UnreadableValue("A string is not closed.")
        return text[begin:end], end + len(closer)

    def _read_number(self, match: re.Match[str]) -> Node:
        self.position = match.end()
        digits = match.group().replace("_", "")
        try:
            if "x" in digits or "X" in digits:
                self.repairs["numbers"] = None
                return int(digits, 16)
            return _parse_number(digits)
        except ValueError:
            raise UnreadableValue("A number is too long.") from None

    def _read_word(self, place: str) -> Node:
        word = _WORD.match(self.text, self.position)
        if word and self.text[word.end() : word.end() + 1] == "(":
            return self._read_call(word)
        if word and word.group() in _LITERALS and not _BARE.match(self.text[word.end() : word.end() + 1].strip()):
            self.position = word.end()
            return self._read_literal(word.group())
        return self._read_source(place)

    def _read_call(self, word: re.Match[str]) -> CallNode:
        keywords: dict[str, Node] = {}
        positional: list[Node] = []
        start, self.position = word.start(), word.end()
        self._enter(keywords)
        while self._has_more(")"):
            if keyword := _KEYWORD.match(self.text, self.position):
                self.position, self._separator = keyword.end(), keyword[0].rstrip()[-1]
                put(keywords, _get_keyword(keyword), self.read_value("keyword"))
            else:
                positional.append(self.read_value("argument"))
        return CallNode(word["name"].replace("\\_", "_"), keywords, positional, self.text[start : self.position])

    def _read_source(self, place: str) -> Node:
        """Source text up to the end of the value; the schema decides whether arithmetic is evaluated.

        Behind a name it may hold commas: `city=Paris, France`.
        """
        start = self.position
        self._pass_source(place)
        source = self.text[start : self.position].strip()
        if not source and self.position >= len(self.text):
            raise UnreadableValue("It ends too early.")
        if not source:
            raise UnreadableValue(f"It cannot be read from {self.text[self.position : self.position + 20]!r} on.")
        if source in _NO_VALUE:
            raise UnreadableValue(f"{source} is not a JSON value.")
        self.repairs[_UNQUOTED_TEXT if eval_constant(source) is None else "arithmetic"] = None
        return Source(source)

    def _pass_source(self, place: str) -> None:
        """Moves behind source text: to a comma or a line end outside brackets, or to a bracket that it did not open.

        Behind a key, a comma before what is no key belongs to it: `{at: 10:00, 11:00, who: me}`.
        """
        text, depth = self.text, 0
        is_member, next_member = place in ("pair", "keyword"), _NEXT_MEMBER[self._separator]
        while self.position < len(text):
            if bare := _BARE.match(text, self.position):
                self.position = bare.end()
                continue
            character = text[self.position]
            if character in ",\n" and is_member and not depth and not next_member.match(text, self.position):
                self.position += 1
                continue
            depth += (character in "([{") - (character in ")]}")
            if depth < 0 or (character in ",;\n<" and depth == 0):
                break
            self.position += 1


def read_whole(text: str) -> Node:
    """The value that all of the text is. Raises UnreadableValue."""
    reader = RepairReader(text)
    try:
        value = reader.read_value()
        reader.skip_space()
    except RecursionError:
        raise UnreadableValue("The value is nested too deep.") from None
    if reader.position < len(text) or reader.unclosed:
        raise UnreadableValue("It does not end where its value ends.")
    return value


def _parse_number(digits: str) -> Node:
    """Raises ValueError."""
    if digits.lstrip("+-").isdigit():
        return int(digits)
    return float(digits)


def _get_keyword(match: re.Match[str]) -> str:
    return (match.group(1) or match.group(2) or match.group(3)).replace("\\_", "_")
