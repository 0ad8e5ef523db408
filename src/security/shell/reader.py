"""The strict reader: a command line as simple commands of literal words. Pure, linear.

    parse_line("cat a.txt | grep -c 'x y'") -> (ReadCommand(cat a.txt), ReadCommand(grep -c 'x y'))

It accepts a closed list of what a shell knows, and refuses everything else with `UnsafeToParse`: words, quotes, globs,
comments, continued lines, `|`, `|&`, `&&`, `||`, `;`, `&`, line ends, `!`, `( )`, redirections, here-documents whose
end is quoted, and variables before a command that only change how something looks. What the shell would replace (`$x`,
`$( )`, `{a,b}`, `~`), loops and functions are refused. Sources: POSIX XCU chapter 2 and bash(1) 5.2, for a shell that
runs `-c` and is not interactive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...types.lazy_pattern import LazyPattern

MAX_LINE_CHARS = 10_000
GLOB = LazyPattern(r"[*?]|\[.")
SKIPPED = LazyPattern(r"(?:[ \t]|\\\n)+(?:#[^\n]*)?|#[^\n]*")
REDIRECTION = LazyPattern(r"([0-9]?)(&>>|&>|<<<|<<-|<<|<&|<>|<|>>|>&|>\||>)")
SEPARATOR = LazyPattern(r"&&|\|\||\|&|[|;&()\n]")
PIECE = LazyPattern(  # of a word: plain, quoted in one of three ways, or a continued line
    r"(?P<plain>[^\s\\'\"`$|&;<>(){}]+|\{\})|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\`$]|\\[\s\S]|\$(?=["\s]))*)"|\\(?P<escaped>[^\n])|(?P<continued>\\\n)'
)
IN_DOUBLE = LazyPattern(r'\\([$`"\\\n])')
NUMBERS = LazyPattern(r"[0-9]{2,}[<>]")
_RESERVED = "{ } [[ ]] if then else elif fi case esac for select while until do done in function coproc"
RESERVED = frozenset(_RESERVED.split())
VARIABLE = LazyPattern(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
# Variables before a command that change how something looks, and name no file and no program; a / would be a path.
# In some encodings a letter ends in a byte that is an ASCII sign elsewhere, and a script reads as another.
ASSIGNMENT = LazyPattern(
    r"(?:LC_[A-Z]+|LANG)=(?:C|POSIX|(?:[A-Za-z_]+\.)?[Uu][Tt][Ff]-?8)?"
    "|(?:TZ|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CI|NODE_ENV|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE"
    "|PYTHONHASHSEED|RUST_BACKTRACE)=[A-Za-z0-9_.@+-]*|(?:GIT_)?PAGER=(?:cat)?"
)
WHY_REFUSED = {
    "$": "$ is replaced by something unknown",
    "`": "backquotes run a command",
    "{": "braces may turn one word into several",
    "}": "braces may turn one word into several",
    "'": "a ' is not closed",
    '"': 'a " is not closed, or something in it is replaced',
    "\\": "it ends in a backslash",
}


class UnsafeToParse(Exception):
    """A line cannot be read whole. The message is a clause for people that names the part of the line."""


class ReadWord(NamedTuple):
    """A word as the program gets it, without its quotes. `is_glob`: files that match it may stand in its place."""

    text: str
    is_glob: bool = False


class ReadCommand(NamedTuple):
    """`reads`: the files its standard input comes from; `writes`: those that its output goes to."""

    words: tuple[ReadWord, ...]
    reads: tuple[ReadWord, ...] = ()
    writes: tuple[ReadWord, ...] = ()

    @property
    def name(self) -> str:
        return self.words[0].text

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


EMPTY = ReadCommand(())


def parse_line(source: str) -> tuple[ReadCommand, ...]:
    """The simple commands of a command line. Raises UnsafeToParse.

    Their order is not checked: what a shell refuses does not run.
    """
    if len(source) > MAX_LINE_CHARS:
        raise UnsafeToParse(f"the command is longer than {MAX_LINE_CHARS:,} characters")
    _refuse_invisible(source)
    commands: list[ReadCommand] = []
    command, before = EMPTY, ""
    for operator, word in _list_tokens(source):
        if word:
            command = _add_word(command, operator, word)
            continue
        if operator == "(" and (command != EMPTY or before == "("):
            raise UnsafeToParse("( begins more than a group of commands")
        if command.words:
            commands.append(_check_command(command))
        elif command != EMPTY:
            raise UnsafeToParse("a redirection stands alone")
        command, before = EMPTY, operator
    if not commands:
        raise UnsafeToParse("it contains no command")
    return tuple(commands)


def _add_word(command: ReadCommand, operator: str, word: ReadWord) -> ReadCommand:
    if not operator:
        return command._replace(words=(*command.words, word))
    if operator[0] == "<":
        return command._replace(reads=(*command.reads, word))
    return command._replace(writes=(*command.writes, word))


def split_words(text: str) -> tuple[str, ...]:
    """The words of a rule's command; split at blanks if it is not one command of literal words."""
    try:
        commands = parse_line(text)
    except UnsafeToParse:
        return tuple(text.split())
    return commands[0].texts if len(commands) == 1 else tuple(text.split())


