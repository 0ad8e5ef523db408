"""What surrounds an answer, one row each: the pairs that enclose reasoning, and the markers that enclose the answer.

Each marker belongs to one family of models and is no part of the text. Upper and lower case are the same. Sources: the
reasoning parsers of vLLM 0.32, and the models' chat templates.
"""

from __future__ import annotations

from typing import NamedTuple


class ReasoningPair(NamedTuple):
    """`ends_only_reasoning`: the closer counts without its opener, which the chat template may have written."""

    opener: str
    closer: str
    family: str
    ends_only_reasoning: bool = True


class Envelope(NamedTuple):
    """Markers around the text of an answer, in any order."""

    family: str
    markers: tuple[str, ...]


REASONING = (
    ReasoningPair("<think>", "</think>", "DeepSeek R1, Qwen3, GLM, MiniMax M2 and most others"),
    ReasoningPair("<thinking>", "</thinking>", "Anthropic XML, Cline"),
    ReasoningPair("<thought>", "</thought>", "prompted"),
    ReasoningPair("<reasoning>", "</reasoning>", "prompted"),
    ReasoningPair("<seed:think>", "</seed:think>", "Seed-OSS"),
    ReasoningPair("<mm:think>", "</mm:think>", "MiniMax M3"),
    ReasoningPair("<think:opensource>", "</think:opensource>", "Hunyuan 3 and 4"),
    ReasoningPair("<ifm|think>", "</ifm|think>", "K2 Horizon"),
    ReasoningPair("<ifm|think_fast>", "</ifm|think_fast>", "K2 Horizon"),
    ReasoningPair("<ifm|think_faster>", "</ifm|think_faster>", "K2 Horizon"),
    ReasoningPair("[THINK]", "[/THINK]", "Mistral"),
    ReasoningPair("<|channel>thought", "<channel|>", "Gemma 4"),
    ReasoningPair("<|open|>think<|sep|>", "<|close|>think<|sep|>", "Kimi K3"),
    ReasoningPair("<|think:start|>", "<|think:end|>", "Solar"),
    ReasoningPair("<|START_THINKING|>", "<|END_THINKING|>", "Cohere Command"),
    ReasoningPair("<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>", "CWM"),
    ReasoningPair("[unused16]", "[unused17]", "Pangu"),
    ReasoningPair("<|im_start|>assistant/think\n", "<|im_end|>\n<|im_start|>assistant\n", "HyperCLOVA X"),
    ReasoningPair("<|channel|>analysis<|message|>", "<|end|>", "gpt-oss", ends_only_reasoning=False),
    ReasoningPair("<|start|>assistant to=self<|message|>", "<|eom|>", "Muse", ends_only_reasoning=False),
)

ENVELOPES = (
    Envelope("Cohere Command", ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>",
                                "<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>")),
    Envelope("Kimi K3", ("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>")),
    Envelope("Ling", ("<|role_end|>", "<role>ASSISTANT</role>")),
    Envelope("Pangu", ("[unused9]", "[unused10]", "[unused11]", "[unused12]")),
    Envelope("HyperCLOVA X", ("<|im_end|>\n<|im_start|>assistant -> tool/function_call\n",
                              "<|im_start|>assistant -> tool/function_call\n", "<|endofturn|>", "<|stop|>")),
    Envelope("CWM", ("<|frame_sep|>", "<|action_sep|>", "<|return_sep|>", "<|call_sep|>", "<|line_sep|>")),
    Envelope("GigaChat", ("<|message_sep|>\n\nfunction call<|role_sep|>\n", "<|message_sep|>", "<|role_sep|>")),
    Envelope("gpt-oss", ("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>",
                         "<|channel|>commentary<|message|>", "<|end|>", "<|return|>")),
    Envelope("Muse", ("<|start|>assistant to=user<|message|>", "<|eom|>", "<|eot|>")),
    Envelope("DeepSeek", ("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>", "<｜tool▁outputs▁end｜>",
                          "<｜end▁of▁sentence｜>", "<|end▁of▁sentence|>")),
    Envelope("ChatML, IQuest", ("<|im_end|>", "<|endoftext|>")),
    Envelope("Llama, Granite, Gemma", ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>", "<turn|>")),
)  # fmt: skip
