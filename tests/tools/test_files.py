"""read, write, edit: what they show, what they change, and what they leave as it was."""

from __future__ import annotations

import os
import stat
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.errors import ToolError
from src.messages import ToolCall
from src.tools import REGISTRY, ToolContext
from src.tools.files import CHUNK, READ_MAX

ERROR = "Error executing tool: "

# read


def test_a_file_is_read_whole_as_it_is(run, workspace):
    (workspace / "a.txt").write_bytes(b"one\r\ntwo\n\nlast")
    assert run("read", path="a.txt").value == "one\r\ntwo\n\nlast"


WINDOWS = [
    ({"offset": 2}, "two\nthree"),
    ({"offset": 2, "limit": 2}, "two\nthree"),
    ({"limit": 9}, "one\ntwo\nthree"),
    ({"limit": 1}, "one\n[cut: more lines follow; read on with offset=2]"),
    ({"offset": 2, "limit": 1}, "two\n[cut: more lines follow; read on with offset=3]"),
    ({"offset": 3}, "three"),
    ({"offset": 4}, ERROR + "a.txt has no line 4: its last is 3"),
    ({"offset": 0}, ERROR + "offset and limit count from 1"),
    ({"offset": -1}, ERROR + "offset and limit count from 1"),
    ({"limit": 0}, ERROR + "offset and limit count from 1"),
    ({"offset": None, "limit": None}, "one\ntwo\nthree"),
]


@pytest.mark.parametrize(("window", "shown"), WINDOWS, ids=[str(row[0]) for row in WINDOWS])
def test_lines_are_read_from_offset_on_as_many_as_limit(window, shown, run, workspace):
    (workspace / "a.txt").write_text("one\ntwo\nthree")
    assert run("read", path="a.txt", **window).value == shown


def test_reading_on_as_told_shows_every_line_once(run, workspace):
    lines = [f"line {number}\n" for number in range(1, 20_001)]
    (workspace / "a.txt").write_text("".join(lines))
    seen, offset = "", 1
    while offset:
        shown = run("read", path="a.txt", offset=offset).value
        assert len(shown) < READ_MAX + 100
        text, _, note = shown.partition("[cut: more lines follow; read on with offset=")
        seen, offset = seen + text, int(note.rstrip("]") or 0)
    assert seen == "".join(lines)


def test_a_line_longer_than_is_shown_is_cut_and_said_so(run, workspace):
    (workspace / "a.txt").write_text("x" * (READ_MAX + 1) + "\nnext\n")
    shown = run("read", path="a.txt").value
    assert shown == "x" * READ_MAX + "\n[cut: line 1 is longer than 50,000 characters; read on with offset=2]"
    assert run("read", path="a.txt", offset=2).value == "next\n"


def test_an_empty_file_is_said_to_be_empty(run, workspace):
    (workspace / "a.txt").touch()
    assert run("read", path="a.txt").value == "[the file is empty]"
    assert run("read", path="a.txt", offset=2).value == ERROR + "a.txt has no line 2: its last is 0"


def test_a_file_over_the_limit_is_read_by_window_only(run, workspace):
    (workspace / "big.txt").write_text("line\n" * 1000)
    limit = {"max_file_bytes": 100}
    assert run("read", limit, path="big.txt").value.startswith(
        ERROR + "big.txt is too large to be read whole: 5,000 bytes"
    )
    assert run("read", limit, path="big.txt", offset=1000).value == "line\n"


def test_a_character_at_the_border_of_what_tells_the_encoding_stays_whole(run, workspace):
    (workspace / "a.txt").write_text("€€€\n", encoding="utf-8")
    assert run("read", {"max_file_bytes": 4}, path="a.txt", limit=1).value == "€€€\n"


def test_a_huge_file_is_never_held_whole(run, workspace):
    with (workspace / "huge.txt").open("wb") as file:
        file.write(b"first\n" + b"x" * 20_000 + b"\nthird\n")
        file.truncate(5_000_000_000)
    assert run("read", {"max_file_bytes": 10_000}, path="huge.txt", limit=1).value.startswith("first\n[cut")


def test_what_is_held_depends_on_what_is_shown_and_not_on_the_file(run, workspace):
    (workspace / "big.txt").write_bytes(b"a line of some length\n" * 400_000 + "é".encode("latin-1"))
    run("read", path="big.txt", limit=1)  # what is loaded at the first run is not held for the file
    tracemalloc.start()
    try:
        assert run("read", path="big.txt", limit=1).value.startswith("a line of some length\n[cut")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", range(CHUNK - 3, CHUNK + 3))
@pytest.mark.parametrize("tail", ["€\n", "€", "\u20ac\U0001f600"])
def test_a_character_at_the_border_of_what_is_looked_at_together_stays_whole(size, tail, run, workspace):
    (workspace / "a.txt").write_text("x\n" + "y" * (size - 2) + tail, encoding="utf-8")
    assert run("read", path="a.txt", limit=1).value.startswith("x\n[cut")
    assert run("edit", path="a.txt", oldText="x\n", newText="z\n").kind == "text"
    assert (workspace / "a.txt").read_text(encoding="utf-8").endswith("y" + tail)


