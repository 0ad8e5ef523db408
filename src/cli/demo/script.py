"""The script of the demo: topics, each a list of steps. Pure: a conversation in, the next turn out.

It keeps no state. The user's last question selects the topic, and the assistant's turns since then are the steps that
are done. On the text path results come back as text (src/parsing/prompt.py).
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .protocol import DemoRequest, DemoTurn

MARK = "[demo]"
RESULTS_HEADING = "Tool execution results:"  # of results that come as text
OFFERED = re.compile(r"^- \*\*(\w+)\(", re.MULTILINE)  # a tool in the instructions of the text path


class DemoStep(Struct, frozen=True):
    """Text and the call that follows it: the first of `tools`, names with arguments, that is offered."""

    text: str
    tools: tuple[tuple[str, dict[str, Any]], ...]
    thought: str = ""


class Topic(Struct, frozen=True):
    """`words`: any of them in the question chooses it; `end` follows the last step."""

    words: frozenset[str]
    steps: tuple[DemoStep, ...]
    end: str


LIST_FILES = DemoStep("Let me look at what is here.", (("glob", {"pattern": "**/*"}), ("exec", {"command": "ls"})))
READ_FILE = DemoStep("Let me read the program.", (("read", {"path": "greet.py"}),))
RUN_FILE = DemoStep(
    "Let me run it. A command that may change files asks first: `y` runs it, `n` does not.",
    (("exec", {"command": "python3 greet.py", "access": "write"}),),
)
EDIT_FILE = DemoStep(
    "Line 5 calls `great`, but the function is `greet`. I will fix that line. Edits ask first, too.",
    (("edit", {"path": "greet.py", "oldText": "great(", "newText": "greet("}),),
    thought="NameError: name 'great' is not defined. The function above is greet, so line 5 is mistyped.",
)
FIXED = "print(greet("  # in the program, once it was fixed
BREAK_FILE = DemoStep(
    "`greet.py` is fixed already, so I break it again. Edits ask first.",
    (("edit", {"path": "greet.py", "oldText": FIXED, "newText": "print(great("}),),
)
AGAIN = DemoStep("Now it should run.", (("exec", {"command": "python3 greet.py"}),))

OTHER_PATH = {
    True: "These calls were **native**: the server parsed them. Type `/path text` and ask for the `tour` again to see "
    "the same calls as `TOOL_CALL: {...}` in the text, which works without any tool support in the server or model.",
    False: "These calls came **in the text**, as `TOOL_CALL: {...}`, and this program read them. `/path native` "
    "switches back.",
}
WHAT_NEXT = """\
I am a script, not a model, and understand only these words:

- `tour`: list, read, run, fix and run again, asking you wherever a real model would
- `list`, `read`, `run`, `fix`: one thing at a time
- `/help` shows the commands of the chat, which are all real

For a model that understands you, start a server and leave out `--demo`:

```sh
vllm serve Qwen/Qwen3-8B --enable-auto-tool-choice --tool-call-parser hermes
vllm-bot --base-url http://localhost:8000/v1
```"""

TOPICS = (
    Topic(
        frozenset({"tour", "show", "demonstrate", "demo"}),
        (LIST_FILES, READ_FILE, RUN_FILE, EDIT_FILE, AGAIN),
        "That was the tour: I listed and read files, a command failed, I found and fixed the cause, and now it runs. "
        "{path}",
    ),
    Topic(
        frozenset({"fix", "mend", "repair", "edit", "bug", "fails", "change"}),
        (READ_FILE, EDIT_FILE, AGAIN),
        "`greet.py` now calls the right function and runs. {path}",
    ),
    Topic(
        frozenset({"run", "start", "execute", "exec"}),
        (RUN_FILE,),
        "That is the output. Say `fix` and I will fix it. {path}",
    ),
    Topic(
        frozenset({"read", "cat", "open"}),
        (READ_FILE,),
        "`greet.py` defines `greet` but calls `great`: say `fix` and I will fix it.",
    ),
    Topic(
        frozenset({"list", "files", "file", "folder", "here", "ls", "dir"}),
        (LIST_FILES,),
        "These are the files. Say `read` next.",
    ),
)
DENIED = "You said no, so nothing happened. A real model would be told the same. Ask for something else, or `tour`."
NO_TOOL = "I would call a tool here, but none that I know is offered."


def play_script(conversation: DemoRequest) -> DemoTurn:
    """The next turn, marked as the demo's."""
    turn = _next_turn(conversation)
    return replace(turn, text=f"{MARK} {turn.text}")


def _next_turn(conversation: DemoRequest) -> DemoTurn:
    messages = conversation.messages
    question, since = _find_question(messages)
    topic = next((each for each in TOPICS if each.words & question), None)
    if topic is None:
        return DemoTurn(WHAT_NEXT, thought="The script knows none of these words." if question else "")
    done = sum(message.get("role") == "assistant" for message in since)
    if done and "Not run:" in _get_text(since[-1]):
        return DemoTurn(DENIED)
    steps = _choose_steps(topic, since)
    if done >= len(steps):
        return DemoTurn(topic.end.format(path=OTHER_PATH[conversation.native]))
    return _take_step(steps[done], conversation.tools or frozenset(OFFERED.findall(_get_text(messages[0]))))


def _take_step(step: DemoStep, offered: frozenset[str]) -> DemoTurn:
    for call in step.tools:
        if call[0] in offered:
            return DemoTurn(step.text, step.thought, (call,))
    return DemoTurn(NO_TOOL)


def _choose_steps(topic: Topic, since: list[dict[str, Any]]) -> tuple[DemoStep, ...]:
    """The topic's steps; to fix a program that was fixed before, it is first broken again."""
    if EDIT_FILE not in topic.steps:
        return topic.steps
    at = topic.steps.index(READ_FILE)
    result = since[2 * at + 1 : 2 * at + 2]  # each step is a turn and its result
    if not any(FIXED in _get_text(message) for message in result):
        return topic.steps
    return (*topic.steps[: at + 1], BREAK_FILE, *topic.steps[at + 1 :])


def _find_question(messages: list[dict[str, Any]]) -> tuple[set[str], list[dict[str, Any]]]:
    """The words of the user's last question, in lower case, and the messages since."""
    for at in range(len(messages) - 1, -1, -1):
        text = _get_text(messages[at])
        if messages[at].get("role") == "user" and not text.startswith(RESULTS_HEADING):
            return set(re.findall(r"\w+", text.lower())), messages[at + 1 :]
    return set(), []


def _get_text(message: dict[str, Any]) -> str:
    """A message's content, which is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
