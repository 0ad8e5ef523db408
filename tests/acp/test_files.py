"""Files that an editor has open: the tools read and write what it holds, and undo does, too."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("acp", reason="the SDK of editors is not installed: pip install agent-client-protocol")

from acp import RequestError, text_block
from acp.schema import ClientCapabilities, FileSystemCapabilities, ReadTextFileResponse
from hypothesis import given
from hypothesis import strategies as st

from src.acp import files
from src.acp.files import EditorFiles
from src.acp.greeting import PROTOCOL_VERSION
from src.errors import ToolError
from src.tools import REGISTRY, ToolContext
from src.tools.fs.encoding import ENCODINGS, Encoding, decode
from src.tools.fs.paths import make_target
from src.tools.fs.text_files import DISK, TextFiles
from tests.doubles import ScriptedServer
from tests.thorough import sample, take_turns

from .editing import Editor, make_settings, open_program, run
from .test_agent import PNG, calls, says

Prompt = Callable[[str], Awaitable[Any]]


class Buffers(Editor):
    """An editor with its own files, which allows everything. `saves`: what is written is on the disk at once."""

    def __init__(self, *, saves: bool = True, reads: bool = True, writes: bool = True) -> None:
        super().__init__()
        self.saves = saves
        self.abilities = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=reads, write_text_file=writes))

    def ask(self, folder: Path, *turns: list[dict], prompts: tuple[str, ...] = ("Go",)) -> list[str]:
        """Put these prompts to the scripted model. Returns the results that it was given."""

        async def work(url: str) -> None:
            async with open_program(make_settings(url), self) as client:
                await client.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=self.abilities)
                session = await client.new_session(cwd=str(folder))
                for prompt in prompts:
                    await client.prompt(session_id=session.session_id, prompt=[text_block(prompt)])

        with ScriptedServer(*turns) as server:
            run(work(server.url))
            sent = [message for request in server.requests for message in request["messages"]]
        return list(dict.fromkeys(message["content"] for message in sent if message["role"] == "tool"))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_read_gives_what_is_not_saved(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("saved\n")
    editor = Buffers()
    editor.buffers[str(file)] = "not saved\n"
    (result,) = editor.ask(tmp_path, calls("read", path="a.txt"), says("Done."))
    assert result == f"1\tnot saved\n[sha256 {digest(b'not saved' + bytes([10]))}]"


def test_an_edit_matches_what_is_not_saved_and_goes_to_the_editor(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("saved\n")
    editor = Buffers(saves=False)
    editor.buffers[str(file)] = "not saved\n"
    (result,) = editor.ask(tmp_path, calls("edit", path="a.txt", oldText="not", newText="never"), says("Done."))
    assert "1 replacement" in result
    assert editor.buffers[str(file)] == "never saved\n"
    assert file.read_text() == "saved\n"


def test_a_new_file_is_written_by_the_editor_in_a_new_folder(tmp_path):
    editor = Buffers()
    editor.ask(tmp_path, calls("write", path="new/a.txt", content="x\n"), says("Done."))
    assert editor.written == [str(tmp_path / "new" / "a.txt")]
    assert (tmp_path / "new" / "a.txt").read_text() == "x\n"


def test_the_diff_of_a_write_begins_with_what_is_not_saved(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("saved\n")
    editor = Buffers()
    editor.buffers[str(file)] = "not saved\n"
    editor.ask(tmp_path, calls("write", path="a.txt", content="new\n"), says("Done."))
    call, _ = editor.asked[0]
    assert (call.content[0].old_text, call.content[0].new_text) == ("not saved\n", "new\n")


def test_a_file_of_a_further_folder_goes_through_the_editor_and_is_undone(tmp_path):
    folder, further = tmp_path / "work", tmp_path / "further"
    folder.mkdir()
    further.mkdir()
    file = further / "a.txt"
    file.write_text("saved\n")
    editor = Buffers()
    editor.buffers[str(file)] = "not saved\n"

    async def work(url: str) -> None:
        async with open_program(make_settings(url), editor) as client:
            await client.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=editor.abilities)
            session = await client.new_session(cwd=str(folder), additional_directories=[str(further)])
            await client.prompt(session_id=session.session_id, prompt=[text_block("Go")])
            assert editor.buffers[str(file)] == "never saved\n"
            await client.prompt(session_id=session.session_id, prompt=[text_block("/undo")])

    with ScriptedServer(calls("edit", path=str(file), oldText="not", newText="never"), says("Done.")) as server:
        run(work(server.url))
    assert editor.buffers[str(file)] == "not saved\n"


def test_a_link_leads_the_editor_to_the_file_that_was_decided_on(tmp_path):
    (tmp_path / "real.txt").write_text("x\n")
    (tmp_path / "link.txt").symlink_to("real.txt")
    editor = Buffers()
    editor.ask(tmp_path, calls("read", path="link.txt"), says("Done."))
    assert editor.read == [str(tmp_path / "real.txt")]


@pytest.mark.parametrize("path", ["../out.txt", "out.txt", "secret.txt", ".git/config"])
def test_what_the_policy_does_not_let_the_model_have_is_not_asked_for(path, tmp_path):
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text("x\n")
    (folder / "secret.txt").write_text("x\n")
    (tmp_path / "out.txt").write_text("x\n")
    (folder / "out.txt").symlink_to(tmp_path / "out.txt")
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"security": {"rules": [{"tool": "*", "action": "deny", "path": "secret.txt"}]}}))
    editor = Buffers()

    async def work(url: str) -> None:
        async with open_program(make_settings(url, settings), editor) as client:
            await client.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=editor.abilities)
            session = await client.new_session(cwd=str(folder))
            await client.prompt(session_id=session.session_id, prompt=[text_block("Go")])

    tool = calls("edit", path=path, oldText="", newText="y") if "git" in path else calls("read", path=path)
    with ScriptedServer(tool, says("Done.")) as server:
        run(work(server.url))
    assert (editor.read, editor.written) == ([], [])
    assert [shown["status"] for shown in editor.updates if shown.get("status") in ("completed", "failed")] == ["failed"]


def test_an_image_and_a_binary_file_are_read_from_the_disk(tmp_path):
    import base64

    (tmp_path / "a.png").write_bytes(base64.b64decode(PNG))
    (tmp_path / "a.bin").write_bytes(b"\0\1\2")
    editor = Buffers()
    results = editor.ask(tmp_path, calls("read", path="a.png"), calls("read", path="a.bin"), says("Done."))
    assert "image/png" in results[0]
    assert "a.bin is a binary file" in results[1]
    assert editor.read == []


def test_an_editor_that_only_reads_is_not_asked(tmp_path):
    (tmp_path / "a.txt").write_text("saved\n")
    editor = Buffers(writes=False)
    editor.buffers[str(tmp_path / "a.txt")] = "not saved\n"
    (result,) = editor.ask(tmp_path, calls("read", path="a.txt"), says("Done."))
    assert result.startswith("1\tsaved")


# The rules of the disk hold for the editor's text


def test_lines_are_counted_in_what_the_editor_has(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    editor = Buffers()
    editor.buffers[str(tmp_path / "a.txt")] = "one\ntwo\nthree"
    results = editor.ask(
        tmp_path,
        calls("read", path="a.txt", offset=2, limit=1),
        calls("read", path="a.txt", offset=-1),
        says("Done."),
    )
    assert results[0].startswith("2\ttwo\n[more lines follow; read on with offset=3]")
    assert results[1].startswith("3\tthree\n[no newline at the end]")


KEPT = [
    (b"a\r\nb\r\n", "a\r\nb\r\n", "a\r\nc\r\nd\r\n"),  # as it is
    (b"a\r\nb\r\n", "a\nb\n", "a\nc\nd\n"),  # an editor that keeps line ends for itself
    (b"a\nb", "a\nb", "a\nc\nd"),
    ("\ufeffa\nb\n".encode(), "a\nb\n", "a\nc\nd\n"),
    ("\ufeffa\nb\n".encode(), "\ufeffa\nb\n", "\ufeffa\nc\nd\n"),
    ("\ufeffä\nb\n".encode("utf-16-le"), "ä\nb\n", "ä\nc\nd\n"),
    ("ä\nb\n".encode("latin-1"), "ä\nb\n", "ä\nc\nd\n"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("on_disk", "held", "expected"), sample(KEPT, 2, 1))
def test_an_edit_keeps_what_it_does_not_change(on_disk, held, expected, tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(on_disk)
    editor = Buffers(saves=False)
    editor.buffers[str(file)] = held
    editor.ask(tmp_path, calls("edit", path="a.txt", oldText="b", newText="c\nd"), says("Done."))
    assert editor.buffers[str(file)] == expected


def test_a_character_that_the_files_encoding_lacks_is_an_error(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes("ä\n".encode("latin-1"))
    editor = Buffers()
    editor.buffers[str(file)] = "ä €\n"
    (result,) = editor.ask(tmp_path, calls("read", path="a.txt"), says("Done."))
    assert "latin-1 text, and in the editor it holds '\\u20ac'" in json.loads(result)["error"]


class Saved:
    """An editor that holds its files as they are saved, in their encoding; in place of Editor of src/acp."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self.client = self

    async def read_text_file(self, session_id: str, path: str) -> ReadTextFileResponse:
        text, self.encoding = decode(path, Path(path).read_bytes())
        return ReadTextFileResponse(content=text)

    async def write_text_file(self, session_id: str, path: str, content: str) -> None:
        Path(path).write_bytes(self.encoding.bom + content.encode(self.encoding.codec))

    def ask(self, work: Coroutine[Any, Any, Any], cancelled: threading.Event, timeout: float) -> Any:
        return asyncio.run(work)


