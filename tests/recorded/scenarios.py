"""What the program does, as JSON values: each scenario runs it in a world of its own and tells what came of it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import answers, conversation
from .program import Answer, Answers, Server, World, as_json
from .subjects import PROVIDERS, describe_session, encode_request, undo_last_turn

DATA = Path(__file__).parent / "data"
SESSIONS = DATA / "sessions"
API_KEY = "key-0123456789abcdef"
BASE_PATHS = {"gemini": "/v1beta", "vertex": "/v1/projects/p/locations/l/publishers/google"}
NO_SANDBOX = {"security": {"sandbox": "off"}}
NO_TOOLS = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
TEXT_CALL = 'I will look. TOOL_CALL: {"name": "read", "arguments": {"path": "notes.md",}}'
HERMES_CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "notes.md"}}\n</tool_call>'

Scenario = Callable[[World], Any]


def ask(
    world: World,
    answered: list[Answer],
    *options: str,
    asides: Answers | None = None,
    vllm: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
    is_terminal: bool = False,
    **sections: Mapping[str, Any],
) -> dict[str, Any]:
    """A run of the program against a server with these answers: exit code, output, and the requests it made."""
    server = Server(answered, answers.vllm_asides() if asides is None else asides)
    provider = str((vllm or {}).get("provider", "vllm"))
    with server.serve() as port:
        base_url = f"http://127.0.0.1:{port}{BASE_PATHS.get(provider, '/v1')}"
        given = {"base_url": base_url, "model": "tiny", "api_key": API_KEY, "retries": 0, **(vllm or {})}
        config = world.configure({**NO_SANDBOX, **sections, "vllm": given})
        ran = world.run("--config", config, *options, stdin=stdin, is_terminal=is_terminal, environment=environment)
    found = {
        "exit_code": ran.code,
        "out": ran.out.splitlines(),
        "err": ran.err.splitlines(),
        "requests": server.requests,
    }
    normal: dict[str, Any] = json.loads(world.normalize(json.dumps(found, ensure_ascii=False), port))
    for request in normal["requests"]:
        request["body"] = _parse_body(request["body"])
    return normal


def _parse_body(body: str) -> Any:
    """The body as JSON where that says all of it: compact JSON, or JSON as json.dumps writes it."""
    if not body:
        return None
    value = json.loads(body)
    if body == json.dumps(value, ensure_ascii=False, separators=(",", ":")):
        return value
    return {"spaced": value} if body == json.dumps(value) else body


# --- requests


def _resume(world: World) -> str:
    """Put the conversation of every kind of message where the program finds it; its id."""
    return _install(world, conversation.journal(), "20260101-000000-aaaa")


def _install(world: World, journal: str, session: str) -> str:
    world.sessions.mkdir(parents=True, exist_ok=True)
    (world.sessions / f"{session}.jsonl").write_text(journal.replace("{base}", str(world.base)), encoding="utf-8")
    return session


def _requests(
    provider: str = "vllm",
    before: tuple[Answer, ...] = (),
    stream: bool = True,
    asides: Answers | None = None,
    is_new: bool = False,
    **vllm: Any,
) -> Any:
    """The requests for one more question in the conversation of every kind of message, or in a new one."""

    def run(world: World, **sections: Any) -> Any:
        answered = [*before, answers.of_provider(provider, "So be it.", stream=stream)]
        given = {"provider": provider, "stream": stream, **vllm}
        options = ("-p", "And now?", "--output", "json", *(() if is_new else ("--resume", _resume(world))))
        return ask(world, answered, *options, asides=asides, vllm=given, **sections)

    return run


def _with(scenario: Any, **sections: Any) -> Scenario:
    return lambda world: scenario(world, **sections)


def _review(world: World) -> Any:
    """A call that reviewers vote on: two questions for a verdict, then the result goes back."""
    yes = answers.chat('{"approve": true, "reason": "It is harmless."}')
    no = answers.chat('{"approve": false, "reason": "It writes."}')
    turn = answers.chat("", answers.call("write", {"path": "a.txt", "content": "x"}))
    reviewer = Server([yes, no], answers.vllm_asides())
    with reviewer.serve() as port:
        seats = [{"base_url": f"http://127.0.0.1:{port}/v1", "model": name} for name in ("judge1",)]
        review = {"models": seats, "rule": "unanimous"}
        found = ask(
            world,
            [turn, answers.chat("It is written.")],
            "-y",
            "-p",
            "Write.",
            "--output",
            "stream-json",
            review=review,
        )
        asked = json.loads(world.normalize(json.dumps(reviewer.requests, ensure_ascii=False), port))
    text = json.dumps({**found, "reviewer": asked})
    return json.loads(re.sub(r"[0-9a-f]{16}", "{fence}", text.replace(f"127.0.0.1:{port}", "127.0.0.1:{port}")))


def _tool_choices(_: World) -> Any:
    choices = ("auto", "none", "required", "read")
    return {provider: {choice: encode_request(provider, choice) for choice in choices} for provider in PROVIDERS}


TOO_LONG = (  # then a summary is asked for, and refused too; then one of less, and then the question again
    answers.refusal(400, "This model's maximum context length is 200000 tokens."),
    answers.refusal(400, "This model's maximum context length is 200000 tokens."),
    answers.refusal(400, "This model's maximum context length is 200000 tokens."),
    answers.chat("GOAL: tides."),
)
BAD_FIELD = "Extra inputs are not permitted: {}"
REQUESTS: dict[str, Scenario] = {
    f"{provider} {name}": _requests(provider, **given)
    for provider in PROVIDERS
    for name, given in {
        "native": {},
        "native whole": {"stream": False},
        "text": {"enable_function_calling": False},
        "text whole": {"enable_function_calling": False, "stream": False},
        "sampling": {"temperature": 0.25, "max_tokens": 512},
        "tools refused": {"before": (answers.refusal(400, NO_TOOLS, provider),)},
        "new": {"is_new": True},
        "new not strict": {"is_new": True, "strict_tools": False},
        "new text": {"is_new": True, "enable_function_calling": False},
    }.items()
}
REQUESTS |= {
    "vllm template": _requests(
        before=(answers.refusal(400, NO_TOOLS),), asides=answers.vllm_asides(template_shows_tools=True)
    ),
    "vllm roles merged": _requests(before=(answers.refusal(400, "Conversation roles must alternate"),)),
    "vllm system folded": _requests(before=(answers.refusal(400, "Conversation roles must alternate"),) * 2),
    "vllm text only": _requests(before=(answers.refusal(400, "tiny is not a multimodal model"),)),
    "vllm constrained on": _with(
        _requests(enable_function_calling=False, is_new=True), text_protocol={"constrained": "on"}
    ),
    "vllm constrained off": _with(
        _requests(enable_function_calling=False, is_new=True), text_protocol={"constrained": "off"}
    ),
    "vllm fields refused": _requests(
        before=tuple(answers.refusal(400, BAD_FIELD.format(name)) for name in ("return_token_ids", "strict")),
        is_new=True,
    ),
    "vllm grammar fails": _requests(before=(answers.refusal(500, "Invalid grammar specification"),), is_new=True),
    "vllm only model": _requests(before=(answers.refusal(404, "The model `big` does not exist."),), model="big"),
    "vllm compaction": _with(
        _requests(
            before=(answers.chat("GOAL: tides. DONE: read notes.md."),),
            asides=answers.vllm_asides(13_000, context=14_000),
        )
    ),
    "vllm too long": _requests(before=TOO_LONG),
    "openai too long": _requests("openai", TOO_LONG),
    "no exec": _with(_requests(), security={"sandbox": "off", "exec_enabled": False}),
    "review": _review,
    "tool choices": _tool_choices,
}


# --- DEBUG lines and JSON events


def _turns(level: int, answered: Callable[[], list[Answer]], *options: str, **given: Any) -> Scenario:
    def run(world: World) -> Any:
        environment = {"DEBUG": str(level)} if level else {}
        found = ask(world, answered(), "-p", "What is in notes.md?", *options, environment=environment, **given)
        if level:  # the bodies of these requests are recorded without DEBUG
            found["requests"] = [request["request"] for request in found["requests"]]
        return {**found, "err": [_shorten(line) for line in found["err"]]}

    return run


def _shorten(line: str) -> str:
    """A line that holds a body, told by its beginning and a digest."""
    return line if len(line) < 400 else f"{line[:200]} ... {len(line)} characters, sha256 {digest(line)}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _read_native() -> list[Answer]:
    return [
        answers.chat("I will look.", answers.call("read", {"path": "notes.md"}), thought="A file."),
        answers.chat("Six."),
    ]


def _read_after_refusal() -> list[Answer]:
    return [answers.refusal(400, NO_TOOLS), answers.chat(TEXT_CALL), answers.chat("Six.")]


def _read_leaked() -> list[Answer]:
    return [answers.chat(HERMES_CALL), answers.chat("Six.")]


def _lost() -> list[Answer]:
    """The server's parser swallowed the call: the finish reason speaks of it, and the tokens are there."""
    return [answers.chat("", finish="tool_calls", ids=[1, 2, 3, 4, 5, 6, 7, 8]), answers.chat("Six.")]


