"""What servers say of answers that they cannot parse, as the projects' issues quote it, and what only looks so."""

from __future__ import annotations

import json

import pytest

from src.errors import ContextTooLong, ParserFailed, ServerError
from src.providers.server_errors import judge_own_words, read_mid_stream_error, read_refusal
from tests.each import check_rows

# The number of the issue, and the message. llama.cpp, where no other project is named.
QUOTED = [
    ("pwilkin 9", "Failed to parse input at pos 0: <tool_call>\n<function=task>\n<"),
    (
        "pwilkin 9",
        "Failed to parse input at pos 60: <tool_call>\n<function=bash>\n<parameter=command>\ncd /home && git\n",
    ),
    ("pwilkin 5", "Failed to parse input at pos 184: ... }}"),
    (
        "24644",
        "Failed to parse input at pos 1360: <tool_call>\n<function=write>\n<parameter=content>\n{\n}\n\n</parameter>",
    ),
    ("20761", "Failed to parse input at pos 12: </tool_call>"),
    ("23838", "Failed to parse input at pos 395: <|tool_call_start|>[web_search_exa(query='x')]<|tool_call_end|>"),
    ("24327", "Failed to parse input at pos 0: \ufffd"),
    ("20532", "Failed to parse input at pos 0: "),
    ("QwenPaw 3560", "Failed to parse input at pos 5: <tool_call>\n<function=execute_shell_command>"),
    ("llama-swap 856", "The model produced output that does not match the expected peg-native format"),
    ("27025", "The model produced output that does not match the expected peg-native format"),
    ("25072", "The model produced output that does not match the expected peg-gemma4 format"),
    ("25339", "The model produced output that does not match the expected peg-native format"),
    ("26381", "The model produced output that does not match the expected peg-native format"),
    ("27733", "The model produced output that does not match the expected peg-native format"),
    (
        "lmstudio 2182",
        'Engine protocol predict stream returned an error: {"code":500,"message":"The model produced output that does not '
        'match the expected peg-native format","type":"server_error"}',
    ),
    ("14060", "Invalid diff:\n  '<think>Okay, the</think>' not found at start of\n  '<think>Okay, the <interface'"),
    ("15713", "Invalid diff: '<|tool_call|>[\"1025202362\"]' not found at start of '<|tool_call|>[\"1350490027\"]'"),
    ("12379", 'Invalid diff: \'{"name":"servethehome_homepage\' not found at start of \'{"name":\''),
    ("openclaw 37658", "Invalid diff: now finding less tool calls!"),
    ("ollama 14834", "XML syntax error on line 115: unexpected EOF"),
    ("ollama 12380", "XML syntax error on line 7: expected element name after <"),
    ("ollama 16810", "XML syntax error on line 8: element <function> closed by </parameter>"),
    ("ollama 17276", "XML syntax error on line 12: element <parameter> closed by </function>"),
    ("ollama 18563", "XML syntax error on line 127: element <parameter> closed by </function>"),
    ("continue 10896", "failed to parse XML: XML syntax error on line 1: element <tool_call> closed by </arg_value>"),
    ("continue 10897", "failed to parse XML: XML syntax error on line 2: element <tool_call> closed by </arg_value>"),
    ("continue 12680", "XML syntax error on line 8: element <function> closed by </parameter>"),
    ("continue 10896", "expected element type <function> but have <parameter>"),
    ("ollama 14986", "EOF"),
    ("ollama 12064", "error parsing tool call: invalid character ']' after object key:value pair"),
    (
        "ollama 12884",
        "error parsing tool call: raw='{\"path\":\"a\"}{}', err=invalid character '{' after top-level value",
    ),
    (
        "continue 10221",
        "error parsing tool call: raw='ls -R\n', err=invalid character 'l' looking for beginning of value",
    ),
    ("ollama 11704", "invalid character 'c' looking for beginning of value"),
    ("ollama 17638", "error parsing tool call: raw='...', err=invalid character ']' after object key:value pair"),
    ("ollama 15315", "invalid character '@' looking for beginning of object key string"),
    ("ollama 15315", "repair failed to produce valid JSON arguments"),
    ("vllm 23567", 'unexpected tokens remaining in message header: ["--commentary"]'),
    ("vllm 51977", 'unexpected tokens remaining in message header: Some("to=functions.web-browsing")'),
    ("vllm 22515", "Unexpected token 12606 while expecting start token 200006"),
    ("harmony 60", "openai_harmony.HarmonyError: Unexpected token 12606 while expecting start token 200006"),
    ("tenstorrent 386", "HarmonyError('Unknown role: <|start|>assistant')"),
    ("tenstorrent 386", "HarmonyError('channel marker present but no channel value found in header')"),
    ("lmdeploy 3962", 'HarmonyError: unexpected tokens remaining in message header: ["prompt_token_id=[200006,"]'),
    ("Python's json", "Expecting ',' delimiter: line 1 column 45 (char 44)"),
    ("Python's json", "Extra data: line 1 column 73 (char 72)"),
    ("sglang 4300", "Failed to parse fc related info to json format!"),
    ("lmstudio 942", "Failed to parse tool call: Unexpected end of content"),
    ("lmstudio 1528", "Failed to parse tool call: Extra content after end of tool call"),
    ("lmstudio 1358", 'Failed to parse arguments for tool "resolve-library-id": params requires property "query"'),
    (
        "litellm",
        "litellm.InternalServerError: InternalServerError: OpenAIException - Failed to parse input at pos 0: <tool_call>",
    ),
]
OTHERS = [
    "maximum context length is 100 tokens",
    "model requires more system memory (9.1 GiB) than is available",
    "CUDA out of memory",
    "The chat template fails: Failed to parse input at pos 0: it is quoted",
    "Unexpected EOF while reading the model's file",
    "Internal Server Error",
    "context shift is disabled",
]


