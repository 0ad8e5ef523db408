"""Reading the file of tasks."""

import json

import pytest
from msgspec.structs import replace

from src.batch.tasks import Task, read_tasks, repeat_tasks, select_relevant
from src.config import Settings
from src.config.settings import AgentSettings, ReviewSettings, VllmSettings
from src.errors import ConfigError


def read(tmp_path, *rows, **given):
    path = tmp_path / "tasks.jsonl"
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_bytes(text.encode(errors="surrogateescape"))
    return read_tasks([path], **given)


def test_a_line_is_a_task(tmp_path):
    task, *_ = read(tmp_path, {"id": 7, "prompt": "Fix it.", "checks": ["make test"], "tools": ["read"]})
    assert (task.id, task.prompt, task.checks, task.tools, task.mode) == (
        "7",
        "Fix it.",
        ("make test",),
        ("read",),
        "auto",
    )


def test_repository_and_mode_of_the_command_line_are_for_tasks_that_name_none(tmp_path):
    rows = [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x", "repo": "/r", "mode": "plan"}]
    tasks = read(tmp_path, *rows, repo="/given", mode="full")
    assert [(task.repo, task.mode) for task in tasks] == [("/given", "full"), ("/r", "plan")]


SWE_BENCH = {
    "instance_id": "django__django-1",
    "problem_statement": "It fails.",
    "repo": "django/django",
    "base_commit": "abc",
    "patch": "the answer",
    "FAIL_TO_PASS": "[]",
    "version": 4.0,
}


def test_a_row_of_swe_bench_is_a_task_and_what_tells_the_answer_is_only_kept(tmp_path):
    (task,) = read(tmp_path, SWE_BENCH)
    source = "https://github.com/django/django"
    others = {"patch": "the answer", "FAIL_TO_PASS": "[]", "version": 4.0}
    assert task == Task("django__django-1", "It fails.", repo=source, base="abc", extra=others)
    (task,) = read(tmp_path, SWE_BENCH, repo="/mirror")
    assert task.repo == "/mirror"


def test_each_sample_is_a_task_with_an_id_of_its_own(tmp_path):
    runs = repeat_tasks(read(tmp_path, {"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x"}), 3)
    assert [(run.id, run.sample) for run in runs] == [
        *(("a", 1), ("a@2", 2), ("a@3", 3)),
        *(("b", 1), ("b@2", 2), ("b@3", 3)),
    ]
    with pytest.raises(ConfigError, match="two runs would have the id a@2"):
        repeat_tasks(read(tmp_path, {"id": "a", "prompt": "x"}, {"id": "a@2", "prompt": "x"}), 2)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("{bad", "line 2: no JSON at character 2: Expecting property name"),
        ("\udcff", "line 2: it is not UTF-8"),
        ("[" * 99_999, "line 2: it is nested too deep"),
        ("[1]", "line 2: expected a JSON object"),
        ({"id": "b"}, "line 2: prompt: expected a text"),
        ({"id": "b", "prompt": "x", "image": 5}, "line 2: image: expected a text"),
        (SWE_BENCH | {"base_commit": "-x"}, "line 2: base must not begin with -"),
        (SWE_BENCH | {"problem_statement": 1}, "line 2: prompt: expected a text"),
        ({"prompt": "x"}, "line 2: id: expected a text"),
        ({"id": "../b", "prompt": "x"}, "line 2: id: '../b' holds more than"),
        ({"id": "a", "prompt": "x"}, "tasks.jsonl, line 2: the id a was there before, at "),
        ({"id": "b", "prompt": "x", "checks": "make"}, "line 2: checks: expected a list of texts"),
        ({"id": "b", "prompt": "x", "mode": "yolo"}, "line 2: mode: expected one of plan"),
        ({"id": "b", "prompt": "x", "repo": "--upload-pack=x"}, "line 2: repo must not begin with -"),
        ({"id": "b", "prompt": "x", "base": "v1"}, "line 2: base needs a repo"),
        ({"id": "b", "prompt": "x", "files": {"../x": ""}}, "line 2: files: '../x' is no path inside the folder"),
        ({"id": "b", "prompt": "x", "files": {".git/hooks/x": ""}}, "is no path inside the folder"),
        ({"id": "b", "prompt": "x", "schema": "x"}, "line 2: schema: expected a JSON Schema"),
    ],
)
def test_a_line_that_is_no_task_is_named(tmp_path, row, told):
    with pytest.raises(ConfigError, match="tasks.jsonl") as caught:
        read(tmp_path, {"id": "a", "prompt": "x"}, row)
    assert told in caught.value.message


