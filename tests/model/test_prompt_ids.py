"""The law of prompts made of tokens: what is appended to the last prompt and answer is what the template writes there.

With the chat templates of real models, and a tokenizer that knows several ids for a text, as those of models do.
"""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from src.model.request_builder import ModelOptions, RequestBuilder
from src.negotiation import CallPath
from src.types.messages import (
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tests.providers.doubles import codec
from tests.thorough import sample

from .test_continuity_laws import as_vllm_reads, list_sent, render
from .test_tokens import Rendering

# A template, and the token with which its model ends an answer with a call.
ENDS = {
    **dict.fromkeys(["GLM-4.6", "GLM-4.7-Flash", "GLM-5.2"], "<|observation|>"),
    **dict.fromkeys(["Granite-4.0", "Granite-4.1"], "<|end_of_text|>"),
    **dict.fromkeys(["Kimi-K2-Thinking", "Kimi-K2.5"], "<|im_end|>"),
    "Kimi-K3": "<|end_of_msg|>",
    "Llama-3.3": "<|eot_id|>",
    **dict.fromkeys(["MiniMax-M2", "MiniMax-M3"], "[e~["),
    "Ministral-3-Reasoning": "</s>",
    **dict.fromkeys(["Nemotron-3-Nano", "Nemotron-3.5"], "<|im_end|>"),
    **dict.fromkeys(["Qwen3", "Qwen3-Coder", "Qwen3.5", "Qwen3.6", "Qwen3.8"], "<|im_end|>"),
    "Seed-OSS": "<seed:eos>",
}
SPECIAL = r"<\|[^|<>\s]*\|>|</?[a-z_:]+>|\[/?[A-Z_]+\]|\]~b\]|\[e~\["
PIECE = re.compile(rf"{SPECIAL}|\w+|\s+|.", re.S)
PATH = CallPath("template", template_shows_tools=True)


class Tokenizer:
    """A special token is one id, and so are a word and blanks; each of their characters has one, too."""

    def __init__(self):
        self._ids = {}
        self._texts = []

    def find(self, text):
        if text not in self._ids:
            self._ids[text] = len(self._texts)
            self._texts.append(text)
        return self._ids[text]

    def encode(self, text, splits=False):
        """`splits`: words and blanks into characters."""
        pieces = PIECE.findall(text)
        return [
            self.find(each) for piece in pieces for each in (piece if splits and not is_special(piece) else [piece])
        ]

    def decode(self, ids):
        return "".join(self._texts[each] for each in ids)


def is_special(piece):
    return re.fullmatch(SPECIAL, piece) is not None


class Server:
    """A server with this template; `sent` and `rendered` are the ids of the last prompt, of the messages `asked`."""

    def __init__(self, name):
        self.name = name
        self.end = ENDS[name]
        self.tokenizer = Tokenizer()
        self.tokenizer.find(self.end)
        self.rendered = []
        self.model = Rendering(render=self.render, tokenize=self.count, detokenize=self.detokenize)
        self.model.model.core.name = name

    def render(self, asked):
        self.asked = as_vllm_reads(asked["messages"])
        self.rendered = self.tokenizer.encode(self.write(self.asked))
        return {"token_ids": self.rendered, "sampling_params": {}}

    def write(self, messages, *, opens=True):
        return render(self.name, messages, opens=opens, eos=self.end)

    def count(self, asked):
        return {"tokens": [0] * (2 if "tools" in asked else 1), "max_model_len": 10**6}

    def detokenize(self, asked):
        return {"prompt": self.tokenizer.decode(asked["tokens"])}

    def ask(self, messages, ids, end):
        """The answer, which is these ids."""
        choice = {"index": 0, "text": self.tokenizer.decode(ids), "finish_reason": "stop"}
        usage = {"prompt_tokens": len(self.rendered), "completion_tokens": len(ids)}
        events = [
            {"choices": [choice | {"token_ids": [*ids, self.tokenizer.find(end)]}]},
            {"choices": [], "usage": usage},
        ]
        body = b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in events) + b"data: [DONE]\n\n"
        self.model.client.answers.append(body)
        return self.model.ask(*messages)

    @property
    def sent(self):
        return self.model.sent["token_ids"]

    def write_answer(self, messages, answer):
        """The answer as the template writes it."""
        plain = [replace(each, writer="") if isinstance(each, Response) else each for each in messages]
        sent = as_vllm_reads(list_sent(BUILDER, [*plain, answer], PATH))
        prompt, whole = self.write(sent[:-1]), self.write(sent, opens=False)
        assert whole.startswith(prompt)
        return whole[len(prompt) :].partition(self.end)[0]

    def write_behind(self, place):
        """What the template writes behind an answer, by its place in the conversation, the token that ends it first."""
        prompt, whole = self.write(self.asked[:place]), self.write(self.asked[: place + 1], opens=False)
        closed = prompt + whole.removeprefix(prompt).partition(self.end)[0]
        text = self.write(self.asked)
        assert text.startswith(closed)
        return text.removeprefix(closed)


