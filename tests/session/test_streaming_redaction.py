from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.security.text.redact import redact
from src.session.streaming_redaction import MAX_SECRET_CHARS, StreamRedactor

KEY = "sk-proj-" + "abcDEF123456" * 3
KNOWN = "hunter2hunter2"
SECRETS = {
    "a key": KEY,
    "a token": "ghp_" + "a1B2c3D4" * 5,
    "a password": "S3cr3t-pass!",
    "a known value": KNOWN,
}


def feed(*pieces):
    into = StreamRedactor(partial(redact, secrets=(KNOWN,)))
    return "".join(map(into.feed, pieces))


def test_ordinary_words_go_at_once():
    into = StreamRedactor(redact)
    assert [into.feed(piece) for piece in ("Once", " upon", " a", " ti", "me.\n")] == [
        "Once",
        " upon",
        " a",
        " ti",
        "me.\n",
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_a_key_in_pieces_is_not_written(size):
    text = f"The key is {KEY} and that is all.\n"
    written = feed(*(text[place : place + size] for place in range(0, len(text), size)))
    assert "123456" not in written
    assert written.startswith("The key is ")
    assert written.endswith("and that is all.\n")


@pytest.mark.parametrize("size", [1, 3, 4])
@pytest.mark.parametrize("text", [f"it is {KNOWN} ok ", "password = S3cr3t-pass! ok ", f"password: {KNOWN}\nok "])
def test_what_stands_behind_a_name_or_is_known_is_not_written(text, size):
    written = feed(*(text[place : place + size] for place in range(0, len(text), size)))
    assert "pass!" not in written
    assert "ter2hun" not in written
    assert "ok" in written


@pytest.mark.parametrize(
    "pieces",
    [
        ["x" * 1_000_000 + "\n"],
        ["x1" * 3_900 + " "],
        ["key" * 2_600 + " "] * 20,
        ["-----BEGIN" * 700] * 20,
        ["x1yz" * 20] * 1_500,
    ],
    ids=["a long word", "letters and digits", "names", "private keys", "a word that goes on"],
)
def test_a_long_text_is_written_up_to_the_longest_secret(pieces):
    written = feed(*pieces)  # a quadratic search would take minutes
    assert len(written) >= len("".join(pieces)) - MAX_SECRET_CHARS


def test_a_private_key_waits_for_its_end():
    pem = "-----BEGIN PRIVATE KEY-----\nMIIabc def\nghi\n-----END PRIVATE KEY-----\nafter it\n"
    written = feed(*pem)
    assert "MII" not in written
    assert "after it" in written


@given(st.lists(st.text("ab 1\n.=:/sk-", max_size=6), max_size=12))
def test_nothing_but_what_waits_is_missing(pieces):
    into = StreamRedactor(redact)
    written = "".join(map(into.feed, pieces))
    assert redact("".join(pieces)).startswith(written) or "[redacted]" in written
