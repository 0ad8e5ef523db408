"""The same conversation in other packages: each script runs it at sys.argv[1], where a call is asked for so many times.

All speak chat completions, without streaming but one, without traces and without output, and do next to nothing in the call:
what is left is what a turn costs. They are data, for each runs in an environment of its own.
"""

from __future__ import annotations

# One run to warm up, then the least CPU seconds of two.
TIMED = """
import time
def timed():
    start = time.process_time()
    run()
    return time.process_time() - start
run()
print(min(timed(), timed()))
"""

PEERS = {
    "openai": """
import json, sys
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1], api_key="none")
function = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {
    "a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}
def run():
    messages = [{"role": "user", "content": "go"}]
    while True:
        answer = client.chat.completions.create(
            model="tiny", messages=messages, tools=[{"type": "function", "function": function}])
        message = answer.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            arguments = json.loads(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": str(sum(arguments.values()))})
""",
    # Its one tool is a command; the environment is one that starts no process, for that is no cost of the loop.
    # An answer without a call is an error to it, and ends the run.
    "mini-swe-agent": """
import os, sys
os.environ.update(MSWEA_SILENT_STARTUP="1", MSWEA_COST_TRACKING="ignore_errors", LITELLM_LOCAL_MODEL_COST_MAP="True",
                  MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT="1")
from minisweagent.agents.default import DefaultAgent
from minisweagent.models.litellm_model import LitellmModel
class Echo:
    def execute(self, action, cwd=""):
        return {"output": action["command"], "returncode": 0, "exception_info": ""}
    def get_template_vars(self):
        return {}
    def serialize(self):
        return {}
model = LitellmModel(model_name="openai/tiny", model_kwargs={"api_base": sys.argv[1], "api_key": "none"})
def run():
    DefaultAgent(model, Echo(), system_template="Be good.", instance_template="{{task}}", cost_limit=0.0,
                 max_consecutive_format_errors=1).run("go")
""",
    "pydantic-ai-slim": """
import sys
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
model = OpenAIChatModel("tiny", provider=OpenAIProvider(base_url=sys.argv[1], api_key="none"))
agent = Agent(model)
@agent.tool_plain
def add(a: int, b: int) -> int:
    return a + b
def run():
    agent.run_sync("go", usage_limits=UsageLimits(request_limit=None))
""",
    "openai-agents": """
import sys
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
set_tracing_disabled(True)
@function_tool
def add(a: int, b: int) -> int:
    return a + b
model = OpenAIChatCompletionsModel("tiny", AsyncOpenAI(base_url=sys.argv[1], api_key="none"))
agent = Agent(name="a", model=model, tools=[add])
def run():
    Runner.run_sync(agent, "go", max_turns=1000)
""",
    # It shows results as words of the user, so that the server cannot count them: its own limit ends the run.
    "smolagents": """
import sys
from smolagents import OpenAIServerModel, ToolCallingAgent, tool
@tool
def add(a: int, b: int) -> int:
    \"\"\"Add.

    Args:
        a: one
        b: other
    \"\"\"
    return a + b
model = OpenAIServerModel("tiny", api_base=sys.argv[1], api_key="none")
turns = int(sys.argv[1].split("/")[3])
def run():
    agent = ToolCallingAgent(tools=[add], model=model, max_steps=turns, verbosity_level=0)
    agent.run("go")
""",
    "llm": """
import sys
from llm.default_plugins.openai_models import Chat
model = Chat("tiny", key="none", model_name="tiny", api_base=sys.argv[1], supports_tools=True)
def add(a: int, b: int) -> str:
    "Add."
    return str(a + b)
def run():
    model.conversation(tools=[add], chain_limit=0).chain("go", stream=False).text()
""",
    # It streams where it uses the server's own calls.
    "qwen-agent": """
import logging, os, sys
logging.disable(logging.INFO)
os.environ["QWEN_AGENT_MAX_LLM_CALL_PER_RUN"] = "1000"
from qwen_agent.agents import FnCallAgent
from qwen_agent.tools.base import BaseTool, register_tool
@register_tool("add")
class Add(BaseTool):
    description = "Add."
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                  "required": ["a", "b"]}
    def call(self, params, **_):
        return str(sum(self._verify_json_format_args(params).values()))
server = {"model": "tiny", "model_server": sys.argv[1], "api_key": "none", "generate_cfg": {"use_raw_api": True}}
agent = FnCallAgent(function_list=["add"], llm=server)
def run():
    for _ in agent.run([{"role": "user", "content": "go"}]):
        pass
""",
}
