"""Who may touch the world, and that a tool is described in one place only: what import-linter cannot say.

Who may import whom is in pyproject.toml, as contracts that `lint-imports` checks.
"""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Annotated

import pytest
from grimp import build_graph

from src.negotiation import CallPath
from src.parsing import render_instructions
from src.tools import REGISTRY, TOOL_DEFINITIONS, Registry
from src.types.messages import SystemMessage, UserMessage
from tests.doubles import ScriptedClient, make_model

from .sources import SOURCES, SRC, is_string, nodes

CALLS = {"input": "input", "open": "files"}  # a function -> what it touches
ATTRIBUTES = {
    **dict.fromkeys(["read_text", "write_text", "read_bytes", "write_bytes"], "files"),
    **dict.fromkeys(["environ", "getenv"], "environment"),
}
MAY_TOUCH = {  # what reaches outside without an import of its own -> the rooms that may
    "input": {"cli"},
    # security: the sandbox restores protected files after a command (src/security/sandbox/leftovers.py)
    "files": {"app", "batch", "cli", "config", "eval", "machine", "security", "serve", "session", "tools"},
    # serve: where workers count; transport: proxies and certificates; vllm_plugin: vLLM's front end
    "environment": {"app", "batch", "cli", "config", "serve", "transport", "vllm_plugin"},
}


def module_name(path: Path) -> str:
    """`tools.files` for src/tools/builtin/files.py, `tools` for its package, "" for src itself."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(name: str) -> str:
    return name.partition(".")[0]


FILES = {module_name(path): path for path in SOURCES}


def test_there_is_no_circle_of_imports_not_even_a_deferred_one():
    """import-linter's contract on cycles is about folders, and folders of a room may know each other."""
    graph = build_graph("src", cache_dir=None)
    TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}).prepare()


def test_inside_src_imports_are_relative_so_that_it_installs_under_another_name():
    absolute = [
        (name, target)
        for name, path in FILES.items()
        for node in nodes(path)
        for target in absolute_imports(node)
        if room(target) in ("src", "vllm_bot", "tests")
    ]
    assert absolute == []


def absolute_imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module or ""]
    return []


def touched(node: ast.AST) -> str | None:
    """The key of MAY_TOUCH for what is called or looked at."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return CALLS.get(node.func.id)
    if isinstance(node, ast.Attribute):
        return ATTRIBUTES.get(node.attr)
    return None


@pytest.mark.parametrize("thing", MAY_TOUCH)
def test_only_the_rooms_at_the_edge_touch_the_world(thing):
    modules = [name for name, path in FILES.items() if any(touched(node) == thing for node in nodes(path))]
    assert [name for name in modules if room(name) not in MAY_TOUCH[thing]] == []


class TestAToolIsDescribedInOnePlace:
    def test_there_is_one_registry(self):
        made = [
            name
            for name, path in FILES.items()
            for node in nodes(path)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Registry"
        ]
        assert set(made) == {"tools.sdk.registry"}

    def test_the_list_is_the_registrys_own(self):
        assert TOOL_DEFINITIONS is REGISTRY.openai_tools
        assert [each["function"]["name"] for each in TOOL_DEFINITIONS] == [tool.definition.name for tool in REGISTRY]

    def test_a_tool_is_described_in_its_own_file_only(self):
        said = [
            text
            for tool in REGISTRY
            for text in (
                tool.definition.description,
                *(schema["description"] for schema in tool.definition.parameters["properties"].values()),
            )
        ]
        strings = {
            name: {" ".join(node.value.split()) for node in nodes(path) if is_string(node)}
            for name, path in FILES.items()
        }
        places = {
            text: {room(name) for name, texts in strings.items() if any(text in each for each in texts)}
            for text in said
        }
        assert places == {text: {"tools"} for text in said}

    def test_schemas_are_written_by_one_function_rewritten_for_gemini_and_openai_entries_by_another(self):
        def writers(key: str) -> set[str]:
            return {
                name
                for name, path in FILES.items()
                for node in nodes(path)
                if isinstance(node, ast.Dict) and any(is_string(each) and each.value == key for each in node.keys)
            }

        # providers.vllm wraps a schema, providers.gemini.schema rewrites one, permissions.review has the schema of a
        # reviewer's answer, tools.sources.yaml_commands the keys of a row in YAML, and serve.apis.responses_request what
        # codex's free-form tools look like as functions, mcp.server what another agent may ask for; written_format.py asks with a tool of its own
        assert writers("properties") == {
            "mcp.server", "tools.sdk.schema_edit", "providers.vllm", "providers.gemini.schema", "security.permissions.review",
            "tools.sources.yaml_commands", "serve.apis.responses_request", "negotiation.formats.written_format",
        }  # fmt: skip
        assert writers("parameters") == {
            "types.tool_schema", "providers.copilot", "tools.sources.yaml_commands", "serve.apis.messages", "serve.apis.responses_request",
        }  # fmt: skip

    def test_a_new_tool_is_one_function_and_then_in_the_list_the_prompt_and_the_request(self):
        registry = Registry()

        @registry.tool
        def weigh(parcel: Annotated[str, "Which parcel"], precise: bool = False) -> str:
            """Weigh a parcel on the scales."""
            return "2 kg"

        (entry,) = registry.openai_tools
        assert entry["function"]["name"] == "weigh"
        assert render_instructions(registry.definitions).count("Weigh a parcel on the scales.") == 1

        server = ScriptedClient([{"content": "Yes."}, {"finish": "stop"}])
        model = make_model(server, "any")
        list(model.respond([SystemMessage("Be brief."), UserMessage("How heavy?")], registry.definitions))
        (body,) = server.requests
        assert body["tools"] == registry.openai_tools
        prompt = body["messages"][0]["content"]
        assert prompt.startswith("Be brief.")
        assert render_instructions(registry.definitions, native=True) in prompt

    def test_the_request_holds_the_list_as_it_is(self):
        server = ScriptedClient([{"content": "Yes."}, {"finish": "stop"}])
        list(make_model(server, "any").respond([UserMessage("Hello")], REGISTRY.definitions))
        assert server.requests[0]["tools"] == TOOL_DEFINITIONS

    def test_on_the_text_path_the_prompt_alone_tells_of_the_tools(self):
        server = ScriptedClient([{"content": "Yes."}, {"finish": "stop"}])
        list(make_model(server, "any", path=CallPath("text")).respond([UserMessage("Hello")], REGISTRY.definitions))
        assert "tools" not in server.requests[0]
        assert server.requests[0]["messages"][0] == {
            "role": "system",
            "content": render_instructions(REGISTRY.definitions),
        }
