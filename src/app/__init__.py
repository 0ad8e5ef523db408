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


def __getattr__(name: str) -> object:
    from importlib import import_module

    try:
        return import_module(f".{name}", __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":  # one that the module imports
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
