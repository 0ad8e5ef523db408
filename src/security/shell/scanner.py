"""Reads a command line as simple commands of literal words, from left to right. Pure, linear.

    Scanner("cat a.txt | grep -c 'x y'").read_commands() -> (SimpleCommand(cat a.txt), SimpleCommand(grep -c 'x y'))

It knows what quotes and backslashes mean, and refuses with `UnsafeToParse` whatever a shell would replace. It accepts
words, quotes, globs, comments, `|`, `|&`, `&&`, `||`, `;`, line ends, `!`, `( )`, `cd`, variables that only change how
something looks, joined descriptors (`2>&1`), output to /dev/null, input from a file, and here-documents and
here-strings in which nothing is replaced. Sources: POSIX XCU chapter 2 and bash(1) 5.2, for a shell that runs `-c` and
is not interactive. src/security/shell/parse.py compares the result with that of tree-sitter-bash.
"""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple, NoReturn

ENDS_WORD = frozenset(" \t\n|&;<>()")
GLOB = frozenset("*?[")
BLANK = re.compile(r"(?:[ \t]|\\\n)*")
OPERATOR = re.compile(r"&>>|&>|&&|&|\|\||\|&|\||;;&|;;|;&|;|<<<|<<-|<<|<&|<>|<|>>|>&|>\||>|\(|\)")
JOINS = {"|": True, "|&": True, "&&": True, "||": True, ";": False}  # operator -> whether a command must follow
PIPES = ("|", "|&")
MAX_FOLDERS = 8  # that a command may run in, depending on which `cd` before it succeed
OUTPUTS = (">", ">>", ">|", "&>", "&>>")
_RESERVED = "! { } [[ ]] if then else elif fi case esac for select while until do done in function coproc"
RESERVED = frozenset(_RESERVED.split())
DESCRIPTOR = re.compile("[0-9]+")
VARIABLE = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
NAME = re.compile(r"[A-Za-z0-9_./+-]+|\[")
# Variables before a command that change how something looks, and name no file and no program; a / would be a path.
# In some encodings a letter ends in a byte that is an ASCII sign elsewhere, and a script reads as another.
ASSIGNMENT = re.compile(
    r"(?:LC_[A-Z]+|LANG)=(?:C|POSIX|(?:[A-Za-z_]+\.)?[Uu][Tt][Ff]-?8)?"
    "|(?:TZ|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CI|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED"
    "|RUST_BACKTRACE)=[A-Za-z0-9_.@+-]*|(?:GIT_)?PAGER=(?:cat)?"
)


class UnsafeToParse(Exception):
    """A command cannot be judged. The message is a clause for people that names the part of the command."""


class ShellWord(NamedTuple):
    """A word as the program gets it, without its quotes; `start` and `end` are its place in the line.

    `quoted`: the indices in `text` of quoted characters; `plain`: the word has no quotes at all, not even empty ones.
    """

    text: str
    start: int
    end: int
    quoted: frozenset[int] = frozenset()
    plain: bool = True

    @property
    def is_glob(self) -> bool:
        return any(character in GLOB and at not in self.quoted for at, character in enumerate(self.text))


class SimpleCommand(NamedTuple):
    """`reads`: the files its standard input comes from; `folders`: where it may run, relative to the workspace."""

    words: tuple[ShellWord, ...]
    reads: tuple[ShellWord, ...] = ()
    folders: tuple[str, ...] = (".",)

    @property
    def name(self) -> str:
        return self.words[0].text

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


def is_name(word: ShellWord) -> bool:
    """Whether a shell would look for a command of exactly this name."""
    return word.plain and NAME.fullmatch(word.text) is not None and word.text not in RESERVED


def split_words(text: str) -> tuple[str, ...]:
    """The words of a rule's command; split at blanks if it is not one command of literal words."""
    try:
        commands = Scanner(text).read_commands()
    except UnsafeToParse:
        return tuple(text.split())
    return commands[0].texts if len(commands) == 1 else tuple(text.split())


def read_literal(source: str) -> str | None:
    """The word as a program gets it; None if a shell would replace something in it."""
    try:
        word = Scanner(source).read_word()
    except UnsafeToParse:
        return None
    return None if word.is_glob or word.end < len(source) else word.text


def _is_assignment(word: ShellWord) -> bool:
    return word.plain and ASSIGNMENT.fullmatch(word.text) is not None