def _malformed() -> list[Answer]:
    bad = answers.call("read", '{"path": ')
    return [answers.chat("", bad), answers.chat("", answers.call("nothing", {})), answers.chat("Six.")]


def _parallel() -> list[Answer]:
    calls = [
        answers.call(name, arguments, f"call_{at}", at)
        for at, (name, arguments) in enumerate(
            (
                ("read", {"path": "notes.md"}),
                ("glob", {"pattern": "*"}),
                ("write", {"path": "new.txt", "content": "a\n"}),
                ("exec", {"command": "echo hello"}),
                ("read", {"path": "../out"}),
                ("todo_write", {"todos": []}),
            )
        )
    ]
    return [answers.chat("All at once.", *calls), answers.chat("Done.")]


LOST_ASIDES = answers.vllm_asides(text=HERMES_CALL)
TURNS: dict[str, Scenario] = {
    f"{name} {suffix}": _turns(level, answered, *options, asides=asides)
    for name, answered, asides in (
        ("native", _read_native, None),
        ("text after 400", _read_after_refusal, None),
        ("leaked", _read_leaked, None),
        ("lost", _lost, LOST_ASIDES),
        ("lost without tokens", _lost, None),
        ("malformed", _malformed, None),
        ("parallel", _parallel, None),
    )
    for suffix, level, options in (
        ("debug 1", 1, ()),
        ("debug 2", 2, ()),
        ("json", 0, ("--output", "json")),
        ("stream-json", 0, ("--output", "stream-json")),
        ("allowed", 0, ("-y", "--output", "stream-json")),
    )
}
TURNS |= {
    "limit of turns": _turns(0, _parallel, "-y", "--max-turns", "1", "--output", "stream-json"),
    "limit of tokens": _turns(0, _parallel, "-y", "--max-tokens", "5", "--output", "json"),
    "stdin": _turns(1, lambda: [answers.chat("Six.")], stdin="The harbour.\n"),
    "trace": lambda world: _trace(world),
}


