"""How much of a conversation's last prompt and answer the next prompt begins with, on a real server.

    python -m tests.live.continuity http://127.0.0.1:8190/v1 [--path tokens native text] [--turns 40] [--loose]

The server has the rig's scripted model. Each turn is a thought and a call, of values with what encoders disagree about;
every eighth answer has no call, and a question follows. `--loose`: the model writes blanks where its chat template has
none, and JSON otherwise.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator

from src.app.model import Model
from src.negotiation.call_path import CallPath
from src.parsing.formats.table import FORMATS
from src.types.events import Completed, PrefixKept
from src.types.messages import Message, Response, SystemMessage, ToolDefinition, ToolResult, ToolResults, UserMessage

READ = ToolDefinition(
    "read",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
PATHS = ("a.txt", "ä b.txt", "c/\\d.txt", 'e "f".txt', "g\th.txt")


def find_format(name: str):
    return next(row for row in FORMATS if row.name == name)


def loosen(answer: str) -> str:
    """An answer as a model may write it that was trained on another template."""
    compact = answer.replace('": ', '":').replace(', "', ',"')
    return compact.replace("Turn ", "\n Turn ").replace("</think>\n\n", "</think>\n")


def write_turns(mode: str, turns: int, opener: str, form: str) -> list[str]:
    """What the model says after one question."""
    said = []
    for number in range(turns):
        value = PATHS[number % len(PATHS)]
        path = json.dumps(value, ensure_ascii=bool(number % 2))
        thought = f"{opener}Turn {number}: the file tells.\n</think>\n\n"
        call = find_format(form).write("read", {"path": value})
        text = f'TOOL_CALL: {{"name": "read", "args": {{"path":{path} }}}}'
        said.append(thought + (text if mode == "text" else call))
    return [*said, f"{opener}I have all.\n</think>\n\nThat is all."]


def talk(
    address: str, mode: str, turns: int, opener: str, form: str, *, is_loose: bool = False
) -> Iterator[tuple[PrefixKept | None, Response]]:
    """Each turn with what the meter told of it."""
    with Model.connect(address, "tiny") as model:
        model.path = CallPath().choose(mode)  # type: ignore[arg-type] # a name of the command line
        messages: list[Message] = [SystemMessage("Be brief.")]
        while turns > 0:
            answers = write_turns(mode, min(turns, 8), opener, form)
            script = json.dumps([loosen(each) for each in answers] if is_loose else answers)
            turns -= 8
            messages.append(UserMessage(f"Read on.\n@@SCRIPT@@{script}@@END@@"))
            while True:
                kept = None
                for event in model.respond(messages, [READ]):
                    kept = event if isinstance(event, PrefixKept) else kept
                    response = event.response if isinstance(event, Completed) else None
                assert response is not None
                messages.append(response)
                yield kept, response
                if not response.calls:
                    break
                results = (ToolResult(call.id, call.name, "text", "Line one.\n  Line two.") for call in response.calls)
                messages.append(ToolResults(tuple(results)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--path", nargs="+", default=["native", "text", "tokens"])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--format", default="hermes", help="of native calls: a name of the table of formats")
    parser.add_argument("--opened", action="store_true", help="the chat template opens the thought, and not the model")
    parser.add_argument("--loose", action="store_true", help="the model writes otherwise than its chat template")
    options = parser.parse_args()
    for mode in options.path:
        causes: Counter[str] = Counter()
        kept = of = cached = prompt = 0
        opener = "" if options.opened else "<think>\n"
        said = talk(options.address, mode, options.turns, opener, options.format, is_loose=options.loose)
        for number, (told, response) in enumerate(said):
            if number and response.usage:
                cached += response.usage.cached_tokens
                prompt += response.usage.input_tokens
            if told is not None:
                kept, of = kept + told.tokens, of + told.of
                causes.update([told.cause] if told.cause else [])
        share = f"{kept / of:.2%}" if of else "not measured"
        print(f"{mode:8} kept {share}; breaks {dict(causes)}; cached {cached:,} of {prompt:,}")


if __name__ == "__main__":
    main()
