"""What the gateway may change in requests and answers, as its settings say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ..config.settings import DEFAULT_GUARDS


class TurnOptions(Struct, frozen=True):
    """`repair_turns`: how often a call that cannot be read is asked for again. `recovers_parser_errors`: an answer that
    the server's parser made an error of is asked for once more, with calls in the text. `constrained`: "auto", "on" or
    "off", as `text_protocol.constrained`. `guards`: those that are on.
    """

    repair_turns: int = 1
    recovers_parser_errors: bool = True
    constrained: str = "auto"
    guards: Sequence[str] = DEFAULT_GUARDS

    def to_dict(self) -> dict[str, Any]:
        """For the record of a turn."""
        return {
            "repair_turns": self.repair_turns,
            "recover_parser_errors": self.recovers_parser_errors,
            "constrained": self.constrained,
            "guards": sorted(self.guards),
        }


def restore_options(recorded: Mapping[str, Any]) -> TurnOptions:
    """Raises KeyError, TypeError and ValueError. A record of an earlier release says nothing of `constrained`."""
    return TurnOptions(
        int(recorded["repair_turns"]),
        bool(recorded["recover_parser_errors"]),
        str(recorded.get("constrained", "auto")),
        [str(each) for each in recorded["guards"]],
    )