def _trace(world: World) -> Any:
    file = world.home / "trace.jsonl"
    ask(world, _read_after_refusal(), "-p", "What?", "--trace", str(file))
    text = re.sub(r"127.0.0.1:\d+", "127.0.0.1:{port}", world.normalize(file.read_text(encoding="utf-8")))
    return [json.loads(line) for line in text.splitlines()]


# --- the command line


def _run(*arguments: str, stdin: str = "", **environment: str) -> Scenario:
    def run(world: World) -> Any:
        ran = world.run(*arguments, stdin=stdin, environment=environment)
        text = world.normalize(
            json.dumps({"exit_code": ran.code, "out": ran.out.splitlines(), "err": ran.err.splitlines()})
        )
        return json.loads(text)

    return run


def _fails(answer: Answer, *options: str, **given: Any) -> Scenario:
    return lambda world: ask(world, [answer], "-p", "Hi.", *options, **given)


def _denied() -> list[Answer]:
    return [answers.chat("", answers.call("write", {"path": "a", "content": ""})), answers.chat("Then not.")]


NOWHERE = ("--base-url", "http://127.0.0.1:9/v1", "--model", "tiny")
POLICY_LINES = [
    {"tool": "read", "arguments": {"path": "notes.md"}},
    {"tool": "read", "arguments": {"path": "../out"}},
    {"tool": "write", "arguments": {"path": "a.txt", "content": ""}},
    {"tool": "exec", "arguments": {"command": "git status"}},
    {"tool": "exec", "arguments": {"command": "ls; rm -r /"}},
    {"tool": "exec", "arguments": {"command": "ls"}, "echo": True},
    {"tool": "nothing"},
    {"arguments": {}},
]
POLICY_INPUT = "\n".join(map(json.dumps, POLICY_LINES)) + '\nno JSON\n{"tool": "read", "tool": "exec"}\n'
COMMANDS = ("doctor", "models", "tools", "config", "policy", "sessions")
COMMAND_LINE: dict[str, Scenario] = {
    "help": _run("--help"),
    "version": _run("--version"),
    **{f"{name} help": _run(name, "--help") for name in COMMANDS},
    **{
        f"sessions {name} help": _run("sessions", name, "--help")
        for name in ("search", "show", "export", "delete", "clean")
    },
    "tools": _run("tools"),
    "tools without exec": lambda world: _run(
        "tools", "--config", world.configure({"security": {"exec_enabled": False}})
    )(world),
    "config": _run("config"),
    "config from everywhere": lambda world: _run(
        "config",
        "--config",
        world.configure({"vllm": {"retries": 5}}),
        "--model",
        "big",
        "--allow",
        "exec:git status",
        VLLM_API_KEY=API_KEY,
        VLLM_BASE_URL="http://gpu:8000/v1",
    )(world),
    "config wrong key": lambda world: _run("config", "--config", world.configure({"vllm": {"retrys": 5}}))(world),
    "config wrong value": lambda world: _run("config", "--config", world.configure({"vllm": {"retries": -1}}))(world),
    "config no file": _run("config", "--config", "nowhere.json"),
    **{
        f"policy {profile}": _run("policy", "--profile", profile, "--allow", "exec:git status", stdin=POLICY_INPUT)
        for profile in ("read-only", "ask", "workspace", "full")
    },
    "wrong option": _run("--profle", "ask"),
    "wrong command": _run("docter"),
    "wrong rule": _run("policy", "--allow", "exec:"),
    "empty question": _run("-p", " ", *NOWHERE),
    "demo with a server": _run("--demo", *NOWHERE, "-p", "tour"),
    "no server": _run("-p", "Hi.", *NOWHERE, "--output", "json"),
    "no session": _run("-p", "Hi.", *NOWHERE, "--resume", "none"),
    "sessions of nothing": _run("sessions"),
    "unauthorized": _fails(answers.refusal(401, "Unauthorized"), "--output", "json"),
    "unknown path": _fails(as_json(404, {"detail": "Not Found"})),
    "server error": _fails(answers.refusal(500, "CUDA error")),
    "not JSON": _fails(Answer(200, "application/json", b"<html>")),
    "cut stream": _fails(Answer(200, "text/event-stream", b'data: {"choices": [{"delta": {"content": "Half"}}]}\n\n')),
    "denied": lambda world: ask(world, _denied(), "-p", "Write.", "--output", "stream-json"),
    "models": lambda world: ask(world, [], "models"),
}


