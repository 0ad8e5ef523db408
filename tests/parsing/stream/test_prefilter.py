"""Anchors: the fast way and the plain one find the same."""

from hypothesis import given
from hypothesis import strategies as st

from src.parsing.stream.prefilter import _ANCHOR, Prefilter


@given(
    st.lists(
        st.sampled_from(["<t", "<", "{", '{"', "[", "f(", "(", "`", "call:", ":", ">>>", ">", "word ", "x" * 700]),
        max_size=30,
    ),
    st.integers(0, 40),
)
def test_looking_ahead_for_each_character_finds_what_the_alternation_finds(pieces, position):
    text = "".join(pieces)
    found = _ANCHOR.search(text, position)
    assert Prefilter().find(text, position) == (found.start() if found else -1)


def test_an_anchor_further_on_is_found_again_after_the_first():
    text = "x" * 1000 + "{a" + "y" * 1000 + "[b"
    anchors = Prefilter()
    assert anchors.find(text, 0) == 1000
    assert anchors.find(text, 1001) == 2002
    assert anchors.find(text, 2003) == -1
