"""`--json-schema`: an answer that is JSON of a given form, alone on standard output.

The model is told the form, may call tools, and its answer is checked. A wrong one gets one turn to be repaired, which
the server's grammar holds to the schema where it has one.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TextIO

from ...app.library.structured import Form
from ...errors import BotError, ConfigError
from ...types.events import Event, TextDelta
from ..render.plain import PlainScreen
from .json_output import RunReport

OPTION = "--json-schema"
_CONTROL = re.compile("[\x7f-\x9f]")  # which json.dumps leaves as they are


def read_form(given: str) -> Form:
    """The form in a file, or in a schema that is given itself. Raises ConfigError."""
    is_schema = given.lstrip().startswith("{")
    where = OPTION if is_schema else f"{OPTION}: {given}"
    try:
        schema = json.loads(given if is_schema else Path(given).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: this is no JSON: {error}.") from error
    if not isinstance(schema, dict):
        raise ConfigError(f"{where}: expected a JSON Schema, which is an object.")
    try:
        return Form(schema)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message.removeprefix('schema: ')}") from error


class SchemaOutlet:
    """Prints the JSON alone; what happens on the way goes to standard error."""

    def __init__(self, form: Form, report: RunReport, stdout: TextIO) -> None:
        self.report = report
        self._form = form
        self._stdout = stdout
        self._screen = PlainScreen(sys.stderr, sys.stderr, thoughts=False, styled=False)

    def begin(self, **fields: str) -> None:
        """Print nothing."""

    def draw(self, event: Event) -> None:
        if not isinstance(event, TextDelta):
            self._screen.draw(event)

    def put(self, text: str) -> None:
        self._screen.put(text)

    def end(self, ended_by: BaseException | None) -> None:
        if ended_by is None and not self.report.limit:
            print(dump_value(self._form, self.report.answer), flush=True, file=self._stdout)


def dump_value(form: Form, answer: str) -> str:
    """The value in an answer as JSON that a terminal can show. Raises BotError if there is none."""
    try:
        text = json.dumps(form.read(answer), ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise BotError(f"The answer is not JSON: {error}.") from error
    return _CONTROL.sub(lambda char: f"\\u{ord(char[0]):04x}", text)
