import json

import pytest

from src.errors import ContextTooLong, ServerError, TemplateRejected
from src.wire.replies import excess_tokens, refusal

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


@pytest.mark.parametrize(("message", "tokens"), TOO_LONG)
def test_by_how_much_a_request_was_too_long_is_read_from_the_refusal(message, tokens):
    assert excess_tokens(message) == tokens


def test_a_context_error_carries_it():
    error = refusal(400, ('{"error": {"message": "' + TOO_LONG[0][0] + '"}}').encode())
    assert isinstance(error, ContextTooLong)
    assert error.excess == 1


@pytest.mark.parametrize(
    ("status", "message", "kind"),
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
    assert type(refusal(status, json.dumps({"error": {"message": message}}).encode())) is kind
