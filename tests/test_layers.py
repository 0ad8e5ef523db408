"""Who may import whom, who may touch the world, and that a tool is described in one place only.

The tables below are the design; the sources are read with `ast`. An import counts wherever it stands,
inside a function as well, and also under `if TYPE_CHECKING`: to name another room's type is to know it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import pytest

from src.app.model import Model
from src.model import CallPath
from src.parsing import render_instructions
from src.tools import REGISTRY, TOOL_DEFINITIONS, Registry
from src.types.messages import SystemMessage, UserMessage
from tests.doubles import ScriptedClient

from .sources import SOURCES, SRC, is_string, nodes

VALUES = {"types", "errors"}
EVERYTHING = {"*"}

MAY_IMPORT = {  # room -> rooms, or single modules of a room
    "types": set(),
    "errors": set(),
    "parsing": VALUES,
    "providers": VALUES,
    "tools": VALUES,
    "security": VALUES,
    "session": VALUES,
    "config": VALUES,
    "transport": VALUES,
    "model": {"parsing", "providers", *VALUES},  # without I/O: a driver of `transport` runs its turns
    "agent": {"model", "tools.sdk.calls", "tools.sdk.registry", "tools.sdk.context", "security", *VALUES},
    "app": {"agent", "config", "model", "parsing", "providers", "security", "session", "tools", "transport", *VALUES},
    "serve": {"app.endpoint", "app.state_files", "config", "model", "parsing", "providers", "transport", *VALUES},
    "vllm_plugin": {"parsing", *VALUES},  # runs in vLLM's own processes
    "batch": {
        "app",
        "config",
        "security.permissions.approval",
        "security.sandbox.scratch",
        "session.replay",
        "session.session",
        "tools.process.run",
        "tools.sdk.output_store",
        "transport",
        *VALUES,
    },
    "": {
        "app.library",
        "app.model",
        "app.async_model",
        "transport.deadlines",
        "tools",
        "security.permissions.approval",
        *VALUES,
    },  # the public names, loaded on first use
    "cli": EVERYTHING,
    "__main__": {"cli.main"},  # python -m vllm_bot
}
MAY_TOUCH = {  # what reaches outside, or is not the same twice -> the rooms that may
    "print": {"cli"},
    "input": {"cli"},
    "sys": {"app", "batch", "cli", "tools"},
    # security: the sandbox restores protected files after a command (src/security/sandbox/leftovers.py)
    "open": {"app", "batch", "cli", "config", "security", "serve", "session", "tools"},
    "io": {"cli", "config", "session", "tools", "transport"},
    # security resolves where a path leads
    "os": {"app", "batch", "cli", "config", "security", "serve", "session", "tools", "transport", "vllm_plugin"},
    "os.environ": {
        "app",
        "batch",
        "cli",
        "config",
        "serve",
        "transport",
        "vllm_plugin",
    },  # serve: where workers count; transport: proxies and certificates; vllm_plugin: vLLM's front end
    "time": {
        "app",
        "batch",
        "cli",
        "security",
        "session",
        "tools",
        "transport",
    },  # security waits for killed processes to end
    "asyncio": {"app", "cli", "serve", "tools", "transport"},  # app: the library's runs; cli: prompt_toolkit
    "random": {"app", "cli"},  # ids for calls that came without one, and retry jitter
    # providers log the events they skip; vllm_plugin warns in vLLM's log
    "logging": {"batch", "cli", "providers", "serve", "tools", "transport", "vllm_plugin"},
    # security tries a sandbox before it relies on it; transport: the Copilot CLI is a program
    "subprocess": {"batch", "cli", "security", "tools", "transport"},
    "socket": {"security", "transport"},  # security: a pair, over which the sandbox's child sends a descriptor
    # security counts running commands; session: they are recorded by threads; agent, app, transport: another thread may
    # cancel a run; model: facts have a lock
    "threading": {"agent", "app", "batch", "cli", "model", "security", "session", "tools", "transport"},
}
MAY_USE = {  # package from outside -> the rooms that use it
    "requests": {"transport"},
    "urllib3": {"transport"},
    "certifi": {"transport"},
    "aiohttp": {"serve", "transport"},
    "yaml": {"config", "tools"},
    "mcp": {"tools"},
    "anyio": {"tools"},
    "regex": {"tools"},
    "fastjsonschema": {"tools"},
    "msgspec": {"app", "providers", "tools"},
    "pydantic": set(),  # a tool may take a model of it, which brings it along
    "prometheus_client": {"serve"},
    "uvloop": {"serve"},
    "argcomplete": {"cli"},
    "opentelemetry": {"app"},
    "markdown_it": {"cli"},
    "prompt_toolkit": {"cli"},
    "rich": {"cli"},
    "pyarrow": {"batch"},
    "ray": {"batch"},
    "pathspec": {"security", "tools"},
    "wcmatch": {"tools"},
    "vllm": {"vllm_plugin"},
}
MAY_CATCH_ALL = {  # the places for `except Exception`; the first is around a tool's run and a plugin's load
    ("tools", "attempt"),
    ("tools", "contain"),  # a tool's run again: what is no Exception becomes one there
    ("cli", "_run"),
    ("batch", "_work"),  # a mistake of ours fails one task, and is in its row
    ("cli", "render_block"),  # a foreign renderer over whatever a model writes
}
LONGEST_FILE = 400  # lines
FILE_METHODS = {"read_text", "write_text", "read_bytes", "write_bytes"}


class Import(NamedTuple):
    """`target` is a dotted name: inside src without the leading `src.`, else as it is written."""

    module: str
    target: str
    ours: bool


def module_name(path: Path) -> str:
    """`tools.files` for src/tools/builtin/files.py, `tools` for its package, "" for src itself."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(name: str) -> str:
    return name.partition(".")[0]


