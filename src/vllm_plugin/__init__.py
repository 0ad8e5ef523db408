"""Inside vLLM: the tool parser `any`, which reads every format of ours for every client of that server.

vLLM calls `register` through the entry point `vllm.general_plugins`, in each of its processes. What reads calls is
imported by the server that is started with `--tool-call-parser any`, and by no other.
"""

import logging
import os
from multiprocessing import parent_process

PARSER = "any"
RUST_FRONT_END = (
    "VLLM_USE_RUST_FRONTEND is set: the Rust front end has tool parsers of its own and cannot use "
    f"--tool-call-parser {PARSER}. Start vLLM without it, or put `vllm-bot serve` in front of the server."
)


def register() -> None:
    """Tell vLLM where the parser is. It is called once in each process, and may be called again."""
    from vllm.tool_parsers import ToolParserManager

    ToolParserManager.register_lazy_module(PARSER, f"{__name__}.tool_parser", "AnyToolParser")
    if os.environ.get("VLLM_USE_RUST_FRONTEND", "0") not in ("", "0") and parent_process() is None:
        logging.getLogger("vllm.plugins.vllm_bot").warning(RUST_FRONT_END)
