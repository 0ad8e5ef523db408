"""A link that is swapped between the decision on a call and its run leads to no file that was not judged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from src.agent.dispatch import ToolDispatcher, TurnCalls
from src.agent.permission import PermissionGate
from src.security.permissions.approval import Answer, Request
from src.security.permissions.policy import Policy
from src.security.permissions.rules import parse_rules
from src.tools import REGISTRY, ToolContext
from src.types.messages import ToolCall, ToolResult
from tests.doubles import perform
from tests.thorough import only_thorough

SECRET = "hunter22"
RULES = parse_rules(
    [{"tool": "*", "path": ".env", "action": "deny"}, {"tool": "*", "path": "/private/", "action": "deny"}]
)
CHANGED = "it changed meanwhile, or is a circle of links: a link is in its place or on the way to it"
YES = Answer(True)
ROUNDS = 150


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """`link` leads to ok.txt and `folder` to harmless; beside them is what the rules deny."""
    top = tmp_path / "workspace"
    for name in ("harmless", "private"):
        (top / name).mkdir(parents=True)
    (top / ".env").write_text(SECRET)
    (top / "private" / "notes").write_text(SECRET)
    (top / "ok.txt").write_text("fine")
    (top / "harmless" / "notes").write_text("fine")
    make_link(top / "link", "ok.txt")
    make_link(top / "folder", "harmless")
    return top


def make_link(link: Path, target: str) -> None:
    """Make it a link that leads there, in one step."""
    new = link.with_name(f"{link.name}.new")
    new.symlink_to(target)
    new.replace(link)


def swap_links(workspace: Path) -> None:
    make_link(workspace / "link", ".env")
    make_link(workspace / "folder", "private")


def swap_files(workspace: Path) -> None:
    make_link(workspace / "ok.txt", ".env")
    (workspace / "harmless").rename(workspace / "away")
    make_link(workspace / "harmless", "private")


class SwappingApprover:
    """Swaps links while the user is asked."""

    def __init__(self, swap: Callable[[], None], answer: Answer) -> None:
        self._swap = swap
        self._answer = answer
        self.asked: list[Request] = []

    def approve(self, request: Request) -> Answer:
        self.asked.append(request)
        self._swap()
        return self._answer


def run(
    workspace: Path,
    *calls: tuple[str, dict],
    swap: Callable[[Path], None] = swap_links,
    answer: Answer = YES,
    max_parallel: int = 1,
) -> Sequence[ToolResult]:
    """The results of an answer's calls. `swap` runs where a call of that name does, and while the user is asked."""
    approver = SwappingApprover(lambda: swap(workspace), answer)
    registry = REGISTRY.without()
    registry.tool(name="swap", description="Swap.", risk="low")(lambda: swap(workspace))
    policy = Policy(workspace, rules=RULES)
    turn = TurnCalls([ToolCall(str(place), name, arguments) for place, (name, arguments) in enumerate(calls)])
    dispatcher = ToolDispatcher(registry, PermissionGate(registry, approver, policy, None), max_parallel)
    with ToolContext(workspace).rewire(can_show=policy.can_show).for_run() as ctx:
        for _ in perform(dispatcher.run(turn, ctx)):
            pass
    return turn.settle().results


READS = [
    ("read", {"path": "link"}),
    ("read", {"path": "folder/notes"}),
    ("grep", {"path": "link", "pattern": "."}),
    ("grep", {"path": "folder", "pattern": "."}),
    ("glob", {"path": "folder", "pattern": "*"}),
]
each_read = pytest.mark.parametrize("call", READS, ids=[f"{name} {given['path']}" for name, given in READS])


class TestASwapBeforeTheRun:
    @each_read
    def test_shows_what_was_judged(self, call, workspace):
        (before,) = run(workspace, call)
        _, after = run(workspace, ("swap", {}), call)
        assert after.value == before.value
        assert SECRET not in str(after.value)

    @pytest.mark.parametrize(("path", "name"), [("link", "link"), ("folder/notes", "folder/notes")])
    def test_of_the_judged_file_is_an_error_that_says_so(self, path, name, workspace):
        _, result = run(workspace, ("swap", {}), ("read", {"path": path}), swap=swap_files)
        assert result.value.startswith(f"Error executing tool: {name}: {CHANGED}")

    def test_shows_a_searching_tool_nothing_else(self, workspace):
        for call in (each for each in READS if each[0] != "read"):
            _, result = run(workspace, ("swap", {}), call, swap=swap_files)
            assert SECRET not in str(result.value)


class TestASwapWhileTheUserIsAsked:
    def test_has_the_judged_file_written(self, workspace):
        (result,) = run(workspace, ("write", {"path": "link", "content": "new"}))
        assert result.kind == "text"
        assert (workspace / ".env").read_text() == SECRET
        assert (workspace / "ok.txt").read_text() == "new"

    def test_has_the_judged_file_edited(self, workspace):
        (result,) = run(workspace, ("edit", {"path": "folder/notes", "oldText": "fine", "newText": "new"}))
        assert result.kind == "text"
        assert (workspace / "private" / "notes").read_text() == SECRET
        assert (workspace / "harmless" / "notes").read_text() == "new"

    @pytest.mark.parametrize("path", ["ok.txt", "harmless/notes", "harmless/new/file"])
    def test_of_the_judged_file_writes_nothing(self, path, workspace):
        (result,) = run(workspace, ("write", {"path": path, "content": "new"}), swap=swap_files)
        assert result.value == f"Error executing tool: {path}: {CHANGED}"
        assert (workspace / ".env").read_text() == SECRET
        assert [each.name for each in (workspace / "private").iterdir()] == ["notes"]

    def test_has_arguments_that_the_user_changed_judged_anew(self, workspace):
        answer = Answer(True, arguments={"path": "link", "content": "new"})
        (result,) = run(workspace, ("write", {"path": "other.txt", "content": "new"}), answer=answer)
        assert result.value.startswith("Not run: the user changed the arguments: a rule denies it")
        assert (workspace / ".env").read_text() == SECRET


def test_a_rule_that_the_user_adds_names_the_judged_file(workspace):
    policy = Policy(workspace, rules=RULES)
    call = ToolCall("1", "write", {"path": "link", "content": "new"})
    decision = policy.decide(call, "high")
    swap_links(workspace)
    assert policy.find_always_rule(replace(call, real_path=decision.real_path)).path == "/ok.txt"


@only_thorough
def test_a_link_that_a_thread_swaps_never_shows_what_a_rule_denies(workspace):
    has_ended = threading.Event()

    def swap_forever() -> None:
        while not has_ended.is_set():
            swap_links(workspace)
            make_link(workspace / "link", "ok.txt")
            make_link(workspace / "folder", "harmless")

    thread = threading.Thread(target=swap_forever)
    thread.start()
    try:
        results = [result for _ in range(ROUNDS) for result in run(workspace, *READS, max_parallel=2)]
    finally:
        has_ended.set()
        thread.join()
    assert [each.value for each in results if SECRET in str(each.value)] == []
