"""What surrounds an answer, one row each: the pairs that enclose reasoning, and the markers that enclose the answer.

Each marker belongs to one family of models and is no part of the text. Upper and lower case are the same. Sources: the
reasoning parsers of vLLM 0.32 and of Ollama, and the models' chat templates.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class ReasoningPair(Struct, frozen=True):
    """`ends_only_reasoning`: the closer counts without its opener, which the chat template may have written."""

    opener: str
    closer: str
    family: str
    ends_only_reasoning: bool = True


class Envelope(Struct, frozen=True):
    """Markers around the text of an answer, which count in any order.

    `place` limits words that are markup elsewhere: `wraps` has a pair, the first directly behind reasoning and the
    second at the end; `ends` counts at the end of the answer only. `shows`: the text behind it is for the user, and
    what merely looks like a call in it is text.
    """

    family: str
    markers: tuple[str, ...]
    place: Literal["surrounds", "shows", "wraps", "ends"] = "surrounds"


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
    ReasoningPair("<|inner_prefix|>", "<|inner_suffix|>", "Apertus"),
    ReasoningPair("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>", "PLaMo 3"),
    ReasoningPair("<|begin_of_thought|>", "<|end_of_thought|>", "Sky-T1, OpenThinker"),
    ReasoningPair("<longcat_think>", "</longcat_think>", "LongCat"),
    ReasoningPair("<unused94>thought\n", "<unused95>", "MedGemma"),
    ReasoningPair("[BEGIN REASONING]", "[BEGIN FINAL RESPONSE]", "Apriel"),
    ReasoningPair("[unused16]", "[unused17]", "Pangu"),
    ReasoningPair("◁think▷", "◁/think▷", "Kimi k1.5, Kimi-VL"),
    ReasoningPair("<|im_start|>assistant/think\n", "<|im_end|>\n<|im_start|>assistant\n", "HyperCLOVA X"),
    ReasoningPair("<|channel|>analysis<|message|>", "<|end|>", "gpt-oss", ends_only_reasoning=False),
    ReasoningPair("Here is my thought process:", "Here is my response:", "Granite 3.2", ends_only_reasoning=False),
    ReasoningPair("Here's my thought process:", "Here's my response:", "Granite 3.2", ends_only_reasoning=False),
    ReasoningPair("<|think|>", "<|end|>", "Solar Open", ends_only_reasoning=False),
    ReasoningPair("<|content_thinking|>", "<|end_message|>", "Inkling", ends_only_reasoning=False),
    ReasoningPair("<|start|>assistant to=self<|message|>", "<|eom|>", "Muse", ends_only_reasoning=False),
    ReasoningPair("to=self<|message|>", "<|eom|>", "Muse, behind its prompt", ends_only_reasoning=False),
)

ENVELOPES = (
    Envelope("Cohere Command", ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>",
                                "<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>")),
    Envelope("Apertus", ("<|assistant_start|>", "<|assistant_end|>")),
    Envelope("Apriel", ("[END FINAL RESPONSE]",)),
    Envelope("EXAONE", ("[|assistant|]", "[|endofturn|]")),
    Envelope("Functionary", (">>>all\n", "<|from|>assistant\n<|recipient|>all\n<|content|>",
                             "<|recipient|>all\n<|content|>"), "shows"),
    Envelope("Inkling", ("<|message_model|>", "<|content_text|>", "<|end_message|>", "<|content_model_end_sampling|>")),
    Envelope("Kimi K2", ("<|im_assistant|>assistant<|im_middle|>", "<|im_middle|>")),
    Envelope("MiniMax", ("[e~[",)),
    Envelope("PLaMo 3", ("<|plamo:tag|>",)),
    Envelope("Sky-T1, OpenThinker", ("<|begin_of_solution|>", "<|end_of_solution|>")),
    Envelope("Solar Open", ("<|begin|>assistant", "<|content|>", "<|flush|>", "<|calls|>")),
    Envelope("Kimi K3", ("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>")),
    Envelope("Ling", ("<|role_end|>", "<role>ASSISTANT</role>")),
    Envelope("Pangu", ("[unused9]", "[unused10]", "[unused11]", "[unused12]")),
    Envelope("HyperCLOVA X", ("<|im_end|>\n<|im_start|>assistant -> tool/function_call\n",
                              "<|im_start|>assistant -> tool/function_call\n", "<|endofturn|>", "<|stop|>")),
    Envelope("CWM", ("<|frame_sep|>", "<|action_sep|>", "<|return_sep|>", "<|call_sep|>", "<|line_sep|>")),
    Envelope("GigaChat", ("<|message_sep|>\n\nfunction call<|role_sep|>\n", "<|message_sep|>", "<|role_sep|>")),
    Envelope("gpt-oss", ("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>"), "shows"),
    Envelope("gpt-oss", ("<|start|>assistant<|channel|>commentary<|message|>", "<|channel|>commentary<|message|>",
                         "<|end|>", "<|return|>")),
    Envelope("Muse", ("<|start|>assistant to=user<|message|>", "to=user<|message|>"), "shows"),
    Envelope("Muse", ("<|eom|>", "<|eot|>")),
    Envelope("DeepSeek", ("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>", "<｜tool▁outputs▁end｜>",
                          "<｜end▁of▁sentence｜>", "<|end▁of▁sentence|>")),
    Envelope("ChatML, IQuest", ("<|im_end|>", "<|endoftext|>")),
    Envelope("Llama, Granite, Gemma", ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>", "<turn|>")),
    Envelope("the role before an answer", ("<|im_start|>assistant\n", "<|start_header_id|>assistant<|end_header_id|>",
                                           "<|header_start|>assistant<|header_end|>", "<|assistant|>",
                                           "<｜Assistant｜>", "<start_of_turn>model\n", "<|turn>model\n",
                                           "<|start_of_role|>assistant<|end_of_role|>")),
    Envelope("Granite 3.3, ERNIE 4.5", ("<response>", "</response>"), "wraps"),
    Envelope("Hunyuan A13B", ("<answer>", "</answer>"), "wraps"),
    Envelope("Mistral, Llama 2", ("</s>",), "ends"),
    Envelope("Gemma", ("<eos>",), "ends"),
)  # fmt: skip

_MARKERS = {marker for row in ENVELOPES for marker in row.markers}
_MARKERS |= {marker for pair in REASONING for marker in (pair.opener, pair.closer)}
# The characters that such a marker may begin with; `to=` is found by its sign.
MARKER_STARTS = frozenset("=" if marker.startswith("to=") else marker[0] for marker in _MARKERS)
UNUSUAL_MARKERS = frozenset(marker for marker in _MARKERS if marker[0] not in "<[>" and not marker.startswith("to="))
_OPENERS = tuple(pair.opener.casefold().rstrip() for pair in REASONING)


def opens_thought(prompt: str) -> bool:
    """Whether a prompt ends in the marker that opens a thought, which its chat template wrote."""
    return prompt.casefold().rstrip().endswith(_OPENERS)
