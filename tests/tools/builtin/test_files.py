"""The tools read, write and edit: what they show, what they change, and what they leave unchanged."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
import struct
import tempfile
import tracemalloc
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.errors import ToolError
from src.tools import REGISTRY, ToolContext
from src.tools.fs.encoding import READ_BYTES
from src.tools.sdk.result import MAX_SHOWN_BYTES
from src.types.images import MAX_IMAGE_BYTES
from src.types.messages import ToolCall

ERROR = "Error executing tool: "


def sha256(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def read_text(run, path: str, **window) -> str:
    """The lines that read shows, without their numbers and without the line about the file."""
    lines = [line for line in run("read", path=path, **window).value.splitlines() if line[0] != "["]
    return "".join(f"{line.partition(chr(9))[2]}\n" for line in lines)


# read


def test_a_file_is_read_with_line_numbers_and_its_hash(run, workspace):
    (workspace / "a.txt").write_bytes(b"one\r\n\ttwo\n\nlast\n")
    assert run("read", path="a.txt").value == f"1\tone\n2\t\ttwo\n3\t\n4\tlast\n[sha256 {sha256(b'one' + CRLF)}]"


CRLF = b"\r\n\ttwo\n\nlast\n"
END = f"[no newline at the end]\n[sha256 {sha256('one' + chr(10) + 'two' + chr(10) + 'three')}]"
ON = f"[more lines follow; read on with offset={{}}]\n{END.partition(chr(10))[2]}"
WINDOWS = [
    ({"offset": 2}, "2\ttwo\n3\tthree\n" + END),
    ({"offset": 2, "limit": 2}, "2\ttwo\n3\tthree\n" + END),
    ({"limit": 9}, "1\tone\n2\ttwo\n3\tthree\n" + END),
    ({"limit": 1}, "1\tone\n" + ON.format(2)),
    ({"offset": 2, "limit": 1}, "2\ttwo\n" + ON.format(3)),
    ({"offset": 3}, "3\tthree\n" + END),
    ({"offset": 4}, ERROR + "a.txt has no line 4: its last is 3"),
    ({"offset": 0}, ERROR + "offset and limit count from 1"),
    ({"limit": 0}, ERROR + "offset and limit count from 1"),
    ({"offset": None, "limit": None}, "1\tone\n2\ttwo\n3\tthree\n" + END),
    ({"offset": -2}, "2\ttwo\n3\tthree\n" + END),
    ({"offset": -9}, "1\tone\n2\ttwo\n3\tthree\n" + END),
]


@pytest.mark.parametrize(("window", "shown"), WINDOWS, ids=[str(row[0]) for row in WINDOWS])
def test_lines_are_read_from_offset_on_as_many_as_limit(window, shown, run, workspace):
    (workspace / "a.txt").write_text("one\ntwo\nthree")
    assert run("read", path="a.txt", **window).value == shown


def test_a_large_file_is_read_in_parts_none_of_which_is_cut_again(run, workspace):
    (workspace / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 20_001)))
    seen, offset = "", 1
    while offset:
        shown = run("read", path="a.txt", offset=offset).value
        assert len(shown) < MAX_SHOWN_BYTES
        seen += shown.partition("[")[0]
        offset = int((re.findall(r"read on with offset=(\d+)", shown) or [0])[0])
    assert seen == "".join(f"{number}\tline {number}\n" for number in range(1, 20_001))


def test_an_empty_file_is_reported_as_empty(run, workspace):
    (workspace / "a.txt").touch()
    assert run("read", path="a.txt").value == f"[the file is empty]\n[sha256 {sha256('')}]"
    assert run("read", path="a.txt", offset=2).value == ERROR + "a.txt has no line 2: its last is 0"


def test_a_character_at_the_border_of_what_tells_the_encoding_stays_whole(run, workspace):
    (workspace / "a.txt").write_text("€€€\n", encoding="utf-8")
    shown = run("read", {"max_file_bytes": 4}, path="a.txt", limit=1).value
    assert shown == "1\t€€€\n[sha256 not computed: the file has 10 bytes]"


def test_a_huge_file_is_read_by_window_and_never_held_whole(run, workspace):
    with (workspace / "huge.txt").open("wb") as file:
        file.write(b"first\n" + b"x" * 20_000 + b"\nthird\n")
        file.truncate(5_000_000_000)
    shown = run("read", {"max_file_bytes": 10_000}, path="huge.txt", limit=2).value
    assert shown.startswith("1\tfirst\n2\txxx")
    assert shown.endswith("\n[more lines follow; read on with offset=3]\n"
                          "[sha256 not computed: the file has 5,000,000,000 bytes]")  # fmt: skip


def test_of_a_huge_file_that_ends_in_one_long_line_its_end_is_read(run, workspace):
    (workspace / "huge.txt").write_text("x" * 2_000_000 + "end")
    shown = run("read", {"max_file_bytes": 1_000_000}, path="huge.txt", offset=-3).value
    assert "xend\n[from the end" in shown
    assert len(shown) < 3_000


@pytest.mark.parametrize("data", [b"a\n", b"caf\xe9\n"])
def test_what_would_make_a_text_file_a_binary_one_is_refused(run, workspace, data):
    (workspace / "a.txt").write_bytes(data)
    for name, arguments in (("write", {"content": "a\0"}), ("edit", {"oldText": "a", "newText": "\0"})):
        said = run(name, path="a.txt", **arguments).value
        assert said == f"{ERROR}a.txt would be no text file any more, with the character '\\x00'"
    assert (workspace / "a.txt").read_bytes() == data


@pytest.mark.parametrize("name", ["new/", "new/sub/"])
def test_a_name_that_ends_with_a_slash_is_no_file_to_be_made(run, workspace, name):
    said = run("write", path=name, content="").value
    assert said == f"{ERROR}{name} names a folder\nMissing folders are created."
    assert not list(workspace.iterdir())


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le"])
def test_the_last_lines_of_a_huge_file_are_read_without_counting_the_others(codec, run, workspace):
    first = ("\ufeff" * (codec != "utf-8") + "first\n").encode(codec)
    with (workspace / "huge.txt").open("wb") as file:
        file.write(first)
        file.truncate(5_000_000_000)
        file.seek(0, os.SEEK_END)
        file.write(f"\nbefore\n{'é' * 2_001}\nlast\n".encode(codec))
    options = {"max_file_bytes": len(first)}  # what tells the encoding
    shown = run("read", options, path="huge.txt", offset=-2).value
    assert shown.startswith(f"{'é' * 2_000} [... 1 more characters]\nlast\n[from the end of the file; the")
    assert run("read", options, path="huge.txt", offset=-3, limit=1).value.startswith("before\n[from the end")


def test_the_rest_of_a_huge_line_is_not_counted(run, workspace):
    with (workspace / "huge.txt").open("wb") as file:
        file.write(b"first\nsecond")
        file.truncate(5_000_000_000)
    shown = run("read", {"max_file_bytes": 6}, path="huge.txt", offset=2).value
    assert shown.partition(" [")[2].startswith("... more than 50,000,000 more characters]\n[sha256 not computed")


def test_what_is_held_depends_on_what_is_shown_and_not_on_the_file(run, workspace):
    (workspace / "big.txt").write_bytes(b"a line of some length\n" * 400_000 + "é".encode("latin-1"))
    run("read", path="big.txt", limit=1)  # what is loaded at the first run is not held for the file
    tracemalloc.start()
    try:
        assert run("read", path="big.txt", limit=1).value.startswith("1\ta line of some length\n[more")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", range(READ_BYTES - 3, READ_BYTES + 3))
@pytest.mark.parametrize("tail", ["€\n", "€", "\u20ac\U0001f600"])
def test_a_character_at_the_border_of_what_is_looked_at_together_stays_whole(size, tail, run, workspace):
    (workspace / "a.txt").write_text("x\n" + "y" * (size - 2) + tail, encoding="utf-8")
    assert run("read", path="a.txt", limit=1).value.startswith("1\tx\n[more")
    assert run("edit", path="a.txt", oldText="x\n", newText="z\n").kind == "text"
    assert (workspace / "a.txt").read_text(encoding="utf-8").endswith("y" + tail)


def test_a_missing_file_is_reported_as_missing(run):
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
    assert read_text(run, "a.txt") == SENTENCE
    assert read_text(run, "a.txt", offset=2) == "zweite Zeile\n"
    assert run("read", path="a.txt").value.endswith(f"[sha256 {sha256(data)}]")


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


IMAGES = {
    "image/png": b"\x89PNG\r\n\x1a\n\0\0",
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "image/gif": b"GIF89a\1\0\1\0",
    "image/webp": b"RIFF\x24\0\0\0WEBPVP8 ",
}


@pytest.mark.parametrize("kind", IMAGES)
def test_an_image_is_shown_to_the_model(kind, run, workspace):
    (workspace / "a").write_bytes(IMAGES[kind])
    text, image = run("read", path="a").value
    assert text["text"] == f"a: {kind}, {len(IMAGES[kind])} bytes [sha256 {sha256(IMAGES[kind])}]"
    assert image == {"type": "image", "data": base64.b64encode(IMAGES[kind]).decode(), "mimeType": kind}


def test_an_image_has_a_largest_size(run, workspace):
    (workspace / "a.png").write_bytes(IMAGES["image/png"] + bytes(MAX_IMAGE_BYTES))
    said = "a.png is an image of 3,750,010 bytes; one may have 3,750,000. Make it smaller first"
    assert run("read", path="a.png").value == ERROR + said


BINARY = [
    b"a\0b",
    b"\x89PMG\r\n\x1a\n\0\0",
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


def test_a_text_that_would_be_read_as_another_one_is_not_written(run, workspace):
    (workspace / "a.txt").write_bytes("café".encode("latin-1"))
    result = run("edit", path="a.txt", oldText="café", newText="Ã©")
    assert result.value == ERROR + "a.txt is latin-1 text, and would be read as another text than this"
    assert (workspace / "a.txt").read_bytes() == "café".encode("latin-1")


# write


def test_write_says_whether_the_file_is_new(run):
    assert (
        run("write", path="a.txt", content="12345").value == f"Created a.txt: 5 characters [sha256 {sha256('12345')}]"
    )
    assert run("write", path="a.txt", content="1").value == f"Replaced a.txt: 1 character [sha256 {sha256('1')}]"
    assert run("write", path="a.txt", content="").value == f"Replaced a.txt: 0 characters [sha256 {sha256('')}]"


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


def test_an_access_list_stays(run, workspace):
    """Without it the file's group would get the rights of its mask."""
    file = workspace / "a.txt"
    file.write_text("old")
    nobody_else = [(1, 6, -1), (2, 6, 1000), (4, 0, -1), (16, 6, -1), (32, 0, -1)]  # acl(5): tag, rights, whose
    try:
        os.setxattr(file, "system.posix_acl_access", struct.pack("<I" + "HHi" * 5, 2, *chain(*nobody_else)))
    except OSError:
        pytest.skip("the file system has no access lists")
    before = os.getxattr(file, "system.posix_acl_access")
    run("edit", path="a.txt", oldText="old", newText="new")
    assert (file.read_text(), os.getxattr(file, "system.posix_acl_access")) == ("new", before)


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


