"""The next prompt: the ids of the last prompt and answer, and those that the template writes behind them."""

import json

from src.negotiation.answer_ids import AnswerIds, reads_alike
from src.negotiation.facts import FactStore
from src.negotiation.server import ServerApi
from src.parsing.arguments.tool_index import ToolIndex
from src.providers.base import RawTokens
from src.providers.openai import OpenAICodec
from src.providers.vllm_tokens import read_rendered
from src.transport.driver import run
from src.types.messages import ToolDefinition
from tests.doubles import ScriptedClient
from tests.each import check_rows

PROPERTIES = {"path": {"type": "string"}, "all": {}}
TOOLS = ToolIndex([ToolDefinition("read", "Read.", {"type": "object", "properties": PROPERTIES})])
END = 2  # ends a turn
WORDS = {
    END: "<|im_end|>",
    10: "Look.",
    11: "Lo",
    12: "ok.",
    13: "Done.",
    14: " ",
    15: "<think>",
    16: "</think>",
    17: "\n",
    18: "\n\n",
}
PROMPT = [100, 101, 102]
OPENED = [103, 104]  # a message of the user, and what begins an answer


def detokenize(asked):
    return {"prompt": "".join(WORDS[each] for each in asked["tokens"])}


class Talk:
    """One conversation."""

    def __init__(self, **aside):
        self.client = ScriptedClient(**{"detokenize": detokenize} | aside)
        self.ids = AnswerIds(ServerApi(OpenAICodec(str), "http://scripted/v1", FactStore(), is_vllm=True))

    def send(self, *rendered, **fields):
        """The ids that are sent where the server renders these."""
        body = read_rendered(json.dumps({"token_ids": rendered, **fields}).encode())
        sent, self.asked = run(self.ids.extend(body, "m", TOOLS, ""), self.client)
        return json.loads(sent.request.body)["token_ids"]

    def ask(self, rendered, answer, end=END):
        """As send, and the answer comes."""
        sent = self.send(*rendered)
        self.ids.end(self.asked, RawTokens(answer, 0, end), "".join(WORDS[each] for each in answer))
        return sent

    @property
    def questions(self):
        return self.client.asked_aside


def test_where_the_template_writes_the_same_ids_the_prompt_is_sent_as_rendered():
    talk = Talk()
    talk.ask(PROMPT, [10])
    assert talk.send(*PROMPT, 10, END, *OPENED) == [*PROMPT, 10, END, *OPENED]
    assert talk.questions == []


def test_an_answer_keeps_its_own_ids_and_the_template_ends_it():
    talk = Talk()
    talk.ask(PROMPT, [11, 12, 14])
    assert talk.send(*PROMPT, 10, END, *OPENED) == [*PROMPT, 11, 12, 14, END, *OPENED]


def test_later_prompts_keep_them_and_ask_nothing_more():
    talk = Talk()
    talk.ask(PROMPT, [11, 12])
    second = [*PROMPT, 10, END, *OPENED]
    assert talk.ask(second, [13]) == [*PROMPT, 11, 12, END, *OPENED]
    third = [*second, 13, END, *OPENED]
    assert talk.ask(third, [11, 12]) == [*PROMPT, 11, 12, END, *OPENED, 13, END, *OPENED]
    fourth = [*third, 10, END, 105]
    assert talk.send(*fourth) == [*PROMPT, 11, 12, END, *OPENED, 13, END, *OPENED, 11, 12, END, 105]
    assert talk.questions == ["detokenize"] * 2


def test_an_answer_without_its_thought_is_the_templates_and_those_before_it_stay():
    talk = Talk()
    talk.ask(PROMPT, [11, 12])
    second = [*PROMPT, 10, END, *OPENED]
    talk.ask(second, [15, 10, 16, 13])
    assert talk.send(*second, 13, END, *OPENED) == [*PROMPT, 11, 12, END, *OPENED, 13, END, *OPENED]


def test_where_the_template_writes_earlier_messages_otherwise_the_prompt_is_sent_as_rendered():
    talk = Talk()
    talk.ask(PROMPT, [11, 12])
    talk.ask([*PROMPT, 10, END, *OPENED], [13])
    changed = [100, 102, 10, END, *OPENED, 13, END, *OPENED]
    assert talk.send(*changed) == changed


def test_an_edited_answer_is_the_templates():
    talk = Talk()
    talk.ask(PROMPT, [11, 12])
    assert talk.send(*PROMPT, 13, END, *OPENED) == [*PROMPT, 13, END, *OPENED]


def test_behind_an_answer_that_was_cut_off_the_template_ends_it():
    talk = Talk()
    talk.ask(PROMPT, [13])
    second = [*PROMPT, 13, END, *OPENED]
    talk.ask(second, [11, 12], end=None)
    assert talk.send(*second, 10, END, *OPENED) == [*second, 11, 12, END, *OPENED]


