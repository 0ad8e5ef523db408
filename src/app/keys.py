"""The keys of the clients of a server of ours. A file holds their SHA-256 digests and names, not themselves."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from ..errors import ConfigError

PREFIX = "sha256:"
MAX_NAME_CHARS = 64
_DIGEST = re.compile(r"[0-9a-f]{64}")
NAME_DIGITS = 8  # of the digest, in place of a name


class KeyRing:
    """`names` by digests in hexadecimal."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = [(digest.encode(), name) for digest, name in names.items()]

    @property
    def names(self) -> list[str]:
        return [name for _, name in self._names]

    def find(self, key: str) -> str | None:
        """The name of the key if it is one of them, in a time that does not depend on which."""
        digest, holder = hash_key(key).encode(), None
        for stored, name in self._names:
            if hmac.compare_digest(digest, stored):
                holder = name
        return holder


def hash_key(key: str) -> str:
    """The SHA-256 digest in hexadecimal. Keys are long random words, so that they need no slow hash."""
    return sha256(key.encode(errors="replace")).hexdigest()


def read_keys(file: Path) -> KeyRing:
    """The keys in a file: one a line, `sha256:DIGEST`, with its name behind # if need be. Raises ConfigError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"The file of keys cannot be read: {file}: {reason}.", HOW) from error
    names: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        entry, _, name = (part.strip() for part in line.partition("#"))
        if not entry:
            continue
        digest = entry.removeprefix(PREFIX).lower()
        if not entry.startswith(PREFIX) or not _DIGEST.fullmatch(digest):
            raise ConfigError(f"{file}, line {number}: expected {PREFIX} and 64 hexadecimal digits.", HOW)
        names[digest] = name[:MAX_NAME_CHARS] or digest[:NAME_DIGITS]
    if not names:
        raise ConfigError(f"{file} holds no key.", HOW)
    return KeyRing(names)


HOW = "`vllm-bot serve --new-key FILE` makes a key, shows it once, and adds its digest."
