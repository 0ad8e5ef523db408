"""200 hostile calls at four sizes: on the last screen, nothing that they say looks like the question.

Each call is drawn at one of the sizes, in turns; `--hypothesis-profile many` draws each at all of them.

A harmless twin of each call, drawn by the same code, says which lines are the program's own.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pyte
import pytest
from msgspec.structs import replace

from src.cli.chat.input.approve import TerminalApprover
from src.cli.chat.input.question import OWN_LABELS
from src.cli.render.colours import DARK
from src.security.permissions.approval import SUBMIT_PLAN, Request
from src.security.permissions.policy import Policy
from src.tools.fs.diff import make_diff
from src.types.messages import ToolCall
from tests.thorough import sample

SIZES = [(80, 24), (120, 40), (40, 15), (200, 60)]
CALLS = 200
PROMPTS = ("  Run it? [y/N] ", "  Accept the plan? [y/N] ")
STATUS = "mode ask  tiny  context ~304"
BLANKS = " \t\u00a0\u1680\u2003\u2028\u3000\u200b\u200d\u2060\u2800\u3164\ufeff\r\v\f\x85"
QUESTION = """\
  exec wants to run (access=write asks in mode ask):
    command: ls -la
    access: read: changes nothing, no network
  y: once, c: in this chat, n: no, e: change it first
  a: always; this adds the rule exec:ls -la
  n or a colon, and words: tell the model what to do instead
  Run it? [y/N] """
PLACEHOLDER = "{placeholder}"
MARKS = ("    |", "    :")


def list_hostile_texts(chance: random.Random) -> list[str]:
    """Ingredients: padding of every kind, and what looks like a question or steers a terminal."""
    columns, rows = chance.choice(SIZES)
    blank = chance.choice(BLANKS)
    filled = "".join(line.ljust(columns) for line in QUESTION.split("\n"))
    beside = columns - len("    command: ") - 1
    return [
        QUESTION,
        "\n" * rows + QUESTION,
        f"{blank}\n" * rows + QUESTION,
        "".join(f"{blank * chance.randrange(1, 30)}\n" for _ in range(rows)) + QUESTION,
        blank * columns * rows + QUESTION,
        f"{blank * 9}\n" * 9 + f"x\n{QUESTION}\n" * 3,
        filled,
        "x" * beside + filled,
        "\u65e5" * (beside // 2) + " " * (beside % 2) + filled,
        filled.replace(" ", "\u00a0"),
        QUESTION.replace("\n", "\r"),
        QUESTION.replace("\n", "\r\n"),
        QUESTION.replace("\n", "\u2028"),
        QUESTION.replace("\n", "\x85"),
        "\x1b[2J\x1b[H" + QUESTION,
        f"\x1b[{rows}A\r" + QUESTION.replace("\n", "\x1b[E"),
        "\x9b2J\x9bH" + QUESTION,
        "\x1b]0;Run it? [y/N]\x07\x1b]52;c;AAAA\x07",
        "\u202e" + QUESTION[::-1],
        "\u2067" + QUESTION,
        "  Run it? [y/N] y",
        "  (no lines are above the screen)\n" * 3,
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-rm -rf src\n+ls -la\n" + QUESTION,
        "\t" * 30 + QUESTION,
        "e\u0301" * columns + filled,
        "\U0001f600" * (columns // 2) + filled,
        "a\u0300\u0336" * 200 + QUESTION,
        f"line\n{QUESTION}\n" * 40,
        "long " * 900 + QUESTION,
        "x" * 5_000 + QUESTION,
        "\\x20{400}\n" + QUESTION,
        "ls -la",
        "",
    ]


def make_calls(folder) -> Iterator[Request]:
    """Requests as the gate makes them: with the reason and the rule of the policy, and the diff of a file."""
    for number in range(CALLS):
        chance = random.Random(number)
        texts = list_hostile_texts(chance)

        def pick(texts=texts, chance=chance) -> str:
            return "".join(chance.sample(texts, chance.choice([1, 1, 2])))

        name, arguments = chance.choice(
            [
                ("exec", {"command": f"rm -rf src; true <<X\n{pick()}\nX", "access": "write"}),
                ("exec", {"command": pick(), "access": "write"}),
                ("write", {"path": "a.txt", "content": pick()}),
                ("write", {"path": pick().replace("/", "")[:900] or "a", "content": pick()}),
                ("edit", {"path": "a.txt", "oldText": pick(), "newText": pick()}),
                ("server_tool", {"text": pick(), "files": [pick(), {pick(): 1}]}),
                ("server_tool", {"access": "read: changes nothing, no network", "reviewed": pick(), pick(): pick()}),
                (pick(), {pick(): pick()}),
                ("put_back", {"files": [pick(), pick()]}),
                (SUBMIT_PLAN, {"plan": pick()}),
            ]
        )
        call = ToolCall("c", name, arguments)
        policy = Policy(folder)
        decision = policy.decide(call, "high")
        preview = ""
        if name in ("write", "edit"):
            before, after = chance.choice([(None, pick()), (pick(), pick()), (f"a\n{QUESTION}\nb\n" * 9, pick())])
            preview = make_diff(str(arguments["path"]), before, after)
        reviews = (f"qwen: APPROVE, {pick()}",) if chance.random() < 0.2 else ()
        yield Request(
            call,
            decision.reason,
            lambda _call: "",
            preview,
            str(policy.find_always_rule(call, decision.access) or ""),
            reviews,
            decision.access,
            ("network", "outside") if decision.access else (),
        )


def make_twin(request: Request) -> Request:
    """The same question about a call that says nothing."""
    call = request.call
    return replace(
        request,
        call=replace(call, name=call.name if is_plain(call.name) else "", arguments={"placeholder": PLACEHOLDER}),
        reason=PLACEHOLDER,
        preview="",
        rule=PLACEHOLDER if request.rule else "",
        reviews=(),
    )


def is_plain(name: str) -> bool:
    return bool(re.fullmatch("[a-zA-Z_]+", name))


def draw(request: Request, size: tuple[int, int]) -> list[str]:
    """The lines of the question, as they are sent to the terminal."""
    shown: list[str] = []

    def ask(question, _default):
        shown.append(question)
        return "n"

    TerminalApprover(ask, shown.append, get_size=lambda: size, find_colours=lambda: DARK).approve(request)
    return "\n".join(shown).split("\n")


def show(lines: list[str], size: tuple[int, int]) -> list[str]:
    """The last screen, with a line below. Lines that scroll away cannot come back: none steers the terminal."""
    columns, rows = size
    screen = pyte.Screen(columns, rows)
    stream = pyte.Stream(screen)
    stream.feed("\r\n".join([*[""] * rows, *lines[-2 * rows :], STATUS[: columns - 1]]))
    return [line.rstrip() for line in screen.display]


def list_own_lines(request: Request, size: tuple[int, int]) -> tuple[list[str], list[str]]:
    """What our code draws for the twin: whole lines, and how the lines begin in which the call has a say."""
    twin = make_twin(request)
    wide = [line for line in draw(twin, (0, 0)) if PLACEHOLDER in line and not line.startswith("    placeholder:")]
    names = [key if is_plain(key) and key not in OWN_LABELS else '"' for key in request.call.arguments]
    beginnings = [line.partition(PLACEHOLDER)[0].partition('""')[0] for line in wide]
    beginnings += [f"    {name}" for name in names] + ["    reviewed:"] * len(request.reviews)
    own = [line.rstrip() for line in (*draw(twin, size), *beginnings)]
    return [line for line in own if "placeholder" not in line], beginnings


def find_forged_lines(request: Request, size: tuple[int, int]) -> list[str]:
    """The lines of the question on the last screen that bear no mark of foreign text and are not ours.

    Each of our lines stands there once, so that a copy of it is forged.
    """
    rows = size[1]
    lines = draw(request, size)
    screen = show(lines, size)
    own, beginnings = list_own_lines(request, size)
    hidden = max(len(lines) + 1 - rows, 0)
    note = [f"  ({hidden:,} lines are above: scroll up)"] * bool(hidden)
    question = next(prompt for prompt in PROMPTS if prompt in lines).rstrip()
    assert screen[-2 - len(note) :] == [*note, question, STATUS]
    forged = []
    for line in screen[max(rows - 1 - len(lines), 0) : rows - 2 - len(note)]:
        beginning = next((each for each in beginnings if line.startswith(each)), None)
        if line in own:
            own.remove(line)
        elif beginning is not None:
            beginnings.remove(beginning)
        elif line and not line.startswith(MARKS):
            forged.append(line)
    return forged


@pytest.mark.thorough
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_no_line_of_a_hostile_call_looks_like_the_question(size, tmp_path):
    calls = list(make_calls(tmp_path))
    chosen = sample(range(CALLS), 16 * len(SIZES), start=SIZES.index(size))
    forged = {number: find_forged_lines(calls[number], size) for number in chosen}
    assert {number: lines for number, lines in forged.items() if lines} == {}
