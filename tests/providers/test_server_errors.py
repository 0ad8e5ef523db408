import json
import re

import pytest

from src.errors import (
    ContentRejected,
    ContextTooLong,
    ModelNotFound,
    ServerError,
    ServerLoading,
    TemplateFailed,
    TemplateRejected,
    ToolsUnsupported,
    Unauthorized,
    WireError,
)
from src.providers.server_errors import (
    _REFUSALS,
    parse_excess_tokens,
    read_error_message,
    read_model_names,
    read_refusal,
)
from tests.each import check_rows

TOO_LONG = [
    (
        "This model's maximum context length is 512 tokens. However, your prompt contains at least 513 input tokens, "
        "which exceeds this limit even without any output tokens.",
        1,
    ),
    (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, "
        "1000 in the completion). Please reduce the length.",
        904,
    ),
    (
        "This model's maximum context length is 100 tokens. However, your prompt contains 6000 characters (more than "
        "1000 characters, which is the upper bound for 100 input tokens).",
        500,
    ),
    ("The context is too long.", 0),
]


@check_rows("message, tokens", TOO_LONG)
def test_by_how_much_a_request_was_too_long_is_read_from_the_refusal(message, tokens):
    assert parse_excess_tokens(message) == tokens


def test_a_context_error_carries_it():
    error = read_refusal(400, ('{"error": {"message": "' + TOO_LONG[0][0] + '"}}').encode())
    assert isinstance(error, ContextTooLong)
    assert error.excess == 1


@check_rows(
    "message",
    [
        "Unexpected in tool_choice: 'requird'",
        "Unexpected value in tool_choice: 'requird'",
        "Unsupported value: 'tool_choice' does not support 'requird' with this model.",
        "tool_choice: unknown variant `requird`, expected `auto` or `none`",
        "unknown tool_choice 'requird'",
        "tool_choice is not one of auto, none",
        "tool_choice: not a valid value",
        "Unknown parameter: 'tools[0].strict'.",
        "Unknown parameter: tools.0.strict",
        "Unrecognized key(s) in object: 'strict' at tools[0].function",
        "unknown field `strict` in `tools`",
        "Unknown name \"strict\" at 'tools[0].function_declarations[0]': Cannot find field.",
    ],
)
def test_what_is_wrong_in_a_field_does_not_say_that_the_server_lacks_it(message):
    assert type(read_refusal(400, json.dumps({"error": {"message": message}}).encode())) is ServerError


@check_rows(
    "message",
    [
        "Unrecognized key(s) in object: 'tools'",
        "Unknown parameter: 'tools'.",
        'Invalid JSON payload received. Unknown name "tools": Cannot find field.',
        "Unsupported parameter: 'tools' is not supported with this model.",
        "got an unexpected keyword argument 'tools'",
        "unknown field `tools`, expected one of `model`, `messages`",
        "tools: Extra inputs are not permitted",
        "tools are not supported by this model",
        "tool_choice: unknown field",
        "tools is not a known parameter",
        "tools: not permitted",
        "tools is not currently supported",
        "tools not implemented",
    ],
)
def test_a_field_that_a_server_does_not_know_is_not_supported(message):
    assert type(read_refusal(400, json.dumps({"error": {"message": message}}).encode())) is ToolsUnsupported


@check_rows(
    "status, message, kind",
    [
        (400, "max_tokens=10000000 cannot be greater than max_model_len=16384.", ServerError),
        (400, "Alternatively use a list", ServerError),
        (400, "'role': Input should be 'user'; expected a string", ServerError),
        (400, "After the optional system message, conversation roles must alternate", TemplateRejected),
        (400, "Unexpected message role.", TemplateRejected),
        (404, "Cannot GET /models", ServerError),
    ],
)
def test_a_refusal_is_not_taken_for_another(status, message, kind):
    assert type(read_refusal(status, json.dumps({"error": {"message": message}}).encode())) is kind


