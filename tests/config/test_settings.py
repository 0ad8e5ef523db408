"""Every setting does something: its value is read somewhere in the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from src.app.sampling import SAMPLING
from src.config.settings import SECTIONS
from tests.sources import SOURCES, nodes

OPTIONS = {(section, name) for section, settings in SECTIONS.items() for name in settings.__struct_fields__}
READ_BY_LOAD = {  # that decide on others before there are Settings
    ("vllm", "available_models"),
    ("vllm", "default_model_index"),
    ("workspace", "dir"),
    ("workspace", "add_dirs"),
}


SENT_BY_NAME = {("vllm", name) for name in (*SAMPLING, "extra_body")}  # read in a loop, by make_model_body
KINDS = {settings.__name__: section for section, settings in SECTIONS.items()}


def list_aliases(path: Path) -> dict[str, str]:
    """The names that stand for a section in a file: `security = settings.security`, or a parameter of its type."""
    aliases: dict[str, str] = {}
    for node in nodes(path):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                for name, value in pairs:
                    if isinstance(name, ast.Name) and isinstance(value, ast.Attribute) and value.attr in SECTIONS:
                        aliases[name.id] = value.attr
        elif isinstance(node, ast.arg) and isinstance(node.annotation, ast.Name) and node.annotation.id in KINDS:
            aliases[node.arg] = KINDS[node.annotation.id]
    return aliases


def list_reads(path: Path) -> Iterator[tuple[str, str]]:
    """The options that a file reads, as section and name."""
    aliases = list_aliases(path)
    for node in nodes(path):
        if isinstance(node, ast.ClassDef) and node.name in KINDS:  # a property that decides by several options
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
                    yield KINDS[node.name], inner.attr
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            if isinstance(node.value, ast.Attribute):
                yield node.value.attr, node.attr
            elif isinstance(node.value, ast.Name) and node.value.id in aliases:
                yield aliases[node.value.id], node.attr
            elif isinstance(node.value, ast.Call) and getattr(node.value.func, "attr", "") == "get_model_settings":
                yield "vllm", node.attr


def test_every_options_value_is_read_somewhere():
    read = {each for path in SOURCES for each in list_reads(path)}
    assert OPTIONS - read - READ_BY_LOAD - SENT_BY_NAME == set()


def test_what_load_alone_reads_is_named_there():
    text = next(path for path in SOURCES if path.name == "load.py" and path.parent.name == "config").read_text()
    assert [name for _, name in READ_BY_LOAD if f".{name}" not in text] == []
