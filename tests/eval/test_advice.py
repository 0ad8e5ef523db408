"""What is recommended: the settings of the best arm, and flags where the server does not parse the model's calls."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from msgspec.structs import astuple, replace

from src.app.endpoint import make_settings
from src.eval.advice import IN_THOUGHTS, ServerFacts, advise, hides_tools
from src.eval.arms import NO_THOUGHTS, Arm, drop_grammar, list_paths, list_variations

from .runs import CASES, PATHS, make_search, right, wrong

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


class TestAModelThatDoesBetterWithoutThinking:
    def find_advice(self, settings=SETTINGS, *, without: str = "native", **thinking):
        """`without`: where its calls come from without thinking; `thinking`: what its runs are with it."""

        def run(arm, *at):
            if "vllm.chat_template_kwargs" in arm.changes:
                return right(arm, *at, origins=(without,))
            return wrong(arm, *at, thinks=True, **thinking)

        return find_advice(run, vary=lambda arm, *_: list_variations(arm, settings, thinks=True))

    def test_is_not_to_think_and_a_parser_that_works_stays(self):
        advice = self.find_advice(origins=("native",))
        assert advice.settings == {"vllm.chat_template_kwargs": NO_THOUGHTS}
        assert advice.command == ""
        assert advice.headline.startswith("Set vllm.chat_template_kwargs = ")

    def test_is_said_to_lose_calls_to_thoughts_only_where_it_does(self):
        reason = "With thinking, calls end up in thoughts."
        assert self.find_advice(origins=("hermes",), in_thoughts=True).why == (reason,)
        assert self.find_advice(origins=("native",)).why == ()
        assert self.find_advice(origins=("native",), in_thoughts=True).why == ()  # it arrived, and was thought of

    def test_does_not_think_on_a_server_that_is_restarted_with_what_the_arm_sent(self):
        own = make_settings("http://localhost:1/v1", chat_template_kwargs={"style": "it's short"})
        advice = self.find_advice(own, without="hermes", origins=("hermes",))
        words = shlex.split(advice.command)
        assert advice.command.startswith(f"{CALLING} hermes --default-chat-template-kwargs ")
        assert json.loads(words[-1]) == advice.settings["vllm.chat_template_kwargs"]
        assert json.loads(words[-1]) == {"style": "it's short", **NO_THOUGHTS}


def test_calls_in_thoughts_are_told_where_the_model_goes_on_thinking():
    def run(arm, *at):
        if arm.path == "native":
            return right(arm, *at, kind="server", origins=("hermes",), thinks=True, in_thoughts=True)
        return wrong(arm, *at)

    assert IN_THOUGHTS in find_advice(run).why


def test_a_run_that_failed_by_itself_does_not_say_that_the_template_hides_tools():
    def run(arm, case, seed):
        if arm.path == "text" and case is CASES[0]:
            return wrong(arm, case, seed, "harness", shows_tools=False)
        return right(arm, case, seed, shows_tools=True)

    search = make_search(run)
    search.find_best(PATHS)
    assert not hides_tools(search)


def test_an_arm_is_native_by_its_path_and_not_by_its_name():
    native = Arm("with the server's parser", {"vllm.paths": ["native"]})
    search = make_search(lambda arm, *at: run_leaking(arm, *at) if arm.path != "text" else wrong(arm, *at))
    best = search.find_best([native, *PATHS[1:]])
    assert best == PATHS[1]
    assert advise(best, search, SETTINGS, FACTS).command == f"{CALLING} qwen3_coder"


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
