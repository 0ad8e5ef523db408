from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from src.security.text.redact import redact
from src.session.streaming_redaction import MAX_SECRET_CHARS, PIECE_CHARS, StreamRedactor
from tests.each import check_rows

KEY = "sk-proj-" + "abcDEF123456" * 3
KNOWN = "hunter2hunter2"
SECRETS = {
    "a key": KEY,
    "a token": "ghp_" + "a1B2c3D4" * 5,
    "a password": "S3cr3t-pass!",
    "a known value": KNOWN,
}


def feed(*pieces):
    """What was written, and what is written of the rest while the program waits for more."""
    into = StreamRedactor(partial(redact, secrets=(KNOWN,)))
    return "".join(map(into.feed, pieces)) + into.flush()


def test_text_is_collected_and_then_written_up_to_its_last_word():
    into = StreamRedactor(redact)
    pieces = [into.feed("word ") for _ in range(PIECE_CHARS // 5)]
    assert set(pieces) == {""}
    assert into.feed("and so") == "word " * (PIECE_CHARS // 5) + "and "


def test_what_waits_is_written_on_demand_but_for_the_last_word():
    into = StreamRedactor(redact)
    assert (into.feed("so it"), into.flush(), into.flush()) == ("", "so ", "")


def test_after_a_complete_answer_nothing_waits():
    into = StreamRedactor(redact)
    into.feed("so it is")
    into.reset()
    assert into.flush() == ""


def test_without_a_pattern_text_is_collected_too():
    into = StreamRedactor(str)
    assert (into.feed("a"), into.feed("b" * PIECE_CHARS), into.flush()) == ("", "a" + "b" * PIECE_CHARS, "")


@check_rows("size", [1, 2, 3, 5, 100])
def test_a_key_in_pieces_is_not_written(size):
    text = f"The key is {KEY} and that is all.\n"
    written = feed(*(text[place : place + size] for place in range(0, len(text), size)))
    assert "123456" not in written
    assert written.startswith("The key is ")
    assert written.endswith("and that is all.\n")


@check_rows("size", [1, 3, 4])
@check_rows("text", [f"it is {KNOWN} ok ", "password = S3cr3t-pass! ok ", f"password: {KNOWN}\nok "])
def test_what_stands_behind_a_name_or_is_known_is_not_written(text, size):
    written = feed(*(text[place : place + size] for place in range(0, len(text), size)))
    assert "pass!" not in written
    assert "ter2hun" not in written
    assert "ok" in written


@check_rows(
    "pieces",
    [
        ["x" * 1_000_000 + "\n"],
        ["x1" * 3_900 + " "],
        ["key" * 2_600 + " "] * 20,
        ["-----BEGIN" * 700] * 20,
        ["x1yz" * 20] * 1_500,
    ],
)
def test_a_long_text_is_written_up_to_the_longest_secret(pieces):
    written = feed(*pieces)  # a quadratic search would take minutes
    assert len(written) >= len("".join(pieces)) - MAX_SECRET_CHARS


@check_rows(
    "secret",
    [
        "mysql -u root -pHunter22",
        "curl https://example.com -u bob:Hunter22",
        'passphrase: "correct horse Hunter22"',
        "Cookie: first=1; second=two; last=Hunter22",
        "login bob\n  password Hunter22",
        f"-----BEGIN PRIVATE KEY-----\n{'Abc def' * 20}\nHunter22\n-----END PRIVATE KEY-----",
        f"Private-Lines: 8\n{'Abcdef' * 20}\nHunter22",
        KEY + "Hunter22",
    ],
)
def test_a_secret_is_not_cut_wherever_it_stands(secret):
    for before in range(PIECE_CHARS - len(secret) - 20, PIECE_CHARS):
        text = f"{' ' * before}\n{secret}\nand so on.\n"
        assert feed(*text) == redact(text)
        assert "Hunter22" not in redact(text)


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
