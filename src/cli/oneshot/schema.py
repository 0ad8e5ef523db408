"""`--json-schema`: an answer that is JSON of a given form, alone on standard output.

The model is told the form, may call tools, and its answer is checked. A wrong one gets one turn to be repaired, which
the server's grammar holds to the schema where it has one.
"""

from __future__ import annotations

import json
from pathlib import Path

from ...app.library.structured import Form
from ...errors import ConfigError

OPTION = "--json-schema"


def read_form(option: str) -> Form:
    """The form in a file, or in a schema that is given itself. Raises ConfigError."""
    is_schema = option.lstrip().startswith("{")
    where = OPTION if is_schema else f"{OPTION}: {option}"
    try:
        schema = json.loads(option if is_schema else Path(option).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: this is no JSON: {error}.") from error
    if not isinstance(schema, dict):
        raise ConfigError(f"{where}: expected a JSON Schema, which is an object.")
    return Form(schema, where)
