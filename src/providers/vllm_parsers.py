"""Which of vLLM's parsers fit which family of models, for the flags that make tool calls native.

Sources: vLLM's docs, features/tool_calling.md and features/reasoning_outputs.md; parsers of families that these leave
out are those registered in vLLM 0.32, vllm/tool_parsers/__init__.py and vllm/reasoning/__init__.py.
"""

from __future__ import annotations

import re

from msgspec import Struct


class Family(Struct, frozen=True):
    """`pattern` matches the model's name; `template` is one of vLLM's examples/, if the model's own will not do."""

    pattern: str
    tool_parser: str
    reasoning_parser: str = ""
    template: str = ""

    @property
    def flags(self) -> str:
        """The arguments of `vllm serve` besides the model."""
        flags = ["--enable-auto-tool-choice", f"--tool-call-parser {self.tool_parser}"]
        if self.reasoning_parser:
            flags.append(f"--reasoning-parser {self.reasoning_parser}")
        if self.template:
            flags.append(f"--chat-template examples/{self.template}")
        return " ".join(flags)


FAMILIES = (  # the first match counts: special ones before general ones
    Family(r"xlam.*qwen|qwen.*xlam|xlam-[13]b", "xlam", "", "tool_chat_template_xlam_qwen.jinja"),
    Family(r"xlam", "xlam", "", "tool_chat_template_xlam_llama.jinja"),
    Family(r"toolace", "pythonic", "", "tool_chat_template_toolace.jinja"),
    Family(r"hermes", "hermes"),
    Family(r"qwen3[-_.]?coder|qwen3\.5", "qwen3_xml"),
    Family(r"deepseek.*(distill|r1-zero)", "hermes", "deepseek_r1"),
    Family(r"deepseek.*v4[._-]?1", "deepseek_v41", "deepseek_v41"),
    Family(r"deepseek.*v4", "deepseek_v4", "deepseek_v4"),
    Family(r"deepseek.*v3[._-]?2", "deepseek_v32", "deepseek_v3"),
    Family(r"deepseek.*v3[._-]?1", "deepseek_v31", "deepseek_v3", "tool_chat_template_deepseekv31.jinja"),
    Family(r"deepseek.*r1", "deepseek_v3", "deepseek_r1", "tool_chat_template_deepseekr1.jinja"),
    Family(r"deepseek.*v3", "deepseek_v3", "", "tool_chat_template_deepseekv3.jinja"),
    Family(r"qwq", "hermes", "deepseek_r1"),
    Family(r"qwen[-_.]?3.*instruct-2507", "hermes"),
    Family(r"qwen[-_.]?3", "hermes", "qwen3"),
    Family(r"qwen", "hermes"),
    Family(r"gpt-oss", "openai", "openai_gptoss"),
    Family(r"llama-?4", "llama4_pythonic", "", "tool_chat_template_llama4_pythonic.jinja"),
    Family(r"llama-?3[._-]2", "llama3_json", "", "tool_chat_template_llama3.2_json.jinja"),
    Family(r"llama-?3[._-][13]", "llama3_json", "", "tool_chat_template_llama3.1_json.jinja"),
    Family(r"magistral", "mistral", "mistral"),
    Family(r"mi[sx]tral|ministral|devstral|codestral", "mistral"),
    Family(r"glm[-_.]?4[._-]?7|glm[-_.]?5", "glm47", "glm47"),
    Family(r"glm[-_.]?4[._-]?[56]", "glm45", "glm45"),
    Family(r"kimi[-_.]?k3", "kimi_k3", "kimi_k3"),
    Family(r"kimi", "kimi_k2", "kimi_k2"),
    Family(r"minimax[-_.]?m3", "minimax_m3", "minimax_m3"),
    Family(r"minimax[-_.]?m2", "minimax_m2", "minimax_m2_append_think"),
    Family(r"granite[-_.]?4", "granite4"),
    Family(r"granite-20b", "granite-20b-fc", "", "tool_chat_template_granite_20b_fc.jinja"),
    Family(r"granite-3\.0", "granite", "", "tool_chat_template_granite.jinja"),
    Family(r"granite", "granite"),
    Family(r"functiongemma", "functiongemma", "", "tool_chat_template_functiongemma.jinja"),
    Family(r"gemma[-_.]?4", "gemma4", "gemma4", "tool_chat_template_gemma4.jinja"),
    Family(r"gemma", "pythonic", "", "tool_chat_template_gemma3_pythonic.jinja"),
    Family(r"internlm", "internlm", "", "tool_chat_template_internlm2_tool.jinja"),
    Family(r"jamba", "jamba"),
    Family(r"hunyuan", "hunyuan_a13b", "hunyuan_a13b"),
    Family(r"command-a-reasoning", "cohere_command3", "cohere_command3"),
    Family(r"command", "cohere_command3"),
    Family(r"phi-?4-mini", "phi4_mini_json", "", "tool_chat_template_phi4_mini.jinja"),
    Family(r"longcat", "longcat"),
    Family(r"olmo-?3", "olmo3", "olmo3"),
    Family(r"seed-oss", "seed_oss", "seed_oss"),
    Family(r"step-?3[._-]5", "step3p5", "step3p5"),
    Family(r"step-?3", "step3", "step3"),
    Family(r"ernie-?4[._-]5", "ernie45", "ernie45"),
    Family(r"gigachat-?3", "gigachat3"),
    Family(r"apertus", "apertus", "", "tool_chat_template_apertus.jinja"),
    Family(r"lfm-?2", "lfm2"),
    Family(r"mimo", "mimo", "mimo"),
    Family(r"minicpm-?5", "minicpm5"),
    Family(r"plamo-?3", "plamo3", "plamo3"),
)


def find_family(*names: str) -> Family | None:
    """The family of a model, by the first of its names that tells one; None if none does."""
    matches = (family for name in names for family in FAMILIES if re.search(family.pattern, name.lower()))
    return next(matches, None)


def name_tool_parser(*names: str) -> str:
    """The tool parser for a model of these names; "PARSER" where it is not known."""
    family = find_family(*names)
    return family.tool_parser if family else "PARSER"
