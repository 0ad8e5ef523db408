r"""The one reader of a command line: its words, redirections and separators. Pure, linear.

    parse_line("cat a.txt | grep -c 'x y'") -> (ReadCommand(cat a.txt), ReadCommand(grep -c 'x y'))

`list_tokens` reads any line. A word that the shell would replace (`$x`, `{a,b}`, `~`), and what it cannot follow, is
marked as unknown; what runs inside a word (`$( )`) follows it as tokens of its own. `parse_line` is strict: it refuses
each unknown word, loops, functions and variables that may change what runs, with `UnsafeToParse`. Sources: POSIX XCU
chapter 2 and bash(1) 5.2, for a shell that runs `-c` and is not interactive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from ...types.lazy_pattern import LazyPattern

MAX_LINE_CHARS = 10_000
GLOB = LazyPattern(r"[*?]|\[.")
SKIPPED = LazyPattern(r"(?:[ \t]|\\\n)+(?:#[^\n]*)?|#[^\n]*")
REDIRECTION = LazyPattern(r"([0-9]?)(&>>|&>|<<<|<<-|<<|<&|<>|<(?!\()|>>|>&|>\||>(?!\())")
SEPARATOR = LazyPattern(r"&&|\|\||\|&|[<>]\(|[|;&()\n`\"]")
PIECE = LazyPattern(  # of a word: plain, quoted in one of four ways, a continued line, or what a shell replaces
    r"(?P<plain>[^\s\\'\"`$|&;<>(){}]+|\{[A-Za-z0-9_]*\})|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\`$]|\\[\s\S]|\$(?!\())*)"|\\(?P<escaped>[^\n])|(?P<continued>\\\n)'
    r"|\$'(?P<ansi>(?:[^'\\]|\\[\s\S])*)'|(?P<unknown>[^ \t\n|&;<>()\"`])"
)
IN_DOUBLE = LazyPattern(r'\\([$`"\\\n])')
REPLACED = LazyPattern(r"(?:\A|[^\\])(?:\\\\)*\$(?![\s]|\Z)")  # a variable in a string
IN_STRING = LazyPattern(r'(?:[^"\\`$]|\\[\s\S]|\$\(\([^()]*\)\)|\$(?!\())*')  # up to a command in it
STRING_END = LazyPattern(r"\$\(|[\s\S]")
IN_BACKQUOTES = LazyPattern(r"(?:[^`\\]|\\[\s\S])*`")
ESCAPED = LazyPattern(r"\\([`\\$\"])")
ARITHMETIC = LazyPattern(r"\(\([^()]*\)\)")
DESCRIPTOR_NAME = LazyPattern(r"\{\w+\}")  # {name}>file opens a descriptor, and sets name to its number
NUMBERS = LazyPattern(r"[0-9]{2,}(?=[<>])")
_OPERAND = r"(?:\$?\w+|\"\$?\w+\")"
COMPARISON = LazyPattern(rf"\[\[[ \t]+{_OPERAND}[ \t]+[<>][ \t]+{_OPERAND}[ \t]+\]\]")
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
NO_DOCUMENT_END = "a here-document does not end"
WHY_UNKNOWN = {
    "$": "$ is replaced by something unknown",
    "`": "backquotes run a command",
    "{": "braces may turn one word into several",
    "}": "braces may turn one word into several",
    "'": "a ' is not closed",
    '"': 'a " is not closed, or something in it is replaced',
    "\\": "it ends in a backslash",
    "(": "( follows a word",
    "<(": "what a command prints stands for a file",
    ">(": "what a command reads stands for a file",
}
ENDS = {"<<": "<<", "(": ")", "<(": ")", ">(": ")", '"': '"', "case": "esac"}


class UnsafeToParse(Exception):
    """A line cannot be read whole. The message is a clause for people that names the part of the line."""


class ReadWord(Struct, frozen=True):
    """A word as the program gets it, without its quotes. `is_glob`: files that match it may stand in its place.

    `unknown`: why it is not known what the program gets; "": it is.
    """

    text: str
    is_glob: bool = False
    unknown: str = ""


class Token(Struct, frozen=True):
    """A word, with `operator` "", or the target of a redirection; a separator has no word."""

    operator: str
    word: ReadWord | None = None


class ReadCommand(Struct, frozen=True):
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
    for token in list_tokens(source):
        operator, word = token.operator, token.word
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
    if word.unknown:
        raise UnsafeToParse(word.unknown)
    if not operator:
        return replace(command, words=(*command.words, word))
    if word.is_glob or not word.text:
        raise UnsafeToParse(f"it is not known which file {operator} means")
    if operator[0] == "<":
        return replace(command, reads=(*command.reads, word))
    return replace(command, writes=(*command.writes, word))


def split_words(text: str) -> tuple[str, ...]:
    """The words of a rule's command; split at blanks if it is not one command of literal words."""
    try:
        commands = parse_line(text)
    except UnsafeToParse:
        return tuple(text.split())
    return commands[0].texts if len(commands) == 1 else tuple(text.split())


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
    return replace(command, words=tuple(words))


