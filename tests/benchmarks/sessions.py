"""Sessions of clients whose model works well, and of clients whose model goes round in circles. Made from a seed.

A session is data: what the model says, turn by turn, and what the tools give. The model of the rig follows the script in
the question, so a session that ends in other words than its last turn was changed on its way.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

PARAMETERS: dict[str, dict[str, Any]] = {
    "read": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "edit": {"path": {"type": "string"}, "old": {"type": "string"}, "new": {"type": "string"}},
    "run": {"command": {"type": "string"}},
    "status": {"job": {"type": "string"}},
    "note": {"title": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}, "extra": {}},
}
REQUIRED = {"read": ["path"], "edit": ["path", "old", "new"], "run": ["command"], "status": ["job"], "note": ["title"]}
SLOW_S = 5.3  # more than src.model.loops.SLOW_S
ENDINGS = (
    "All is well.",
    "It is done. Let me know if you need more.",
    "The tests pass:\n\n- 12 passed\n- 0 failed",
    "I have changed two files. Would you like me to run the tests?",
    "Next you could run `make check`; I will be here.",
    "Done. First I read it, then I changed one line.",
    "The value is 5, and the flag is true.",
    "I could not find it. Which folder is it in?",
    "Here is the command:\n\n```sh\npytest -q\n```",
    "I'll be glad to go on when the build is green.",
    '{"status": "ok", "count": 3}',
    "Now it works.",
)
BEGINNINGS = ("", "", "Let me look at it:", "I will read it first.", "Now the tests.", "First, I'll check:")
WORDS = ("alpha", "beta", "gamma", "delta", "omega", "sigma", "kappa", "theta")

Call = tuple[str, dict[str, Any]]


class Step(NamedTuple):
    """An answer of the model, and what each of its calls gives. No calls: it ends the question."""

    text: str
    calls: Sequence[Call] = ()
    results: Sequence[str] = ()


class Session(NamedTuple):
    """`questions`: the steps of each. `pause`: seconds that each call takes. `form`: of the last answer."""

    name: str
    client: str
    questions: Sequence[Sequence[Step]]
    pause: float = 0.0
    form: dict[str, Any] | None = None


def write_step(step: Step) -> str:
    calls = [
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': given})}\n</tool_call>" for name, given in step.calls
    ]
    return "\n".join(filter(None, [step.text, *calls]))


def write_question(number: int, steps: Sequence[Step]) -> str:
    return f"Question {number}. @@SCRIPT@@{json.dumps([write_step(step) for step in steps])}@@END@@"


def make_round(name: str, given: dict[str, Any], result: str, text: str = "") -> Step:
    return Step(text, [(name, given)], [result])


class Maker:
    """Makes the questions of one session; `random` is its own."""

    def __init__(self, number: int, seed: int) -> None:
        self.random = random.Random(f"{seed}/{number}")
        self.path = f"src/{self.random.choice(WORDS)}_{number}.py"

    def end(self) -> Step:
        return Step(self.random.choice(ENDINGS))

    def read(self, result: str) -> Step:
        return make_round("read", {"path": self.path}, result, self.random.choice(BEGINNINGS))

    def run_tests(self, result: str) -> Step:
        return make_round("run", {"command": "pytest -q"}, result)

    def edit(self, old: str, new: str) -> Step:
        return make_round("edit", {"path": self.path, "old": old, "new": new}, "changed")

    def poll(self) -> list[list[Step]]:
        rounds = self.random.randint(4, 8)
        return [[*(make_round("status", {"job": "build"}, f"running, {n * 9} %") for n in range(rounds)), self.end()]]

    def poll_slowly(self) -> list[list[Step]]:
        return [[*(make_round("status", {"job": "build"}, "running") for _ in range(4)), self.end()]]

    def poll_two(self) -> list[list[Step]]:
        """Of two jobs in turn one stands still."""
        steps: list[Step] = []
        for number in range(4):
            steps.append(make_round("status", {"job": "a"}, "waiting"))
            steps.append(make_round("status", {"job": "b"}, f"{number} of 4"))
        return [[*steps, self.end()]]

    def retry(self) -> list[list[Step]]:
        failures = self.random.randint(1, 2)
        return [
            [*(self.run_tests("error: connection refused") for _ in range(failures)), self.run_tests("ok"), self.end()]
        ]

    def read_changing_file(self) -> list[list[Step]]:
        return [[*(self.read(f"log line {number}") for number in range(self.random.randint(3, 6))), self.end()]]

    def edit_and_read(self) -> list[list[Step]]:
        steps: list[Step] = []
        for number in range(self.random.randint(2, 4)):
            steps += [self.read(f"x = {number}"), self.edit(f"x = {number}", f"x = {number + 1}")]
        return [[*steps, self.end()]]

    def fix_stubborn_test(self) -> list[list[Step]]:
        """The tests tell the same each time; what is tried differs."""
        steps: list[Step] = []
        for number in range(self.random.randint(3, 4)):
            steps += [self.edit(f"a{number}", f"b{number}"), self.run_tests("1 failed")]
        return [[*steps, self.run_tests("all passed"), self.end()]]

    def edit_long(self) -> list[list[Step]]:
        body = "\n".join(f"def {self.random.choice(WORDS)}_{n}(a, b):\n    return a + b * {n}" for n in range(12))
        return [[self.read("old"), self.edit("old", body), self.edit("older", body), self.end()]]

    def announce_and_do(self) -> list[list[Step]]:
        texts = [text for text in BEGINNINGS if text]
        steps = [make_round("read", {"path": f"{n}.txt"}, f"part {n}", text) for n, text in enumerate(texts)]
        return [[*steps, self.end()]]

    def ask_again(self) -> list[list[Step]]:
        """The user asks the same in one conversation; the same call gives the same result."""
        return [[self.read("x = 1"), self.end()] for _ in range(4)]

    def call_in_parallel(self) -> list[list[Step]]:
        calls: list[Call] = [("read", {"path": f"{word}.txt", "limit": 5}) for word in self.random.sample(WORDS, 3)]
        return [[Step("", calls, ["a", "a", "a"]), Step("", calls[:2], ["a", "a"]), self.end()]]

    def pass_odd_values(self) -> list[list[Step]]:
        odd = self.random.choice(("5", "true", "null", '{"a": 1}', "[1, 2]", "1.10", ""))
        given = {"title": odd, "tags": [odd, "x"], "extra": self.random.choice((odd, 5, True, [odd], {"a": odd}))}
        return [[make_round("note", given, "noted"), make_round("run", {"command": odd or "ls"}, "ok"), self.end()]]

    def look_around(self) -> list[list[Step]]:
        """One file is read again and again between others."""
        steps: list[Step] = []
        for word in self.random.sample(WORDS, 4):
            steps += [self.read("x = 1"), make_round("read", {"path": f"{word}.txt"}, "nothing")]
        return [[*steps, self.end()]]

    def do_twice(self) -> list[list[Step]]:
        return [[self.read("x = 1"), self.read("x = 1"), self.edit("x = 1", "x = 2"), self.read("x = 2"), self.end()]]

    def answer_at_once(self) -> list[list[Step]]:
        return [[self.end()], [Step("I'll read it once you tell me its name.")], [self.end()]]

    def end_empty(self) -> list[list[Step]]:
        """It has said what there was to say beside its last call."""
        return [
            [
                self.read(
                    "x = 1",
                ),
                make_round("edit", {"path": "a", "old": "1", "new": "2"}, "changed", "Done."),
                Step(""),
            ]
        ]

    def think(self) -> list[list[Step]]:
        thought = "<think>\nI will read it now.\n</think>\n\n"
        return [[Step(thought, [("read", {"path": self.path})], ["x = 1"]), Step(f"{thought}It is 1.")]]

    def answer_in_form(self) -> list[list[Step]]:
        return [[self.read("x = 1"), Step('{"x": 1}')]]


FORM = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
HEALTHY: dict[str, Callable[[Maker], list[list[Step]]]] = {
    name: make
    for name, make in vars(Maker).items()
    if not name.startswith("_") and name not in ("end", "read", "run_tests", "edit", "poll_slowly", "answer_in_form")
}
GATEWAY_CLIENTS = ("chat", "chat stream", "responses", "responses stream", "messages", "messages stream")
CLIENTS = (*GATEWAY_CLIENTS, "library")
SLOW, FORMS = 6, 12  # sessions


def make_healthy(count: int, seed: int) -> Iterator[Session]:
    """That many sessions, spread over all kinds and clients."""
    kinds = list(HEALTHY)
    for number in range(count - SLOW - FORMS):
        kind, client = kinds[number % len(kinds)], CLIENTS[number // len(kinds) % len(CLIENTS)]
        if kind == "end_empty" and client == "library":
            kind = "poll"  # the program's own loop asks once more after any empty turn
        yield Session(kind, client, HEALTHY[kind](Maker(number, seed)))
    for number in range(SLOW):
        yield Session("poll_slowly", CLIENTS[number % len(CLIENTS)], Maker(-number, seed).poll_slowly(), SLOW_S)
    for number in range(FORMS):
        maker = Maker(count + number, seed)
        yield Session("answer_in_form", GATEWAY_CLIENTS[number % 2], maker.answer_in_form(), form=FORM)


def make_loops(seed: int, times: int = 3) -> Iterator[Session]:
    """One to four rounds that repeat, for each client; some work well before."""
    for number, (client, period) in enumerate((client, period) for client in CLIENTS for period in (1, 2, 3, 4)):
        maker = Maker(number, seed)
        begun = [maker.read("x = 1"), maker.edit("x = 1", "x = 2")] if maker.random.random() < 0.5 else []
        cycle = [
            make_round("read", {"path": f"{n}.txt"}, "nothing", maker.random.choice(BEGINNINGS)) for n in range(period)
        ]
        yield Session(f"period {period}", client, [[*begun, *cycle * times, Step("I give up.")]])