def call_tool(name: str, folder: Path, disk_or_editor: TextFiles, arguments: dict[str, Any]) -> str:
    """The result, or the error, and what the file holds then."""
    result = REGISTRY[name].execute(arguments, ToolContext(folder).rewire(files=disk_or_editor))
    return f"{result}\n{(folder / 'a.txt').read_bytes()!r}"


LINES = st.lists(st.sampled_from(["a", "b", " a", "ä", "", "b b"]), min_size=1, max_size=6)


@given(
    lines=LINES,
    end=st.sampled_from(["\n", "\r\n"]),
    is_ended=st.booleans(),
    encoding=st.sampled_from(ENCODINGS),
    old=st.sampled_from(["a", "b", "ä", "a\nb", "b b"]),
    new=st.sampled_from(["c", "c\nd", "", "€"]),
    offset=st.integers(-3, 7),
)
def test_an_editor_that_holds_what_is_saved_makes_no_difference(
    tmp_path_factory, lines, end, is_ended, encoding, old, new, offset
):
    content = encoding.bom + (end.join(lines) + end * is_ended).encode(encoding.codec)
    told = []
    for files_of in (lambda: DISK, lambda: EditorFiles(Saved(encoding), "s", 10**6, threading.Event())):
        folder = tmp_path_factory.mktemp("work")
        (folder / "a.txt").write_bytes(content)
        told.append(
            [
                call_tool("read", folder, files_of(), {"path": "a.txt", "offset": offset}),
                call_tool("edit", folder, files_of(), {"path": "a.txt", "oldText": old, "newText": new}),
                call_tool("read", folder, files_of(), {"path": "a.txt"}),
            ]
        )
    assert told[0] == told[1]


