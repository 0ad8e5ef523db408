"""One model on one server: a conversation in, the model's turn out, as effects and events. Sans-IO.

Two choices are combined in this room and nowhere else: the codec (which provider's API) and the call path (how tools
are offered, see call_path.py). What lasts of a conversation is in state.py, what belongs to one turn in turn.py, and
the reading of one answer in answer.py; what the server's tool parser lost is recovered in recovery.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..types.effects import Turn
from ..types.messages import Message, ToolChoice, ToolDefinition
from .state import ModelState
from .turn import ModelTurn


class ModelCore(ModelState):
    """A model that answers a conversation. One turn runs at a time."""

    def respond(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = (), tool_choice: ToolChoice = "auto"
    ) -> Turn[None]:
        """The model's next turn; the last event is Completed.

        With `tool_choice` none the prompt still describes the tools, so that it stays the same; the answer may hold
        calls, which must not run. A Notice tells where a call was required and none came. Raises ClientError,
        ServerError, WireError, and BotError if the chosen tool is not offered. No call of a turn that raises may be
        run. What it learns is kept once the server accepts a request: a turn that fails changes nothing for others.
        """
        return ModelTurn(self, messages, tools, tool_choice).run()
