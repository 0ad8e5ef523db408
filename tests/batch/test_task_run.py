"""One task from its folder to its row."""

import pytest
from msgspec.structs import replace

from src.app.endpoint import make_settings
from src.batch.task_run import Job, _run_in, describe_ended, get_folder, run_task
from src.batch.tasks import Task
from tests.doubles import ScriptedServer

from .script import make_repository, open_server, refuse_after_a_turn


@pytest.fixture
def run(tmp_path):
    def run_it(prompt, **given):
        with open_server(tmp_path / "state") as settings:
            task = Task("a", prompt, **given)
            outcome = run_task(Job(task, "h", settings, tmp_path / "scratch"))
        assert not any((tmp_path / "scratch/tasks").iterdir())
        return outcome

    (tmp_path / "scratch").mkdir()
    return run_it


def test_the_answer_the_patch_and_the_checks_are_in_the_row(run, tmp_path):
    outcome = run("write b.txt", repo=str(make_repository(tmp_path / "repo")), checks=("test -f b.txt", "exit 3"))
    row = outcome.row
    assert (row.status, row.answer, row.calls, row.path) == ("answered", "done", 1, "native")
    assert "+++ b/b.txt" in row.patch
    assert [(check.command, check.exit_code) for check in row.checks] == [("test -f b.txt", 0), ("exit 3", 3)]
    assert row.tokens > 0


def test_the_conversation_comes_with_it(run):
    outcome = run("say hello")
    assert outcome.row.session
    assert b"say hello" in outcome.conversation


def test_each_sample_has_a_seed_of_its_own(tmp_path):
    (tmp_path / "scratch").mkdir()
    answers = [[{"content": "done"}, {"finish": "stop"}] for _ in range(4)]
    with ScriptedServer(*answers) as server:
        settings = make_settings(server.url, model="tiny")
        for sample, seed in ((1, 5), (3, 5), (3, None)):
            seeded = replace(settings, state=tmp_path, vllm=replace(settings.vllm, seed=seed))
            task = Task(f"a@{sample}", "x", sample=sample)
            row = run_task(Job(task, "h", seeded, tmp_path / "scratch")).row
            assert (row.sample, row.status) == (sample, "answered")
    assert [request.get("seed") for request in server.requests[-3:]] == [5, 7, None]


def test_tools_that_are_not_named_are_not_offered(run):
    assert run("write b.txt", tools=("read",)).row.patch == ""
    assert "There is no tool raed" in run("say x", tools=("raed",)).row.reason


def test_what_the_mode_does_not_allow_is_refused_and_asks_nobody(run):
    assert run("write b.txt", mode="ask").row.patch == ""


def test_a_task_takes_no_more_turns_than_the_setting_allows(tmp_path):
    (tmp_path / "scratch").mkdir()
    with open_server(tmp_path / "state") as settings:
        limited = replace(settings, agent=replace(settings.agent, max_tool_turns=1))
        row = run_task(Job(Task("a", "write b.txt"), "h", limited, tmp_path / "scratch")).row
    assert (row.status, row.calls) == ("limit", 1)


def test_an_answer_that_the_server_stopped_is_an_error_with_the_servers_word(tmp_path):
    (tmp_path / "scratch").mkdir()
    with ScriptedServer([{"content": "Half"}, {"finish": "content_filter"}]) as server:
        settings = replace(make_settings(server.url, model="tiny"), state=tmp_path)
        row = run_task(Job(Task("a", "x"), "h", settings, tmp_path / "scratch")).row
    assert (row.status, row.reason) == ("error", "The server stopped the answer: content_filter.")


def test_calls_that_had_to_be_repaired_are_counted(run):
    row = run("garble b.txt").row
    assert (row.status, row.calls, row.repairs) == ("answered", 1, 1)


@pytest.mark.parametrize("prompt", ["garble b.txt", "use nothing", "delegate write b.txt", "say x"])
def test_of_a_task_that_is_ended_the_same_is_counted(tmp_path, prompt):
    with open_server(tmp_path / "state") as settings:
        job = Job(Task("a", prompt), "h", settings, tmp_path / "scratch")
        whole = _run_in(get_folder(job), job)
        ended = describe_ended(job, "timeout", "It took too long.")
    counts = [
        (each.usage, each.calls, each.turns, each.repairs, each.session, each.model) for each in (whole.row, ended.row)
    ]
    assert counts[0] == counts[1]
    assert whole.conversation == ended.conversation


def test_the_tokens_of_a_subagent_count(run):
    alone, delegated = run("write b.txt").row, run("delegate write b.txt").row
    assert (alone.turns, delegated.turns) == (2, 2)
    assert delegated.tokens > 1.5 * alone.tokens


def test_git_works_in_the_folder(run, tmp_path):
    row = run("run git log --oneline > log.txt", repo=str(make_repository(tmp_path / "repo")), mode="full").row
    assert " first" in row.patch


def test_an_answer_of_the_schema_is_the_value(run):
    row = run('say {"n": 3}', schema={"type": "object", "properties": {"n": {"type": "integer"}}}).row
    assert (row.status, row.answer) == ("answered", {"n": 3})


def test_null_is_an_answer_where_the_schema_allows_it(run):
    row = run("say null", schema={"type": ["object", "null"]}).row
    assert (row.status, row.answer) == ("answered", None)


def test_an_answer_that_is_not_of_the_schema_is_asked_for_once_more(run):
    row = run("say no", schema={"type": "object"}).row
    assert (row.status, row.turns) == ("invalid", 2)


def test_a_repository_that_cannot_be_cloned_is_a_row(run, tmp_path):
    row = run("say x", repo=str(tmp_path / "none")).row
    assert (row.status, row.session) == ("error", "")


def test_a_server_that_is_gone_may_be_tried_again(tmp_path):
    with open_server(tmp_path / "state") as settings:
        pass
    (tmp_path / "scratch").mkdir()
    outcome = run_task(Job(Task("a", "say x"), "h", settings, tmp_path / "scratch"))
    assert outcome.is_overload
    assert outcome.row.status == "error"


@pytest.mark.parametrize(("status", "is_overload"), [(429, True), (503, True), (400, False)])
def test_a_refusal_for_load_after_the_first_turn_may_be_tried_again(tmp_path, status, is_overload):
    (tmp_path / "scratch").mkdir()
    with open_server(tmp_path / "state", refuse=refuse_after_a_turn(status, 1)) as settings:
        outcome = run_task(Job(Task("a", "write b.txt"), "h", settings, tmp_path / "scratch"))
    assert outcome.is_overload is is_overload
    assert (outcome.row.status, outcome.row.turns) == ("error", 1)
    assert b"write b.txt" in outcome.conversation
