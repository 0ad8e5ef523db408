"""The name of a file is shown on one line, with written escapes, at every door."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.cli.chat.input.approve import TerminalApprover
from src.cli.chat.input.completion import complete
from src.cli.chat.slash.table import find_command
from src.cli.chat.state import State
from src.cli.mentions import read_mentions
from src.cli.render.diff import draw_file_diff
from src.cli.render.plain import PlainScreen, format_call
from src.cli.tracing.debug import Debug
from src.config import Settings
from src.security.permissions.approval import Request
from src.security.permissions.policy import Policy
from src.security.sandbox.leftovers import SetAside
from src.session.store import Store
from src.tools import REGISTRY, ToolContext
from src.tools.fs.diff import make_diff
from src.types.events import Notice
from src.types.file_names import escape_name, read_name
from src.types.messages import SystemMessage, ToolCall, UserMessage
from tests.security.sandbox.conftest import KINDS, PATH, make_runner

NAME = "a\nb\x1b]0;title\x07\u202e.txt"
SHOWN = "a\\nb\\x1b]0;title\\x07\\u202e.txt"


@given(st.text())
def test_a_name_is_one_printable_line_and_can_be_read_back(name):
    shown = escape_name(name)
    assert shown.isprintable()
    if shown != name:
        assert read_name(shown) == name


def test_an_ordinary_name_stays_as_it_is():
    for name in ("src/main.py", "Grüße.md", "a b", r"back\slash"):
        assert escape_name(name) == name


def call_tool(root: Path, tool: str, **arguments) -> str:
    return REGISTRY.run(ToolCall("1", tool, arguments), ToolContext(workspace=root)).text


def show_request(root: Path, tool: str, **arguments) -> str:
    """What the user is asked."""
    shown: list[str] = []
    call = ToolCall("1", tool, arguments)
    preview = REGISTRY.preview(call, ToolContext(workspace=root))
    decision = Policy(root).decide(call, "high")
    terminal = TerminalApprover(lambda _question, _default: "n", shown.append)
    terminal.approve(Request(call, decision.reason, lambda _: "", preview=preview))
    return "\n".join(shown)


def make_state(root: Path) -> State:
    screen = PlainScreen(io.StringIO(), io.StringIO(), thoughts=False, styled=False)
    return State(Settings(root=root), screen, Debug(0), lambda _: None, "tiny", Store(root.parent / "state"))


def undo(root: Path, *, drop: bool) -> str:
    """What `/undo` says of the file, which is restored or left alone."""
    state = make_state(root)
    session = state.session
    session.messages.append(UserMessage("change it"))
    list(session.follow(item for item in ()))
    session.record_write(NAME, (root / NAME).read_bytes())
    if drop:
        (root / NAME).unlink()
    else:
        (root / NAME).write_text("changed")
    list(session.follow(item for item in (Notice("x"),)))
    find_command("/undo").run(state, "")
    return state.screen._aside.getvalue()


def resume_elsewhere(root: Path) -> str:
    store = Store(root.parent / "state")
    session = store.create([SystemMessage("x")], root / NAME, {"workspace": f"/{NAME}"})
    session.messages.append(UserMessage("hi"))
    list(session.follow(item for item in (Notice("x"),)))
    session.close()
    return "\n".join(store.resume(session.id, [SystemMessage("x")], root)[1])


DOORS = {
    "glob": lambda root: call_tool(root, "glob", pattern="*"),
    "grep": lambda root: call_tool(root, "grep", pattern="hello"),
    "read, an error": lambda root: call_tool(root, "read", path=f"no/{NAME}"),
    "read, no such line": lambda root: call_tool(root, "read", path=NAME, offset=99),
    "read, a folder": lambda root: call_tool(root, "read", path=f"folder {NAME}"),
    "read, a binary file": lambda root: call_tool(root, "read", path=f"binary {NAME}"),
    "read, outside": lambda root: call_tool(root, "read", path=f"../{NAME}"),
    "write": lambda root: call_tool(root, "write", path=NAME, content="x\n"),
    "edit": lambda root: call_tool(root, "edit", path=NAME, oldText="hello", newText="bye"),
    "edit, dry": lambda root: call_tool(root, "edit", path=NAME, oldText="hello", newText="bye", dry_run=True),
    "edit, nothing to do": lambda root: call_tool(root, "edit", path=NAME, oldText="hello", newText="hello"),
    "edit, another hash": lambda root: call_tool(
        root, "edit", path=NAME, oldText="hello", newText="x", expected_hash="0"
    ),
    "edit, no such file": lambda root: call_tool(root, "edit", path=f"no {NAME}", oldText="hello", newText="x"),
    "write, protected": lambda root: call_tool(root, "write", path=f".git/{NAME}", content="x"),
    "a diff": lambda _root: make_diff(NAME, "a\n", "b\n"),
    "a diff of the chat": lambda _root: "\n".join(draw_file_diff(NAME, b"a\n", b"b\n")),
    "a diff of what is no text": lambda _root: "\n".join(draw_file_diff(NAME, b"\xff", b"b\n")),
    "a question about an edit": lambda root: show_request(root, "edit", path=NAME, oldText="hello", newText="bye"),
    "a question about a new file": lambda root: show_request(root, "write", path=f"new {NAME}", content="x"),
    "a question about a file that runs by itself": lambda root: (
        Policy(root, mode="edits")
        .decide(ToolCall("1", "write", {"path": f"{NAME}/.envrc", "content": ""}), "high")
        .reason
    ),
    "a refusal": lambda root: Policy(root).decide(ToolCall("1", "read", {"path": f"../{NAME}"}), "low").reason,
    "the line of a call": lambda _root: format_call(ToolCall("1", "read", {"path": NAME})),
    "a completion": lambda root: "\n".join(each.text for each in complete("@a", make_state(root))),
    "a mention of a folder": lambda root: read_mentions("@.", root).text,
    "a mention": lambda root: read_mentions(f'@"{SHOWN}"', root).text,
    "what was set aside": lambda _root: str(SetAside(NAME, Path("x"), "a hook")),
    "/undo, restored": lambda root: undo(root, drop=False),
    "/undo, gone": lambda root: undo(root, drop=True),
    "--resume elsewhere": resume_elsewhere,
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_shows_a_name_with_escapes(door, tmp_path):
    root = tmp_path / "work"
    root.mkdir()
    (root / NAME).write_text("hello\n")
    (root / f"folder {NAME}").mkdir()
    (root / f"binary {NAME}").write_bytes(b"\0\xff")
    shown = DOORS[door](root)
    assert SHOWN in shown or json.dumps(NAME)[1:-1] in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "a\nb" not in shown


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_command_left_is_named_with_escapes(kind, tmp_path):
    (tmp_path / "ws").mkdir()
    run = make_runner(kind, tmp_path / "ws", {"PATH": PATH, "HOME": str(tmp_path)})
    shown = run(r"""d=$'a\nb\e]0;title\a\xe2\x80\xae.txt'; mkdir "$d"; echo x > "$d/.envrc"; echo done""")
    assert SHOWN in shown
    assert shown.splitlines()[0] == "done"
    assert len(shown.splitlines()) == 2
