"""Coverage-guided fuzzing of the text parser with atheris: python tests/fuzz/parser.py -max_total_time=600

Atheris is no dependency of the project: install it in an environment of its own. Bytes choose pieces of all
formats, characters, and where the text is split; the laws that tests/parsing/stream/test_parser.py states must hold.
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
with atheris.instrument_imports(include=["src.parsing"]):
    from src.parsing.stream.parser import StreamParser

from tests.parsing.laws import PIECES, TOOLS, join_all, summarize


def check(data: bytes) -> None:
    provider = atheris.FuzzedDataProvider(data)
    parts = []
    for _ in range(provider.ConsumeIntInRange(1, 12)):
        if provider.ConsumeBool():
            parts.append(PIECES[provider.ConsumeIntInRange(0, len(PIECES) - 1)])
        else:
            parts.append(provider.ConsumeUnicode(provider.ConsumeIntInRange(0, 12)))
    text = "".join(parts)
    truncated = provider.ConsumeBool()
    cuts = sorted(provider.ConsumeIntInRange(0, len(text)) for _ in range(provider.ConsumeIntInRange(0, 6)))
    whole, pieces = StreamParser(TOOLS), StreamParser(TOOLS)
    events = whole.feed(text) + whole.close(truncated=truncated)
    assert join_all(events) == text, text
    split = [event for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) for event in pieces.feed(text[a:b])]
    assert summarize(split + pieces.close(truncated=truncated)) == summarize(events), (text, cuts, truncated)


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
