import json
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from src.cli.demo.loopback import JSON, STREAM, LoopbackReply, LoopbackRequest, serve
from src.cli.demo.protocol import DemoServer, DemoTurn
from src.cli.main import main

CALL = DemoTurn("", calls=(("read", {"path": "notes.txt"}),))
PAGE = "<html><head><title>Sign in</title></head></html>"


class Server:
    """The demo's server, with a model that makes the call it is asked for, unless a test replaces its answers."""

    def __init__(self, said=CALL, *, model="Qwen/Qwen3-8B", context=32768, answers=None):
        self._protocol = DemoServer(lambda _: said, lambda _: None)
        self._model = model
        self._context = context
        self._answers = answers or {}
        self.bodies = []

    def __call__(self, asked):
        if asked.path == "/v1/models":
            card = {"id": "demo", "root": self._model, "max_model_len": self._context}
            return answer(200, {"data": [card]})
        body = json.loads(asked.body or b"{}")
        self.bodies.append((asked.path, body))
        for path, fits, reply in self._answers:
            if path == asked.path and fits(body):
                return reply
        return self._protocol(LoopbackRequest(asked.method, asked.path, asked.body))


def answer(status, value):
    return LoopbackReply(status, JSON, [json.dumps(value).encode()])


def refusal(message):
    return answer(400, {"error": {"message": message, "code": 400}})


NO_SANDBOX = {"security": {"sandbox": "off"}}  # trying one takes time
HELLO = answer(200, {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]})
NO_TOOLS = refusal('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')


@pytest.fixture
def doctor(tmp_path, capsys):
    with ExitStack() as stack:

        def run(server=None, *options, url=None, settings=NO_SANDBOX):
            (tmp_path / "config.json").write_text(json.dumps(settings))
            url = url or f"{stack.enter_context(serve(server))}/v1"
            code = main(["doctor", "-u", url, "-c", str(tmp_path / "config.json"), "--output", "json", *options])
            found = json.loads(capsys.readouterr().out)
            assert found["exit_code"] == code
            return {check["name"]: check for check in found["checks"]}, found["serve"], code

        yield run


def status(checks):
    """The status of each check except the sandbox's, which depends on the machine."""
    return {name: check["status"] for name, check in checks.items() if name != "sandbox"}


def test_where_all_is_well_every_check_passes(doctor):
    checks, command, code = doctor(Server())
    assert (set(status(checks).values()), code) == ({"pass"}, 0)
    assert list(checks) == [
        "configuration", "server", "model", "version", "context", "native calls", "tokens", "template",
        "constrained decoding", "streaming", "reasoning", "continuity", "sandbox", "terminal",
    ]  # fmt: skip
    assert command == (
        "vllm serve Qwen/Qwen3-8B --enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3"
    )


def stream(prompt, answer):
    """A turn's answer in text, with the token ids of its prompt and of itself."""
    call = 'TOOL_CALL: {"name": "read", "args": {"path": "notes.txt"}}'
    choice = {"index": 0, "delta": {"content": call}, "token_ids": answer, "finish_reason": None}
    events = [{"choices": [choice], "prompt_token_ids": prompt},
              {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "token_ids": [0]}]}]  # fmt: skip
    data = [json.dumps(each, separators=(",", ":")) for each in events]  # as vLLM writes it
    return LoopbackReply(200, STREAM, [f"data: {each}\n\n".encode() for each in (*data, "[DONE]")])


@pytest.mark.parametrize(
    ("second", "status", "said"),
    [
        ([1, 2, 3, 4, 5, 6], "pass", "100.0% of the last prompt and answer were the beginning of this prompt"),
        ([1, 2, 3, 4, 9, 6], "warn", "80.0% of the last prompt and answer"),
        ([1, 9, 3, 4, 5, 6], "warn", "earlier messages otherwise than before (template)"),
    ],
)
def test_what_the_next_prompt_keeps_of_a_turn_is_measured_and_its_break_named(doctor, second, status, said):
    path = "/v1/chat/completions"
    answers = [
        (path, lambda body: "tools" in body and len(body["messages"]) > 2, stream(second, [7])),
        (path, lambda body: "tools" in body and "structured_outputs" not in body, stream([1, 2, 3], [4, 5])),
    ]
    check = doctor(Server(answers=answers))[0]["continuity"]
    assert (check["status"], said in check["said"]) == (status, True), check


