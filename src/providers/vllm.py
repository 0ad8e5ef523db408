"""What vLLM serves besides the OpenAI interface: making requests and reading answers. Pure. Facts: vLLM 0.32.

/tokenize      messages and tools -> the exact prompt's length and tokens (serve/tokenize/serving.py)
/detokenize    tokens -> the text they were
/v1/completions   a prompt as tokens -> what the model says, as text and unparsed (entrypoints/openai/completion)
/version
structured_outputs.structural_tag: free text until a trigger, then a grammar (sampling_params.py, xgrammar)

It also says which schemas a server can hold a call's arguments to (`strict: true`). One schema that cannot become a
grammar makes vLLM refuse the whole request, so `strict` is sent only for keywords that were measured to work with
xgrammar; OpenAI's rules are those of its guide to structured outputs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ..errors import WireError
from ..types.messages import JSON, Named, Response, StopReason, Text, ToolChoice, ToolDefinition
from .base import ChatRequest
from .openai import COMPLETIONS, read_usage
from .wire_json import as_dict, as_dicts, as_list, as_str, load_json

TRIGGER = "TOOL_CALL:"
MAX_BLANKS = 16  # in a row: with more, a weak model may write nothing else


class TokenizedPrompt(Struct, frozen=True):
    """A prompt as made by the server's template and tokenizer."""

    tokens: list[int]
    max_model_len: int


def read_prompt(body: bytes) -> TokenizedPrompt:
    """The answer of /tokenize. Raises WireError."""
    value = _load_object(body)
    tokens, limit = value.get("tokens"), value.get("max_model_len")
    if not isinstance(tokens, list) or not isinstance(limit, int):
        raise WireError("The server's answer to /tokenize is not vLLM's.")
    return TokenizedPrompt(tokens, limit)


def encode_tokenize(model: str, text: str) -> bytes:
    return json.dumps({"model": model, "prompt": text, "add_special_tokens": False}).encode()


def encode_detokenize(model: str, tokens: Sequence[int]) -> bytes:
    return json.dumps({"model": model, "tokens": list(tokens)}).encode()


def encode_completion(request: ChatRequest, prompt: TokenizedPrompt) -> bytes:
    """The body of /v1/completions for a chat's prompt. max_tokens is always set, as the default is 16."""
    fields: dict[str, JSON] = {
        "model": request.model,
        "prompt": list(prompt.tokens),
        "max_tokens": request.max_tokens or max(prompt.max_model_len - len(prompt.tokens) - 1, 1),
        "skip_special_tokens": False,  # in many formats the markers are special tokens
    }
    if request.temperature is not None:
        fields["temperature"] = request.temperature
    fields |= request.extra
    return json.dumps(fields).encode()


def read_completion(body: bytes) -> Response:
    """The answer of /v1/completions: its text alone. Raises WireError."""
    completion = COMPLETIONS.read(body)
    choice = next(iter(completion.choices or ()), None)
    if choice is None or choice.text is None:
        raise WireError("The server's answer to /v1/completions is not vLLM's.")
    reason: StopReason = "max_tokens" if choice.finish_reason == "length" else "end_turn"
    return Response((Text(choice.text),), reason, read_usage(completion), completion.model or "")


def read_detokenized(body: bytes) -> str:
    """The answer of /detokenize. Raises WireError."""
    text = _load_object(body).get("prompt")
    if not isinstance(text, str):
        raise WireError("The server's answer to /detokenize is not vLLM's.")
    return text


def constrain_calls(tools: Sequence[ToolDefinition], choice: ToolChoice = "auto") -> dict[str, JSON]:
    """structured_outputs that allow any text, but after TOOL_CALL: only a call of an offered tool.

    If `choice` requires a call, the answer begins with one, and with Named is nothing but one.
    """
    body: dict[str, JSON] = {
        "type": "json_schema",
        "json_schema": build_choice_schema(tools, choice),
        "max_whitespace_cnt": MAX_BLANKS,
    }
    tag: dict[str, JSON] = {"begin": f"{TRIGGER} ", "content": body, "end": ""}
    return {"structural_tag": encode_structural_tag(build_triggered_tags(TRIGGER, [tag], choice))}


