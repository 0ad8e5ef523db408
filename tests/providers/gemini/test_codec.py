"""What is Gemini's alone: its address, ids, signatures, parts. Exchanges and mappings have their own tests."""

import json

from src.providers.base import ChatRequest
from src.providers.table import PROVIDERS
from src.types.messages import (
    MalformedCall,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tests.each import check_rows

from ..doubles import codec, decoded

VERTEX_HOST = "https://us-central1-aiplatform.googleapis.com"


def body(*messages, **fields):
    return json.loads(codec("gemini").encode(ChatRequest("gemini-2.5-flash", messages, **fields)).body)


def parts(*messages):
    return [content["parts"] for content in body(*messages)["contents"]]


class TestAddress:
    @check_rows(
        "model, path",
        [
            ("gemini-2.5-flash", "models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
            ("models/gemini-2.5-flash", "models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
            ("tunedModels/harbour", "tunedModels/harbour:streamGenerateContent?alt=sse"),
            ("a?b c", "models/a%3Fb%20c:streamGenerateContent?alt=sse"),
        ],
    )
    def test_the_model_is_part_of_it(self, model, path):
        assert codec("gemini").encode(ChatRequest(model, [UserMessage("hi")])).path == path

    def test_vertex_differs_in_how_the_key_travels_and_in_nothing_that_is_said(self):
        said = [codec(name).encode(ChatRequest("gemini", [UserMessage("hi")])) for name in ("gemini", "vertex")]
        assert said[0] == said[1]
        keys = [(PROVIDERS[name].key_header, PROVIDERS[name].key_prefix) for name in ("gemini", "vertex")]
        assert keys == [("x-goog-api-key", ""), ("Authorization", "Bearer ")]

    def test_vertex_is_asked_at_the_address_of_google_s_reference(self):
        """Google's page "Function calling reference", example syntax, in all but the names."""
        base = f"{VERTEX_HOST}/v1/projects/harbour/locations/us-central1/publishers/google"
        request = ChatRequest("gemini-2.5-flash", [UserMessage("hi")], stream=False)
        asked = f"{base}/{codec('vertex').encode(request).path}"
        assert asked == f"{base}/models/gemini-2.5-flash:generateContent"

    def test_the_fields_that_vertex_adds_to_an_answer_change_nothing(self):
        call = {"functionCall": {"name": "get_current_weather", "args": {"location": "Boston, MA"}}}
        candidate = {
            "content": {"role": "model", "parts": [call]},
            "finishReason": "STOP",
            "avgLogprobs": -0.01,
            "safetyRatings": [{"category": "HARM_CATEGORY_HATE_SPEECH", "probability": "NEGLIGIBLE"}],
        }
        usage = {"promptTokenCount": 24, "candidatesTokenCount": 7, "trafficType": "ON_DEMAND"}
        answer = {"candidates": [candidate], "usageMetadata": usage, "createTime": "2025-11-22T10:00:00Z"}
        _, response = decoded(codec("vertex"), [json.dumps(answer).encode()], "application/json")
        (read,) = response.calls
        assert (read.name, read.arguments) == ("get_current_weather", {"location": "Boston, MA"})
        assert response.stop_reason == "tool_use"


class TestRequest:
    def test_the_least_of_one(self):
        assert body(UserMessage("hi")) == {
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "generationConfig": {},
        }

    def test_sampling_and_the_system_prompt(self):
        sent = body(SystemMessage("be brief"), UserMessage("hi"), temperature=0.0, max_tokens=7)
        assert sent["systemInstruction"] == {"parts": [{"text": "be brief"}]}
        assert sent["generationConfig"] == {"temperature": 0.0, "maxOutputTokens": 7}
        assert len(sent["contents"]) == 1

    def test_what_is_empty_is_not_sent(self):
        assert parts(UserMessage(""), Response((Text(""), Reasoning("hm"))), UserMessage("a")) == [[{"text": "a"}]]

    def test_a_thought_goes_back_where_it_is_signed(self):
        assert parts(Response((Reasoning("hm", {"thoughtSignature": "s"}),))) == [
            [{"text": "hm", "thoughtSignature": "s", "thought": True}]
        ]

    def test_results_stand_in_one_message_in_the_order_of_their_calls_without_ids(self):
        calls = Response((ToolCall("made0", "read", {}), ToolCall("made1", "ls", {})))
        results = ToolResults((ToolResult("made0", "read", "text", "x"), ToolResult("made1", "ls", "text", "y")))
        assert parts(calls, results)[1] == [
            {"functionResponse": {"name": "read", "response": {"output": "x"}}},
            {"functionResponse": {"name": "ls", "response": {"output": "y"}}},
        ]

    def test_an_id_that_the_server_gave_goes_back_with_the_result(self):
        calls = Response((ToolCall("fc1", "read", {}, metadata={"id": "fc1"}),))
        results = ToolResults((ToolResult("fc1", "read", "text", "x"),))
        call, result = parts(calls, results)
        assert call == [{"functionCall": {"name": "read", "args": {}, "id": "fc1"}}]
        assert result == [{"functionResponse": {"name": "read", "response": {"output": "x"}, "id": "fc1"}}]

    def test_a_malformed_call_and_its_result_bear_one_name(self):
        malformed = MalformedCall("c1", "", "{oops", "no JSON")
        answer = ToolResults((ToolResult("c1", "unreadable call", "error", "no JSON"),))
        (call,), (result,) = parts(Response((malformed,)), answer)
        assert call["functionCall"] == {"name": "unreadable_call", "args": {}}
        assert call["thoughtSignature"]
        assert result["functionResponse"]["name"] == "unreadable_call"

    def test_a_call_that_was_read_from_text_has_the_signature_for_calls_that_have_none(self):
        ((call,),) = parts(Response((ToolCall("c1", "read", {}, "hermes"),)))
        assert call["thoughtSignature"] == "skip_thought_signature_validator"


class TestAnswer:
    def test_arguments_that_are_no_object_are_a_malformed_call(self):
        call = {"functionCall": {"name": "read", "args": ["a"]}}
        answer = {"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}]}
        _, response = decoded(codec("gemini"), [json.dumps(answer).encode()], "application/json")
        (malformed,) = response.malformed
        assert malformed.reason == "The arguments must be a JSON object, not list."

    def test_parts_of_other_kinds_are_passed_over(self):
        odd = [{"executableCode": {"language": "PYTHON", "code": "1"}}, {"inlineData": {}}, {"text": "x"}]
        answer = {"candidates": [{"content": {"parts": odd}, "finishReason": "STOP"}]}
        _, response = decoded(codec("gemini"), [json.dumps(answer).encode()], "application/json")
        assert response.content == (Text("x"),)
