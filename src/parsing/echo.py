"""Whether a call only repeats one that the model was given: in a message, a file, or any other result.

Both are compared as calls, in whatever format the given one is written: the tool's name and every value of the
arguments stand close together, and between them only markup, labels and the names of parameters. What formats change
is removed from both sides first: quotes, escapes, entities, whitespace, `./` before a path, the numbers of lines.
A given text is prepared once, when a call is first looked for in it, however many turns follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..types.lazy_pattern import LazyPattern
from ..types.messages import JSON

_MIN_ECHO_CHARS = 12  # of a call with its markup; less is found in any text
_MAX_TRIALS = 20_000  # places in one text; a text that needs more is hostile, and the call counts as an echo
_MARKUP_CHARS = 200  # around a call
_ARGUMENT_CHARS = 80  # of markup for each argument
_LINE_PREFIX = LazyPattern(r"^(?:(?:[^\s:]{0,200}[:-])?[ \t]*\d{1,7}(?:[\t:|-]|→)|[>+#-]|//)[ \t]?", re.MULTILINE)
_UNICODE = LazyPattern(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_BLANKS = {"n": "\n", "r": "\r", "t": "\t"}
_HERE = LazyPattern(r"(?<![\w.])\./")
_QUOTES = str.maketrans("", "", "\"'`“”‘’\\")
_PROSE_WORD = LazyPattern(r"(?<![<|｜/{\[▁\w])[^\W\d]\w*\b(?! ?[=:>|｜\[(▁])")  # neither markup nor a label
_SYNTAX = LazyPattern(r"[({\[<]|\w[ ]?[=:]")
_LABELS = frozenset(
    ("name", "tool", "tool_name", "function", "type", "call", "calls", "tool_call", "action", "input", "args",
     "arguments", "argument", "parameters", "parameter", "string", "object", "true", "false", "null", "none", "json")
)  # fmt: skip


class GivenText:
    """A text that the model was given. `is_user`: of the user's, in which only a call as it stands there counts."""

    __slots__ = ("_is_user", "_plain", "_text")

    def __init__(self, text: str, *, is_user: bool = False) -> None:
        self._text = text
        self._is_user = is_user
        self._plain: tuple[str, ...] = ()

    def holds_call(self, call: SoughtCall) -> bool:
        """Whether the call stands in the text, or the block that it came in."""
        if call.name_part not in self._text:
            return False
        if self._is_user:
            self._plain = self._plain or ("".join(self._text.split()),)
            return len(call.written) >= _MIN_ECHO_CHARS and call.written in self._plain[0]
        plain_texts = self._simplify()
        if len(call.block) >= _MIN_ECHO_CHARS and any(call.block in plain for plain in plain_texts):
            return True
        if not call.has_values:
            return any(_holds_bare_call(plain, call.name) for plain in plain_texts)
        return any(
            _holds_values(plain, call.name, each, call.arguments) for plain in plain_texts for each in call.variants
        )

    def may_hold(self, beginning: str) -> bool:
        """Whether a call may stand in the text that has a string which begins so."""
        if self._is_user:
            return True
        variants = simplify(beginning), simplify(_LINE_PREFIX.sub("", beginning))
        return any(variant in plain for variant in variants for plain in self._simplify())

    def _simplify(self) -> tuple[str, ...]:
        if not self._plain:
            lines = _unescape(self._text)  # of a result that is no text they are escaped
            self._plain = tuple({simplify(self._text): None, simplify(_LINE_PREFIX.sub("", lines)): None})
        return self._plain


class SoughtCall:
    """A call of the tool `name` that is looked for in given texts, in the form in which they are compared.

    `raw`: the block that it came in.
    """

    def __init__(self, name: str, arguments: Mapping[str, JSON], raw: str) -> None:
        self.name = simplify(name)
        self.name_part = max(re.split(r"[\W_]+", name), key=len)  # stands in every text that holds the call
        self.block = simplify(raw)
        self.written = "".join(raw.split())
        self.arguments = arguments
        leaves = list(_iter_leaves(arguments))
        variants = [[simplify(leaf) for leaf in leaves], [simplify(_LINE_PREFIX.sub("", leaf)) for leaf in leaves]]
        values = [sorted(filter(None, each), key=len, reverse=True) for each in variants]
        self.has_values = bool(leaves)
        self.variants = [each for number, each in enumerate(values) if each and each not in values[:number]]


