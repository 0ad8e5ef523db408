"""CPU seconds of the tests by folder, and the dearest ones: `pytest -p tests.cpu`, with or without `-n`.

On a shared machine the wall clock says what others do. CPU time is counted of the process that runs a test, with all its
threads, and of the children that it has waited for. What a test leaves running in its process is added to the next one.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pytest

DEAREST = 20
NAME = "cpu_seconds"  # of a test, among the properties of its last report


def read_cpu_seconds(with_children: bool) -> float:
    whose = [resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN] if with_children else [resource.RUSAGE_SELF]
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, whose))


class Account:
    """In each process: what it spends. In the one that reports: the sums."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_worker = hasattr(config, "workeroutput")
        self._runs_tests = self._is_worker or not config.getoption(
            "numprocesses", None
        )  # else its children are workers
        self._mark = 0.0
        self._tests: Counter[str] = Counter()
        self._beside: Counter[str] = Counter()  # what is no test's

    def _spend(self) -> float:
        """CPU seconds since it was last asked."""
        now = read_cpu_seconds(with_children=self._runs_tests)
        spent, self._mark = now - self._mark, now
        return spent

    def pytest_collection_finish(self) -> None:
        self._beside["start and collection"] += self._spend()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
        if call.when == "teardown":
            item.user_properties.append((NAME, self._spend()))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._tests[report.nodeid] += dict(report.user_properties).get(NAME, 0.0)

    def pytest_sessionfinish(self) -> None:
        self._beside["end of each process" if self._runs_tests else "the process that reports"] += self._spend()
        if self._is_worker:
            self._config.workeroutput[NAME] = dict(self._beside)

    @pytest.hookimpl(optionalhook=True)  # of xdist
    def pytest_testnodedown(self, node: Any) -> None:
        self._beside.update(getattr(node, "workeroutput", {}).get(NAME, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        folders, count = Counter(self._beside), Counter()
        for name, seconds in self._tests.items():
            folder = "/".join(PurePath(name.partition("::")[0]).parts[:2])
            folders[folder] += seconds
            count[folder] += 1
        terminalreporter.section(f"CPU seconds: {sum(folders.values()):.1f}")
        for folder, seconds in folders.most_common():
            tests = f"{count[folder]:6} tests" if count[folder] else ""
            terminalreporter.write_line(f"{seconds:7.1f}  {folder:<32}{tests}".rstrip())
        terminalreporter.section("the dearest tests")
        for name, seconds in self._tests.most_common(DEAREST):
            terminalreporter.write_line(f"{seconds:7.2f}  {name}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Account(config), "cpu account")
