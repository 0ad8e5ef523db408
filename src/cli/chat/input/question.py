"""Draw a question about a call: the program's own lines, and in them what others wrote. Pure.

What a model, a tool or a file says cannot pass for a line of ours. It stands behind a label or between quotation marks
on one line, with escapes; or, with several lines, each of them behind `| `. What of these does not fit stands behind
`: `. No line of ours begins with such a mark, and the terminal never breaks a line itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ....security.permissions.approval import SUBMIT_PLAN, Request
from ....security.permissions.rules import RULE_KEYS, describe_rule
from ....security.text.sanitize import reveal
from ....types.lazy_pattern import LazyPattern
from ....types.messages import JSON
from ....types.sandbox import Grant
from ...render.colours import Colours
from ...render.diff import draw_preview
from ...render.plain import quote_value
from ...render.words import write_value
from ...render.wrap import ELLIPSIS, fold_line, quote_text, wrap_line, wrap_text

MAX_RULE_CHARS = 60
ROWS_BELOW = 2  # the line that is typed, and the status line
PLAIN_NAME = LazyPattern(r"\w[\w.-]*")
OWN_LABELS = ("access", "reviewed")
ACCESS_LABELS: Mapping[Grant, str] = {
    "read": "read: changes nothing, no network",
    "write": "write: may change the workspace, no network",
    "network": "network: may change the workspace and use the network",
    "outside": "outside the sandbox: may do what you can do",
}
WIDER_KEYS: Mapping[Grant, tuple[str, str]] = {
    "network": ("w", "once, with the network"),
    "outside": ("o", "once, outside the sandbox"),
}
MODE_KEY, HELP_KEY = "m", "?"
PLAN_KEYS = """\
  y: accept it, and go on in mode edits; e: edit it first; n: no
  n or a colon, and words: send it back, and say what to change"""


def draw_question(
    request: Request, columns: int, colours: Colours, *, is_changed: bool = False, explains_keys: bool = True
) -> list[str]:
    """The call, and the keys that answer. `columns`: 0 is any number; `is_changed`: the user changed the call."""
    if request.call.name == SUBMIT_PLAN:
        head = "  The plan:"
        if is_changed:
            head = "  The plan as you changed it:"
        plan = reveal(str(request.call.arguments.get("plan")).strip())
        return [head, "", *quote_text(plan, columns), "", *wrap_text(PLAN_KEYS, columns).split("\n")]
    lines = [*_draw_call(request, columns, is_changed=is_changed)]
    if request.preview:
        lines += ["", *draw_preview(request.preview, colours, columns)]
    for review in request.reviews:
        lines += _draw_value("reviewed", review, columns)
    if request.advice:
        lines += wrap_line(f"  {request.advice}", columns)
    rule = ""
    if has_rule(request, is_changed=is_changed):
        rule = request.rule
    if not explains_keys:
        return [*lines, *_draw_known_keys(request, columns, rule)]
    return [*lines, *_draw_keys(request, columns, rule)]


def draw_note(lines: int, columns: int, rows: int) -> list[str]:
    """How many of so many lines are above a screen of so many rows; 0 rows: of any number."""
    if not rows or lines + ROWS_BELOW <= rows:
        return []
    hidden = lines + 1 + ROWS_BELOW - rows
    return wrap_line(f"  ({hidden:,} lines are above: scroll up)", columns)


def has_rule(request: Request, *, is_changed: bool) -> bool:
    """Whether a rule can be made of the call: it is about the call as the model made it."""
    return bool(request.rule) and not is_changed


def _draw_call(request: Request, columns: int, *, is_changed: bool) -> list[str]:
    name = _quote_name(request.call.name)
    head = f"  {name} wants to run ({reveal(request.reason, on_one_line=True)}):"
    if is_changed:
        head = f"  {name} as you changed it:"
    lines = fold_line(head, columns)
    for label, value in _select_arguments(request):
        lines += _draw_value(_quote_name(label, OWN_LABELS), value, columns)
    if request.access:
        label = f"{request.access}, which nothing enforces here"
        if request.wider:  # where a sandbox holds commands, a wider access than theirs is always on offer
            label = ACCESS_LABELS[request.access]
        lines += wrap_line(f"    access: {label}", columns)
    return lines


def _draw_keys(request: Request, columns: int, rule: str) -> list[str]:
    once = "y: once"
    if rule and request.can_save:  # else the line of the rule tells it
        once += ", c: in this chat"
    lines = wrap_line(f"  {once}, n: no, e: change it first", columns)
    lines += _draw_rule(request, columns, rule)
    if request.mode:
        lines += wrap_line(f"  {MODE_KEY}: all edits in this chat, in mode {request.mode}", columns)
    wider = [f"{key}: {about}" for grant, (key, about) in WIDER_KEYS.items() if grant in request.wider]
    if wider:
        lines += wrap_line("  " + "; ".join(wider), columns)
    return [*lines, *wrap_line("  n or a colon, and words: tell the model what to do instead", columns)]


def _draw_known_keys(request: Request, columns: int, rule: str) -> list[str]:
    """The keys alone, to a user who has read what they do; and the rule, which is another for each call."""
    wider = [key for grant, (key, _) in WIDER_KEYS.items() if grant in request.wider]
    keys = ["y", "n", "e"]
    if rule:
        keys.insert(1, "c")
    if request.mode:
        keys.append(MODE_KEY)
    return [
        *_draw_rule(request, columns, rule),
        *wrap_line(f"  {' '.join(keys + wider)}, n or a colon and words; {HELP_KEY} explains them", columns),
    ]


def _draw_rule(request: Request, columns: int, rule: str) -> list[str]:
    if not rule:
        return []
    key = "a: always" if request.can_save else "c: in this chat"
    return fold_line(f"  {key}; this adds the rule {_format_rule(rule)}", columns)


def _select_arguments(request: Request) -> list[tuple[str, JSON]]:
    """The arguments that neither the diff nor the line of the access shows."""
    arguments = request.call.arguments.items()
    left_out: tuple[str, ...] = ()
    if request.preview:
        left_out = ("content", "oldText", "newText")
    elif request.access and request.call.name == "exec":
        left_out = ("access",)
    return [(name, value) for name, value in arguments if name not in left_out]


def _draw_value(label: str, value: JSON, columns: int) -> list[str]:
    """A value of several lines stands below its label; the name of a file has one line, whatever is in it."""
    shown = reveal(write_value(value), on_one_line=label == "path")
    if "\n" in shown:
        return [*fold_line(f"    {label}:", columns), *quote_text(shown, columns)]
    return fold_line(f"    {label}: {shown}", columns)


def _quote_name(name: str, reserved: Sequence[str] = ()) -> str:
    """A name in quotation marks, unless it is a plain word, and none of those that are reserved for our own lines."""
    if PLAIN_NAME.fullmatch(name) and reveal(name) == name and name not in reserved:
        return name
    return quote_value(name)


def _format_rule(rule: str) -> str:
    """A rule in the form that --allow takes, if it has one. One for a whole command does not repeat that."""
    try:
        entry = json.loads(rule)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or not {"tool"} <= entry.keys() <= {*RULE_KEYS, "server"}:
        return _cut(rule)
    return describe_rule(entry, _cut)


def _cut(text: str) -> str:
    shown = reveal(text, on_one_line=True)
    if len(shown) <= MAX_RULE_CHARS:
        return shown
    return shown[: MAX_RULE_CHARS - len(ELLIPSIS)] + ELLIPSIS
