"""The fixture ``logbus_simulation``, its marker's meaning and its options; part of :mod:`.pytest_plugin`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from logbus.testing.simulation.series import Failure, Series


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of simulations."""
    group = parser.getgroup("logbus", "simulations (logbus)")
    group.addoption("--logbus-seed", type=int, metavar="N", help="run this seed only")
    group.addoption("--logbus-seeds", type=int, metavar="COUNT", help="run so many seeds, whatever tests say")
    group.addoption("--logbus-schedule", metavar="JSON", help="with --logbus-seed: exactly these faults")


@pytest.fixture
def logbus_simulation(request: pytest.FixtureRequest) -> Callable[..., Series]:
    """
    Simulates an application: :func:`logbus.testing.simulation.simulate`, with the seeds of the marker ``logbus_seeds``
    (20 without one).
    """
    seeds, schedule = _seeds(request), request.config.getoption("--logbus-schedule")

    def run(application: Any, **options: Any) -> Series:
        from logbus.errors import LogbusError
        from logbus.testing.simulation.application.simulate import SimulationFailed, simulate
        from logbus.testing.simulation.schedule import schedule_from_json
        from logbus.testing.simulation.series import schedule_text

        def again(failure: Failure) -> str:
            options = ["--logbus-seed", str(failure.seed), "--logbus-schedule", schedule_text(failure.schedule)]
            return shlex.join(["pytest", request.node.nodeid, *options])

        try:
            if schedule is not None:
                options["schedule"] = schedule_from_json(schedule, options.get("brokers", 3))
            return simulate(application, seeds, again=again, **options)
        except (SimulationFailed, LogbusError, ValueError) as e:
            raise pytest.fail.Exception(str(e), pytrace=False) from None

    return run


def _seeds(request: pytest.FixtureRequest) -> Iterable[int]:
    """The seeds that a test is to run."""
    seed, count = (request.config.getoption(name) for name in ("--logbus-seed", "--logbus-seeds"))
    if seed is not None:
        return (seed,)
    marker = request.node.get_closest_marker("logbus_seeds")
    found = {"count": 20, "first": 1}
    if marker is not None:
        found |= dict(zip(found, marker.args, strict=False)) | marker.kwargs
    if len(found) > 2 or not all(isinstance(each, int) and each > 0 for each in found.values()):
        wrong = "give the marker a number of seeds, and no more than the first besides: logbus_seeds(50)"
        raise pytest.fail.Exception(wrong, pytrace=False)
    return range(found["first"], found["first"] + (found["count"] if count is None else count))
