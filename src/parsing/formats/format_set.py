"""The patterns of a table of formats: how a block begins and ends, what wraps it, and which format it is.

All of it is made from the rows, when it is first used: another row needs nothing else. A marker may begin with any
character. Markers in angle brackets may have a namespace, other quotes, and further attributes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from ...types.lazy_pattern import LazyPattern
from ..arguments.tool_index import NameIndex
from ..decode.tag_reader import TagReader
from ..decode.tag_readings import Rank
from ..decode.tag_style import Markers
from ..stream.brackets import TOKEN_QUOTES
from ..stream.openers import (
    ANCHOR,
    ANCHOR_CHARACTERS,
    BLANK,
    FENCE,
    MARKER_ANCHOR,
    MAX_NAME_CHARS,
    NAME,
    NAME_PATTERN,
    OBJECT_IN_STRING,
    OWN_OPENER,
    RESULT_ANCHOR,
    SPACE,
    BlockStart,
    NeedMore,
    await_match,
)
from ..stream.prefix_regex import (
    PrefixMatcher,
    PrefixPattern,
    any_begun,
    any_of,
    any_of_caseless,
    before,
    either,
    group,
    maybe,
    repeat,
    sequence,
    some,
    whole_run,
)
from .envelopes import UNUSUAL_MARKERS
from .row_patterns import (
    MAYBE_NOISE,
    NAMESPACE,
    begin_text,
    cut_lead,
    cut_pair_lead,
    cut_text_opener,
    match_tag,
    number_opener,
    open_element,
)
from .table import FORMATS, Format
from .tag_syntax import CALL_ELEMENTS, ELEMENT, NAME_ELEMENTS, NOISE, TagSyntax

MAX_MARKER_RUN = 64  # wrapping markers in a row
_CHANNELS = ("commentary", "analysis", "final")
_TOKEN = either(sequence("<|", some(r"[\w▁:/ ]", 1, 40), "|>"), sequence("<｜", some(r"[\w▁ ]", 1, 40), "｜>"))
_DECORATED_NAME = sequence(some(r"[^\W\d]", 1, 1), some(r"[\w.:/\\$*`-]", 0, MAX_NAME_CHARS))  # `functions.**read**`
_CALL_ID = sequence("[CALL_ID]", some(r"\w", 1, 32))
_QUOTE = some(r"[\"']", 1, 1)
_KEY = PrefixPattern(r"(?!to=)\w{1,64}", r"\w{0,64}\Z")  # `to=` names a tool
_ATTRIBUTES = sequence(some(r"[ \t]", 1, 4), _KEY, "=", some(r"[^\s=>]", 1, 1))
_ATTRIBUTE = LazyPattern(r"<(\w+)(?: \w+)?=\Z")
_LAST_MARKER = LazyPattern(r"<([^<>]+)>\s*\Z")
_BLANKS = LazyPattern(r"\s+")
_TOKEN_STARTS = ("<|", "<｜")  # of special tokens, which stand in no text
_GRAMMARS = {"empty": "pairs", "element": "tags"}


class FormatSet:
    """The formats of a table.

    `_lone` are the rows whose marker is the beginning of their calls (`<function=`), `_texts` those whose marker stands
    around the name, and `_wrappers` those whose markers stand around any body.
    """

    def __init__(self, rows: Iterable[Format] = FORMATS) -> None:
        self.rows = tuple(rows)
        literal = [row for row in self.rows if row.opener and row.is_literal]
        self._lone = tuple(row for row in self.rows if row.is_lone)
        self._texts = tuple(row for row in literal if row.grammar == "text")
        apart = {row.opener for row in (*self._lone, *self._texts)}
        self._wrappers = tuple(row for row in literal if row.opener not in apart)
        self._markers = {marker for row in literal for marker in row.openers} - apart
        self._markers.update(*(row.more_openers for row in self.rows))
        self.find_origin = functools.lru_cache(maxsize=512)(self._find_origin)
        self.find_wrappers = functools.lru_cache(maxsize=256)(self._find_wrappers)
        self.find_own_closer = functools.lru_cache(maxsize=256)(self._find_own_closer)
        self.list_syntaxes = functools.lru_cache(maxsize=256)(self._list_syntaxes)

    # How a block begins.

    @functools.cached_property
    def _opener_pattern(self) -> PrefixPattern:
        numbered = filter(None, map(number_opener, self._wrappers))
        return either(any_of_caseless(self._markers), *numbered, OWN_OPENER)

    @functools.cached_property
    def opener(self) -> PrefixMatcher:
        """A marker around calls."""
        return PrefixMatcher(self._opener_pattern, re.IGNORECASE)

    @functools.cached_property
    def opener_run(self) -> PrefixMatcher:
        return PrefixMatcher(repeat(sequence(self._opener_pattern, SPACE), MAX_MARKER_RUN), re.IGNORECASE)

    @functools.cached_property
    def noise(self) -> PrefixMatcher:
        """Other text behind a special token that opens calls, if the next such token follows."""
        tokens = [marker for marker in self._markers if marker.startswith(_TOKEN_STARTS)]
        return PrefixMatcher(sequence(some("[^<]", 1, 80), before(any_of_caseless(tokens))), re.IGNORECASE)

    @functools.cached_property
    def _lone_leads(self) -> dict[str, str]:
        """What begins an element that is marker and body in one, and the marker of the row that it is of."""
        leads = {cut_lead(row.syntax): row.opener for row in self._lone if row.syntax}
        for row in self.rows:
            leads |= dict.fromkeys(row.unwrapped, row.opener if row.is_lone else "")
        leads.pop("", None)
        return leads

    @functools.cached_property
    def lone_element(self) -> PrefixMatcher:
        """An element that is marker and body in one."""
        return PrefixMatcher(either(*map(open_element, self._lone_leads)), re.IGNORECASE)

    def name_lone_marker(self, element: str) -> str:
        """The marker of the row that such an element is of; empty if the row has another one around it."""
        written = element.casefold()
        return next((marker for lead, marker in self._lone_leads.items() if lead[1:].casefold() in written), "")

    @functools.cached_property
    def _unusual_openers(self) -> set[str]:
        """What begins blocks and is no anchor in itself."""
        beginnings = {opener: f"{opener}\n" for opener in self._markers}
        beginnings |= {row.opener: row.example for row in self._lone if row.is_literal}
        beginnings |= {cut_text_opener(row): row.example for row in self._texts}
        usual = re.compile(MARKER_ANCHOR)
        unusual = {opener for opener, text in beginnings.items() if not usual.match(text)}
        return unusual | {NOISE}

    @functools.cached_property
    def unusual(self) -> PrefixMatcher:
        """What begins blocks and is no anchor in itself. Words have to be written as in the table."""
        words = {opener for opener in self._unusual_openers if opener[0].isalpha()}
        signs = any_of_caseless(self._unusual_openers - words)
        caseless = PrefixPattern(f"(?i:{signs.whole})", f"(?i:{signs.prefix})")
        return PrefixMatcher(either(any_of(words), caseless) if words else caseless)

    def find_anchor(self, text: str, start: int = 0) -> re.Match[str] | None:
        """The first character from `start` on at which a block may begin.

        To make the pattern takes milliseconds. A short answer in words has none of its first characters, and does
        without.
        """
        if "anchor" in vars(self) or self._first_characters.search(text, start):
            return self.anchor.search(text, start)
        return None

    @functools.cached_property
    def _first_characters(self) -> re.Pattern[str]:
        """Finds a character with which a block, or a marker of reasoning, may begin."""
        openers = self._markers | UNUSUAL_MARKERS | {NOISE}
        openers.update(row.opener for row in self._lone if row.is_literal)
        openers.update(map(cut_text_opener, self._texts))
        return re.compile(f"[{re.escape(ANCHOR_CHARACTERS + ''.join({each[0] for each in openers}))}]")

    @functools.cached_property
    def anchor(self) -> re.Pattern[str]:
        """Finds a character at which a block may begin."""
        return re.compile(self._anchor_source)

    @functools.cached_property
    def anchor_after_call(self) -> re.Pattern[str]:
        """The same, or the end of a line that a result may follow which the model made up."""
        return re.compile(rf"{self._anchor_source}|{RESULT_ANCHOR}")

    @property
    def _anchor_source(self) -> str:
        """ANCHOR, the other openers and markers; each branch begins with one character, which `re` searches fast."""
        rests: dict[str, list[str]] = {}
        for opener in sorted(self._unusual_openers | UNUSUAL_MARKERS):
            rests.setdefault(opener[0], []).append(opener[1:])
        branches = [ANCHOR]
        for first, others in rests.items():
            character = re.escape(first)
            if first.isalpha():  # a word stands in running text: only as it is written in the table, and whole
                branches.append(rf"{character}(?<!\w{character})(?={any_begun(others)})")
            else:
                rests_in_any_case = sorted({each.casefold() for each in others})
                branches.append(rf"{character}(?=(?i:{any_begun(rests_in_any_case)}))")
        return "|".join(branches)

    @functools.cached_property
    def _pairs(self) -> list[PrefixPattern]:
        """The first tags of pairs of a key and a value."""
        leads = {cut_pair_lead(row.syntax) for row in self.rows if row.grammar == "pairs" and row.syntax}
        return [match_tag(lead) for lead in sorted(leads)]

    @functools.cached_property
    def pair(self) -> PrefixMatcher:
        return PrefixMatcher(either(*self._pairs), re.IGNORECASE)

    @functools.cached_property
    def body(self) -> PrefixMatcher:
        """What may follow wrapping markers; its groups are named after the kinds of blocks."""
        wrapped = [row for row in self._wrappers if row.grammar == "pairs" and row.closer]
        closers = [match_tag(row.closer) for row in wrapped]
        parts = (
            group("json", SPACE, FENCE, self._bracket),
            # Before attributes: a label and a word match as soon as they are there, whatever follows.
            group("tags", SPACE, self._first_tag),
            group(
                "attributes", SPACE, maybe(_QUOTE), group("attributes_name", NAME_PATTERN),
                either(sequence(maybe(_QUOTE), _ATTRIBUTES), sequence(_QUOTE, SPACE, "]")),
            ),
            group("pairs", SPACE, NAME, SPACE, either(*self._pairs)),
            group("empty", SPACE, group("empty_name", NAME_PATTERN), SPACE, either(*closers)),
            group(
                "named", SPACE, maybe(maybe(any_of(_CHANNELS), SPACE), "to="), maybe(any_of(self._name_leads), SPACE),
                some("[*`]", 0, 3), group("called", _DECORATED_NAME), self._separator,
                group("bracket", either(some(r"[{(]", 1, 1), OBJECT_IN_STRING)),
            ),
        )  # fmt: skip
        return PrefixMatcher(either(*parts), re.IGNORECASE)

    @property
    def _first_tag(self) -> PrefixPattern:
        """The first tag of a call that stands behind a wrapping marker."""
        leads = dict.fromkeys(cut_lead(row.syntax) for row in self.rows if row.syntax)
        leads.pop("", None)
        attributes, names, others = {*CALL_ELEMENTS, "parameter"}, set[str](), list[str]()
        for lead in leads:
            # An attribute may be written in several ways, and a bare name has to end its tag.
            if attribute := _ATTRIBUTE.match(lead):
                attributes.add(attribute[1])
            elif lead[0] == "<" and lead[-1] == ">" and lead[1:-1].isidentifier():
                names.add(lead[1:-1])
            else:
                others.append(lead)
        if not names.isdisjoint(NAME_ELEMENTS):
            names.update(NAME_ELEMENTS)
        element = either(
            sequence(any_of(attributes), either(sequence(BLANK, "="), some(r"[ \t]", 1, 4))),
            sequence(any_of(names), ">"),
        )
        return either(sequence(MAYBE_NOISE, "<", NAMESPACE, element), *map(open_element, others))

    @property
    def _name_leads(self) -> set[str]:
        """The words that stand between a marker and the name: Gemma's `call:`."""
        rows = [row for row in self._wrappers if row.grammar in ("named", "pythonic")]
        written = {row.template.partition("{name}")[0].rpartition(row.opener)[2].strip("⟦ \n") for row in rows}
        # Markers and recipients have patterns of their own, and a namespace is a part of the name.
        return {words for words in written if words[:1].isalpha() and "to=" not in words and words[-1] != "."}

    @property
    def _bracket(self) -> PrefixPattern:
        """A bracket that does not open one more marker."""
        openers = self._markers | {row.opener for row in self.rows}
        markers = {opener[1:] for opener in openers if opener[:1] == "["}
        follows = "|".join(map(re.escape, sorted(markers)))
        return PrefixPattern(rf"(?:\{{|\[(?!{follows}))", some(r"[{\[]", 1, 1).prefix)

    @property
    def _separator(self) -> PrefixPattern:
        """What may stand between a name and its arguments."""
        written = (
            row.template.partition("{name}")[2].partition("{args}")[0]
            for row in self._wrappers
            if row.grammar == "named"
        )
        between = {word for text in written for word in text.split() if not word.startswith("<|")}
        between.update(word for row in self.rows for word in row.between)
        part = either(whole_run(r"\s", 64), _TOKEN, _CALL_ID, any_of(between), whole_run("[:*=`]", 16))
        return maybe(repeat(part, 8))

    @functools.cached_property
    def _text_beginnings(self) -> dict[str, list[tuple[Format, PrefixMatcher]]]:
        """By its first character, what begins a call of the grammar `text`, up to the first one of the input."""
        beginnings: dict[str, list[tuple[Format, PrefixMatcher]]] = {}
        for row in self._texts:
            matcher = PrefixMatcher(begin_text(row.template), re.IGNORECASE)
            beginnings.setdefault(cut_text_opener(row)[0].casefold(), []).append((row, matcher))
        return beginnings

    def find_text_call(self, text: str, at: int, names: NameIndex) -> BlockStart | NeedMore | None:
        """A call of such a row at `at`, or NeedMore if more text may make one."""
        may_come: NeedMore | None = None
        for row, beginning in self._text_beginnings.get(text[at].casefold(), ()):
            match = beginning.match(text, at)
            if match and names.find(match["name"]):
                if may_come:
                    return may_come  # of a row that comes first
                kind = "named" if match["first"] == "{" else "text"
                return BlockStart(at, match.start("first"), kind, row.opener, match["name"], closer=row.closer)
            if match is None:
                may_come = may_come or await_match(beginning, text, at, at)
        return may_come

    # How a block ends.

    @functools.cached_property
    def closing_marker(self) -> PrefixMatcher:
        """What may follow the end of any block and belongs to it: models mix the markers of formats up."""
        closers = {closer for row in self.rows for closer in row.closers}
        closers |= {row.syntax.call_closer for row in self.rows if row.syntax}
        return PrefixMatcher(sequence(SPACE, any_of_caseless(filter(_has_word, closers))), re.IGNORECASE)

    def _find_own_closer(self, opener: str) -> PrefixMatcher | None:
        """What closes a block with this marker alone, since it may be punctuation elsewhere; None without any."""
        rows = [
            row for row in self._wrappers + self._texts if any(_ends_with(opener, marker) for marker in row.openers)
        ]
        closers = {closer for row in rows for closer in row.closers if not _has_word(closer)}
        return PrefixMatcher(sequence(SPACE, any_of(closers))) if closers else None

    @functools.cached_property
    def extended_closer(self) -> PrefixMatcher | None:
        """An opener that begins as its row's closer (`~~~tool` and `~~~`), and closes nothing; None without any."""
        openers = {row.opener for row in self.rows if row.is_literal and row.opener.startswith(row.closers)}
        return PrefixMatcher(any_of_caseless(openers), re.IGNORECASE) if openers else None

    @functools.cached_property
    def _value_closers(self) -> frozenset[str]:
        """What closes a value, and stands in text only if a call before it was closed too early."""
        closers = {closer.casefold() for row in self.rows if row.syntax for closer in row.syntax.list_closers()}
        return frozenset(closers | set(TOKEN_QUOTES))

    def holds_closer(self, text: str, closers: Iterable[str]) -> bool:
        """Whether one of the closers stands in the text, or what closes a value in some format."""
        lower = text.casefold()
        return any(closer in text for closer in closers) or any(closer in lower for closer in self._value_closers)

    def _find_wrappers(self, opener: str, kind: str) -> tuple[tuple[Format, ...], Markers]:
        """The rows whose marker ends `opener`, and the markers that open and close that wrapping of a block."""
        rows = self._list_last_rows(opener)
        last = _LAST_MARKER.search(opener)
        is_wrapped = bool(last)
        if rows:
            is_wrapped = not rows[0].is_lone
        if kind == "element" or not is_wrapped:
            return rows, self._make_bare_markers(rows)
        openers, closers = {row.opener for row in rows}, {row.closer for row in rows}
        if last:
            openers.add(last[0].strip())
            closers.add(f"</{last[1]}>")
        return rows, Markers(tuple(sorted(openers)), tuple(sorted(closers - {""})))

    def _make_bare_markers(self, rows: Iterable[Format]) -> Markers:
        """What stands around calls that nothing wraps, where their own tags do not end them."""
        unended = [row for row in rows if row.syntax and not row.syntax.call_end]
        begins = {row.template.partition("{call}")[0].strip() for row in unended}
        ends = {row.closer for row in unended} or self._bare_closers
        return Markers(tuple(sorted(begins - {""})), tuple(sorted(ends)))

    def _list_last_rows(self, opener: str) -> tuple[Format, ...]:
        """The rows whose marker ends `opener`, of those with the longest marker."""
        lengths = {
            row: max(
                (len(marker) for marker in (row.opener, *row.more_openers) if _ends_with(opener, marker)), default=0
            )
            for row in self.rows
        }
        longest = max(lengths.values(), default=0)
        return tuple(row for row, length in lengths.items() if 0 < length == longest)

    @functools.cached_property
    def _bare_closers(self) -> set[str]:
        """What models write behind a call in tags that nothing wraps, though nothing opened it."""
        ends = {row.closer: row.syntax.call_end.strip() for row in self._lone if row.syntax and row.syntax.call_end}
        return {closer for closer, end in ends.items() if closer and closer != end}

    def _list_syntaxes(self, kind: str, rows: tuple[Format, ...]) -> tuple[TagSyntax, ...]:
        """The syntaxes of a kind, those first whose calls are framed by more, then those of `rows`."""
        if kind == "element":
            return (ELEMENT,)
        grammar, own = _GRAMMARS.get(kind, kind), {row.syntax for row in rows}
        listed = (row.syntax for row in self.rows if row.syntax and row.grammar == grammar)
        syntaxes = dict.fromkeys(syntax for syntax in listed if syntax != ELEMENT)
        return tuple(sorted(syntaxes, key=lambda syntax: (-len(syntax.call), syntax not in own)))

    def make_tag_reader(self, kind: str, opener: str, rank: Rank = lambda _name, _key: 1) -> TagReader:
        """The follower of a block of tags; `rank` as TagReader takes it."""
        rows, markers = self.find_wrappers(opener, kind)
        return TagReader(self.list_syntaxes(kind, rows), markers, rank)

    def _find_origin(self, opener: str, kind: str) -> str:
        """The name of the format whose marker is in `opener` and whose grammar is that of `kind`.

        Of several the one with the longest marker counts, then the first row of the table.
        """
        markers = _BLANKS.sub("", opener).casefold()
        grammar = _GRAMMARS.get(kind, kind)
        rows = [row for row in self.rows if row.opener and _BLANKS.sub("", row.opener).casefold() in markers]
        if not rows:
            rows = [row for row in self.rows if not row.opener and row.grammar == grammar]
            return rows[0].call_origin if rows else "wrapped"
        best = max(rows, key=lambda row: (row.grammar == grammar, len(row.opener)))
        return best.call_origin


def _ends_with(opener: str, marker: str) -> bool:
    """Whether the last of the markers before a block is this one."""
    return bool(marker) and opener.rstrip().casefold().endswith(marker.rstrip().casefold())


def _has_word(closer: str) -> bool:
    """Whether a closer is no mere punctuation, which may close other things."""
    return any(map(str.isalnum, closer))


FORMAT_SET = FormatSet()
