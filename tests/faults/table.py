"""Every fault: what the server does, and what must come of it.

One row a fault, numbered as in docs/servers.md; a number may have several rows. Each row is one question
asked through the whole program. `waits` are the seconds slept between attempts, less what chance takes.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from .scripts import (
    DONE,
    HALF,
    HALF_PARTS,
    HELLO,
    HELLO_PARTS,
    HTML,
    JSON,
    PAGE,
    SILENCE,
    STREAM,
    WHOLE,
    body,
    calls,
    chunked,
    closing,
    data,
    delta,
    framed,
    head,
    refused,
    stream,
    text,
    zipped,
)
from .server import KEEP, RESET, STALL, Again, Script, Trickle

SHORT = 0.3  # seconds, for a clock that shall run out
KEY = "sekret-key-0123456789"
PARTIAL = "Half an answer\n"
KEPT = "What came is kept: ask to go on from there."
CUT = "broke in the middle of the answer"
ENDED = "The server's answer ended in the middle."
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "notes.txt"}'}}
SECOND = {"index": 1, "id": "c2", "type": "function", "function": {"name": "read", "arguments": '{"path": "b.txt"}'}}
READ, READ_B = 'read(path="notes.txt") -> ', 'read(path="b.txt") -> '


class Row(NamedTuple):
    number: int
    name: str
    scripts: tuple[Script, ...]
    said: tuple[str, ...] = ()  # on standard error, all of them
    out: str = "Hello\n"  # on standard output
    code: int = 0
    requests: int = 1
    waits: tuple[float, ...] = ()
    settings: dict[str, object] = {}  # noqa: RUF012 - of the section vllm
    traced: tuple[str, ...] = ()  # on standard error with DEBUG=1
    silent: bool = False  # nothing at all on standard error
    url: str = ""  # another address than the server's; {port} is its port
    aside: dict[str, tuple[Script, ...]] = {}  # noqa: RUF012 - what is asked beside the chat, by path

    @property
    def has_clock(self) -> bool:
        return "timeout" in self.settings

    def slow_clocks(self, factor: float) -> Row:
        """With clocks that run out after so many times as long, and what is said of them."""
        settings = {name: value * factor for name, value in self.settings.items()}
        return self._replace(settings=settings, said=tuple(text.format(**settings) for text in self.said))


def failing(number: int, name: str, *scripts: Script, **fields) -> Row:
    """A row without an answer: exit code 1, 4 where no server was reached, and nothing on standard output unless it says so."""
    return Row(number, name, scripts, **({"out": "", "code": 1} | fields))


def fine(number: int, name: str, *scripts: Script, **fields) -> Row:
    """A row that ends well; without waits, nothing is said of it either."""
    return Row(number, name, scripts, **({"silent": not fields.get("waits") and not fields.get("said")} | fields))


def served(*names: str, length: int = 4096) -> tuple[Script, ...]:
    """A list of models."""
    return (body(json.dumps({"data": [{"id": name, "max_model_len": length} for name in names]})),)


def used(tokens: int) -> bytes:
    """What an answer cost that has `tokens`."""
    return data({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}})


THREE = {"requests": 3, "waits": (0.5, 1.0)}
LOADING = refused("503 Service Unavailable", "Loading model")
WELL, ILL = body("", ""), refused("503 Service Unavailable")  # /health
HERMES = "<tool_call>\n{'name': 'read', 'arguments': {'path': 'notes.txt'}}\n</tool_call>"  # which its parser swallows
SWALLOWED = stream(delta({}, "stop"), used(30), DONE)
RAW = {
    "/tokenize": (body('{"tokens": [1, 2, 3], "max_model_len": 4096}'),),
    "/v1/completions": (body(json.dumps({"choices": [{"text": HERMES, "finish_reason": "stop"}]})),),
}
REPLAYED = body(json.dumps({"choices": [{"message": {"content": HERMES}, "finish_reason": "stop"}]}))
BIG = stream(
    delta({"tool_calls": [CALL | {"function": {"name": "read", "arguments": '{"path": "big.txt"}'}}]}, "tool_calls"),
    DONE,
)
TOO_LONG = (
    "This model's maximum context length is 512 tokens. However, your prompt contains at least 9000 input tokens, which "
    "exceeds this limit even without any output tokens. (parameter=input_tokens, value=9000)"
)
QUICK = {"timeout": SHORT, "first_token_timeout": SHORT}
QUICK_IDLE = {"timeout": SHORT}  # the first bytes may take longer on a busy machine

ROWS = (
    failing(
        1, "connection refused", url="http://127.0.0.1:9/v1", requests=0, code=4,
        said=("No server at http://127.0.0.1:9/v1 (127.0.0.1:9: Connection refused).", "vllm serve"),
    ),
    failing(2, "DNS failure", url="http://no-such-host.invalid/v1", requests=0, code=4, said=("no host named no-such-host.invalid",)),
    failing(3, "reset before headers", [RESET], **THREE, said=("closed the connection without an answer", "attempt 3 of 3")),
    fine(3, "reset before headers, once", [RESET], HELLO, requests=2, waits=(0.5,)),
    failing(4, "close with no bytes", [b""], **THREE, said=("closed the connection without an answer",)),
    failing(4, "close in the headers", [b"HTTP/1.1 200 OK\r\nContent-Ty"], requests=2, waits=(0.5,), said=("answer was empty",)),
    failing(5, "non-HTTP bytes", [b"SSH-2.0-OpenSSH_9.6\r\n"], code=4, said=("is not an HTTP server", "Another program may be listening")),
    failing(5, "binary bytes", [bytes(range(256))], code=4, said=("is not an HTTP server",)),
    failing(6, "reset mid-stream", [HALF, RESET], out=PARTIAL, said=(CUT, KEPT)),
    failing(6, "reset before the first token", [chunked(HALF_PARTS[0]), RESET], **THREE, said=(CUT,)),
    failing(7, "EOF inside a chunk", [HALF + b"40\r\ndata: {"], out=PARTIAL, said=(CUT,)),
    failing(7, "a chunk of negative size", [HALF, Trickle(b"-5\r\nhello", 0.05), STALL], out=PARTIAL, said=(CUT,)),
    failing(8, "EOF with Connection: close", closing(b"".join(HALF_PARTS) + b'data: {"choi'), out=PARTIAL, said=(ENDED,)),
    failing(9, "neither [DONE] nor finish_reason", stream(*HALF_PARTS), out=PARTIAL, said=(ENDED, "None of it was run", KEPT)),
    failing(9, "a call, and no end", stream(delta({"tool_calls": [CALL]})), said=(ENDED,)),
    fine(10, "finish_reason without [DONE]", stream(*HELLO_PARTS[:-2])),
    fine(10, "finish_reason, then a reset", [chunked(*HELLO_PARTS[:-2]), RESET]),
    failing(11, "stall before the headers", SILENCE, settings=QUICK, said=("sent nothing for {timeout:g} s", "vllm.first_token_timeout")),
    failing(11, "stall after the headers", [chunked(), STALL], settings=QUICK, said=("sent nothing for {timeout:g} s",)),
    failing(12, "stall mid-stream", [HALF, STALL], settings=QUICK_IDLE, out=PARTIAL, said=("fell silent", "vllm.timeout", KEPT)),
    fine(12, "stall after finish_reason", [chunked(*HELLO_PARTS[:-1]), STALL], settings=QUICK_IDLE),
    fine(12, "no end of the body after [DONE]", [chunked(*HELLO_PARTS), STALL]),
    failing(13, "slow-loris in the headers", [Trickle(head() * 9, 0.01)], settings=QUICK, said=("sent nothing for {timeout:g} s",)),
    failing(13, "slow-loris in the body", [HALF, Trickle(framed(b"x"), 0.005, True)], settings=QUICK_IDLE, out=PARTIAL, said=("fell silent",)),
    failing(13, "slow-loris in a chunk's size", [HALF, Trickle(b"0", 0.01, True)], settings=QUICK_IDLE, out=PARTIAL, said=("fell silent",)),
    failing(
        13, "comments for ever", [HALF, Trickle(framed(b":\n\n"), 0.005, True)],
        settings={"timeout": SHORT, "total_timeout": 0.8}, out=PARTIAL, said=("did not finish within {total_timeout:g} s", "vllm.total_timeout"),
    ),
    fine(14, "keep-alive comments, then data", stream(*[b": keep-alive\n\n"] * 3, *HELLO_PARTS)),
    fine(15, "429 with Retry-After", refused("429 Too Many Requests", "slow down", "Retry-After: 1"), HELLO,
         requests=2, waits=(1.0,), said=("slow down; trying again in 1.0 s (attempt 2 of 3)",)),
    failing(16, "429 with a Retry-After without end", refused("429 Too Many Requests", "no", "Retry-After: inf"),
            said=("try again in 1440 minutes",)),
    failing(16, "429 with a long Retry-After", refused("429 Too Many Requests", "no", "Retry-After: 3600"), said=("in 60 minutes",)),
    fine(17, "503 twice while loading", LOADING, LOADING, HELLO, requests=3, waits=(1.0, 1.0), said=("Loading model; asking again",)),
    fine(17, "a server that says when it has loaded", LOADING, HELLO, requests=2, waits=(1.0,), said=("Loading model",),
         aside={"/health": (ILL, WELL)}),
    failing(17, "loading beyond the budget", LOADING, settings={"load_timeout": 1.5}, requests=3, waits=(1.0, 0.7),
            said=("Loading model", "vllm.load_timeout")),
    failing(18, "503 for ever", refused("503 Service Unavailable", "no backend"), **THREE, said=("(HTTP 503): no backend",)),
    failing(19, "502 from a proxy", body(PAGE.format("502 Bad Gateway"), HTML, status="502 Bad Gateway"), **THREE,
            said=("502 Bad Gateway", "A proxy in front of the server")),
    failing(19, "an error page without end", [head(HTML, status="404 Not Found") + PAGE.format("Lost").encode(), Again(b"x" * 100_000, 200), STALL],
            said=("(HTTP 404): Lost",), settings=QUICK),
    failing(20, "200 with a page", body(PAGE.format("Sign in"), HTML), said=("text/html (Sign in)", "127.0.0.1")),
    failing(20, "200 with a page that says it is JSON", body(PAGE.format("Sign in"), JSON), said=("Sign in",)),
    fine(21, "200 with an empty body, once", body(b"", STREAM), HELLO, requests=2, waits=(0.5,)),
    failing(21, "200 with an empty body", body(b"", ""), requests=2, waits=(0.5,), said=("answer was empty",)),
    fine(22, "200 with a whole completion", body(WHOLE)),
    fine(22, "200 with a whole completion that says it streams", body(WHOLE, STREAM)),
    failing(22, "200 with other JSON", body('{"hello": "world"}'), said=("not a chat completion",)),
    failing(22, "200 with half a completion", closing(WHOLE[:60].encode(), JSON), said=("not JSON",)),
    failing(23, "200 with an error", body('{"error": {"message": "no luck", "code": 400}}'), said=("no luck",)),
    fine(24, "no tool parser", refused("400 Bad Request", '"auto" tool choice requires --enable-auto-tool-choice'), HELLO,
         requests=2, said=("--enable-auto-tool-choice",)),
    fine(25, "the prompt is too long", BIG, refused("400 Bad Request", TOO_LONG), HELLO, requests=3, said=("results were shortened",)),
    failing(25, "the prompt is too long, and nothing can be shortened", refused("400 Bad Request", TOO_LONG), said=("/compact", "/new")),
    fine(25, "max_tokens does not fit", HELLO, aside={"/v1/models": served("tiny", length=20_000)}, settings={"max_tokens": 9000}),
    *(fine(26, f"an unknown field: {field}", refused("400 Bad Request", f"Unrecognized request argument supplied: {field}"), HELLO,
           requests=2) for field in ("stream_options", "strict", "return_token_ids")),
    fine(26, "a grammar that cannot be made, as a 500", refused("500 Internal Server Error", "Internal Server Error"), HELLO, requests=2),
    failing(26, "a 500 for ever", refused("500 Internal Server Error", "engine dead"), requests=4, waits=(0.5, 1.0), said=("engine dead",)),
    fine(27, "roles must alternate", refused("400 Bad Request", "Conversation roles must alternate user/assistant"), HELLO,
         requests=2, said=("accepts only alternating user and assistant messages",)),
    failing(29, "401 that quotes the key", refused("401 Unauthorized", f"Invalid key {KEY}"), settings={"api_key": KEY},
            said=("[API key]", "does not accept the key that was sent: check VLLM_API_KEY")),
    failing(29, "401 without a key", refused("401 Unauthorized", "Unauthorized"), said=("Set VLLM_API_KEY", "for one of `servers`, its own api_key")),
    failing(29, "403", refused("403 Forbidden"), said=("HTTP 403", "VLLM_API_KEY")),
    failing(30, "404 for the model", refused("404 Not Found", "The model `x` does not exist."), said=("model `x`", "vllm-bot models")),
    failing(30, "404 for the model, and there is one", refused("404 Not Found", "The model `tiny` does not exist."),
            aside={"/v1/models": served("big")}, said=("It serves big: choose one",)),
    failing(30, "404 for the model, and there are several", refused("404 Not Found", "The model `tiny` does not exist."),
            aside={"/v1/models": served("a", "b")}, said=("It serves a, b: choose one",)),
    fine(31, "an address without /v1", HELLO, url="http://127.0.0.1:{port}", aside={"/v1/models": served("tiny")},
         said=("is at http://127.0.0.1:",)),
    fine(31, "an address that goes too far", HELLO, url="http://127.0.0.1:{port}/v1/chat/completions",
         aside={"/v1/models": served("tiny")}, said=("is at http://127.0.0.1:",)),
    failing(31, "404 for the path", body('{"detail": "Not Found"}', status="404 Not Found"), said=("Not Found", "ends in /v1")),
    failing(31, "404 page for the path", body("Cannot POST /models/chat", "text/plain", status="404 Not Found"), said=("ends in /v1",)),
    failing(32, "413", body(PAGE.format("413 Request Entity Too Large"), HTML, status="413 Too Large"), said=("413 Request", "/new")),
    failing(33, "422", body('{"detail": [{"loc": ["body", "tools", 0], "msg": "Field required"}]}', status="422 Unprocessable"),
            said=("body.tools.0: Field required",), requests=2),  # the second without native tools
    failing(34, "invalid JSON in one event", stream(*HALF_PARTS, b"data: {oops\n\n", *HELLO_PARTS), out=PARTIAL, said=("not JSON: {oops",)),
    fine(34, "a blank event", stream(HELLO_PARTS[0], b"data:  \n\n", *HELLO_PARTS[1:])),
    fine(35, "an array and a number", stream(data([1, 2]), *HELLO_PARTS[:2], data(7), data(None), data("x"), *HELLO_PARTS[2:]),
         traced=("an event that is not an object: list", "an event that is not an object: int")),
    failing(36, "an error object in the stream", stream(*HALF_PARTS, data({"error": {"message": "engine died"}})), out=PARTIAL,
            said=("broke off: engine died",)),
    failing(36, "an error object in one piece with the text before it", stream(b"".join(HALF_PARTS) + data({"error": {"message": "engine died"}})),
            out=PARTIAL, said=("broke off: engine died",)),
    failing(36, "an error event in the stream", stream(*HALF_PARTS, b'event: error\ndata: {"message": "engine died"}\n\n'),
            out=PARTIAL, said=("engine died",)),
    failing(36, "llama.cpp's error field", stream(*HALF_PARTS, b'error: {"code": 500, "message": "engine died"}\n\n'), out=PARTIAL,
            said=("engine died",)),
    failing(36, "an error before the first token", stream(data({"error": {"message": "engine died", "code": 500}})), **THREE,
            said=("broke off: engine died",)),
    failing(37, "an old error in the stream", stream(*HALF_PARTS, data({"object": "error", "message": "engine died"})), out=PARTIAL,
            said=("engine died",)),
    fine(38, "UTF-8 split over chunks", stream(*(text("häß €", "stop")[at : at + 1] for at in range(len(text("häß €", "stop"))))),
         out="häß €\n"),
    fine(39, "invalid UTF-8", stream(text("Hel"), text("X", "stop").replace(b"X", b"\xff\xc3"), DONE), out="Hel\ufffd\ufffd\n"),
    fine(40, "byte order mark", stream(b"\xef\xbb\xbf" + text("Hel"), *HELLO_PARTS[2:])),
    fine(40, "byte order mark before JSON", body(b"\xef\xbb\xbf" + WHOLE.encode())),
    fine(41, "CRLF", stream(*(part.replace(b"\n", b"\r\n") for part in HELLO_PARTS))),
    fine(41, "lone CR", stream(*(part.replace(b"\n", b"\r") for part in HELLO_PARTS))),
    fine(41, "no blank after data:, other fields, many lines",
         stream(b"event: message\nid: 7\nretry: 10\n" + text("Hel").replace(b"data: ", b"data:"),
                text("lo").replace(b'"choices"', b'\ndata: "choices"'), *HELLO_PARTS[3:])),
    fine(42, "U+2028 and U+0085 in a string", stream(text("a\u2028b\u0085c"), *HELLO_PARTS[3:]), out="a\u2028b\u0085c\n"),
    fine(43, "one byte a chunk", stream(*(b"".join(HELLO_PARTS)[at : at + 1] for at in range(len(b"".join(HELLO_PARTS)))))),
    failing(44, "a line beyond the cap", [chunked(*HALF_PARTS, b"data: "), Again(framed(b"x" * 1_000_000), 70)], out=PARTIAL, said=("more than 67,108,864 bytes",)),
    fine(45, "choices null or empty, delta null", stream(
        data({"choices": None, "usage": {"prompt_tokens": 5}}), data({"choices": []}), delta(None), *HELLO_PARTS)),
    fine(46, "data after [DONE]", stream(*HELLO_PARTS, text("never shown"))),
    fine(47, "two calls on one index", calls(CALL, SECOND | {"index": 0}), HELLO, requests=2, said=(READ, READ_B)),
    fine(48, "no index, name and arguments split", calls(
        {"id": "c1", "function": {"name": "re"}}, {"function": {"name": "ad", "arguments": None}},
        {"function": {"arguments": '{"path":'}}, {"function": {"arguments": ' "notes.txt"}'}}), HELLO, requests=2, said=(READ,)),
    fine(48, "id late or empty", calls(CALL | {"id": ""}, {"index": 0, "id": "c9"}), HELLO, requests=2, said=(READ,)),
    fine(49, "a call cut off by max_tokens", calls(CALL | {"function": {"name": "read", "arguments": '{"pa'}}, finish="length"), HELLO,
         requests=2, said=("-> error: The call was cut off", "cut off at max_tokens")),
    fine(49, "served as a whole one", stream(delta({"tool_calls": [CALL | {"function": {"name": "read", "arguments": "{}"}}]}, "tool_calls"),
         used(20), DONE), HELLO, settings={"max_tokens": 20}, requests=2, said=("-> error: The call was cut off", "its 20 tokens")),
    fine(50, "cut at max_tokens", stream(text("Half an answer", "length"), DONE), out=PARTIAL, code=3, said=("cut off at max_tokens", "Ask to go on for the rest.")),
    fine(51, "calls promised, and none: raw", SWALLOWED, HELLO, requests=2, aside=RAW, said=("it was recovered", READ)),
    fine(51, "calls promised, and none: again without a stream", SWALLOWED, REPLAYED, HELLO, requests=3, said=("it was recovered", READ)),
    fine(51, "calls promised, and none whatever is done", stream(delta({}, "tool_calls"), DONE), body(
        '{"choices": [{"message": {}, "finish_reason": "tool_calls"}]}'), HELLO, requests=3, said=("using calls in the text instead",)),
    fine(52, "text and a call", stream(text("Look. "), delta({"tool_calls": [CALL]}, "tool_calls"), DONE), HELLO, requests=2,
         said=("Look.", READ)),
    fine(52, "an empty answer, once", stream(delta({}, "stop"), DONE), HELLO, requests=2, said=("without saying anything",)),
    failing(52, "empty answers", stream(delta({}, "stop"), DONE), requests=2, said=("without saying anything",)),
    fine(53, "gzip", closing(zipped(*HELLO_PARTS), STREAM, "Content-Encoding: gzip")),
    fine(54, "bad gzip, and good without", closing(b"no gzip at all, but text", STREAM, "Content-Encoding: gzip"), HELLO,
         requests=2, waits=(0.5,), said=("compressed",)),
    failing(54, "bad gzip", closing(b"no gzip at all, but text", STREAM, "Content-Encoding: gzip"), requests=2, waits=(0.5,),
            said=("compressed",)),
    failing(55, "bad chunk header", [HALF + b"nonsense\r\n"], out=PARTIAL, said=(CUT,)),
    failing(55, "Content-Length too long", [head(STREAM, "Content-Length: 9999") + b"".join(HALF_PARTS)], out=PARTIAL, said=(CUT,)),
    fine(55, "Content-Length too long, but a whole answer", [head(STREAM, "Content-Length: 9999") + b"".join(HELLO_PARTS)]),
    failing(55, "Content-Length too short", [head(STREAM, "Content-Length: 260") + b"".join(HALF_PARTS)[:260], KEEP], out="Half an\n",
            said=(ENDED,)),
    fine(56, "307 on this server", body(b"", "", "Location: /v1/chat/completions/", status="307 Temporary Redirect"), HELLO, requests=2),
    failing(57, "302", body(b"", "", "Location: http://elsewhere.test/", status="302 Found"), said=("redirects", "http://elsewhere.test/")),
    failing(57, "307 to another host", body(b"", "", "Location: http://elsewhere.test/v1", status="307 Temporary Redirect"),
            said=("http://elsewhere.test/v1", "vllm.base_url")),
    failing(57, "a circle", body(b"", "", "Location: /v1/chat/completions", status="308 Permanent Redirect"), requests=4, code=4,
            said=("redirects in a loop",)),
    fine(60, "only a thought, closed", stream(delta({"reasoning": "Hm."}), delta({}, "stop"), DONE), HELLO, requests=1, out="Hm.\n"),
    fine(61, "repetition without end", [chunked(text("So: "), *[text("and so on, ")] * 2000), STALL], out="So: and so on, \n", code=3,
         said=("kept repeating itself",)),
    failing(61, "blanks without end in a call", [chunked(delta({"tool_calls": [CALL | {"function": {"name": "read", "arguments": "{"}}]}),
         *[delta({"tool_calls": [{"index": 0, "function": {"arguments": " \n "}}]})] * 3000), STALL], code=3, said=("kept repeating itself",)),
    failing(58, "https for a plain server", SILENCE, url="https://127.0.0.1:{port}/v1", requests=0, code=4, said=("does not speak TLS", "http://")),
    failing(58, "http for a TLS server", [b"\x15\x03\x01\x00\x02\x02\x46"], code=4, said=("speaks TLS", "https://")),
    failing(58, "http for a TLS server that says so", body(PAGE.format("400 The plain HTTP request was sent to HTTPS port"), HTML,
            status="400 Bad Request"), said=("vllm.base_url must begin with https://",)),
)  # fmt: skip
