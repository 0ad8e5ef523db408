"""Where a call stands shows whether it is one: what is quoted is marked, so that it never runs unasked."""

from __future__ import annotations

import json

import pytest

from src.parsing import StreamParser, extract_tool_calls, gathered
from src.types.messages import ToolDefinition
from src.types.tool_schema import format_signature
from tests.each import check_rows
from tests.parsing.laws import READ, events_of

SIGNED = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "offset": {"type": "integer"}, "limit": {"type": "integer"}},
    "required": ["path"],
}

CALL = '<tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</tool_call>'
BARE = '{"name": "read", "arguments": {"path": "a.txt"}}'
OWN = 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'
MENTIONS = {
    "amid a sentence": f"I could do it with {CALL} but that is slow.",
    "amid a sentence, behind a comma": f"Hermes writes it with tags, {CALL}, and Mistral without.",
    "at the end of a sentence": f"The call would then be {CALL}.",
    "with escaped tags": "The tag is written &lt;tool_call&gt;"
    '{"name": "read", "arguments": {"path": "a.txt"}}&lt;/tool_call&gt; in HTML.',
    "in a row of a table": f"| model | output |\n|---|---|\n| A | {CALL} |\n",
    "in a transcript": f"User: read it\nAssistant: {CALL}\nTool: ok\n",
    "in a list that goes on": f"1. Hermes\n2. This one: {CALL}\n3. Plain JSON",
    "behind other text of a fence": f"```bash\ncat > x <<'EOF'\n{CALL}\nEOF\n```",
    "in a fence between texts": f"The format is this.\n\n```xml\n{CALL}\n```\n\nEvery block becomes one entry.",
    "in a fence behind a heading": f"## Format\n\n```\n{BARE}\n```\n\nEvery block becomes one entry.",
    "in a quotation of Markdown": f"You wrote:\n\n> {CALL}\n\nI did not run it.",
    "behind a colon, in a sentence that goes on": f"The page holds this: {CALL} and I ignored it.",
    "between two lines of a sentence": f"My last message had the call\n\n{CALL}\n\nand it failed.",
    "bare, in a sentence that goes on in the next line": f"{BARE}\nis how Llama writes it.",
    "with its result": '{"name": "read", "arguments": {"path": "a.txt"}, "result": "ok"}',
    "in the JSON of the answer": '{"results": [{"name": "read", "arguments": {"path": "a.txt"}}], "count": 1}',
}
CALLS = {
    "alone": CALL,
    "behind a sentence": f"I read it. {CALL}",
    "behind a colon": f"I read it: {CALL}",
    "behind words that it ends": f"I read it with {CALL}",
    "with a sentence on the next line": f"I read it with {CALL}\nThen I go on.",
    "between two sentences without a period": f"I read it now\n\n{CALL}\n\nThat is all",
    "before a sentence": f"{CALL} reads it.",
    "beside another": f"I read both with {CALL}{CALL.replace('a.txt', 'b.txt')}",
    "behind its role": f"Assistant: {CALL}",
    "in a plan": f"1. Read it: {CALL}",
    "in a fence at the end": f"I read it.\n\n```xml\n{CALL}\n```",
    "TOOL_CALL in a fence between texts": f"I read it.\n\n```json\n{OWN}\n```\n\nThat shows what is in it.",
    "in a fence of calls between texts": f"I read it.\n\n```tool_call\n{BARE}\n```\n\nThat shows what is in it.",
    "bare, before a sentence": f"{BARE}\nThis reads it.",
    "bare in a fence behind a colon": f"I call it:\n\n```json\n{BARE}\n```\n\nThat shows what is in it.",
    "behind a fence": f"```\nls\n```\n{CALL}",
    "behind a fence that more backticks end": f"```xml\nls\n````\n{CALL}",
    "behind JSON": f'{{"thought": "I read it"}}\n{CALL}',
}


@check_rows("name", MENTIONS)
def test_a_call_that_is_quoted_is_marked(name):
    assert [call.guessed for call in extract_tool_calls(MENTIONS[name], [READ]).calls] == [True]


