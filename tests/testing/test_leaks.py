"""Brokers of tests leave nothing behind: no thread, no descriptor, no port, no directory, no memory."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import textwrap
import weakref
from contextlib import suppress
from pathlib import Path

import pytest
from twisted.logger import globalLogBeginner

from logbus.testing import Broker
from logbus.testing.broker_thread import BrokerThread

pytest_plugins = ["pytester"]

SUITE = """
import gc, os, threading
from pathlib import Path
import pytest

def left():
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": [each.name for each in threading.enumerate()],
        "directories": sorted(path.name for path in Path(os.environ["TMPDIR"]).glob("logbus-*")),
    }

def resident():
    gc.collect()
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024

before = {}

def test_first(logbus_broker, logbus_topic):
    pass

def test_before():
    before.update(left(), resident=resident())
    assert before["threads"] == ["MainThread"]
    assert before["directories"] == []

@pytest.mark.parametrize("number", range(COUNT))
def test_each(logbus_broker, logbus_topic, number):
    assert logbus_broker.read(logbus_topic) == []

def test_cluster(logbus_cluster):
    pass

def test_after():
    # Ports are among the descriptors.
    after = left()
    assert after == {name: before[name] for name in after}
    grown = resident() - before["resident"]
    assert grown < 12 + COUNT * 0.02, f"{grown} MB"
"""


def test_nothing_keeps_a_broker() -> None:
    """A closed broker's objects can be collected, but for those in the last 200 events that Twisted keeps for a log."""
    with Broker() as broker:
        broker.admin.create_topic("t")
        runner = broker._runner
        assert isinstance(runner, BrokerThread)
        assert runner.service is not None
        service = weakref.ref(runner.service)
    del broker, runner
    buffered = getattr(globalLogBeginner, "_initialBuffer", None)
    if buffered is not None:
        buffered._buffer.clear()
    gc.collect()
    assert service() is None


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.long)])
def test_many_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """So many tests with a broker each, one after the other in a process, and a cluster."""
    (pytester.path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(pytester.path / "temporary"))
    pytester.makepyfile(SUITE.replace("COUNT", str(count)))
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", f"--basetemp={pytester.path / 'base'}")
    result.assert_outcomes(passed=count + 4)


def test_killed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed by -9 leaves its directories, which the next one removes."""
    (pytester.path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(pytester.path / "temporary"))
    pytester.makepyfile(
        """
        import os, signal

        def test_one(logbus_broker, logbus_topic):
            if os.environ.get("KILLED"):
                os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    monkeypatch.setenv("KILLED", "1")
    pytester.runpytest_subprocess("-p", "no:cacheprovider", f"--basetemp={pytester.path / 'base'}")
    assert len(list((pytester.path / "temporary").glob("logbus-*"))) == 1
    monkeypatch.delenv("KILLED")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", f"--basetemp={pytester.path / 'base'}")
    result.assert_outcomes(passed=1)
    assert list((pytester.path / "temporary").glob("logbus-*")) == []


def test_killed_with_workers(tmp_path: Path) -> None:
    """A broker with workers ends with a test run that is killed by -9: nobody reads its standard error then."""
    program = """
    import os, signal
    from logbus.testing import Broker

    with Broker({"workers": 2}):
        os.kill(os.getpid(), signal.SIGKILL)
    """
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert run.wait() == -signal.SIGKILL
    try:
        while left := processes_of(run.pid):
            with suppress(ProcessLookupError), open(os.pidfd_open(min(left)), "rb") as ending:
                assert select.select([ending], [], [], 60)[0], f"still there: {left}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)


def processes_of(session: int) -> dict[int, str]:
    """The command lines of the processes of a session that have not ended, by their numbers."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, _, its_session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
    return found
