"""Code that is highlighted line by line looks as if it were highlighted as a whole."""

import re

from rich.color import ColorSystem

from src.cli.render import highlight
from src.cli.render.colours import DARK
from src.cli.render.highlight import CodeHighlighter, StylePainter
from tests.each import check_rows

PAINTER = StylePainter(ColorSystem.STANDARD, DARK)

CODE = {
    "python": 'def f(x):\n    """Says\n\n    if so.\n    """\n    return f"{x}"  # done\n',
    "c": "/* a\n   int b; */\nint main(void) {\n    return 0; // fine\n}\n",
    "bash": 'for x in "$@"; do\n    echo "$x"\ndone\n',
    "css": "a {\n    color: red;\n}\n",
    "html": '<script>\nvar x = 1;\n</script>\n<p class="x">text</p>\n',
    "yaml": 'a:\n  - b: "c"\n  d: |\n    text\n',
    "json": '{"a": [1, 2,\n {"b": null}]}\n',
    "diff": "+a\n-b\n c\n",
    "no such language": "x = 1\n\ty\n",
    "": "x\n",
}


def bare(lines):
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]


@check_rows("language", CODE)
def test_one_line_at_a_time_is_coloured_as_all_together(language):
    lines = CODE[language].split("\n")
    together = CodeHighlighter(language, PAINTER).highlight(lines, keep=True)
    code = CodeHighlighter(language, PAINTER)
    assert [drawn for line in lines for drawn in code.highlight([line], keep=True)] == together
    assert bare(together) == [line.expandtabs(4) for line in lines]


def test_a_line_that_is_not_whole_yet_is_before_nothing():
    code = CodeHighlighter("python", PAINTER)
    alone = code.highlight(["x = 1"], keep=False)
    code.highlight(['text = """'], keep=False)
    assert code.highlight(["x = 1"], keep=False) == alone


def test_what_began_lines_above_is_known_however_much_came_since():
    code = CodeHighlighter("python", PAINTER)
    inside = code.highlight(['"""', "def f(): pass"], keep=True)[1]
    code.highlight(["words " * 20] * 100, keep=True)
    assert code.highlight(["def f(): pass"], keep=True) == [inside]


def test_what_is_very_long_has_no_colours():
    assert highlight.CodeHighlighter("python", PAINTER).highlight(["x" * highlight.MAX_CHARS], keep=False) == [
        "x" * highlight.MAX_CHARS
    ]


def test_nothing_in_it_steers_the_terminal():
    assert "\x1b[2J" not in "".join(CodeHighlighter("python", PAINTER).highlight(["x\x1b[2J\u202e"], keep=True))
