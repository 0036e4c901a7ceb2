"""
Simulates whole clusters with faults, in one process and on virtual time, from a seed.

Brokers are the real :class:`logbus.broker.Broker`. Only their environment is simulated: the reactor, the network, the
disks, the metadata store, the wall clock and the randomness. The same seed gives the same run.

* ``run``: one run: a cluster, clients and faults, then the checks.
* ``series``: runs over many seeds.
* ``totals``: the numbers of a run, and their sums.
* ``settings``: of a run.
* ``schedule``: faults and their times, drawn from the seed. Pure.
* ``shrink``: reduces a failing schedule to the few faults that it needs. Pure.
* ``nemesis``: injects the faults of a schedule.
* ``bitflips``: flips bits of records on disks.

Packages:

* ``faults``: the faults, by what they hit.
* ``environment``: virtual time, network, disks, metadata store, and the machines of brokers and clients.
* ``workloads``: the clients.
* ``application``: applications of users instead of these clients.
* ``checks``: whether clients saw what they must, and brokers hold the same.

``run`` starts the brokers, a workload and the ``nemesis``; when all faults have ended it has ``checks`` compare the
histories of the workload with each other and with the brokers' logs.

For tests of applications:

.. code-block:: python

    from logbus.testing.simulation import Simulation, simulate, simulated
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logbus.testing.simulation.application.refusals import NotSimulated
    from logbus.testing.simulation.application.simulate import SimulationFailed, simulate
    from logbus.testing.simulation.application.simulated_application import SimulatedApplication, simulated
    from logbus.testing.simulation.application.simulation import Simulation, TwistedSimulation

__all__ = [
    "NotSimulated",
    "SimulatedApplication",
    "Simulation",
    "SimulationFailed",
    "TwistedSimulation",
    "simulate",
    "simulated",
]

_MODULES = {
    "NotSimulated": "refusals",
    "SimulatedApplication": "simulated_application",
    "Simulation": "simulation",
    "SimulationFailed": "simulate",
    "TwistedSimulation": "simulation",
    "simulate": "simulate",
    "simulated": "simulated_application",
}


def __getattr__(name: str) -> object:
    """Import what applications need at first use: runs without one do not need it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.application.{_MODULES[name]}"), name)