@given(st.text(min_size=1, max_size=200).filter(lambda text: "\0" not in text and not text.startswith("\ufeff")))
def test_what_was_written_is_read(content):
    with tempfile.TemporaryDirectory() as folder:
        ctx = ToolContext(Path(folder))
        written = REGISTRY.run(ToolCall("1", "write", {"path": "a.txt", "content": content}), ctx)
        assert written.kind == "text"
        assert (Path(folder) / "a.txt").read_bytes() == content.encode()
        shown = REGISTRY.run(ToolCall("2", "read", {"path": "a.txt"}), ctx).value
        numbers = [line.partition("\t")[0] for line in shown.split("\n") if not line.startswith("[")]
        assert numbers == [str(number + 1) for number in range(len(content.split("\n")) - content.endswith("\n"))]


# edit


def test_edit_says_what_it_changed_how_and_where(run, workspace):
    (workspace / "a.txt").write_text("one\ntwo\n")
    assert run("edit", path="a.txt", oldText="two", newText="2").value == (
        f"Changed a.txt: 1 replacement, mode exact, at line 2 [sha256 {sha256('one' + chr(10) + '2' + chr(10))}]\n"
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    )
    assert (workspace / "a.txt").read_text() == "one\n2\n"


def test_each_occurrence_is_replaced_where_that_is_asked_for(run, workspace):
    (workspace / "a.txt").write_text("x\n  x\n")
    result = run("edit", path="a.txt", oldText="x", newText="y", replace_all=True, expected_replacements=2)
    assert result.value.startswith("Changed a.txt: 2 replacements, mode exact, at lines 1, 2 [")
    assert (workspace / "a.txt").read_text() == "y\n  y\n"


