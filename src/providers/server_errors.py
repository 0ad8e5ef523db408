"""What servers send besides answers: reasons of refusals, and lists of models. No I/O.

One table covers the refusals of all providers, which agree on the status and differ only in words.
Texts: vLLM 0.32 (serve/exception_handling), Ollama, llama.cpp's server, and the error pages of the
documentation of OpenAI, Anthropic and Gemini.

What an error quotes of the request says nothing about the server, so it is cut out before the rest is judged. FastAPI
and vLLM mark it as `input`, pydantic as `input_value`; and any text that stands in the request as a whole is the
client's, also as Python and JSON spell it. Single words are not: they name fields and values of the API, which refusals
are about. That is no proof, since a server may shorten or change what it quotes: what others are to rely on needs more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from ..errors import (
    ASK_FOR_LESS,
    CHECK_ADDRESS,
    Advice,
    ContentRejected,
    ContextTooLong,
    ModelNotFound,
    ParserFailed,
    ServerError,
    ServerLoading,
    TemplateFailed,
    TemplateRejected,
    ToolsUnsupported,
    Unauthorized,
    WireError,
)
from ..types.lazy_pattern import LazyPattern
from .parser_errors import is_parser_failure
from .wire_json import as_dict

MAX_REASON_CHARS = 300  # characters
MAX_LIST_BYTES = 4096  # of a list of models that cannot be read, for the message
MAX_LIST_CHARS = 80
MIN_QUOTE_CHARS = 8  # shorter texts of a request stand in messages by chance
MAX_JUDGED_CHARS = 8192  # of a message
_CUT = "[...]"
_MARKED_INPUT = LazyPattern(r"""(?:["'](?:input|ctx)["']: |\binput_value=)[^\n]*""")
_PARSER_HINT = "Start it with --enable-auto-tool-choice --tool-call-parser PARSER."
_LOADING_HINT = Advice(
    "It did not load its model within vllm.load_timeout; its log may say why.",
    "It did not load its model in time; its log may say why.",
)
_PROXY_HINT = "A proxy in front of the server cannot reach it."
_PARSED = (0, 200, 400, 422, 500, 502)  # inside an answer there may be no status
_PARSER_FAILED_HINT = Advice(
    "Its tool parser may not fit the model; with --no-function-calling, calls are made in the text.",
    "Its tool parser may not fit the model.",
)
_KEY_HINT = Advice(
    "Set VLLM_API_KEY, or vllm.api_key in config.json; for one of `servers`, its own api_key.",
    "Pass `api_key` to the server.",
)

# vLLM 0.32 and before; templates that join strings; llama.cpp's server; OpenAI; Gemini; LM Studio, Ollama; DeepSeek.
_NOT_TEXT = (
    r"not a multimodal model|at most \d+ (image|audio|video)|concatenate str \(not .list|content must be a string"
    r"|(image|audio)( input)? is not supported|image_url is only supported|input modality is not enabled"
    r"|does not support (image|audio|vision|multimodal)|data required for image input|unknown variant `image_url`"
)
_MAX_MEDIA = LazyPattern(r"at most (\d+) (?:image|audio|video)", re.IGNORECASE)  # vLLM: --limit-mm-per-prompt

# What a template raises about tools and their calls (Llama 3, Mistral, Qwen), and errors of Jinja in one.
_TEMPLATE = (
    r"single tool.?calls?|tool.?call ids? should|chat template (error|fail)|jinja"
    r"|has no (attribute|element) |' is undefined|access to attribute \S{1,40} of \S{1,40} object is unsafe"
)

# Groq, Together, NVIDIA's NIM, Hugging Face and Bedrock; OpenRouter, whose status is 404.
_TOOLS = r"`?\b(tools?|tool_choice|tool[ -](use|call\w*)|function[ -]call\w*)\b"
_NO_TOOLS = (
    rf"(not|n't|no endpoints found that) support (the provided )?\W?{_TOOLS}"
    rf"|{_TOOLS}\W{{1,2}}((is|are|has|have)( not|n't)|unsupported).{{0,8}}\b(support|enabled|available|allowed|\Z)"
)

# The field itself, and not what stands in it, or the value that it has: these are the client's.
_FIELD = r"""(?<!\bin )(?<!\bat )(?<!\bin ['"`])(?<!\bat ['"`])\b(tools|tool_choice)\b(?!['"`]?(\[|\.\w| ['"`]))"""
_KNOWN = (
    r"(an? )?((recogni[sz]ed|known|valid) (field|param|arg|key|prop)"
    r"|((yet|currently) )?(implement|support|permitt|allow|accept|expect|recogni[sz]|enabl|known|available))"
)

# What is known by its words alone: proxies wrap the refusals of the server behind them. 0: an error inside an answer.
_BAD = (0, 400, 422, 500)

# What a refusal means: its status, pattern in the message, error, hint. The first matching row counts.
_TOO_LONG = (
    r"maximum context length|max_model_len|context (window|size|limit)"
    r"|prompt is too long|model's prompt budget|input token count .* exceeds"
)
_TOO_LARGE = "The server, or a proxy in front of it, does not accept a request of that size"
_REFUSALS: tuple[tuple[Container[int], str, type[ServerError], str], ...] = (
    (_BAD, r"--enable-auto-tool-choice|--tool-call-parser", ToolsUnsupported, _PARSER_HINT),
    (_BAD, r"function calling is not enabled", ToolsUnsupported, "Choose a model that supports function calling."),
    (
        _BAD,
        rf"(unknown|unrecognized|unsupported|unexpected)\b(?! value).{{0,40}}{_FIELD}"
        rf"|{_FIELD}\W{{1,4}}(extra\b|unsupported\b|unknown\b(?! (variant|value))|((is|are) )?not {_KNOWN})",
        ToolsUnsupported,
        _PARSER_HINT,
    ),
    ((*_BAD, 404), _NO_TOOLS, ToolsUnsupported, _PARSER_HINT),
    (_BAD, r"max_tokens\S* cannot be greater", ServerError, Advice("Lower vllm.max_tokens.", "Lower `max_tokens`.")),
    ((500,), r"requires --jinja", ToolsUnsupported, "Start llama-server with --jinja."),
    (_BAD, _TOO_LONG, ContextTooLong, ASK_FOR_LESS),
    (_BAD, r"api key not valid", Unauthorized, _KEY_HINT),
    (
        _BAD,
        r"roles? must alternate|messages?\S{0,12}\brole\b|roles? (is|are) (not )?supported|system (message|prompt|role)"
        r"|(unexpected|unknown|invalid|unsupported) (message )?role|developer instruction is not enabled",
        TemplateRejected,
        "The model's chat template does not accept this conversation.",
    ),
    (_BAD, _TEMPLATE, TemplateFailed, "The chat template fails: another one can be set with --chat-template."),
    (_BAD, _NOT_TEXT, ContentRejected, "The model accepts only text."),
    (
        _BAD,
        r"plain HTTP request was sent to HTTPS",
        ServerError,
        Advice("vllm.base_url must begin with https://.", "`base_url` must begin with https://."),
    ),
    ((401,), "", Unauthorized, _KEY_HINT),
    ((403,), "", Unauthorized, _KEY_HINT),
    (
        (404,),
        r"\bmodels?\b.*(not (exist|found|served)|unknown)|unknown model|^model: ",
        ModelNotFound,
        Advice(
            "Choose one it serves: leave vllm.model empty, or see `vllm-bot models`.",
            "Choose one it serves: leave `model` empty, or see list_models() of the server.",
        ),
    ),
    (
        (404,),
        "",
        ServerError,
        Advice("Check vllm.base_url: it usually ends in /v1.", "Check `base_url`: it usually ends in /v1."),
    ),
    (
        (413,),
        "",
        ContextTooLong,
        Advice(f"{_TOO_LARGE}: use /compact or /new.", f"{_TOO_LARGE}: ask for less at once."),
    ),
    ((502,), "", ServerError, _PROXY_HINT),
    ((503,), r"\bloading\b|not (yet )?loaded|warming|starting|not ready|initiali[sz]ing", ServerLoading, _LOADING_HINT),
    ((504,), "", ServerError, _PROXY_HINT),
)


def read_refusal(status: int, body: bytes, location: str = "") -> ServerError:
    """The error for an answer with a status other than 200."""
    if location:  # not followed, as it might send the API key to another host
        hint = Advice(
            "If that is the right server, set vllm.base_url to that address.",
            "If that is the right server, pass it as `base_url`.",
        )
        return ServerError(f"The server redirects (HTTP {status}) to {location}.", hint, status=status)
    message = read_error_message(body) or f"HTTP {status} without an explanation."
    return _classify(f"The server refused (HTTP {status}): {message}", status, message)


def judge_own_words(error: ServerError, sent: object) -> ServerError:
    """The error by what the server says itself, without what it quotes of the request. `sent`: the request's JSON."""
    own_words = _cut_quotes(error.body, sent)
    if own_words == error.body:
        return error
    judged = _classify(error.message, error.status, own_words)
    judged.retry_after, judged.in_answer = error.retry_after, error.in_answer
    return judged


def may_repeat(error: ServerError, sent: object) -> bool:
    """Whether a text of the request says what the error is known by: it may be quoted in other letters, or cut off."""
    return any(type(_classify(error.message, error.status, text)) is type(error) for text in _list_texts(sent))


def _cut_quotes(message: str, sent: object) -> str:
    """The beginning of the message without what it quotes of the request.

    Linear in the request: a text is looked for only if its first characters stand in the message.
    """
    message = _MARKED_INPUT.sub(_CUT, message)[:MAX_JUDGED_CHARS]
    starts = {message[place : place + MIN_QUOTE_CHARS] for place in range(len(message) - MIN_QUOTE_CHARS + 1)}
    quoted = {
        spelling
        for text in _list_texts(sent)
        if len(text) <= len(message)
        # As it is, and as Python and JSON write it within quotes.
        for spelling in (text, repr(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        if spelling[:MIN_QUOTE_CHARS] in starts and spelling in message
    }
    for text in sorted(quoted, key=len, reverse=True):  # a text may be a part of another one
        message = message.replace(text, _CUT)
    return message


def _list_texts(sent: object) -> Iterator[str]:
    """All strings of the request that are more than a word, among them names of fields."""
    unread = [sent]
    while unread:
        value = unread.pop()
        if isinstance(value, str):
            if len(value) >= MIN_QUOTE_CHARS and not value.isidentifier():
                yield value
        elif isinstance(value, Mapping):
            unread += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            unread += value


def _classify(text: str, status: int, message: str) -> ServerError:
    if status in _PARSED and is_parser_failure(message):  # before the others: it quotes what the model wrote
        return ParserFailed(text, _PARSER_FAILED_HINT, status=status, body=message)
    classes = (
        (kind, hint)
        for wanted, pattern, kind, hint in _REFUSALS
        if status in wanted and re.search(pattern, message, re.IGNORECASE)
    )
    kind, hint = next(classes, (ServerError, ""))
    refused = kind(text, hint, status=status, body=message)
    if kind not in (ServerError, ServerLoading):
        refused.max_retries = 0  # the same request would be refused again
    if isinstance(refused, ContextTooLong):
        refused.excess = parse_excess_tokens(message)
    if isinstance(refused, ContentRejected) and (limit := _MAX_MEDIA.search(message)):
        refused.max_media = int(limit[1])
    return refused


# How vLLM refuses a request that is too long (0.32 and before: serve/utils/api_utils.py, renderers/params.py).
_TOO_MANY_IN_PROMPT = LazyPattern(
    r"maximum context length is (\d+) tokens.*?contains at least (\d+) input tokens", re.S
)
_TOO_MANY_IN_ALL = LazyPattern(r"maximum context length is (\d+) tokens.*?requested (\d+) tokens", re.S)
_TOO_MANY_CHARACTERS = LazyPattern(
    r"contains (\d+) characters \(more than (\d+) characters.*?for (\d+) input tokens", re.S
)


def parse_excess_tokens(message: str) -> int:
    """By how many tokens a request was too long, if the message says so; else 0."""
    if match := _TOO_MANY_IN_PROMPT.search(message) or _TOO_MANY_IN_ALL.search(message):
        limit, came = map(int, match.groups())
        return max(came - limit, 0)
    if match := _TOO_MANY_CHARACTERS.search(message):
        characters, most, tokens = map(int, match.groups())
        return (characters - most) * tokens // max(most, 1)
    return 0


def is_about_length(message: str) -> bool:
    """Whether a server's words say that a request does not fit the model's context."""
    return re.search(_TOO_LONG, message, re.IGNORECASE) is not None and not re.search(
        r"max_tokens\S* cannot be greater", message, re.IGNORECASE
    )


def read_mid_stream_error(event: object) -> ServerError:
    """An error inside an answer with status 200; it may contain the status it should have had."""
    message = explain(event) or "no reason given"
    described = as_dict(as_dict(event).get("error")) or as_dict(event)
    code = str(described.get("code"))
    status = int(code) if code.isdecimal() and len(code) == 3 else 0
    error = _classify(f"The server broke off: {message}", status, message)
    error.in_answer = True
    return error


def is_error(event: Mapping[str, Any]) -> bool:
    """Whether the event is an error."""
    return bool(event.get("error") or event.get("object") == "error" or event.get("message") or event.get("detail"))


def read_error_message(body: bytes) -> str:
    """The reason in an error body; "" if there is none."""
    try:
        return explain(json.loads(body))
    except (ValueError, RecursionError):
        return summarize_page(body)


def summarize_page(page: bytes) -> str:
    """The title of a page, or the beginning of a text."""
    text = page.decode(errors="replace")
    if title := re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL):
        text = title[1]
    return " ".join(text.split())[:MAX_REASON_CHARS]


def explain(value: object) -> str:
    """The reason in an error that is JSON: a string or an object under `error`, else `message` or `detail`."""
    if isinstance(value, list) and value:  # Gemini's, without streaming
        return explain(value[0])
    if not isinstance(value, dict):
        return "" if value is None else str(value)[:MAX_REASON_CHARS]
    error = value.get("error") or value
    if not isinstance(error, dict):
        return str(error)
    reason = error.get("message") or error.get("detail") or ""
    if str(reason).isdecimal() and " " in str(error.get("type")):  # older SGLang: the status as the message
        reason = error["type"]
    return "; ".join(map(_describe_field, reason[:3])) if isinstance(reason, list) else str(reason)


def _describe_field(entry: Any) -> str:
    """An entry in FastAPI's list of validation errors (HTTP 422)."""
    if not isinstance(entry, dict):
        return str(entry)
    return f"{'.'.join(map(str, entry.get('loc') or ()))}: {entry.get('msg')}"


def read_model_names(body: bytes) -> list[str]:
    """The names in a list of models: OpenAI's, as most servers have it, or Gemini's. Raises WireError."""
    try:
        listed = json.loads(body)
        if isinstance(listed, list) and listed:  # Together's
            listed = {"data": listed}
        if "data" in listed:
            return [str(model["id"]) for model in listed["data"] or ()]
        return [
            str(model["name"]).removeprefix("models/")
            for model in listed["models"]
            if "generateContent" in model.get("supportedGenerationMethods", ["generateContent"])
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        beginning = summarize_page(body[:MAX_LIST_BYTES])[:MAX_LIST_CHARS] or "empty"
        message = f"The server's list of models has an unknown shape: {beginning}"
        raise WireError(message, CHECK_ADDRESS) from error
