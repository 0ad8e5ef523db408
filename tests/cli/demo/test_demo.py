"""`--demo` through the whole program: it needs only Python and touches nothing of the user's."""

import sys

import pytest

from src.cli.demo import start_demo
from src.cli.main import main
from src.config import load
from tests.thorough import only_thorough


@pytest.fixture
def demo(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("src.cli.demo.protocol.WORD_S", 0)
    monkeypatch.chdir(tmp_path)

    def run(*options):
        code = main(["--demo", *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.mark.parametrize(
    "path", [(), pytest.param(("--no-function-calling",), marks=only_thorough)], ids=["native", "text"]
)
def test_the_tour_works_to_its_end(demo, path, tmp_path):
    code, out, err = demo("-p", "tour", "--yes", *path)
    assert code == 0
    assert out.startswith("[demo] That was the tour")
    assert "Hello, world!" in err or "[exit code 0]" in err
    assert "a script answers, not a model" in err
    assert list(tmp_path.iterdir()) == []  # no session in the user's list, either


def test_a_tour_without_approval_is_denied(demo):
    code, out, _ = demo("-p", "fix it")
    assert (code, "You said no" in out) == (5, True)


def test_the_demo_asks_no_reviewer_of_the_user(tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"review": {"models": [{"base_url": "http://127.0.0.1:9/v1", "model": "judge"}]}}')
    assert load(config, {}, {}).review.models
    with start_demo() as demo:
        assert not load(config, demo.overrides, {}).review.models


def test_the_demo_ignores_the_users_server_key_and_model(demo, monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "sekret")
    monkeypatch.setenv("VLLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("VLLM_MODEL", "mine")
    assert demo("-p", "hello")[0] == 0


@pytest.mark.parametrize("option", [("-u", "http://a:1/v1"), ("-m", "mine"), ("-w", ".")])
def test_a_server_a_model_or_a_folder_cannot_be_given_with_it(demo, option):
    code, _, err = demo("-p", "tour", *option)
    assert (code, "--demo brings" in err) == (2, True)


def test_it_leaves_nothing_behind():
    with start_demo() as demo:
        assert (demo.folder / "greet.py").is_file()
    assert not demo.folder.exists()


def test_the_program_in_it_has_a_mistake_to_find(tmp_path):
    import subprocess

    with start_demo() as demo:
        command = [sys.executable, "greet.py"]
        assert subprocess.run(command, cwd=demo.folder, capture_output=True, text=True).returncode == 1
        program = demo.folder / "greet.py"
        program.write_text(program.read_text().replace("great(", "greet("))
        assert subprocess.run(command, cwd=demo.folder, capture_output=True, text=True).stdout == "Hello, world!\n"
