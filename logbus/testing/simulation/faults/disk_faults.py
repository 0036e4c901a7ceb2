"""Faults of disks: they are slow, fail, are full, lose synced data, flip bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define

from logbus.testing.simulation.bitflips import BitFlips
from logbus.testing.simulation.checks.durability_oracle import DurabilityOracle
from logbus.testing.simulation.environment.memory_disk import broken, no_space
from logbus.testing.simulation.environment.timed_disk import SYNC_SECONDS
from logbus.testing.simulation.faults.broker_faults import BrokerFaults
from logbus.testing.simulation.faults.fault_log import FaultLog


@define(eq=False)
class DiskFaults:
    """
    Hits the disks of brokers. A method returns whether it has an effect; None: that shows later.

    :ivar losses: the records that may be lost, by topic.
    """

    brokers: BrokerFaults
    losses: Sequence[DurabilityOracle]
    flips: BitFlips
    log: FaultLog

    def lying_disk(self, broker: int, down: float, share: float) -> bool:
        """Kill a broker and lose a part of its synced data; another member has it."""
        node = self.brokers.nodes[broker]
        if not node.up or not all(each.all_but(broker) for each in self.losses):
            return False
        lost = node.lose_synced([each.topic for each in self.losses], share)
        for each in self.losses:
            each.synced_data_lost(broker)
        self.brokers.start_after(node, down)
        return lost > 0

    def bit_flip(self, broker: int, at: float, bit: int) -> bool:
        """Damage data on one broker's disk; another in-sync replica is intact."""
        node = self.brokers.nodes[broker]
        flip = self.flips.flip(node, at, bit) if node.ready else None
        if flip is not None:
            self.log.tell(f"offset {flip.offset} of {flip.partition}: byte {flip.position} of {flip.path}")
        return flip is not None

    def slow_sync(self, broker: int, seconds: float, latency: float) -> bool:
        node = self.brokers.nodes[broker]
        if not node.up:
            return False
        disk = node.disk
        disk.sync_seconds = latency

        def mend() -> None:
            disk.sync_seconds = SYNC_SECONDS

        self.log.end_after(seconds, mend, f"slow syncs on broker {broker}")
        return True

    def disk_error(self, broker: int, op: str, down: float) -> bool | None:
        node = self.brokers.nodes[broker]
        if not node.up:
            return False
        disk = node.disk
        life = node.lives

        def fault(done: str, path: str) -> Any:
            if done != op or disk.failure is not None:
                return None
            self.log.count("disk-error", True)
            return broken()

        disk.faults = fault

        def replace() -> None:
            # An operator replaces the broken part, and starts the broker again.
            disk.faults = lambda op, path: None
            if node.lives == life and disk.failure is not None:
                node.kill()
                node.start_again()

        self.log.end_after(down, replace, f"disk errors on broker {broker}")
        return None

    def no_space(self, broker: int, seconds: float) -> bool | None:
        node = self.brokers.nodes[broker]
        if not node.up:
            return False
        disk = node.disk
        refused = []

        def fault(op: str, path: str) -> Any:
            if op not in ("write", "create", "replace"):
                return None
            refused.append(op)
            return no_space()

        disk.faults = fault

        def mend() -> None:
            self.log.count("no-space", bool(refused))
            disk.faults = lambda op, path: None

        self.log.end_after(seconds, mend, f"no space on broker {broker}")
        return None