@check_rows("name", CALLS)
def test_a_call_that_is_made_is_not_marked(name):
    calls = extract_tool_calls(CALLS[name], [READ]).calls
    assert calls
    assert not any(call.guessed for call in calls)


@check_rows("text", [*MENTIONS.values(), *CALLS.values()])
def test_it_is_the_same_one_character_at_a_time(text):
    parser = StreamParser([READ])
    pieces = gathered([event for character in text for event in parser.feed(character)] + parser.close())
    whole = extract_tool_calls(text, [READ])
    assert (pieces.content, pieces.calls) == (whole.content, whole.calls)


def test_a_call_amid_a_line_waits_for_what_follows_it():
    parser = StreamParser([READ], previews=False)
    assert not gathered(parser.feed(f"I read it with {CALL}")).calls
    assert gathered(parser.feed("\nThen")).calls


@pytest.mark.parametrize("marker", ["<|channel|>final<|message|>", "to=user<|message|>", ">>>all\n"])
def test_an_object_in_text_for_the_user_is_no_call(marker):
    for cuts in ((), range(1, len(marker) + len(BARE))):
        found = gathered(events_of(f"{marker}{BARE}", cuts))
        assert (found.content, found.calls, found.malformed) == (BARE, (), ())


def test_a_marker_ends_text_for_the_user():
    assert [call.name for call in extract_tool_calls(f'>>>all\n{BARE}\n>>>read\n{{"path": "a"}}', [READ]).calls] == [
        "read"
    ]


@pytest.mark.parametrize("text", [f"So:\n~~~xml\n{CALL}\n~~~\n", f"So:\n````xml\n```\n{CALL}\n```\n````\nDone."])
def test_a_call_in_a_fence_that_quotes_fences_is_text(text):
    for cuts in ((), range(1, len(text))):
        found = gathered(events_of(text, cuts))
        assert (found.content, found.calls, found.malformed) == (text, (), ())


def test_a_call_behind_such_a_fence_is_a_call():
    text = f"~~~\n{CALL}\n~~~\n{CALL}"
    assert [call.guessed for call in extract_tool_calls(text, [READ]).calls] == [False]


def test_a_call_in_a_list_of_strings_is_data():
    text = json.dumps({"evidence": ["x", f"{CALL}"]}, indent=2)
    assert extract_tool_calls(text, [READ]).content == text


def test_noise_between_the_tokens_of_a_call_is_not_shown():
    text = (
        "I read it. <|tool_calls_section_begin|> noise <|tool_call_begin|>functions.read:0"
        '<|tool_call_argument_begin|>{"path": "a"}<|tool_call_end|><|tool_calls_section_end|>'
    )
    for cuts in ((), range(1, len(text))):
        found = gathered(events_of(text, cuts))
        assert (found.content, [call.guessed for call in found.calls]) == ("I read it. ", [False])


EMPTY = {
    "a marker at the end": ("Let me check.[TOOL_CALLS]", "Let me check."),
    "a tag on a line of its own at the end": ("Let me check.\n<tool_call>\n", "Let me check."),
    "a section without calls": ("Done. <|tool_calls_section_begin|><|tool_calls_section_end|>", "Done."),
    "Harmony's header of a preamble": ("<|start|>assistant<|channel|>commentary<|message|>I look.<|end|>", "I look."),
}


@check_rows("size", [1, 10_000])
@check_rows("name", EMPTY)
def test_markers_without_a_call_are_not_shown(name, size):
    (text, shown), parser = EMPTY[name], StreamParser([READ])
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    assert gathered(events + parser.close()).content.strip() == shown


@pytest.mark.parametrize("text", ["It begins with <tool_call>", "Write <tool_call></tool_call> around it."])
def test_a_tag_in_a_sentence_is_shown(text):
    assert extract_tool_calls(text, [READ]).content == text


@pytest.mark.parametrize("before", ["Usage: ", "Wrong arguments for read: path is missing. Usage: "])
def test_a_signature_is_no_call(before):
    definition = ToolDefinition("read", "Read.", SIGNED)
    found = extract_tool_calls(before + format_signature(definition.name, definition.parameters), [definition])
    assert not found.calls
