"""The same task finishes in every cell of the matrix where a call was emitted at all, and nothing is run where none was."""

from __future__ import annotations

import json

import pytest

from src.cli.main import main

from .cells import CELLS, CONTENT, EMISSIONS, FOUND, QUESTION, how


def name_of(value):
    return f"{value.emission}, {'streamed' if value.stream else 'whole'}" if hasattr(value, "emission") else value


@pytest.mark.parametrize(("server", "cell"), [(cell.server, cell) for cell in CELLS], indirect=["server"], ids=name_of)
def test_cell(server, cell, workspace, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DEBUG", "1")
    monkeypatch.setenv("VLLM_API_KEY", server.api_key)
    config = tmp_path / "config.json"
    unconstrained = {"text_protocol": {"constrained": "off"}, "vllm": {"strict_tools": False, "stream": cell.stream}}
    config.write_text(json.dumps(unconstrained))
    where = ["-u", server.base_url, "-m", "tiny", "-c", str(config), "-w", str(workspace)]
    FOUND[cell] = "FAILED"
    code = main([*where, "-p", QUESTION.format(cell.emission)])
    said = capsys.readouterr()
    assert (code, CONTENT in said.out) == (0, True), said.err
    if EMISSIONS[cell.emission]:
        assert f'read(path="notes.txt") -> 1\t{CONTENT}' in said.err
    else:
        assert "<tool_call>" in said.out
        assert "read(" not in said.err
    found = how(said.err)
    assert not (cell.server.startswith("tokens") and "*" in found)  # nothing is lost there
    FOUND[cell] = found