def read_word_at(source: str, at: int) -> str | None:
    """The word behind a place and blanks, as a program gets it; None if a shell would replace something in it."""
    try:
        word, _ = _read_word(source, found.end() if (found := SKIPPED.match(source, at)) else at)
    except UnsafeToParse:
        return None
    return None if word.is_glob else word.text


def _check_command(command: ReadCommand) -> ReadCommand:
    """The command without `!` and the variables before it."""
    words = list(command.words)
    if words[0] == ReadWord("!"):
        del words[0]
    while words and ASSIGNMENT.fullmatch(words[0].text):
        del words[0]
    if not words:
        raise UnsafeToParse("there is no command, only a variable or !")
    name = words[0].text
    if VARIABLE.match(name):
        raise UnsafeToParse(f"a variable is set that may change what runs: {name[:60]!a}")
    if name in RESERVED or words[0].is_glob or name == "!":
        raise UnsafeToParse(f"{name[:60]} makes it more than simple commands")
    return command._replace(words=tuple(words))


def _list_tokens(source: str) -> Iterator[tuple[str, ReadWord | None]]:
    """The tokens in order: a word ("", word), a redirection (operator, target), a separator (text, None).

    The last one is a separator "".
    """
    at, documents = 0, list[tuple[str, bool]]()
    while at < len(source):
        if skipped := SKIPPED.match(source, at):
            at = skipped.end()
        elif redirection := REDIRECTION.match(source, at):
            blank = SKIPPED.match(source, redirection.end())
            operator, start = redirection[2], blank.end() if blank else redirection.end()
            target, at = _read_word(source, start)
            if operator in ("<<", "<<-"):
                if not re.search(r"['\"\\]", source[start:at].replace("\\\n", "")):
                    raise UnsafeToParse("the shell may replace something in a here-document")
                documents.append((target.text, operator == "<<-"))
            elif target.is_glob or not target.text:
                raise UnsafeToParse(f"it is not known which file {operator} means")
            elif operator != "<<<" and not (operator[1:] == "&" and re.fullmatch("[0-9]|-", target.text)):
                yield operator, target
        elif separator := SEPARATOR.match(source, at):
            at = separator.end()
            yield separator[0], None
            if separator[0] == "\n":
                at = _skip_documents(source, at, documents)
                documents = []
        elif NUMBERS.match(source, at):
            raise UnsafeToParse("it redirects an unusual file descriptor")
        else:
            word, at = _read_word(source, at)
            yield "", word
    if documents:
        raise UnsafeToParse("a here-document does not end")
    yield "", None


def _skip_documents(source: str, at: int, documents: list[tuple[str, bool]]) -> int:
    for end, is_stripped in documents:
        while True:
            if at >= len(source):
                raise UnsafeToParse("a here-document does not end")
            line, _, _ = source[at:].partition("\n")
            at += len(line) + 1
            if (line.lstrip("\t") if is_stripped else line) == end:
                break
    return at


def _read_word(source: str, at: int) -> tuple[ReadWord, int]:
    start, text, is_glob = at, "", False
    while piece := PIECE.match(source, at):
        at = piece.end()
        plain = piece["plain"] or ""
        if plain and ("~" in (plain[0] if not text else "") or "=~" in plain or ":~" in plain):
            raise UnsafeToParse("~ stands for a home folder")
        if plain == "{}" and (text or source[at : at + 1].strip(" \t\n;|&)")):
            raise UnsafeToParse(WHY_REFUSED["{"])
        is_glob = is_glob or GLOB.search(plain) is not None
        text += plain + (piece["single"] or "") + (piece["escaped"] or "")
        text += IN_DOUBLE.sub(lambda found: found[1].strip("\n"), piece["double"] or "")
    following = source[at : at + 1]
    if following in WHY_REFUSED and following:
        raise UnsafeToParse(WHY_REFUSED[following])
    if at == start or following in ("\r", "\v", "\f"):
        raise UnsafeToParse(f"a word is missing before {following!a}")
    if following == "(":
        raise UnsafeToParse("( follows a word")
    return ReadWord(text, is_glob), at


def _refuse_invisible(source: str) -> None:
    for character in source:
        if not character.isprintable() and character not in "\n\t":
            raise UnsafeToParse(f"it contains the invisible character U+{ord(character):04X}")