# An editor that fails


class Failing(Buffers):
    """An editor whose files cannot be used: `how` raises, or waits."""

    def __init__(self, how: Callable[[], Awaitable[None]], *, only_writing: bool) -> None:
        super().__init__()
        self._how = how
        self._only_writing = only_writing

    async def read_text_file(self, session_id: str, path: str, **rest: Any) -> Any:
        if not self._only_writing:
            await self._how()
        return await super().read_text_file(session_id, path, **rest)

    async def write_text_file(self, session_id: str, path: str, content: str, **rest: Any) -> None:
        await self._how()


async def refuse() -> None:
    raise RequestError(-32603, "the buffer is locked")


async def hang() -> None:
    await asyncio.Event().wait()


NOT_DONE = [
    ("read", {"path": "a.txt"}, "read"),
    ("write", {"path": "new/a.txt", "content": "x"}, "written"),
    ("write", {"path": "a.txt", "content": "x"}, "written"),
    ("edit", {"path": "a.txt", "oldText": "old", "newText": "x"}, "written"),
]
FAILURES = [(refuse, "the buffer is locked"), (hang, "it took longer than 0.2 s")]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("how", "why", "name", "arguments", "done"), [(*failure, *row) for row, failure in take_turns(NOT_DONE, FAILURES)]
)
def test_the_result_says_what_the_editor_did_not_do_and_the_disk_stays(
    how, why, name, arguments, done, tmp_path, monkeypatch
):
    monkeypatch.setattr(files, "ANSWER_TIMEOUT_S", 0.2)
    (tmp_path / "a.txt").write_text("old\n")
    editor = Failing(how, only_writing=done == "written")
    (result,) = editor.ask(tmp_path, calls(name, **arguments), says("Done."))
    assert f"{arguments['path']} could not be {done} by the editor: {why}" in result
    assert (files.MAY_FOLLOW in result) is (how is hang and done == "written")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.txt", "old\n")]


def test_a_buffer_that_changed_since_it_was_read_is_not_overwritten(tmp_path):
    class Typing(Buffers):
        async def read_text_file(self, session_id: str, path: str, **rest: Any) -> Any:
            answer = await super().read_text_file(session_id, path, **rest)
            self.buffers[path] = answer.content + "typed\n"
            return answer

    (tmp_path / "a.txt").write_text("old\n")
    editor = Typing()
    (result,) = editor.ask(tmp_path, calls("edit", path="a.txt", oldText="old", newText="new"), says("Done."))
    assert "a.txt was changed meanwhile" in result
    assert editor.written == []


