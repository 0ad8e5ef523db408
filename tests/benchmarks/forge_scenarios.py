"""Forge's published scenarios, with a model scripted from the failures that Forge guards against.

    PYTHON tests/benchmarks/forge_scenarios.py FOLDER [--scenario NAME] [--failure NAME]

PYTHON has `forge-guardrails` and this project's requirements; FOLDER is the unpacked source of that package, which has
the scenarios. The model knows how to do each task, and fails in one way at each step, until it is told so. Each task is
done by Forge's own client with its guards off: straight at the model, through Forge's proxy and through `vllm-bot serve`.
Then by the loop of this project.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError

ROOT = Path(__file__).resolve().parents[2]
PLACES = {"service": "payments-service"}
EMPLOYEE = {"employee_id": "E-1847"}
REPORT = "Engineering; L3, Confidential; Michael Chen (spouse), (555) 867-5309; B7; payments-prod-v3, internal-apis-v2"
MONTHS = {"account_id": "ACC-12345", "since": "2024-10-01", "until": "2024-12-31"}
NAMES = ("Sarah Chen", "James Patel", "Aisha Nakamura")

PLAN = "MRN-84201: HbA1c 9.2%, eGFR 48, cortical thinning; Dr. Patel; metformin against empagliflozin; APPT-20250312"

ANNOUNCED = "announced behind a result"
Call = tuple[str, dict[str, Any]]
# How each task is done. A scenario with one of ENDINGS behind its name is the same task.
ENDINGS = ("_stateful", "_baseline", "_p1", "_p2", "_p3")
SOLUTIONS: Mapping[str, Sequence[Call]] = {
    "basic_2step": [
        ("get_country_info", {"country": "France"}),
        ("summarize", {"content": "The capital of France is Paris."}),
    ],
    "sequential_3step": [
        ("fetch_sales_data", {"quarter": 4, "year": 2024}),
        ("analyze_sales", {}),
        ("report", {"findings": "Revenue grew by 23%. Best: Widget Pro. Weakest: APAC."}),
    ],
    "error_recovery": [("fetch", {"count": "0010"}), ("summarize", {"content": "10 records were fetched."})],
    "tool_selection": [
        ("lookup_user", {"name": "Alice"}),
        ("get_permissions", {"user_id": "U-1001"}),
        ("respond", {"answer": "Alice may read, write, and is admin."}),
    ],
    "argument_fidelity": [
        ("lookup_entity", {"entity": "Widget Pro"}),
        ("fetch_details", {"entity_id": "ENT-4728"}),
        ("present", {"summary": "Widget Pro: 1500 units were sold."}),
    ],
    "sequential_reasoning": [
        ("identify_patient", {"name": "John Doe"}),
        ("get_records", {"patient_id": "PT-7829"}),
        ("check_interactions", {"medication": "lisinopril"}),
        (
            "recommend",
            {"patient_id": "PT-7829", "findings": "lisinopril: no ibuprofen (kidney), no potassium (hyperkalemia)"},
        ),
    ],
    "conditional_routing": [
        ("get_alert", PLACES),
        ("check_metrics", PLACES),
        ("check_logs", PLACES),
        ("check_deployment", PLACES),
        ("diagnose", {"diagnosis": "SDK v4.0.0 changed the response schema.", "action": "Rollback."}),
    ],
    "data_gap_recovery": [
        ("get_employee", {"name": "Sarah Chen"}),
        ("security_audit", EMPLOYEE),
        ("personnel_file", EMPLOYEE),
        ("onboarding_records", EMPLOYEE),
        ("submit_report", {"employee_name": "Sarah Chen", "report": REPORT}),
    ],
    "data_gap_recovery_extended": [
        ("get_employee", {"name": "Sarah Chen"}),
        ("security_audit", EMPLOYEE),
        ("onboarding_records", EMPLOYEE),
        ("compensation_v2", EMPLOYEE),
        ("project_assignments", EMPLOYEE),
        ("submit_report", {"employee_name": "Sarah Chen", "report": REPORT}),
    ],
    "argument_transformation": [
        ("list_transactions", {"quarter": "Q4", "year": 2024}),
        ("get_approved_vendors", {}),
        ("get_vendor_details", {"vendor_name": "ACME Corp"}),
        ("currency_convert", {"amount": 4800.0, "from_currency": "EUR", "to_currency": "USD"}),
        (
            "submit_audit_report",
            {
                "transaction_ids": "TX-1001, TX-1005, TX-1006, TX-1008",
                "total_flagged_usd": "28980.00",
                "top_vendor": "Wonka Industries",
            },
        ),
    ],
    "inconsistent_api_recovery": [
        ("legacy_list_accounts", {"page": 1, "page_size": 10}),
        ("legacy_get_balance", {"account_id": "ACC-12345"}),
        ("legacy_get_transactions", MONTHS),
        ("legacy_categorize_spend", {"txn_id": 42, "category": "SVCS"}),
        ("legacy_check_compliance", {"region": "us", "period": "2024-Q4"}),
        ("legacy_aggregate_subtotal", {"amounts": "5000.00|12500.00|8000.00"}),
        (
            "legacy_submit_audit",
            {
                "report": '{"flagged_count": 0, "total_usd": "25500.00", "compliance_status": "PASS", "txn_count": 3}',
            },
        ),
    ],
    "grounded_synthesis": [
        ("get_open_role", {}),
        ("get_candidate_pool", {}),
        *(("get_compatibility_check", {"candidate_name": name}) for name in NAMES),
        (
            "submit_hiring_decision",
            {"candidate": "Aisha Nakamura", "rationale": "Sarah has a covenant, James needs a visa."},
        ),
    ],
    "compaction_chain": [
        ("patient_lookup", {"patient_name": "Margaret Chen"}),
        ("pull_records", {"mrn": "MRN-84201"}),
        ("order_labs", {"encounter_id": "ENC-20250305"}),
        ("review_imaging", {"lab_id": "LAB-7718"}),
        ("request_referral", {"imaging_id": "IMG-3304"}),
        ("check_pharmacy", {"referral_id": "REF-5521"}),
        ("verify_insurance", {"patient_mrn": "MRN-84201"}),
        ("request_prior_auth", {"plan_id": "PLAN-BC-4490", "referral_id": "REF-5521"}),
        ("schedule_appointment", {"auth_id": "AUTH-9917", "referral_id": "REF-5521"}),
        ("submit_treatment_plan", {"summary": PLAN}),
    ],
    "relevance_detection": [("decline", {"reason": "No tool computes a square root."})],
}


def write_xml(name: str, given: Mapping[str, Any]) -> str:
    members = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in given.items())
    return f"<function={name}>\n{members}</function>"


def make_message(text: str | None, *calls: tuple[str, str], **fields: Any) -> dict[str, Any]:
    """`calls`: name and arguments as the server's parser would give them."""
    made = [
        {"id": f"call_{time.monotonic_ns()}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments in calls
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {}), **fields}