# --- sessions


def write_sessions(world: World) -> dict[str, str]:
    """Sessions of several kinds, as the program writes them: the lines of each journal, by name."""
    journals: dict[str, str] = {}

    def keep(*names: str) -> None:
        files = [path.read_text(encoding="utf-8") for path in world.sessions.glob("*.jsonl")]
        files.sort(key=lambda text: ("forked_from" in text.partition("\n")[0], len(text)))
        for name, text in zip(names, files, strict=True):
            text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", world.normalize(text))
            journals[name] = text
        shutil.rmtree(world.sessions)

    ask(world, [*_parallel()[:1], *_malformed()], "-y", "-p", "Do it all.")
    keep("calls")
    ask(world, [answers.chat(TEXT_CALL), answers.chat("Six.")], "-p", "Read.", vllm={"enable_function_calling": False})
    keep("text")
    secret = f"The key is {API_KEY}, and ghp_{'a1B2' * 9} too."
    ask(world, [answers.chat(secret, pieces=3, thought=secret)], "-p", f"My key is {API_KEY}.")
    keep("redacted")
    todos = [{"content": "sow", "status": "pending"}]
    talk(
        world,
        [
            answers.chat("One."),
            answers.chat("", answers.call("todo_write", {"todos": todos})),
            answers.chat("Two."),
            answers.chat("", answers.call("write", {"path": "b.txt", "content": "b\n"})),
            answers.chat("Three."),
            answers.chat("Four."),
        ],
        "first",
        "second",
        "third",
        "/undo",
        "/rename harbour",
        "/fork",
        "fourth",
    )
    keep("undone", "forked")
    talk(
        world,
        [answers.chat("One."), answers.chat("Two."), answers.chat("GOAL: to count."), answers.chat("Three.")],
        "first",
        "second",
        "/compact",
        "third",
    )
    keep("compacted")
    talk(
        world,
        [
            answers.chat("Half an answer", finish="length"),
            Answer(200, "text/event-stream", answers.chat("Cut off").body[:300]),
            answers.chat("Whole."),
        ],
        "first",
        "second",
        "/retry",
    )
    keep("broken")
    refused = answers.refusal(400, "No such thing.")
    talk(world, [answers.chat("One."), refused, answers.chat("Three.")], "first", "second", "third")
    keep("refused")
    whole = journals["calls"]
    at = whole.index('{"type":"call"')
    journals["interrupted"] = whole[: whole.index("\n", at) + 1] + '{"type":"delta","n":9'
    journals["every-kind"] = conversation.journal()
    return journals