def test_the_mode_is_the_first_that_finds_it_or_the_one_given(run, workspace):
    for mode, used in (("auto", "line_trimmed"), ("line_trimmed", "line_trimmed"), ("exact", None)):
        (workspace / "a.txt").write_text("if a:\n    b()\n    c()\n")
        result = run("edit", path="a.txt", oldText="b()\nc()", newText="    d()", match_mode=mode)
        assert (f"1 replacement, mode {used}, at line 2" in result.value) == bool(used)
        assert (result.kind == "text") == bool(used)


def test_a_dry_run_shows_the_same_and_changes_nothing(run, workspace):
    (workspace / "a.txt").write_text("one\n")
    arguments = {"path": "a.txt", "oldText": "one", "newText": "two"}
    dry = run("edit", **arguments, dry_run=True).value
    assert (workspace / "a.txt").read_text() == "one\n"
    assert dry.replace("Would change", "Changed") == run("edit", **arguments).value
    assert run("edit", path="new.txt", oldText="", newText="x", dry_run=True).value.startswith("Would change new.txt")
    assert not (workspace / "new.txt").exists()


def test_an_empty_old_text_creates_the_file_or_replaces_all_of_it(run, workspace):
    assert run("edit", path="sub/a.txt", oldText="", newText="x\n").value.startswith("Changed sub/a.txt: created [")
    assert (workspace / "sub" / "a.txt").read_text() == "x\n"
    (workspace / "a.txt").write_bytes("\ufeffälter\r\nold\r\n".encode("utf-16-le"))
    result = run("edit", path="a.txt", oldText="", newText="neü\n")
    assert result.value.endswith("@@ -1,2 +1 @@\n-älter\n-old\n+neü\n")
    assert (workspace / "a.txt").read_bytes() == "\ufeffneü\r\n".encode("utf-16-le")


