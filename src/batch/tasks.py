"""The tasks of a batch, read and checked before anything runs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ..config import Settings
from ..config.settings import MODES
from ..errors import ConfigError
from ..types.messages import JSON
from .rows import EXAMPLE, list_files, read_rows

DEFAULT_MODE = "auto"  # nobody can be asked
# What an id may hold: it names files, and stands in reports.
ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+:-]{0,199}")
# Settings that change where or how fast a task runs, and not its result; and keys, whose digests are not for files.
INCIDENTAL = {
    "vllm": (
        "base_url",
        "api_key",
        "available_models",
        "default_model_index",
        "timeout",
        "connect_timeout",
        "first_token_timeout",
        "total_timeout",
        "load_timeout",
        "retries",
        "ssl_verify",
        "headers",
    ),
    "workspace": ("dir",),
    "review": ("timeout", "chair"),
    "security": ("container_runtime", "container_cpus"),
}
REVIEWER_PLACES = ("base_url", "api_key")  # of an entry of review.models
SECTIONS_OF_RESULTS = ("vllm", "text_protocol", "agent", "workspace", "tools", "security", "system_prompt")


SWE_BENCH_KEYS = {"instance_id", "problem_statement", "base_commit"}
IMAGE_KEYS = ("image", "image_name", "docker_image")  # the latter two in rows like those of SWE-bench
GITHUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


class Task(NamedTuple):
    """One row of the input.

    `repo`: URL or folder of a Git repository whose commit `base` is checked out; without one the folder is empty.
    `files`: path to text, written before the model begins. `checks`: commands that run after it. `tools`: the names of
    those on offer; None: all. `schema`: the JSON Schema of the answer. `sample`: the number of this run of the task,
    from 1; each has an id and a seed of its own. `extra`: the other keys of its row, which go into that of the result.
    `image`: that of a container, in which its commands run.
    """

    id: str
    prompt: str
    repo: str = ""
    base: str = ""
    files: Mapping[str, str] = {}
    mode: str = DEFAULT_MODE
    checks: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    schema: Mapping[str, JSON] | None = None
    sample: int = 1
    extra: Mapping[str, JSON] = {}
    image: str = ""

    def compute_hash(self, relevant: Mapping[str, Any]) -> str:
        """Of the task and of the settings that its result depends on: 16 hexadecimal digits."""
        counted = {name: value for name, value in self._asdict().items() if name in TASK_KEYS}
        if not self.image:  # as before there were images, so that nothing runs again
            del counted["image"]
        text = json.dumps([counted, relevant], sort_keys=True, default=str)
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def select_relevant(settings: Settings) -> dict[str, Any]:
    """The settings that the result of a task depends on, by section; those of `vllm` as they are for its model.

    A setting at its default does not count, so that a later version with more settings runs nothing again. What names
    other models counts only where some take part: as subagents, reviewers, or authors of summaries.
    """
    settings = replace(settings, vllm=settings.get_model_settings(settings.vllm.model))
    given, defaults = (to_builtins(each, enc_hook=str) for each in (settings, Settings()))
    given["security"]["exec_max_timeout"] = settings.longest_timeout  # depends on where exec_timeout is set
    defaults["security"]["exec_max_timeout"] = Settings().longest_timeout

    def select(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
        skipped, usual = INCIDENTAL.get(section, ()), defaults[section]
        return {key: value for key, value in values.items() if value != usual[key] and key not in skipped}

    relevant: dict[str, Any] = {section: select(section, given[section]) for section in SECTIONS_OF_RESULTS}
    if settings.servers or settings.review.models or settings.agent.compact_model:
        reviewers = [
            {key: value for key, value in entry.items() if key not in REVIEWER_PLACES}
            for entry in settings.review.models
        ]
        relevant["models"] = given["models"]
        relevant["servers"] = {name: select("vllm", values) for name, values in given["servers"].items()}
        relevant["review"] = select("review", given["review"]) | {"models": reviewers}
    return relevant


TASK_KEYS = tuple(name for name in Task._fields if name not in ("sample", "extra"))


class BatchOptions(Struct, frozen=True):
    """`servers`: addresses; the first one is that of the settings. `timeout`: seconds for one task."""

    servers: tuple[str, ...]
    jobs: int = 64
    budget_tokens: int | None = None
    retry_failed: bool = False
    timeout: float = 3600.0
    ray: str | None = None  # the address of a cluster; "" starts one here
    ray_needs: Mapping[str, Any] = {}  # what a task reserves there, as Ray names it: num_cpus, memory, resources
    ray_runtime_env: Mapping[str, Any] = {}


def repeat_tasks(tasks: Sequence[Task], samples: int) -> list[Task]:
    """Each task so many times; the second run of `a` is `a@2`. Raises ConfigError where a task has that id already."""
    runs = []
    for task in tasks:
        runs.append(task)
        runs += [task._replace(id=f"{task.id}@{number}", sample=number) for number in range(2, samples + 1)]
    for name, count in Counter(run.id for run in runs).items():
        if count > 1:
            raise ConfigError(f"--samples: two runs would have the id {name}.", "Give the task another id.")
    return runs


def read_tasks(paths: Sequence[Path], *, repo: str = "", mode: str = "") -> list[Task]:
    """The tasks of files, or of a data set's folder. `repo` and `mode` are for tasks that name none.

    Raises ConfigError with the place of a row that is no task, or whose id was there before.
    """
    places: dict[str, str] = {}
    tasks = []
    for place, value in (row for path in paths for file in list_files(path) for row in read_rows(file)):
        try:
            task = _read_task(value, repo, mode)
            if task.id in places:
                raise ValueError(f"the id {task.id} was there before, at {places[task.id]}")
        except ValueError as error:
            raise ConfigError(f"{place}: {error}.", EXAMPLE) from error
        places[task.id] = place
        tasks.append(task)
    if not tasks:
        raise ConfigError(f"{paths[0]} holds no task.", EXAMPLE)
    return tasks


def _read_task(value: object, repo: str, mode: str) -> Task:
    """Raises ValueError with what is wrong."""
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")
    keys, row = TASK_KEYS, value
    if set(value) >= SWE_BENCH_KEYS:
        keys, row = (*SWE_BENCH_KEYS, *IMAGE_KEYS, "repo"), _read_swe_bench(value, repo)
    fields: dict[str, Any] = {"repo": repo, "mode": mode or DEFAULT_MODE}
    fields |= {name: each for name, each in row.items() if name in TASK_KEYS and each not in (None, "")}
    fields["extra"] = {name: each for name, each in value.items() if name not in keys}
    _check_fields(fields)
    return Task(**fields)


def _check_fields(fields: dict[str, Any]) -> None:
    """Also makes the id a text, and tuples of the lists. Raises ValueError with what is wrong."""
    for name, kinds in (("id", (str, int)), ("prompt", str)):
        if not isinstance(fields.get(name), kinds) or not str(fields[name]).strip():
            raise ValueError(f"{name}: expected a text")
    fields["id"] = str(fields["id"])
    if not ID.fullmatch(fields["id"]):
        raise ValueError(f"id: {fields['id'][:80]!r} holds more than letters, digits and _.@+:-, or is too long")
    _check_source(fields)
    for name in ("checks", "tools"):
        if name in fields:
            fields[name] = _read_texts(name, fields[name])
    _check_files(fields.get("files", {}))
    if not isinstance(fields.get("schema", {}), dict):
        raise ValueError("schema: expected a JSON Schema")


def _read_swe_bench(value: Mapping[str, Any], repo: str) -> dict[str, Any]:
    """A row of SWE-bench as a task."""
    where = value.get("repo")
    if isinstance(where, str) and GITHUB_NAME.fullmatch(where):
        where = f"https://github.com/{where}"
    keys = {"id": "instance_id", "prompt": "problem_statement", "base": "base_commit"}
    image = next((value[key] for key in IMAGE_KEYS if value.get(key)), "")
    return {name: value.get(key) for name, key in keys.items()} | {"repo": repo or where, "image": image}


def _read_texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name}: expected a list of texts")
    return tuple(value)


def _check_source(fields: Mapping[str, Any]) -> None:
    for name in ("repo", "base", "mode", "image"):
        if not isinstance(fields.get(name, ""), str):
            raise ValueError(f"{name}: expected a text")
        if fields.get(name, "").startswith("-"):
            raise ValueError(f"{name} must not begin with -")
    if fields["mode"] not in MODES:
        raise ValueError(f"mode: expected one of {', '.join(MODES)}, got {fields['mode']!r}")
    if fields.get("base") and not fields["repo"]:
        raise ValueError("base needs a repo")


def _check_files(files: object) -> None:
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise ValueError("files: expected an object of paths and texts")
    for name in files:
        path = PurePosixPath(name)
        if not path.parts or path.is_absolute() or ".." in path.parts or ".git" in path.parts or "\0" in name:
            raise ValueError(f"files: {name!r} is no path inside the folder")
