"""The name of a format, by marker and grammar."""

from src.parsing.formats.origins import origin


def test_a_marker_that_formats_share_is_told_apart_by_the_grammar():
    assert [origin("<tool_call>\n", kind) for kind in ("json", "tags", "pairs", "empty")] == [
        "hermes",
        "qwen3_coder",
        "glm45",
        "glm45",
    ]


def test_the_longest_marker_names_the_format():
    assert origin("<tool_calls><tool_call>", "pairs") == "hunyuan3"


def test_without_a_marker_the_grammar_alone_names_it():
    assert [origin("", kind) for kind in ("json", "pythonic", "named", "element")] == [
        "llama_json",
        "pythonic",
        "glm4",
        "tool_element",
    ]


def test_markers_of_no_row_are_a_wrapping():
    assert origin("<s>", "json") == "llama_json"