def write_cut(name: str, given: Mapping[str, Any]) -> str:
    whole = json.dumps({"name": name, "arguments": given})
    return f"<tool_call>\n{whole[: len(whole) // 2]}"


def turn_to_strings(given: Mapping[str, Any]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}


# What a model makes of a call: name and arguments in, its message out.
FAILURES: Mapping[str, Callable[[str, dict[str, Any]], dict[str, Any]]] = {
    "none": lambda name, given: make_message(None, (name, json.dumps(given))),
    "JSON in a fence": lambda name, given: make_message(
        f"```json\n{json.dumps({'name': name, 'arguments': given})}\n```"
    ),
    "JSON as Forge asks for it": lambda name, given: make_message(json.dumps({"tool": name, "args": given})),
    "name[ARGS]{}": lambda name, given: make_message(f"{name}[ARGS]{json.dumps(given)}"),
    "Qwen's XML": lambda name, given: make_message(write_xml(name, given)),
    "Mistral's brackets": lambda name, given: make_message(f"[TOOL_CALLS]{name}{json.dumps(given)}"),
    "Hermes, not parsed": lambda name, given: make_message(
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': given})}\n</tool_call>"
    ),
    "behind a thought in the text": lambda name, given: make_message(
        f"<think>\nI call it.\n</think>\n{json.dumps({'name': name, 'arguments': given})}"
    ),
    "cut": lambda name, given: make_message(write_cut(name, given)),
    "an opening tag": lambda _name, _given: make_message("<tool_call>"),
    ANNOUNCED: lambda name, _given: make_message(f"I will now call {name}."),
    "a thought alone": lambda name, _given: make_message(None, reasoning=f"I should call {name}."),
    "an unknown tool": lambda name, given: make_message(None, (f"{name}_tool_v9", json.dumps(given))),
    "numbers as strings": lambda name, given: make_message(None, (name, json.dumps(turn_to_strings(given)))),
    "arguments as a string": lambda name, given: make_message(None, (name, json.dumps(json.dumps(given)))),
    "an answer in words": lambda _name, _given: make_message("The task is done, and all is well."),
}


