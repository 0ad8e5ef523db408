"""`vllm-bot eval` as its user sees it."""

import io
import json
from contextlib import redirect_stdout

import pytest

from src.cli.main import main
from tests.eval.server import open_model, write_cases


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def evaluate(url: str, tmp_path, *words: str) -> int:
    own = write_cases(tmp_path / "own.yaml")
    return main(["eval", "--own", str(own), "-u", url, "--out", "out", "--requests", "40", *words])


@pytest.fixture(scope="module")
def first_eval(tmp_path_factory):
    """A model whose server returns calls, and an eval of it that came to its end with the tests' cases.

    Of that, its file, how often the model was asked, and what was printed.
    """
    folder = tmp_path_factory.mktemp("eval")
    with pytest.MonkeyPatch.context() as patch, open_model("native") as (url, answers):
        patch.chdir(folder)
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        with redirect_stdout(io.StringIO()) as printed:
            assert evaluate(url, folder) == 0
        yield url, answers, (folder / "out/results.jsonl").read_bytes(), len(answers.chats), printed.getvalue()


@pytest.fixture
def evaluated(first_eval, tmp_path):
    """The address and the answers of the model, after that eval in this folder, and how often it was asked in it."""
    url, answers, results, asked, _ = first_eval
    (tmp_path / "out").mkdir()
    (tmp_path / "out/results.jsonl").write_bytes(results)
    write_cases(tmp_path / "own.yaml")
    answers.chats.clear()
    yield url, answers, asked
    answers.wrong = frozenset()


def read_lines(tmp_path) -> list[dict]:
    return [json.loads(line) for line in (tmp_path / "out/results.jsonl").read_text().splitlines()]


def test_where_all_is_well_there_is_nothing_to_change(evaluated, first_eval, tmp_path):
    asked, shown = first_eval[-2:]
    assert shown.startswith("Nothing to change: no arm does better than what you have.\n")
    assert "no difference to native" in shown
    assert asked <= 40
    first, *runs, last = read_lines(tmp_path)
    assert (first["type"], first["model"], first["plan"]) == ("eval", "tiny", "quick")
    assert {run["type"] for run in runs} == {"run"}
    assert (last["type"], last["arm"], last["settings"]) == ("found", "native", {})


def test_a_wrong_parser_is_named_with_the_right_one_and_apply_writes_that_and_asks_nothing_again(capsys, tmp_path):
    with open_model("leaking") as (url, answers):
        assert evaluate(url, tmp_path) == 0
        first, second, *_ = capsys.readouterr().out.splitlines()
        asked = len(answers.chats)
        assert evaluate(url, tmp_path, "--apply") == 0
        assert len(answers.chats) == asked
    flags = "--enable-auto-tool-choice --tool-call-parser qwen3_coder"
    assert first == f"Restart the server: vllm serve someone/tiny {flags}"
    assert second == 'Until then, set vllm.paths = ["template", "text"]'
    written = json.loads((tmp_path / "config/vllm-bot/config.json").read_text())
    assert written == {"vllm": {"paths": ["template", "text"]}}


class TestAPathWhoseRunsFail:
    """The server has no time for native calls, which says nothing of them."""

    @pytest.fixture(autouse=True)
    def without_retries(self, in_folder, tmp_path):
        file = tmp_path / "config/vllm-bot/config.json"
        file.parent.mkdir(parents=True)
        file.write_text('{"vllm": {"retries": 0}}')

    def test_is_undecided_and_no_restart_is_advised(self, capsys, tmp_path):
        with open_model("busy") as (url, _):
            assert evaluate(url, tmp_path) == 0
        shown = capsys.readouterr().out
        assert "vllm serve" not in shown
        assert "Undecided, because its runs failed by themselves: native." in shown
        assert "undecided after 0 runs: its runs failed: The server refused (HTTP 429)" in shown

    def test_is_not_said_to_be_refused_where_no_other_is_left(self, capsys, tmp_path):
        with open_model("overloaded") as (url, _):
            assert evaluate(url, tmp_path) == 1
        told = capsys.readouterr().err
        assert "no call path has a run that counts" in told
        assert "text: The server refused (HTTP 429): Too many requests" in told


def test_an_eval_that_was_stopped_goes_on(evaluated, tmp_path):
    url, answers, _ = evaluated
    results = tmp_path / "out/results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(b"".join(lines[:30]) + lines[30][:20])  # in the middle of a line
    assert evaluate(url, tmp_path) == 0
    assert len(answers.chats) == len(lines) - 31  # the last one says what was found
    assert len(read_lines(tmp_path)) == len(lines)


def test_another_eval_than_the_one_that_was_stopped_is_refused(evaluated, capsys, tmp_path):
    results = tmp_path / "out/results.jsonl"
    results.write_bytes(b"".join(results.read_bytes().splitlines(keepends=True)[:-1]))
    assert evaluate(evaluated[0], tmp_path, "--seed", "5") == 1
    told = capsys.readouterr().err
    assert "out/results.jsonl is of an eval with seed 0, and this one has 5, and was not finished." in told
    assert "Name another folder with --out, or remove the file." in told


def test_an_eval_that_came_to_its_end_is_kept_and_the_next_one_asks_anew(evaluated, tmp_path):
    url, answers, asked = evaluated
    first = (tmp_path / "out/results.jsonl").read_bytes()
    evaluate(url, tmp_path)
    assert len(answers.chats) == asked
    assert (tmp_path / "out/last.jsonl").read_bytes() == first


class TestABaseline:
    def test_that_is_reached_ends_with_0(self, evaluated, capsys, tmp_path):
        assert evaluate(evaluated[0], tmp_path, "--baseline", "out/results.jsonl") == 0
        assert "Not significantly worse than the baseline: 100% right before, 100% now" in capsys.readouterr().out

    def test_that_is_missed_ends_with_1(self, evaluated, capsys, tmp_path):
        url, answers, _ = evaluated
        answers.wrong = frozenset({2, 4, 5})
        assert evaluate(url, tmp_path, "--baseline", "out") == 1
        assert "Worse than the baseline: 100% right before, 7" in capsys.readouterr().out
        assert {run["arm"] for run in read_lines(tmp_path)[1:]} == {"native"}

    def test_recommends_nothing_that_could_be_applied(self, evaluated, capsys, tmp_path):
        with pytest.raises(SystemExit) as ended:
            evaluate(evaluated[0], tmp_path, "--baseline", "out", "--apply")
        assert ended.value.code == 2
        assert "argument --apply: not allowed with argument --baseline" in capsys.readouterr().err

    def test_of_other_cases_is_refused(self, evaluated, capsys):
        assert main(["eval", "-u", evaluated[0], "--baseline", "out", "--out", "new"]) == 2
        assert "this eval had other cases" in capsys.readouterr().err

    def test_that_is_none_is_said(self, capsys, tmp_path):
        with open_model("native") as (url, _):
            assert evaluate(url, tmp_path, "--baseline", "none.jsonl") == 2
        assert "none.jsonl: No such file or directory." in capsys.readouterr().err


def test_a_file_of_cases_that_is_not_there_is_said(capsys, tmp_path):
    with open_model("native") as (url, _):
        assert main(["eval", "--own", "none.yaml", "-u", url]) == 2
    assert "none.yaml: there is no such file" in capsys.readouterr().err