def is_in(target: str, allowed: set[str]) -> bool:
    return any(each == "*" or target == each or target.startswith(f"{each}.") for each in allowed)


FILES = {module_name(path): path for path in SOURCES}


def imports_of(name: str) -> Iterator[Import]:
    is_package = FILES[name].name == "__init__.py"
    for node in nodes(FILES[name]):
        if isinstance(node, ast.Import):
            yield from (Import(name, alias.name, alias.name.partition(".")[0] == "src") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if not node.level:
                yield Import(name, node.module or "", (node.module or "").partition(".")[0] == "src")
                continue
            here = name.split(".") if name else []
            base = here[: len(here) - node.level + is_package]
            stem = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{stem}.{alias.name}".lstrip(".")
                yield Import(name, inner if inner in FILES else stem, ours=True)


@cache
def imports() -> list[Import]:
    return [each for name in FILES for each in imports_of(name)]


def test_every_module_belongs_to_a_room_of_the_table():
    assert {room(name) for name in FILES if name} <= MAY_IMPORT.keys()


def test_a_room_imports_only_the_rooms_it_may_know():
    allowed = {name: {room(name), *MAY_IMPORT.get(room(name), set())} for name in FILES}
    ours = [each for each in imports() if each.ours and each.target]
    assert [each for each in ours if not is_in(each.target, allowed[each.module])] == []


def test_only_the_terminal_knows_the_version():
    assert {room(each.module) for each in imports() if each.ours and not each.target} == {"cli"}


def test_no_other_room_imports_the_terminal():
    assert {room(each.module) for each in imports() if each.ours and room(each.target) == "cli"} == {"cli", "__main__"}


def test_inside_src_imports_are_relative_so_that_it_installs_under_another_name():
    assert [each for each in imports() if room(each.target) in ("src", "vllm_bot", "tests")] == []


def test_there_is_no_circle_of_imports_not_even_a_deferred_one():
    graph = {name: {each.target for each in imports() if each.module == name and each.ours} - {name} for name in FILES}
    while free := {name for name, targets in graph.items() if not targets}:
        graph = {name: targets - free for name, targets in graph.items() if name not in free}
    assert graph == {}


@pytest.mark.parametrize("package", MAY_USE)
def test_a_package_from_outside_is_used_by_its_rooms_alone(package):
    users = {room(each.module) for each in imports() if not each.ours and room(each.target) == package}
    assert users <= MAY_USE[package]


def touched(name: str) -> Iterator[str]:
    """The keys of MAY_TOUCH that a module imports, calls or looks at."""
    yield from (room(each.target) for each in imports_of(name) if not each.ours)
    for node in nodes(FILES[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Attribute):
            if node.attr in FILE_METHODS:
                yield "open"
            elif node.attr in ("environ", "getenv"):
                yield "os.environ"


def test_only_the_rooms_at_the_edge_touch_the_world():
    things = {(name, thing) for name in FILES for thing in touched(name)}
    assert {(name, thing) for name, thing in things if room(name) not in MAY_TOUCH.get(thing, {room(name)})} == set()


def test_a_file_can_be_read_in_one_sitting():
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in FILES.items()}
    assert {name: count for name, count in lines.items() if count > LONGEST_FILE} == {}


def catches_all(handler: ast.ExceptHandler) -> bool:
    """Whether everything ends here; who tidies up and raises again catches nothing."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {each.id if isinstance(each, ast.Name) else each for each in caught}
    raises_again = isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None
    return bool(names & {None, "Exception", "BaseException"}) and not raises_again


def test_everything_is_caught_in_these_places_only():
    found = [
        (room(name), function.name)
        for name, path in FILES.items()
        for function in nodes(path)
        if isinstance(function, ast.FunctionDef)
        for handler in ast.walk(function)
        if isinstance(handler, ast.ExceptHandler) and catches_all(handler)
    ]
    assert Counter(found) == Counter(MAY_CATCH_ALL)


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
        # codex's free-form tools look like as functions; model.formats.written_format asks with a tool of its own
        assert writers("properties") == {
            "tools.sdk.schema", "providers.vllm", "providers.gemini.schema", "security.permissions.review",
            "tools.sources.yaml_commands", "serve.apis.responses_request", "model.formats.written_format",
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
        model = Model(server, "any")
        list(model.respond([SystemMessage("Be brief."), UserMessage("How heavy?")], registry.definitions))
        (body,) = server.requests
        assert body["tools"] == registry.openai_tools
        prompt = body["messages"][0]["content"]
        assert prompt.startswith("Be brief.")
        assert render_instructions(registry.definitions, native=True) in prompt

    def test_the_request_holds_the_list_as_it_is(self):
        server = ScriptedClient([{"content": "Yes."}, {"finish": "stop"}])
        list(Model(server, "any").respond([UserMessage("Hello")], REGISTRY.definitions))
        assert server.requests[0]["tools"] == TOOL_DEFINITIONS

    def test_on_the_text_path_the_prompt_alone_tells_of_the_tools(self):
        server = ScriptedClient([{"content": "Yes."}, {"finish": "stop"}])
        list(Model(server, "any", path=CallPath("text")).respond([UserMessage("Hello")], REGISTRY.definitions))
        assert "tools" not in server.requests[0]
        assert server.requests[0]["messages"][0] == {
            "role": "system",
            "content": render_instructions(REGISTRY.definitions),
        }
