"""The keys of the clients of a server of ours. A file holds their SHA-256 digests, and nothing the keys themselves."""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path

from ..errors import ConfigError

PREFIX = "sha256:"


class KeyRing:
    """`digests` are in hexadecimal."""

    def __init__(self, digests: list[str]) -> None:
        self._digests = [digest.encode() for digest in digests]

    def has(self, key: str) -> bool:
        """Whether the key is one of them, in a time that does not depend on which."""
        digest = hash_key(key).encode()
        return sum(hmac.compare_digest(digest, known) for known in self._digests) > 0


def hash_key(key: str) -> str:
    """The SHA-256 digest in hexadecimal. Keys are long random words, so that they need no slow hash."""
    return sha256(key.encode(errors="replace")).hexdigest()


def read_keys(file: Path) -> KeyRing:
    """The keys in a file: one a line, `sha256:DIGEST`, with a comment behind # if need be. Raises ConfigError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"The file of keys cannot be read: {file}: {reason}.", HOW) from error
    digests = []
    for number, line in enumerate(lines, 1):
        entry = line.partition("#")[0].strip()
        digest = entry.removeprefix(PREFIX).lower()
        if entry and (not entry.startswith(PREFIX) or len(digest) != 64 or set(digest) - set("0123456789abcdef")):
            raise ConfigError(f"{file}, line {number}: expected {PREFIX} and 64 hexadecimal digits.", HOW)
        if entry:
            digests.append(digest)
    if not digests:
        raise ConfigError(f"{file} holds no key.", HOW)
    return KeyRing(digests)


HOW = "`vllm-bot serve --new-key FILE` makes a key, shows it once, and adds its digest."
