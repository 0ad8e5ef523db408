"""The program in a fork of this process, where it is loaded already: a start then costs a tenth.

What a start loads, and what is seen meanwhile, is for tests/test_startup.py and those that start a fresh one.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import prompt_toolkit.key_binding.bindings.search  # noqa: F401
import pygments.lexers.special
import pygments.styles.monokai  # noqa: F401

import src.app.check_settings
import src.app.runtime
import src.cli.chat.full_chat
import src.cli.chat.input.application
import src.cli.chat.input.approve
import src.cli.chat.loop
import src.cli.chat.notify
import src.cli.chat.open
import src.cli.chat.plain_chat
import src.cli.chat.rich_chat
import src.cli.commands.serve
import src.cli.mentions
import src.cli.oneshot.run
import src.cli.render.highlight
import src.cli.render.markdown
import src.security.sandbox.deferred
import src.security.sandbox.view
import src.security.text.redact
import src.tools.sources.python_files
import src.tools.sources.skills  # noqa: F401
from src.cli.main import main
from src.parsing import extract_tool_calls
from src.parsing.formats.table import mentions_call
from src.tools import TOOL_DEFINITIONS

# What the first answer makes of the tables of formats stays, and every fork has it.
extract_tool_calls("An answer.", TOOL_DEFINITIONS)
mentions_call("A question?")


ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)


def start(arguments: Sequence[str], environment: Mapping[str, str], **options: Any) -> subprocess.Popen[str]:
    """The program in a fork, with pipes for its output. `options` are Popen's."""

    def become_program() -> None:
        for number in ENDING:  # what runs in the background of a script ignores these, and so would all that it starts
            signal.signal(number, signal.SIG_DFL)
        run(arguments, environment)

    return subprocess.Popen(
        ["the program, in a fork of this process"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=become_program,
        **options,
    )


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Be the program until it ends: called in a child whose descriptors 0 to 2 are its terminal. Does not return."""
    code = 1
    try:
        gc.freeze()  # what lies about here is not tidied up there
        atexit._clear()
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # that which Popen waits for, too
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin = sys.__stdin__ = open(0, encoding="utf-8")  # noqa: SIM115 - for as long as it runs
        sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
        sys.argv = ["cli.py", *arguments]
        try:
            code = main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - it is shown
        traceback.print_exc()
    finally:
        os._exit(code)
