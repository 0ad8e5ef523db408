"""What was done for one guarded request: for the header of its answer, and for the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from ..types.events import PrefixKept
from ..types.messages import NATIVE, Usage

LOST = "lost"
RELAYED_PATH = "relayed"  # in place of a call path, in the request log and in a record


class LandedCall(Struct, frozen=True):
    """A call that was sent to the client. `how`: native, text, recovered or repaired. `repairs`: what was mended.

    Or one that was not: `lost`, it cannot be read, and the client has its text. Its name is that of a tool, or empty.
    """

    name: str
    how: str
    origin: str
    id: str = ""
    repairs: tuple[str, ...] = ()

    def describe(self) -> dict[str, str]:
        """For the request log and the page."""
        return {"name": self.name, "how": self.how, "origin": self.origin}


class Report(Struct):
    """What was done for one request. `repairs`: what had to be mended in the text of calls.

    `rescues`: why the turn was asked again: "parser", the server's failed on the answer; "rest", the stream broke off.
    `mended`: what of the history was sent otherwise, because the server refused it.
    `guards`: how often each changed something in the answer.
    `repeated`: answers that the model would have gone on repeating itself in.
    `kept`: what of the last turn the prompt began with; `restored`: answers of the history that something was put into.
    """

    path: str = ""
    calls: list[LandedCall] = []
    repairs: list[str] = []
    rescues: list[str] = []
    mended: list[str] = []
    guards: Counter[str] = field(default_factory=Counter)
    extra_requests: int = 0
    usage: Usage | None = None
    kept: PrefixKept | None = None
    restored: int = 0
    repeated: int = 0

    def add(self, calls: Sequence[LandedCall], guards: Mapping[str, int], usage: Usage | None) -> None:
        """Count what was done for an answer that is over."""
        self.usage = usage or self.usage
        self.calls += calls
        self.guards.update(guards)
        self.repairs += [repair for call in calls for repair in call.repairs]

    @property
    def tokens(self) -> dict[str, int]:
        """As the server counted them, by what they are; none if it did not."""
        if self.usage is None:
            return {}
        usage = self.usage
        return {"prompt": usage.input_tokens, "cached": usage.cached_tokens, "completion": usage.output_tokens}

    @property
    def broken_by(self) -> str:
        """What the prompt changed of the last turn; "" if it began with it, or that was not measured."""
        return self.kept.cause if self.kept else ""

    def to_header(self) -> str:
        """The value of x-vllm-bot. What is empty was not done."""
        origins = [call.origin for call in self.calls if call.how not in (NATIVE, LOST)]
        counts = Counter(call.how for call in self.calls)
        parts: dict[str, object] = {
            "path": self.path,
            "origin": ",".join(dict.fromkeys(origins)),
            "repairs": ",".join(dict.fromkeys(self.repairs)),
            "recovered": counts["recovered"],
            "lost": counts[LOST],
            "rescued": ",".join(self.rescues),
            "mended": ",".join(self.mended),
            "guards": ",".join(f"{name}:{count}" for name, count in self.guards.items()),
            "repeated": self.repeated,
            "restored": self.restored,
            "kept": f"{int(self.kept.share * 1000) / 1000:.3f}" if self.kept else "",
            "broken_by": self.broken_by,
        }
        return "; ".join(f"{name}={value}" for name, value in parts.items() if value)

    def to_entry(self) -> dict[str, Any]:
        """For the request log; what is empty was not done."""
        return {
            "calls": [call.describe() for call in self.calls],
            "repairs": list(dict.fromkeys(self.repairs)),
            "rescued": self.rescues,
            "mended": self.mended,
            "guards": dict(self.guards),
            "extra_requests": self.extra_requests,
            "repeated": self.repeated,
            "restored": self.restored,
            "kept": int(self.kept.share * 10_000) / 10_000 if self.kept else None,
            "broken_by": self.broken_by,
            "tokens": self.tokens,
        }
