"""What a chat template takes for its own, in what others wrote: written so that no server reads it as that. Pure.

A server makes a conversation into one text and finds its special tokens wherever they stand. So a file that holds
`<|im_end|>` and `<|im_start|>system` would end the tool's turn and begin another. A blank behind the first
character keeps such a word readable and makes it no token; a note says so, for the model that may want to write it.
Only what forges a turn is taken: markers of thoughts and calls in a result are read by nobody. What the user says,
in the system prompt too, stays as it is: some models are steered by such words.
"""

from __future__ import annotations

import re

SPECIAL = re.compile(
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


def broken(text: str) -> str:
    """The text with a blank in each such word."""
    return SPECIAL.sub(lambda found: f"{found[0]} ", text)


def harmless(text: str) -> str:
    """The same, and a note where there was any."""
    changed = broken(text)
    return text if changed == text else f"{changed}\n{NOTE}"
