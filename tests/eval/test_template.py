"""A chat template is derived from prompts of a model's own, and shows tools, calls and results besides."""

from __future__ import annotations

import jinja2
import pytest

from src.eval.template import MARKS, write_template

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{{ '<|im_start|>assistant\n' }}"
LLAMA2 = (
    "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = '<<SYS>>\n' + m.content"
    " + '\n<</SYS>>\n\n' %}{% elif m.role == 'user' %}<s>[INST] {{ ns.system + m.content }} [/INST]{% set ns.system = '' %}"
    "{% else %} {{ m.content }} </s>{% endif %}{% endfor %}"
)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {}}}


def render(template: str, messages: list[dict], **more) -> str:
    environment = jinja2.Environment()
    environment.filters["tojson"] = lambda value: __import__("json").dumps(value)
    return environment.from_string(template).render(messages=messages, add_generation_prompt=True, **more)


def say(*texts: str) -> list[dict]:
    roles = ["system", "user", "assistant", "user", "assistant", "user"][-len(texts) :]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]


def derive(template: str) -> str:
    system, first, answer, second = MARKS
    turns = [{"role": "user", "content": first}, {"role": "assistant", "content": answer}]
    turns.append({"role": "user", "content": second})
    derived = write_template(render(template, [{"role": "system", "content": system}, *turns]), render(template, turns))
    assert derived is not None
    return derived


@pytest.mark.parametrize("own", [CHATML, LLAMA2], ids=["ChatML", "Llama 2"])
def test_without_tools_it_writes_what_the_models_own_does(own):
    messages = [{"role": "system", "content": "Be brief."}]
    messages += [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": 'Say "hi".'}]
    messages += [{"role": "user", "content": "Bye."}]
    assert render(derive(own), messages) == render(own, messages)
    assert render(derive(own), messages[1:]) == render(own, messages[1:])


def test_it_shows_tools_with_and_without_a_system_message():
    template = derive(CHATML)
    for messages in ([{"role": "user", "content": "Look."}], say("Be brief.", "Look.", "Hm.", "Look!", "No.", "Do.")):
        shown = render(template, messages, tools=[TOOL])
        assert shown.startswith("<|im_start|>system\n")
        assert '"name": "look"' in shown
        assert "<|im_start|>user\nLook." in shown


def test_it_shows_calls_and_their_results():
    call = {"function": {"name": "look", "arguments": '{"at": "x"}'}}
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "a door"},
        {"role": "tool", "content": "a wall"},
    ]
    assert render(derive(CHATML), messages) == (
        "<|im_start|>user\nLook.<|im_end|>\n<|im_start|>assistant\n"
        '\n<tool_call>\n{"name": "look", "arguments": {"at": "x"}}\n</tool_call><|im_end|>\n<|im_start|>user\n'
        "<tool_response>\na door\n</tool_response>\n\n<tool_response>\na wall\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("prompt", ["", "no marks", " ".join(MARKS * 2), " ".join(reversed(MARKS))])
def test_of_prompts_that_do_not_show_the_messages_none_is_made(prompt):
    assert write_template(prompt, prompt) is None
