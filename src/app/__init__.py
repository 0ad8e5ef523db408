"""The composition, without a terminal: settings in, a running agent out.

Most of its modules load the model, the tools or the network. Who needs them late writes `from src import app` and
`app.toolset.make_tools(...)`: a module is loaded when it is first named.
"""

TYPE_CHECKING = False  # `typing` takes longer to load
if TYPE_CHECKING:
    from . import panel as panel
    from . import runtime as runtime
    from . import sampling as sampling
    from . import spans as spans
    from . import toolset as toolset

_LATE = ("panel", "runtime", "sampling", "spans", "toolset")


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module(f".{name}", __name__)