def test_where_no_token_ids_are_told_continuity_is_not_measured(doctor):
    check = doctor(Server())[0]["continuity"]
    assert (check["status"], "tells no token ids" in check["said"]) == ("pass", True)


def test_a_server_without_a_tool_parser_gets_the_flags_as_advice(doctor):
    def has_native_tools(body):
        return body.get("tool_choice") == "auto"

    checks, _, code = doctor(Server(answers=[("/v1/chat/completions", has_native_tools, NO_TOOLS)]))
    assert (checks["native calls"]["status"], code) == ("warn", 0)
    assert "does not accept tools; the model's call came in its text" in checks["native calls"]["said"]
    assert "--enable-auto-tool-choice --tool-call-parser hermes." in checks["native calls"]["advice"]


def test_a_server_that_does_not_stream_calls_is_named(doctor):
    def is_streamed(body):
        return bool(body.get("stream")) and "tools" in body

    no_stream = refusal("Streaming is not supported when tools are used.")
    checks, _, code = doctor(Server(answers=[("/v1/chat/completions", is_streamed, no_stream)]))
    assert (checks["streaming"]["status"], code) == ("warn", 0)
    assert "does not stream" in checks["streaming"]["said"]


def test_a_call_that_the_servers_parser_missed_names_the_one_that_reads_it(doctor):
    leaked = DemoTurn('<tool_call>\n{"name": "read", "arguments": {"path": "notes.txt"}}\n</tool_call>')
    checks, command, _ = doctor(Server(leaked, model="who/knows"))
    assert "came in its text (hermes)" in checks["native calls"]["said"]
    assert command == "vllm serve who/knows --enable-auto-tool-choice --tool-call-parser hermes"


def test_a_model_that_calls_nothing_is_a_warning_with_what_it_said(doctor):
    checks, command, code = doctor(Server(DemoTurn("I cannot read files."), model="who/knows"))
    assert (checks["native calls"]["status"], command, code) == ("warn", None, 0)
    assert "I cannot read files." in checks["native calls"]["said"]


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (lambda body: body["messages"][0]["role"] == "system", "accepts no system prompt"),
        (lambda body: body["messages"][-1]["role"] == "tool", "accepts no tool results"),
        (lambda body: bool(body.get("tools")), "does not show tools"),
    ],
)
def test_what_the_template_does_not_take(doctor, refused, said):
    checks, _, _ = doctor(Server(answers=[("/tokenize", refused, refusal("no"))]))
    assert checks["template"]["status"] == "warn"
    assert said in checks["template"]["said"]


def test_a_server_that_does_not_constrain(doctor):
    refused = ("/v1/chat/completions", lambda body: "structured_outputs" in body, refusal("no grammar here"))
    check = doctor(Server(answers=[refused]))[0]["constrained decoding"]
    assert (check["status"], "no grammar here" in check["said"]) == ("warn", True)


def test_a_server_that_ignores_a_grammar_does_not_pass(doctor):
    ignored = ("/v1/chat/completions", lambda body: "const_string" in str(body.get("structured_outputs")), HELLO)
    check = doctor(Server(answers=[ignored]))[0]["constrained decoding"]
    assert check["status"] == "warn"
    assert "ignores it" in check["said"]


def test_of_an_old_server_the_field_that_works_is_named(doctor):
    held = answer(200, {"choices": [{"message": {"content": '"heron-7431-reeds"'}, "finish_reason": "stop"}]})
    answers = [("/v1/chat/completions", lambda body: "guided_json" in body, held),
               ("/v1/chat/completions", lambda body: "const_string" in str(body.get("structured_outputs")), HELLO)]  # fmt: skip
    check = doctor(Server(answers=answers))[0]["constrained decoding"]
    assert (check["status"], "guided_json" in check["said"]) == ("warn", True)