class ModelServer(ThreadingHTTPServer):
    """The scripted model as a vLLM server. `solution` and `failure` are those of the run."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.solution: Sequence[Call] = ()
        self.failure = "none"
        self.requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def respond(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        self.requests += 1
        place = self._count_done(messages)
        if place >= len(self.solution):
            return make_message("That is all.")
        users = sum(message["role"] == "user" for message in messages)
        is_told = users > 1 or _is_error(messages[-1])
        if self.failure == ANNOUNCED and messages[-1]["role"] != "tool":  # what is announced before is no stall
            is_told = True
        name, given = self.solution[place]
        return FAILURES["none" if is_told else self.failure](name, dict(given))

    def _count_done(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """How many calls of the solution have a result."""
        called: dict[str, str] = {}
        place = 0
        for message in messages:
            for call in message.get("tool_calls") or ():
                called[call["id"]] = call["function"]["name"]
            is_result = message["role"] == "tool" and not _is_error(message)
            wanted = self.solution[place][0] if place < len(self.solution) else None
            if is_result and called.get(message.get("tool_call_id", "")) == wanted:
                place += 1
        return place


def _is_error(message: Mapping[str, Any]) -> bool:
    text = str(message.get("content"))
    return message["role"] == "tool" and (text.startswith("[") or "rror" in text[:40] or "no such tool" in text)


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer

    def do_GET(self) -> None:
        model = {"id": "tiny", "object": "model", "owned_by": "vllm", "max_model_len": 32768, "created": 1}
        answers: dict[str, Any] = {"/version": {"version": "0.32.0"}, "/v1/models": {"object": "list", "data": [model]}}
        self._send(answers.get(self.path, {}), 200 if self.path in answers else 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/detokenize":
            self._send({"prompt": bytes(body["tokens"]).decode()})
            return
        if not self.path.endswith("/chat/completions"):
            self._send({"error": {"message": "not found", "code": 404}}, 404)
            return
        message = self.server.respond(body["messages"])
        why = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        answer = {"id": "1", "created": 1, "model": "tiny", "usage": usage}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": why}
            self._send({**answer, "object": "chat.completion", "choices": [choice]})
            return
        for index, call in enumerate(message.get("tool_calls") or ()):
            call["index"] = index
        deltas = [({name: value for name, value in message.items() if value is not None}, None), ({}, why)]
        chunks = [
            {
                **answer,
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": end}],
            }
            for delta, end in deltas
        ]
        if thought := message.get("reasoning"):  # its tokens tell that it was closed
            for chunk, text in zip(chunks, (f"{thought}\n</think>", "\n"), strict=True):
                chunk["choices"][0]["token_ids"] = [*text.encode()]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        self._send_bytes(f"{text}data: [DONE]\n\n".encode(), "text/event-stream", 200)

    def _send(self, value: Any, status: int = 200) -> None:
        self._send_bytes(json.dumps(value).encode(), "application/json", status)

    def _send_bytes(self, data: bytes, kind: str, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running(command: Sequence[str], url: str, path: str, folder: str) -> Iterator[str]:
    with (Path(folder) / "log.txt").open("a") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(url + path, timeout=5).close()
                    break
                except URLError:
                    time.sleep(0.2)
            yield url
        finally:
            process.terminate()
            process.wait()


def find_port() -> int:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as probe:
        return probe.server_port


def run_by_forge(url: str, scenario: Any) -> bool:
    """Whether Forge's client finishes the task, without guards of its own."""
    from forge.clients.vllm import VLLMClient

    from tests.eval.ablation import ABLATION_PRESETS
    from tests.eval.eval_runner import EvalConfig, run_scenario

    async def work() -> Any:
        client = VLLMClient("tiny", base_url=f"{url}/v1", timeout=60)
        try:
            return await run_scenario(client, scenario, EvalConfig(stream_retries=0), ABLATION_PRESETS["bare"])
        finally:
            await client.aclose()

    result = asyncio.run(work())
    return bool(result.completed and result.correct is not False)