def test_a_missing_file_is_said_to_be_missing(run):
    assert run("read", path="no.txt").value == ERROR + "no.txt does not exist"


# Encodings

SENTENCE = "Grüße an alle\nzweite Zeile\n"
ENCODED = {
    "utf-8": SENTENCE.encode(),
    "utf-8 with byte order mark": b"\xef\xbb\xbf" + SENTENCE.encode(),
    "utf-16-le": b"\xff\xfe" + SENTENCE.encode("utf-16-le"),
    "utf-16-be": b"\xfe\xff" + SENTENCE.encode("utf-16-be"),
    "latin-1": SENTENCE.encode("latin-1"),
}


@pytest.mark.parametrize("data", ENCODED.values(), ids=ENCODED)
def test_text_is_read_in_its_encoding(data, run, workspace):
    (workspace / "a.txt").write_bytes(data)
    assert run("read", path="a.txt").value == SENTENCE
    assert run("read", path="a.txt", offset=2).value == "zweite Zeile\n"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("final", ["", "\n"], ids=["no final newline", "final newline"])
@pytest.mark.parametrize("data", ENCODED.values(), ids=ENCODED)
def test_edit_keeps_encoding_mark_line_ends_final_newline_and_mode(data, final, line_end, run, workspace):
    file = workspace / "a.txt"
    bom, codec = next((b, c) for b, c in MARKS if data.startswith(b) and (b or c == CODEC_OF.get(data, "utf-8")))
    whole = (SENTENCE.rstrip("\n") + final).replace("\n", line_end)
    file.write_bytes(bom + whole.encode(codec))
    file.chmod(0o751)
    assert run("edit", path="a.txt", oldText="alle\nzweite", newText="dich\nzwölfte").kind == "text"
    changed = whole.replace(f"alle{line_end}zweite", f"dich{line_end}zwölfte")
    assert file.read_bytes() == bom + changed.encode(codec)
    assert stat.S_IMODE(file.stat().st_mode) == 0o751


MARKS = [
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"", "utf-8"),
    (b"", "latin-1"),
]
CODEC_OF = {ENCODED["latin-1"]: "latin-1"}


BINARY = [
    b"a\0b",
    b"\x89PNG\r\n\x1a\n\0\0",
    b"\x1f\x8b\x08\xff",
    b"\xff\xfea\0b\0\0\0",
    b"\xff\xfe\0\0a\0\0\0",
    bytes(range(256)),
]


@pytest.mark.parametrize("data", BINARY, ids=ascii)
def test_a_binary_file_is_neither_read_nor_edited(data, run, workspace):
    (workspace / "a.bin").write_bytes(data)
    said = ERROR + "a.bin is a binary file, and only text can be read"
    assert run("read", path="a.bin").value == said
    assert run("edit", path="a.bin", oldText="a", newText="b").value == said
    assert (workspace / "a.bin").read_bytes() == data


def test_what_an_encoding_lacks_is_not_written(run, workspace):
    (workspace / "a.txt").write_bytes(ENCODED["latin-1"])
    result = run("edit", path="a.txt", oldText="alle", newText="€")
    assert result.value == ERROR + r"a.txt is latin-1 text, which cannot hold '\u20ac'"
    assert (workspace / "a.txt").read_bytes() == ENCODED["latin-1"]


# write


def test_write_says_whether_the_file_is_new(run):
    assert run("write", path="a.txt", content="12345").value == "Created a.txt: 5 characters"
    assert run("write", path="a.txt", content="").value == "Replaced a.txt: 0 characters"


def test_write_keeps_the_mode_of_what_it_replaces(run, workspace):
    (workspace / "run.sh").write_text("old")
    (workspace / "run.sh").chmod(0o740)
    run("write", path="run.sh", content="new")
    assert stat.S_IMODE((workspace / "run.sh").stat().st_mode) == 0o740


def test_write_drops_the_set_user_id_bit_as_any_write_does(run, workspace):
    (workspace / "run.sh").write_text("old")
    (workspace / "run.sh").chmod(0o4755)
    run("write", path="run.sh", content="new")
    assert stat.S_IMODE((workspace / "run.sh").stat().st_mode) == 0o755