def talk(world: World, answered: list[Answer], *lines: str) -> dict[str, Any]:
    """A chat with these lines typed."""
    text = "".join(f"{line}\n" for line in (*lines, "/exit"))
    return ask(world, answered, "--yes", "--plain", stdin=text, is_terminal=True)


def _journals_written(world: World) -> Any:
    return {name: text.splitlines() for name, text in write_sessions(world).items()}


def stored_sessions() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(SESSIONS.glob("*.jsonl"))}


def _replayed(name: str) -> Scenario:
    """What an old journal gives: the session's state, its exports, the next request, and the turn before undone."""

    def run(world: World) -> Any:
        session = "20260101-000000-aaaa"
        journal = stored_sessions()[name]

        def install() -> Path:
            _install(world, journal, session)
            return world.sessions / f"{session}.jsonl"

        found: dict[str, Any] = {"state": describe_session(install(), world.workspace)}
        resumed = (world.sessions / f"{session}.jsonl").read_text(encoding="utf-8")
        found["appended"] = resumed.splitlines()[len(journal.splitlines()) - 1 :]
        found["undone"] = undo_last_turn(install(), world.workspace, lambda path, content: None)
        install()
        for arguments in (
            ["sessions"],
            ["sessions", "--json"],
            ["sessions", "show", session],
            ["sessions", "search", "harbour"],
        ):
            found[" ".join(arguments[:2])] = _run(*arguments)(world)
        for form in ("md", "json", "html"):
            found[f"export {form}"] = _run("sessions", "export", session, "--format", form)(world)
        found["resumed"] = ask(
            world, [answers.chat("So be it.")], "--resume", session, "-p", "And now?", "--output", "json"
        )
        return json.loads(world.normalize(json.dumps(found)))

    return run


def session_scenarios() -> dict[str, Scenario]:
    return {"written": _journals_written, **{name: _replayed(name) for name in stored_sessions()}}


def scenarios(kind: str) -> dict[str, Scenario]:
    """All of a file of data."""
    groups: dict[str, Callable[[], dict[str, Scenario]]] = {
        "requests": lambda: REQUESTS,
        "turns": lambda: TURNS,
        "command_line": lambda: COMMAND_LINE,
        "sessions": session_scenarios,
    }
    return groups[kind]()


KINDS = ("requests", "turns", "command_line", "sessions")
