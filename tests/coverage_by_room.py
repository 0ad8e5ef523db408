"""The branch coverage of each room of src, from a report of coverage.py: `python -m tests.coverage_by_room REPORT.json`.

Branches alone are counted, not lines, which are nearly all run. Prints a table, with the files that miss most; the exit
code is 1 where a room that decides or reads what others wrote is below the bar.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

BAR = 95.0  # percent
ROOMS = ("agent", "model", "parsing", "providers", "session", "tools", "security")
MAX_FILES = 3  # named a room


class File(NamedTuple):
    name: str
    missing: int
    branches: int


def read_rooms(report: dict[str, Any]) -> dict[str, list[File]]:
    rooms = defaultdict(list)
    for name, file in report["files"].items():
        parts, summary = Path(name).parts, file["summary"]
        if parts[0] == "src" and len(parts) > 2:
            missing = summary["num_branches"] - summary["covered_branches"]
            rooms[parts[1]].append(File("/".join(parts[2:]), missing, summary["num_branches"]))
    return rooms


def main(path: str) -> int:
    rooms = read_rooms(json.loads(Path(path).read_text(encoding="utf-8")))
    low = [room for room in ROOMS if room not in rooms]
    for room, files in sorted(rooms.items()):
        branches, missing = sum(file.branches for file in files), sum(file.missing for file in files)
        percent = 100.0 * (branches - missing) / branches if branches else 100.0
        worst = sorted((file for file in files if file.missing), key=lambda file: -file.missing)[:MAX_FILES]
        print(
            f"{room:10} {percent:5.1f} % of {branches:4} branches  {', '.join(f'{f.name} -{f.missing}' for f in worst)}"
        )
        if room in ROOMS and percent < BAR:
            low.append(room)
    print(f"below {BAR:g} %: {', '.join(low)}" if low else f"none of {', '.join(ROOMS)} is below {BAR:g} %")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
