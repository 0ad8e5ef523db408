"""`python -m vllm_bot`: the program, as `vllm-bot` starts it."""

from .cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
