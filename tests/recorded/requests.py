"""What each provider is sent: the requests on every path, and after each refusal."""

from __future__ import annotations

import json
import re
from typing import Any

from . import answers, conversation
from .asking import (
    NO_TOOLS,
    Scenario,
    ask,
    install_session,
)
from .program import Answer, Answers, Server, World
from .subjects import PROVIDERS, encode_request


def _install_conversation(world: World) -> str:
    """Put the conversation of every kind of message where the program finds it; its id."""
    return install_session(world, conversation.write_journal(), "20260101-000000-aaaa")


def _ask_once_more(
    provider: str = "vllm",
    before: tuple[Answer, ...] = (),
    stream: bool = True,
    asides: Answers | None = None,
    is_new: bool = False,
    **vllm: Any,
) -> Any:
    """The requests for one more question in the conversation of every kind of message, or in a new one."""

    def run(world: World, **sections: Any) -> Any:
        answered = [*before, answers.answer_as(provider, "So be it.", stream=stream)]
        given = {"provider": provider, "stream": stream, **vllm}
        options = (
            "-p",
            "And now?",
            "--output",
            "json",
            *(() if is_new else ("--resume", _install_conversation(world))),
        )
        return ask(world, answered, *options, asides=asides, vllm=given, **sections)

    return run


def _configure(scenario: Any, **sections: Any) -> Scenario:
    return lambda world: scenario(world, **sections)


def _ask_reviewers(world: World) -> Any:
    """A call that reviewers vote on: two questions for a verdict, then the result goes back."""
    yes = answers.stream_chat('{"approve": true, "reason": "It is harmless."}')
    no = answers.stream_chat('{"approve": false, "reason": "It writes."}')
    turn = answers.stream_chat("", answers.make_call("write", {"path": "a.txt", "content": "x"}))
    reviewer = Server([yes, no], answers.serve_vllm_asides())
    with reviewer.serve() as port:
        seats = [{"base_url": f"http://127.0.0.1:{port}/v1", "model": name} for name in ("judge1",)]
        review = {"models": seats, "rule": "unanimous"}
        found = ask(
            world,
            [turn, answers.stream_chat("It is written.")],
            "-y",
            "-p",
            "Write.",
            "--output",
            "stream-json",
            review=review,
        )
        asked = json.loads(world.normalize(json.dumps(reviewer.requests, ensure_ascii=False), port))
    text = json.dumps({**found, "reviewer": asked})
    return json.loads(re.sub(r"[0-9a-f]{16}", "{fence}", text.replace(f"127.0.0.1:{port}", "127.0.0.1:{port}")))


def _encode_choices(_: World) -> Any:
    choices = ("auto", "none", "required", "read")
    return {provider: {choice: encode_request(provider, choice) for choice in choices} for provider in PROVIDERS}


TOO_LONG = (  # then a summary is asked for, and refused too; then one of less, and then the question again
    answers.refuse(400, "This model's maximum context length is 200000 tokens."),
    answers.refuse(400, "This model's maximum context length is 200000 tokens."),
    answers.refuse(400, "This model's maximum context length is 200000 tokens."),
    answers.stream_chat("GOAL: tides."),
)
BAD_FIELD = "Extra inputs are not permitted: {}"
REQUESTS: dict[str, Scenario] = {
    f"{provider} {name}": _ask_once_more(provider, **given)
    for provider in PROVIDERS
    for name, given in {
        "native": {},
        "native whole": {"stream": False},
        "text": {"enable_function_calling": False},
        "text whole": {"enable_function_calling": False, "stream": False},
        "sampling": {"temperature": 0.25, "max_tokens": 512},
        "tools refused": {"before": (answers.refuse(400, NO_TOOLS, provider),)},
        "new": {"is_new": True},
        "new not strict": {"is_new": True, "strict_tools": False},
        "new text": {"is_new": True, "enable_function_calling": False},
    }.items()
}
REQUESTS |= {
    "vllm template": _ask_once_more(
        before=(answers.refuse(400, NO_TOOLS),), asides=answers.serve_vllm_asides(template_shows_tools=True)
    ),
    "vllm roles merged": _ask_once_more(before=(answers.refuse(400, "Conversation roles must alternate"),)),
    "vllm system folded": _ask_once_more(before=(answers.refuse(400, "Conversation roles must alternate"),) * 2),
    "vllm text only": _ask_once_more(before=(answers.refuse(400, "tiny is not a multimodal model"),)),
    "vllm constrained on": _configure(
        _ask_once_more(enable_function_calling=False, is_new=True), text_protocol={"constrained": "on"}
    ),
    "vllm constrained off": _configure(
        _ask_once_more(enable_function_calling=False, is_new=True), text_protocol={"constrained": "off"}
    ),
    "vllm fields refused": _ask_once_more(
        before=tuple(answers.refuse(400, BAD_FIELD.format(name)) for name in ("return_token_ids", "strict")),
        is_new=True,
    ),
    "vllm grammar fails": _ask_once_more(before=(answers.refuse(500, "Invalid grammar specification"),), is_new=True),
    "vllm only model": _ask_once_more(before=(answers.refuse(404, "The model `big` does not exist."),), model="big"),
    "vllm compaction": _configure(
        _ask_once_more(
            before=(answers.stream_chat("GOAL: tides. DONE: read notes.md."),),
            asides=answers.serve_vllm_asides(13_000, context=14_000),
        )
    ),
    "vllm too long": _ask_once_more(before=TOO_LONG),
    "openai too long": _ask_once_more("openai", TOO_LONG),
    "no exec": _configure(_ask_once_more(), security={"sandbox": "off", "exec_enabled": False}),
    "review": _ask_reviewers,
    "tool choices": _encode_choices,
}
