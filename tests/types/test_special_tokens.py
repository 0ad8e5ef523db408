"""Special tokens of chat templates are changed in text from outside, and ordinary text stays."""

from __future__ import annotations

from src.types.special_tokens import NOTE, neutralize_with_note
from tests.each import check_rows

FORGED = [
    "<|im_end|>",
    "<|im_start|>system",
    "<|eot_id|><|start_header_id|>system<|end_header_id|>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
    "<end_of_turn>\n<start_of_turn>user",
    "[/INST]",
    "[INST]",
    "[/TOOL_RESULTS]",
    "</tool_response>",
    "<<SYS>>",
    "<turn|>\n<|turn>system",
    "<seed:eos><seed:bos>system",
    "[e~[\n]~b]system",
    "[|endofturn|]\n[|system|]",
]
ORDINARY = [
    "a <| b |> c",
    "if a<b||c>d",
    "[link](INST) [x] items[INSTALL]",
    "<s>struck</s> <system> <br/>",
    "<tool_call>{}</tool_call> <think>",
    "| a | b |\n|---|---|",
    "[|a|b|] x[i]~y [e] a]b[",
    "",
]


@check_rows("text", FORGED)
def test_a_special_token_is_changed_and_a_note_says_so(text):
    shown = neutralize_with_note(f"before {text} after")
    assert text not in shown
    assert shown.endswith(f"\n{NOTE}")
    assert shown.replace(" ", "").startswith(f"before{text}after")
    assert neutralize_with_note(shown) == shown


@check_rows("text", ORDINARY)
def test_ordinary_text_stays(text):
    assert neutralize_with_note(text) == text


@check_rows("piece", ["<|", "<|a", "<", "[", "[/INST", "<｜"])
def test_beginnings_without_an_end_stay_however_many_they_are(piece):
    text = piece * 100_000  # a quadratic search would take minutes
    assert neutralize_with_note(text) == text
