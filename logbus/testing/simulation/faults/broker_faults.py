"""Faults of brokers: processes die, stand still and restart, machines lose their power."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define
from twisted.internet.defer import Deferred

from logbus.testing.simulation.environment.broker_node import BrokerNode
from logbus.testing.simulation.environment.virtual_clock import VirtualClock
from logbus.testing.simulation.faults.fault_log import FaultLog


@define(eq=False)
class BrokerFaults:
    """Hits brokers. A method returns whether it has an effect; None: that shows later."""

    nodes: Mapping[int, BrokerNode]
    clock: VirtualClock
    log: FaultLog

    def start_after(self, node: BrokerNode, down: float) -> None:
        """Start a broker again after a while, if nothing else has."""
        life = node.lives

        def start() -> None:
            if node.lives == life:
                node.start_again()

        self.log.end_after(down, start, f"broker {node.broker_id} being down")

    def kill(self, broker: int, down: float) -> bool:
        node = self.nodes[broker]
        if not node.up:
            return False
        node.kill()
        self.start_after(node, down)
        return node.reactor.dead

    def power_cut(self, broker: int, down: float, mode: str) -> bool:
        node = self.nodes[broker]
        if not node.up:
            return False
        node.cut_power(mode)
        self.start_after(node, down)
        return node.reactor.dead

    def at_step(self, kind: str, broker: int, steps: int, die: Callable[[], object]) -> bool | None:
        """
        Have a broker die between two operations of its disk.

        :param kind: of the fault.
        """
        node = self.nodes[broker]
        if not node.up or node.disk.crash_at is not None:
            return False

        def now() -> None:
            self.log.tell(f"broker {broker} stops at a step of its disk")
            die()
            self.log.count(kind, node.reactor.dead)

        node.die_at_step(steps, now)
        return None

    def kill_at_step(self, broker: int, down: float, steps: int) -> bool | None:
        return self.at_step("kill-at-step", broker, steps, lambda: self.kill(broker, down))

    def power_cut_at_step(self, broker: int, down: float, steps: int, mode: str) -> bool | None:
        return self.at_step("power-cut-at-step", broker, steps, lambda: self.power_cut(broker, down, mode))

    def kill_all(self, down: Sequence[tuple[int, float]]) -> bool:
        # A list, so that all of them run.
        done = [self.kill(broker, seconds) for broker, seconds in down]
        return any(done)

    def blackout(self, down: Sequence[tuple[int, float]], mode: str) -> bool:
        done = [self.power_cut(broker, seconds, mode) for broker, seconds in down]
        return any(done)

    def restart(self, broker: int) -> bool:
        node = self.nodes[broker]
        if not node.ready or node.reactor.frozen:
            return False

        def again(_: object) -> None:
            self.log.tell(f"broker {broker} has stopped")
            node.start_again()

        stopped: Deferred[None] = node.stop()
        # In a turn of its own: code of the process that has just ended must not run within the new one.
        stopped.addCallback(lambda _: self.clock.at(self.clock.now + 0.05, None, again, None))
        return True

    def freeze(self, broker: int, seconds: float) -> bool | None:
        node = self.nodes[broker]
        if not node.up or node.reactor.frozen:
            return False
        node.freeze()
        reactor = node.reactor

        def thaw() -> None:
            self.log.count("freeze", bool(reactor.missed))
            if reactor is node.reactor:
                node.thaw()

        self.log.end_after(seconds, thaw, f"broker {broker} being frozen")
        return None
