"""A double of podman: it writes down how it is called, and runs the command of a container on this machine.

The paths of mounts are those of their sources in the command's variables. Whether podman itself takes the options, and
contains anything, is not seen here.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

IMAGE = "docker.io/library/python:3.12"
CHECKOUT_IMAGE = "docker.io/swebench/sweb.eval.x86_64.a:latest"  # whose working folder is a Git checkout

# It is started hundreds of times, so it imports what Python has loaded at its start.
SCRIPT = """#!{python} -IS
import marshal, os, sys

state, words = {state!r}, sys.argv[1:]
containers = state + "/containers/"
with open(state + "/calls", "ab") as file:
    file.write(marshal.dumps(words))

def load(name):
    with open(containers + name, "rb") as file:
        return marshal.load(file)

def save(name, record):  # whole at once, since others read it
    with open(state + "/" + name, "wb") as file:
        marshal.dump(record, file)
    os.rename(state + "/" + name, containers + name)

def forget(name):
    try:
        os.unlink(containers + name)
    except FileNotFoundError:
        pass

def kill(child):
    for end in os.kill, os.killpg:  # the group is not its own yet while it starts
        try:
            end(child, 9)
        except ProcessLookupError:
            pass

def find_all(name):
    return [words[index + 1] for index, word in enumerate(words) if word == name]

if words[0] == "image":
    if words[-1] not in {images!r}:
        sys.exit("Error: no such image " + words[-1])
    print(state + "/testbed" if "sweb.eval" in words[-1] else "")
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
    labels = dict(each.split("=", 1) for each in find_all("--label"))
    command = words[words.index("--entrypoint") + 3:]
    os.chdir(translate(find_all("--workdir")[0]))
    client, child = os.getpid(), os.fork()
    if not child:
        save(name, {{"pid": client, "labels": labels, "child": os.getpid()}})  # till it is, it ends with the client's group
        os.setsid()
        os.execve(command[0], command, variables)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    forget(name)
    sys.exit(code % 256)
elif words[0] == "ps":
    print("\\n".join(os.listdir(containers)))
elif words[0] == "inspect":
    for name in words[3:]:  # tells what is there, and fails if one is not
        try:
            print(name, load(name)["labels"]["vllm-bot.folder"])
        except OSError:
            print("Error: no such container", name, file=sys.stderr)
elif words[0] == "rm":
    for name in words[2:]:
        try:
            child = load(name).get("child")
        except FileNotFoundError:
            continue
        forget(name)
        if child:
            kill(child)
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
        return list(_load_all(self._state / "calls"))

    @property
    def runs(self) -> list[list[str]]:
        """The calls that started a container, without the trial."""
        return [each for each in self.calls if each[0] == "run"][1:]

    def list_containers(self) -> list[str]:
        return [each.name for each in (self._state / "containers").iterdir()]

    def list_pids(self) -> list[int]:
        """Of the calls whose containers run."""
        files = (self._state / "containers").iterdir()
        return [record["pid"] for file in files for record in _load_all(file)]

    def add_container(self, name: str, folder: Path) -> None:
        """One that a program has left, which has that folder."""
        (self._state / "containers" / name).write_bytes(marshal.dumps({"labels": {"vllm-bot.folder": str(folder)}}))


def _load_all(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        while file.peek():
            yield marshal.load(file)
