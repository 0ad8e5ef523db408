"""Starts one question or a chat, as the options of the command line say."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from ... import __version__, app
from ...app.factory import Factory
from ...config import Settings
from ...errors import ConfigError
from ...types.events import Notice
from ..load_settings import load_settings
from ..tracing.debug import Debug
from .question import HOW_TO_ASK, Question, read_question

if TYPE_CHECKING:
    from ..tracing.jsonl import Observer
    from .outlets import Outlet

# Options that only make sense with a question.
ONE_QUESTION = ("output", "max_tokens", "timeout", "raw", "panel", "json_schema")
DEMO = """\
This is a demo: a script answers, not a model. Type tour to start.
Its files are in {} and are deleted when you leave."""
SPAN_VARIABLES = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def run(options: argparse.Namespace, debug_level: int, sleep: Callable[[float], None]) -> int:
    """Returns the exit code. Raises BotError, which JSON output reports in its last line as well."""
    with ExitStack() as stack:
        outlet = None
        if options.output is not None:
            from .outlets import open_outlet

            outlet = stack.enter_context(open_outlet(options.output, options.model or "", raw=bool(options.raw)))
        factory = Factory(stack.enter_context(_open_settings(options)), sleep)
        debug = Debug(debug_level, factory.settings.keys)
        debug.observers = _make_observers(options, factory)
        question = read_question(options.prompt, options.message, factory)
        if question is None:
            _refuse_given(options, ONE_QUESTION, "{} works only with a question, and none was given.", HOW_TO_ASK)
        if options.relearn:
            factory.server_memory.forget()
        if question is None:
            from ..chat.open import open_chat

            return open_chat(
                factory,
                debug,
                yes=options.yes,
                resume=options.resume,
                only_plain=options.plain,
                message=options.message,
            )
        from .ask import ask
        from .outlets import open_outlet

        form = None
        if options.json_schema is not None:
            from .schema import read_form

            form = read_form(options.json_schema)
        outlet = outlet or stack.enter_context(open_outlet("text", raw=bool(options.raw), form=form))
        if options.panel:
            factory, question = _ask_panel(factory, question, outlet)
        return ask(
            factory,
            debug,
            question,
            outlet,
            yes=options.yes,
            max_tokens=options.max_tokens,
            timeout=options.timeout,
            resume=options.resume,
            form=form,
        )


def _ask_panel(factory: Factory, question: Question, outlet: Outlet) -> tuple[Factory, Question]:
    """What answers, and what it is asked. Each answer of the panel is shown as it comes. Raises BotError."""
    panel = factory.connections.make_panel()
    timeout = factory.settings.review.timeout
    material = app.panel.hold_panel(
        panel.members, question.whole, timeout, lambda answer: outlet.draw(Notice(str(answer)))
    )
    if panel.chair_settings:
        factory = factory.with_settings(panel.chair_settings)
    return factory, replace(question, before=f"{material}\n\n{app.panel.REQUEST.format(question='')}")


@contextmanager
def _open_settings(options: argparse.Namespace) -> Iterator[Settings]:
    """The settings in force; with --demo those that lead to its server, which ends with the block."""
    if not options.demo:
        yield load_settings(options)
        return
    _refuse_given(
        options,
        ("base_url", "model", "workspace"),
        "--demo brings its own server, model and folder, so {} cannot be used with it.",
    )
    from ..demo import start_demo

    with start_demo() as demo:
        print(DEMO.format(demo.folder), file=sys.stderr)
        yield replace(load_settings(options, **demo.overrides), state=demo.state)


def _make_observers(options: argparse.Namespace, factory: Factory) -> list[Observer]:
    """The trace file and the OpenTelemetry spans that the options and the environment ask for. Raises ConfigError."""
    observers: list[Observer] = []
    if options.trace:
        from ..tracing.jsonl import TraceFile

        observers.append(TraceFile(options.trace, factory.settings.keys))
    if wants_spans(os.environ):
        try:
            tracer = app.spans.make_tracer(os.environ, __version__)
            asked = factory.settings.get_model_settings(factory.settings.vllm.model)
            observers.append(app.spans.Spans(tracer, asdict(asked), __version__))
        except ImportError:
            print("! OpenTelemetry is configured but not installed: pip install 'vllm-bot[otel]'", file=sys.stderr)
    return observers


def wants_spans(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for OpenTelemetry spans, as its specification says."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none"
    return not is_off and any(environ.get(name) for name in SPAN_VARIABLES)


def _refuse_given(options: argparse.Namespace, names: Iterable[str], why: str, hint: str = "") -> None:
    """Raises ConfigError if one of these options is given."""
    for name in names:
        if getattr(options, name) is not None:
            raise ConfigError(why.format(f"--{name.replace('_', '-')}"), hint)
