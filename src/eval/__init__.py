"""`vllm-bot eval`: which call path, settings and server flags a model does best with. See docs/eval.md."""