BUILDER = RequestBuilder(codec("vllm"), ModelOptions())
STYLES = st.fixed_dictionaries(
    {
        "splits": st.booleans(),
        "blanks": st.sampled_from(["", "\n", " "]),
        "is_compact": st.booleans(),
        "has_text": st.booleans(),
        "path": st.sampled_from(["a.txt", "ä <b> c.txt", 'e "f".txt', "x\ny"]),
    }
)


def write_loosely(text, style):
    """As a model may write it that was trained on another template."""
    compact = text.replace('": ', '":').replace(', "', ',"') if style["is_compact"] else text
    return compact + style["blanks"]


def make_call(number, style, name):
    id = f"functions.read:{number}" if name.startswith("Kimi-K2") else f"1{number:08d}"
    text = [Text("Let me look.")] if style["has_text"] else []
    return Response((Reasoning(f"Thought {number}."), *text, ToolCall(id, "read", {"path": style["path"]})))


@pytest.mark.thorough
@pytest.mark.parametrize("name", sample([*ENDS], 4))
@given(styles=st.lists(STYLES, min_size=2, max_size=4))
def test_between_results_a_prompt_is_the_last_one_its_answer_and_what_the_template_writes_behind(name, styles):
    server = Server(name)
    messages = [SystemMessage("Be brief."), UserMessage("Read a.txt.")]
    before = []
    for number, style in enumerate(styles):
        written = server.write_answer(messages, make_call(number, style, name))
        ids = server.tokenizer.encode(write_loosely(written, style), style["splits"])
        response = server.ask(messages, ids, server.end)
        if before:
            assert server.sent[: len(before)] == before
            assert server.tokenizer.decode(server.sent[len(before) :]) == server.write_behind(len(messages) - 2)
        before = [*server.sent, *ids]
        (call,) = response.calls
        messages = [*messages, response, ToolResults((ToolResult(call.id, "read", "text", f"Line {number}."),))]


@pytest.mark.thorough
@pytest.mark.parametrize("name", sample([*ENDS], 4, 2))
@given(style=STYLES)
def test_at_a_question_a_prompt_goes_on_or_is_the_templates_and_the_break_has_a_name(name, style):
    server = Server(name)
    messages = [SystemMessage("Be brief."), UserMessage("Read a.txt.")]
    call = server.tokenizer.encode(write_loosely(server.write_answer(messages, make_call(0, style, name)), style))
    response = server.ask(messages, call, server.end)
    results = ToolResults((ToolResult(response.calls[0].id, "read", "text", "Line."),))
    messages = [*messages, response, results]
    talk_end = "<|user|>" if server.end == "<|observation|>" else server.end
    talk = server.tokenizer.encode(f"Thought 1.</think>Yes.{style['blanks']}", style["splits"])
    response = server.ask(messages, talk, talk_end)
    sent, rendered = server.sent, server.rendered
    server.ask([*messages, response, UserMessage("And?")], server.tokenizer.encode("Done."), talk_end)
    kept = server.model.model.core.kept
    if server.rendered[: len(rendered)] != rendered:
        assert server.sent == server.rendered
        assert kept.cause == "template"
    elif server.sent[: len(sent) + len(talk)] == [*sent, *talk]:
        assert (kept.tokens, kept.cause) == (len(sent) + len(talk), "")
    else:
        assert server.sent == [*sent, *server.rendered[len(rendered) :]]
        assert kept.cause == "answer"
