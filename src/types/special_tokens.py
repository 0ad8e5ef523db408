"""Special tokens of chat templates in text from outside, changed so that no server reads them as tokens. Pure.

A server renders a conversation as one text and finds its special tokens anywhere in it. So a file that contains
`<|im_end|>` and `<|im_start|>system` would end the tool's turn and begin another. A blank after the first character
keeps such a word readable, and it is no longer a token; a note tells the model, which may have to write that word.
Only words that can forge a turn are changed: markers of thoughts and calls have no effect in a result. The user's
text and the system prompt stay as they are, because some models are controlled by such words.
"""

from __future__ import annotations

import re

from .lazy_pattern import LazyPattern

SPECIAL = LazyPattern(
    r"<(?=[|｜][^\s<>|｜]{1,60}[|｜]>"  # ChatML, Llama 3, GLM, Cohere, DeepSeek, gpt-oss
    r"|/?(?:start_of_turn|end_of_turn|start_of_image|tool_response|extra_id_[0-9]{1,3})>"  # Gemma, Qwen, Nemotron
    r"|(?:\|(?:turn|tool_response)|(?:turn|tool_response)\|)>"  # Gemma 4
    r"|seed:[be]os>"  # Seed-OSS
    r"|</?SYS>>)"  # Llama 2
    r"|\](?=~!?b[\]\[])|\[(?=e~\[)"  # MiniMax-M2
    r"|\[(?=\|[a-z]{1,20}\|\])"  # EXAONE
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CONTENT|TOOL_CALLS)\])",  # Mistral
    re.IGNORECASE,
)
NOTE = "[words of a chat template in this text are shown with a blank behind their first character]"


def neutralize(text: str) -> str:
    """The text with a blank in each special token."""
    return SPECIAL.sub(lambda found: f"{found[0]} ", text)


def escape_in_json(text: str, escape: str = "\\u{:04x}") -> str:
    """JSON of the same value in which no string holds a special token. `escape`: how a character is written."""
    return SPECIAL.sub(lambda found: escape.format(ord(found[0])), text)


def neutralize_with_note(text: str) -> str:
    """The same, with a note at the end if there was any."""
    changed = neutralize(text)
    if changed == text:
        return text
    return f"{changed}\n{NOTE}"
