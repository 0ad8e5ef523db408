"""How the answer to a question ended. No I/O.

Scripts, the library, editors, batches and subagents map these words to their own.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from .messages import Response, Text

# end_turn: there is an answer that the model ended itself. After any other there is no answer, or not a whole one.
AnswerEnding: TypeAlias = Literal[
    "end_turn", "no_answer", "max_tokens", "repetition", "max_tool_turns", "stuck", "other"
]

EMPTY_ANSWER = Text("")  # of a tool that ended the run; a model's answer holds no empty block

ENDINGS: dict[str, str] = {
    "no_answer": "The model ended its turn without saying anything.",
    "max_tokens": "The answer was cut off at its limit of tokens.",
    "repetition": "The answer kept repeating itself, so it was stopped.",
    "max_tool_turns": "The question took more turns with tool calls than are allowed.",
    "timeout": "The answer took longer than is allowed.",
    "stuck": "The model made calls that cannot be run, again and again, and gave no answer.",
    "other": "The server stopped the answer: {reason}.",
}


def find_ending(last: Response | None, *, has_hit_limit: bool = False) -> AnswerEnding:
    """How it ended, from the last response, if there was one. `has_hit_limit`: of turns with calls."""
    if has_hit_limit:
        return "max_tool_turns"
    if last is None:  # calls that had waited were its last ones
        return "stuck"
    if last.stop_reason in ("max_tokens", "repetition"):
        return last.stop_reason
    if last.is_stopped_by_server:
        return "other"
    if last.requested_calls:  # text before a call is no answer
        return "stuck"
    if not last.text.strip() and EMPTY_ANSWER not in last.content:  # nor is a thought
        return "no_answer"
    return "end_turn"


def describe_ending(ending: str, provider_stop_reason: str = "") -> str:
    """A sentence for the user; empty for an answer that is whole."""
    return ENDINGS.get(ending, "").format(reason=provider_stop_reason or "it gave no reason")