def test_where_tokens_are_not_offered_the_flag_is_named(doctor):
    check = doctor(Server())[0]["tokens"]
    assert (check["status"], "--enable-scale-out" in check["advice"]) == ("pass", True)


def test_where_they_are_the_call_read_from_them_is_reported(doctor):
    said = '<tool_call>{"name": "read", "arguments": {"path": "notes.txt"}}</tool_call>'
    rendered = answer(200, {"token_ids": [1, 2, 3], "sampling_params": {}})
    generated = answer(200, {"choices": [{"index": 0, "text": said, "token_ids": [4], "finish_reason": "stop"}]})
    always = lambda _: True  # noqa: E731
    answers = [("/v1/chat/completions/render", always, rendered), ("/inference/v1/generate", always, generated)]
    check = doctor(Server(answers=answers))[0]["tokens"]
    assert (check["status"], "(hermes)" in check["said"]) == ("pass", True)


def test_a_small_context(doctor):
    assert doctor(Server(context=2048))[0]["context"]["status"] == "warn"


def test_thoughts_in_the_answer_name_the_parser_for_them(doctor):
    checks, _, _ = doctor(Server(DemoTurn("Hm.</think>\n\nI call nothing.")))
    assert checks["reasoning"]["status"] == "warn"
    assert "--reasoning-parser qwen3" in checks["reasoning"]["advice"]


def test_thoughts_in_their_own_field(doctor):
    assert "separate field" in doctor(Server(DemoTurn("Yes.", "Hm.")))[0]["reasoning"]["said"]


def test_an_option_that_counts_for_each_server_is_named_once(doctor):
    servers = {name: {"base_url": "http://127.0.0.1:9/v1"} for name in ("one", "two")}
    checks, *_ = doctor(Server(), "--no-function-calling", settings={"servers": servers})
    assert checks["configuration"]["said"].count("enable_function_calling") == 1


class TestWhatFails:
    def test_a_server_that_does_not_answer(self, doctor):
        checks, command, code = doctor(url="http://127.0.0.1:9/v1")
        assert list(checks) == ["configuration", "server", "sandbox", "terminal"]
        assert (checks["server"]["status"], command, code) == ("fail", None, 1)
        assert "--demo" in checks["server"]["advice"]

    def test_a_page_instead_of_a_server(self, doctor):
        checks, _, code = doctor(lambda _: LoopbackReply(200, "text/html", [PAGE.encode()]))
        assert (checks["server"]["status"], code) == ("fail", 1)
        assert checks["server"]["said"]

    def test_a_model_that_is_not_served(self, doctor):
        checks, _, code = doctor(Server(), "-m", "other")
        assert (checks["model"]["status"], code) == ("fail", 1)
        assert "there is demo" in checks["model"]["said"]

    def test_settings_that_cannot_be_read(self, doctor):
        checks, _, code = doctor(Server(), settings={"vllm": {"modle": "x"}})
        assert (list(checks), code) == (["configuration", "terminal"], 1)
        assert "vllm.model" in checks["configuration"]["said"]


@pytest.mark.parametrize(
    ("security", "said"),
    [({"sandbox": "off"}, "none"), ({"exec_enabled": False}, "not needed")],
)
def test_where_commands_run(doctor, security, said):
    assert said in doctor(Server(), settings={"security": security})[0]["sandbox"]["said"]


def test_a_repository_that_is_not_opened_to_commands_is_told(doctor, tmp_path):
    (tmp_path / "work").mkdir()
    if doctor(Server(), "-w", str(tmp_path / "work"), settings={})[0]["sandbox"]["status"] != "pass":
        pytest.skip("no sandbox contains commands here")
    (tmp_path / "work" / ".git").write_text("gitdir: ../private/.git\n")
    found = doctor(Server(), "-w", str(tmp_path / "work"), settings={})[0]["sandbox"]
    assert found["status"] == "warn"
    assert found["advice"].startswith(f"The repository {tmp_path}/private/.git is not opened to commands: ")


def test_where_commands_run_under_landlock_the_better_sandbox_is_named(doctor):
    found = doctor(Server(), settings={})[0]["sandbox"]
    if not found["said"].startswith("Landlock"):
        pytest.skip("commands run in another sandbox here")
    assert "Better is bubblewrap: with that package" in found["advice"]


