"""The tools beside rg, grep and cat: python tests/benchmarks/tools.py [--files N] [--gigabytes N]

A tree of source files is searched and read by the tools, and by rg, grep and cat, started as processes. Then an output of a gigabyte is read and searched in the output cache, and a file of five (a
sparse one) is read at its end. Times are seconds on the clock, the least of a few rounds; memory is the most that
this process held at once, in MB, before and after. There is no goal: the bare programs are the measure.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from src.tools import REGISTRY, ToolContext  # noqa: E402
from src.tools.sdk.output_store import Outputs  # noqa: E402
from src.types.messages import ToolCall  # noqa: E402

ROUNDS = 3
SEARCHES = [
    ("a rare word", "needle_in_the_hay"),
    ("a rare word in an expression", r"def\s+needle_\w+\("),
    ("a common word", "return"),
    ("no word to look for", r"\d{7}"),
]


def seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def make_tree(folder: Path, files: int) -> int:
    """Files of real source code, 20 a folder, every hundredth with a needle; their bytes."""
    dice = random.Random(1)
    lines = [line for path in (ROOT / "src").rglob("*.py") for line in path.read_text().splitlines(keepends=True)]
    size = 0
    for number in range(files):
        start = dice.randrange(len(lines))
        text = "".join(lines[start : start + dice.randint(20, 300)])
        if number % 100 == 0:
            text += "def needle_in_the_hay():\n    pass\n"
        place = folder / f"d{number // 400}" / f"d{number // 20 % 20}" / f"f{number}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        size += len(text)
    (folder / ".gitignore").write_text("*.pyc\nbuild/\nnode_modules/\n")
    return size


def run(ctx: ToolContext, name: str, **arguments: object) -> str:
    result = REGISTRY.run(ToolCall("1", name, arguments), ctx)
    assert result.kind == "text", result.value
    return str(result.value)


def process(*command: str, cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def search(folder: Path, outputs: Outputs) -> None:
    ctx = ToolContext(folder).rewire(outputs=outputs)
    print(f"{'search':34} {'ours':>9} {'rg':>9} {'grep -rP':>9}")
    for name, pattern in SEARCHES:
        ours = seconds(lambda p=pattern: run(ctx, "grep", pattern=p, max_matches=10_000))
        theirs = [
            seconds(lambda c=command: process(*c, cwd=folder)) if shutil.which(command[0]) else float("nan")
            for command in (("rg", "-n", pattern), ("grep", "-rnP", pattern, "."))
        ]
        print(f"{name:34} " + " ".join(f"{each:9.3f}" for each in [ours, *theirs]))
    print(f"{'glob **/*.py':34} {seconds(lambda: run(ctx, 'glob', pattern='**/*.py')):9.3f} "
          f"{seconds(lambda: process('rg', '--files', '-g', '*.py', cwd=folder)):9.3f}")  # fmt: skip


def read(folder: Path, outputs: Outputs) -> None:
    ctx = ToolContext(folder).rewire(outputs=outputs)
    files = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.py"))]
    each = seconds(lambda: [run(ctx, "read", path=path) for path in files], 1) / len(files)
    bare = seconds(lambda: [(folder / path).read_bytes() for path in files], 1) / len(files)
    cat = seconds(lambda: [process("cat", path, cwd=folder) for path in files[:300]], 1) / 300
    print(
        f"\nread, a file: ours {each * 1e3:.3f} ms (checked, numbered, hashed, stored), open() {bare * 1e3:.3f}, cat {cat * 1e3:.3f}"
    )


def cache(folder: Path, gigabytes: float) -> None:
    outputs = Outputs(folder / "outputs")
    ctx = ToolContext(folder).rewire(outputs=outputs)
    block = "".join(
        f"{number:06} a line of the output, as a build would print it\n" for number in range(20_000)
    ).encode()
    before = peak()
    begun = time.perf_counter()
    with closing(outputs.open_writer()) as writer:
        while writer.size < gigabytes * 1e9:
            writer.write(block)
        writer.write(b"needle\n")
    last = writer.size // len(block) * 20_000
    print(f"\na cached output of {writer.size / 1e9:.2f} GB, {last:,} lines")
    print(f"  stored in {time.perf_counter() - begun:.2f} s")
    for name, call in {
        "its begin read": lambda: run(ctx, "tool_output_cache", ref_id=writer.ref),
        "its end read": lambda: run(ctx, "tool_output_cache", ref_id=writer.ref, offset=last),
        "a word searched": lambda: run(ctx, "tool_output_cache_grep", ref_id=writer.ref, pattern="needle"),
        "an expression searched": lambda: run(
            ctx, "tool_output_cache_grep", ref_id=writer.ref, pattern="ne+dle", regex=True
        ),
        "cat": lambda: process("cat", str(folder / "outputs" / writer.ref), cwd=folder),
        "grep -F": lambda: process("grep", "-nF", "needle", str(folder / "outputs" / writer.ref), cwd=folder),
    }.items():
        print(f"  {name:24} {seconds(call, 1):7.2f} s")
    huge = folder / "huge.txt"
    with huge.open("wb") as file:
        file.write(block * 20)
        file.truncate(5_000_000_000)
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe end\n")
    took = seconds(lambda: run(ctx, "read", path="huge.txt", offset=20 * 20_000 + 2), 1)
    print(f"  a file of 5 GB read at its end {took:.2f} s")
    print(f"  memory {before:.0f} MB before, {peak():.0f} MB at the most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "tree")
        folder.mkdir()
        size = make_tree(folder, given.files)
        print(f"{given.files:,} files, {size / 1e6:.0f} MB")
        outputs = Outputs(Path(name, "outputs"))
        search(folder, outputs)
        read(folder, outputs)
        cache(Path(name), given.gigabytes)


if __name__ == "__main__":
    main()