def test_equal_texts_are_a_success_that_changes_nothing(run, workspace):
    (workspace / "a.txt").write_text("one\n")
    before = (workspace / "a.txt").stat()
    for text in ("one", "absent", ""):
        result = run("edit", path="a.txt", oldText=text, newText=text)
        assert result.kind == "text"
        assert result.value == "a.txt stays as it is, 0 replacements: oldText and newText are equal"
    after = (workspace / "a.txt").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert run("edit", path="../a.txt", oldText="x", newText="x").kind == "error"


def test_a_file_that_is_not_as_it_was_read_is_refused(run, workspace):
    (workspace / "a.txt").write_text("one\n")
    seen = re.findall(r"\[sha256 (\w+)\]", run("read", path="a.txt").value)[0]
    (workspace / "a.txt").write_text("one\nmore\n")
    result = run("edit", path="a.txt", oldText="one", newText="two", expected_hash=seen)
    assert (result.kind, (workspace / "a.txt").read_text()) == ("error", "one\nmore\n")
    assert "a.txt is not as it was" in result.value
    assert result.value.endswith("Read it again.")
    seen = sha256("one\nmore\n")
    for written in (seen, f"sha256 {seen}", f"sha256:{seen.upper()}"):
        assert (
            run("edit", path="a.txt", oldText="more", newText="more!", expected_hash=written, dry_run=True).kind
            == "text"
        )
    assert run("edit", path="no.txt", oldText="", newText="x", expected_hash=seen).kind == "error"


