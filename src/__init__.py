"""vLLM Bot: a terminal chat whose tool calls land, natively or through text, on any vLLM server.

The names below are for programs: `from vllm_bot import Agent, tool` (in a checkout, `from src import ...`). They are
loaded when they are asked for, so that starting the program does not pay for them.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # `typing` takes as long to load as all of this
if TYPE_CHECKING:
    from .app.async_model import AsyncModel as AsyncModel
    from .app.library.agent import Agent as Agent
    from .app.library.async_agent import AsyncAgent as AsyncAgent
    from .app.library.async_agent import AsyncServer as AsyncServer
    from .app.library.async_run import AsyncRun as AsyncRun
    from .app.library.conversation import Conversation as Conversation
    from .app.library.result import Result as Result
    from .app.library.run import Run as Run
    from .app.library.server import Server as Server
    from .app.model import Model as Model
    from .errors import BotError as BotError
    from .errors import Cancelled as Cancelled
    from .errors import ConfigError as ConfigError
    from .errors import LimitReached as LimitReached
    from .errors import ToolError as ToolError
    from .security.permissions.approval import LATER as LATER
    from .security.permissions.approval import Answer as Answer
    from .security.permissions.approval import Request as Request
    from .tools import DependencyKey as DependencyKey
    from .tools import Media as Media
    from .tools import Tool as Tool
    from .tools import ToolContext as ToolContext
    from .tools import tool as tool
    from .tools.builtin.task import task as task
    from .transport.deadlines import Timeouts as Timeouts
    from .types.events import CallDenied as CallDenied
    from .types.events import CallFinished as CallFinished
    from .types.events import CallStarted as CallStarted
    from .types.events import Compacted as Compacted
    from .types.events import Completed as Completed
    from .types.events import Event as Event
    from .types.events import LimitHit as LimitHit
    from .types.events import Notice as Notice
    from .types.events import ReasoningDelta as ReasoningDelta
    from .types.events import SubagentStep as SubagentStep
    from .types.events import TextDelta as TextDelta
    from .types.messages import MalformedCall as MalformedCall
    from .types.messages import Message as Message
    from .types.messages import Named as Named
    from .types.messages import Response as Response
    from .types.messages import SystemMessage as SystemMessage
    from .types.messages import ToolCall as ToolCall
    from .types.messages import ToolChoice as ToolChoice
    from .types.messages import ToolDefinition as ToolDefinition
    from .types.messages import ToolResult as ToolResult
    from .types.messages import ToolResults as ToolResults
    from .types.messages import Usage as Usage
    from .types.messages import UserMessage as UserMessage

_MODULES = {
    "app.library.server": ("Server",),
    "app.library.async_agent": ("AsyncServer", "AsyncAgent"),
    "app.library.agent": ("Agent",),
    "app.library.run": ("Run",),
    "app.library.async_run": ("AsyncRun",),
    "app.library.result": ("Result",),
    "app.library.conversation": ("Conversation",),
    "app.model": ("Model",),
    "app.async_model": ("AsyncModel",),
    "tools": ("tool", "Tool", "ToolContext", "DependencyKey", "Media"),
    "tools.builtin.task": ("task",),
    "transport.deadlines": ("Timeouts",),
    "security.permissions.approval": ("Request", "Answer", "LATER"),
    "types.events": (
        "Event",
        "TextDelta",
        "ReasoningDelta",
        "CallStarted",
        "CallDenied",
        "CallFinished",
        "Compacted",
        "LimitHit",
        "Notice",
        "SubagentStep",
        "Completed",
    ),
    "types.messages": (
        "Message",
        "SystemMessage",
        "UserMessage",
        "Response",
        "ToolCall",
        "MalformedCall",
        "ToolResult",
        "ToolResults",
        "ToolDefinition",
        "ToolChoice",
        "Named",
        "Usage",
    ),
    "errors": ("BotError", "Cancelled", "ConfigError", "LimitReached", "ToolError"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "__all__":
        from importlib.util import find_spec

        return [each for each in (*_PLACES, "__version__") if "Async" not in each or find_spec("aiohttp")]
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f".{_PLACES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        raise ImportError(f"{name} needs aiohttp: pip install 'vllm-bot[async]'") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
