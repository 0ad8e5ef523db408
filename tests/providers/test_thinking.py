"""What each family of models is sent for each word of /think."""

from __future__ import annotations

from src.providers.thinking import TABLE, find_thinking
from tests.each import check_rows


def kwargs(**values):
    return {"chat_template_kwargs": values}


@check_rows(
    "model, word, fields",
    [
        ("Qwen/Qwen3-8B", "off", kwargs(enable_thinking=False)),
        ("Qwen/Qwen3.6-27B-FP8", "on", kwargs(enable_thinking=True)),
        ("my-qwen3-finetune", "off", kwargs(enable_thinking=False)),
        ("deepseek-ai/DeepSeek-V3.1", "on", kwargs(thinking=True)),
        ("openai/gpt-oss-120b", "high", {"reasoning_effort": "high"}),
        ("zai-org/GLM-4.6", "off", kwargs(enable_thinking=False)),
        ("tencent/Hunyuan-A13B-Instruct", "off", kwargs(enable_thinking=False)),
        ("tencent/Hy3-preview", "off", kwargs(reasoning_effort="no_think")),
        ("ibm-granite/granite-3.3-8b-instruct", "on", kwargs(thinking=True)),
        ("moonshotai/Kimi-K2.5", "off", kwargs(thinking=False)),
        ("HuggingFaceTB/SmolLM3-3B", "off", kwargs(enable_thinking=False)),
        ("ByteDance-Seed/Seed-OSS-36B-Instruct", "low", kwargs(thinking_budget=512)),
    ],
)
def test_a_word_becomes_what_the_template_reads(model, word, fields):
    assert find_thinking("vllm", model).fields[word] == fields


@check_rows(
    "model, words, why",
    [
        ("openai/gpt-oss-20b", {"on", "low", "medium", "high"}, "always"),
        ("Qwen/Qwen3-4B-Thinking-2507", set(), "always"),
        ("Qwen/QwQ-32B", set(), "always"),
        ("deepseek-ai/DeepSeek-R1", set(), "always"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", set(), "never"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", set(), "never"),
    ],
)
def test_what_a_model_does_not_know_has_a_reason(model, words, why):
    known = find_thinking("vllm", model)
    assert known.fields.keys() == words
    assert why in known.why


@check_rows("model", ["meta-llama/Llama-3.1-8B", "tiny", "", "Qwen2.5-7B", "glm-5.3", "deepseek-v3"])
def test_of_others_nothing_is_known(model):
    assert find_thinking("vllm", model) is None


def test_a_server_of_another_kind_has_its_own_words():
    assert find_thinking("openai", "gpt-5").fields["off"] == {"reasoning_effort": "none"}
    assert find_thinking("anthropic", "claude") is None


def test_the_weights_name_counts_before_the_served_name():
    assert find_thinking("vllm", "Qwen/Qwen3-8B", "default").fields["on"] == kwargs(enable_thinking=True)


def test_each_row_knows_words_or_says_why_it_knows_none():
    assert [row.models for row in TABLE if not row.fields and not row.why] == []
