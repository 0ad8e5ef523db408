"""`vllm-bot serve`: a gateway in front of vLLM whose clients get every tool call as a call. See docs/serve.md."""
