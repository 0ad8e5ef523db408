"""vLLM Bot: a terminal chat whose tool calls land, natively or through text, on any vLLM server.

The names below are for programs: `from vllm_bot import Agent, tool` (in a checkout, `from src import ...`). They are
loaded when they are asked for, so that starting the program does not pay for them.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # `typing` takes as long to load as all of this
if TYPE_CHECKING:
    from .errors import BotError as BotError
    from .errors import Cancelled as Cancelled
    from .errors import ToolError as ToolError
    from .library import Agent as Agent
    from .messages import CallDenied as CallDenied
    from .messages import CallFinished as CallFinished
    from .messages import CallStarted as CallStarted
    from .messages import Completed as Completed
    from .messages import Notice as Notice
    from .messages import ReasoningDelta as ReasoningDelta
    from .messages import TextDelta as TextDelta
    from .security.approval import Answer as Answer
    from .security.approval import Request as Request
    from .tools import ToolContext as ToolContext
    from .tools import tool as tool

_PLACES = {
    "Agent": "library",
    "tool": "tools",
    "ToolContext": "tools",
    "TextDelta": "messages",
    "ReasoningDelta": "messages",
    "CallStarted": "messages",
    "CallDenied": "messages",
    "CallFinished": "messages",
    "Notice": "messages",
    "Completed": "messages",
    "Request": "security.approval",
    "Answer": "security.approval",
    "BotError": "errors",
    "Cancelled": "errors",
    "ToolError": "errors",
}
__all__ = [*_PLACES, "__version__"]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_PLACES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