def test_what_occurs_twice_is_left_as_it_is(run, workspace):
    (workspace / "a.txt").write_text("x\nx\n")
    result = run("edit", path="a.txt", oldText="x", newText="y")
    assert (result.kind, (workspace / "a.txt").read_text()) == ("error", "x\nx\n")


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
def test_a_concurrent_change_is_not_lost(meddle, workspace):
    old = Meddling("one")
    old.file, old.meddle = workspace / "a.txt", meddle
    old.file.write_bytes(b"one\r\n")
    with pytest.raises(ToolError, match="changed meanwhile"):
        REGISTRY["edit"].function("a.txt", old, "two", ToolContext(workspace))
    assert old.file.read_bytes().startswith(b"one\r\n")
    assert [each.name for each in workspace.iterdir()] == ["a.txt"]


# The old content, for an undo


def test_the_earlier_content_is_recorded_before_a_write(run, workspace):
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


# What would be changed, for who is asked to approve it


def preview(name: str, workspace: Path, **arguments) -> str:
    found = REGISTRY.preview(ToolCall("1", name, arguments), ToolContext(workspace))
    return found if isinstance(found, str) else found.text


def test_the_preview_is_the_diff_that_the_call_comes_to(workspace, run):
    (workspace / "a.txt").write_text("one\ntwo\n")
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert preview("edit", workspace, path="a.txt", oldText="two", newText="2") == diff
    assert preview("edit", workspace, path="a.txt", oldText=" two", newText="2", match_mode="line_trimmed") == diff
    assert preview("write", workspace, path="a.txt", content="one\n2\n") == diff
    assert preview("write", workspace, path="b.txt", content="x\n") == "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+x\n"
    assert (workspace / "a.txt").read_text() == "one\ntwo\n"
    assert [each.name for each in workspace.iterdir()] == ["a.txt"]


def test_a_change_that_changes_nothing_has_its_result_without_a_run(workspace):
    (workspace / "a.txt").write_text("one\n")
    assert preview("write", workspace, path="a.txt", content="one\n").startswith("a.txt has this content already")
    same = preview("edit", workspace, path="a.txt", oldText="one", newText="one")
    assert same == "a.txt stays as it is, 0 replacements: oldText and newText are equal"


def test_a_write_of_the_content_that_a_file_has_is_none(workspace, run):
    (workspace / "a.txt").write_text("one\n")
    before = (workspace / "a.txt").stat()
    assert run("write", path="a.txt", content="one\n").value == "a.txt has this content already, so nothing was changed"
    assert (workspace / "a.txt").stat() == before


def test_what_a_write_or_an_edit_changed_is_told_beside_its_text(workspace):
    (workspace / "a.txt").write_text("one\ntwo\n")
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    written = REGISTRY.run(ToolCall("1", "write", {"path": "a.txt", "content": "one\n2\n"}), ToolContext(workspace))
    assert written.diff == diff
    assert diff not in written.text
    back = {"path": "a.txt", "oldText": "2", "newText": "two"}
    edited = REGISTRY.run(ToolCall("1", "edit", back), ToolContext(workspace))
    assert edited.diff.endswith("@@ -1,2 +1,2 @@\n one\n-2\n+two\n")


def test_the_preview_of_an_impossible_change_is_the_error_of_the_change(workspace, run):
    calls = (("edit", {"path": "a.txt", "oldText": "two", "newText": "2"}), ("write", {"path": "../a", "content": "x"}))
    for name, arguments in calls:
        found = REGISTRY.preview(ToolCall("1", name, arguments), ToolContext(workspace))
        assert found.kind == "error"
        assert found == REGISTRY.run(ToolCall("1", name, arguments), ToolContext(workspace))


def test_of_a_binary_file_the_preview_says_what_is_lost(workspace):
    (workspace / "a.bin").write_bytes(b"\0" * 2_000)
    assert (
        preview("write", workspace, path="a.bin", content="x")
        == "a.bin is a binary file of 2,000 bytes, replaced by:\nx"
    )