def build_triggered_tags(trigger: str, tags: list[JSON], choice: ToolChoice) -> dict[str, JSON]:
    """The format that allows any text, but after the trigger one of the tags; see constrain_calls for the choice."""
    form: dict[str, JSON] = {"type": "triggered_tags", "triggers": [trigger], "tags": tags}
    if choice not in ("auto", "none"):
        form["at_least_one"] = True
    if _get_name(choice):
        form["stop_after_first"] = True
    return form


def encode_structural_tag(form: Mapping[str, JSON]) -> str:
    """structured_outputs.structural_tag: a format as JSON."""
    return json.dumps({"type": "structural_tag", "format": form})


def list_callable_tools(tools: Sequence[ToolDefinition], choice: ToolChoice) -> list[ToolDefinition]:
    """Those that the model may call by this choice."""
    return [tool for tool in tools if _get_name(choice) in ("", tool.name)]


def _get_name(choice: ToolChoice) -> str:
    return choice.name if isinstance(choice, Named) else ""


# vLLM before 0.11 knows only the second field, llama.cpp's server only the third; they ignore the others.
PROBE_TEXT = "heron-7431-reeds"
GRAMMAR_PROBES: Mapping[str, JSON] = {
    "structured_outputs": {"structural_tag": encode_structural_tag({"type": "const_string", "value": PROBE_TEXT})},
    "guided_json": {"const": PROBE_TEXT},
    "json_schema": {"const": PROBE_TEXT},
}
SCHEMA_FIELDS = ("guided_json", "json_schema")  # hold the whole answer to a schema


def build_choice_schema(tools: Sequence[ToolDefinition], choice: ToolChoice) -> dict[str, JSON]:
    """The schema of a call; as that of the whole answer, for servers that know no structural tags."""
    return {"anyOf": [_build_call_schema(tool) for tool in list_callable_tools(tools, choice)]}


def _build_call_schema(tool: ToolDefinition) -> dict[str, JSON]:
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "args": dict(tool.parameters)},
        "required": ["name", "args"],
        "additionalProperties": False,
    }


def read_version(body: bytes) -> str:
    """The answer of /version. Raises WireError."""
    return as_str(_load_object(body).get("version"))


class ModelFacts(Struct, frozen=True):
    """What a server's list tells of its models beside their names.

    `context_lengths`: in tokens; vLLM and SGLang call them `max_model_len`, llama.cpp `meta.n_ctx`. `parameter_counts`:
    llama.cpp's. `owner`: of the first model, as the server says.
    """

    context_lengths: Mapping[str, int] = {}
    parameter_counts: Mapping[str, int] = {}
    owner: str = ""


def read_model_facts(body: bytes) -> ModelFacts:
    """The answer of /v1/models. Raises WireError."""
    listed = load_json(body)  # a bare list where a proxy has no other
    lengths, counts, owners = dict[str, int](), dict[str, int](), list[str]()
    for model in as_dicts(listed) or as_dicts(as_dict(listed).get("data")):
        name, meta = as_str(model.get("id")), as_dict(model.get("meta"))
        length, count = model.get("max_model_len", meta.get("n_ctx")), meta.get("n_params")
        if isinstance(length, int) and length > 0:
            lengths[name] = length
        if isinstance(count, int):
            counts[name] = count
        owners.append(as_str(model.get("owned_by")))
    return ModelFacts(lengths, counts, next(iter(owners), ""))


def read_rendered_text(body: bytes) -> str:
    """The answer of llama.cpp's /apply-template: the prompt of a chat. Raises WireError."""
    text = _load_object(body).get("prompt")
    if not isinstance(text, str):
        raise WireError("The server's answer to /apply-template is not llama.cpp's.")
    return text


