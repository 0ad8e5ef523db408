"""A network of its own for commands: what they reach there, and what they do not."""

from __future__ import annotations

import socket
import subprocess

import pytest

from src.security.sandbox.choose import make_landlock
from src.security.sandbox.landlock import get_landlock_abi
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.loopback import find_loopback
from src.security.sandbox.view import SandboxView, complete_view
from src.tools import REGISTRY, ToolContext
from src.tools.process.run_command import NO_LOOPBACK
from tests.thorough import only_thorough

from .conftest import PATH

SERVE = "python3 -c \"import socket; socket.create_server(('127.0.0.1', 0))\""
ONLY_LOOPBACK = ["sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1"]


@pytest.fixture
def loopback():
    return find_loopback() or pytest.skip("this system gives no network namespaces")


def test_nothing_but_a_loopback_is_in_it(loopback):
    done = subprocess.run(ONLY_LOOPBACK, preexec_fn=loopback.enter, capture_output=True, text=True)
    assert done.stdout.strip() == "lo"


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_server_of_the_machine_is_not_reached_in_it(loopback, family, host):
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with server:
        connect = f"import socket; socket.create_connection(('{host}', {server.getsockname()[1]}))"
        done = subprocess.run(["python3", "-c", connect], preexec_fn=loopback.enter, capture_output=True, text=True)
    assert "ConnectionRefusedError" in done.stderr


@pytest.mark.skipif(not get_landlock_abi(), reason="this kernel has no Landlock")
class TestWithoutNamespaces:
    """Landlock on a system that gives no network namespaces."""

    @pytest.fixture
    def context(self, tmp_path):
        environment = {"PATH": PATH, "HOME": str(tmp_path)}
        view = complete_view(SandboxView(tmp_path), environment)
        sandbox = make_landlock(view, ResourceLimits(), lambda: None)
        return ToolContext(tmp_path, environment=environment).rewire(sandbox=sandbox)

    def test_no_socket_of_the_internet_can_be_made(self, context):
        for access in ("read", "write"):
            shown = REGISTRY["exec"].execute({"command": SERVE, "access": access}, context).value
            assert "PermissionError" in shown

    @only_thorough
    def test_the_model_is_told_what_would_help(self, context):
        report = context.wiring.report
        REGISTRY["exec"].execute({"command": SERVE}, context)
        assert report.explanation.startswith(NO_LOOPBACK)
        assert not report.named_none

    def test_its_description_says_so(self, context):
        assert context.wiring.sandbox.description.endswith("no network, not even its own")
