"""vLLM Bot: a terminal chat whose tool calls land, natively or through text, on any vLLM server."""

__version__ = "0.1.0"
