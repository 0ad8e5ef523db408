"""Whether a command line only asks one server of this machine, so that a rule about the server can allow it. Pure.

A closed list of curl's options: none of them names another server, a proxy, a file to read or write, or a program. What
is behind the request's pipe may be a filter that reads nothing but it. Source: curl(1) 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...types.lazy_pattern import LazyPattern
from .reader import ReadCommand, ReadWord

URL = LazyPattern(r"(?:http://)?(?:localhost|127\.0\.0\.1|\[::1\]):([0-9]{1,5})(/[^\s\\]*)?")  # no user, no other host
FLAGS = LazyPattern(
    r"-[fgiIkNsSv]+|--(?:compressed|fail|fail-with-body|globoff|head|include|no-buffer|retry-all-errors"
    r"|retry-connrefused|show-error|silent|verbose)"
)
_TEXT, _NUMBER = LazyPattern(r"(?!@)(?!.*%output)[^\n]*"), LazyPattern(r"[0-9.]{1,9}")  # @ names a file, %output too
VALUES: Mapping[LazyPattern, LazyPattern] = {  # option -> its value
    LazyPattern(r"-[fgiIkNsSv]*o|--output"): LazyPattern(r"/dev/null|-"),
    LazyPattern(r"-[fgiIkNsSv]*X|--request"): LazyPattern(r"[A-Z]{1,20}"),
    LazyPattern(r"-[fgiIkNsSv]*[Hdw]|--(?:data|data-raw|data-binary|header|json|write-out)"): _TEXT,
    LazyPattern(r"-m|--(?:connect-timeout|max-time|retry|retry-delay|retry-max-time)"): _NUMBER,
}
FILTERS = ("cat", "head", "tail", "wc")
FILTER_WORD = LazyPattern(r"-[clnw]?[0-9]*|[0-9]+")


def find_local_server(commands: Sequence[ReadCommand]) -> str:
    """`localhost:8000` if all of these commands only ask that server, or filter its answers; else ""."""
    servers = set()
    for command in commands:
        if command.reads or any(word.text != "/dev/null" for word in command.writes):
            return ""
        if command.name == "curl":
            servers.add(_find_server(command))
        elif command.name not in FILTERS or not all(map(FILTER_WORD.fullmatch, command.texts[1:])):
            return ""
    return servers.pop() if len(servers) == 1 else ""


def _find_server(command: ReadCommand) -> str:
    """The one server that a curl asks; "" for any other, and for an option that is not known."""
    ports = set()
    words = iter(command.words[1:])
    for word in words:
        if word.text.startswith("-"):
            if not _is_known(word, words):
                return ""
            continue
        match = URL.fullmatch(word.text)
        if match is None or (word.is_glob and not match[2]):
            return ""
        ports.add(int(match[1]))
    return f"localhost:{ports.pop()}" if len(ports) == 1 else ""


def _is_known(option: ReadWord, words: Iterator[ReadWord]) -> bool:
    """Whether an option is in the list, with its value, which is taken from `words`."""
    if option.is_glob:
        return False
    if FLAGS.fullmatch(option.text):
        return True
    for name, value in VALUES.items():
        if name.fullmatch(option.text):
            given = next(words, None)
            return given is not None and not given.is_glob and value.fullmatch(given.text) is not None
    return False
