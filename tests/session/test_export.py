import html.parser
import json
import os
import re
import resource
from contextlib import contextmanager

import pytest

from src.session.export import (
    SavedConversation,
    open_replacement,
    render_html,
    render_json,
    render_markdown,
    replace_file,
    write_file,
)
from src.types.messages import (
    MalformedCall,
    Reasoning,
    Response,
    Text,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
    read_message,
)
from tests.doubles import says

from .doubles import SYSTEM

MESSAGES = [
    *SYSTEM,
    UserMessage("<script>alert(1)</script> & ```"),
    Response((Reasoning("Hm.\nWell."), Text("Looking."), ToolCall("c", "read", {"path": "a"}))),
    ToolResults((ToolResult("c", "read", "text", "```\ncode\n```"),)),
    Response((MalformedCall("m", "", "{", "no end"),)),
    says("Done."),
]
CONVERSATION = SavedConversation("A <title>", {"model": "tiny", "workspace": ""}, MESSAGES)


@pytest.mark.parametrize(
    ("is_denied", "title"), [(False, "## Result: read (error)"), (True, "## Result: read (denied)")]
)
def test_a_call_that_was_denied_is_told_from_one_that_failed(is_denied, title):
    results = ToolResults((ToolResult("c", "read", "error", "no", is_denied=is_denied),))
    assert title in render_markdown(SavedConversation("", {}, [results]), str)


def test_markdown_has_every_message_except_the_system_prompt():
    text = render_markdown(CONVERSATION, str)
    assert re.findall("^## (.*)", text, re.M) == [
        *("You", "Thought", "Model", "Call: read", "Result: read", "Unreadable call: ", "Model")
    ]
    assert "> Hm.\n> Well." in text
    assert "You help." not in text


def test_a_fence_is_longer_than_any_in_it():
    assert "````\n```\ncode\n```\n````" in render_markdown(CONVERSATION, str)


def test_html_holds_no_markup_of_anybody_else():
    page = render_html(CONVERSATION, str)
    tags = set()

    class Tags(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            tags.add(tag)

    Tags().feed(page)
    assert tags == {"html", "head", "meta", "title", "style", "body", "h1", "p", "section", "h2", "pre"}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "default-src 'none'" in page


def test_json_reads_back_as_the_messages():
    whole = json.loads(render_json(CONVERSATION, str))
    assert whole["title"] == "A <title>"
    assert [read_message(each) for each in whole["messages"]] == MESSAGES[1:]


def test_a_file_that_cannot_be_written_whole_does_not_stay(tmp_path):
    path = tmp_path / "a.md"
    with pytest.raises(TypeError):
        write_file(path, b"no text")
    assert not path.exists()


def test_a_file_that_exists_is_not_written_over(tmp_path):
    path = tmp_path / "a.md"
    write_file(path, "one")
    with pytest.raises(FileExistsError):
        write_file(path, "two")
    assert path.read_text() == "one"


@pytest.mark.parametrize("writer", [render_markdown, render_html, render_json])
def test_every_text_is_cleaned(writer):
    assert "secret" not in writer(
        SavedConversation("secret", {"model": "secret"}, [UserMessage("secret"), says("secret")]),
        lambda text: text.replace("secret", "[redacted]"),
    )


@contextmanager
def limit_file_size(size):
    """As on a full disk, a file takes no more bytes than these."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("before", [None, "an earlier one"])
def test_an_export_that_fails_leaves_what_there_was(tmp_path, before):
    path = tmp_path / "x.md"
    if before is not None:
        path.write_text(before)
    with limit_file_size(5), pytest.raises(OSError, match="too large"):
        replace_file(path, "a later one")
    assert [each.read_text() for each in tmp_path.iterdir()] == ([] if before is None else [before])


def test_an_export_replaces_an_earlier_one_where_a_link_leads(tmp_path):
    (tmp_path / "x.md").write_text("one")
    (tmp_path / "link.md").symlink_to("x.md")
    replace_file(tmp_path / "link.md", "two")
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "x.md").read_text() == "two"


def test_an_export_keeps_the_mode_of_an_earlier_one(tmp_path):
    path = tmp_path / "x.md"
    path.touch(0o600)
    replace_file(path, "two")
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_the_user_s_alone_is_so_from_its_first_byte(tmp_path):
    path = tmp_path / "x.md"
    path.touch(0o644)
    with open_replacement(path, 0o600):
        assert sorted(each.stat().st_mode & 0o777 for each in tmp_path.iterdir()) == [0o600, 0o644]
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_export_may_go_to_a_fifo(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    replace_file(path, "two")
    assert (os.read(reader, 9), path.is_fifo()) == (b"two", True)
    os.close(reader)