REFUSALS = [
    (
        400,
        '{"error": {"message": "\\"auto\\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"}}',
        ToolsUnsupported,
    ),
    (
        400,
        '{"object": "error", "message": "\\"auto\\" tool choice requires --enable-auto-tool-choice"}',
        ToolsUnsupported,
    ),
    (400, '{"error": "registry/model does not support tools"}', ToolsUnsupported),
    (400, '{"error": {"message": "tool_choice is not supported"}}', ToolsUnsupported),
    (400, '{"error": {"message": "Unrecognized request argument supplied: tools"}}', ToolsUnsupported),
    (
        422,
        '{"detail": [{"type": "extra_forbidden", "loc": ["body", "tools"], "msg": "Extra inputs are not permitted"}]}',
        ToolsUnsupported,
    ),
    (404, '{"error": {"message": "No endpoints found that support tool use. To learn more"}}', ToolsUnsupported),
    (
        404,
        '{"error": {"message": "No endpoints found that support the provided \'tool_choice\' value."}}',
        ToolsUnsupported,
    ),
    (400, '{"error": "This model does not support tool calling"}', ToolsUnsupported),
    (400, '{"error": {"message": "`tool calling` is not supported with this model"}}', ToolsUnsupported),
    (400, '{"message": "Tool use has not been enabled, because it is unsupported by the model"}', ToolsUnsupported),
    (400, '{"error": {"message": "Function calling is not supported for this model."}}', ToolsUnsupported),
    (400, '{"error": {"message": "This model only supports single tool-calls at once!"}}', TemplateFailed),
    (400, '{"error": {"message": "\'dict object\' has no attribute \'function\'"}}', TemplateFailed),
    (500, '{"error": {"message": "litellm.APIConnectionError: x does not support tools"}}', ToolsUnsupported),
    (
        400,
        '{"error": {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}}',
        TemplateRejected,
    ),
    (400, '{"error": {"message": "Only user and assistant roles are supported!"}}', TemplateRejected),
    (400, '{"error": {"message": "\'messages[0].role\' does not support \'system\'."}}', TemplateRejected),
    (422, '{"error": {"message": "messages[3].role: unknown variant `tool`, expected `user`"}}', TemplateRejected),
    (400, '{"error": {"message": "System role not supported"}}', TemplateRejected),
    (400, '{"error": {"message": "System message must be at the beginning."}}', TemplateRejected),
    (
        400,
        '{"error": {"message": "This model\'s maximum context length is 512 tokens. However, your prompt ..."}}',
        ContextTooLong,
    ),
    (404, '{"error": {"message": "The model `no` does not exist. Valid aliases: tiny."}}', ModelNotFound),
    (404, '{"detail": "Not Found"}', ServerError),
    (401, '{"error": "Unauthorized"}', Unauthorized),
    (400, '{"error": {"message": "Function calling is not enabled for models/gemma-3"}}', ToolsUnsupported),
    (400, '{"error": {"message": "max_tokens=9999 cannot be greater than max_model_len=512."}}', ServerError),
    (500, '{"error": {"message": "tools param requires --jinja flag"}}', ToolsUnsupported),
    (400, '{"error": {"message": "API key not valid. Please pass a valid API key."}}', Unauthorized),
    (400, '{"error": {"message": "tiny is not a multimodal model"}}', ContentRejected),
    (500, '{"error": {"message": "can only concatenate str (not \\"list\\") to str"}}', ContentRejected),
    (400, '{"error": "Model does not support images. Please use a model that does."}', ContentRejected),
    (500, '{"error": "this model is missing data required for image input"}', ContentRejected),
    (422, '{"error": {"message": "messages[0]: unknown variant `image_url`, expected `text`"}}', ContentRejected),
    (400, '{"error": {"message": "At most 2 image(s) may be provided in one prompt."}}', ContentRejected),
    (400, "<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>", ServerError),
    (403, '{"error": "Forbidden"}', Unauthorized),
    (413, "<html><title>413 Request Entity Too Large</title></html>", ContextTooLong),
    (503, '{"error": {"message": "Loading model"}}', ServerLoading),
    (504, "<html><title>504 Gateway Time-out</title></html>", ServerError),
    (500, "", ServerError),
    (502, "<html><title>Bad\n Gateway</title></html>", ServerError),
]


@check_rows("status, text, error", REFUSALS)
def test_a_refusal_is_told_by_its_status_and_message(status, text, error):
    refused = read_refusal(status, text.encode())
    assert type(refused) is error
    assert refused.status == status
    assert f"HTTP {status}" in refused.message


def test_every_row_of_the_table_has_a_case():
    messages = [(status, read_error_message(text.encode())) for status, text, _ in REFUSALS]
    decided = {
        next(
            (
                number
                for number, (wanted, pattern, *_) in enumerate(_REFUSALS)
                if status in wanted and re.search(pattern, message, re.IGNORECASE)
            ),
            None,
        )
        for status, message in messages
    }
    assert [row for number, row in enumerate(_REFUSALS) if number not in decided] == []


def test_the_title_of_a_proxys_page_is_its_message():
    assert "Bad Gateway" in read_refusal(502, b"<html><title>Bad\n Gateway</title><body>...</body></html>").message


def test_a_redirect_says_where_to():
    assert "to http://elsewhere.test/" in read_refusal(302, b"", "http://elsewhere.test/").message


@pytest.mark.parametrize(("allowed", "limit"), [("0", 0), ("3", 3)])
def test_how_many_images_a_server_takes_is_read(allowed, limit):
    refusal = read_refusal(400, f"At most {allowed} image(s) may be provided in one prompt.".encode())
    assert refusal.max_media == limit


class TestModels:
    @pytest.mark.parametrize(
        ("text", "names"),
        [
            (b'{"data": [{"id": "a"}, {"id": "b"}]}', ["a", "b"]),
            (b'{"data": [{"type": "model", "id": "claude-a"}], "has_more": false}', ["claude-a"]),
            (b'{"models": [{"name": "a.gguf"}], "object": "list", "data": [{"id": "a"}]}', ["a"]),  # llama.cpp's
            (b'[{"id": "a"}]', ["a"]),
            (b'{"data": null}', []),
        ],
    )
    def test_names(self, text, names):
        assert read_model_names(text) == names

    def test_of_geminis_those_that_generate_content(self):
        listed = {
            "models": [
                {"name": "models/gemini-2.5-flash", "supportedGenerationMethods": ["generateContent", "countTokens"]},
                {"name": "models/gemini-embedding-001", "supportedGenerationMethods": ["embedContent"]},
            ]
        }
        assert read_model_names(json.dumps(listed).encode()) == ["gemini-2.5-flash"]

    @pytest.mark.parametrize("text", [b"", b"[]", b"null", b'{"data": [1]}', b'{"models": [1]}', b"<html>"])
    def test_another_shape_is_an_error(self, text):
        with pytest.raises(WireError, match="list of models"):
            read_model_names(text)
