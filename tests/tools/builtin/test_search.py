"""glob and grep: what they find, and what they leave out."""

from __future__ import annotations

import fnmatch
import itertools
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from src.errors import ToolError
from src.tools import REGISTRY, ToolContext
from src.tools.builtin.search import _find_in_file, compile_glob
from src.tools.fs.baseline import Baseline
from src.tools.fs.grep import LineMatcher
from src.tools.fs.walk import Tree
from src.tools.sdk.context import Clock
from src.types.messages import ToolCall
from tests.each import check_rows

ERROR = "Error executing tool: "


def make(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.fixture
def found(run):
    """The lines of a result."""
    return lambda name, **arguments: run(name, **arguments).value.splitlines()


# glob


def test_files_are_found_by_name_in_order(workspace, found):
    make(workspace, {"b.py": "", "a.py": "", "src/c.py": "", "src/a/d.py": "", "src/c.txt": "", ".x/e.py": ""})
    assert found("glob", pattern="*.py") == [".x/e.py", "a.py", "b.py", "src/a/d.py", "src/c.py"]
    assert found("glob", pattern="src/*.py") == ["src/c.py"]
    assert found("glob", pattern="*.{py,txt}", path="src") == ["src/a/d.py", "src/c.py", "src/c.txt"]
    assert found("glob", pattern="a/*.py", path="src") == ["src/a/d.py"]
    assert found("glob", pattern="*.rs") == ["[no file matches]"]


def test_the_files_are_bounded_and_the_model_is_told(workspace, found):
    make(workspace, {f"f{number:04}": "" for number in range(1_001)})
    lines = found("glob", pattern="*")
    assert (len(lines), lines[-1]) == (1_001, "[more than 1,000 files; narrow the pattern]")


def test_what_gitignore_names_is_left_out(workspace, found):
    make(
        workspace,
        {
            ".gitignore": "*.log\nbuild/\n/top\n!keep.log\n# a comment\n\\\n",
            "a.log": "", "keep.log": "", "build/x": "", "top": "", "src/top": "", "src/build": "",
            "src/.gitignore": "!b.log\nsecret.*\n", "src/b.log": "", "src/secret.txt": "", "src/x/secret.py": "",
            ".git/config": "", "sub/.git/HEAD": "",
        },
    )  # fmt: skip
    assert found("glob", pattern="**") == [
        ".gitignore", "keep.log", "src/.gitignore", "src/b.log", "src/build", "src/top",
    ]  # fmt: skip


def test_a_gitignore_may_have_a_byte_order_mark(workspace, found):
    make(workspace, {".gitignore": "\ufeff*.log\n", "a.log": "", "a.txt": ""})
    assert found("glob", pattern="a.*") == ["a.txt"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="there is no /proc")
def test_a_folder_in_place_of_a_gitignore_stays_not_open(workspace, found):
    for number in range(20):
        make(workspace, {f"d{number}/.gitignore/a.txt": ""})
    before = len([*Path("/proc/self/fd").iterdir()])
    assert len(found("glob", pattern="a.txt")) == 20
    Baseline(workspace, workspace).refresh()
    assert len([*Path("/proc/self/fd").iterdir()]) < before + 10


def test_what_is_ignored_but_asked_for_by_name_is_searched(workspace, found):
    make(workspace, {".gitignore": "vendor/\n*.log\n", "vendor/a.py": "x", "vendor/b.log": "", "c.log": "x"})
    assert found("glob", pattern="*", path="vendor") == ["vendor/a.py", "vendor/b.log"]
    assert found("grep", pattern="x", path="c.log") == ["c.log:1:x"]


@pytest.mark.skipif(not shutil.which("git"), reason="there is no git")
@given(st.integers(0, 10**6))
def test_what_is_ignored_is_what_git_ignores(seed):
    """The files git would add, of a random tree with random .gitignore files."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        names = ["a", "b", "a.log", "build", "x.txt"]
        for _ in range(25):
            parts = [dice.choice(names) for _ in range(dice.randint(1, 3))]
            file = Path(name, *parts)
            if not any(parent.is_file() for parent in file.parents) and not file.exists():
                make(Path(name), {"/".join(parts): "x"})
        rules = ["*.log", "build/", "/a", "!a.log", "a/b", "**/x.txt", "b/**", "!build", "a*", "/*/b", "x.???"]
        for folder in [Path(name), *[each for each in Path(name).rglob("*") if each.is_dir()]]:
            if dice.random() < 0.4:
                make(folder, {".gitignore": "\n".join(dice.sample(rules, 3)) + "\n"})
        environment = {"PATH": os.environ["PATH"], "HOME": name, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", "init", "-q"], cwd=name, env=environment, check=True)
        listed = subprocess.run(
            ["git", "ls-files", "--others", "--exclude-standard"],
            cwd=name, env=environment, check=True, capture_output=True, text=True,
        ).stdout.splitlines()  # fmt: skip
        ours = REGISTRY.run(ToolCall("1", "glob", {"pattern": "**"}), ToolContext(Path(name))).value.splitlines()
        assert sorted(set(ours) - {"[no file matches]"}) == sorted(listed)


@pytest.mark.parametrize("name", ["glob", "grep"])
def test_nothing_outside_is_seen(name, workspace, tmp_path, run):
    make(tmp_path, {"outside/secret.txt": "CANARY"})
    for link, target in {"dir": "../outside", "secret": "../outside/secret.txt", "up": "..", "root": "/"}.items():
        (workspace / link).symlink_to(target)
    make(workspace, {"a.txt": "x"})
    pattern = {"glob": "**", "grep": "."}[name]
    assert run(name, pattern=pattern).value == {"glob": "a.txt", "grep": "a.txt:1:x"}[name]
    for path in ("..", "/etc", "dir", "secret", "../outside", "up/outside", "root/etc"):
        assert "is outside the workspace" in run(name, pattern=pattern, path=path).value
    assert run("glob", pattern="../**/*.txt").kind == "error"
    assert run("grep", pattern="CANARY", include="../outside/*").kind == "error"


@pytest.mark.parametrize("name", ["glob", "grep"])
def test_what_is_not_there_or_no_file_is_said_to_be_so(name, workspace, run):
    os.mkfifo(workspace / "pipe")
    assert run(name, pattern="x", path="no").value == ERROR + "no: No such file or directory"
    assert run(name, pattern="x", path="pipe").value == ERROR + "pipe is a pipe"
    assert run(name, pattern="pipe").value.startswith("[no ")


def test_an_invalid_pattern_is_refused(run):
    assert run("glob", pattern="{a,b}" * 12).value.endswith("Pattern limit exceeded the limit of 1000")
    assert run("grep", pattern="(").value.startswith(ERROR + "'(' is no regular expression: ")
    assert run("grep", pattern="").value.startswith(ERROR + "a pattern has 1 to 2,000 characters")
    assert run("grep", pattern="x", before=-1).value == ERROR + "before and after are 0 to 100"
    assert run("grep", pattern="x", max_matches=0).value == ERROR + "max_matches counts from 1"


GLOBS = [
    ("*.py", ["a.py", "x/a.py", ".py", "x/y/z.py"], ["a.pyc", "a/py", "a.py/x"]),
    ("src/*.py", ["src/a.py"], ["a.py", "src/x/a.py", "x/src/a.py"]),
    ("./src/*.py", ["src/a.py"], ["x/src/a.py"]),
    ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["x/src/a.py"]),
    ("**/test_*.py", ["test_a.py", "x/y/test_a.py"], ["test_a/x.py"]),
    ("**", ["a", "a/b"], []),
    ("src/**", ["src/a", "src/a/b"], ["src", "a/src/b"]),
    ("src/", ["src/a", "src/a/b"], ["src", "x/src"]),
    ("a**b", ["ab", "axb", "x/ab"], ["a/b"]),
    ("**/**/a", ["a", "x/a", "x/y/a"], ["b"]),
    ("?.txt", ["a.txt", "é.txt"], ["ab.txt", "/.txt"]),
    ("[ab].txt", ["a.txt"], ["c.txt", "[ab].txt"]),
    ("[!ab].txt", ["c.txt"], ["a.txt", "/.txt"]),
    ("[^ab].txt", ["c.txt"], ["a.txt"]),
    ("[]x].txt", ["].txt", "x.txt"], ["a.txt"]),
    ("[a-c][[].txt", ["b[.txt"], ["d[.txt"]),
    ("[a&&b].txt", ["&.txt", "a.txt"], ["c.txt"]),
    ("[ab", ["[ab"], ["a"]),
    ("x[z-a]", [], ["xz", "x", "x[z-a]"]),
    ("*.{js,ts}", ["a.js", "x/a.ts"], ["a.jsx", "a.{js,ts}"]),
    ("{src,test}/**/*.{c,h{pp,}}", ["src/a.c", "test/x/a.hpp", "src/a.h"], ["lib/a.c", "src/a.hp"]),
    ("{a,b", ["{a,b"], ["a"]),
    ("a+(b).$", ["a+(b).$"], ["aab"]),
    (r"a\*b", ["a*b"], ["axb"]),
    ("*", ["a", ".hidden", "x/a"], []),
]


@check_rows("pattern, fit, others", GLOBS)
def test_a_glob_fits_paths(pattern, fit, others):
    expression = compile_glob(pattern)
    assert [path for path in [*fit, *others] if expression.fullmatch(path)] == fit


@check_rows("pattern", ["../**/*.txt", "/etc/*", "a/../../b", "~/x", "{a,..}/b", "..", "x/.."])
def test_a_glob_that_leads_out_is_refused(pattern):
    with pytest.raises(ToolError, match="leads outside"):
        compile_glob(pattern)


@example("[!]", "[!]")
@given(
    st.text(st.sampled_from("ab*?[]!"), min_size=1, max_size=6),
    st.text(st.sampled_from("ab[]!"), min_size=1, max_size=5),
)
def test_without_folders_it_is_the_standard_librarys(pattern, name):
    assert bool(compile_glob(pattern).fullmatch(name)) == fnmatch.fnmatchcase(name, pattern)


# grep


def test_lines_are_shown_with_path_and_number(workspace, found):
    make(workspace, {"b.txt": "one\ntwo\nthree", "a/c.txt": "two\r\n", "a/d.bin": b"two\0"})
    assert found("grep", pattern="two") == ["a/c.txt:1:two", "b.txt:2:two"]
    assert found("grep", pattern="^t.*e$", path="b.txt") == ["b.txt:3:three"]
    assert found("grep", pattern="TWO") == ["[no line matches]"]
    assert found("grep", pattern="TWO", ignore_case=True) == ["a/c.txt:1:two", "b.txt:2:two"]
    assert found("grep", pattern="two", include="*.txt", path="a") == ["a/c.txt:1:two"]
    assert found("grep", pattern="two", include="b*") == ["b.txt:2:two"]


def test_lines_around_a_match_are_shown_once_and_gaps_marked(workspace, found):
    make(workspace, {"a.txt": "".join(f"{number}\n" for number in range(1, 21))})
    assert found("grep", pattern="^(3|5|15)$", before=2, after=1) == [
        "a.txt-1-1", "a.txt-2-2", "a.txt:3:3", "a.txt-4-4", "a.txt:5:5", "a.txt-6-6",
        "--", "a.txt-13-13", "a.txt-14-14", "a.txt:15:15", "a.txt-16-16",
    ]  # fmt: skip
    assert found("grep", pattern="^(3|15)$") == ["a.txt:3:3", "a.txt:15:15"]


def test_matches_are_bounded_and_the_model_is_told(workspace, found):
    make(workspace, {"a.txt": "x\n" * 5, "b.txt": "x\n" * 5})
    assert found("grep", pattern="x", max_matches=6) == [
        "a.txt:1:x", "a.txt:2:x", "a.txt:3:x", "a.txt:4:x", "a.txt:5:x", "b.txt:1:x", "[there are more than 6 matches]",
    ]  # fmt: skip
    assert len(found("grep", pattern="x", max_matches=10)) == 10


def test_what_is_around_a_match_that_is_not_shown_is_not_shown_either(workspace, found):
    make(workspace, {"a.txt": "x\n1\n2\n3\nx\n", "b.txt": "0\nx\n"})
    more = "[there are more than {} matches]"
    assert found("grep", pattern="x", max_matches=1, before=1, after=1) == ["a.txt:1:x", "a.txt-2-1", more.format(1)]
    assert found("grep", pattern="x", max_matches=2, before=1)[-3:] == ["a.txt-4-3", "a.txt:5:x", more.format(2)]


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("pattern", ["grün", "gr.n", "^gr", "Wald"])
def test_text_is_searched_in_its_encoding(codec, pattern, workspace, found):
    make(workspace, {"a.txt": "grüner Wald\nx\n".encode(codec)})
    assert found("grep", pattern=pattern) == ["a.txt:1:grüner Wald"]


def test_a_long_line_is_shown_where_it_matches(workspace, found):
    make(workspace, {"a.js": "x" * 5_000 + "needle" + "y" * 5_000 + "\n"})
    (line,) = found("grep", pattern="needle")
    assert line.startswith("a.js:1:[...] xxx")
    assert "xneedley" in line
    assert line.endswith("y [...]")
    assert len(line) < 600


@pytest.mark.parametrize("name", ["glob", "grep"])
def test_a_search_that_takes_too_long_says_that_not_all_was_seen(name, workspace):
    make(workspace, {"a.txt": "x\n", "b/c.txt": "x\n"})
    seconds = itertools.chain([0.0], itertools.repeat(100.0))
    ctx = ToolContext(workspace, clock=Clock(monotonic=lambda: next(seconds)))
    value = REGISTRY.run(ToolCall("1", name, {"pattern": "x"}), ctx).value
    assert value == "[not all files were seen within 30 s; name a folder]"


def test_a_file_that_cannot_be_opened_is_passed_over(workspace, run):
    make(workspace, {"a.txt": "x\n"})
    with Tree(".", ToolContext(workspace)).open_root() as tree:
        matcher = LineMatcher("x", time.monotonic, literal=True, ignore_case=False)
        assert list(_find_in_file(tree, "none.txt", matcher, 0, 0)) == []
        assert [line.text for line in _find_in_file(tree, "a.txt", matcher, 0, 0)] == ["x"]


def test_a_cancelled_search_ends(workspace, tmp_path):
    make(workspace, {"a.txt": "x\n"})
    ctx = ToolContext(workspace)
    with ctx.for_run() as within:
        within.cancelled.set()
        for name in ("glob", "grep"):
            assert REGISTRY.run(ToolCall("1", name, {"pattern": "x"}), within).value == ERROR + "it was cancelled"


# Beside a plain search


WORDS = ["alpha", "beta", "Gamma", "k", "grün", "ΩMEGA", "alp.ha", "", "x" * 50, "be\ta", "İi", "K"]


def random_tree(folder: Path, dice: random.Random) -> None:
    """Files of every kind."""
    for number in range(40):
        lines = [" ".join(dice.choices(WORDS, k=dice.randint(0, 5))) for _ in range(dice.randint(0, 6))]
        text = dice.choice(["\n", "\r\n"]).join(lines) + dice.choice(["", "\n"])
        codec = dice.choice(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"])
        data = text.encode(codec, "replace") + dice.choice([b"", b"", b"", b"\0", b"\xff\xfe"])
        place = "/".join([*dice.choices(["a", "b", "node_modules", ".hidden"], k=dice.randint(0, 2)), f"f{number}.txt"])
        make(folder, {place: data})
    make(folder, {".gitignore": "node_modules/\n", "a/.gitignore": "f1*\n"})
    (folder / "link").symlink_to("/etc")


PATTERNS = ["alpha", "Gamma|beta", "alpha.*beta", r"al\w+", r"alp\.ha", "gr.n", "grün", "^alpha$", "(?i)alpha", "k", "xx+",
            "Alpha", "gamma", "nothing like it", "ΩMEGA", "a{2}|beta"]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_the_lines_are_those_a_plain_loop_finds(seed, tmp_path):
    dice = random.Random(seed)
    random_tree(tmp_path, dice)
    ctx = ToolContext(tmp_path)
    for pattern in PATTERNS:
        for ignore_case in (False, True):
            arguments = {
                "pattern": pattern,
                "ignore_case": ignore_case,
                "before": dice.randint(0, 2),
                "max_matches": 999,
            }
            shown = REGISTRY.run(ToolCall("1", "grep", arguments), ctx).value
            assert shown == naively(tmp_path, pattern, ignore_case, shown)


def naively(folder: Path, pattern: str, ignore_case: bool, shown: str) -> str:
    """`shown` again where the lines that match in it are those a plain loop over the files finds."""
    expression = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    expected = set()
    for file in folder.rglob("*.txt"):
        name = str(file.relative_to(folder))
        if "node_modules" in name or re.match(r"a/(.*/)?f1", name) or (text := text_of(file)) is None:
            continue
        lines = text.removesuffix("\n").split("\n") if text else []
        expected |= {
            f"{name}:{number}:{line}"
            for number, line in enumerate((line.removesuffix("\r") for line in lines), 1)
            if expression.search(line)
        }
    matching = {line for line in shown.split("\n") if re.match(r"[^:]*?\.txt:\d+:", line)}
    return shown if matching == expected else f"should be {sorted(expected)}"


def text_of(file: Path) -> str | None:
    """None for a binary file."""
    data = file.read_bytes()
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        return None
    lines = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            lines.append(line.decode())
        except UnicodeDecodeError:
            lines.append(line.decode("latin-1"))
    return "\n".join(lines)


def test_files_that_rules_keep_from_the_tool_are_left_out_and_it_is_said(workspace):
    make(workspace, {".env": "KEY=1\n", "a.py": "KEY = 2\n"})
    ctx = ToolContext(workspace).rewire(can_show=lambda tool, path: tool != "grep" or path != ".env")
    left_out = "[files that a rule keeps from grep were left out]"
    assert REGISTRY["grep"].execute({"pattern": "KEY"}, ctx).value == f"a.py:1:KEY = 2\n{left_out}"
    assert REGISTRY["grep"].execute({"pattern": "KEY", "path": ".env"}, ctx).value == left_out
    assert REGISTRY["glob"].execute({"pattern": "*.env"}, ctx).value == ".env"
