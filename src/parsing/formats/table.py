"""The text formats of tool calls, one row each: what models write where no server parses it.

A row has the markers that open and close a block, the grammar of its body, the models, the vLLM parsers, and how the
model's chat template writes a call, which makes its example and its tests. All that the parser and the grammars of
requests know of a format is made of its row. `grammar` is one of: json (objects and lists that hold a call), pythonic
(`read(path="a")`), named (a name, then its arguments as an object), tags (invoke and parameter elements), pairs (a
name, then key and value tags), attributes (a name, then `path="a"`), labels (`Action:` lines), text (a name in tags,
then an object, elements or plain text).
A row without `opener` is no request for a call: a block counts only if the tool is offered and the arguments fit.
Sources: the tool_parsers of vLLM 0.32, chat templates, and recorded answers of models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...types.lazy_pattern import LazyPattern
from ...types.messages import JSON
from .tag_syntax import ELEMENT, NOISE, TagSyntax


class Format(Struct, frozen=True):
    """One row. `opener` holds literal markers in order; `origin` names the row whose syntax this one shares.

    `template` is how the model's chat template writes a call: `{name}` and, for its arguments, `{args}` (an object),
    `{args_string}` (that as a string), `{keywords}` (Python's), `{quoted}` (such a call as a string) or `{members}`
    (Gemma's). `{call}` stands for what `syntax` writes. Between `⟦` and `⟧` is what each further call of a block
    repeats. The grammar of a call is made of it, too (src/negotiation/formats/structural_tags.py).

    The other columns are what models vary, which a template cannot say; few rows need them.
    """

    name: str
    family: str
    opener: str
    grammar: str
    closer: str
    parser: str
    template: str
    origin: str = ""
    syntax: TagSyntax | None = None
    more_openers: tuple[str, ...] = ()  # instead of the opener, or around it; upper and lower case are the same
    more_closers: tuple[str, ...] = ()  # behind the closer, or instead of it
    unwrapped: tuple[str, ...] = ()  # how a call begins where its opener is missing
    between: tuple[str, ...] = ()  # words that may stand between a name and its arguments, besides the template's
    quote: Literal['<|"|>', "<escape>"] = '<|"|>'  # around the strings of `{members}`
    call_id: str = ""  # how the model names its calls, counted over a conversation; empty: any id will do
    turn_end: str = ""  # ends the template and the model's turn: a grammar leaves it to the server
    is_literal: bool = True  # otherwise a method of the detector finds the opener, with what models vary in it
    shared_with: Literal["", "answers", "text"] = ""  # the opener begins plain answers, too, or stands in any text

    @property
    def call_origin(self) -> str:
        return self.origin or self.name

    @property
    def example(self) -> str:
        return self.write("get_weather", {"city": "Oslo"})

    def write(self, name: str, arguments: Mapping[str, JSON]) -> str:
        """The call as the model's chat template writes it."""
        keywords = ", ".join(f"{key}={_write_python(value)}" for key, value in arguments.items())
        quoted = {key: f"{self.quote}{value}{self.quote}" for key, value in arguments.items() if isinstance(value, str)}
        members = ",".join(f"{key}:{quoted.get(key) or _dump(value)}" for key, value in arguments.items())
        written = {
            "name": name,
            "escaped_name": name.replace("_", "\\_"),
            "args": _dump(arguments),
            "attributes": " ".join(f"{key}={_dump(value)}" for key, value in arguments.items()),
            "args_string": _dump(_dump(arguments)),
            "keywords": keywords,
            "quoted": repr(f"{name}({keywords})"),
            "members": f"{{{members}}}",
            "call": self.syntax.write(name, arguments) if self.syntax else "",
        }
        return FIELDS.sub(lambda field: written[field[1]], self.template.replace("⟦", "").replace("⟧", ""))

    @property
    def is_lone(self) -> bool:
        """Whether the marker is the beginning of the call itself: `<function=`."""
        return bool(self.opener and self.syntax and self.syntax.call.startswith(self.opener))

    @property
    def openers(self) -> tuple[str, ...]:
        """The markers that a block may begin with; the first is the one that the template begins with."""
        if self.opener not in self.template:
            return (self.opener, *self.more_openers)
        before = self.template[: self.template.index(self.opener)].partition("⟦")[0].strip()
        openers = (before, self.opener, *self.more_openers) if "{" not in before else (self.opener, *self.more_openers)
        return tuple(opener for opener in openers if opener)

    @property
    def closers(self) -> tuple[str, ...]:
        """The markers that may stand behind the body."""
        _, closer, behind = self.template.rpartition(self.closer or "⟧")
        outer = behind.rpartition("⟧")[2].strip() if self.closer and closer else ""
        closers = (self.closer, outer, *self.more_closers)
        return tuple(closer for closer in closers if closer)

    @property
    def marker(self) -> str:
        """What a call begins with that stands nowhere else in text; empty if there is no such thing."""
        if not self.opener or self.shared_with:
            return ""
        begin = self.template.replace("⟦", "")
        if self.syntax:
            begin = begin.replace("{call}", self.syntax.frame_call("{name}")[0])
        return next((opener for opener in self.openers if begin.startswith(opener)), "")


FIELDS = LazyPattern(r"\{(name|escaped_name|args|attributes|args_string|keywords|quoted|members|call)\}")


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write_python(value: JSON) -> str:
    return _dump(value) if isinstance(value, str) else repr(value)


_JSON = '{"name": "{name}", "arguments": {args}}'
_PARAMETERS = '{"name": "{name}", "parameters": {args}}'
_PYTHONIC = "[⟦{name}({keywords})⟧]"
_FUNCTION = TagSyntax("<function={name}>\n", "<parameter={key}>\n", "\n</parameter>\n", "</function>\n")
_INVOKE = TagSyntax('<invoke name="{name}">\n', '<parameter name="{key}">', "</parameter>\n", "</invoke>\n")
_DSML = TagSyntax(
    '<invoke name="{name}">\n',
    '<parameter name="{key}" string="{is_string}">',
    "</parameter>\n",
    "</invoke>\n",
    "｜DSML｜",
)
_PAIRS = TagSyntax("{name}\n", "<arg_key>{key}</arg_key>\n<arg_value>", "</arg_value>\n", "")
_TREE = TagSyntax(
    "<invoke>\n<tool_name>{name}</tool_name>\n<parameters>\n", "<{key}>", "</{key}>\n", "</parameters>\n</invoke>\n"
)

FORMATS = (
    Format("hermes", "Hermes 2 and 3, Qwen2.5, Qwen3", "<tool_call>", "json", "</tool_call>", "hermes, qwen3_json", "<tool_call>\n" + _JSON + "\n</tool_call>",
           more_openers=("<tool-call>", "<|toolcall|>", "<tools>", "<functioncall>", "<function-call>", "<tool_code>", "<action>", "<|action|>", "<api_call>", "<call>"), more_closers=("</think>\n</tool_call>", "</tool-call>", "</tools>", "</functioncall>", "</tool_code>", "</action>", "</api_call>", "</call>", "<|im_end|>", "<|endoftext|>")),
    Format("hermes_broken", "Hermes with broken tags", "<|im_start|>", "json", "</tool_call>", "", "<|im_start|>\n" + _JSON + "\n</tool_call>",
           more_openers=("<|im_start|>assistant", "<tool_call:"), shared_with="answers"),
    Format("llama_json", "Llama 3.1 to 3.3", "", "json", "", "llama3_json, llama4_json", _PARAMETERS),
    Format("llama_python_tag", "Llama 3 ipython", "<|python_tag|>", "json", "<|eom_id|>", "llama3_json", "<|python_tag|>" + _PARAMETERS,
           more_openers=("<|start_header_id|>assistant<|end_header_id|>",), more_closers=("<|eot_id|>",)),
    Format("function_tag", "Llama 3.1 custom tag", "<function=", "tags", "</function>", "", "<function={name}>{args}</function>", syntax=_FUNCTION),
    Format("pythonic", "Llama 3.2, ToolACE, BFCL", "", "pythonic", "", "pythonic", _PYTHONIC),
    Format("llama4_pythonic", "Llama 4", "<|python_start|>", "pythonic", "<|python_end|>", "llama4_pythonic", "<|python_start|>" + _PYTHONIC + "<|python_end|>"),
    Format("mistral", "Mistral before v11", "[TOOL_CALLS]", "json", "", "mistral", "[TOOL_CALLS] [⟦" + _JSON + "⟧]",
           more_openers=("<s>",), more_closers=("[/TOOL_CALLS]", "</s>")),
    Format("mistral_v11", "Mistral v11 and later", "[TOOL_CALLS]", "named", "", "mistral", "[TOOL_CALLS]{name}[ARGS]{args}"),
    Format("qwen3_coder", "Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5, MiMo", "<tool_call>", "tags", "</tool_call>", "qwen3_coder, qwen3_xml, step3p5, mimo", "<tool_call>\n{call}</tool_call>", syntax=_FUNCTION),
    Format("qwen3_coder_drifted", "Qwen3-Coder, drifted", "<function=", "tags", "</tool_call>", "qwen3_coder (partly)", "{call}</tool_call>", "function_tag", syntax=_FUNCTION),
    Format("seed_oss", "Seed-OSS", "<seed:tool_call>", "tags", "</seed:tool_call>", "seed_oss", "<seed:tool_call>\n{call}</seed:tool_call>", syntax=replace(_FUNCTION, key="<parameter={key}>", value_end="</parameter>\n")),
    Format("glm45", "GLM-4.5 to 4.7, Ling 3", "<tool_call>", "pairs", "</tool_call>", "glm45, glm47, ling3", "<tool_call>{call}</tool_call>", syntax=_PAIRS),
    Format("glm4", "GLM-4-9B", "", "named", "", "", "{name}\n{args}"),
    Format("poolside_user", "Laguna", "<user>", "pairs", "</user>", "", "<user>{call}</user>", syntax=_PAIRS),
    Format("poolside", "Poolside, Laguna", "<tool_call>", "pairs", "</tool_call>", "poolside_v1", "<tool_call>{call}</tool_call>", "glm45", syntax=_PAIRS),
    Format("deepseek_v3", "DeepSeek V3, R1-0528", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "named", "<｜tool▁call▁end｜>", "deepseek_v3", "<｜tool▁calls▁begin｜>⟦<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{args}\n```<｜tool▁call▁end｜>⟧<｜tool▁calls▁end｜>",
           more_openers=("<|tool▁calls▁begin|>", "<|tool▁call▁begin|>", "<|tool▁call▁begin|>function<|tool▁sep|>"), more_closers=("<|tool▁call▁end|>", "<|tool▁calls▁end|>", "<｜end▁of▁sentence｜>"), between=("```", "json")),
    Format("deepseek_v31", "DeepSeek V3.1", "<｜tool▁call▁begin｜>", "named", "<｜tool▁call▁end｜>", "deepseek_v31", "<｜tool▁calls▁begin｜>⟦<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{args}<｜tool▁call▁end｜>⟧<｜tool▁calls▁end｜>"),
    Format("deepseek_v32", "DeepSeek V3.2 DSML", "<｜DSML｜function_calls>", "tags", "</｜DSML｜function_calls>", "deepseek_v32", "<｜DSML｜function_calls>\n⟦{call}⟧</｜DSML｜function_calls>", syntax=_DSML,
           more_openers=("<|DSML|function_calls>", "< | DSML | function_calls>")),
    Format("deepseek_v4", "DeepSeek V4, V4.1", "<｜DSML｜tool_calls>", "tags", "</｜DSML｜tool_calls>", "deepseek_v4, deepseek_v41", "<｜DSML｜tool_calls>\n⟦{call}⟧</｜DSML｜tool_calls>", syntax=_DSML,
           more_openers=("<|DSML|tool_calls>", "<｜DSML｜tool>", "<｜DSML｜toolcalls>", "<｜DSML｜ calls>", "<｜DSML｜calls>"), more_closers=("</｜DSML｜tool>", "</｜DSML｜toolcalls>", "</｜DSML｜ calls>")),
    Format("kimi_k2", "Kimi K2, K2.5", "<|tool_call_begin|>", "named", "<|tool_call_end|>", "kimi_k2", "<|tool_calls_section_begin|>⟦<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{args}<|tool_call_end|>⟧<|tool_calls_section_end|>",
           more_openers=("<|tool_calls_begin|>",), more_closers=("<|tool_calls_end|>",),
           call_id="functions.{name}:{index}"),
    Format("kimi_k3", "Kimi K3 XTML", "<|open|>tools<|sep|>", "tags", "<|close|>tools<|sep|>", "kimi_k3", "<|open|>tools<|sep|>⟦{call}⟧<|close|>tools<|sep|>", syntax=TagSyntax('<|open|>call tool="{name}" index="{index}"<|sep|>', '<|open|>argument key="{key}" type="{value_type}"<|sep|>', "<|close|>argument<|sep|>", "<|close|>call<|sep|>"),
           unwrapped=("<|open|>call tool=", "<call tool=")),
    Format("minimax_m2", "MiniMax M2", "<minimax:tool_call>", "tags", "</minimax:tool_call>", "minimax_m2", "<minimax:tool_call>\n⟦{call}⟧</minimax:tool_call>", syntax=_INVOKE),
    Format("minimax_m1", "MiniMax M1", "<tool_calls>", "json", "</tool_calls>", "(removed in 0.32)", "<tool_calls>\n" + _JSON + "\n</tool_calls>"),
    Format("minimax_m3", "MiniMax M3", f"{NOISE}<tool_call>", "tags", f"{NOISE}</tool_call>", "minimax_m3", NOISE + "<tool_call>\n⟦{call}⟧" + NOISE + "</tool_call>", syntax=TagSyntax(f'{NOISE}<invoke name="{{name}}">', f"{NOISE}<{{key}}>", f"{NOISE}</{{key}}>", f"{NOISE}</invoke>\n")),
    Format("granite", "Granite 3.x", "<|tool_call|>", "json", "", "granite", "<|tool_call|> [⟦" + _JSON + "⟧]",
           more_closers=("<|/tool_call|>", "</|tool_call|>", "<|end_of_text|>", "<|end_of_role|>")),
    Format("granite4", "Granite 4", "<tool_call>", "json", "</tool_call>", "granite4", "<tool_call>\n" + _JSON + "\n</tool_call>", "hermes"),
    Format("granite_20b", "Granite-20B-FC", "<function_call>", "json", "", "granite-20b-fc", "<function_call> " + _JSON,
           more_closers=("</function_call>",)),
    Format("jamba", "Jamba", "<tool_calls>", "json", "</tool_calls>", "jamba", "<tool_calls>[⟦\n " + _JSON + "⟧\n]</tool_calls>", "minimax_m1"),
    Format("hunyuan", "Hunyuan A13B", "<tool_calls>", "json", "</tool_calls>", "hunyuan_a13b", "<tool_calls>[⟦" + _JSON + "⟧]</tool_calls>", "minimax_m1",
           more_openers=("<answer>",), more_closers=("</answer>",)),
    Format("hunyuan3", "Hunyuan 3 and 4", "<tool_calls><tool_call>", "pairs", "</tool_call></tool_calls>", "hy_v3, hy_v4", "<tool_calls><tool_call>{call}</tool_call></tool_calls>", syntax=replace(_PAIRS, call="{name}<tool_sep>")),
    Format("internlm", "InternLM2", "<|action_start|><|plugin|>", "json", "<|action_end|>", "internlm", "<|action_start|><|plugin|>" + _PARAMETERS + "<|action_end|>"),
    Format("phi4_mini", "Phi-4-mini", "functools", "json", "", "phi4_mini_json", "functools[⟦" + _JSON + "⟧]",
           more_openers=("<|assistant|>",), more_closers=("<|end|>",), is_literal=False, shared_with="text"),
    Format("xlam", "xLAM", "", "json", "", "xlam", '{"tool_calls": [⟦' + _JSON + "⟧]}", "llama_json"),
    Format("harmony", "gpt-oss Harmony", "<|channel|>", "named", "<|call|>", "openai", "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{args}<|call|>",
           more_openers=("<|start|>", "<|start|>assistant"), more_closers=("<|return|>",), between=("commentary", "analysis", "code", "json"), shared_with="answers", turn_end="<|call|>"),
    Format("functiongemma", "FunctionGemma", "<start_function_call>", "named", "<end_function_call>", "functiongemma", "<start_function_call>call:{name}{members}<end_function_call>",
           more_closers=("<end_of_turn>", "<eos>"), quote="<escape>"),
    Format("gemma4", "Gemma 4", "<|tool_call>", "named", "<tool_call|>", "gemma4", "<|tool_call>call:{name}{members}<tool_call|>",
           more_closers=("<turn|>",)),
    Format("tool_code", "Gemma 2 and 3", "", "pythonic", "", "pythonic", "```tool_code\n{name}({keywords})\n```", "pythonic"),
    Format("cohere", "Command R, R7B, A", "<|START_ACTION|>", "json", "<|END_ACTION|>", "cohere_command3, cohere_command4", '<|START_ACTION|>[⟦{"tool_call_id": "0", "tool_name": "{name}", "parameters": {args}}⟧]<|END_ACTION|>',
           more_closers=("<|END_OF_TURN_TOKEN|>",)),
    Format("step3", "Step 3", "<｜tool_call_begin｜>", "tags", "<｜tool_call_end｜>", "step3", "<｜tool_calls_begin｜>⟦<｜tool_call_begin｜>{call}<｜tool_call_end｜>⟧<｜tool_calls_end｜>", syntax=replace(_INVOKE, prefix="steptml:"),
           more_openers=("<｜tool_call_begin｜>function<｜tool_sep｜>",)),
    Format("ernie45", "ERNIE-4.5", "<tool_call>", "json", "</tool_call>", "ernie45", "<tool_call>\n" + _JSON + "\n</tool_call>", "hermes",
           more_openers=("<response>",), more_closers=("</response>",)),
    Format("olmo3", "OLMo 3", "<function_calls>", "pythonic", "</function_calls>", "olmo3", "<function_calls>⟦\n{name}({keywords})⟧\n</function_calls>"),
    Format("longcat", "LongCat", "<longcat_tool_call>", "json", "</longcat_tool_call>", "longcat", "<longcat_tool_call>" + _JSON + "</longcat_tool_call>"),
    Format("lfm2", "LFM2", "<|tool_call_start|>", "pythonic", "<|tool_call_end|>", "lfm2", "<|tool_call_start|>" + _PYTHONIC + "<|tool_call_end|>",
           more_openers=("<|tool_calls_start|>",)),
    Format("apertus", "Apertus", "<|tools_prefix|>", "json", "<|tools_suffix|>", "apertus", '<|tools_prefix|>[⟦{"{name}": {args}}⟧]<|tools_suffix|>'),
    Format("dots", "Dots", "<dots_function_call>", "tags", "</dots_function_call>", "dots", "<dots_function_call>⟦{call}⟧</dots_function_call>", syntax=_INVOKE),
    Format("gigachat3", "GigaChat 3", "<|function_call|>", "json", "", "gigachat3", "<|function_call|>" + _JSON),
    Format("gigachat35", "GigaChat 3.5", "<｜GCML｜tool_calls>", "tags", "</｜GCML｜tool_calls>", "(none in 0.32)", "<｜GCML｜tool_calls>⟦{call}⟧</｜GCML｜tool_calls>", syntax=replace(_DSML, prefix="｜GCML｜")),
    Format("minicpm5", "MiniCPM5", "<function name=", "tags", "</function>", "minicpm5", "{call}", syntax=TagSyntax('<function name="{name}">', '<param name="{key}">', "</param>", "</function>"),
           unwrapped=("<functionname=",)),
    Format("k2_horizon", "K2-Horizon", "<ifm|tool_call>", "pairs", "</ifm|tool_call>", "k2_horizon", "<ifm|tool_calls>⟦<ifm|tool_call>{call}</ifm|tool_call>⟧</ifm|tool_calls>", syntax=TagSyntax("{name}", "<arg_key>{key}</arg_key><arg_value>", "</arg_value>", "", "ifm|")),
    Format("plamo3", "PLaMo 3", "<|plamo:begin_tool_request:plamo|>", "named", "<|plamo:end_tool_request:plamo|>", "plamo3", "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{name}<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>{args}<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
           more_openers=("<|plamo:begin_tool_name:plamo|>",), more_closers=("<|plamo:end_tool_arguments:plamo|>",)),
    Format("inkling", "Inkling", "<|content_invoke_tool_json|>", "json", "<|end_message|>", "inkling", '<|content_invoke_tool_json|>{"name":"{name}","args":{args}}<|end_message|>',
           turn_end="<|end_message|>"),
    Format("muse", "Muse", "<|start|>assistant to=", "named", "<|eom|>", "muse_glimmer", "<|start|>assistant to={name}<|message|>{args}<|eom|>",
           shared_with="answers", turn_end="<|eom|>"),
    Format("functionary", "Functionary v3", ">>>", "named", "", "", ">>>{name}\n{args}",
           is_literal=False, shared_with="text"),
    Format("functionary_v2", "Functionary v2", "<|recipient|>", "named", "<|stop|>", "", "<|from|>assistant\n<|recipient|>{name}\n<|content|>{args}<|stop|>",
           shared_with="answers", turn_end="<|stop|>"),
    Format("nexus_raven", "Nexus Raven", "", "pythonic", "", "", "{name}({keywords});", "pythonic"),
    Format("nemotron", "Nemotron Nano v2, BFCL", "<TOOLCALL>", "json", "</TOOLCALL>", "(none in 0.32)", "<TOOLCALL>[⟦" + _JSON + "⟧]</TOOLCALL>"),
    Format("openai_legacy", "Firefunction, OpenAI's older shapes", "", "json", "", "", '{"function_call": {"name": "{name}", "arguments": {args_string}}}', "llama_json"),
    Format("react", "ReAct", "Action:", "labels", "", "", "Action: {name}\nAction Input: {args}\nObservation:",
           is_literal=False, shared_with="text", turn_end="\nObservation:"),
    Format("anthropic", "Anthropic XML", "<function_calls>", "tags", "</function_calls>", "", "<function_calls>\n⟦{call}⟧</function_calls>", syntax=_INVOKE),
    Format("tool_element", "Cline, Roo", "", "tags", "", "", "{call}", syntax=ELEMENT),
    Format("openhands", "OpenHands", "<function=", "tags", "</function>", "(like qwen3_coder)", "{call}", "function_tag", syntax=_FUNCTION),
    Format("gptme", "gptme", "@", "named", "", "", "@{name}(call-1): {args}",
           is_literal=False, shared_with="text"),
    Format("fenced", "Code fences around anything", "", "pythonic", "", "", "```python\n[{quoted}]\n```", "pythonic"),
    Format("escaped_name", "Mixtral's Markdown", "", "pythonic", "", "", "{escaped_name}({keywords})", "pythonic"),
    Format("text", "This project", "TOOL_CALL:", "json", "", "(none swallows it)", 'TOOL_CALL: {"name": "{name}", "args": {args}}',
           is_literal=False),
    # Second shapes of some models, and shapes of other tools that models imitate.
    Format("llama_builtin", "Llama 3 ipython, built-in tools", "<|python_tag|>", "pythonic", "", "", "<|python_tag|>{name}.call({keywords})"),
    Format("muse_atem", "Muse, second shape", "<atem:function_calls>", "tags", "</atem:function_calls>", "muse_glimmer", "<atem:function_calls>⟦{call}⟧</atem:function_calls>", syntax=replace(_INVOKE, prefix="atem:")),
    Format("claude2", "Claude 2", "<function_calls>", "tags", "</function_calls>", "", "<function_calls>\n⟦{call}⟧</function_calls>", "anthropic", syntax=_TREE),
    Format("continue", "Continue", "TOOL_NAME:", "tags", "```", "", "```tool\n{call}```", syntax=TagSyntax("TOOL_NAME: {name}\n", "BEGIN_ARG: {key}\n", "\nEND_ARG\n", ""),
           is_literal=False, shared_with="text"),
    Format("qwen_bracket", "Qwen, in brackets", "[Calling tool:", "pythonic", "]", "", "[Calling tool: {name}({args})]",
           more_openers=("[tool_call:", "[Tool call:")),
    Format("gorilla", "Gorilla OpenFunctions", "<<function>>", "pythonic", "", "", "<<function>>{name}({keywords})"),
    Format("lm_studio", "LM Studio", "[TOOL_REQUEST]", "json", "[END_TOOL_REQUEST]", "", "[TOOL_REQUEST]" + _JSON + "[END_TOOL_REQUEST]",
           more_openers=("[TOOL_CALL]", "[FUNCTION_CALL]", "[FUNCTION_CALLS]"), more_closers=("[/TOOL_CALL]", "[/FUNCTION_CALL]")),
    Format("tool_use", "Anthropic's names in tags", "<tool_use>", "json", "</tool_use>", "", '<tool_use>\n{"name": "{name}", "input": {args}}\n</tool_use>'),
    # Formats of 2026.
    Format("solar_open2", "Solar Open 2", "<|tool_call:start|>", "pairs", "<|tool_call:end|>", "", "<|tool_call:start|>{call}<|tool_call:end|>", syntax=TagSyntax("{name}\n", "<|tool_arg:start|>{key}<|tool_arg:value|>", "<|tool_arg:end|>\n", "")),
    Format("longcat_xml", "LongCat, in tags", "<longcat_tool_call>", "pairs", "</longcat_tool_call>", "", "<longcat_tool_call>{call}</longcat_tool_call>", syntax=TagSyntax("{name}\n", "<longcat_arg_key>{key}</longcat_arg_key>\n<longcat_arg_value>", "</longcat_arg_value>\n", "")),
    Format("deepseek_v4_sampled", "DeepSeek V4, as sampled", "<｜DSML｜r:tool_calls>", "tags", "</｜DSML｜tool_calls>", "", "<｜DSML｜r:tool_calls>\n⟦{call}⟧</｜DSML｜tool_calls>", "deepseek_v4", syntax=replace(_DSML, prefix="｜DSML｜r:")),
    Format("hunyuan3_json", "Hunyuan 3, open weights", "<tool_call:opensource>", "pairs", "<end_of_tool_call:opensource>", "", "<tool_call:opensource>{name}<tool_sep:opensource>{args}<end_of_tool_call:opensource>", "hunyuan3", syntax=replace(_PAIRS, call="{name}<tool_sep>")),
    Format("hunyuan3_open", "Hunyuan 3 and 4, open weights", "<tool_calls:opensource>\n<tool_call:opensource>", "pairs", "</tool_call:opensource>\n</tool_calls:opensource>", "hy_v3, hy_v4", "<tool_calls:opensource>\n<tool_call:opensource>{call}</tool_call:opensource>\n</tool_calls:opensource>", "hunyuan3", syntax=TagSyntax("{name}<tool_sep:opensource>\n", "<arg_key:opensource>{key}</arg_key:opensource>\n<arg_value:opensource>", "</arg_value:opensource>\n", ""),
           more_openers=("<tool_calls:opensource>",), more_closers=("</tool_calls:opensource>",)),
    Format("hunyuan3_plain", "Hunyuan 3, without suffixes", "<tool_call>", "pairs", "<end_of_tool_call>", "", "<tool_call>{name}<tool_sep>{args}<end_of_tool_call>", "glm45", syntax=replace(_PAIRS, call="{name}<tool_sep>")),
    Format("k2_horizon_typed", "K2-Horizon, with types", "<ifm|tool_call>", "pairs", "</ifm|tool_call>", "k2_horizon", "<ifm|tool_calls>⟦<ifm|tool_call>{call}</ifm|tool_call>⟧</ifm|tool_calls>", "k2_horizon", syntax=TagSyntax("{name}\n", "<arg_key>{key}</arg_key>\n<arg_type>{type}</arg_type>\n<arg_value>", "</arg_value>\n", "", "ifm|")),
    Format("solar_open", "Solar Open", "<|tool_call:name|>", "named", "<|tool_call:end|>", "", "<|tool_calls|>⟦<|tool_call:begin|>0000000001<|tool_call:name|>{name}<|tool_call:args|>{args}<|tool_call:end|>⟧"),
    Format("iquest", "IQuest", "<iquest_tool_call>", "pairs", "</iquest_tool_call>", "", "<iquest_tool_call>{call}</iquest_tool_call>", syntax=_PAIRS),
    Format("iquest_coder", "IQuest Coder 2", "<iquestcoder_tool_call>", "pairs", "</iquestcoder_tool_call>", "", "<iquestcoder_tool_call>{call}</iquestcoder_tool_call>", "iquest", syntax=_PAIRS),
    Format("step_audio2", "Step-Audio 2", "<tool_call>function\n", "named", "</tool_call>", "", "<tool_call>function\n{name}\n{args}</tool_call>"),
    Format("doubao", "Doubao", "<|FunctionCallBegin|>", "json", "<|FunctionCallEnd|>", "", "<|FunctionCallBegin|>[⟦" + _PARAMETERS + "⟧]<|FunctionCallEnd|>"),
    Format("langroid", "Langroid", "<tool>", "tags", "</tool>", "", "<tool>\n{call}</tool>", syntax=TagSyntax("<request>{name}</request>\n", "<{key}>", "</{key}>\n", ""),
           shared_with="text"),
    Format("langchain", "LangChain, XML agents", "<tool_input>", "text", "</tool_input>", "", "<tool>{name}</tool><tool_input>{args}</tool_input>"),
    Format("cwm", "CWM", "<tool:", "text", "</tool>", "", "<tool: {name}>\n{args}\n</tool>"),
    Format("cwm_function", "CWM, second shape", "<tool: function>", "text", "</tool>", "", "<tool: function>\n{name} {args}\n</tool>", "cwm"),
    Format("cwm_line", "CWM, on one line", "<tool:", "text", "</tool>", "", "<tool: {name} {args} </tool>", "cwm"),
    Format("continue_bare", "Continue, without its label", "```tool", "pairs", "```", "", "```tool\n{call}```", "continue", syntax=TagSyntax("{name}\n", "BEGIN_ARG: {key}\n", "\nEND_ARG\n", ""),
           is_literal=False, shared_with="text"),
    Format("attributes", "Hermes, arguments as words", "<tool_call>", "attributes", "</tool_call>", "", "<tool_call>{name} {attributes}</tool_call>"),
    Format("bracket_attributes", "MiniMax, in brackets", "[Calling tool=", "attributes", "]", "", '[Calling tool="{name}" {attributes}]'),
    Format("named_elements", "Hermes, name and arguments in elements", "<function>", "tags", "</function>", "", "<function>{call}</function>", syntax=TagSyntax("<name>{name}</name>\n<arguments>\n", "<{key}>", "</{key}>\n", "</arguments>\n"),
           shared_with="text"),
    Format("invoke", "Anthropic XML without its wrapper", "<invoke", "tags", "</invoke>", "", "{call}", syntax=_INVOKE,
           unwrapped=("<invoke>", "<tool_call name=", "<function_call name=")),
)  # fmt: skip


@cache
def _list_tags() -> frozenset[str]:
    tags = {row.opener for row in FORMATS if row.opener and row.shared_with != "text"}
    return frozenset(tags | {row.marker for row in FORMATS if row.marker})


@cache
def _group_tags() -> Mapping[str, Sequence[str]]:
    """By their first character: where a text has it not, it has none of them."""
    tags = sorted(_list_tags())
    return {first: tuple(group) for first, group in groupby(tags, key=lambda tag: tag[0])}


def mentions_call(text: str) -> bool:
    """Whether a text quotes how calls are written, so that an answer to it may quote it, too."""
    return any(first in text and any(map(text.__contains__, tags)) for first, tags in _group_tags().items())


def find_last_tag(text: str) -> str:
    """The tag that begins calls in which the text ends; empty if it ends otherwise."""
    text = text.rstrip()
    return max((tag.strip() for tag in _list_tags() if text.endswith(tag.strip())), key=len, default="")


def list_parsers(origin: str) -> list[str]:
    """The vLLM tool parsers that read the calls of this origin; none for some formats."""
    parsers = ",".join(row.parser for row in FORMATS if row.call_origin == origin)
    return [name[1] for name in re.finditer(r"(?:^|,) ?([\w-]+)", parsers)]  # a remark in parentheses is no parser
