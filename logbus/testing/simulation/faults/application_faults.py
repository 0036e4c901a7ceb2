"""Faults of the application's processes: they are killed, stopped, stand still, lose the brokers, and get company."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from attrs import define

from logbus.testing.simulation.environment.broker_node import host_of
from logbus.testing.simulation.faults.fault_log import FaultLog
from logbus.testing.simulation.faults.network_faults import NetworkFaults


class Supervisor(Protocol):
    """Starts processes of the application."""

    processes: list[Any]

    def at_step(self, process: Any, steps: int, do: Callable[[], object]) -> None:
        """Do something when it has sent and received so many segments."""

    def start_after(self, process: Any, seconds: float) -> None:
        """Start one again."""

    def add(self, seconds: float) -> object:
        """Run one more for a while; None: there is one already."""


@define(eq=False)
class ApplicationFaults:
    """Hits processes of the application. A method returns whether it has an effect; None: that shows later."""

    supervisor: Supervisor
    network: NetworkFaults
    log: FaultLog

    def _one(self, number: int) -> Any:
        processes = self.supervisor.processes
        return processes[number % len(processes)]

    def kill_application(self, number: int, down: float) -> bool:
        process = self._one(number)
        killed: bool = process.kill()
        if killed:
            self.log.tell(f"{process.name} is killed")
            self.supervisor.start_after(process, down)
        return killed

    def kill_application_at_step(self, number: int, down: float, steps: int) -> bool | None:
        """Kill it between two of its requests and answers."""
        process = self._one(number)
        if not process.up:
            return False

        def now() -> None:
            self.log.count("kill-application-at-step", self.kill_application(number, down))

        self.supervisor.at_step(process, steps, now)
        return None

    def stop_application(self, number: int) -> bool:
        """Have it stop gracefully; the supervisor starts it again."""
        stopped: bool = self._one(number).stop()
        return stopped

    def freeze_application(self, number: int, seconds: float) -> bool | None:
        process = self._one(number)
        if not process.freeze():
            return False
        self.log.tell(f"{process.name} is frozen")

        def thaw() -> None:
            self.log.count("freeze-application", process.thaw())

        self.log.end_after(seconds, thaw, f"{process.name} being frozen")
        return None

    def cut_application(self, number: int, seconds: float) -> None:
        me = self._one(number).host
        links = [link for each in self.network.brokers for link in ((me, host_of(each)), (host_of(each), me))]
        self.network.cut_links("cut-application", links, seconds)

    def add_application(self, seconds: float) -> bool:
        return self.supervisor.add(seconds) is not None
