"""Reading on in an output that was cut, and searching it."""

from __future__ import annotations

import re

import pytest

from src.tools.sdk.output_store import Outputs
from src.tools.sdk.result import MAX_SHOWN_BYTES

ERROR = "Error executing tool: "


@pytest.fixture
def store(tmp_path):
    return Outputs(tmp_path / "outputs")


def test_reading_on_as_the_note_says_shows_every_line_once(run, store):
    kept = {"outputs": store, "exec_max_output": 10**7}
    first = run("exec", kept, command="seq 1 30000")
    shown, _, note = first.value.partition("[cut: ")
    lines = shown.splitlines()
    ref, offset = re.findall(r'tool_output_cache\(ref_id="(\w+)", offset=(\d+)\)', note)[0]
    while offset:
        value = run("tool_output_cache", kept, ref_id=ref, offset=int(offset)).value
        assert len(value) < MAX_SHOWN_BYTES
        lines += [line.partition("\t")[2] for line in value.splitlines() if not line.startswith("[")]
        offset = (re.findall(r"read on with offset=(\d+)", value) or [""])[0]
    assert lines == [*map(str, range(1, 30_001)), "[exit code 0]"]


def test_some_lines_are_shown(run, store):
    ref = store.put("one\ntwo\nthree\n")
    kept = {"outputs": store}
    assert run("tool_output_cache", kept, ref_id=ref).value == "1\tone\n2\ttwo\n3\tthree\n"
    shown = run("tool_output_cache", kept, ref_id=ref, offset=2, limit=1).value
    assert shown == "2\ttwo\n[more lines follow; read on with offset=3]"
    assert (
        run("tool_output_cache", kept, ref_id=ref, offset=9).value
        == f"{ERROR}output {ref} has no line 9: its last is 3"
    )
    assert run("tool_output_cache", kept, ref_id=store.put("")).value == "[the output is empty]"


def test_of_a_long_line_a_part_is_shown(run, store):
    line = "".join(f"{number:05}" for number in range(4_000))
    ref = store.put(f"one\n{line}\nthree ä€😀")

    def read(number, name="tool_output_cache", **window):
        return run(name, {"outputs": store}, ref_id=ref, line=number, **window).value

    assert read(1) == read(1, "tool_output_cache_line") == "one"
    assert read(3, offset=7, limit=2) == "ä€\n[more characters follow; read on with line=3, offset=9]"
    shown, offset = "", 1
    while offset:
        value = read(2, offset=offset)
        shown += value.partition("\n")[0]
        offset = int((re.findall(r"read on with line=2, offset=(\d+)", value) or ["0"])[0])
    assert shown == line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"line": 4}, "output {ref} has no line 4: its last is 3"),
        ({"line": 1, "offset": 9}, "line 1 of output {ref} has no character 9"),
        ({"line": -1}, "offset and limit count from 1"),
        ({"line": 1, "offset": 0}, "offset and limit count from 1"),
    ],
)
def test_a_part_that_is_not_there_is_an_error(run, store, arguments, said):
    ref = store.put("one\ntwo\nthree")
    value = run("tool_output_cache", {"outputs": store}, ref_id=ref, **arguments).value
    assert value == ERROR + said.format(ref=ref)


def test_it_is_searched_literally_or_by_an_expression(run, store):
    ref = store.put("a.b\naxb\nnone\na.b\n")
    kept = {"outputs": store, "ref_id": ref}
    settings, arguments = {"outputs": store}, {"ref_id": kept["ref_id"], "pattern": "a.b"}
    assert run("tool_output_cache_grep", settings, **arguments).value == "1:a.b\n4:a.b"
    assert run("tool_output_cache_grep", settings, **arguments, regex=True).value == "1:a.b\n2:axb\n4:a.b"
    assert run("tool_output_cache_grep", settings, **arguments, before=1).value == "1:a.b\n--\n3-none\n4:a.b"
    assert run("tool_output_cache_grep", settings, **arguments, after=1, max_matches=1).value == (
        "1:a.b\n2-axb\n[there are more than 1 matches]"
    )
    assert run("tool_output_cache_grep", settings, ref_id=ref, pattern="zzz").value == "[no line matches]"


@pytest.mark.parametrize("name", ["tool_output_cache", "tool_output_cache_grep"])
def test_a_wrong_reference_is_reported(name, run, store):
    more = {"pattern": "x"} if name.endswith("grep") else {}
    assert "is not a reference" in run(name, {"outputs": store}, ref_id="../x", **more).value
    assert "no output o00000000 any more" in run(name, {"outputs": store}, ref_id="o00000000", **more).value
    assert run(name, ref_id="o00000000", **more).value == ERROR + "no outputs are kept here"
