"""What the demo says: a few topics, each a list of steps. Pure: a conversation in, the next turn out.

Where it stands it reads off the conversation alone: the last thing the user asked chooses the topic, and the
turns since then are the steps done. On the text path results come back as text, see src/protocol/render.py.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .protocol import Conversation, Said

MARK = "[demo]"
RESULTS_HEADING = "Tool execution results:"  # of results as text
OFFERED = re.compile(r"^- \*\*(\w+)\(", re.MULTILINE)  # a tool in the instructions of the text path


class Step(NamedTuple):
    """Text and the call that follows it; `tools` are names to try in turn, with their arguments."""

    text: str
    tools: tuple[tuple[str, dict[str, Any]], ...]
    thought: str = ""


class Topic(NamedTuple):
    """`words`: any of them in the question chooses it; `end` is said after the last step."""

    words: frozenset[str]
    steps: tuple[Step, ...]
    end: str


LIST_FILES = Step("I look at what is here.", (("glob", {"pattern": "**/*"}), ("exec", {"command": "ls"})))
READ_FILE = Step("I read the program.", (("read", {"path": "greet.py"}),))
RUN_FILE = Step(
    "I run it. Commands ask first: `y` lets it run, `n` does not.", (("exec", {"command": "python3 greet.py"}),)
)
EDIT_FILE = Step(
    "Line 5 calls `great`, and the function is `greet`. I change that line; this asks, too.",
    (("edit", {"path": "greet.py", "oldText": "great(", "newText": "greet("}),),
    thought="NameError: name 'great' is not defined. The function above is greet, so line 5 is mistyped.",
)
AGAIN = Step("Now it should run.", (("exec", {"command": "python3 greet.py"}),))

OTHER_PATH = {
    True: "These calls were **native**: the server read them. Type `/path text` and ask for the `tour` again, and the "
    "same calls come as `TOOL_CALL: {...}` in the text, as from a server or a model that knows no tools.",
    False: "These calls came **in the text**, as `TOOL_CALL: {...}`, and were read by the program. `/path native` goes "
    "back to native ones.",
}
WHAT_NEXT = """\
I am a script, not a model: I understand these words.

- `tour`: list, read, run, mend and run again, with everything a real model would be asked for
- `list`, `read`, `run`, `fix`: one thing at a time
- `/help` shows the commands of the chat, which are all real

For a model that understands you, start a server and leave out `--demo`:

```sh
vllm serve Qwen/Qwen3-8B --enable-auto-tool-choice --tool-call-parser hermes
python cli.py --base-url http://localhost:8000/v1
```"""

TOPICS = (
    Topic(
        frozenset({"tour", "show", "demonstrate", "demo"}),
        (LIST_FILES, READ_FILE, RUN_FILE, EDIT_FILE, AGAIN),
        "That was the tour: files were listed and read, a command failed, the reason was found and mended, and the "
        "command runs. {path}",
    ),
    Topic(
        frozenset({"fix", "mend", "repair", "edit", "bug", "fails", "change"}),
        (READ_FILE, EDIT_FILE, AGAIN),
        "`greet.py` calls what it defines, and runs. {path}",
    ),
    Topic(
        frozenset({"run", "start", "execute", "exec"}),
        (RUN_FILE,),
        "That is what came of it. Say `fix` to have it mended. {path}",
    ),
    Topic(
        frozenset({"read", "cat", "open"}),
        (READ_FILE,),
        "`greet.py` defines `greet` and calls `great`: say `fix` to have it mended.",
    ),
    Topic(
        frozenset({"list", "files", "file", "folder", "here", "ls", "dir"}),
        (LIST_FILES,),
        "These files are here. Say `read` next.",
    ),
)
DENIED = "You said no, so nothing happened, and a real model would be told the same. Ask for something else, or `tour`."
NO_TOOL = "I would call a tool here, and none that I know is offered."


def script(conversation: Conversation) -> Said:
    """The next turn, which says that it is a demo."""
    said = _next(conversation)
    return said._replace(text=f"{MARK} {said.text}")


def _next(conversation: Conversation) -> Said:
    messages = conversation.messages
    question, since = _question(messages)
    topic = next((each for each in TOPICS if each.words & question), None)
    if topic is None:
        return Said(WHAT_NEXT, thought="No word here that the script knows." if question else "")
    done = sum(message.get("role") == "assistant" for message in since)
    if done and _denied(since):
        return Said(DENIED)
    if done >= len(topic.steps):
        return Said(topic.end.format(path=OTHER_PATH[conversation.native]))
    step = topic.steps[done]
    offered = conversation.tools or frozenset(OFFERED.findall(_text(messages[0])))
    call = next((each for each in step.tools if each[0] in offered), None)
    return Said(step.text, step.thought, (call,)) if call else Said(NO_TOOL)


def _question(messages: list[dict[str, Any]]) -> tuple[set[str], list[dict[str, Any]]]:
    """The words of what the user asked last, in lower case, and the messages since."""
    for at in range(len(messages) - 1, -1, -1):
        text = _text(messages[at])
        if messages[at].get("role") == "user" and not text.startswith(RESULTS_HEADING):
            return set(re.findall(r"\w+", text.lower())), messages[at + 1 :]
    return set(), []


def _denied(since: list[dict[str, Any]]) -> bool:
    return "Not run:" in _text(since[-1])


def _text(message: dict[str, Any]) -> str:
    """A message's content, whatever shape it has."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
