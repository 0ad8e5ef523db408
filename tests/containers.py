"""A double of podman: it writes down how it is called, and runs the command of a container on this machine.

The paths of mounts are those of their sources in the command's variables. Whether podman itself takes the options, and
contains anything, is not seen here.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

IMAGE = "docker.io/library/python:3.12"
CHECKOUT_IMAGE = "docker.io/swebench/sweb.eval.x86_64.a:latest"  # whose working folder is a Git checkout

SCRIPT = """#!{python} -IS
import json, os, signal, subprocess, sys, time
from pathlib import Path

state, words = Path({state!r}), sys.argv[1:]
with (state / "calls.jsonl").open("a") as file:
    file.write(json.dumps(words) + "\\n")

def find_all(name):
    return [words[index + 1] for index, word in enumerate(words) if word == name]

if words[0] == "image":
    if words[-1] not in {images!r}:
        sys.exit("Error: no such image " + words[-1])
    print(state / "testbed" if "sweb.eval" in words[-1] else "")
elif words[0] == "run":
    mounts = [dict(pair.partition("=")[::2] for pair in each.split(",")) for each in find_all("--mount")]
    mounts.sort(key=lambda mount: -len(mount["target"]))
    def translate(value):
        for mount in mounts:
            if value == mount["target"] or value.startswith(mount["target"] + "/"):
                return mount["source"] + value[len(mount["target"]):]
        return value
    variables = {{"PATH": os.environ["PATH"]}}
    for each in find_all("--env"):
        name, _, value = each.partition("=")
        variables[name] = translate(value)
    (name,) = find_all("--name")
    record = {{"pid": os.getpid(), "labels": dict(each.split("=", 1) for each in find_all("--label"))}}
    (state / "containers" / name).write_text(json.dumps(record))
    command = words[words.index("--entrypoint") + 3:]
    child = subprocess.Popen(command, env=variables, cwd=translate(find_all("--workdir")[0]), start_new_session=True)
    (state / "containers" / name).write_text(json.dumps(record | {{"child": child.pid}}))
    code = child.wait()
    (state / "containers" / name).unlink(missing_ok=True)
    sys.exit(code % 256)
elif words[0] == "ps":
    print("\\n".join(each.name for each in (state / "containers").iterdir()))
elif words[0] == "inspect":
    for name in words[3:]:  # tells what is there, and fails if one is not
        try:
            print(name, json.loads((state / "containers" / name).read_text())["labels"]["vllm-bot.folder"])
        except (OSError, ValueError):
            print("Error: no such container", name, file=sys.stderr)
elif words[0] == "rm":
    for name in words[2:]:
        file = state / "containers" / name
        if file.exists():
            child = json.loads(file.read_text()).get("child")
            file.unlink(missing_ok=True)
            if child:
                os.killpg(child, signal.SIGKILL)
"""


class FakePodman:
    """The program `podman` in `folder`. The images that it has are IMAGE and CHECKOUT_IMAGE."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state = folder / "state"
        (self._state / "containers").mkdir(parents=True)
        self.testbed = self._state / "testbed"
        (self.testbed / ".git").mkdir(parents=True)
        program = folder / "podman"
        images = [IMAGE, CHECKOUT_IMAGE]
        program.write_text(SCRIPT.format(python=sys.executable, state=str(self._state), images=images))
        program.chmod(0o755)

    @property
    def path(self) -> str:
        """For PATH."""
        return f"{self.folder}{os.pathsep}{os.environ['PATH']}"

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self._state / "calls.jsonl").read_text().splitlines()]

    @property
    def runs(self) -> list[list[str]]:
        """The calls that started a container, without the trial."""
        return [each for each in self.calls if each[0] == "run"][1:]

    def list_containers(self) -> list[str]:
        return [each.name for each in (self._state / "containers").iterdir()]

    def list_pids(self) -> list[int]:
        """Of the calls whose containers run."""
        files = (self._state / "containers").iterdir()
        return [json.loads(file.read_text())["pid"] for file in files]

    def add_container(self, name: str, folder: Path) -> None:
        """One that a program has left, which has that folder."""
        (self._state / "containers" / name).write_text(json.dumps({"labels": {"vllm-bot.folder": str(folder)}}))
