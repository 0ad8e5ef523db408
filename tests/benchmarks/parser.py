"""The text parser beside its peers, in one run: python tests/benchmarks/parser.py [--quick]

    --peers PYTHON   an interpreter that has jiter, json-repair and partial-json-parser
    --vllm PYTHON    an interpreter that has vLLM, for its hermes parser
    --corpus FILE    recorded answers, one JSON object a line with `text` and `tools`

Peers run in their own interpreters, as workers of this same file, on the same texts. Times are CPU seconds, the
least of a few rounds; ratios hold on a shared machine, absolute times do not. The floor of section 1 is a loop over
the tokens that keeps each, then one join and one `json.loads`: its time grows with the number of tokens, as any
reader's must. "Alone" is the join and `json.loads` without that loop, for a reader that needs nothing before the end.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import subprocess
import sys
import time
import tracemalloc
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

WRITE = {
    "type": "function",
    "function": {
        "name": "write",
        "description": "Write a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
}
OWN, HERMES, HERMES_END = "TOOL_CALL: ", "<tool_call>\n", "\n</tool_call>"
NEARLY = ('{"id": 1,} ', "write\n{a}\n", "write(x) y\n", "`x` ", '```json\n{"id":', "{'type': '")  # what is looked into
CAP = 60.0  # seconds a peer may take


def tokens(text, seed=1):
    """The text in pieces of 2.8 characters on average."""
    source, pieces, at = random.Random(seed), [], 0
    while at < len(text):
        size = source.choice((1, 2, 2, 3, 3, 4, 5))
        pieces.append(text[at : at + size])
        at += size
    return pieces


def source_code(size):
    """Real source code, and none that holds markers of calls: hermes takes those for its own."""
    code = Path(argparse.__file__).read_text(encoding="utf-8")
    return (code * (size // len(code) + 1))[:size]


def call(content):
    return json.dumps({"name": "write", "arguments": {"path": "a.py", "content": content}})


def prose(size, seed=2):
    words = [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "a",
        "lazy",
        "dog",
        "and",
        "so",
        "it",
        "was",
        "written",
        "down",
        "in",
        "a",
        "long",
        "report",
        "of",
        "many",
        "pages",
    ]
    source, lines = random.Random(seed), []
    while sum(map(len, lines)) + len(lines) < size:
        lines.append(" ".join(source.choice(words) for _ in range(12)) + ".")
    return "\n".join(lines)[:size]


def least(work, rounds=5):
    """The least CPU time of a few rounds, and the last result."""
    times, result = [], None
    for _ in range(rounds):
        started = time.process_time()
        result = work()
        times.append(time.process_time() - started)
        if times[-1] > 5:
            break
    return min(times), result


# What is timed: each takes pieces and gives seconds, and says whether the arguments were right.


class Floor:
    def __init__(self):
        self.parts = []

    def feed(self, text):
        self.parts.append(text)

    def close(self):
        return json.loads("".join(self.parts))


def floor(pieces, _expected):
    def work():
        parser = Floor()
        for piece in pieces:
            parser.feed(piece)
        return parser.close()

    return least(work)[0]


def ours(pieces, expected, prefix=OWN, **options):
    from src.parsing import ParsedCall, StreamParser

    def work():
        parser, events = StreamParser([WRITE], **options), []
        for piece in [prefix, *pieces]:
            events += parser.feed(piece)
        return events + parser.close()

    seconds, events = least(work)
    assert [event.call.arguments["content"] for event in events if isinstance(event, ParsedCall)] == [expected]
    return seconds


def one_format(pieces, expected):
    """Ours with anchors at TOOL_CALL alone."""
    from src.parsing.formats.format_set import FormatSet

    formats = FormatSet()
    formats.anchor = re.compile(r"(?<=TOOL_CALL):")
    return ours(pieces, expected, formats=formats)


def each_prefix(parse):
    """A parser without state, called on the text so far at each piece, as the SDKs call it."""

    def work(pieces, expected):
        started, text, value = time.process_time(), "", None
        for number, piece in enumerate(pieces):
            text += piece
            value = parse(text)
            if number % 64 == 0 and time.process_time() - started > CAP:
                return math.inf
        assert value["arguments"]["content"] == expected
        return time.process_time() - started

    return work


def jiter(pieces, expected):
    import jiter as module

    return each_prefix(lambda text: module.from_json(text.encode(), partial_mode="trailing-strings"))(pieces, expected)


def partial_json_parser(pieces, expected):
    import partial_json_parser as module

    return each_prefix(lambda text: module.loads(text))(pieces, expected)


def hermes_parser():
    from unittest.mock import MagicMock

    from vllm.tool_parsers.hermes_tool_parser import Hermes2ProToolParser

    class Vocabulary(dict):
        def __contains__(self, _key):
            return True

        def __missing__(self, _key):
            return 1

        def get(self, _key, _default=None):
            return 1

        def __bool__(self):
            return True

    tokenizer = MagicMock(all_special_tokens=[])
    tokenizer.get_vocab.return_value = Vocabulary()
    return Hermes2ProToolParser(tokenizer), MagicMock(tools=None, tool_choice="auto", chat_template_kwargs={})


def hermes(pieces, expected):
    parser, request = hermes_parser()
    started, text, ids, arguments = time.process_time(), "", [1], []
    for number, piece in enumerate([HERMES, *pieces, HERMES_END]):
        before, text = text, text + piece
        delta = parser.extract_tool_calls_streaming(before, text, piece, ids, ids, ids, request)
        for each in (delta.tool_calls or []) if delta else []:
            if each.function and each.function.arguments:
                arguments.append(each.function.arguments)
        if number % 64 == 0 and time.process_time() - started > CAP:
            return math.inf
    assert json.loads("".join(arguments))["content"] == expected
    return time.process_time() - started


def hermes_whole(text):
    parser, request = hermes_parser()
    return least(lambda: len(parser.extract_tool_calls(text, request).tool_calls))


def worker(name, path):
    """In a peer's interpreter: seconds, and what was found, as JSON on stdout."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    result = hermes_whole(job["text"]) if name == "hermes_whole" else globals()[name](job["pieces"], job["expected"])
    print("RESULT " + json.dumps(result))


