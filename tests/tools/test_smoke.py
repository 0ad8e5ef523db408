from pathlib import Path

from src.messages import ToolCall
from src.tools import REGISTRY, ToolContext


def test_the_four_tools_run_in_a_workspace(tmp_path: Path):
    ctx = ToolContext(tmp_path)

    def run(name, **arguments):
        return REGISTRY.run(ToolCall("1", name, arguments), ctx)

    assert run("write", path="a.txt", content="one\n").kind == "text"
    assert run("edit", path="a.txt", oldText="one", newText="two").kind == "text"
    assert run("read", path="a.txt").value == "two\n"
    assert run("exec", command="cat a.txt; exit 3").value == "two\n[exit code 3]"
