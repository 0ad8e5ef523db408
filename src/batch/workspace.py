"""The folder of a task: a clean checkout that shares its objects with one bare clone, and the patch of its changes.

The patch is made with a Git folder of our own outside of the task's one. Git therefore runs nothing that the task left
there: its .git folder is not read, and the filters that its attributes name are not defined.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from ..errors import BotError
from .tasks import Task

CLONE_TIMEOUT_S = 1800.0
GIT_TIMEOUT_S = 300.0
MAX_CHANGED_BYTES = 50_000_000
# What the user's own Git would run or change is not used.
ISOLATED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false")
SAFE = ("-c", "core.quotePath=true", "-c", "gc.auto=0", "-c", "safe.directory=*", "-c", "protocol.ext.allow=never")


class Repositories:
    """The bare clones below `folder`, one for each repository that a task names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def clone(self, source: str) -> Path:
        """The bare clone, made by the first process that asks; others wait. Raises BotError."""
        bare = self._folder / f"{sha256(source.encode()).hexdigest()[:16]}.git"
        if bare.exists():
            return bare
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not bare.exists():
                part = bare.with_suffix(".part")
                shutil.rmtree(part, ignore_errors=True)
                # The user's own configuration holds: it may name credentials.
                place, folder = source, Path(source).expanduser()
                if folder.is_dir():  # else it is a URL
                    place = str(folder.resolve())
                variables = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
                words: list[str | Path] = ["clone", "--quiet", "--bare", "--", place, part]
                _run_git(words, variables=variables, timeout=CLONE_TIMEOUT_S)
                part.replace(bare)
        return bare


class TaskWorkspace:
    """The folder of one task. `private`: a folder for what the task must not reach."""

    def __init__(self, root: Path, private: Path) -> None:
        self.root = root
        self._git_folder = private / "patch.git"
        self._before = ""

    def prepare(self, task: Task, repositories: Repositories) -> tuple[str, ...]:
        """Check out the task's commit and write its files. Returns the folders outside that Git reads in it.

        Raises BotError.
        """
        self.root.mkdir(parents=True)
        _run_git(["init", "--quiet", "--bare", "--template=", self._git_folder])  # without examples of hooks
        (self._git_folder / "info").mkdir(exist_ok=True)
        (self._git_folder / "info/exclude").write_text("__pycache__/\n*.py[co]\n")
        readable: tuple[str, ...] = ()
        if task.repo:
            bare = repositories.clone(task.repo)
            _run_git([*SAFE, "clone", "--quiet", "--shared", "--no-checkout", "--", bare, self.root])
            commit = self._find_commit(task.base or "HEAD")
            _run_git([*OPTIONS, "checkout", "--quiet", "--detach", commit, "--"], folder=self.root)
            _run_git(["remote", "remove", "origin"], folder=self.root)
            readable = (str(bare / "objects"),)
            (self._git_folder / "objects/info/alternates").write_text(f"{bare / 'objects'}\n")
            shutil.copyfile(self.root / ".git/index", self._git_folder / "index")  # no file has to be read again
        for name, text in task.files.items():
            path = self.root / name
            if not path.resolve().is_relative_to(self.root.resolve()):
                raise BotError(f"files: {name} leads out of the folder.")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        self._before = self._write_tree()
        return readable

    def _find_commit(self, base: str) -> str:
        """Of a commit, tag or branch; of a branch, as the clone's source has it."""
        for name in (base, f"origin/{base}"):
            try:
                return _run_git(["rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"], folder=self.root).strip()
            except BotError:
                continue
        raise BotError(f"The repository has no commit {base}.")

    def apply(self, patch: str) -> None:
        """Apply what `make_patch` gave. Raises BotError where it does not apply."""
        if patch:
            file = self._git_folder.with_name("applied.diff")
            file.write_text(patch, encoding="utf-8", newline="")
            self._run_private(["apply", "--whitespace=nowarn", "--", str(file)])

    def make_patch(self) -> tuple[str, str]:
        """The changes since `prepare`, as `git apply` reads them; and what of them is not in it, in words.

        It is UTF-8: a file that is not is in it as a binary one. Ignored files are not part of it, nor is what Python
        compiled.
        """
        try:
            listed = self._run_private(["ls-files", "-z", "--others", "--modified", "--exclude-standard"])
            changed = sorted(set(filter(None, listed.split("\0"))))  # the name of a repository ends with a slash
            size = 0
            for name in changed:
                with suppress(OSError):  # it is deleted
                    size += os.lstat(self.root / name).st_size
            if size > MAX_CHANGED_BYTES:
                return "", f"The changed files hold {size // 1_000_000:,} MB, so there is no patch."
            nested = [name for name in changed if name.endswith("/")]
            after = self._write_tree(nested)
            problem = ""
            if nested:
                problem = f"Not in the patch, as it is a Git repository of its own: {nested[0]}"
            if after == self._before:
                return "", problem
            return self._diff(after), problem
        except BotError as error:
            return "", f"There is no patch: {error.message}"

    def _diff(self, after: str) -> str:
        flags = ["--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv"]
        words = ["diff", *flags, "--ignore-submodules=all", self._before, after, "--"]
        patch = self._run_private(words)
        if is_utf_8(patch):
            return patch
        named = self._run_private(["diff", "--name-only", "--no-renames", "-z", self._before, after])
        names = list(filter(None, named.split("\0")))
        undecodable = [name for name in names if not is_utf_8(self._run_private([*words, f":(literal){name}"]))]
        others = self._run_private([*words, ".", *(f":(exclude,literal){name}" for name in undecodable)])
        attributes = self._git_folder / "info/attributes"  # which count before all that the task may have written
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text("* binary\n")
        return others + self._run_private([*words, *(f":(literal){name}" for name in undecodable)])

    def _write_tree(self, without: Sequence[str] = ()) -> str:
        self._run_private(["add", "--all", "--", ".", *(f":(exclude,literal){name}" for name in without)])
        return self._run_private(["write-tree"]).strip()

    def _run_private(self, words: list[str]) -> str:
        variables = _isolate_git(GIT_DIR=str(self._git_folder), GIT_WORK_TREE=str(self.root))
        return _run_git([*OPTIONS, *SAFE, *words], folder=self.root, variables=variables)


def is_utf_8(text: str) -> bool:
    """Whether what Git printed was UTF-8: any other byte is a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _run_git(
    words: list[str | Path],
    *,
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
    timeout: float = GIT_TIMEOUT_S,
) -> str:
    """What Git prints. `variables`: those of the environment, by default without the user's. Raises BotError."""
    try:
        done = subprocess.run(  # noqa: S603 - the words begin with git, and no shell reads them
            ["git", *map(str, words)],  # noqa: S607 - the user's git
            cwd=folder,
            env=variables or _isolate_git(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
        )
    except FileNotFoundError as error:
        raise BotError("git is not installed.", "A batch needs it for its folders and patches.") from error
    except subprocess.TimeoutExpired as error:
        raise BotError(f"git {words[0]} took longer than {timeout:g} seconds.") from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        verb = next(word for word in map(str, words) if not word.startswith("-") and "=" not in word)
        raise BotError(f"git {verb}: {lines[-1]}")
    return done.stdout.decode("utf-8", "surrogateescape")


def _isolate_git(**more: str) -> dict[str, str]:
    """The variables with which Git does not use the user's configuration."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**inherited, **ISOLATED, **more}
