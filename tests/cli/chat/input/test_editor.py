"""Editing a text in the user's editor, which is a script here."""

import os

import pytest

from src.cli.chat.input.editor import edit_text
from src.errors import ConfigError


@pytest.fixture
def editor(monkeypatch, tmp_path):
    def use(script):
        program = tmp_path / "editor"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        monkeypatch.setitem(os.environ, "VISUAL", str(program))

    return use


def test_the_text_is_what_it_left(editor):
    editor('echo more >> "$1"')
    assert edit_text("text\n") == "text\nmore"


def test_one_that_fails_changes_nothing(editor):
    editor("exit 1")
    with pytest.raises(ConfigError, match="exit code 1"):
        edit_text("text")


def test_one_that_is_not_there_is_said_so(monkeypatch):
    monkeypatch.setitem(os.environ, "VISUAL", "/no/such/editor")
    with pytest.raises(ConfigError, match="could not be started"):
        edit_text("text")
