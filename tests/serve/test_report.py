"""What is told of a guarded request."""

from __future__ import annotations

from src.serve.report import LandedCall, Report


def test_the_header_names_path_origins_repairs_and_how_many_calls_were_recovered():
    calls = [
        LandedCall("read", "native", "native"),
        LandedCall("read", "recovered", "qwen3_coder"),
        LandedCall("read", "recovered", "qwen3_coder"),
        LandedCall("read", "text", "hermes"),
    ]
    report = Report("template", calls, ["trailing_comma", "trailing_comma", "quotes"])
    assert report.to_header() == "path=template; origin=qwen3_coder,hermes; repairs=trailing_comma,quotes; recovered=2"
    assert Report("native", calls[:1]).to_header() == "path=native"
