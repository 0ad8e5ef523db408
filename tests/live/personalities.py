"""Models with one fault each, for the eval: what they answer to its built-in cases, as rules of the rig.

A rule says what is written where the prompt shows the tools as the chat template does (`native`), and elsewhere
(`text`). A question that ends in /no_think has no thought before its answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from src.eval.cases import BUILT_IN, MATCHERS, Case, ExpectedCall, read_cases

HERE = Path(__file__).parent
NO_THINK = " /no_think"
Writer = Callable[[str, dict], str]


def example(value: object) -> object:
    """A value that a matcher takes."""
    if isinstance(value, dict) and len(value) == 1 and (name := next(iter(value))) in MATCHERS:
        wanted = value[name]
        return {"contains": wanted, "one_of": wanted[0] if name == "one_of" else "", "any": "x"}.get(name) or unregex(
            wanted
        )
    return value


def unregex(pattern: str) -> str:
    """A text that a pattern of the cases matches."""
    text = re.sub(r"\(\?i\)|\^|\$|;\?", "", pattern)
    text = re.sub(r"\\s[+*]|\[,\. \]\?", " ", text).replace("3 450", "3450")
    return re.sub(r"\\(.)", r"\1", text).strip()


def write_hermes(name: str, arguments: dict) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


def write_qwen(name: str, arguments: dict) -> str:
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def write_text(name: str, arguments: dict) -> str:
    return f"TOOL_CALL: {json.dumps({'name': name, 'args': arguments}, ensure_ascii=False)}"


def write_pythonic(name: str, arguments: dict) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def join_lines(calls: Sequence[str]) -> str:
    return "\n".join(calls)


def join_list(calls: Sequence[str]) -> str:
    return f"[{', '.join(calls)}]"


class Personality(NamedTuple):
    """`write`: a call where the template shows the tools; `flags`: how it is served at first; `kept`: of these, what stays
    beside the flags that are recommended; `swallows`: calls, in thoughts.
    """

    write: Writer
    flags: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    join: Callable[[Sequence[str]], str] = join_lines
    swallows: bool = False


HERMES = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
THINKING = ("--reasoning-parser", "deepseek_r1", "--chat-template", str(HERE / "thinking.jinja"))
PERSONALITIES = {
    "native hermes": Personality(write_hermes, HERMES),
    "wrong parser": Personality(write_qwen, HERMES),
    "no parser": Personality(write_pythonic, join=join_list),
    "hidden tools": Personality(write_hermes, (*HERMES, "--chat-template", str(HERE / "hidden_tools.jinja"))),
    "thoughts": Personality(write_hermes, (*HERMES, *THINKING), THINKING, swallows=True),
}


def list_rules(personality: Personality) -> list[dict]:
    rules = []
    for case in read_cases(BUILT_IN):
        for question, answers in list_answers(case):
            native = [say(personality.write, personality.join, calls) for calls in answers]
            text = [say(write_text, join_lines, calls) for calls in answers]
            if personality.swallows:
                rules.append({"match": re.escape(question) + NO_THINK, "native": native, "text": text})
                native, text = ([f"<think>\nI shall answer. {each}" for each in side] for side in (native, text))
            rules.append({"match": re.escape(question), "native": native, "text": text})
    return rules


def list_answers(case: Case) -> list[tuple[str, list[Sequence[ExpectedCall]]]]:
    """Each question, and the expected calls of the answers to it."""
    answers: list[tuple[str, list[Sequence[ExpectedCall]]]] = []
    for turn in case.turns:
        if turn.ask:
            answers.append((turn.ask, []))
        answers[-1][1].append(turn.expect or ())
    return answers


def say(write: Writer, join: Callable[[Sequence[str]], str], calls: Sequence[ExpectedCall]) -> str:
    if not calls:
        return "That needs no tool."
    return join([write(each.name, {key: example(value) for key, value in each.arguments.items()}) for each in calls])
