import pytest

from src.parsing import list_parsers
from src.parsing.formats.table import FORMATS
from src.providers.vllm_parsers import FAMILIES, find_family
from tests.each import check_each

# As vLLM's docs name them, features/tool_calling.md: model -> --tool-call-parser.
DOCUMENTED = {
    "NousResearch/Hermes-3-Llama-3.1-8B": "hermes",
    "mistralai/Mistral-7B-Instruct-v0.3": "mistral",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3_json",
    "meta-llama/Llama-3.2-3B-Instruct": "llama3_json",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "llama4_pythonic",
    "ibm-granite/granite-4.0-h-small": "granite4",
    "ibm-granite/granite-3.1-8b-instruct": "granite",
    "ibm-granite/granite-20b-functioncalling": "granite-20b-fc",
    "internlm/internlm2_5-7b-chat": "internlm",
    "ai21labs/AI21-Jamba-1.5-Mini": "jamba",
    "Salesforce/Llama-xLAM-2-8B-fc-r": "xlam",
    "Salesforce/Qwen-xLAM-32B-fc-r": "xlam",
    "Qwen/Qwen2.5-7B-Instruct": "hermes",
    "Qwen/QwQ-32B": "hermes",
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": "qwen3_xml",
    "deepseek-ai/DeepSeek-V3-0324": "deepseek_v3",
    "deepseek-ai/DeepSeek-R1-0528": "deepseek_v3",
    "deepseek-ai/DeepSeek-V3.1": "deepseek_v31",
    "openai/gpt-oss-20b": "openai",
    "moonshotai/Kimi-K2-Instruct": "kimi_k2",
    "tencent/Hunyuan-A13B-Instruct": "hunyuan_a13b",
    "CohereLabs/command-a-reasoning-08-2025": "cohere_command3",
    "meituan-longcat/LongCat-Flash-Chat": "longcat",
    "zai-org/GLM-4.5-Air": "glm45",
    "zai-org/GLM-4.6": "glm45",
    "zai-org/GLM-4.7-Flash": "glm47",
    "google/functiongemma-270m-it": "functiongemma",
    "allenai/Olmo-3-7B-Instruct": "olmo3",
    "ai-sage/GigaChat3-10B-A1.8B": "gigachat3",
    "swiss-ai/Apertus-8B-Instruct-2509": "apertus",
    "Team-ACE/ToolACE-8B": "pythonic",
}
PARSERS = {parser for row in FORMATS for parser in list_parsers(row.call_origin)}


@check_each(model=DOCUMENTED)
def test_a_documented_model_has_the_parser_of_the_docs(model):
    assert find_family(model).tool_parser == DOCUMENTED[model]


@check_each(family=FAMILIES)
def test_its_parser_is_one_that_the_table_of_formats_knows(family):
    assert family.tool_parser in PARSERS


def test_a_thinking_model_is_given_the_parser_for_its_thoughts():
    assert find_family("Qwen/Qwen3-8B").flags == (
        "--enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3"
    )


def test_a_template_of_vllms_examples_is_named_where_the_models_own_will_not_do():
    assert find_family("meta-llama/Llama-3.1-8B").flags.endswith(
        "--chat-template examples/tool_chat_template_llama3.1_json.jinja"
    )


@pytest.mark.parametrize("name", ["tiny", "my-finetune", ""])
def test_another_name_tells_nothing(name):
    assert find_family(name) is None


@pytest.mark.parametrize(
    ("origin", "parsers"),
    [("hermes", ["hermes", "qwen3_json", "granite4", "ernie45"]), ("function_tag", ["qwen3_coder"]), ("nemotron", [])],
)
def test_a_remark_beside_a_format_is_no_parser(origin, parsers):
    assert list_parsers(origin) == parsers


@check_each(name=sorted(PARSERS))
def test_a_parser_is_named_as_vllm_names_it(name):
    assert name.replace("-", "_").isidentifier()
