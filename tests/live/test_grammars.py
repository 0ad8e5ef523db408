"""A model of random weights on a server without flags: a grammar makes its calls valid, in each family of formats."""

from __future__ import annotations

import pytest

from .grammars import ROWS, connect, count_calls

# One of each way to write a call; `python -m tests.live.grammars` tries all.
NAMES = ("hermes", "mistral", "mistral_v11", "llama_python_tag", "qwen3_coder", "glm45", "deepseek_v31", "deepseek_v4",
         "kimi_k2", "kimi_k3", "k2_horizon_typed", "minimax_m2", "minimax_m3", "granite", "jamba", "gemma4", "lfm2",
         "olmo3", "cohere", "apertus", "seed_oss", "step3", "pythonic", "llama_json", "harmony")  # fmt: skip
CALLS = 2


@pytest.mark.parametrize("server", ["no parser"], indirect=True)
@pytest.mark.parametrize("row", [row for row in ROWS if row.name in NAMES], ids=lambda row: row.name)
def test_each_forced_call_is_valid(server, row):
    with connect(server.base_url, server.api_key) as model:
        assert count_calls(model, row, CALLS, forced=True) == (CALLS, 0, 0)


@pytest.mark.parametrize("server", ["no parser"], indirect=True)
@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "mistral", "kimi_k2"])
def test_a_call_that_the_model_begins_in_free_text_is_valid(server, name):
    (row,) = (row for row in ROWS if row.name == name)
    with connect(server.base_url, server.api_key) as model:
        assert count_calls(model, row, CALLS, forced=False) == (CALLS, 0, 0)
