"""-p --panel, and -p with images, through the whole program; the servers are scripted."""

import base64
import json

import pytest

from src.cli.main import main
from tests.doubles import ScriptedServer


def says(text):
    return [{"content": text}, {"finish": "stop"}]


@pytest.fixture
def ask(tmp_path, capsys):
    def run(*options, members=("one", "two"), chair="", summary="Both agree."):
        with (
            ScriptedServer(says("Yes."), says(summary)) as first,
            ScriptedServer(says("No."), says(summary)) as second,
            ScriptedServer(says(summary)) as own,
        ):
            rows = [{"base_url": each.url, "model": name} for name, each in zip(members, (first, second), strict=False)]
            (tmp_path / "config.json").write_text(json.dumps({"review": {"models": rows, "chair": chair}}))
            words = ["-c", str(tmp_path / "config.json"), "-w", str(tmp_path), "-u", own.url, "-p", "Is it?", "--panel"]
            code = main([*words, *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err, [first, second, own]

    return run


def find_question(server):
    return next(request for request in server.requests if "messages" in request)["messages"][-1]["content"]


def test_the_answers_are_shown_and_the_chats_own_model_sums_up(ask):
    code, out, err, (first, _, own) = ask()
    assert (code, out) == (0, "Both agree.\n")
    assert "one at" in err
    assert "Yes." in err
    assert "No." in err
    assert find_question(first) == "Is it?"
    assert "Yes." in find_question(own)
    assert "Is it?" in find_question(own)


def test_a_named_model_sums_up(ask):
    code, out, _, (_, second, own) = ask(chair="two")
    assert (code, out) == (0, "Both agree.\n")
    assert "Yes." in [request for request in second.requests if "messages" in request][-1]["messages"][-1]["content"]
    assert not [request for request in own.requests if "messages" in request]


def test_without_models_it_says_where_to_name_them(ask):
    code, _, err, _ = ask(members=())
    assert code == 2
    assert "review.models" in err


def test_a_chair_that_is_no_member_is_an_error(ask):
    code, _, err, _ = ask(chair="three")
    assert code == 2
    assert "it is one of one, two" in err


PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
DATA = base64.b64encode(PNG).decode()
OPENAI_IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}
IMAGES = {
    "vllm": OPENAI_IMAGE,
    "openai": OPENAI_IMAGE,
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
    "gemini": {"inlineData": {"mimeType": "image/png", "data": DATA}},
}
ANSWERS = {
    "vllm": says("A dot."),
    "openai": says("A dot."),
    "anthropic": b'data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "A dot."}}\n\n'
    b'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}\n\n'
    b'data: {"type": "message_stop"}\n\n',
    "gemini": b'data: {"candidates": [{"content": {"parts": [{"text": "A dot."}]}, "finishReason": "STOP"}]}\n\n',
}
BLIND = (400, {"error": {"message": "tiny is not a multimodal model", "code": 400}})


class TestAnImage:
    @pytest.fixture
    def look(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        (tmp_path / "dot.png").write_bytes(PNG)

        def run(server, question="What is in @dot.png?", provider="vllm", *options):
            settings = {"vllm": {"provider": provider, "model": "tiny", "api_key": "k"}}
            (tmp_path / "config.json").write_text(json.dumps(settings))
            words = ["-c", str(tmp_path / "config.json"), "-w", str(tmp_path), "-u", server.url, "-p", question]
            assert main([*words, *options]) == 0
            return capsys.readouterr()

        return run

    @pytest.mark.parametrize("provider", IMAGES)
    def test_that_is_mentioned_is_sent_as_the_api_has_it(self, look, provider):
        with ScriptedServer(ANSWERS[provider]) as server:
            printed = look(server, provider=provider)
        (sent,) = server.requests
        message = (sent.get("messages") or sent["contents"])[-1]
        label, image, question = message.get("content") or message["parts"]
        assert (label["text"], image, question["text"]) == ("Image dot.png:", IMAGES[provider], "What is in @dot.png?")
        assert (printed.out, printed.err) == ("A dot.\n", "! dot.png added: image/png, 28 bytes\n")

    def test_that_a_tool_read_follows_its_result(self, look):
        function = {"name": "read", "arguments": '{"path": "dot.png"}'}
        call = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
        with ScriptedServer([call, {"finish": "tool_calls"}], says("A dot.")) as server:
            printed = look(server, "What is in the picture?")
        result, shown = server.requests[-1]["messages"][-2:]
        assert result["content"].startswith("dot.png: image/png, 28 bytes [sha256 ")
        assert result["content"].endswith("[image 1: it follows below]")
        assert shown == {"role": "user", "content": [{"type": "text", "text": "Image 1, from read:"}, OPENAI_IMAGE]}
        assert 'read(path="dot.png") -> dot.png: image/png, 28 bytes' in printed.err

    def test_is_a_note_for_a_model_without_eyes_which_is_found_out_once(self, look):
        with ScriptedServer(BLIND, says("I cannot see."), says("Nor now.")) as server:
            first, second = look(server), look(server)
        note = "Image dot.png:\n[image of type image/png, not shown]\nWhat is in @dot.png?"
        assert [request["messages"][-1]["content"] for request in server.requests[1:]] == [note, note]
        assert "The model accepts only text" in first.err
        assert "The model accepts only text" not in second.err

    def test_is_no_line_of_a_megabyte_where_bodies_are_traced(self, look, tmp_path, monkeypatch):
        monkeypatch.setenv("DEBUG", "2")
        (tmp_path / "large.png").write_bytes(PNG + bytes(3_000))
        with ScriptedServer(says("A dot.")) as server:
            printed = look(server, "What is in @large.png?")
        assert "data:image/png;base64,[4,040 characters]" in printed.err

    def test_is_kept_for_later_questions(self, look):
        with ScriptedServer(says("A dot."), says("Red.")) as server:
            look(server)
            look(server, "Which colour?", "vllm", "--resume")
        assert OPENAI_IMAGE in server.requests[-1]["messages"][-3]["content"]
