"""What a server's error quotes of the request is not what the server says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from src.errors import ContextTooLong, ServerError, TemplateFailed, ToolsUnsupported
from src.providers.server_errors import MAX_JUDGED_CHARS, explain, judge_own_words, read_mid_stream_error, read_refusal
from tests.each import check_rows

NO_PARSER = "--enable-auto-tool-choice"
TOO_LONG = "maximum context length is 10 tokens. However, you requested 9999 tokens"
ESCAPED = f'a "quoted"\n\\ é {NO_PARSER}'
OWN_WORDS = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


def field(kind: str, loc: str, reason: str, value: str) -> str:
    return f"1 validation error:\n  {{'type': '{kind}', 'loc': 'body.{loc}', 'msg': {reason!r}, 'input': {value!r}}}"


# As vLLM 0.32 answered: the request's part that is wrong, and the message.
REAL: dict[str, tuple[dict[str, Any], str]] = {
    "parallel_tool_calls": (
        {"parallel_tool_calls": NO_PARSER},
        field(
            "bool_parsing",
            "parallel_tool_calls",
            "Input should be a valid boolean, unable to interpret input",
            NO_PARSER,
        ),
    ),
    "type of a tool": (
        {"tools": [{"type": NO_PARSER, "function": {"name": "read"}}]},
        "1 validation error:\n  {'type': 'literal_error', 'loc': 'body.tools.0.type', 'msg': \"Input should be "
        f"'function'\", 'input': '{NO_PARSER}', 'ctx': {{'expected': \"'function'\"}}}}",
    ),
    "tool_choice": (
        {"tool_choice": NO_PARSER},
        f'Invalid value for `tool_choice`: {NO_PARSER}! Only named tools, "none", "auto" or "required" are supported. '
        "(parameter=tool_choice)",
    ),
    "content": (
        {"messages": [{"role": "user", "content": {NO_PARSER: NO_PARSER}}]},
        "4 validation errors for ValidatorIterator\n0.ChatCompletionContentPartTextParam\n  Input should be a valid "
        f"dictionary [type=dict_type, input_value='{NO_PARSER}', input_type=str]\n    For further information visit "
        "https://errors.pydantic.dev/2.14/v/dict_type",
    ),
    "type of a part": (
        {"messages": [{"role": "user", "content": [{"type": NO_PARSER, "text": "x"}]}]},
        "7 validation errors for ValidatorIterator\n0.ChatCompletionContentPartImageParam.image_url\n  Field required "
        f"[type=missing, input_value={{'type': '{NO_PARSER}', 'text': 'x'}}, input_type=dict]\n    For further "
        "information visit https://errors.pydantic.dev/2.14/v/missing",
    ),
    "model": ({"model": NO_PARSER}, f"The model `{NO_PARSER}` does not exist. Valid aliases: tiny."),
    "number": (
        {"seed": TOO_LONG},
        field("int_parsing", "seed", "Input should be a valid integer, unable to parse string as an integer", TOO_LONG),
    ),
    "escaped text": (
        {"parallel_tool_calls": ESCAPED},
        field(
            "bool_parsing",
            "parallel_tool_calls",
            "Input should be a valid boolean, unable to interpret input",
            ESCAPED,
        ),
    ),
}


def judge(message: str, sent: object, status: int = 400) -> ServerError:
    return judge_own_words(read_refusal(status, json.dumps({"error": {"message": message}}).encode()), sent)


@check_rows("case", REAL)
def test_a_value_that_vllm_repeats_is_not_a_refusal_by_vllm(case):
    sent, message = REAL[case]
    refused = judge(message, sent)
    assert type(refused) is ServerError
    assert NO_PARSER not in refused.body
    assert message in refused.message  # for the user it is whole


@check_rows(
    "message",
    [
        f"bad value: {json.dumps(ESCAPED)}",
        f"bad value: {json.dumps(ESCAPED, ensure_ascii=False)}",
        f"bad value: {ESCAPED!r}",
        f"bad value: {ESCAPED}",
        f"unexpected keys: {{'{NO_PARSER} ': 1}}",
    ],
)
def test_a_text_of_the_request_is_found_as_json_and_python_spell_it_and_as_a_key(message):
    sent = {"stop": [[ESCAPED]], "metadata": {f"{NO_PARSER} ": 1}}
    assert type(judge(message, sent)) is ServerError


def test_the_input_in_a_list_of_details_is_left_out():
    entry = {"loc": ["body", "seed"], "msg": "not a number", "input": NO_PARSER, "ctx": {"error": NO_PARSER}}
    assert explain({"detail": [entry]}) == "body.seed: not a number"


@pytest.mark.parametrize(
    "sent",
    [
        None,
        {"messages": [{"role": "user", "content": f"What does {NO_PARSER} do?"}], "tool_choice": "auto"},
        {"tools": [{"type": "function", "function": {"name": "tools", "description": "auto"}}]},
    ],
)
def test_the_server_s_own_words_count_whatever_the_request_speaks_of(sent):
    assert type(judge(OWN_WORDS, sent)) is ToolsUnsupported
    assert type(judge("Unrecognized request argument supplied: tools", sent)) is ToolsUnsupported


def test_the_server_s_words_beside_a_quote_count():
    sent = {"model": "acme/model that does it"}
    assert type(judge("acme/model that does it: chat template error", sent)) is TemplateFailed


def test_numbers_that_the_client_chose_do_not_say_how_long_a_prompt_was():
    sent = {"tools": [{"function": {"description": TOO_LONG}}]}
    refused = judge(f"This model's maximum context length is 512 tokens: context limit. Tool: {TOO_LONG}", sent)
    assert isinstance(refused, ContextTooLong)
    assert refused.excess == 0


def test_an_error_within_an_answer_is_judged_alike():
    broken = read_mid_stream_error({"error": {"message": f"bad value: '{NO_PARSER} '", "code": 400}})
    judged = judge_own_words(broken, {"stop": f"{NO_PARSER} "})
    assert type(judged) is ServerError
    assert judged.in_answer


def test_a_wait_that_the_server_asks_for_stays():
    refused = read_refusal(503, b'{"error": "loading of --some value--"}')
    refused.retry_after = 7.0
    assert judge_own_words(refused, {"stop": "--some value--"}).retry_after == 7.0


def test_of_a_message_without_end_the_beginning_is_judged():
    texts = [f"{NO_PARSER} {number}" for number in range(20_000)]
    refused = judge("; ".join(texts), {"stop": texts})
    assert len(refused.body) < MAX_JUDGED_CHARS
