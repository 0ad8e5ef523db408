"""A command line into simple commands of literal words, or why it is more than that. Pure, linear.

    read("cat a.txt | grep -c 'x y'") -> (Command((cat, a.txt)), Command((grep, -c, x y)))

Two readers must agree: the scanner below, which knows what quotes and backslashes mean and refuses whatever a shell
would replace, and tree-sitter-bash (src/security/shell/syntax.py), which knows the whole language. What either does not
know, or what they see differently, is Unclear: never allowed without asking.

Known are words, quotes, globs, comments, `|`, `|&`, `&&`, `||`, `;`, line ends, `!`, `( )`, `cd`, variables that only
change how something looks, descriptors joined (`2>&1`), output to /dev/null, input from a file, and here-documents and
here-strings in which nothing is replaced. Source of the rules: POSIX XCU chapter 2 and bash(1) 5.2, read for a shell
that runs `-c` and is not interactive.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from typing import NamedTuple, NoReturn

from . import syntax
from .unclear import Unclear

LONGEST = 10_000  # characters of a command line
ENDS_WORD = frozenset(" \t\n|&;<>()")
GLOB = frozenset("*?[")
INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})  # of Unicode's general categories
DRAWN_AS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
BLANK = re.compile(r"(?:[ \t]|\\\n)*")
OPERATOR = re.compile(r"&>>|&>|&&|&|\|\||\|&|\||;;&|;;|;&|;|<<<|<<-|<<|<&|<>|<|>>|>&|>\||>|\(|\)")
JOINS = {"|": True, "|&": True, "&&": True, "||": True, ";": False}  # operator -> whether a command must follow
PIPES = ("|", "|&")
MOST_FOLDERS = 8  # that a command may run in, for all that is known of the `cd` before it
OUTPUTS = (">", ">>", ">|", "&>", "&>>")
_RESERVED = "! { } [[ ]] if then else elif fi case esac for select while until do done in function coproc"
RESERVED = frozenset(_RESERVED.split())
DESCRIPTOR = re.compile("[0-9]+")
VARIABLE = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
NAME = re.compile(r"[A-Za-z0-9_./+-]+|\[")


class Word(NamedTuple):
    """What a program is given, less what quoted it, and from where to where it stood in the line.

    `quoted` are the places in `text` of what was quoted; `plain` says that nothing was, not even nothing.
    """

    text: str
    start: int
    end: int
    quoted: frozenset[int] = frozenset()
    plain: bool = True

    @property
    def is_glob(self) -> bool:
        return any(character in GLOB and at not in self.quoted for at, character in enumerate(self.text))


class Command(NamedTuple):
    """`reads`: files that its standard input comes from; `folders`: where it may run, from the workspace."""

    words: tuple[Word, ...]
    reads: tuple[Word, ...] = ()
    folders: tuple[str, ...] = (".",)

    @property
    def name(self) -> str:
        return self.words[0].text

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


def read(source: str) -> tuple[Command, ...]:
    """The simple commands of a command line. Raises Unclear."""
    if len(source) > LONGEST:
        raise Unclear(f"the command is longer than {LONGEST:,} characters")
    _refuse_unseen(source)
    scanner = Scanner(source)
    commands = scanner.commands()
    syntax.confirm(
        source,
        [(word.start, word.end) for word in scanner.words],
        [each.words[0].start for each in commands],
        [*scanner.groups, *scanner.negations],
    )
    return commands


def is_name(word: Word) -> bool:
    """Whether a shell looks for a command of just this name."""
    return word.plain and NAME.fullmatch(word.text) is not None and word.text not in RESERVED


def words_of(text: str) -> tuple[str, ...]:
    """The words of a rule's command; such as no shell would read as plain words are split at blanks."""
    try:
        commands = Scanner(text).commands()
    except Unclear:
        return tuple(text.split())
    return commands[0].texts if len(commands) == 1 else tuple(text.split())


def literal(source: str) -> str | None:
    """What one word is to a program; None where a shell puts something in its place."""
    try:
        word = Scanner(source).word()
    except Unclear:
        return None
    return None if word.is_glob or word.end < len(source) else word.text


def _is_assignment(word: Word) -> bool:
    return word.plain and syntax.ASSIGNMENT.fullmatch(word.text) is not None


def _refuse_unseen(source: str) -> None:
    for character in source if not source.isascii() else set(source):
        if character not in " \n\t" and unicodedata.category(character) in INVISIBLE:
            raise Unclear(
                f"it contains the character U+{ord(character):04X}, which may be invisible or look like another"
            )
    if DRAWN_AS_NOTHING.search(source):
        raise Unclear("it contains an invisible character")


