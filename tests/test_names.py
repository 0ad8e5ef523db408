"""The size of folders and the names of classes and functions, read with `ast`.

`python -m tests.test_names` prints the figures and what breaks them.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from .sources import SOURCES, SRC, nodes
from .test_layers import FILES, imports

MAX_FILES = 14  # in one folder
MAX_PARTICIPLES = 0.06  # of all functions
MIN_LINES_ALONE = 60  # of a file that one other file imports
PUBLIC_TWICE = {"Agent"}  # the public class and no other
IRREGULAR = frozenset(
    [
        "begun",
        "bound",
        "broken",
        "built",
        "done",
        "drawn",
        "drunk",
        "fed",
        "felt",
        "found",
        "given",
        "gone",
        "grown",
        "had",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "led",
        "learnt",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "said",
        "seen",
        "sent",
        "shown",
        "sold",
        "sought",
        "spent",
        "spoken",
        "stood",
        "swept",
        "taken",
        "thought",
        "thrown",
        "told",
        "understood",
        "won",
        "worn",
        "written",
    ]
)
NOT_PARTICIPLES = frozenset({"bed", "embed", "exceed", "feed", "need", "proceed", "red", "seed", "shed", "speed"})


def is_participle(word: str) -> bool:
    return word in IRREGULAR or (len(word) > 3 and word.endswith("ed") and word not in NOT_PARTICIPLES)


def functions() -> Iterator[tuple[Path, str]]:
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("__"):
                yield path, node.name


def participles() -> list[tuple[Path, str]]:
    """Functions whose name begins with a participle: `_said`, `served_models`; not `is_started`."""
    return [(path, name) for path, name in functions() if is_participle(name.strip("_").partition("_")[0])]


def repeated_classes() -> set[str]:
    names = Counter(node.name for path in SOURCES for node in nodes(path) if isinstance(node, ast.ClassDef))
    return {name for name, count in names.items() if count > 1}


def count_files_by_folder() -> dict[str, int]:
    """How many files lie in each folder."""
    sizes = Counter(path.parent for path in SRC.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(SRC.parent)): size for path, size in sizes.items()}


def large_folders() -> dict[str, int]:
    return {name: size for name, size in count_files_by_folder().items() if size > MAX_FILES}


def small_files_of_one_user() -> dict[str, str]:
    """Files of fewer than MIN_LINES_ALONE lines that exactly one other file imports, and that file. A package is no place for code."""
    users = defaultdict(set)
    for each in imports():
        if each.ours and each.target != each.module:
            users[each.target].add(each.module)
    return {
        name: next(iter(users[name]))
        for name, path in FILES.items()
        if path.name != "__init__.py"
        and len(users[name]) == 1
        and FILES.get(next(iter(users[name])), path).name != "__init__.py"
        and len(path.read_text(encoding="utf-8").splitlines()) < MIN_LINES_ALONE
    }


def test_a_folder_holds_no_more_than_can_be_looked_over():
    assert large_folders() == {}


def test_a_class_name_stands_for_one_class():
    assert repeated_classes() - PUBLIC_TWICE == set()


def test_functions_are_named_by_verbs():
    assert len(participles()) < MAX_PARTICIPLES * sum(1 for _ in functions())


def test_a_small_file_with_one_user_lives_in_it():
    assert small_files_of_one_user() == {}


def main() -> None:
    total = sum(1 for _ in functions())
    print(f"lines of src: {sum(len(path.read_text(encoding='utf-8').splitlines()) for path in SOURCES):,}")
    largest, size = max(count_files_by_folder().items(), key=lambda item: item[1])
    print(f"files of src: {len(SOURCES)}; most in one folder: {size} ({largest}), and at most {MAX_FILES} are allowed")
    print(f"class names twice: {sorted(repeated_classes())}")
    found = participles()
    print(f"functions named by a participle: {len(found)} of {total} ({100 * len(found) / total:.1f} %)")
    for path, name in found:
        print(f"  {path.relative_to(SRC.parent)}: {name}")
    for name, user in small_files_of_one_user().items():
        print(f"  small, and only {user} imports it: {name}")


if __name__ == "__main__":
    main()
