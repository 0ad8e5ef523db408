"""What a command in a sandbox can and cannot do: the same list for each kind of sandbox, with its exceptions."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from src.errors import ToolError
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.scratch import SANDBOX_PREFIX, remove_abandoned
from src.security.sandbox.view import list_etc
from tests.thorough import only_thorough
from tests.waiting import ONE_HAS_ENDED

from .conftest import PATH, run_each

OK = "[exit code 0]"


def test_the_workspace_is_read_and_written(run, workspace):
    (workspace / "a").write_text("alpha\n")
    assert run("cat a; mkdir -p b/c; mv a b/c/d; ln -s b e; cat e/c/d; rm -r b; ls").startswith("alpha\nalpha\ne\n")


WORKS = [
    ("programs of the system", "ls /usr/bin >/dev/null"),
    ("a pipe, a here document, a process substitution", "cat <<<x | diff - <(echo x | cat); wait"),
    ("devices", "head -c 1 /dev/urandom >/dev/null; echo x >/dev/null"),
    ("temporary files", "f=$(mktemp) && echo x >$f && cat $f >/dev/null"),
    ("a home of its own", "cd && echo x >.cache && cat .cache >/dev/null"),
    ("its own /proc entry", "cat /proc/self/status >/dev/null"),
    ("Python", "python3 -c 'import ssl, sqlite3, socket, subprocess; subprocess.run([\"true\"], check=True)'"),
    (
        "a pair of streams",
        'python3 -c \'import socket; a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"\'',
    ),
]


def test_what_a_developer_needs_works(run):
    shown = run_each(run, dict(WORKS).values())
    assert {name: shown[command] for name, command in WORKS if shown[command] != OK} == {}


def test_what_one_command_leaves_for_the_next_is_there(run):
    assert run("echo kept >$TMPDIR/a; echo too >~/b") == OK
    assert run("cat $TMPDIR/a ~/b") == f"kept\ntoo\n{OK}"


def test_files_of_etc_that_programs_read_can_be_read(run):
    names = [str(path) for path in list_etc() if path.is_file() and os.access(path, os.R_OK)]
    assert "/etc/hosts" in names
    assert run(f"cat {' '.join(names)} >/dev/null") == OK


UNSEEN = [
    "cat ../secret",
    "cat {home}/.ssh/id_rsa",
    "ls {home}/.ssh",
    "cat /proc/{pid}/environ",
    "cat /proc/{pid}/root{home}/.ssh/id_rsa",
    "cat link",
    "ln ../secret hard && cat hard",
    "cat /etc/shadow",
    "dd if=../secret",
    "tar c .. && false",
    "python3 -c 'print(open(\"../secret\").read())'",
]


def test_what_lies_outside_is_not_read(run, workspace, home, monkeypatch):
    (workspace / "link").symlink_to("../secret")
    monkeypatch.setenv("CANARY_OF_THE_TEST", "CANARY")
    shown = run_each(run, [command.format(home=home, pid=os.getpid()) for command in UNSEEN])
    assert len(shown) == len(UNSEEN)
    assert {key: text for key, text in shown.items() if any(word in text for word in ("CANARY", "root:", OK))} == {}


UNWRITTEN = [
    "echo x >../secret",
    "echo x >../new",
    "echo x >link",
    "echo x >>folder/secret",
    "rm ../secret",
    "mv ../secret .",
    "mv folder/secret .",
    "ln ../secret hard; echo x >hard",
    "truncate -s 0 ../secret",
    "mkdir ../made",
    "ln -s /etc ../made",
    "mknod ../pipe p",
    "cp -f /etc/hostname ../secret",
    "python3 -c 'import os; os.truncate(\"../secret\", 0)'",
    "cd ..; echo x >new",
]


def test_what_lies_outside_is_not_written(run, workspace):
    secret = workspace.parent / "secret"
    before = secret.stat()
    shown = run_each(run, [f"ln -sfn ../secret link; ln -sfn .. folder; {command}" for command in UNWRITTEN])
    assert len(shown) == len(UNWRITTEN)
    assert secret.read_text() == "CANARY\n", shown
    assert (secret.stat().st_ino, secret.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns), shown
    assert sorted(each.name for each in workspace.parent.iterdir()) == ["secret", "workspace"], shown


def test_the_home_is_not_written(run, home):
    run(f"echo x >>{home}/.bashrc; echo x >>~/.bashrc; rm -rf {home}/.ssh ~/.ssh")
    assert sorted(each.name for each in home.rglob("*")) == [".ssh", "id_rsa"]


REFUSED = [
    ("a namespace", "unshare -U true"),
    ("a trace", "python3 -c 'import ctypes, os, sys; l = ctypes.CDLL(None, use_errno=True);"
     " sys.exit(0 if l.ptrace(16, os.getppid(), 0, 0) == 0 else 1)'"),
    ("a mount", "mount -t tmpfs none ."),
    ("the kernel's keys", "python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(250, 0, -3, 0) == -1)'"),
    ("an io_uring", "python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(425, 1, 0) == -1)'"),
    ("a raw socket", "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'"),
    ("a socket of the kernel's ciphers", "python3 -c 'import socket; socket.socket(socket.AF_ALG)'"),
    ("the clock", "date -s 2001-01-01"),
    ("a device", "mknod d b 8 0"),
]  # fmt: skip


def test_what_leads_around_the_sandbox_is_refused(run):
    shown = run_each(run, dict(REFUSED).values())
    assert [name for name, command in REFUSED if OK in shown[command]] == []


def test_the_kernels_settings_are_not_written_by_root_either(run):
    """A program named by core_pattern would run as root outside of every sandbox."""
    for setting in ("vm/drop_caches", "kernel/core_pattern"):
        opened = run(f"exec 3>>/proc/sys/{setting}")  # opened and not written, so that a failing test does no harm
        assert "Read-only file system" in opened or "Permission denied" in opened


CONNECT = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)'"


def start_listener() -> tuple[subprocess.Popen, int]:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); s.accept()"
    )
    server = subprocess.Popen(["python3", "-c", code], stdout=subprocess.PIPE, text=True)
    return server, int(server.stdout.readline())


@pytest.mark.parametrize("network", [False, pytest.param(True, marks=only_thorough)])
def test_the_network_is_reached_only_where_that_is_allowed(network, make):
    server, port = start_listener()
    try:
        assert (OK in make(network=network)(CONNECT.format(port=port))) == network
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_a_socket_of_the_system_is_never_reached(make, workspace):
    """Docker's, a session bus: who may talk to them is out of the sandbox."""
    run = make(network=True)
    assert OK not in run("python3 -c 'import socket; socket.socket(socket.AF_UNIX)'")