def list_tokens(source: str, *, is_bash: bool = True) -> Iterator[Token]:
    """The tokens of any line in order. The last one is a separator "".

    `is_bash`: whether bash reads it, to which [[ a > b ]] and (( a > b )) are comparisons; other shells redirect.
    """
    return _Tokenizer(source, is_bash).list_tokens()


class _Tokenizer:
    def __init__(self, source: str, is_bash: bool) -> None:
        self._source = source
        self._is_bash = is_bash
        self._at = 0
        self._begins = True  # whether a command may begin here
        self._ends = [""]  # of each part that is open: ), ", esac, or << in a here-document
        self._documents: list[tuple[str, bool, bool]] = []  # end, whether tabs may stand before it, whether literal

    def list_tokens(self) -> Iterator[Token]:
        while self._at < len(self._source):
            if self._ends[-1] in ('"', "<<"):
                yield from self._read_string()
            elif self._is_bash and (self._skip(ARITHMETIC) or (self._begins and self._skip(COMPARISON))):
                self._begins = False
                yield _make_unknown("a comparison makes it more than simple commands")
            elif not self._skip(SKIPPED):
                yield from self._read_code()
        if self._documents:
            yield _make_unknown(NO_DOCUMENT_END)
        yield Token("")

    def _read_string(self) -> Iterator[Token]:
        """The text of a string or here-document, up to its end or to a command in it."""
        text, sign = self._skip(IN_STRING), self._skip(STRING_END)
        yield Token("", ReadWord(text + sign.strip('"'), unknown=WHY_UNKNOWN['"']))
        if sign == "`":
            yield from self._read_backquotes()
        elif sign != '"' or self._ends[-1] == sign:
            yield from self._read_separator(sign.strip("$"))

    def _read_backquotes(self) -> Iterator[Token]:
        """A command in backquotes, behind the first of them. It ends at the next one, whatever quotes there are."""
        yield _make_unknown(WHY_UNKNOWN["`"])
        command = self._skip(IN_BACKQUOTES)
        yield from _Tokenizer(ESCAPED.sub(r"\1", command[:-1]), self._is_bash).list_tokens()

    def _read_code(self) -> Iterator[Token]:
        if redirection := REDIRECTION.match(self._source, self._at):
            self._at, self._begins = redirection.end(), False
            yield from self._read_redirection(redirection[2])
        elif number := self._skip(NUMBERS):
            yield _make_unknown(f"it redirects the unusual file descriptor {number[:20]}")
        elif PIECE.match(self._source, self._at):
            start = self._at
            yield Token("", self._read_word())
            written = self._source[start : self._at]
            if self._begins and written in ("case", "esac"):
                self._open_or_close(written)
            self._begins = self._begins and written in (*RESERVED, "!")
        elif (separator := self._skip(SEPARATOR)) == "`":
            yield from self._read_backquotes()
        else:
            yield from self._read_separator(separator)

    def _read_separator(self, separator: str) -> Iterator[Token]:
        if separator in WHY_UNKNOWN and separator != "(":
            yield _make_unknown(WHY_UNKNOWN[separator])
        self._begins = True
        self._open_or_close(separator)
        yield Token(separator)
        if separator == "\n":
            yield from self._skip_documents()

    def _open_or_close(self, sign: str) -> None:
        if sign == self._ends[-1]:
            self._ends.pop()
        elif sign in ENDS:
            self._ends.append(ENDS[sign])

    def _read_redirection(self, operator: str) -> Iterator[Token]:
        self._skip(SKIPPED)
        start = self._at
        target = self._read_word()
        if operator in ("<<", "<<-"):
            is_literal = re.search(r"['\"\\]", self._source[start : self._at].replace("\\\n", "")) is not None
            self._documents.append((target.text, operator == "<<-", is_literal))
            if not is_literal:
                yield _make_unknown("the shell may replace something in a here-document")
        elif start == len(self._source):
            yield _make_unknown(f"a file is missing after {operator}")  # an error of the shell
        elif not (operator[1:] == "&" and re.fullmatch("[0-9]|-", target.text)):
            yield Token(operator, target)

    def _skip_documents(self) -> Iterator[Token]:
        """Skip the here-documents that begin here, but for the commands in them."""
        for end, is_stripped, is_literal in self._documents:
            tabs = r"\t*" if is_stripped else ""
            document_match = re.compile(rf"((?:[^\n]*\n)*?){tabs}{re.escape(end)}(?:\n|\Z)").match(
                self._source, self._at
            )
            if not document_match:
                yield _make_unknown(NO_DOCUMENT_END)
                continue
            if is_literal or "<<" not in self._ends:  # in another document it is read as code
                self._at = document_match.end()
            if not is_literal and "<<" not in self._ends:
                document = _Tokenizer(document_match[1], self._is_bash)
                document._open_or_close("<<")
                yield from document.list_tokens()
        self._documents = []

    def _read_word(self) -> ReadWord:
        start, text, is_glob, unknown = self._at, "", False, ""
        while piece := PIECE.match(self._source, self._at):
            self._at = piece.end()
            plain, double = piece["plain"] or "", piece["double"] or ""
            following = self._source[self._at : self._at + 1]
            unknown = _explain_unknown(piece, text, following) or unknown
            is_glob = is_glob or GLOB.search(plain) is not None
            text += plain + (piece["single"] or piece["escaped"] or piece["ansi"] or piece["unknown"] or "")
            text += IN_DOUBLE.sub(lambda found: found[1].strip("\n"), double)
        following = self._source[self._at : self._at + 1]
        if self._at == start:
            unknown = f"a word is missing before {following!a}"
        if following in ("<", ">") and DESCRIPTOR_NAME.fullmatch(text):
            unknown = f"a redirection sets the variable {text[:60]}, which may change what runs"
        return ReadWord(text, is_glob, unknown or WHY_UNKNOWN.get(following, ""))

    def _skip(self, pattern: LazyPattern) -> str:
        match = pattern.match(self._source, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]


def _explain_unknown(piece: re.Match[str], before: str, following: str) -> str:
    """Why the shell makes something else of a piece of a word; "" if it does not."""
    plain = piece["plain"] or ""
    if (plain.startswith("~") and not before) or "=~" in plain or ":~" in plain:
        return "~ stands for a home folder"
    if piece["unknown"] or (plain == "{}" and (before or following.strip(" \t\n;|&)"))):
        return WHY_UNKNOWN.get(piece[0][0], "it contains an unusual blank")
    if piece["ansi"] is not None or REPLACED.search(piece["double"] or ""):
        return WHY_UNKNOWN["$"]
    return ""


def _make_unknown(why: str) -> Token:
    return Token("", ReadWord("", unknown=why))


def _refuse_invisible(source: str) -> None:
    for character in source:
        if not character.isprintable() and character not in "\n\t":
            raise UnsafeToParse(f"it contains the invisible character U+{ord(character):04X}")