@check_rows("issue, message", QUOTED)
def test_a_server_that_cannot_parse_its_answer_is_known_by_its_words(issue, message):
    body = json.dumps({"error": {"code": 500, "message": message, "type": "server_error"}}).encode()
    assert isinstance(read_refusal(500, body), ParserFailed), issue
    assert isinstance(read_mid_stream_error({"error": {"message": message, "code": 500}}), ParserFailed), issue
    assert isinstance(read_mid_stream_error({"error": message}), ParserFailed), issue


@check_rows("message", OTHERS)
def test_any_other_error_is_none_of_the_parser(message):
    body = json.dumps({"error": {"code": 500, "message": message}}).encode()
    assert not isinstance(read_refusal(500, body), ParserFailed)


def test_the_older_sglang_says_it_in_the_place_of_the_type():
    body = {"object": "error", "message": "400", "type": "Failed to parse fc related info to json format!", "code": 400}
    assert isinstance(read_refusal(400, json.dumps(body).encode()), ParserFailed)


def test_what_a_server_quotes_of_the_client_says_nothing():
    asked = "XML syntax error on line 7: please explain it"
    error = read_refusal(500, json.dumps({"error": asked}).encode())
    judged = judge_own_words(error, {"messages": [{"role": "user", "content": asked}]})
    assert type(judged) is ServerError


@check_rows("status", [401, 404, 429, 503])
def test_another_status_says_what_it_says(status):
    body = json.dumps({"error": {"message": "Failed to parse input at pos 0: x"}}).encode()
    assert not isinstance(read_refusal(status, body), ParserFailed)


@pytest.mark.parametrize("code", [400, "400", "context_length_exceeded", None])
def test_an_error_inside_an_answer_is_known_by_its_words_whatever_its_code(code):
    message = "This model's maximum context length is 10 tokens."
    assert isinstance(read_mid_stream_error({"error": {"message": message, "code": code}}), ContextTooLong)
