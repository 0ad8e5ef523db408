"""vLLM Bot: a terminal chat whose tool calls land, natively or through text, on any vLLM server.

The names below are for programs: `from vllm_bot import Agent, tool` (in a checkout, `from src import ...`). They are
loaded when they are asked for, so that starting the program does not pay for them.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # `typing` takes as long to load as all of this
if TYPE_CHECKING:
    from .app.api import Agent as Agent
    from .app.async_model import AsyncModel as AsyncModel
    from .app.model import Model as Model
    from .errors import BotError as BotError
    from .errors import Cancelled as Cancelled
    from .errors import ToolError as ToolError
    from .security.permissions.approval import Answer as Answer
    from .security.permissions.approval import Request as Request
    from .tools import Media as Media
    from .tools import ToolContext as ToolContext
    from .tools import tool as tool
    from .types.events import CallDenied as CallDenied
    from .types.events import CallFinished as CallFinished
    from .types.events import CallStarted as CallStarted
    from .types.events import Completed as Completed
    from .types.events import Notice as Notice
    from .types.events import ReasoningDelta as ReasoningDelta
    from .types.events import TextDelta as TextDelta
    from .types.messages import Named as Named

_PLACES = {
    "Agent": "app.api",
    "Model": "app.model",
    "AsyncModel": "app.async_model",
    "tool": "tools",
    "ToolContext": "tools",
    "Media": "tools",
    "TextDelta": "types.events",
    "ReasoningDelta": "types.events",
    "CallStarted": "types.events",
    "CallDenied": "types.events",
    "CallFinished": "types.events",
    "Notice": "types.events",
    "Completed": "types.events",
    "Named": "types.messages",
    "Request": "security.permissions.approval",
    "Answer": "security.permissions.approval",
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
