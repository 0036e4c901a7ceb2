"""Users' applications on virtual time: right ones pass, a planted bug is found, the real world is refused."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from logbus.errors import ConfigError
from logbus.testing.simulation import (
    NotSimulated,
    SimulatedApplication,
    Simulation,
    SimulationFailed,
    TwistedSimulation,
    simulate,
    simulated,
)
from logbus.testing.simulation.application.application_file import load
from logbus.testing.simulation.application.application_run import ApplicationRun
from logbus.testing.simulation.settings import AROUND_AN_APPLICATION, Settings
from tests.simulation import applications

KILLS = ("kill-application", "kill-application-at-step")
FOUND_BY = 4
"""A seed that finds the planted bug."""
SHORT: dict[str, Any] = {"seconds": 30, "between": 7, "brokers": 1, "faults": KILLS}
RIGHT = ("at_least_once", "exactly_once", "on_twisted", "with_generators")


def quick(application: SimulatedApplication, **options: Any) -> Any:
    """One seed, one broker, and no fault."""
    return simulate(application, [1], **{"seconds": 1, "brokers": 1, "faults": (), "tries": 0, **options})


@pytest.mark.parametrize("name", RIGHT)
def test_right_applications_pass(name: str) -> None:
    """Also by the seed that finds the bug."""
    series = simulate(getattr(applications, name), [FOUND_BY], **SHORT)
    assert series.runs == 1
    assert series.effects.total() > 0 or name == "with_generators"  # which has done its work by then


def test_a_planted_bug_is_found_and_shrunk() -> None:
    """Of many faults one is left, and the message says how to have it again."""
    with pytest.raises(SimulationFailed) as found:
        simulate(applications.commits_first, [FOUND_BY], **SHORT)
    failure = found.value.failure
    assert [fault.kind for fault in failure.schedule] == ["kill-application-at-step"]
    assert failure.repeats
    assert failure.settings.seconds < 30
    assert "without an invoice" in str(found.value)
    assert "logbus simulate --application tests.simulation.applications:commits_first --seed 4" in str(found.value)


@pytest.mark.long
@pytest.mark.parametrize("name", RIGHT)
def test_many_seeds(name: str) -> None:
    """With all kinds of faults that applications meet, on three brokers."""
    simulate(getattr(applications, name), range(1, 31))


@pytest.mark.long
def test_the_bug_is_found_among_all_kinds_of_faults() -> None:
    """Within thirty seeds: about three in ten find it, but not those up to ten."""
    with pytest.raises(SimulationFailed, match="without an invoice"):
        simulate(applications.commits_first, range(1, 31))


_ONE = """
from logbus.testing.simulation.application.application_run import ApplicationRun
from logbus.testing.simulation.settings import AROUND_AN_APPLICATION, Settings
from tests.simulation import applications
settings = Settings(seconds=10, between=1, kinds=AROUND_AN_APPLICATION, workloads=())
outcome = ApplicationRun(applications.at_least_once, settings, 3).run()
print(outcome.trace, outcome.events, len(outcome.told))
"""


def test_the_same_seed_gives_the_same_run() -> None:
    """In each process, whatever the order of sets is there."""
    told = set()
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", _ONE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        told |= set(run.stdout.splitlines())
        assert run.stderr == ""
    assert len(told) == 1


def test_time_and_randomness_are_the_simulation_s() -> None:
    """Of the standard library, too; afterwards all is as it was."""
    seen: list[Any] = []

    @simulated()
    async def application(simulation: Simulation) -> None:
        began, now = time.monotonic(), time.time()
        await asyncio.sleep(3600)
        seen.append((time.monotonic() - began, time.time() - now, random.random(), uuid.uuid4(), os.urandom(4)))
        async with asyncio.timeout(10):
            await asyncio.wait_for(asyncio.sleep(5), 6)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 1)
        seen.append(simulation.random.random())

    state, began = random.getstate(), time.monotonic()
    for _ in range(2):
        quick(application, seconds=4000)
    assert seen[:2] == seen[2:]
    assert seen[0][:2] == pytest.approx((3600, 3600))
    assert random.getstate() == state
    assert time.monotonic() - began < 3000


def _executor(simulation: Any) -> Any:
    return asyncio.get_running_loop().run_in_executor(None, sum, [1])


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "sleep": (lambda _: time.sleep(1), r"time\.sleep\(\) is not simulated: wait with asyncio\.sleep"),
    "thread": (lambda _: threading.Thread(target=print).start(), "threading.Thread.start"),
    "executor": (_executor, r"run_in_executor\(\) of the event loop"),
    "socket": (lambda _: socket.create_connection(("127.0.0.1", 9)), "socket.getaddrinfo"),
    "host": (lambda _: asyncio.open_connection("db.example.com", 5432), "a connection to db.example.com:5432"),
    "server": (lambda _: asyncio.start_server(print, port=80), r"create_server\(\) of the event loop"),
    "process": (lambda _: subprocess.run(["true"], check=False), "subprocess.Popen"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_real_world_is_refused(name: str) -> None:
    """With the place in the application, and even if the application catches it."""
    act, message = REFUSED[name]

    @simulated()
    async def application(simulation: Simulation) -> None:
        try:
            result = act(simulation)
            if asyncio.iscoroutine(result) or asyncio.isfuture(result):
                await result
        except Exception:
            await asyncio.sleep(1)

    with pytest.raises(NotSimulated, match=rf"test_applications\.py:\d+: .*{message}"):
        quick(application)


def test_threads_of_twisted_are_refused() -> None:
    """Also those of a real reactor that somebody has installed."""

    @simulated()
    def application(simulation: TwistedSimulation) -> Any:
        return deferToThread(sum, [1])

    pytest.importorskip("twisted.internet.reactor")
    with pytest.raises(NotSimulated, match="reactor is not simulated: use simulation"):
        quick(application)


def test_errors_of_the_application() -> None:
    """One that no outage explains is a defect; others have it started again."""

    @simulated()
    async def wrong(simulation: Simulation) -> None:
        raise KeyError("total")

    with pytest.raises(SimulationFailed, match=r"application-failed: instance 1: (.|\n)*KeyError: 'total'"):
        quick(wrong)

    lives: list[int] = []

    @simulated(restarts_on=(KeyError,))
    async def fails_twice(simulation: Simulation) -> None:
        lives.append(simulation.life)
        if simulation.life == 1:
            raise KeyError("total")
        if simulation.life == 2:
            sys.exit(1)

    quick(fails_twice, seconds=5)
    assert lives == [1, 2, 3]


def test_expectations() -> None:
    """Those that are not met end the run, with what the application logged."""

    @simulated()
    async def application(simulation: Simulation) -> None:
        simulation.log("looks")
        simulation.expect(1 + 1 == 2)
        simulation.expect(simulation.now > 5, "it is early")

    with pytest.raises(SimulationFailed, match=r"expectation: instance 1: it is early(.|\n)*instance 1 looks"):
        quick(application)


def test_a_killed_process_runs_no_finally_block() -> None:
    """One that is stopped does."""
    ended: list[float] = []

    @simulated()
    async def application(simulation: Simulation) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            if simulation.now > 0 and not simulation.mended:
                ended.append(simulation.now)

    def at(kind: str, **args: Any) -> Any:
        from logbus.testing.simulation.schedule import Fault

        return [Fault(2.0, kind, {"number": 0, **args})]

    quick(application, seconds=5, schedule=at("kill-application", down=1.0))
    assert ended == []
    quick(application, seconds=5, schedule=at("stop-application"))
    assert ended == [pytest.approx(2.0)]


def test_a_handler_of_signals_stops_it() -> None:
    """As in services that end by SIGTERM."""
    stopped: list[bool] = []

    @simulated()
    async def application(simulation: Simulation) -> None:
        end = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
        await end.wait()
        stopped.append(True)

    from logbus.testing.simulation.schedule import Fault

    quick(application, seconds=5, schedule=[Fault(2.0, "stop-application", {"number": 0})])
    assert stopped == [True]


def test_waiting_turn_by_turn_takes_time() -> None:
    """As it would, for want of a faster processor."""

    @simulated()
    async def application(simulation: Simulation) -> None:
        while simulation.now < 1:  # noqa: ASYNC110 - it is what is tested
            await asyncio.sleep(0)

    quick(application)


def test_an_unrepeatable_seed_is_said_to_be() -> None:
    """So that nobody looks for the fault in the wrong place."""
    runs: list[int] = []

    @simulated(topics={"numbers": 1})
    async def application(simulation: Simulation) -> None:
        runs.append(0)
        await simulation.produce("numbers", b"x" * len(runs))
        simulation.expect(False)

    with pytest.raises(SimulationFailed, match="does not give the same run twice"):
        quick(application, tries=1)


def _twisted_in_asyncio() -> Callable[[Any], Any]:
    async def application(simulation: Any) -> None:
        await Deferred()

    return application


def _two(*, one: Any) -> Any:
    """No application."""


async def _nothing(simulation: Any) -> None:
    """An application."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda simulation: None, "returned None; write 'async def' for asyncio, or return a Deferred"),
        (lambda simulation: _nothing(0), "returned a coroutine; for asyncio write 'async def'"),
        (_twisted_in_asyncio(), "awaits a Deferred; for Twisted return"),
        (lambda: None, r"must take one argument, the simulation"),
        ("billing", "give a function of one argument"),
    ],
)
def test_what_is_no_application(function: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        quick(function)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": {"orders": 0}}, "topics is {'orders': 0}; give numbers of partitions by name"),
        ({"topics": ["orders"]}, "topics is"),
        ({"instances": 0}, "instances is 0; give a number from 1 to 100"),
        ({"restarts_on": ("KeyError",)}, "restarts_on is"),
    ],
)
def test_wrong_arguments(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulated(**options)(_nothing)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brokers": 0}, "brokers is 0"),
        ({"seconds": "x"}, "seconds is 'x'"),
        ({"faults": ["kil"]}, "there is no fault 'kil'; there are: "),
    ],
)
def test_wrong_options(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulate(_nothing, **options)


def test_names_of_applications() -> None:
    """MODULE:FUNCTION; each that is wrong gets a line of its own."""
    assert load("tests.simulation.applications:exactly_once") is applications.exactly_once
    assert load(f"{__name__}:_nothing").topics == {}
    wrong = {
        "billing": "give MODULE:FUNCTION",
        "no_such_module:billing": "there is no module 'no_such_module'",
        "tests.simulation.applications:billing": "it has at_least_once, commits_first",
        "tests.simulation.applications:TOPICS": "give a function of one argument",
    }
    for name, message in wrong.items():
        with pytest.raises(ConfigError, match=message):
            load(name)


def test_an_input_and_checks_take_a_simulation() -> None:
    """An application has one input."""
    application = simulated()(_nothing)
    with pytest.raises(ConfigError, match=r"the input of .*:_nothing is _two.*must take one argument"):
        application.input(_two)  # type: ignore[arg-type]
    application.input(_nothing)
    with pytest.raises(ConfigError, match="has an input"):
        application.input(_nothing)


def test_the_outcome_has_times_since_the_start() -> None:
    """The history counts from the application's start, as the schedule does."""
    settings = Settings(seconds=5, between=2, brokers=1, replication=1, min_insync=1, kinds=(), workloads=())
    outcome = ApplicationRun(applications.with_generators, settings, 1).run()
    assert outcome.told[0] == "0.000 instance 1 starts"
    assert "5.000 mend" in outcome.told
    assert set(KILLS) <= set(AROUND_AN_APPLICATION)