def in_peer(python, name, job, scratch):
    """What the worker `name` says under the interpreter `python`; None where there is none."""
    if not python:
        return None
    scratch.write_text(json.dumps(job), encoding="utf-8")
    command = [python, __file__, "--worker", name, "--job", str(scratch)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    lines = [line for line in output.splitlines() if line.startswith("RESULT ")]
    return json.loads(lines[-1][7:]) if lines else None


def shown(seconds, base):
    if seconds is None:
        return "not here"
    return "over the cap" if math.isinf(seconds) else f"{seconds * 1e3:10.2f} ms {seconds / base:10.1f} x"


def streaming(options, scratch):
    print("\n1. One streamed call against its length (x: times the floor; goal: 5, then 4)")
    sizes = (1_000, 10_000, 100_000) if options.quick else (1_000, 10_000, 100_000, 1_000_000)
    own = {}
    for size in sizes:
        content = source_code(size)
        pieces = tokens(call(content))
        base = floor(pieces, content)
        loads = least(lambda pieces=pieces: json.loads("".join(pieces)))[0]
        own[size] = ours(pieces, content)
        rows = {"floor": base, "join and json.loads alone": loads, "ours, all formats": own[size]}
        rows["ours, one format"] = one_format(pieces, content)
        rows["ours, with previews"] = ours(pieces, content, previews=True)
        rows["ours, hermes tags"] = ours([*pieces, HERMES_END], content, HERMES)
        if size <= 100_000:
            job = {"pieces": pieces, "expected": content}
            rows["jiter, each piece"] = in_peer(options.peers, "jiter", job, scratch)
            if size <= 10_000:
                rows["partial-json-parser, each piece"] = in_peer(options.peers, "partial_json_parser", job, scratch)
            rows["vLLM hermes"] = in_peer(options.vllm, "hermes", job, scratch)
        print(f"  {size:,} characters, {len(pieces):,} pieces")
        for name, seconds in rows.items():
            print(f"    {name:34s} {shown(seconds, base)}")
    largest, smallest = max(own), min(own)
    exponent = math.log(own[largest] / own[smallest]) / math.log(largest / smallest)
    print(f"  growth exponent of ours from {smallest:,} to {largest:,}: {exponent:.3f}")


def small_pieces(options):
    """Each kind of answer in pieces of 1 to 6 characters; goal: 4 times the floor."""
    size = 20_000 if options.quick else 100_000
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    values = [{"id": number, "name": f"n{number}", "ok": True, "v": [1, 2.5, "x"]} for number in range(size // 60)]
    answers = {
        "long string": OWN + call("lorem ipsum dolor sit amet " * (size // 27)),
        "code": OWN + call(source_code(size)),
        "many small values": OWN + json.dumps({"name": "write", "args": {"path": "a", "content": "", "items": values}}),
        "prose": prose(size),
        "Markdown": "".join(path.read_text(encoding="utf-8") for path in documents)[:size],
    }
    print("\n6. Streaming in pieces of 1 to 6 characters (floor: search each piece for a mark, return it as one event)")
    for name, text in answers.items():
        pieces = cut_small(text)
        bare, mine = (least(partial(feed, pieces))[0] / len(pieces) for feed in (feed_floor, feed_parser))
        print(f"  {name:18}{bare * 1e9:6.0f} ns  ours {mine * 1e9:6.0f} ns  {mine / bare:5.1f} x")


def cut_small(text, seed=1):
    source, pieces, at = random.Random(seed), [], 0
    while at < len(text):
        pieces.append(text[at : (at := at + source.randint(1, 6))])
    return pieces


def feed_floor(pieces, find=re.compile(r"[<{\[(`:>]").search):
    from src.types.events import TextDelta

    events = []
    for piece in pieces:
        find(piece)
        events.append(TextDelta(piece))
    return events


def feed_parser(pieces):
    from src.parsing import StreamParser

    parser, events = StreamParser([WRITE]), []
    for piece in pieces:
        events += parser.feed(piece)
    return events + parser.close()


def whole_answers(options, scratch):
    from src.parsing import extract_tool_calls

    print("\n2. Calls out of a whole answer of 1 MB, 227 calls (goal: twice hermes)")
    body = call("x" * 160)
    for name, extra in (("with braces", " {maybe} "), ("without", " ")):
        text = "".join(f"{prose(4096, seed)}{extra}\n{OWN}{body}\n" for seed in range(227))
        seconds, found = least(lambda text=text: extract_tool_calls(text, [WRITE], max_calls=1000))
        print(f"  {name:12s} ours {len(text) / 1e6 / seconds:8.0f} MB/s, {len(found.calls)} calls")
        theirs = text.replace(OWN, HERMES).replace("}}\n", "}}" + HERMES_END + "\n")
        seconds, found = least(lambda text=theirs: extract_tool_calls(text, [WRITE], max_calls=1000))
        print(f"  {name:12s} ours {len(theirs) / 1e6 / seconds:8.0f} MB/s, {len(found.calls)} calls, hermes tags")
        if result := in_peer(options.vllm, "hermes_whole", {"text": theirs}, scratch):
            print(f"  {name:12s} vLLM hermes {len(theirs) / 1e6 / result[0]:8.0f} MB/s, {result[1]} calls")
    text = prose(1_000_000)
    seconds, _ = least(lambda: extract_tool_calls(text, [WRITE]))
    openers = re.compile(r"TOOL_CALL|<tool_call>|<function=|\[TOOL_CALLS\]|[<{\[(`]")
    base, _ = least(lambda: openers.findall(text))
    print(
        f"  prose alone  ours {len(text) / 1e6 / seconds:8.0f} MB/s, re.findall of openers {len(text) / 1e6 / base:8.0f} MB/s"
    )


def hostile(options):
    from src.parsing import StreamParser
    from src.parsing.formats.table import FORMATS

    print("\n3. Hostile answers of 1 MB (goal: 100 ms, 20 MB, exponent 1.1)")
    size = 100_000 if options.quick else 1_000_000
    units = {repr(character): character for character in "{[<\"\\(:`>)]}'"}
    units |= {f"{opener} alone": opener for row in FORMATS for opener in row.openers if opener}
    for opener in ("TOOL_CALL: ", "<tool_call>", "[TOOL_CALLS]", "<function=write>"):
        units[opener + " with calls"] = f"{opener}{call('x')}\n"
        units[opener + " with open strings"] = opener + '{"a": "'
    texts = {name: unit * (size // len(unit)) for name, unit in units.items()}
    texts |= {
        "100,000 open braces": OWN + "{" * 100_000,
        "nested objects": OWN + '{"a":' * 100_000,
        "nested arrays": OWN + "[" * 100_000,
        "a string not closed": OWN + '{"a": "' + "x" * size,
        "escaped quotes": OWN + '{"a": "' + '\\"' * (size // 2),
        "backslashes in a string": OWN + '{"a": "' + "\\" * size,
        "marker, then spaces": OWN + " " * size,
        "flat pairs, not closed": OWN + "{" + '"a":1,' * (size // 6),
        "markers of 100 pairs": (OWN + "{" + '"a":1,' * 100) * (size // 611),
        "objects that never end": '{"name": "write", ' * (size // 18),
        "calls that never end": "write(" * (size // 6),
    }
    misses = {}  # thousands of blocks that are followed, read and found to be none: the growth is what counts
    for unit in NEARLY:
        misses[f"many {unit!r}"] = unit * (size // len(unit))
        misses[f"a call, then many {unit!r}"] = OWN + call("x") + "\n" + misses[f"many {unit!r}"]
    texts |= misses

    def run(text):
        parser = StreamParser([WRITE])
        return parser.feed(text) + parser.close()

    rows = []
    for name, text in texts.items():
        seconds, _ = least(lambda text=text: run(text), 3)
        half, _ = least(lambda text=text: run(text[: len(text) // 2]), 3)
        rows.append((seconds, name, math.log2(seconds / half) if half > 1e-4 else 1.0, text))
    rows.sort(key=lambda row: row[0], reverse=True)
    near = [row for row in rows if row[1] in misses]
    rows = [row for row in rows if row[1] not in misses]
    for seconds, name, exponent, text in rows[:12] + near:
        tracemalloc.start()
        run(text)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"  {seconds * 1e3:8.1f} ms  exponent {exponent:5.2f}  {peak / 1e6:6.1f} MB  {name}")
    over = sum(seconds > 0.1 for seconds, *_ in rows)
    print(
        f"  {len(rows)} inputs, {over} above 100 ms, median {rows[len(rows) // 2][0] * 1e3:.1f} ms; then {len(near)} near misses"
    )


def repair(options):
    from src.parsing.decode.json_repair import RepairReader

    print("\n4. Repair of a broken body of 100 KB (goal: 30 times json.loads)")
    rows = json.dumps({"rows": [{"id": n, "name": f"row {n}", "ok": n % 2 == 0} for n in range(2_000)]})
    long = call(source_code(100_000))
    for name, body, broken in (
        ("one long string", long, long[:-1] + ",}"),
        ("many small values", rows, rows[:-1] + ",}"),
        ("single quotes", rows, rows.replace('"', "'")),
        ("a comma at each row's end", rows, rows.replace("}", ",}")),
    ):
        base, _ = least(lambda body=body: json.loads(body))
        seconds, _ = least(lambda broken=broken: RepairReader(broken).read_value())
        twice, _ = least(lambda broken=broken: RepairReader("[" + broken + "," + broken + "]").read_value())
        print(
            f"  {name:25s} {seconds * 1e3:8.2f} ms, {seconds / base:6.1f} x json.loads, exponent {math.log2(twice / seconds):.2f}"
        )


def recorded(options):
    from src.parsing import extract_tool_calls

    if not options.corpus or not Path(options.corpus).exists():
        return
    print("\n5. Recorded answers (goal: p99 under 2 ms)")
    times = []
    for line in Path(options.corpus).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        seconds, _ = least(lambda record=record: extract_tool_calls(record["text"], record["tools"]), 2)
        times.append(seconds)
    times.sort()
    print(
        f"  {len(times)} answers: median {times[len(times) // 2] * 1e3:.3f} ms, p99 {times[int(len(times) * 0.99)] * 1e3:.3f} ms, max {times[-1] * 1e3:.2f} ms"
    )


def fitting():
    from src.parsing.arguments.indexed_tool import IndexedTool
    from src.parsing.arguments.native import fit_native
    from src.types.messages import ToolCall

    print("\nFitting of a native call with ten objects of six members (goal: 1 ms)")
    member = {
        "type": "object",
        "properties": {
            "old": {"type": "string"},
            "new": {"type": "string"},
            "count": {"type": "integer"},
            "all": {"type": "boolean"},
            "kind": {"type": "string", "enum": ["line", "word"]},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["old", "new"],
    }
    schema = {"type": "object", "properties": {"edits": {"type": "array", "items": member}}}
    for wrong in (0, 2):
        edits = [
            {"old": f"{n}", "new": f"{n}", "count": n, "all": True, "kind": "line", "note": None} for n in range(10)
        ]
        for edit in edits[:wrong]:
            edit["count"] = str(edit["count"])
        for form, given in (("a list", edits), ("a string of JSON", json.dumps(edits))):
            made = ToolCall("c", "edit", {"edits": given})
            seconds, _ = least(lambda made=made: fit_native(made, IndexedTool("edit", schema)), 20)
            print(f"  {wrong} wrong values in {form:18s} {seconds * 1e3:6.2f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--fitting", action="store_true", help="only the fitting of native calls")
    parser.add_argument("--peers", default="", metavar="PYTHON")
    parser.add_argument("--vllm", default="", metavar="PYTHON")
    parser.add_argument("--corpus", default=str(ROOT.parent / "shared" / "corpus" / "recorded.jsonl"), metavar="FILE")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.job)
        return
    if options.fitting:
        fitting()
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "job.json"
        streaming(options, scratch)
        whole_answers(options, scratch)
    hostile(options)
    repair(options)
    recorded(options)
    small_pieces(options)
    fitting()


if __name__ == "__main__":
    main()
