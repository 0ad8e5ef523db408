"""The blanks that real chat templates write between the text of an answer and its calls."""

import pytest

from src.model.request_builder import ModelOptions, RequestBuilder
from src.negotiation.call_gap import GAP_PROBE, cut_gap, read_gap
from src.negotiation.call_path import CallPath
from src.types.messages import Response, Text
from tests.each import check_rows
from tests.model.test_continuity_laws import TALK, as_vllm_reads, list_sent, render
from tests.providers.doubles import codec

GAPS = {
    "DeepSeek-V3.1": "",
    "GLM-4.6": "\n",
    "Granite-4.1": "\n",
    "Kimi-K2.5": "",
    "MiniMax-M2": "\n",
    "Qwen3": "\n",
    "Qwen3.6": "\n\n",
}


def make_prompt(name, messages):
    builder = RequestBuilder(codec("vllm"), ModelOptions())
    return render(name, as_vllm_reads(list_sent(builder, messages, CallPath("native", template_shows_tools=True))))


@check_rows("name", GAPS)
def test_the_prompt_of_a_real_template_tells_its_gap(name):
    assert read_gap(make_prompt(name, GAP_PROBE)) == GAPS[name]


@check_rows("name", GAPS)
@check_rows("text", ["", "Let me look."])
def test_an_answer_as_the_template_writes_it_is_written_again(name, text):
    system, user, answer, results = TALK
    calls = answer.content[2:]
    exact = make_prompt(name, [system, user, Response((Text(text), *calls)), results])
    left = text + GAPS[name]  # by the server's parser
    assert make_prompt(name, [system, user, Response((Text(cut_gap(left, GAPS[name])), *calls)), results]) == exact


@pytest.mark.parametrize("prompt", ["", "What is the weather in Oslo?"])
def test_a_prompt_without_the_probe_s_text_tells_none(prompt):
    assert read_gap(prompt) == ""
