"""What a run of `-p` came to: its counts, the limit that ended it, and its exit code, whatever the output."""

from __future__ import annotations

from ...errors import ANSWERED, DENIED, FAILED, INTERRUPTED, LIMIT, BotError
from ...types.ending import AnswerEnding, find_ending
from ...types.events import (
    CallDenied,
    CallStarted,
    Completed,
    Event,
    LimitHit,
    PrefixKept,
    SubagentStep,
    TurnStarted,
)
from ...types.messages import Response

# Endings that count as a limit, and the limit's name.
_CUT_OFF = {"max_tokens": "vllm.max_tokens", "repetition": "repetition"}


class RunReport:
    """The report of a run, from its events."""

    def __init__(self, model: str = "") -> None:
        self.answer = self.stop_reason = self.provider_stop_reason = ""
        self.model = model
        self.turns = self.calls = self.denied = self.input_tokens = self.output_tokens = 0
        self.seconds = 0.0
        self.breaks: dict[str, int] = {}
        self._kept_tokens = self._measured_tokens = 0
        self.hit_limit: str | None = None  # of the whole run
        self._last: Response | None = None
        self.is_unasked = False  # whether a call was denied that `--yes` would have let run
        self._denied_last = False  # whether a call of the last turn that held any was denied

    def take(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self.turns = event.number
        elif isinstance(event, Completed):
            self._count_turn(event)
        elif isinstance(event, CallStarted):
            self.calls += 1
        elif isinstance(event, SubagentStep) and isinstance(event.step, Completed):
            self._count_tokens(event.step.response)
        elif isinstance(event, CallDenied):
            self.denied += 1
            self._denied_last = True
            self.is_unasked |= event.is_unasked
        elif isinstance(event, LimitHit):
            self.hit_limit = event.limit
        elif isinstance(event, PrefixKept):
            self._kept_tokens += event.tokens
            self._measured_tokens += event.of
            if event.cause:
                self.breaks[event.cause] = self.breaks.get(event.cause, 0) + 1

    @property
    def kept(self) -> float | None:
        return round(self._kept_tokens / self._measured_tokens, 4) if self._measured_tokens else None

    @property
    def wants_tools(self) -> bool:
        """Whether the last turn held calls."""
        return self._last is not None and bool(self._last.requested_calls)

    @property
    def ending(self) -> AnswerEnding:
        """How the last answer ended."""
        return find_ending(self._last)

    @property
    def limit(self) -> str | None:
        return self.hit_limit or _CUT_OFF.get(self.ending)

    def _count_turn(self, event: Completed) -> None:
        self._last = response = event.response
        self.answer, self.stop_reason = response.text.strip(), response.stop_reason
        self.provider_stop_reason = response.provider_stop_reason
        self.model = response.model or self.model
        if response.calls:
            self._denied_last = False
        self._count_tokens(response)

    def _count_tokens(self, response: Response) -> None:
        if response.usage:
            self.input_tokens += response.usage.input_tokens
            self.output_tokens += response.usage.output_tokens
        else:  # the server does not count; this is close enough for a limit
            self.output_tokens += len(response.text) // 4 + 1

    def compute_exit_code(self, ended_by: BaseException | None = None) -> int:
        """As in the table of docs/scripts.md."""
        if isinstance(ended_by, BotError):
            return ended_by.exit_code
        if isinstance(ended_by, SystemExit):
            return ended_by.code if isinstance(ended_by.code, int) else FAILED
        if ended_by is not None:
            return FAILED if isinstance(ended_by, Exception) else INTERRUPTED
        if self.limit:
            return LIMIT
        if self._denied_last:
            return DENIED
        return ANSWERED if self.ending == "end_turn" else FAILED
