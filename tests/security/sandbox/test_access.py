"""A command does no more than its access permits, in every kind of sandbox."""

from __future__ import annotations

import socket

import pytest

from src.tools import REGISTRY
from src.tools.process import background
from src.tools.process.run_command import NO_SEMAPHORES
from tests.thorough import only_thorough

from ...waiting import FETCH, wait_until

LISTENER = "exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"


def test_a_command_that_reads_changes_nothing_in_the_workspace(run, workspace):
    (workspace / "a.txt").write_text("alpha\n")
    assert "alpha" in run("cat a.txt", access="read")
    run(
        "echo x > b.txt; echo x >> a.txt; rm -f a.txt; mkdir c; chmod 777 a.txt; touch -d 2000-01-01 a.txt; mv a.txt d",
        access="read",
    )
    assert [(each.name, each.read_text()) for each in workspace.iterdir()] == [("a.txt", "alpha\n")]
    assert (workspace / "a.txt").stat().st_mode & 0o777 != 0o777
    assert (workspace / "a.txt").stat().st_mtime > 1_000_000_000


def test_a_command_that_reads_may_write_to_its_caches_and_temporary_files(run):
    shown = run(
        'echo x > "$RUFF_CACHE_DIR" && echo y > "$TMPDIR/y" && cat "$RUFF_CACHE_DIR" "$TMPDIR/y"', access="read"
    )
    assert shown == "x\ny\n[exit code 0]"


def test_the_caches_are_kept_from_one_sandbox_to_the_next(make, tmp_path):
    for text in ("1", "2"):
        make(cache=tmp_path / "cache")(f'echo {text} >> "$MYPY_CACHE_DIR"', access="read")
    assert (tmp_path / "cache" / "mypy").read_text() == "1\n2\n"


@only_thorough
def test_a_command_that_writes_has_the_caches_of_the_workspace(run):
    assert run("env | grep -c CACHE", access="write") == "0\n[exit code 1]"


def test_copies_keep_their_modes_and_times(run):
    shown = run("touch -d 2001-01-01 a && chmod 640 a && cp -p a b && stat -c %a b && date -r b +%Y")
    assert shown == "640\n2001\n[exit code 0]"


@pytest.mark.parametrize(("access", "is_connected"), [("read", False), ("write", False), ("network", True)])
def test_only_a_command_with_access_network_reaches_a_server(run, access, is_connected):
    with socket.create_server(("127.0.0.1", 0)) as server:
        shown = run(LISTENER.format(port=server.getsockname()[1]), access=access)
    assert ("connected" in shown) is is_connected


def test_a_protected_file_stays_as_it_is_whatever_the_access(run, workspace):
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("[core]\n")
    for access in ("read", "write", "network"):
        run("echo x >> .git/config; mkdir -p .git/hooks; echo x > .git/hooks/post-checkout", access=access)
    assert (workspace / ".git" / "config").read_text() == "[core]\n"
    assert not (workspace / ".git" / "hooks" / "post-checkout").exists()


def test_a_commit_has_the_users_name_and_nothing_else_of_the_users_configuration(make, home, workspace):
    (home / ".gitconfig").write_text('[user]\n\tname = "A B"\n\temail = a@b.c\n[core]\n\tfsmonitor = touch ran\n')
    run = make()
    shown = run("git init -q && git commit -q --allow-empty -m x && git log --format='%an <%ae>'; cat ~/.gitconfig")
    assert shown.startswith('A B <a@b.c>\n[user]\n\tname = "A B"\n\temail = "a@b.c"\n[exit code 0')
    assert not (workspace / "ran").exists()


def test_what_a_command_that_only_reads_leaves_in_its_home_rules_no_command_that_may_change_more(run):
    run("git config --global core.editor evil; mkdir -p ~/.local/bin; echo x > ~/.local/bin/make", access="read")
    assert run("git config --global core.editor", access="read") == "evil\n[exit code 0]"
    for access in ("write", "network"):
        assert run("git config --global core.editor; ls -A ~/.local", access=access).startswith("ls: ")


class TestInTheBackground:
    """A server in the background, and what the next command can do with it."""

    SERVE = (
        "import http.server as h\n"
        "class H(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        open(self.path[1:], 'w').write('x')\n"
        "        self.send_response(200)\n"
        "        self.end_headers()\n"
        "h.HTTPServer(('127.0.0.1', 8124), H).serve_forever()\n"
    )

    @pytest.fixture(autouse=True)
    def watch_no_start(self, monkeypatch):
        monkeypatch.setattr(background, "START_WATCH_S", 0.0)

    @pytest.fixture
    def start(self, within, workspace):
        (workspace / "serve.py").write_text(self.SERVE)

        def start(access):
            command = {"command": "python3 serve.py", "access": access, "background": True}
            return REGISTRY["exec"].execute(command, within).value

        return start

    def fetch(self, within, name, access, tries=600):
        command = f"{FETCH} 127.0.0.1:8124/{name} {tries}"
        return REGISTRY["exec"].execute({"command": command, "access": access}, within).value

    def leave(self, within, name):
        """Start a command that writes a file, and goes on."""
        line = f"echo evil >{name}; echo up; exec sleep 600"
        REGISTRY["exec"].execute({"command": line, "access": "write", "background": True}, within)
        wait_until(lambda: "up" in within.wiring.jobs.find(1).read_output(), "it did not begin")

    def test_it_is_reached_by_commands_with_its_access_and_no_other(self, start, within, workspace):
        if not within.wiring.sandbox.has_loopback:
            pytest.skip("this system gives no network namespaces")
        said = start("write")
        assert "runs in the background as job 1" in said
        assert "200" in self.fetch(within, "made", "write")
        assert (workspace / "made").exists()
        for access in ("read", "network"):
            assert "connect" in self.fetch(within, "more", access, tries=1)
        assert not (workspace / "more").exists()

    @only_thorough
    def test_through_one_that_reads_nothing_is_changed(self, start, within, workspace):
        start("read")
        if within.wiring.sandbox.has_loopback:
            assert "no answer" in self.fetch(within, "made", "read")  # it could not open the file
        assert not (workspace / "made").exists()

    def test_what_it_leaves_is_set_aside_at_the_next_look(self, within, workspace):
        self.leave(within, ".envrc")
        assert [item.path for item in within.wiring.sandbox.leftovers.take_kept()] == [".envrc"]
        assert not (workspace / ".envrc").exists()

    def test_a_protected_file_comes_back_while_it_runs_and_is_told_once(self, within, workspace):
        self.leave(within, ".profile")
        other = REGISTRY["exec"].execute({"command": "true", "access": "write"}, within).value
        assert "put back as it was: .profile" in other
        assert not (workspace / ".profile").exists()
        within.wiring.jobs.close()
        assert within.wiring.jobs.find(1).ending == "it was ended"


LOCK = """python3 -c "import multiprocessing; multiprocessing.Lock(); print('locked')" """


def test_multiprocessing_works_or_the_model_reads_what_it_lacks(within):
    said = REGISTRY["exec"].execute({"command": LOCK, "access": "write"}, within).value
    explanation = within.wiring.report.explanation
    assert "locked" in said or NO_SEMAPHORES in explanation
