"""`vllm-bot eval --replay` and `--export`: what `serve --record` has written, read again. See docs/records.md."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...errors import FAILED, ConfigError
from ...eval.export import FORMS, export_atif, export_openai
from ...eval.record_lines import DamagedLine, RecordLine, read_lines
from ...eval.replay import Unreadable, compare, find_obstacle, replay
from ...security.text.sanitize import sanitize

USAGE_OF_EXPORT = "--export takes the form, openai or atif, and then the files of the record."

UNREAD = {  # why calls are not read again
    "relayed": "Relayed answers passed as they came: no reader made anything of them.",
    "redacted": "A redacted record holds no answers of the server.",
    "damaged": "Damaged lines are named above.",
}


def add_record_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_mutually_exclusive_group().add_argument
    add(
        "--replay",
        metavar="FILE",
        nargs="+",
        help="read what `serve --record` wrote once more, and show where calls or texts differ now",
    )
    add(
        "--export",
        metavar=("FORM", "FILE"),
        nargs="+",
        help="turn a record into OpenAI's fine-tuning examples (openai) or trajectories (atif), at --out",
    )


def run_records(options: argparse.Namespace) -> int:
    """Returns the exit code. Raises ConfigError."""
    if options.replay:
        return run_replay([Path(each) for each in options.replay])
    form, *files = options.export
    if form not in FORMS or not files:
        raise ConfigError(USAGE_OF_EXPORT)
    if not options.out:
        wanted = "a file" if form == "openai" else "a folder"
        raise ConfigError(f"--export {form} needs --out: {wanted} for what is written.")
    return run_export(form, [Path(each) for each in files], Path(options.out))


def run_replay(files: Sequence[Path]) -> int:
    """Returns 1 if something differs. Raises ConfigError."""
    counts: Counter[str] = Counter()
    for line in _read(files, counts):
        if obstacle := find_obstacle(line):
            counts[obstacle] += 1
            continue
        try:
            differences = compare(line.entry, replay(line.entry))
        except Unreadable as error:
            _tell_damaged(DamagedLine(line.place, str(error)), counts)
            continue
        except Exception as error:  # noqa: BLE001 - a reader that fails is what a replay is to find
            differences = [f"the reader fails: {type(error).__name__}: {error}"]
        counts["read"] += 1
        if differences:
            counts["differ"] += 1
            print(_describe(line))
            print("".join(f"  {sanitize(each)}\n" for each in differences), end="")
    print(_sum_up(counts))
    if not counts["read"]:
        reasons = [why for name, why in UNREAD.items() if counts[name]] or ["It holds no calls."]
        raise ConfigError("No call of the record can be replayed.", " ".join(reasons))
    return FAILED if counts["differ"] else 0


def run_export(form: str, files: Sequence[Path], out: Path) -> int:
    """Raises ConfigError."""
    counts: Counter[str] = Counter()
    lines = _read(files, counts)
    try:
        exported = export_openai(lines, files, out) if form == "openai" else export_atif(lines, files, out)
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error.strerror}.") from error
    summary = f"{exported.written} {exported.unit} of {exported.calls} calls are in {out}"
    if left_out := ", ".join(f"{count} {why}" for why, count in sorted(exported.left_out.items())):
        summary += f"; left out: {left_out}"
    print(sanitize(f"{summary}."))
    return 0


def _read(files: Sequence[Path], counts: Counter[str]) -> Iterator[RecordLine]:
    """The calls; damaged lines are told."""
    for line in read_lines(files):
        if isinstance(line, DamagedLine):
            _tell_damaged(line, counts)
        else:
            yield line


def _tell_damaged(line: DamagedLine, counts: Counter[str]) -> None:
    counts["damaged"] += 1
    print(f"! {sanitize(line.place)} is skipped: {sanitize(line.reason)}.", file=sys.stderr)


def _describe(line: RecordLine) -> str:
    entry = line.entry
    about = [line.place, *(str(entry.get(name)) for name in ("api", "model", "path", "session") if entry.get(name))]
    return sanitize("  ".join(about))


def _sum_up(counts: Counter[str]) -> str:
    skipped = ", ".join(f"{counts[name]} {name}" for name in UNREAD if counts[name])
    summary = f"{counts['read']} calls were read again, {counts['differ']} differ"
    return f"{summary}; not read: {skipped}." if skipped else f"{summary}."
