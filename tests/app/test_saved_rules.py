import json
from pathlib import Path

import pytest

from src.app.factory import policy
from src.app.saved_rules import FILE, Allowed
from src.config import Settings
from src.types.messages import ToolCall

RULE = {"tool": "exec", "action": "allow", "command": "git status"}


@pytest.fixture
def kept(tmp_path):
    return Allowed(tmp_path / "state", Path("/work"))


def test_a_rule_is_kept_once_for_its_workspace_and_nobody_else_reads_it(kept, tmp_path):
    kept.keep(RULE)
    kept.keep(RULE)
    assert kept.rules() == [RULE]
    assert Allowed(tmp_path / "state", Path("/other")).rules() == []
    assert (tmp_path / "state" / FILE).stat().st_mode & 0o077 == 0


def test_it_is_forgotten_for_its_workspace_alone(kept, tmp_path):
    other = Allowed(tmp_path / "state", Path("/other"))
    kept.keep(RULE)
    other.keep(RULE)
    kept.forget()
    assert (kept.rules(), other.rules()) == ([], [RULE])


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"/work": 1}', '{"/work": [1, {"tool": "exec"}, {"tool": 1, "action": "allow"}]}']
    + [
        json.dumps({"/work": [{**RULE, more: value}]}) for more, value in [("action", "deny"), ("x", 1), ("exact", "y")]
    ],
)
def test_what_is_no_rule_that_allows_is_none(kept, tmp_path, content):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / FILE).write_text(content)
    assert kept.rules() == []


def test_it_holds_in_chats_to_come(state_folder, tmp_path):
    settings = Settings(root=tmp_path)
    call = ToolCall("c", "exec", {"command": "git status"})
    assert policy(settings).decide(call, "high").action == "ask"
    Allowed(state_folder / "vllm-bot", tmp_path).keep(RULE)
    assert policy(settings).decide(call, "high").action == "allow"