class Scanner:
    """One pass from left to right; `words` are all words met, those of redirections included."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._current: list[Word] = []
        self._reads: list[Word] = []
        self._found: list[Command] = []
        self._documents: list[tuple[str, bool, bool]] = []  # here-documents to come: end, quoted, tabs stripped
        self._wanted = ""  # the operator that a command must follow
        self._before = ""  # the operator before the current command
        self._negated = False
        self._closed = False  # a group, whose end nothing but an operator or a redirection follows
        self._here = frozenset({"."})  # folders that the current command may run in
        self._else = frozenset[str]()  # those that the next list of commands may run in besides
        self._outer: list[tuple[int, frozenset[str], frozenset[str]]] = []  # groups that are open
        self.words: list[Word] = []
        self.groups: list[int] = []  # where each begins
        self.negations: list[int] = []

    def commands(self) -> tuple[Command, ...]:
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
            raise Unclear("it ends too early")
        if not self._found:
            raise Unclear("it contains no command")
        return tuple(self._found)

    def _skip_blanks(self) -> bool:
        blank = BLANK.match(self._source, self._at)
        self._at = blank.end() if blank else self._at
        return self._at < len(self._source)

    def _take_word(self) -> None:
        word = self.word()
        following = self._source[self._at : self._at + 1]
        if word.plain and DESCRIPTOR.fullmatch(word.text) and following and following in "<>":
            operator = OPERATOR.match(self._source, self._at)
            assert operator  # noqa: S101 - < and > begin one
            self._redirect(operator[0], word.text)
            return
        if self._closed:
            raise Unclear("a word follows )")
        if word.plain and word.text == "!" and not self._current:
            if self._negated or self._before in PIPES:
                raise Unclear("! is not at the beginning of a pipeline")
            if following not in (" ", "\t"):
                raise Unclear("! and what follows may be a pattern")
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
                raise Unclear(f"there is no command before {operator}")
            self._finish(operator)
            self._wanted = operator if JOINS[operator] else ""
        elif operator == "(" and not (self._current or self._reads or self._closed):
            self._open()
        elif operator == ")" and self._outer:
            self._close()
        elif operator == "&":
            raise Unclear("& leaves a command running in the background")
        else:
            raise Unclear(f"{operator} makes it more than simple commands")

    def _open(self) -> None:
        self.groups.append(self._at)
        self._outer.append((self._at, self._here, self._else))
        self._at += 1
        if self._source.startswith("(", self._at):
            raise Unclear("(( begins arithmetic")
        self._else, self._before, self._negated, self._wanted = frozenset(), "", False, "("

    def _close(self) -> None:
        self._at += 1
        self._finish(")")
        if self._wanted:
            raise Unclear("there is no command before )")
        _, self._here, self._else = self._outer.pop()
        self._closed = True

    def _finish(self, following: str) -> None:
        """At a command's end, which an operator follows; a line that is empty ends none."""
        if self._current:
            start = next((at for at, word in enumerate(self._current) if not _is_assignment(word)), -1)
            name = self._current[start].text
            if name in RESERVED:
                raise Unclear(f"{name} makes it more than simple commands")
            if VARIABLE.match(name):
                raise Unclear(f"a variable is set that may change what runs: {name[:60]!a}")
            if not is_name(self._current[start]):
                raise Unclear(f"{self._current[start].text!a} is not a plain command name")
            command = Command(tuple(self._current[start:]), tuple(self._reads), tuple(sorted(self._here)))
            self._found.append(command)
            if command.name == "cd":
                self._change_folder(command, following)
            self._wanted = ""
        elif self._reads or (self._negated and not self._closed):
            raise Unclear("a redirection or ! stands alone")
        if self._current or self._closed:
            self._before = following
            if following in (";", "\n", "||"):
                self._here, self._else = self._here | self._else, frozenset()
        self._current, self._reads, self._negated, self._closed = [], [], False, False

    def _change_folder(self, command: Command, following: str) -> None:
        """Where what follows a `cd` runs: there, if it is reached only where that succeeds; else there or here."""
        operands = command.words[1:]
        is_one = len(operands) == 1 and not operands[0].is_glob and operands[0].text[:1] not in ("", "-")
        if not is_one or self._negated or self._before in (*PIPES, "||") or following in PIPES:
            raise Unclear("it is not clear where that cd leads, or what runs there")
        there = frozenset(posixpath.join(here, operands[0].text) for here in self._here)
        if following == "&&":
            self._here, self._else = there, self._here | self._else
        else:
            self._here |= there
        if len(self._here | self._else) > MOST_FOLDERS:
            raise Unclear("it changes folders too often")

    def _redirect(self, operator: str, descriptor: str) -> None:
        self._at += len(operator)
        self._skip_blanks()
        target = self.word()
        if len(descriptor) > 1:  # beyond some number it is a word
            raise Unclear(f"{descriptor} is not a usual file descriptor")
        if target.start == target.end:
            raise Unclear(f"nothing follows {operator}")
        if operator not in ("<<", "<<-"):
            self.words.append(target)
        if operator in OUTPUTS:
            if target.text != "/dev/null":
                raise Unclear(f"{operator} writes a file")
        elif operator == ">&":
            if target.text not in ("1", "2") or not target.plain:
                raise Unclear(">& writes a file")
        elif operator == "<" and descriptor in ("", "0") and not target.is_glob:
            self._reads.append(target)
        elif operator in ("<<", "<<-") and descriptor in ("", "0"):
            self._documents.append((target.text, not target.plain, operator == "<<-"))
        elif operator != "<<<" or descriptor not in ("", "0"):
            raise Unclear(f"{descriptor}{operator} is not a redirection known to be harmless")

    def _skip_documents(self) -> None:
        """Past the here-documents that were announced on the line that has just ended."""
        for end, quoted, stripped in self._documents:
            while True:
                if self._at >= len(self._source):
                    raise Unclear("a here-document does not end")
                stop = self._source.find("\n", self._at)
                stop = len(self._source) if stop < 0 else stop
                line = self._source[self._at : stop]
                self._at = min(stop + 1, len(self._source))
                if (line.lstrip("\t") if stripped else line) == end:
                    break
                if not quoted and re.search(r"[$`\\]", line):
                    raise Unclear("the shell would replace something in a here-document")
        self._documents = []

    def word(self) -> Word:
        source, start = self._source, self._at
        text: list[str] = []
        quoted: set[int] = set()
        plain = True
        while self._at < len(source) and source[self._at] not in ENDS_WORD:
            character = source[self._at]
            if character in "'\"\\":
                plain = False
                piece = {"'": self._single, '"': self._double, "\\": self._escaped}[character]()
                quoted.update(range(len(text), len(text) + len(piece)))
                text.extend(piece)
                continue
            self._refuse_replaced(character, text)
            text.append(character)
            self._at += 1
        return Word("".join(text), start, self._at, frozenset(quoted), plain)

    def _refuse_replaced(self, character: str, before: list[str]) -> None:
        """What stands there unquoted must not be what a shell puts something else in place of; globs are seen to."""
        following = self._source[self._at + 1 : self._at + 2]
        if character == "$" and following not in ("", " ", "\t", "\n"):
            self._refuse_dollar(following)
        if character == "`":
            raise Unclear("backquotes run a command")
        if character in "{}":
            raise Unclear("braces may turn one word into several")
        if character == "~" and (not before or before[-1] in "=:"):
            raise Unclear("~ stands for a home folder")

    def _refuse_dollar(self, following: str) -> NoReturn:
        raise Unclear(
            "$( ) runs a command, or is arithmetic" if following == "(" else "$ is replaced by something unknown"
        )

    def _single(self) -> str:
        end = self._source.find("'", self._at + 1)
        if end < 0:
            raise Unclear("a ' is not closed")
        piece = self._source[self._at + 1 : end]
        self._at = end + 1
        return piece

    def _escaped(self) -> str:
        if self._at + 1 >= len(self._source):
            raise Unclear("it ends in a backslash")
        character = self._source[self._at + 1]
        self._at += 2
        return "" if character == "\n" else character

    def _double(self) -> str:
        source, piece = self._source, []
        at = self._at + 1
        while at < len(source) and source[at] != '"':
            character, following = source[at], source[at + 1 : at + 2]
            if character == "`":
                raise Unclear("backquotes run a command")
            if character == "$" and following not in ('"', " ", "|", ")"):
                self._refuse_dollar(following)
            if character == "\\" and following and following in '$`"\\\n':
                piece.append(following.replace("\n", ""))
                at += 2
                continue
            piece.append(character)
            at += 1
        if at >= len(source):
            raise Unclear('a " is not closed')
        self._at = at + 1
        return "".join(piece)
