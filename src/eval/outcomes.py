"""What came of the runs, and the file that keeps them.

results.jsonl has a line for the eval, one for each run as it ends, and one for what was found at the end. A line is
never changed: an eval that is stopped goes on from them, and a line that a crash cut off is removed first. An eval that
came to its end is kept as last.jsonl when the next one starts: the server may have changed since.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..app.result_file import ResultFile
from ..errors import BotError, ConfigError
from ..types.messages import JSON, NATIVE

RESULTS, LAST = "results.jsonl", "last.jsonl"
# model: another call than expected; format: right once repaired; server: right once recovered; lost: a call was written
# and did not arrive; refused: by the server; harness: the run itself failed, and says nothing.
Kind = Literal["", "model", "format", "server", "lost", "refused", "harness"]
KINDS: tuple[Kind, ...] = ("model", "format", "server", "lost", "refused", "harness")


class HttpExchange(NamedTuple):
    path: str
    request: str
    status: int
    answer: str


class CaseOutcome(NamedTuple):
    """Of one run of a case under an arm. `passed`: all calls were as expected in the end; `kind` and `why`: what was
    in the way. `origins`: where the calls came from; `in_thoughts`: one was in a thought. `exchanges` and `read` are
    kept where `kind` is not empty.
    """

    arm: str
    case: str
    seed: int
    passed: bool
    kind: Kind = ""
    why: str = ""
    requests: int = 0
    seconds: float = 0.0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    thinks: bool = False
    in_thoughts: bool = False
    origins: tuple[str, ...] = ()
    shows_tools: bool | None = None
    notices: tuple[str, ...] = ()
    exchanges: tuple[HttpExchange, ...] = ()
    read: tuple[Mapping[str, JSON], ...] = ()

    @property
    def key(self) -> tuple[str, str, int]:
        return self.arm, self.case, self.seed

    @property
    def is_clean(self) -> bool:
        """Right, and nothing had to be repaired or recovered."""
        return self.passed and not self.kind

    @property
    def is_native(self) -> bool:
        """The server's parser read all of its calls."""
        return set(self.origins) <= {NATIVE}

    @property
    def counts(self) -> bool:
        return self.kind != "harness"


def read_outcome(value: Mapping[str, Any]) -> CaseOutcome:
    """Raises TypeError for what is none."""
    exchanges = tuple(HttpExchange(*each) for each in value.get("exchanges", ()))
    tuples = {name: tuple(value[name]) for name in ("origins", "notices", "read") if name in value}
    return CaseOutcome(**{**value, **tuples, "exchanges": exchanges})


class SavedEval(NamedTuple):
    """What a results.jsonl holds: about the eval, its runs, and what was found, if it came to an end."""

    about: Mapping[str, JSON]
    outcomes: list[CaseOutcome]
    found: Mapping[str, JSON]


def read_results(path: Path) -> SavedEval:
    """Raises BotError. `path`: the file, or its folder."""
    if path.is_dir():
        path /= RESULTS
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror or error}.", "Name the results.jsonl of an earlier eval."
        ) from error
    about: dict[str, JSON] = {}
    values: dict[str, JSON] = {}
    outcomes: list[CaseOutcome] = []
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
            match value.pop("type"):
                case "eval":
                    about = value
                case "found":
                    values = value
                case _:
                    outcomes.append(read_outcome(value))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BotError(f"{path}, line {number}: this is no line of an eval: {error}.") from error
    if not about:
        raise BotError(f"{path}: this holds no eval.", "Name the results.jsonl of an earlier eval.")
    return SavedEval(about, outcomes, values)


class EvalResults:
    """The results.jsonl of a folder, which is made. One that was not finished must be of the same eval, by `about`.

    `clean` removes secrets; `reuses`: one that was finished is not begun anew. `earlier`: the outcomes that it has.
    Raises BotError where it is of another eval, or one is running.
    """

    def __init__(
        self, folder: Path, about: Mapping[str, JSON], clean: Callable[[str], str], *, reuses: bool = False
    ) -> None:
        self._clean = clean
        self.path = folder / RESULTS
        self.earlier: list[CaseOutcome] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = ResultFile(self.path)
            try:
                self._begin(about, folder / LAST, reuses=reuses)
            except BaseException:
                self._file.close()
                raise
        except BlockingIOError as error:
            raise BotError(f"Another eval is writing to {folder}.", "Wait for it, or name another --out.") from error
        except OSError as error:
            raise BotError(f"{folder}: {error.strerror or error}.") from error

    def _begin(self, about: Mapping[str, JSON], last: Path, *, reuses: bool) -> None:
        """Take up what the file holds; one that was finished goes to `last`. Raises BotError."""
        if not self._file.size:
            self._file.add({"type": "eval", **about})
            return
        before = read_results(self.path)
        changed = (
            f"{name} {before.about.get(name)!r}, and this one has {value!r}"
            for name, value in about.items()
            if before.about.get(name) != value
        )
        different = next(changed, "")
        if before.found and (different or not reuses):
            self.path.replace(last)
            self._file.close()
            self._file = ResultFile(self.path)
            self._file.add({"type": "eval", **about})
        elif different:
            hint = "Name another folder with --out, or remove the file."
            raise BotError(f"{self.path} is of an eval with {different}, and was not finished.", hint)
        else:
            self.earlier = before.outcomes

    def add(self, outcome: CaseOutcome) -> CaseOutcome:
        """The outcome as it was written: without secrets. Raises BotError where it cannot be written."""
        defaults = CaseOutcome._field_defaults
        values = outcome._asdict()
        row = _clean_texts({k: v for k, v in values.items() if k not in defaults or v != defaults[k]}, self._clean)
        self._file.add({"type": "run", **row})
        return read_outcome(row)

    def finish(self, found: Mapping[str, JSON]) -> None:
        self._file.add({"type": "found", **_clean_texts(found, self._clean)})

    def __enter__(self) -> EvalResults:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def count_kinds(outcomes: Iterable[CaseOutcome]) -> dict[Kind, int]:
    kinds = [outcome.kind for outcome in outcomes]
    return {kind: kinds.count(kind) for kind in KINDS if kind in kinds}


def _clean_texts(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {key: _clean_texts(each, clean) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean_texts(each, clean) for each in value]
    return value