SEND = """
import socket, sys
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    try:
        pair = socket.socketpair(socket.AF_UNIX, kind)
        pair[0].sendto(b"sent", sys.argv[1])
    except OSError as error:
        print(error)
"""


@pytest.mark.parametrize(
    "access", ["write", pytest.param("read", marks=only_thorough), pytest.param("network", marks=only_thorough)]
)
def test_a_datagram_socket_of_the_system_is_never_reached(make, workspace, home, access):
    """A pair of sockets needs no path, but one of its ends could send to any path: to a log, a service manager."""
    path = home / "log"
    (workspace / "send.py").write_text(SEND)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.setblocking(False)
        server.bind(str(path))
        assert OK in make()(f"python3 send.py {path}", access=access)
        with pytest.raises(BlockingIOError):
            server.recv(99)


def test_no_file_comes_to_run_with_the_rights_of_its_owner_or_group(run, workspace):
    run("for mode in 4755 2755 6755 g+s u+s; do cp /bin/true $mode; chmod $mode $mode; done")
    run("python3 -c 'import os\nfor mode in (0o4755, 0o2755, 0o6755): os.open(str(mode), os.O_CREAT, mode)'")
    assert [made.name for made in workspace.iterdir() if made.stat().st_mode & 0o6000] == []
    assert len(list(workspace.iterdir())) >= 5


@only_thorough
def test_a_folder_keeps_its_group_for_what_is_made_in_it(run, workspace):
    (workspace / "shared").mkdir()
    (workspace / "shared").chmod(0o2775)
    assert OK in run("mkdir shared/more && touch shared/a")
    assert (workspace / "shared" / "more").stat().st_mode & 0o2000


# Programs of the user


def test_a_folder_of_path_in_the_home_is_seen_with_its_installation_and_nothing_beside_it(make, home):
    (home / "tools" / "bin").mkdir(parents=True)
    (home / "tools" / "lib").mkdir()
    (home / "tools" / "lib" / "data").write_text("found\n")
    (home / "tools" / "bin" / "show").write_text(f"#!/bin/sh\ncat {home}/tools/lib/data\n")
    (home / "tools" / "bin" / "show").chmod(0o755)
    run = make({"PATH": f"{home}/tools/bin:{PATH}"})
    assert run("show") == f"found\n{OK}"
    assert OK not in run(f"echo x >{home}/tools/bin/show; touch {home}/tools/new; exit 1")
    assert (home / "tools" / "lib" / "data").read_text() == "found\n"
    assert not (home / "tools" / "new").exists()
    assert "CANARY" not in run(f"cat {home}/.ssh/id_rsa")