# Undo


@pytest.mark.parametrize("saves", [True, False])
def test_undo_and_redo_go_through_the_editor(saves, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("saved\n")
    held = []

    class Noting(Buffers):
        async def write_text_file(self, session_id: str, path: str, content: str, **rest: Any) -> None:
            await super().write_text_file(session_id, path, content, **rest)
            held.append(content)

    editor = Noting(saves=saves)
    editor.buffers[str(file)] = "not saved\n"
    editor.ask(
        tmp_path,
        calls("edit", path="a.txt", oldText="not", newText="never"),
        says("Done."),
        prompts=("Go", "/undo", "/redo", "/undo", "/undo"),
    )
    assert held == ["never saved\n", "not saved\n", "never saved\n", "not saved\n"]
    told = editor.join_text()
    assert told.count("Undone: Go\n  restored a.txt") == 2
    assert "Done again: Go\n  restored a.txt" in told
    assert told.rstrip("\n`").endswith("There is nothing to undo.")


def test_undo_leaves_what_was_typed_since(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("old\n")
    editor = Buffers(saves=False)

    def type_more(shown: dict[str, Any]) -> None:
        if shown["sessionUpdate"] == "agent_message_chunk" and shown["content"]["text"] == "Done.":
            editor.buffers[str(file)] += "typed\n"

    editor.watch = type_more
    editor.ask(
        tmp_path,
        calls("edit", path="a.txt", oldText="old", newText="new"),
        says("Done."),
        prompts=("Go", "/undo"),
    )
    assert editor.buffers[str(file)] == "new\ntyped\n"
    assert "! left a.txt alone: it has been changed since" in editor.join_text()


def test_undo_removes_a_file_that_a_call_made(tmp_path):
    editor = Buffers()
    editor.ask(tmp_path, calls("write", path="a.txt", content="x\n"), says("Done."), prompts=("Go", "/undo"))
    assert not (tmp_path / "a.txt").exists()
    assert "removed a.txt" in editor.join_text()


def test_a_wrong_number_of_turns_is_an_error_that_says_what_is_right(tmp_path):
    async def work(url: str) -> None:
        async with open_program(make_settings(url), Editor()) as client:
            session = await client.new_session(cwd=str(tmp_path))
            with pytest.raises(RequestError, match="x is not a number of turns"):
                await client.prompt(session_id=session.session_id, prompt=[text_block("/undo x")])

    with ScriptedServer(says("Hi")) as server:
        run(work(server.url))


# An editor follows links


class Following:
    """An editor on whose side a link stands in the file's place: it opens another file."""

    def __init__(self, other: Path) -> None:
        self.other = other

    @property
    def client(self) -> Any:
        return self

    def read_text_file(self, session_id: str, path: str) -> Any:
        return ReadTextFileResponse(content=self.other.read_text())

    def write_text_file(self, session_id: str, path: str, text: str) -> None:
        self.other.write_text(text)

    def ask(self, answer: Any, *_: object) -> Any:
        return answer


@pytest.fixture
def followed(tmp_path: Path) -> EditorFiles:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("mine\n")
    (tmp_path / "other").write_text("CANARY\n")
    return EditorFiles(Following(tmp_path / "other"), "s", 10**6, threading.Event(), lambda: True)  # type: ignore[arg-type]


def test_while_a_command_runs_no_text_of_another_file_is_read(followed, tmp_path):
    with pytest.raises(ToolError, match="not saved in the editor, or changes, while a command runs"):
        followed.open(make_target("a.txt", tmp_path / "work", "a.txt"))


@pytest.mark.parametrize("name", ["a.txt", "new.txt"])
def test_while_a_command_runs_the_disk_is_written_and_no_other_file(followed, tmp_path, name):
    (tmp_path / "other").write_text("mine\n")
    followed.replace(make_target(name, tmp_path / "work", name), b"changed\n", ())
    assert (tmp_path / "work" / name).read_text() == "changed\n"
    assert (tmp_path / "other").read_text() == "mine\n"


def test_while_a_command_runs_in_the_background_only_what_is_saved_is_read(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("saved\n")
    editor = Buffers()
    editor.buffers[str(tmp_path / "a.txt")] = "not saved\n"
    results = editor.ask(
        tmp_path,
        calls("exec", command="tail -f /dev/null", background=True),
        calls("read", path="a.txt"),
        calls("read", path="b.txt"),
        says("Done."),
    )
    assert "a.txt is not saved in the editor" in results[1]
    assert results[2].startswith("1\tsaved")