def test_other_keys_are_kept_and_no_other_task_follows_from_them(tmp_path):
    rows = {"id": "a", "prompt": "x", "level": 3, "cheks": []}, {"id": "a", "prompt": "x"}
    (one,), (other,) = (read(tmp_path, row) for row in rows)
    assert one.extra == {"level": 3, "cheks": []}
    assert one.compute_hash({}) == other.compute_hash({})


@pytest.mark.parametrize("key", ["image", "image_name", "docker_image"])
def test_a_row_of_swe_bench_names_its_image(tmp_path, key):
    (task,) = read(tmp_path, SWE_BENCH | {key: "org/image:1"})
    assert task.image == "org/image:1"
    assert key not in task.extra


def test_an_image_counts_and_none_changes_nothing():
    task = Task("a", "x")
    assert task.compute_hash({}) != task._replace(image="b").compute_hash({})
    assert task.compute_hash({}) == "cc0d8b40b15d1548"


def test_several_files_are_one_batch_and_share_the_ids(tmp_path):
    one, other = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    one.write_text('{"id": "a", "prompt": "x"}')
    other.write_text('{"id": "b", "prompt": "x"}')
    assert [task.id for task in read_tasks([one, other])] == ["a", "b"]
    with pytest.raises(ConfigError, match="1.jsonl, line 1: the id a was there before, at .*1.jsonl, line 1"):
        read_tasks([one, one])


def test_a_file_without_tasks_and_one_that_is_not_there_are_errors(tmp_path):
    with pytest.raises(ConfigError, match="holds no task"):
        read(tmp_path, "")
    with pytest.raises(ConfigError, match="No such file"):
        read_tasks([tmp_path / "none"])


class TestHash:
    def test_it_changes_with_the_task_and_with_what_a_result_depends_on(self, tmp_path):
        one, other = read(tmp_path, {"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x"})
        usual = select_relevant(Settings())
        warmer = select_relevant(replace(Settings(), vllm=VllmSettings(temperature=0.7)))
        assert len({one.compute_hash(usual), other.compute_hash(usual), one.compute_hash(warmer)}) == 3

    def test_it_does_not_change_with_the_address_or_the_key(self, tmp_path):
        (task,) = read(tmp_path, {"id": "a", "prompt": "x"})
        moved = replace(Settings(), vllm=VllmSettings(base_url="http://gpu:8000/v1", api_key="k", timeout=1.0))
        assert task.compute_hash(select_relevant(Settings())) == task.compute_hash(select_relevant(moved))

    def test_it_changes_with_what_models_says_of_the_task_s_model_and_of_no_other(self):
        settings = replace(Settings(), vllm=VllmSettings(model="qwen3"))
        ours, others = ({"qwen*": {"temperature": 0.1}}, {"llama*": {"temperature": 0.1}})
        usual, adapted, same = (select_relevant(replace(settings, models=each)) for each in ({}, ours, others))
        assert adapted != usual
        assert same == usual
        direct = replace(settings, vllm=VllmSettings(model="qwen3", temperature=0.1))
        assert adapted == select_relevant(direct)

    def test_it_changes_with_each_setting_of_the_other_models_that_take_part(self):
        reviewer = {"model": "llama", "base_url": "http://a/v1"}
        changes = [
            {},
            {"servers": {"big": VllmSettings(model="llama")}},
            {"servers": {"big": VllmSettings(model="llama", top_k=2)}},
            {"servers": {"big": VllmSettings(model="llama")}, "models": {"llama": {"top_k": 2}}},
            {"review": ReviewSettings((reviewer,))},
            {"review": ReviewSettings(({**reviewer, "model": "other"},))},
            {"review": ReviewSettings((reviewer,), "any")},
            {"agent": AgentSettings(compact_model="llama")},
            {"agent": AgentSettings(compact_model="llama"), "models": {"llama": {"top_k": 2}}},
            {"places": {"security.exec_timeout": "config.json"}},  # then no call may name a longer one
        ]
        found = {json.dumps(select_relevant(replace(Settings(), **each)), sort_keys=True) for each in changes}
        assert len(found) == len(changes)

    def test_it_does_not_change_with_where_other_models_are_reached(self):
        def select(url, key):
            servers = {"big": VllmSettings(base_url=url, api_key=key)}
            reviewers = ({"model": "llama", "base_url": url, "api_key": key},)
            return select_relevant(replace(Settings(), servers=servers, review=ReviewSettings(reviewers)))

        assert select("http://a/v1", "x") == select("http://b/v1", "y")

    def test_a_setting_that_a_later_version_has_does_not_count_at_its_default(self):
        usual = select_relevant(Settings())
        assert Task("t", "say x").compute_hash(usual) == "2c167aff9ea3c34e"  # as of the first version
