"""What errors and notices advise, in the words of the library: its arguments, not options, settings or commands.

The rooms below name a setting by its key, such as `vllm.base_url`, and the command line leaves it so. A test looks for
texts of theirs that this table does not cover.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import BotError
from ...types.events import Event, LimitHit, Notice

_WORDS: tuple[tuple[str, str], ...] = (  # whole phrases before single names
    ("Use /compact or /new, or ask for less at once.", "Ask for less at once, or begin another conversation."),
    ("use /compact or /new", "ask for less at once"),
    (" /undo of this turn brings them back.", ""),
    (" /undo brings them back.", ""),
    ("/undo of this turn brings them back.", ""),
    ("/undo brings them back.", ""),
    (
        "Choose one it serves: leave vllm.model empty, or see `vllm-bot models`.",
        "Choose one it serves: leave `model` empty, or see list_models() of the server.",
    ),
    ("choose one with --model or vllm.model", "choose one with `model`"),
    ("Set VLLM_API_KEY, or vllm.api_key in config.json.", "Pass `api_key` to the server."),
    ("Check VLLM_API_KEY and vllm.api_key.", "Check `api_key`."),
    ("check VLLM_API_KEY and vllm.api_key", "check `api_key`"),
    (" or null, got", ", got"),
    ("vllm.api_key is one word", "`api_key` is one word"),
    ("set VLLM_API_KEY instead", "pass `api_key` instead"),
    ("vllm.ssl_verify: false connects", "verify=False connects"),
    ("set vllm.base_url to that address", "pass it as `base_url`"),
    ("set vllm.base_url to that", "pass that as `base_url`"),
    ("set vllm.ssl_verify to a file", "pass as `verify` the path of a file"),
    ("vllm.ssl_verify", "`verify`"),
    ("vllm.base_url", "`base_url`"),
    ("vllm.max_tokens", "`max_tokens`"),
    ("vllm.first_token_timeout", "timeouts=Timeouts(first_token=...)"),
    ("vllm.total_timeout", "timeouts=Timeouts(total=...)"),
    ("vllm.connect_timeout", "timeouts=Timeouts(connect=...)"),
    ("within vllm.load_timeout", "in time"),
    ("vllm.timeout", "timeouts=Timeouts(idle=...)"),
    ("; with --no-function-calling, calls are made in the text", ""),
    ("; with vllm.stream: false, answers come whole", ""),
    ("agent.max_tool_turns", "max_tool_turns"),
)
_ARGUMENTS = dict(_WORDS)
_PATTERN = re.compile("|".join(re.escape(words) for words, _ in _WORDS))


def reword(text: str) -> str:
    """The text with arguments of the library for settings and commands."""
    return _PATTERN.sub(lambda match: _ARGUMENTS[match[0]], text)


def reword_event(event: Event) -> Event:
    """The event, with its advice reworded."""
    if isinstance(event, Notice):
        return Notice(reword(event.text))
    return LimitHit(reword(event.limit)) if isinstance(event, LimitHit) else event


@contextmanager
def rewording() -> Iterator[None]:
    """Reword what a BotError says."""
    try:
        yield
    except BotError as error:
        error.message, error.hint = reword(error.message), reword(error.hint)
        error.args = (error.message,)
        raise