class Scanner:
    """One pass over a line. `words` are all its words, those of redirections included."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._current: list[ShellWord] = []
        self._reads: list[ShellWord] = []
        self._found: list[SimpleCommand] = []
        self._documents: list[tuple[str, bool, bool]] = []  # here-documents to come: end, quoted, tabs stripped
        self._wanted = ""  # the operator after which a command must follow
        self._before = ""  # the operator before the current command
        self._negated = False
        self._closed = False  # a group, whose end nothing but an operator or a redirection follows
        self._here = frozenset({"."})  # the folders that the current command may run in
        self._else = frozenset[str]()  # further folders that the next list of commands may run in
        self._outer: list[tuple[int, frozenset[str], frozenset[str]]] = []  # the open groups
        self.words: list[ShellWord] = []
        self.groups: list[int] = []  # where they begin
        self.negations: list[int] = []

    def read_commands(self) -> tuple[SimpleCommand, ...]:
        while self._skip_blanks():
            character = self._source[self._at]
            if character == "\n":
                self._at += 1
                self._finish("\n")
                self._skip_documents()
            elif character == "#":
                end = self._source.find("\n", self._at)
                self._at = len(self._source) if end < 0 else end
            elif operator := OPERATOR.match(self._source, self._at):
                self._operate(operator[0])
            else:
                self._take_word()
        self._finish("")
        if self._wanted or self._documents or self._outer:
            raise UnsafeToParse("it ends too early")
        if not self._found:
            raise UnsafeToParse("it contains no command")
        return tuple(self._found)

    def _skip_blanks(self) -> bool:
        blank = BLANK.match(self._source, self._at)
        self._at = blank.end() if blank else self._at
        return self._at < len(self._source)

    def _take_word(self) -> None:
        word = self.read_word()
        following = self._source[self._at : self._at + 1]
        if word.plain and DESCRIPTOR.fullmatch(word.text) and following and following in "<>":
            operator = OPERATOR.match(self._source, self._at)
            assert operator  # noqa: S101 - < and > begin one
            self._redirect(operator[0], word.text)
            return
        if self._closed:
            raise UnsafeToParse("a word follows )")
        if word.plain and word.text == "!" and not self._current:
            if self._negated or self._before in PIPES:
                raise UnsafeToParse("! is not at the beginning of a pipeline")
            if following not in (" ", "\t"):
                raise UnsafeToParse("! and what follows may be a pattern")
            self._negated = True
            self.negations.append(word.start)
            return
        self.words.append(word)
        self._current.append(word)

    def _operate(self, operator: str) -> None:
        if operator[0] in "<>" or operator in OUTPUTS:
            self._redirect(operator, "")
        elif operator in JOINS:
            self._at += len(operator)
            if not self._current and not self._closed:
                raise UnsafeToParse(f"there is no command before {operator}")
            self._finish(operator)
            self._wanted = operator if JOINS[operator] else ""
        elif operator == "(" and not (self._current or self._reads or self._closed):
            self._open()
        elif operator == ")" and self._outer:
            self._close()
        elif operator == "&":
            raise UnsafeToParse("& leaves a command running in the background")
        else:
            raise UnsafeToParse(f"{operator} makes it more than simple commands")

    def _open(self) -> None:
        self.groups.append(self._at)
        self._outer.append((self._at, self._here, self._else))
        self._at += 1
        if self._source.startswith("(", self._at):
            raise UnsafeToParse("(( begins arithmetic")
        self._else, self._before, self._negated, self._wanted = frozenset(), "", False, "("

    def _close(self) -> None:
        self._at += 1
        self._finish(")")
        if self._wanted:
            raise UnsafeToParse("there is no command before )")
        _, self._here, self._else = self._outer.pop()
        self._closed = True

    def _finish(self, following: str) -> None:
        """End the current command, if there is one; `following` is the operator after it."""
        if self._current:
            start = next((at for at, word in enumerate(self._current) if not _is_assignment(word)), -1)
            name = self._current[start].text
            if name in RESERVED:
                raise UnsafeToParse(f"{name} makes it more than simple commands")
            if VARIABLE.match(name):
                raise UnsafeToParse(f"a variable is set that may change what runs: {name[:60]!a}")
            if not is_name(self._current[start]):
                raise UnsafeToParse(f"{self._current[start].text!a} is not a plain command name")
            command = SimpleCommand(tuple(self._current[start:]), tuple(self._reads), tuple(sorted(self._here)))
            self._found.append(command)
            if command.name == "cd":
                self._change_folder(command, following)
            self._wanted = ""
        elif self._reads or (self._negated and not self._closed):
            raise UnsafeToParse("a redirection or ! stands alone")
        if self._current or self._closed:
            self._before = following
            if following in (";", "\n", "||"):
                self._here, self._else = self._here | self._else, frozenset()
        self._current, self._reads, self._negated, self._closed = [], [], False, False

    def _change_folder(self, command: SimpleCommand, following: str) -> None:
        """After `cd x &&` commands run in x; after any other `cd x` they run in x or, if it failed, here."""
        operands = command.words[1:]
        is_one = len(operands) == 1 and not operands[0].is_glob and operands[0].text[:1] not in ("", "-")
        if not is_one or self._negated or self._before in (*PIPES, "||") or following in PIPES:
            raise UnsafeToParse("it is not clear where that cd leads, or what runs there")
        there = frozenset(posixpath.join(here, operands[0].text) for here in self._here)
        if following == "&&":
            self._here, self._else = there, self._here | self._else
        else:
            self._here |= there
        if len(self._here | self._else) > MAX_FOLDERS:
            raise UnsafeToParse("it changes folders too often")

    def _redirect(self, operator: str, descriptor: str) -> None:
        self._at += len(operator)
        self._skip_blanks()
        target = self.read_word()
        if len(descriptor) > 1:  # beyond some number it is a word
            raise UnsafeToParse(f"{descriptor} is not a usual file descriptor")
        if target.start == target.end:
            raise UnsafeToParse(f"nothing follows {operator}")
        if operator not in ("<<", "<<-"):
            self.words.append(target)
        if operator in OUTPUTS:
            if target.text != "/dev/null":
                raise UnsafeToParse(f"{operator} writes a file")
        elif operator == ">&":
            if target.text not in ("1", "2") or not target.plain:
                raise UnsafeToParse(">& writes a file")
        elif operator == "<" and descriptor in ("", "0") and not target.is_glob:
            self._reads.append(target)
        elif operator in ("<<", "<<-") and descriptor in ("", "0"):
            self._documents.append((target.text, not target.plain, operator == "<<-"))
        elif operator != "<<<" or descriptor not in ("", "0"):
            raise UnsafeToParse(f"{descriptor}{operator} is not a redirection known to be harmless")

    def _skip_documents(self) -> None:
        """Skip the here-documents that the line before announced."""
        for end, quoted, stripped in self._documents:
            while True:
                if self._at >= len(self._source):
                    raise UnsafeToParse("a here-document does not end")
                stop = self._source.find("\n", self._at)
                stop = len(self._source) if stop < 0 else stop
                line = self._source[self._at : stop]
                self._at = min(stop + 1, len(self._source))
                if (line.lstrip("\t") if stripped else line) == end:
                    break
                if not quoted and re.search(r"[$`\\]", line):
                    raise UnsafeToParse("the shell would replace something in a here-document")
        self._documents = []

    def read_word(self) -> ShellWord:
        source, start = self._source, self._at
        text: list[str] = []
        quoted: set[int] = set()
        plain = True
        while self._at < len(source) and source[self._at] not in ENDS_WORD:
            character = source[self._at]
            if character in "'\"\\":
                plain = False
                piece = {"'": self._read_single, '"': self._read_double, "\\": self._read_escaped}[character]()
                quoted.update(range(len(text), len(text) + len(piece)))
                text.extend(piece)
                continue
            self._refuse_replaced(character, text)
            text.append(character)
            self._at += 1
        return ShellWord("".join(text), start, self._at, frozenset(quoted), plain)

    def _refuse_replaced(self, character: str, before: list[str]) -> None:
        """Refuse an unquoted character that a shell would replace. Globs are judged later."""
        following = self._source[self._at + 1 : self._at + 2]
        if character == "$" and following not in ("", " ", "\t", "\n"):
            self._refuse_dollar(following)
        if character == "`":
            raise UnsafeToParse("backquotes run a command")
        if character in "{}":
            raise UnsafeToParse("braces may turn one word into several")
        if character == "~" and (not before or before[-1] in "=:"):
            raise UnsafeToParse("~ stands for a home folder")

    def _refuse_dollar(self, following: str) -> NoReturn:
        raise UnsafeToParse(
            "$( ) runs a command, or is arithmetic" if following == "(" else "$ is replaced by something unknown"
        )

    def _read_single(self) -> str:
        end = self._source.find("'", self._at + 1)
        if end < 0:
            raise UnsafeToParse("a ' is not closed")
        piece = self._source[self._at + 1 : end]
        self._at = end + 1
        return piece

    def _read_escaped(self) -> str:
        if self._at + 1 >= len(self._source):
            raise UnsafeToParse("it ends in a backslash")
        character = self._source[self._at + 1]
        self._at += 2
        return "" if character == "\n" else character

    def _read_double(self) -> str:
        source, piece = self._source, []
        at = self._at + 1
        while at < len(source) and source[at] != '"':
            character, following = source[at], source[at + 1 : at + 2]
            if character == "`":
                raise UnsafeToParse("backquotes run a command")
            if character == "$" and following not in ('"', " ", "|", ")"):
                self._refuse_dollar(following)
            if character == "\\" and following and following in '$`"\\\n':
                piece.append(following.replace("\n", ""))
                at += 2
                continue
            piece.append(character)
            at += 1
        if at >= len(source):
            raise UnsafeToParse('a " is not closed')
        self._at = at + 1
        return "".join(piece)
