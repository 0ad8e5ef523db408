"""What is recommended: the settings of the best arm, and flags where the server does not parse the model's calls."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import astuple, replace

from src.app.endpoint import make_settings
from src.eval.advice import ServerFacts, advise
from src.eval.arms import NO_THOUGHTS, drop_grammar, list_paths, list_variations

from .runs import PATHS, make_search, right, wrong

SETTINGS = make_settings("http://localhost:1/v1")
FACTS = ServerFacts("tiny", "someone/tiny")
CALLING = "vllm serve someone/tiny --enable-auto-tool-choice --tool-call-parser"


def find_advice(run, facts: ServerFacts = FACTS, vary=lambda *_: []):
    search = make_search(run, vary=vary)
    best = search.find_best(PATHS)
    assert best is not None
    return advise(best, search, SETTINGS, facts)


def test_where_native_calls_arrive_nothing_is_to_be_changed():
    advice = find_advice(lambda *at: right(*at, origins=("native",)))
    assert astuple(advice) == ("Nothing to change: no arm does better than what you have.", {}, "", ())


def run_leaking(arm, *at):
    if arm.path == "native":
        return right(arm, *at, kind="server", origins=("qwen3_coder",))
    return right(arm, *at, origins=("qwen3_coder" if arm.path == "template" else "text",))


def test_calls_that_the_parser_does_not_read_name_the_one_that_does():
    advice = find_advice(run_leaking)
    assert advice.command == f"{CALLING} qwen3_coder"
    assert advice.settings == {"vllm.paths": ["template", "text"]}
    assert advice.headline.startswith(f"Restart the server: {CALLING} qwen3_coder\nUntil then, set ")


def test_calls_that_get_lost_under_other_settings_only_are_no_reason_to_restart():
    def run(arm, *at):
        is_spoiled = "stream off" in arm.name
        kind, origin = ("server", "hermes") if is_spoiled else ("", "native")
        return right(arm, *at, kind=kind, origins=(origin,))

    advice = find_advice(run, vary=lambda arm, *_: [arm.vary("stream off", vllm__stream=False)])
    assert advice.headline.startswith("Nothing to change")


def test_another_server_than_vllm_gets_no_flags():
    advice = find_advice(run_leaking, ServerFacts("tiny", is_vllm=False))
    assert advice.command == ""
    assert advice.headline == 'Set vllm.paths = ["template", "text"]'


def run_refusing(arm, *at):
    return right(arm, *at, origins=("text",)) if arm.path == "text" else wrong(arm, *at, "refused")


def test_native_calls_that_time_out_are_no_reason_to_restart_the_server():
    def run(arm, *at):
        if arm.path == "native":
            return wrong(arm, *at, "harness", why="No answer within 60 s.")
        return right(arm, *at, origins=("text",))

    advice = find_advice(run)
    assert advice.command == ""
    assert advice.why == ("Undecided, because its runs failed by themselves: native. To try it, run the eval again.",)


def test_where_the_models_format_is_not_known_its_name_tells():
    assert find_advice(run_refusing, ServerFacts("x", "Qwen/Qwen3-8B")).command == (
        "vllm serve Qwen/Qwen3-8B --enable-auto-tool-choice --tool-call-parser hermes"
    )


def test_where_nothing_is_known_the_parser_for_all_formats_is_named():
    assert find_advice(run_refusing).command == f"{CALLING} any"


def test_calls_that_were_wrong_do_not_tell_the_models_format():
    def run(arm, *at):
        if arm.path == "template":
            return wrong(arm, *at, origins=("hermes",))
        return run_leaking(arm, *at)

    assert find_advice(run).command == f"{CALLING} qwen3_coder"


def test_a_template_that_shows_tools_is_named_where_the_own_hides_them():
    def run(arm, *at):
        if arm.path == "native":
            return right(arm, *at, kind="server", origins=("text",), shows_tools=False)
        return right(arm, *at, origins=("text",))

    template = Path("/x/chat_template.jinja")
    assert find_advice(run, replace(FACTS, template=template)).command == f"{CALLING} hermes --chat-template {template}"
    assert "The chat template shows the model no tools." in find_advice(run).why


def test_thoughts_that_swallow_calls_are_switched_off_on_the_server_too():
    def run(arm, *at):
        if "vllm.chat_template_kwargs" in arm.changes:
            return right(arm, *at, origins=("native",), thinks=False)
        return right(arm, *at, kind="server", origins=("hermes",), thinks=True)

    advice = find_advice(run, vary=lambda arm, *_: list_variations(arm, SETTINGS, thinks=True))
    assert advice.settings == {"vllm.chat_template_kwargs": NO_THOUGHTS}
    kwargs = """--default-chat-template-kwargs '{"enable_thinking": false}'"""
    assert advice.command == f"{CALLING} hermes {kwargs}"


def test_paths_are_tried_in_the_order_of_the_chat():
    assert [arm.name for arm in list_paths(SETTINGS)] == ["tokens", "native", "template", "text"]
    text_only = make_settings("http://localhost:1/v1", enable_function_calling=False)
    assert list_paths(text_only)[0].name == "text"
    other = make_settings("http://localhost:1/v1", "openai")
    assert [arm.name for arm in list_paths(other)] == ["native", "text"]


def test_a_model_that_thinks_is_also_asked_without_and_with_other_thoughts_sent_back():
    names = [arm.name for arm in list_variations(PATHS[0], SETTINGS, thinks=True)]
    assert names == [
        "native, stream off",
        "native, thinking off",
        "native, thoughts back: none",
        "native, thoughts back: all",
        "native, temperature 0",
        "native, temperature 0.6",
        "native, strict off",
    ]


def test_a_grammar_can_be_dropped_once():
    (arm,) = drop_grammar(PATHS[2], SETTINGS)
    assert arm.changes == {"vllm.paths": ["text"], "text_protocol.constrained": "off"}
    assert drop_grammar(PATHS[0], make_settings("http://localhost:1/v1", strict_tools=False)) == []