def run_by_loop(url: str, scenario: Any) -> bool:
    """Whether this project's loop finishes it."""
    from src import Agent
    from tests.eval.eval_runner import _build_workflow_with_capture, _evaluate_validators

    workflow, capture, validate_state = _build_workflow_with_capture(scenario)
    tools = [make_tool(name, each) for name, each in workflow.tools.items()]
    with Agent.connect(f"{url}/v1", "tiny", tools=tools, max_tool_turns=20, finish_announced=True) as agent:
        agent.answer(scenario.user_message, raise_on_limit=False)
    correct, _ = _evaluate_validators(scenario.validate, capture.get("args"), validate_state)
    return bool(capture.get("args") is not None and correct is not False)


def make_tool(name: str, defined: Any) -> Any:
    """Forge's tool as one of ours: its parameters are those of a function."""
    from src import tool

    def call(**given: Any) -> str:
        """Call it."""
        return str(defined.callable(**given))

    fields = defined.spec.parameters.model_fields
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=each.annotation)
            for key, each in fields.items()
        ],
        return_annotation=str,
    )
    call.__annotations__ = {**{key: each.annotation for key, each in fields.items()}, "return": str}
    return tool(name=name, description=defined.spec.description, risk="low")(call)


def list_scenarios() -> Iterator[tuple[Any, Sequence[Call]]]:
    from tests.eval.scenarios import ALL_SCENARIOS

    for scenario in ALL_SCENARIOS:
        names = [scenario.name, *(scenario.name.removesuffix(ending) for ending in ENDINGS)]
        if name := next((name for name in names if name in SOLUTIONS), None):
            yield scenario, SOLUTIONS[name]


def finish(run: Callable[[str, Any], bool], url: str, scenario: Any) -> bool:
    try:
        return run(url, scenario)
    except Exception as error:  # noqa: BLE001 - whatever ends a run, it is not finished
        print(f"    {scenario.name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenario", default="")
    parser.add_argument("--failure", default="")
    args = parser.parse_args()
    sys.path[:0] = [str(args.folder.resolve())]  # its `tests`, not ours
    sys.path.append(str(ROOT))
    model = ModelServer()
    threading.Thread(target=model.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps({"serve": {"guards": ["fit", "empty", "form", "unknown", "announced", "loops"]}}))
        ports = find_port(), find_port()
        proxy = [sys.executable, "-m", "forge.proxy", "--backend-url", model.url, "--backend", "vllm"]
        proxy += ["--port", str(ports[0]), "--no-serialize"]
        gateway = [sys.executable, str(ROOT / "cli.py"), "serve", "--upstream", model.url, "--config", str(config)]
        gateway += ["--listen", f"127.0.0.1:{ports[1]}"]
        with (
            running(proxy, f"http://127.0.0.1:{ports[0]}", "/forge/health", folder) as forge_url,
            running(gateway, f"http://127.0.0.1:{ports[1]}", "/metrics", folder) as our_url,
        ):
            ways = {
                "no guards": (run_by_forge, model.url),
                "Forge's proxy": (run_by_forge, forge_url),
                "serve": (run_by_forge, our_url),
                "our loop": (run_by_loop, model.url),
            }
            scenarios = [each for each in list_scenarios() if args.scenario in each[0].name]
            print(f"{len(scenarios)} scenarios\n\n| failure | {' | '.join(ways)} |\n|---{'|---' * len(ways)}|")
            for failure in FAILURES:
                if args.failure not in failure:
                    continue
                counts = {}
                for way, (run, url) in ways.items():
                    finished = []
                    for scenario, model.solution in scenarios:
                        model.failure = failure
                        finished.append(finish(run, url, scenario))
                    counts[way] = sum(finished)
                    missed = [each.name for (each, _), done in zip(scenarios, finished, strict=True) if not done]
                    if missed and len(missed) < 6:
                        print(f"    {failure}, {way}: not {', '.join(missed)}", file=sys.stderr)
                print(f"| {failure} | {' | '.join(map(str, counts.values()))} |", flush=True)
            print("\nRequests to the model for an answer in words that is right, with a tool on offer:")
            model.failure, model.solution = "none", ()
            for way, url in {"no guards": model.url, "Forge's proxy": forge_url, "serve": our_url}.items():
                print(f"  {way}: {count_requests(model, url)}")


def count_requests(model: ModelServer, url: str) -> int:
    """Those that the model gets for one of a client."""
    tool = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}}}
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Are you well?"}], "tools": [tool]}
    before = model.requests
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with suppress(URLError):
        urllib.request.urlopen(request, timeout=60).close()
    return model.requests - before


if __name__ == "__main__":
    main()
