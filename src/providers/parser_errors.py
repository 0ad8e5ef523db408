"""What servers say when they cannot parse what their own model wrote: an answer was lost, and no request was wrong.

The forms are the servers' own words, at the start of a message, since a server may quote a client behind them. Texts:
llama.cpp's server (common/chat.cpp, chat-peg-parser.cpp), Ollama (model/parsers, harmony), vLLM and SGLang with
openai-harmony, older SGLang, LM Studio, and what these projects' issues quote.
"""

from __future__ import annotations

import re

from ..types.lazy_pattern import LazyPattern

_PYTHON_JSON = (
    r"(Expecting value|Expecting ',' delimiter|Expecting ':' delimiter"
    r"|Expecting property name enclosed in double quotes|Extra data|Unterminated string starting at"
    r"|Invalid \\escape|Invalid control character at): line \d+ column \d+"
    r" \(char \d+\)"
)
_GO_JSON = (
    r"invalid character '.{1,8}' (looking for beginning of|after (top-level value|object key|array element)|in (string|"
    r"numeric|literal|\\u|hex)|in string escape code)|unexpected end of JSON input"
)
_FORMS = (
    # llama.cpp's server, and LM Studio, which runs it
    r"Failed to parse input at pos \d+",
    r"The model produced output that does not match the expected [\w. -]{1,40} format",
    r"Invalid diff:\s{1,8}(now finding less tool calls|')",
    r"Failed to parse (up to error|tool call arguments? as JSON|assistant (message|response))",
    # Ollama
    r"(failed to parse XML: )?XML syntax error on line \d+: ",
    r"(failed to parse XML: )?expected element (type|name) ",
    r"error parsing tool call: ",
    r"(failed to (parse|unmarshal) (JSON|tool calls?|arguments): )?(" + _GO_JSON + ")",
    r"repair failed to produce valid JSON arguments",
    r"tool call parsing failed",
    r"EOF\Z",
    # vLLM and SGLang: what openai-harmony, Mistral's parsers and others raise
    r"unexpected tokens remaining in message header",
    r"Unexpected token \d+ while expecting start token \d+",
    r"(Unknown role: |channel marker present but no channel value|could not parse header)",
    r"Failed to parse fc related info to json format",
    _PYTHON_JSON,
    # LM Studio
    r"Failed to parse tool call: ",
    r"Failed to parse arguments for tool ",
    r"Model failed to generate a tool call",
)
# What proxies and bindings put before it: `litellm.InternalServerError: OpenAIException - `, `HarmonyError('`.
_BEFORE = (
    r"(?:[\w. ]{0,60}(?:error|exception)\w{0,20}\s?(?:[:-]|\(['\"])\s*){0,4}"
    r"(?:Engine protocol predict stream returned an error: )?(?:\{[^{}\n]{0,80}\"message\":\s*\")?"
)
_FAILURE = LazyPattern(rf"\s*{_BEFORE}(?:{'|'.join(_FORMS)})", re.IGNORECASE)


def is_parser_failure(message: str) -> bool:
    """Whether a server says that it could not parse an answer. `message`: its own words."""
    return _FAILURE.match(message) is not None