def test_local_tool_servers_are_reported_to_run_outside_the_sandbox(doctor):
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    here, there = {"name": "files", "command": ["mcp-files"]}, {"name": "wiki", "url": "http://127.0.0.1:9/mcp"}
    found = doctor(Server(), settings={**NO_SANDBOX, "tools": {"mcp": [here, there]}})[0]["MCP servers"]
    assert (found["status"], found["said"]) == ("warn", "outside the sandbox, with your rights: files")
    assert found["advice"].endswith("Configure only servers that you trust.")


def test_a_tool_server_that_is_left_out_is_told_with_its_reason(doctor):
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    there = {"name": "wiki", "url": "http://127.0.0.1:9/mcp"}
    found = doctor(Server(), settings={**NO_SANDBOX, "tools": {"mcp": [there]}})[0]["MCP servers"]
    assert (found["status"], found["said"]) == ("warn", "1, all reached over the network")
    assert found["advice"].startswith("MCP server wiki is left out: ")


@pytest.mark.parametrize(("count", "is_told"), [(2, False), (100, True)])
def test_that_tools_are_searched_is_told_where_they_would_fill_much(doctor, count, is_told):
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    program = str(Path(__file__).parents[2] / "tools" / "mcp_server.py")
    row = {"name": "big", "command": [sys.executable, program, "many", str(count)], "start_timeout": 100}
    checks = doctor(Server(), settings={**NO_SANDBOX, "tools": {"mcp": [row]}})[0]
    assert ("tool search" in checks) is is_told
    if is_told:
        said = "100 tools are only named in prompts, and found with tool_search (tools.search: auto): about "
        assert checks["tool search"]["said"].startswith(said)


def test_another_provider_is_not_asked_what_only_vllm_knows(doctor):
    checks, command, _ = doctor(Server(), settings={**NO_SANDBOX, "vllm": {"provider": "ollama"}})
    assert not checks.keys() & {"version", "context", "template", "constrained decoding"}
    assert command is None


def test_for_people_each_check_is_a_line_and_the_flags_come_last(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps(NO_SANDBOX))
    with serve(Server()) as address:
        assert main(["doctor", "-u", f"{address}/v1", "-c", str(tmp_path / "config.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["pass", "server", f"{address}/v1", "answers"]
    assert lines[-1].strip().startswith("vllm serve Qwen/Qwen3-8B --enable-auto-tool-choice")


@pytest.mark.parametrize(("said", "is_advised"), [(CALL, False), (DemoTurn("Hello."), True)])
def test_an_unknown_model_is_told_where_parsers_are_listed_only_if_its_calls_are_not_native(
    tmp_path, capsys, said, is_advised
):
    (tmp_path / "config.json").write_text(json.dumps(NO_SANDBOX))
    with serve(Server(said, model="who/knows")) as address:
        main(["doctor", "-u", f"{address}/v1", "-c", str(tmp_path / "config.json")])
    assert ("is listed at" in capsys.readouterr().out) == is_advised


@pytest.mark.parametrize(
    ("owner", "engine"),
    [
        ("llamacpp", "llama.cpp's server"),
        ("sglang", "SGLang"),
        ("library", "Ollama"),
        ("organization_owner", "LM Studio"),
    ],
)
def test_another_server_is_named_and_gets_no_advice_about_vllm(doctor, owner, engine):
    lacking = answer(404, {"error": "not found"})
    listed = answer(200, {"data": [{"id": "demo", "owned_by": owner}]})
    missing = ("/version", "/tokenize", "/v1/chat/completions/render")
    server = Server(answers=[(path, lambda _: True, lacking) for path in missing])
    checks, command, _ = doctor(lambda asked: listed if asked.path == "/v1/models" else server(asked))
    assert (checks["version"]["status"], checks["version"]["said"]) == ("pass", engine)
    assert checks["tokens"]["said"] == f"not offered by {engine}"
    assert command is None
    assert "vLLM" not in json.dumps(list(checks.values())).replace("not vLLM", "")
