"""CPU time, a turn, to put back what a gateway's client dropped, to measure what was kept, and to make a prompt of ids.

    python -m tests.benchmarks.continuity [--rounds N]

A client drops the thoughts and writes the arguments of calls anew. Restoring is timed with the history known from the
turn before, and new, as where another worker answered that. A prompt of ids is timed where the template writes the last
answer as the model did, and where it does not; the request for its text is left out. Fails where one takes more than
BAR_MS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from src.negotiation.answer_ids import AnswerIds
from src.parsing.arguments.tool_index import ToolIndex
from src.providers.base import RawTokens
from src.providers.vllm_tokens import RenderedPrompt, read_rendered
from src.serve.chat_request import ChatBody
from src.serve.conversation import Conversation
from src.serve.memory import OwnMemory
from src.serve.restore import HistoryMemo
from src.types.messages import Reasoning, Response, ToolCall

BAR_MS = 1.0
TURNS = (20, 100)
PROMPT_TOKENS = (10_000, 100_000)
TOOL = {"type": "function", "function": {"name": "read", "description": "x" * 2000, "parameters": {"type": "object"}}}
BEGINNING = [{"role": "system", "content": "You are. " * 1500}, {"role": "user", "content": "Go."}]


def make_answer(number: int) -> Response:
    call = ToolCall(f"c{number}", "read", {"path": f"{number}.txt"}, written=f'{{"path":"{number}.txt"}}')
    return Response((Reasoning("I think. " * 120), call))


def list_histories(turns: int) -> Iterator[list[dict[str, Any]]]:
    """What a client sends in each turn; every message is new, as it is behind the wire."""
    messages: list[dict[str, Any]] = list(BEGINNING)
    for number in range(turns):
        yield json.loads(json.dumps(messages))
        function = {"name": "read", "arguments": json.dumps({"path": f"{number}.txt"})}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "line\n" * 60})


async def take_turns(turns: int) -> tuple[float, float, float]:
    """Milliseconds of the last turn: restoring with a known history and with a new one, and the meter."""
    memory, memo = OwnMemory(), HistoryMemo()
    new = known = meter = 0.0
    for number, messages in enumerate(list_histories(turns)):
        chat = ChatBody({"model": "m", "messages": messages, "tools": [TOOL] * 10})
        prompt = b",".join(b"%d" % (each * 7 % 150_000) for each in range(4000 + 100 * number))
        started = time.thread_time()
        await Conversation(memory, HistoryMemo(), "key", chat).restore()
        middle = time.thread_time()
        conversation = Conversation(memory, memo, "key", chat)
        await conversation.restore()
        restored = time.thread_time()
        conversation.measure(prompt, "native")
        await conversation.keep(make_answer(number), [*range(80)])
        new, known, meter = middle - started, restored - middle, time.thread_time() - restored
        if conversation.restored != number:
            raise AssertionError(f"{conversation.restored} answers of {number} were put back.")
    return known * 1e3, new * 1e3, meter * 1e3


class Detokenizer:
    """A server that tells the text of tokens, always the same one."""

    def __init__(self, text: str) -> None:
        self._text = text

    def detokenize(self, *_: object) -> Iterator[Any]:
        yield from ()
        return self._text


def render(*parts: Sequence[int]) -> RenderedPrompt:
    ids = [each for part in parts for each in part]
    return read_rendered(json.dumps({"token_ids": ids}, separators=(",", ":")).encode())


def finish(steps: Iterator[Any]) -> RenderedPrompt:
    """What a generator without effects returns."""
    try:
        next(steps)
    except StopIteration as done:
        return done.value
    raise AssertionError("It asked for something.")


def make_prompt(tokens: int, *, is_same: bool) -> float:
    """Milliseconds for a prompt of so many tokens and an answer of 200; `is_same`: the template writes its ids."""
    text = "I think. " * 120 + '<tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</tool_call>'
    index = ToolIndex([TOOL])
    ids = AnswerIds(Detokenizer(text))  # type: ignore[arg-type]
    prompt, answer = range(1_000, 1_000 + tokens), range(200)
    _, asked = finish(ids.extend(render(prompt), "m", index, ""))
    ids.end(asked, RawTokens([*answer], 0, 999), text)
    rendered = render(prompt, answer if is_same else range(200, 400), [999, 7])
    started = time.thread_time()
    sent, _ = finish(ids.extend(rendered, "m", index, ""))
    taken = time.thread_time() - started
    if sent.ids != render(prompt, answer, [999, 7]).ids:
        raise AssertionError("The answer's own ids are not in the prompt.")
    return taken * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    is_slow = False
    for turns in TURNS:
        rounds = [asyncio.run(take_turns(turns)) for _ in range(options.rounds)]
        known, new, meter = map(min, zip(*rounds, strict=True))  # what others do on the machine is left out
        is_slow |= max(known, new, meter) > BAR_MS
        print(f"turn {turns}: restoring {known:.2f} ms (a new history {new:.2f} ms), meter {meter:.2f} ms")
    for tokens in PROMPT_TOKENS:
        made = [(make_prompt(tokens, is_same=True), make_prompt(tokens, is_same=False)) for _ in range(options.rounds)]
        same, other = map(min, zip(*made, strict=True))
        is_slow |= max(same, other) > BAR_MS
        print(
            f"a prompt of {tokens:,} ids: {same:.2f} ms, where the template writes the answer otherwise {other:.2f} ms"
        )
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main())