@only_thorough
def test_what_the_user_names_can_be_read_and_not_written(make, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("found\n")
    run = make(readable=(tmp_path / "data",))
    assert run(f"cat {tmp_path}/data/a; echo x >>{tmp_path}/data/a").startswith("found\n")
    assert (tmp_path / "data" / "a").read_text() == "found\n"


# What it leaves


def test_what_makes_itself_a_new_session_is_gone_when_the_command_ends(run, workspace):
    os.mkfifo(workspace / "alive")
    reader = os.open(workspace / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        shown = run("exec 3>alive; (setsid sh -c 'setsid sleep 300 & sleep 300' >/dev/null 2>&1 &); sleep 0.2; echo x")
        assert shown.startswith("x\n")
        assert os.read(reader, 1) == b""  # nobody holds it any more
    finally:
        os.close(reader)


@only_thorough
def test_what_goes_on_in_ever_new_sessions_is_gone_as_well(run, workspace):
    os.mkfifo(workspace / "alive")
    reader = os.open(workspace / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        run(
            "exec 3>alive; exec python3 -c 'import os\nfor _ in range(50_000):\n if os.fork(): os._exit(0)\n os.setsid()'"
        )
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_at_the_timeout_it_is_gone_as_well(run, workspace):
    os.mkfifo(workspace / "alive")
    reader = os.open(workspace / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        shown = run("exec 3>alive; setsid sleep 300 >/dev/null 2>&1 & sleep 300", timeout=0.5)
        assert shown.startswith("[timed out after 0.5 s, and was killed")
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_other_processes_are_not_signalled(run):
    other = subprocess.Popen(["sleep", "300"])
    try:
        run(f"kill -9 {other.pid}; kill -9 {os.getpid()}")
        assert other.poll() is None
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()


def test_the_model_is_told_that_something_was_left_running(run):
    assert (
        run("sleep 300 >/dev/null 2>&1 & echo x")
        == "x\n[exit code 0; what it left running in the background was ended]"
    )
    assert run(ONE_HAS_ENDED) == OK


# Limits


def test_a_process_gets_no_more_memory_than_it_may_have(make):
    run = make(limits=ResourceLimits(memory_mb=100))
    assert "MemoryError" in run("python3 -c 'bytearray(200_000_000)'")
    assert run("python3 -c 'bytearray(20_000_000)'") == OK


def test_a_file_grows_no_larger_than_it_may(make, workspace):
    run = make(limits=ResourceLimits(file_mb=1))
    assert OK not in run("head -c 3000000 /dev/zero >big")
    assert (workspace / "big").stat().st_size <= 1_000_000


def test_no_memory_is_dumped(run):
    assert run("ulimit -c") == f"0\n{OK}"


def test_limits_cannot_be_raised(make):
    assert OK not in make(limits=ResourceLimits(memory_mb=100))("ulimit -d unlimited")


def test_there_are_no_more_processes_than_there_may_be(make, is_root):
    run = make(limits=ResourceLimits(processes=20))
    if is_root:  # the kernel does not count root's
        with pytest.raises(ToolError, match="it started more than 20 processes, and was killed"):
            run("for i in $(seq 300); do sleep 5 & done; wait")
    else:
        shown = run("for i in $(seq 3000); do sleep 5 & done")
        assert "Resource temporarily unavailable" in shown or "Cannot fork" in shown


def test_secrets_of_the_program_stay_out(make):
    assert "CANARY" not in make({"VLLM_API_KEY": "CANARY", "GITHUB_TOKEN": "CANARY"})("env")


def test_a_private_folder_is_gone_with_its_sandbox(make):
    import gc
    import re

    run = make()
    names = set(re.findall(rf"{SANDBOX_PREFIX}[a-z0-9_]+", run("cat /proc/self/mountinfo; env")))
    del run
    gc.collect()
    assert names
    assert not any(Path(tempfile.gettempdir(), name).exists() for name in names)


def test_a_folder_of_the_bots_own_is_not_changed_where_the_workspace_holds_it(kind, make, workspace):
    state = workspace / ".local" / "state" / "bot"
    state.mkdir(parents=True)
    (state / "allowed.json").write_text("{}")
    shown = make(hidden=[state], protected=[state / "allowed.json"])(
        "cat .local/state/bot/allowed.json; echo evil >.local/state/bot/allowed.json; mv .local moved;"
        " mkdir -p .local/state/bot; echo evil >.local/state/bot/allowed.json"
    )
    assert (state / "allowed.json").read_text() == "{}"
    assert kind == "landlock" or "{}" not in shown


def test_while_a_sandbox_is_used_its_folder_stays(within):
    scratch = within.wiring.sandbox.scratch
    assert scratch.name.startswith(SANDBOX_PREFIX)
    remove_abandoned(scratch.parent)
    assert (scratch / "tmp").exists()


@only_thorough
def test_no_file_becomes_one_that_runs_with_the_rights_of_its_owner(run, workspace):
    run("cp /bin/true a; chmod u+s a; chmod 6755 a; install -m 4755 a b; chmod 755 a")
    made = "import os; os.umask(0); os.close(os.open('c', os.O_CREAT | os.O_WRONLY, 0o4755))"
    run(f'python3 -c "{made}"')
    assert [each.name for each in workspace.iterdir() if each.stat().st_mode & 0o4000] == []
    assert (workspace / "a").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("access", ["write", pytest.param("network", marks=only_thorough)])
def test_settings_of_curl_that_a_command_left_are_not_read(run, access):
    settings = (
        "echo 'write-out = \"EVIL\"' > $HOME/.curlrc; mkdir -p $HOME/.config; cp $HOME/.curlrc $HOME/.config/curlrc"
    )
    run(f"{settings}; cp $HOME/.curlrc $CURL_HOME/.curlrc; rm -rf $CURL_HOME", access=access)
    assert "EVIL" not in run("curl -s file:///dev/null", access=access)
