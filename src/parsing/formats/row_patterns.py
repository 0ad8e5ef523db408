"""The patterns of one row: how its calls begin, as the detector looks for them."""

from __future__ import annotations

import re

from ...types.lazy_pattern import LazyPattern
from ..stream.openers import BLANK, NAME, SPACE
from ..stream.prefix_regex import Part, PrefixPattern, any_of, either, group, maybe, sequence, some
from .table import Format
from .tag_syntax import NOISE, TagSyntax

MAYBE_NOISE = maybe(NOISE)
_BAR = sequence(some(" ", 0, 1), some("[｜|]", 1, 1), some(" ", 0, 1))
_FAMILY = either(
    sequence(_BAR, either("DSML", "GCML"), _BAR, maybe("r:")), sequence(some("[a-z]", 2, 10), some("[:|]", 1, 1))
)
NAMESPACE = maybe(_FAMILY)
_PLAIN_TAG = LazyPattern(r"<(?P<slash>/?)(?:[a-z]\w*[:|])?(?P<name>\w+)(?::\w+)?>\Z")
_NUMBERED = LazyPattern(r"(<[^<>]+>)\d+\Z")


def number_opener(row: Format) -> PrefixPattern | None:
    """A marker and the id of a call, if they stand before the row's marker."""
    numbered = _NUMBERED.search(row.template.partition(row.opener)[0])
    return sequence(numbered[1], some(r"\w", 1, 40), row.opener) if numbered else None


def cut_lead(syntax: TagSyntax) -> str:
    """The first tag of a call, up to the name: `<invoke name=`, `<invoke>`, `TOOL_NAME:`."""
    lead = syntax.call.partition("{name}")[0].rstrip('" ').replace(NOISE, "")
    return lead.split("\n")[0] if lead != "<" else ""


def cut_pair_lead(syntax: TagSyntax) -> str:
    """The tag that follows the name of a call: `<arg_key>`, `<tool_sep>`."""
    follows = syntax.call.partition("{name}")[2].strip()
    return follows or syntax.key.partition("{key}")[0].rstrip()


def cut_text_opener(row: Format) -> str:
    """What stands before the name in a call of the grammar `text`."""
    return row.template.partition("{name}")[0].strip()


def begin_text(template: str) -> PrefixPattern:
    """The tags around the name, and the first character behind them and behind blanks."""
    before, _, after = template.partition("{args}")[0].partition("{name}")
    between: list[Part] = []
    for tag in re.split(r"(?<=>)(?=<)|\s+", after):
        if tag:
            between += [SPACE, tag]
    lead = SPACE if before.endswith("\n") else BLANK
    gap = SPACE if between else some(r"\s", 1, 64)  # nothing else ends the name
    return sequence(before.strip(), lead, NAME, *between, gap, group("first", some(r"\S", 1, 1)))


def open_element(lead: str) -> PrefixPattern:
    """A lead and the first character behind it."""
    if lead[0] != "<" or not lead[1].isalpha():
        return sequence(lead, BLANK, some(r"[\"'\w]", 1, 1))
    rest = some(r"[\"'\w>]", 1, 1) if lead[-1] == "=" else any_of([""])
    return sequence(MAYBE_NOISE, "<", NAMESPACE, lead[1:], rest)


def match_tag(tag: str) -> PrefixPattern:
    """A tag, with any namespace before and any suffix behind its name."""
    plain = _PLAIN_TAG.match(tag)
    return sequence(f"<{plain['slash']}", NAMESPACE, plain["name"]) if plain else any_of([tag])