def read_likely_tokens(body: bytes) -> dict[str, float]:
    """The most likely first tokens of an answer with their log probabilities; empty if it tells none."""
    choice = next(iter(as_dicts(_load_object(body).get("choices"))), {})
    first = next(iter(as_dicts(as_dict(choice.get("logprobs")).get("content"))), {})
    likely = {as_str(each.get("token")): each.get("logprob") for each in as_dicts(first.get("top_logprobs"))}
    return {token: float(value) for token, value in likely.items() if isinstance(value, (int, float))}


def _load_object(body: bytes) -> dict[str, Any]:
    value = load_json(body)
    if not isinstance(value, dict):
        raise WireError("The server's answer is not a JSON object.")
    return value


_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$schema"})
_PINNED = frozenset({"type", "enum", "const", "anyOf", "properties", "required", "additionalProperties", "items"})
_BOUNDS = frozenset({"minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"})
_LARGEST = 2**53


def fits_xgrammar(schema: Mapping[str, JSON]) -> bool:
    """Whether vLLM can make a grammar of it."""
    return all(map(_is_plain, _walk_schemas(schema)))


def relax_schema(schema: Mapping[str, JSON], fits: Callable[[Mapping[str, JSON]], bool]) -> Mapping[str, JSON]:
    """The schema of an object without what does not fit: one such keyword makes the server refuse the request."""
    properties = schema.get("properties")
    if fits(schema) or not isinstance(properties, Mapping):
        return schema
    relaxed: dict[str, JSON] = {name: {} for name in properties}
    relaxed |= {name: each for name, each in properties.items() if isinstance(each, Mapping) and fits(each)}
    return {"type": "object", "properties": relaxed, "required": schema.get("required", [])}


def fits_openai_strict(schema: Mapping[str, JSON]) -> bool:
    """Whether OpenAI accepts it as strict: every object lists all its properties and requires them."""
    return fits_xgrammar(schema) and all(map(_is_closed, _walk_schemas(schema)))


def fits_nothing(_: Mapping[str, JSON]) -> bool:
    """For servers without strict tools."""
    return False


def _walk_schemas(schema: object) -> Iterator[object]:
    """The schema and all schemas in it, even invalid ones."""
    yield schema
    if not isinstance(schema, Mapping):
        return
    inner: list[object] = [*as_dict(schema.get("properties")).values(), *as_list(schema.get("anyOf"))]
    inner += [schema[key] for key in ("items", "additionalProperties") if not isinstance(schema.get(key, True), bool)]
    for each in inner:
        yield from _walk_schemas(each)


def _is_plain(schema: object) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= _ANNOTATIONS | _PINNED | _BOUNDS:
        return False
    if not isinstance(schema.get("properties", {}), dict) or not isinstance(schema.get("anyOf", []), list):
        return False
    kinds = schema.get("type", [])
    if not isinstance(kinds, list):
        kinds = [kinds]
    return all(isinstance(kind, str) and kind in _TYPES for kind in kinds) and _has_plain_bounds(schema)


def _has_plain_bounds(schema: Mapping[str, Any]) -> bool:
    bounds = {key: schema[key] for key in _BOUNDS if key in schema}
    if not all(isinstance(bound, (int, float)) and abs(bound) <= _LARGEST for bound in bounds.values()):
        return False
    pairs = [
        (bounds.get(f"min{of}", -_LARGEST), bounds.get(f"max{of}", _LARGEST)) for of in ("imum", "Items", "Length")
    ]
    return all(least <= most for least, most in pairs)


def _is_closed(schema: object) -> bool:
    if not isinstance(schema, Mapping) or ("properties" not in schema and schema.get("type") != "object"):
        return True
    named, needed = set(as_dict(schema.get("properties"))), set(map(str, as_list(schema.get("required"))))
    return schema.get("additionalProperties") is False and named == needed
