"""The arms of an eval: settings under which the same cases are asked, each with one change to the best so far."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..app.check_settings import check_settings
from ..config import GivenValue, Settings, check_value
from ..types.messages import JSON

NO_THOUGHTS: dict[str, JSON] = {"enable_thinking": False, "thinking": False}  # what chat templates call it
TEMPERATURES = (0.0, 0.6)
PATHS = ("tokens", "native", "template", "text")


class Arm(Struct, frozen=True):
    """`name`: for people, and in the results; `changes`: values by the key of the setting."""

    name: str
    changes: Mapping[str, JSON]

    @property
    def path(self) -> str:
        paths = self.changes["vllm.paths"]
        return str(paths[0]) if isinstance(paths, list) else ""

    def vary(self, what: str, **changes: JSON) -> Arm:
        """With other settings of the server's section, besides its own."""
        more = {key.replace("__", "."): value for key, value in changes.items()}
        return Arm(f"{self.name}, {what}", {**self.changes, **more})

    def apply(self, settings: Settings, seed: int, max_tokens: int) -> Settings:
        """The settings with the arm's own, for one run. Raises ConfigError."""
        vllm: dict[str, object] = {"seed": seed, "enable_function_calling": True}
        vllm["max_tokens"] = min(settings.vllm.max_tokens or max_tokens, max_tokens)
        others: dict[str, object] = {}
        for key, value in self.changes.items():
            section, _, name = key.partition(".")
            checked = check_value(GivenValue(key, value, f"arm {self.name}")).value
            if section == "vllm":
                vllm[name] = checked
            else:
                others[name] = checked
        text = replace(settings.text_protocol, **others)
        changed = replace(settings, vllm=replace(settings.vllm, **vllm), text_protocol=text)
        check_settings(changed)
        return changed


def list_paths(settings: Settings) -> list[Arm]:
    """One arm a call path, in the order in which the chat would try them."""
    configured = ["text"]
    if settings.vllm.enable_function_calling:
        configured = [*settings.vllm.paths]
    if settings.vllm.provider != "vllm":
        return [Arm(path, {"vllm.paths": [path]}) for path in ("native", "text")]
    order = [*configured, *(path for path in PATHS if path not in configured)]
    return [Arm(path, {"vllm.paths": [path]}) for path in order]


def list_variations(arm: Arm, settings: Settings, *, thinks: bool) -> list[Arm]:
    """The arms that differ from this one in one setting. `thinks`: the model was seen to think."""
    vllm = settings.vllm
    arms = [arm.vary("stream off" if vllm.stream else "stream on", vllm__stream=not vllm.stream)]
    if thinks:
        arms.append(arm.vary("thinking off", vllm__chat_template_kwargs={**vllm.chat_template_kwargs, **NO_THOUGHTS}))
        arms += [
            arm.vary(f"thoughts back: {name}", vllm__send_thoughts=value)
            for name, value in (("none", "never"), ("all", "always"))
            if vllm.send_thoughts != value
        ]
    arms += [arm.vary(f"temperature {t:g}", vllm__temperature=t) for t in TEMPERATURES if t != vllm.temperature]
    return [*arms, *drop_grammar(arm, settings)]


def drop_grammar(arm: Arm, settings: Settings) -> list[Arm]:
    """The arm without the grammar that holds its calls to a format; none if it has none.

    What the model then writes freely shows which format it was trained on.
    """
    if arm.path == "native" and settings.vllm.strict_tools:
        return [arm.vary("strict off", vllm__strict_tools=False)]
    if arm.path != "native" and settings.text_protocol.constrained != "off":
        return [arm.vary("grammar off", text_protocol__constrained="off")]
    return []


def describe_changes(changes: Mapping[str, JSON]) -> list[str]:
    return [f"{key} = {json.dumps(value)}" for key, value in changes.items()]


def find_new(arm: Arm, settings: Settings, offered: Sequence[str]) -> dict[str, JSON]:
    """The settings of the arm that are not in force anyway. `offered`: the paths that the server takes, in order."""
    changes = dict(arm.changes)
    if offered and offered[0] == arm.path:  # it is what the chat would use
        del changes["vllm.paths"]
        return changes
    changes["vllm.paths"] = [arm.path, *PATHS[PATHS.index(arm.path) + 1 :]]  # with what is below it to fall back on
    if not settings.vllm.enable_function_calling:
        changes["vllm.enable_function_calling"] = True
    return changes
