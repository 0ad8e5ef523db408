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
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...types.lazy_pattern import LazyPattern

MAX_LINE_CHARS = 10_000
GLOB = LazyPattern(r"[*?]|\[.")
SKIPPED = LazyPattern(r"(?:[ \t]|\\\n)+(?:#[^\n]*)?|#[^\n]*")
_CONTINUED = r"(?:\\\n)*"  # what a line may be continued with, in an operator as well
_OPERATORS = "&>> &> <<< <<- << <& <> < >> >& >| >"
_OPERATOR = "|".join(_CONTINUED.join(map(re.escape, each)) for each in _OPERATORS.split())
REDIRECTION = LazyPattern(rf"(?:[0-9](?=[<>]))?(?![<>]\()({_OPERATOR})")
# Behind >& and <&. In >&-a the a is a word of the command, in >&1a it is not.
DESCRIPTOR = LazyPattern(rf"-|[0-9]{_CONTINUED}-?(?={_CONTINUED}(?:[ \t\n|&;<>()]|\Z))")
# What >& makes no more of. bash expands its target twice, what was quoted as well: >&'$(x)' runs x.
EXPANDED_ONCE = LazyPattern(r"[\w ./,:@%+=-]+")
CASE_END = LazyPattern(rf";{_CONTINUED}[;&]")  # ;; or ;& behind the commands of a pattern
SEPARATOR = LazyPattern(rf"&&|\|\||\|&|[<>]\(|\((?:[ \t]|\\\n)*\)|{CASE_END.pattern}|[|;&()\n`\"]")
PIECE = LazyPattern(  # of a word: plain, quoted in one of four ways, a continued line, or what a shell replaces
    r"(?P<plain>[^\s\\'\"`$|&;<>(){}]+|\{[A-Za-z0-9_]*\})|'(?P<single>[^']*)'"
    rf'|"(?P<double>(?:[^"\\`$]|\\[\s\S]|\$(?!{_CONTINUED}\())*)"|\\(?P<escaped>[^\n])|(?P<continued>)\\\n'
    rf"|\${_CONTINUED}'(?P<ansi>(?:[^'\\]|\\[\s\S])*)'|(?P<unknown>[^ \t\n|&;<>()\"`])"
)
TILDE = LazyPattern(r"(?:\A|[=:])~")
IN_DOUBLE = LazyPattern(r'\\([$`"\\\n])')
REPLACED = LazyPattern(r"(?:\A|[^\\])(?:\\\\)*\$(?![\s]|\Z)")  # a variable in a string
IN_STRING = LazyPattern(  # up to a command in it
    rf'(?:[^"\\`$]|\\[\s\S]|\$\(\([^()]*\)\)|\$(?!{_CONTINUED}\())*'
)
STRING_END = LazyPattern(rf"\${_CONTINUED}\(|[\s\S]")
IN_BACKQUOTES = LazyPattern(r"(?:[^`\\]|\\[\s\S])*`")
ESCAPED = LazyPattern(r"\\([`\\$\"])")
ARITHMETIC = LazyPattern(r"\(\([^()]*\)\)")
DESCRIPTOR_NAME = LazyPattern(r"\{\w+\}")  # {name}>file opens a descriptor, and sets name to its number
NUMBERS = LazyPattern(r"[0-9](?:[0-9]|\\\n)+(?=[<>])")
_OPERAND = r"(?:\$?\w+|\"\$?\w+\")"
COMPARISON = LazyPattern(rf"\[\[[ \t]+{_OPERAND}[ \t]+[<>][ \t]+{_OPERAND}[ \t]+\]\]")
_RESERVED = "! time { } [[ ]] if then else elif fi case esac for select while until do done in function coproc"
RESERVED = frozenset(_RESERVED.split())
BEFORE_COMMANDS = ("!", "time")  # reserved words that leave what runs as it is
BEFORE_WORDS = ("for", "select", "case", "function", "in", "[[")  # behind which no reserved word stands
VARIABLE = LazyPattern(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
# Variables before a command that change how something looks, and name no file and no program; a / would be a path.
# In some encodings a letter ends in a byte that is an ASCII sign elsewhere, and a script reads as another.
ASSIGNMENT = LazyPattern(
    r"(?:LC_[A-Z]+|LANG)=(?:C|POSIX|(?:[A-Za-z_]+\.)?[Uu][Tt][Ff]-?8)?"
    "|(?:TZ|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CI|NODE_ENV|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE"
    "|PYTHONHASHSEED|RUST_BACKTRACE)=[A-Za-z0-9_.@+-]*|(?:GIT_)?PAGER=(?:cat)?"
)
QUOTING = LazyPattern(r"\\\n|[\\'\"]")
NO_NAME = LazyPattern(r"[^\w.+-]+")  # separates the names in a text
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
_LEADING = "! { if then else elif while until do time coproc command builtin exec"
LEADING = frozenset(_LEADING.split())  # behind which the name of a program may stand
ENDS = {"(": ")", "<(": ")", ">(": ")", '"': '"'}


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
    """A word, with `operator` "", or the target of a redirection; a separator has no word.

    Each of the separators (, <( and >( has its ), in order; one that closes none of them is a ;.
    The text of a here-document in which nothing is replaced has the operator "<<". `role`: whether the word is a
    reserved word, or stands where the name of a program may.
    """

    operator: str
    word: ReadWord | None = None
    role: Literal["", "name", "reserved"] = ""


class Part(Struct, frozen=True):
    """An open part of a line: `end` is ), ", esac, or << in a here-document.

    `is_in_word`: whether it is a part of a word. Then `is_name` and `is_operand` tell what may follow this word.
    """

    end: str
    is_in_word: bool = False
    is_name: bool = True
    is_operand: bool = False


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
        if word and token.role == "reserved" and word.text in BEFORE_COMMANDS:
            continue
        if word:
            command = _add_word(command, operator, word)
            continue
        if operator in ("(", "()") and (command != EMPTY or before == "("):
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
    if operator == "<<":
        return command
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


def split_names(text: str) -> list[str]:
    """What may be a name in a text, in order, without its quoting and wherever it stands."""
    return NO_NAME.split(QUOTING.sub("", text))


def _check_command(command: ReadCommand) -> ReadCommand:
    """The command without the variables before it."""
    words = list(command.words)
    while words and ASSIGNMENT.fullmatch(words[0].text):
        del words[0]
    if not words:
        raise UnsafeToParse("there is no command, only a variable")
    name = words[0].text
    if VARIABLE.match(name):
        raise UnsafeToParse(f"a variable is set that may change what runs: {name[:60]!a}")
    if name in RESERVED or words[0].is_glob:
        raise UnsafeToParse(f"{name[:60]} makes it more than simple commands")
    return replace(command, words=tuple(words))


def list_tokens(source: str, *, is_bash: bool = True) -> Iterator[Token]:
    """The tokens of any line in order. The last one is a separator "".

    `is_bash`: whether bash reads it, to which [[ a > b ]] and (( a > b )) are comparisons; other shells redirect.
    """
    return _Tokenizer(source, is_bash).list_tokens()


class _Tokenizer:
    def __init__(self, source: str, is_bash: bool, end: str = "") -> None:
        """`end`: << if the source is the text of a here-document, of which only the commands are read."""
        self._source = source
        self._is_bash = is_bash
        self._at = 0
        self._begins = True  # whether a reserved word may stand here
        self._is_name = not end  # whether the name of a program may
        self._is_operand = False  # whether what stands here is a pattern of `case`, or is inside [[ ]]
        self._word_end = -1  # of the last word: what begins there belongs to it
        self._parts = [Part(end)]  # those that are open
        self._documents: list[tuple[str, bool, bool]] = []  # end, whether tabs may stand before it, whether literal

    def list_tokens(self) -> Iterator[Token]:
        while self._at < len(self._source):
            if self._parts[-1].end in ('"', "<<"):
                yield from self._read_string()
            elif self._source[self._at] == "#" and self._at == self._word_end:
                yield self._read_argument()  # a # in a word begins no comment
            elif not self._skip(SKIPPED):
                yield from self._read_code()
        if self._documents:
            yield _make_unknown(NO_DOCUMENT_END)
        for part in self._parts:
            if part.end == ")":
                yield Token(")")
        yield Token("")

    def _read_string(self) -> Iterator[Token]:
        """The text of a string or here-document, up to its end or to a command in it."""
        text, sign = self._skip(IN_STRING), self._skip(STRING_END)
        self._word_end = self._at - 1  # a command in the string is part of the word
        yield Token("", ReadWord(text + sign.strip('"'), unknown=WHY_UNKNOWN['"']))
        if sign == "`":
            yield from self._read_backquotes()
        elif sign != '"' or self._parts[-1].end == sign:
            yield self._read_separator(sign[-1:])

    def _read_backquotes(self) -> Iterator[Token]:
        """A command in backquotes, behind the first of them. It ends at the next one, whatever quotes there are."""
        yield self._begin_unknown_word("`")
        command = self._skip(IN_BACKQUOTES)
        self._word_end = self._at
        yield from _Tokenizer(ESCAPED.sub(r"\1", command[:-1]), self._is_bash).list_tokens()

    def _read_code(self) -> Iterator[Token]:
        if self._is_bash and (self._skip(ARITHMETIC) or (self._begins and self._skip(COMPARISON))):
            self._word_end = self._at
            yield _make_unknown("a comparison makes it more than simple commands")
        elif redirection := REDIRECTION.match(self._source, self._at):
            self._at, self._begins = redirection.end(), False
            self._skip(SKIPPED)
            yield from self._read_redirection(redirection[1].replace("\\\n", ""))
        elif number := self._skip(NUMBERS):
            yield _make_unknown(f"it redirects the unusual file descriptor {number[:20]}")
        elif PIECE.match(self._source, self._at):
            yield self._read_argument()
        elif (separator := self._skip(SEPARATOR)) == "`":
            yield from self._read_backquotes()
        else:
            yield from self._read_operator(separator)

    def _read_argument(self) -> Token:
        """A word, or a piece of one that stands behind a string or command in it."""
        start, is_whole = self._at, self._at != self._word_end
        word = self._read_word()
        if not is_whole:
            return Token("", word)
        if self._read_reserved(self._source[start : self._at].replace("\\\n", "")):
            self._is_name = word.text in LEADING
            return Token("", word, "reserved")
        if not self._is_name:
            self._is_name = word.text == "{"  # coproc NAME {
            return Token("", word)
        is_variable = VARIABLE.match(word.text) is not None
        self._is_name = is_variable or word.text in LEADING or word.text.startswith("-")
        if is_variable or self._is_operand or word.unknown == WHY_UNKNOWN["("]:  # the name of a function
            return Token("", word)
        return Token("", word, "name")

    def _read_reserved(self, written: str) -> bool:
        """Whether a word is a reserved one. Patterns and operands are not, but for what ends them."""
        if self._is_operand:
            is_reserved = written in ("]]", self._parts[-1].end)
        else:
            is_reserved = self._begins and written in RESERVED
        self._begins = is_reserved and written not in BEFORE_WORDS
        if not is_reserved:
            return False
        if written == self._parts[-1].end:
            self._close_part()
        elif written == "case":
            self._parts.append(Part("esac"))
        self._is_operand = written == "case" or (self._is_bash and written == "[[")
        return True

    def _begin_unknown_word(self, sign: str) -> Token:
        """The beginning of a word, or of a piece of one, that is a string or command."""
        is_whole = self._at - len(sign) != self._word_end
        word = ReadWord("", unknown=WHY_UNKNOWN[sign])
        if not is_whole:
            return Token("", word)
        token = Token("", word, "name" if self._is_name and not self._is_operand else "")
        self._begins = self._is_name = False
        return token

    def _read_operator(self, separator: str) -> Iterator[Token]:
        if separator in WHY_UNKNOWN and separator != "(":
            yield self._begin_unknown_word(separator)
        is_empty = separator[:1] == "(" and separator[-1:] == ")"
        yield self._read_separator("()" if is_empty else separator)
        if separator == "\n":
            yield from self._skip_documents()

    def _read_separator(self, separator: str) -> Token:
        is_in_word = self._at - len(separator) == self._word_end or separator in ('"', "<(", ">(")
        part = Part(ENDS.get(separator, ""), is_in_word, self._is_name, self._is_operand)
        is_list = is_in_word and self._source.endswith("=(", 0, self._at)  # of values: x=(a b)
        self._begins, self._is_name = True, separator != '"' and not is_list
        if separator == self._parts[-1].end:
            self._close_part()
        elif part.end:
            self._parts.append(part)
            self._is_operand = False
        elif separator == ")":  # behind a pattern of `case`
            self._is_operand = False
            return Token(";")
        elif CASE_END.fullmatch(separator):
            self._is_operand = self._parts[-1].end == "esac"
            return Token(";")
        return Token(separator)

    def _close_part(self) -> None:
        part = self._parts.pop()
        self._is_operand = part.is_in_word and part.is_operand
        if part.is_in_word:
            self._begins, self._is_name, self._word_end = False, part.is_name, self._at

    def _read_redirection(self, operator: str) -> Iterator[Token]:
        """What stands behind the operator."""
        if operator in ("<<", "<<-"):
            yield from self._read_document_end(operator)
        elif operator in (">&", "<&") and self._skip(DESCRIPTOR):
            return
        elif self._at == len(self._source):
            yield _make_unknown(f"a file is missing after {operator}")  # an error of the shell
        else:
            target = self._read_word()
            if operator == ">&" and not EXPANDED_ONCE.fullmatch(target.text):
                target = replace(target, unknown=target.unknown or "the target of >& is expanded twice")
            yield Token(operator, target)

    def _read_document_end(self, operator: str) -> Iterator[Token]:
        """The word that ends a here-document, which begins on the next line."""
        start = self._at
        end = self._read_word().text
        is_literal = re.search(r"['\"\\]", self._source[start : self._at].replace("\\\n", "")) is not None
        self._documents.append((end, operator == "<<-", is_literal))
        if not is_literal:
            yield _make_unknown("the shell may replace something in a here-document")

    def _skip_documents(self) -> Iterator[Token]:
        """Skip the here-documents that begin here, but for the commands in them."""
        is_in_document = any(part.end == "<<" for part in self._parts)  # in which it is read as code
        for end, is_stripped, is_literal in self._documents:
            tabs = r"\t*" if is_stripped else ""
            document_match = re.compile(rf"((?:[^\n]*\n)*?){tabs}{re.escape(end)}(?:\n|\Z)").match(
                self._source, self._at
            )
            if not document_match:
                yield _make_unknown(NO_DOCUMENT_END)
                continue
            if is_literal:
                yield Token("<<", ReadWord(document_match[1]))
            if is_literal or not is_in_document:
                self._at = document_match.end()
            if not is_literal and not is_in_document:
                yield from _Tokenizer(document_match[1], self._is_bash, end="<<").list_tokens()
        self._documents = []

    def _read_word(self) -> ReadWord:
        start, text, pattern, unknown = self._at, "", "", ""
        while piece := PIECE.match(self._source, self._at):
            self._at = piece.end()
            unknown = _explain_unknown(piece, text, self._get_next()) or unknown
            pattern += piece["plain"] or "'"  # no sign in quotes makes a pattern, but ["a"] is one
            text += _unquote(piece)
        self._word_end = self._at
        following = self._get_next()
        if self._at == start:
            unknown = f"a word is missing before {following!a}"
        if following in ("<", ">") and DESCRIPTOR_NAME.fullmatch(text):
            unknown = f"a redirection sets the variable {text[:60]}, which may change what runs"
        is_glob = GLOB.search(pattern) is not None
        return ReadWord(text, is_glob, unknown or WHY_UNKNOWN.get(following, ""))

    def _get_next(self) -> str:
        return self._source[self._at : self._at + 1]

    def _skip(self, pattern: LazyPattern) -> str:
        match = pattern.match(self._source, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]


def _unquote(piece: re.Match[str]) -> str:
    if piece.lastgroup == "double":
        return IN_DOUBLE.sub(lambda found: found[1].strip("\n"), piece["double"])
    return piece[piece.lastgroup or 0]


def _explain_unknown(piece: re.Match[str], before: str, following: str) -> str:
    """Why the shell makes something else of a piece of a word; "" if it does not."""
    plain = piece["plain"] or ""
    if TILDE.search(before[-1:] + plain):
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
