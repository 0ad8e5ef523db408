"""How a chat begins: its server and its model."""

import pytest

from src.cli.chat.open import _choose_model
from src.errors import BotError, ConfigError, RequestFailed


def test_who_leaves_at_the_choice_of_a_model_is_not_asked_for_another_address(monkeypatch):
    def leave(_prompt):
        raise EOFError

    monkeypatch.setattr("builtins.input", leave)
    with pytest.raises(BotError, match="No model was chosen") as left:
        _choose_model(["big", "small"])
    assert not isinstance(left.value, (ConfigError, RequestFailed))  # after which the address is asked for