def test_a_new_file_has_the_usual_mode(run, workspace):
    mask = os.umask(0o027)
    try:
        run("write", path="a.txt", content="x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((workspace / "a.txt").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_not_replaced(run, workspace):
    (workspace / "a.txt").write_text("old")
    (workspace / "a.txt").chmod(0o444)
    assert run("write", path="a.txt", content="new").value == ERROR + "a.txt is read-only"


def test_who_reads_meanwhile_keeps_the_old_content_whole(run, workspace):
    (workspace / "a.txt").write_text("old")
    with (workspace / "a.txt").open() as reader:
        run("write", path="a.txt", content="new")
        assert reader.read() == "old"


def test_nothing_is_left_beside_the_file(run, workspace):
    run("write", path="a.txt", content="x")
    run("write", path="dir", content="x")
    run("write", path="dir/b.txt", content="x")
    run("write", {"max_file_bytes": 3}, path="c.txt", content="four")
    run("write", path="d.txt", content="\ud800")
    assert sorted(each.name for each in workspace.iterdir()) == ["a.txt", "dir"]


def test_content_over_the_limit_is_refused(run):
    result = run("write", {"max_file_bytes": 3}, path="a.txt", content="€€")
    assert result.value == ERROR + "a.txt would be too large: 6 bytes, and 3 are allowed"


@settings(deadline=None)
@given(st.text(min_size=1, max_size=200).filter(lambda text: "\0" not in text and not text.startswith("\ufeff")))
def test_what_was_written_is_read(content):
    with tempfile.TemporaryDirectory() as folder:
        ctx = ToolContext(Path(folder))
        written = REGISTRY.run(ToolCall("1", "write", {"path": "a.txt", "content": content}), ctx)
        assert written.kind == "text"
        assert REGISTRY.run(ToolCall("2", "read", {"path": "a.txt"}), ctx).value == content


# edit


def test_edit_says_where_it_changed_what(run, workspace):
    (workspace / "a.txt").write_text("one\ntwo\n")
    assert run("edit", path="a.txt", oldText="two", newText="2").value == "Edited a.txt: 1 replacement, at line 2"
    assert (workspace / "a.txt").read_text() == "one\n2\n"


def test_what_occurs_twice_is_left_as_it_is(run, workspace):
    (workspace / "a.txt").write_text("x\nx\n")
    result = run("edit", path="a.txt", oldText="x", newText="y")
    assert (result.kind, (workspace / "a.txt").read_text()) == ("error", "x\nx\n")


def test_an_empty_old_text_is_refused(run, workspace):
    (workspace / "a.txt").write_text("x")
    assert run("edit", path="a.txt", oldText="", newText="y").value.startswith(ERROR + "oldText is empty")


def test_a_file_over_the_limit_is_not_edited(run, workspace):
    (workspace / "a.txt").write_text("xyz")
    assert "too large to be changed" in run("edit", {"max_file_bytes": 2}, path="a.txt", oldText="x", newText="y").value


class Meddling(str):
    """A piece of text that changes the file when it is looked for: after reading, before writing."""

    file: Path

    def replace(self, *_: object) -> str:
        self.meddle(self.file)
        return str(self)


def append(file: Path) -> None:
    with file.open("a") as other:
        other.write("more\r\n")


def put_another_in_its_place(file: Path) -> None:
    file.with_name("other").write_bytes(file.read_bytes())
    file.with_name("other").replace(file)


def touch(file: Path) -> None:
    os.utime(file, ns=(0, 0))


@pytest.mark.parametrize("meddle", [append, put_another_in_its_place, touch])
def test_what_somebody_else_changed_meanwhile_is_not_lost(meddle, workspace):
    old = Meddling("one")
    old.file, old.meddle = workspace / "a.txt", meddle
    old.file.write_bytes(b"one\r\n")
    with pytest.raises(ToolError, match="changed meanwhile"):
        REGISTRY["edit"].function("a.txt", old, "two", ToolContext(workspace))
    assert old.file.read_bytes().startswith(b"one\r\n")
    assert [each.name for each in workspace.iterdir()] == ["a.txt"]


# What stood there before, for whoever takes a write back


def test_what_stood_there_is_told_before_it_is_written(run, workspace):
    told = []

    def before(path: str, content: bytes | None) -> None:
        now = workspace / path
        told.append((path, content, now.read_bytes() if now.exists() else None))

    (workspace / "link").symlink_to("sub/a.txt")
    for name, arguments in (
        ("write", {"path": "sub/a.txt", "content": "one"}),
        ("write", {"path": "link", "content": "two"}),
        ("edit", {"path": "sub/../sub/a.txt", "oldText": "two", "newText": "three"}),
        ("edit", {"path": "sub/a.txt", "oldText": "absent", "newText": "three"}),
    ):
        run(name, {"before_write": before}, **arguments)
    assert told == [("sub/a.txt", None, None), ("sub/a.txt", b"one", b"one"), ("sub/a.txt", b"two", b"two")]


def test_what_cannot_be_kept_for_taking_it_back_is_not_overwritten(run, workspace):
    def full(path: str, content: bytes | None) -> None:
        raise OSError(28, "No space left on device")

    (workspace / "a.txt").write_text("old")
    result = run("write", {"before_write": full}, path="a.txt", content="new")
    assert result.value == ERROR + "a.txt: No space left on device"
    assert (workspace / "a.txt").read_text() == "old"
