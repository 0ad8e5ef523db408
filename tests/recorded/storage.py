"""The files of recorded values. What is long and stands in several places is stored once, a run of numbers as its size."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from difflib import unified_diff
from pathlib import Path
from typing import Any

LEAST = 300  # characters of a part that is worth storing apart
MAX_DIFF_LINES = 60


def save(path: Path, values: dict[str, Any]) -> None:
    counts: Counter[str] = Counter()
    _count(values, counts)
    parts: dict[str, Any] = {}
    packed = _pack(values, counts, parts)
    path.write_text(
        json.dumps({"parts": parts, "values": packed}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )


def load(path: Path) -> dict[str, Any]:
    stored = json.loads(path.read_text(encoding="utf-8"))
    unpacked: dict[str, Any] = _unpack(stored["values"], stored["parts"])
    return unpacked


def find_difference(recorded: Any, found: Any) -> str:
    """What differs, as a diff of the values written as JSON; "" where they are equal, the order of keys included."""
    if json.dumps(recorded) == json.dumps(found):
        return ""
    before, after = (json.dumps(value, ensure_ascii=False, indent=1).splitlines() for value in (recorded, found))
    lines = list(unified_diff(before, after, "recorded", "found", lineterm="", n=2))
    return "\n".join(line[:500] for line in lines[:MAX_DIFF_LINES])


def _key(value: Any) -> str:
    """A name for a part; "" for what is too short to be one."""
    if not isinstance(value, (dict, list, str)):
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12] if len(text) >= LEAST else ""


def _children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _count(value: Any, counts: Counter[str]) -> None:
    if key := _key(value):
        counts[key] += 1
        if counts[key] == 1:
            for child in _children(value):
                _count(child, counts)


def _is_run(value: Any) -> bool:
    """Whether a list is 0, 1, 2 and so on, as the token ids of our double are."""
    return isinstance(value, list) and len(value) > 1 and value == list(range(len(value)))


def _pack(value: Any, counts: Counter[str], parts: dict[str, Any]) -> Any:
    if _is_run(value):
        return {"$run": len(value)}
    key = _key(value)
    if counts[key] > 1:
        if key not in parts:
            parts[key] = None  # its place, before those of its own parts
            parts[key] = _pack_children(value, counts, parts)
        return {"$part": key}
    return _pack_children(value, counts, parts) if key else value


def _pack_children(value: Any, counts: Counter[str], parts: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: _pack(child, counts, parts) for name, child in value.items()}
    return [_pack(child, counts, parts) for child in value] if isinstance(value, list) else value


def _unpack(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"$part"}:
            return _unpack(parts[value["$part"]], parts)
        if set(value) == {"$run"}:
            return list(range(value["$run"]))
        return {name: _unpack(child, parts) for name, child in value.items()}
    return [_unpack(child, parts) for child in value] if isinstance(value, list) else value
