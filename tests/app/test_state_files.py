import json
import multiprocessing
from pathlib import Path

import pytest

from src.app.permissions import make_policy
from src.app.state_files import ALLOWED, SERVERS, RuleMemory, ServerMemory
from src.config import Settings
from src.negotiation import CallPath, Reason
from src.types.messages import ToolCall
from tests.waiting import PATIENCE_S

PATH = CallPath("text", Reason.NO_PARSER, alternate=True)


def test_facts_are_found_again_for_the_same_server_model_and_version(tmp_path):
    memory = ServerMemory(tmp_path / "state")
    memory.save("http://a", "tiny", "0.32.0", PATH)
    memory.save("http://b", "tiny", "0.32.0", CallPath("template"))
    assert ServerMemory(tmp_path / "state").find("http://a", "tiny", lambda: "0.32.0") == PATH


@pytest.mark.parametrize(
    ("server", "model", "version"), [("http://b", "m", "1"), ("http://a", "n", "1"), ("http://a", "m", "2")]
)
def test_facts_about_another_server_model_or_version_are_not_used(tmp_path, server, model, version):
    memory = ServerMemory(tmp_path)
    memory.save("http://a", "m", "1", PATH)
    assert memory.find(server, model, lambda: version) is None


def test_what_two_programs_learn_of_one_server_is_joined(tmp_path):
    one, other = ServerMemory(tmp_path), ServerMemory(tmp_path)
    one.save("http://a", "m", "1", CallPath(disabled_fields=("strict",)))
    other.save("http://a", "m", "1", CallPath("text", Reason.NO_PARSER, disabled_fields=("stream_options",)))
    one.save("http://a", "m", "1", CallPath(alternate=True))
    assert one.find("http://a", "m", lambda: "1") == CallPath(
        "text", Reason.NO_PARSER, alternate=True, disabled_fields=("strict", "stream_options")
    )


def test_what_is_learned_of_a_new_version_replaces_what_was_known_of_another(tmp_path):
    memory = ServerMemory(tmp_path)
    memory.save("http://a", "m", "1", PATH)
    memory.save("http://a", "m", "2", CallPath(text_only=True))
    assert memory.find("http://a", "m", lambda: "2") == CallPath(text_only=True)


def test_forgotten_facts_are_gone(tmp_path):
    memory = ServerMemory(tmp_path)
    memory.forget()
    memory.save("http://a", "m", "1", PATH)
    memory.forget()
    assert memory.find("http://a", "m", lambda: "1") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"http://a m": 3}', '{"http://a m": {"version": "1", "path": {"mode": "x"}}}']
)
def test_a_file_with_other_content_counts_as_empty(tmp_path, text):
    (tmp_path / SERVERS).write_text(text)
    memory = ServerMemory(tmp_path)
    assert memory.find("http://a", "m", lambda: "1") is None
    memory.save("http://a", "m", "1", PATH)
    assert memory.find("http://a", "m", lambda: "1") == PATH


def test_the_file_holds_the_version_and_the_path_only(tmp_path):
    ServerMemory(tmp_path).save("http://a", "m", "1", PATH)
    assert json.loads((tmp_path / SERVERS).read_text()) == {"http://a m": {"version": "1", "path": PATH.to_dict()}}


def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OSError):
        ServerMemory(tmp_path / "taken").save("http://a", "m", "1", PATH)


RULE = {"tool": "exec", "action": "allow", "command": "git status"}


@pytest.fixture
def saved(tmp_path):
    return RuleMemory(tmp_path / "state", Path("/work"))


def test_a_rule_is_saved_once_for_its_workspace_and_readable_by_its_owner_only(saved, tmp_path):
    saved.save(RULE)
    saved.save(RULE)
    assert saved.read() == [RULE]
    assert RuleMemory(tmp_path / "state", Path("/other")).read() == []
    assert (tmp_path / "state" / ALLOWED).stat().st_mode & 0o077 == 0


def test_rules_are_forgotten_for_one_workspace_only(saved, tmp_path):
    other = RuleMemory(tmp_path / "state", Path("/other"))
    saved.save(RULE)
    other.save(RULE)
    saved.forget()
    assert (saved.read(), other.read()) == ([], [RULE])


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"/work": 1}', '{"/work": [1, {"tool": "exec"}, {"tool": 1, "action": "allow"}]}']
    + [
        json.dumps({"/work": [{**RULE, more: value}]}) for more, value in [("action", "deny"), ("x", 1), ("exact", "y")]
    ],
)
def test_entries_that_are_not_allow_rules_are_left_out(saved, tmp_path, content):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / ALLOWED).write_text(content)
    assert saved.read() == []


def test_a_saved_rule_holds_in_later_chats(state_folder, tmp_path):
    settings = Settings(root=tmp_path)
    call = ToolCall("c", "exec", {"command": "git status"})
    assert make_policy(settings, None).decide(call, "high").action == "ask"
    RuleMemory(state_folder / "vllm-bot", tmp_path).save(RULE)
    assert make_policy(settings, None).decide(call, "high").action == "allow"


def save_rules(folder: Path, name: str, start) -> None:
    start.wait()
    for number in range(20):
        RuleMemory(folder, Path("/work")).save({**RULE, "command": f"{name} {number}"})


def test_two_programs_that_save_at_the_same_time_lose_no_rule(tmp_path):
    context = multiprocessing.get_context("fork")
    start = context.Barrier(2)
    programs = [context.Process(target=save_rules, args=(tmp_path, name, start)) for name in ("make", "git")]
    for program in programs:
        program.start()
    for program in programs:
        program.join(PATIENCE_S)
    commands = {rule["command"] for rule in RuleMemory(tmp_path, Path("/work")).read()}
    assert commands == {f"{name} {number}" for name in ("make", "git") for number in range(20)}


def test_a_write_that_fails_leaves_no_file_behind(tmp_path):
    (tmp_path / SERVERS).mkdir()
    with pytest.raises(OSError):
        ServerMemory(tmp_path).save("http://a", "m", "1", PATH)
    assert {each.name for each in tmp_path.iterdir()} == {SERVERS, "servers.lock"}
