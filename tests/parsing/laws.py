"""What the laws of the text parser are stated with: texts made of pieces of all formats, and accounts of events."""

from src.parsing import Cut, Doubted, Malformed, ParsedCall, Reasoned, StreamParser
from src.parsing.formats.envelopes import ENVELOPES, REASONING
from src.parsing.formats.table import FORMATS
from src.types.events import ReasoningDelta, TextDelta, ToolCallDelta
from src.types.messages import ToolDefinition

WEATHER = ToolDefinition(
    "get_weather",
    "The weather in a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
READ = ToolDefinition("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
TOOLS = [WEATHER, READ]

OPENERS = sorted({opener for row in FORMATS for opener in row.openers if opener})
CLOSERS = sorted({closer for row in FORMATS for closer in row.closers})
PIECES = (
    *(row.example for row in FORMATS),
    *OPENERS,
    *CLOSERS,
    *(marker for pair in REASONING for marker in (pair.opener, pair.closer)),
    *(marker for row in ENVELOPES for marker in row.markers),
    *(
        "get_weather",
        "read",
        "functions.read:0",
        "city",
        '{"city": "Oslo"}',
        '{"name": "read", "arguments": {"path": "a"}}',
    ),
    *(
        "```",
        "```json\n",
        "```python\n",
        "`",
        "'",
        '"',
        "\\",
        '\\"',
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ":",
        ",",
        ";",
        "\n",
        "\n\n",
    ),
    *(
        " ",
        "  ",
        "Let me see. ",
        "Observation: ",
        "Action: ",
        "Action Input: ",
        "TOOL_CALL",
        "TOOL_CALL: ",
        "Tool Call: ",
    ),
    *("name", '"name": ', '"arguments": ', "args", "=", "<", ">", "|", "<tool_call", "</", "tool", "call", "functools"),
    *(
        "to=",
        "commentary ",
        "assistant",
        'path="a"',
        "path=",
        "**",
        "@",
        ">>>",
        "1",
        "2*5",
        "true",
        "None",
        "“",
        "”",
        "...",
    ),
    *(
        "tool_name",
        "é",
        "😀",
        "｜",
        "]<]minimax[>[",
        "#",
        "//",
        "/*",
        "Human:",
        "it's",
        "a.b.c",
        "x = ",
        "print(",
        "- ",
        "1. ",
        "# a note\n",
        "Action: read[",
        "**read**(",
    ),
)


def events_of(text, cuts=(), *, truncated=False, **options):
    """The events of `text`, fed in pieces divided at `cuts`."""
    parser = StreamParser(TOOLS, **options)
    events = [
        event
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)
        for event in parser.feed(text[start:end])
    ]
    return events + parser.close(truncated=truncated)


def join_text(events):
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def join_all(events):
    """All text and raw of the events, in order."""
    return "".join(
        event.text if isinstance(event, (TextDelta, ReasoningDelta)) else event.raw
        for event in events
        if not isinstance(event, ToolCallDelta)
    )


def summarize(events):
    """The events with neighbouring text as one, so that only what was divided differently is the same."""
    result = []
    for event in events:
        entry = _describe(event)
        if result and result[-1][0] == entry[0] and entry[0] in ("TextDelta", "ReasoningDelta", "Cut"):
            result[-1] = (entry[0], result[-1][1] + entry[1])
        else:
            result.append(entry)
    return result


def _describe(event):
    kind = type(event).__name__
    if isinstance(event, (TextDelta, ReasoningDelta)):
        return kind, event.text
    if isinstance(event, (Cut, Reasoned, Doubted)):
        return kind, event.raw
    if isinstance(event, ParsedCall):
        return (
            kind,
            event.call.id,
            event.call.name,
            repr(event.call.arguments),
            event.call.origin,
            event.call.repaired,
            event.call.guessed,
            event.call.echo,
            event.raw,
        )
    if isinstance(event, Malformed):
        return kind, event.malformed.id, event.malformed.name, event.malformed.reason, event.raw
    return (kind, *event)
