import io

import pytest

from src.cli.chat.input.completion import complete
from src.cli.chat.state import State
from src.cli.mentions import read_mentions
from src.cli.render.plain import PlainScreen
from src.cli.tracing.debug import Debug
from src.config import Settings


@pytest.fixture
def state(tmp_path):
    for name in ("notes.txt", "nothing.md", "a b.txt", 'q"uoted.txt', ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x.py").touch()
    screen = PlainScreen(io.StringIO(), io.StringIO(), thoughts=True, styled=False)
    return State(Settings(root=tmp_path), screen, Debug(0), lambda _: None, "tiny")


@pytest.mark.parametrize(
    ("before", "offered"),
    [
        ("/stat", ["/status"]),
        ("/EX", ["/exit", "/export", "/expand"]),
        ("/thinking ", ["fold", "show", "hide"]),
        ("/thinking s", ["show"]),
        ("/model ", ["tiny"]),
        ("/nothing ", []),
        ("see @no", ["@nothing.md", "@notes.txt"]),
        ("@", ['@"a b.txt"', "@nothing.md", "@notes.txt", "@sub/", r"@q\x22uoted.txt"]),
        (r"@q\x22", [r"@q\x22uoted.txt"]),
        ("@sub/", ["@sub/x.py"]),
        ('@"a ', ['@"a b.txt"']),
        ("@.h", ["@.hidden"]),
        ("me@no", []),
        ("@no/such/", []),
        ("@~nobody/", []),
        ("words", []),
        ("two\n/st", []),
    ],
)
def test_what_is_offered(state, before, offered):
    assert sorted(each.text for each in complete(before, state)) == sorted(offered)


def test_a_name_with_a_quote_is_offered_so_that_it_is_found(state):
    (offer,) = complete("@q", state)
    assert read_mentions(offer.text, state.settings.root).notes == (r"q\x22uoted.txt added: 0 lines, 0 bytes",)


def test_it_takes_the_place_of_what_was_typed(state):
    (offer,) = complete("see @note", state)
    assert (offer.text, offer.start_position) == ("@notes.txt", -len("@note"))