def simplify(text: str) -> str:
    """The text without what quoting, escaping and layout change."""
    if "&" in text:
        import html  # start-up is measured

        text = html.unescape(text)
    text = _unescape(text)
    if "./" in text:
        text = _HERE.sub("", text)
    return " ".join(text.translate(_QUOTES).split())


def _unescape(text: str) -> str:
    """The text with the characters that its backslashes stand for, however often it was encoded."""
    if "\\" not in text:
        return text
    text = _UNICODE.sub(lambda match: chr(int(match[1] or match[2], 16)), re.sub(r"\\+", r"\\", text))
    return re.sub(r"\\[nrt]", lambda match: _BLANKS[match[0][1]], text)


def _iter_leaves(value: JSON | Mapping[str, JSON]) -> Iterator[str]:
    """The strings and numbers in a value."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _iter_leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _iter_leaves(each)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield repr(value)


def _holds_bare_call(text: str, name: str) -> bool:
    """Whether a call without arguments stands in the text."""
    bare = re.escape(name)
    return re.search(rf"(?:name|tool|function|action) ?[:=] ?{bare}\b|(?<!\w){bare} ?\(|<{bare} ?/?>", text) is not None


def _holds_values(text: str, name: str, values: list[str], arguments: Mapping[str, JSON]) -> bool:
    """Whether the name and the values, longest first, stand in the text as a call does."""
    if name not in text or any(value not in text for value in values):
        return False
    anchor = name if text.count(name) <= text.count(values[0]) else values[0]
    reach = sum(map(len, values)) + len(name) + _MARKUP_CHARS + _ARGUMENT_CHARS * len(values)
    known = _LABELS | {word.casefold() for key in arguments for word in (key, *key.split("_"))}
    at = text.find(anchor)
    for _ in range(_MAX_TRIALS):
        if at < 0:
            return False
        window = text[max(0, at - reach) : at + len(anchor) + reach]
        if _is_call(window, min(at, reach), anchor, name, values, known):
            return True
        at = text.find(anchor, at + 1)
    return True


def _is_call(text: str, at: int, anchor: str, name: str, values: list[str], known: frozenset[str]) -> bool:
    """Whether there is a call around the `anchor` at `at`: its name first, or its arguments first."""
    places = [at] if anchor == name else [text.rfind(name, 0, at), text.find(name, at + len(anchor))]
    for place in places:
        end = place + len(name)
        if place < 0 or text[place - 1 : place].isalnum() or text[end : end + 1].isalnum() or text[end:][:1] == "_":
            continue
        after = _remove_values(text[end:], values)
        before = _remove_values(text[:place][::-1], [value[::-1] for value in values])
        if after is not None and _is_markup(after, known):
            return True
        if before is not None and _is_markup(before[::-1], known):
            return True
    return False


def _remove_values(text: str, values: list[str]) -> str | None:
    """The text up to the last of the values, without them; None if one is missing. Each stands at a word's borders."""
    taken: list[tuple[int, int]] = []
    for value in values:
        pattern = rf"(?<!\w){re.escape(value)}" if value[:1].isalnum() else re.escape(value)
        pattern += r"(?!\w)" if value[-1:].isalnum() else ""
        found = (match.span() for match in re.finditer(pattern, text))
        span = next((span for span in found if all(span[1] <= low or span[0] >= high for low, high in taken)), None)
        if span is None:
            return None
        taken.append(span)
    taken.sort()
    starts = [0, *(high for _, high in taken)]
    return "\0".join(text[start:low] for start, (low, _) in zip(starts, taken, strict=False))


def _is_markup(text: str, known: frozenset[str]) -> bool:
    """Whether the text has the syntax of a call, and no words but labels and names."""
    return _SYNTAX.search(text) is not None and all(word.casefold() in known for word in _PROSE_WORD.findall(text))
