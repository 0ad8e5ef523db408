"""Scripts that only show something are recognized; none that writes, runs or reads a file is."""

from __future__ import annotations

import pytest

from src.security.shell.scripts import FORMAT, compile_language


@pytest.mark.parametrize(
    "script", ["1,20p", "$p", "/^$/d; /^#/d", "s|/|_|g", r"s/\(a\)\/b/\1/p", "2!d", "/a/,/b/p;5q", "s/[[:space:]]*$//"]
)
def test_sed_may_show_lines(script):
    assert compile_language("sed").fullmatch(script)


@pytest.mark.parametrize(
    "script",
    [
        "w out",
        "e",
        "1e x",
        "s/a/b/e",
        "s/a/b/w out",
        "s|a|b|gw out",
        "r x",
        "p;w out",
        "p\nw out",
        "a\\",
        r"s/a/\x26/",
        "{p}",
    ],
)
def test_sed_may_do_nothing_else(script):
    assert not compile_language("sed").fullmatch(script)


@pytest.mark.parametrize(
    "script",
    [
        "{print $1}",
        'NR > 1 && !/x/ {print $1 ": " $NF, NR}',
        "NR==5,NR==10",
        "!seen[$0]++",
        "{s += $2; n++} END {print s}",
        "/[,]x/",
        "length($0) > 80",
    ],
)
def test_awk_may_show_lines_and_count(script):
    assert compile_language("awk").fullmatch(script)


@pytest.mark.parametrize(
    "script",
    [
        '{print > "out"}',
        '{print $1 >> "out"}',
        '{print | "sh"}',
        '"date" | getline',
        "{getline x < $1}",
        "{print getline}",
        'BEGIN {system("x")}',
        "{print ENVIRON[1]}",
        "/[/] {print > $1}/]/",
        '@load "x"',
        "{printf $1}",
        "{print ($1 > $2)}",
    ],
)
def test_awk_may_do_nothing_else(script):
    assert not compile_language("awk").fullmatch(script)


@pytest.mark.parametrize(
    "script",
    [
        ".",
        ".a.b[0]",
        ".[] | .name",
        ".a | keys",
        '.[] | select(.x == "y")',
        "map(.a) | length",
        "{a, b: .c}",
        "[.[].a]",
    ],
)
def test_jq_may_show_values(script):
    assert compile_language("jq").fullmatch(script)


@pytest.mark.parametrize(
    "script",
    ["env", "$ENV", ".a | env", "map(env)", "{a: env}", "[env]", "input_filename", 'import "a" as a; .', '"\\(env)"'],
)
def test_jq_may_show_nothing_else(script):
    assert not compile_language("jq").fullmatch(script)


def test_a_format_may_neither_store_nor_hide_what_it_is():
    assert all(FORMAT.fullmatch(each) for each in (r"%s\n", "%-10s|%5.2f", "100%%", ""))
    assert not any(FORMAT.fullmatch(each) for each in ("%n", "%*d", "%(%F)T", r"\x25n", r"\045n", "%", "50%!"))