def test_without_a_token_that_ends_answers_the_prompt_is_sent_as_rendered():
    talk = Talk()
    talk.ask(PROMPT, [11, 12], end=None)
    assert talk.send(*PROMPT, 10, END, *OPENED) == [*PROMPT, 10, END, *OPENED]
    talk.ask(PROMPT, [11, 12], end=99)
    assert talk.send(*PROMPT, 10, END, *OPENED) == [*PROMPT, 10, END, *OPENED]
    assert talk.questions == []


def test_a_token_whose_number_only_begins_alike_ends_no_answer():
    talk = Talk()
    talk.ask(PROMPT, [11, 12])
    assert talk.send(*PROMPT, 10, 20, 12, 102) == [*PROMPT, 10, 20, 12, 102]


def test_the_last_token_of_a_prompt_may_become_one_with_what_follows():
    talk = Talk()
    talk.ask([*PROMPT, 17], [11, 12])
    assert talk.send(*PROMPT, 18, 10, END, *OPENED) == [*PROMPT, 17, 11, 12, END, *OPENED]


def test_where_the_text_at_the_end_of_a_prompt_becomes_another_the_template_decides():
    talk = Talk()
    talk.ask([*PROMPT, 18], [11, 12])
    assert talk.send(*PROMPT, 17, 10, END, *OPENED) == [*PROMPT, 17, 10, END, *OPENED]


def test_on_a_server_that_tells_no_text_the_prompt_is_sent_as_rendered():
    talk = Talk(detokenize=OSError)
    talk.client.statuses = {"detokenize": (404, {})}
    talk.ask(PROMPT, [11, 12])
    assert talk.send(*PROMPT, 10, END, *OPENED) == [*PROMPT, 10, END, *OPENED]


def test_a_prompt_with_images_is_sent_as_rendered():
    talk = Talk()
    talk.ask(PROMPT, [11, 12])
    longer = [*PROMPT, 10, END, *OPENED]
    assert talk.send(*longer, features={"mm_placeholders": {"image": [{"offset": 6, "length": 1}]}}) == longer


def test_a_prompt_that_is_asked_for_again_is_the_same():
    talk = Talk()
    talk.ask(PROMPT, [11, 12])
    second = [*PROMPT, 10, END, *OPENED]
    sent = talk.send(*second)
    assert talk.ask(second, [13]) == talk.send(*second) == sent


def test_a_request_without_an_answer_leaves_the_last_one_in_place():
    talk = Talk()
    talk.ask(PROMPT, [11, 12])
    talk.send(7, 8, 9)
    talk.ids.end(None, RawTokens([13], 0, END), "Done.")  # of a request that was not rendered
    assert talk.send(*PROMPT, 10, END, *OPENED) == [*PROMPT, 11, 12, END, *OPENED]


CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "ä b.txt", "all": true}}\n</tool_call>'
TAGS = "<tool_call>\n<function=read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>"
KIMI = '<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{"path": "a"}<|tool_call_end|><|tool_calls_section_end|>'
MADE_UP = "<tool_response>\nhello\n</tool_response>"


@check_rows(
    "one, other",
    [
        ("Hello.", "\n Hello.\n\n"),
        (f"<think>\nHm.\n</think>\n\n{CALL}", f"<think> Hm.</think>{CALL}\n"),
        (f"Let me look.\n{CALL}", f"Let me look.\n\n{CALL}"),
        (CALL, CALL.replace(": ", ":").replace(", ", ",")),
        (CALL, CALL.replace("ä", "\\u00e4")),
        (CALL, '<tool_call>{"arguments": {"all": true, "path": "ä b.txt"}, "name": "read"}</tool_call>'),
        (TAGS, TAGS.replace("\n<function", "<function")),
    ],
)
def test_one_answer_may_be_written_in_two_ways(one, other):
    assert reads_alike(one, other, TOOLS, "")


@check_rows(
    "one, other",
    [
        (f"<think>\nHm.\n</think>\n\n{CALL}", CALL),
        (f"<think>Hm.</think>Yes.{CALL}", f"<think>Hm.Yes.</think>{CALL}"),
        (CALL.replace("ä", "<|im_end|>"), CALL.replace("ä", "\\u003c|im_end|>")),
        (CALL, CALL.replace("b.txt", "c.txt")),
        (CALL, CALL.replace("true", "1")),
        (CALL, f"{CALL}\n{CALL}"),
        (CALL, f"{CALL} That is all."),
        (f"{CALL}\n{MADE_UP}", CALL),
        (CALL, CALL.replace('{"name', '{"thought": "Hm.", "name')),
        (KIMI, KIMI.replace("read:0", "read:1")),
        ("Hello.", "Hello. And more."),
        ("a  b", "a b"),
    ],
)
def test_two_answers_are_told_from_each_other(one, other):
    assert not reads_alike(one, other, TOOLS, "")


def test_a_thought_that_the_template_opens_is_read_as_one():
    assert reads_alike(f"Hm.</think>{CALL}", f"Hm.\n</think>\n\n{CALL}", TOOLS, "</think>")
    assert not reads_alike(f"Hm.</think>{CALL}", f"</think>{CALL}", TOOLS, "</think>")
