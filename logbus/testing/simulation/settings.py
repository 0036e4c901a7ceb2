"""Settings of a simulated run."""

from __future__ import annotations

from attrs import frozen

from logbus.testing.simulation.checks.share_history import MOST_DELIVERIES
from logbus.testing.simulation.schedule import APPLICATION_KINDS, KINDS, REMOTE_KINDS, TRANSACTION_KINDS, WORKER_KINDS

RECORDS = "records"
TRANSACTIONS = "transactions"
SHARES = "shares"
TIERED = "tiered"
WORKLOADS = (RECORDS, TRANSACTIONS)
"""What clients do, unless something else is wanted: see :mod:`logbus.testing.simulation.workloads`."""

ON_ONE_MACHINE = (
    *("kill", "kill-at-step", "kill-all", "restart", "freeze", "slow-sync", "disk-error", "no-space", "clock-jump"),
    *("elect", "reassign", "configure", "topic"),
    *WORKER_KINDS,
)
"""Kinds of faults that happen to workers."""

TRANSACTIONS_ON_ONE_MACHINE = (
    *ON_ONE_MACHINE,
    *("kill-coordinator", "kill-participant", "kill-client", "lose-answers"),
)
"""The same, with transactions."""

AROUND_AN_APPLICATION = (
    *APPLICATION_KINDS,
    *("kill", "power-cut", "restart", "freeze", "cut", "one-way-cut", "isolate", "cut-off", "slow-link", "reset"),
    *("slow-sync", "expire", "flap", "elect", "lose-answers"),
)
"""Kinds of faults that applications meet, unless others are wanted."""

OF_APPLICATIONS = (*APPLICATION_KINDS, *KINDS, "lose-answers")
"""All kinds of faults that runs of applications can have."""


@frozen
class Settings:
    """
    The settings of a simulated run.

    :ivar rate: batches a second, over all producers of a workload.
    :ivar seconds: for how long clients work while things go wrong.
    :ivar kinds: of faults; ``between``: seconds from one fault to the next, on average.
    :ivar flush: ``log.flush.before.ack``.
    :ivar lag: how long a replica in sync may be behind, in seconds; ``latency``: of every link, likewise.
    :ivar workloads: of :data:`WORKLOADS`, :data:`SHARES` and :data:`TIERED`, those that run beside each other.
    :ivar workers: brokers are workers of one supervisor, which has the metadata store; ``kinds`` are of
        :data:`ON_ONE_MACHINE` then.
    :ivar fetch_bytes: ``replica.fetch.max.bytes``; with 1 a follower gets one batch at a time, and is slow to catch up.
    """

    brokers: int = 3
    partitions: int = 2
    replication: int = 3
    min_insync: int = 2
    rate: float = 5.0
    seconds: float = 60.0
    kinds: tuple[str, ...] = tuple(KINDS)
    between: float = 8.0
    flush: bool = True
    session_timeout: float = 6.0
    lag: float = 10.0
    latency: float = 0.0002
    fetch_bytes: int = 1 << 20
    workloads: tuple[str, ...] = (RECORDS,)
    workers: bool = False

    def config(self) -> dict[str, str]:
        """Of every broker, by Kafka's names."""
        return {
            "zookeeper.connect": "",
            "zookeeper.session.timeout.ms": str(int(self.session_timeout * 1000)),
            "log.flush.before.ack": "true" if self.flush else "false",
            "log.flush.interval.messages": "9223372036854775807" if self.flush else "20",
            "log.segment.bytes": "4096",
            "default.replication.factor": str(self.replication),
            "min.insync.replicas": str(self.min_insync),
            "offsets.topic.replication.factor": str(self.replication),
            "offsets.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": str(self.replication),
            "share.coordinator.state.topic.min.isr": str(self.min_insync),
            "share.coordinator.state.topic.num.partitions": "2",
            # Members of share groups that are gone are to be missed within a run.
            "group.share.min.session.timeout.ms": "6000",
            "group.share.session.timeout.ms": "6000",
            "group.share.min.heartbeat.interval.ms": "1000",
            "group.share.heartbeat.interval.ms": "1000",
            "group.share.min.record.lock.duration.ms": "3000",
            "group.share.record.lock.duration.ms": "3000",
            # A record is not to be archived since answers to members were lost.
            "group.share.delivery.count.limit": str(MOST_DELIVERIES),
            "share.coordinator.snapshot.update.records.per.snapshot": "20",
            "transaction.state.log.replication.factor": str(self.replication),
            "transaction.state.log.min.isr": str(self.min_insync),
            "transaction.state.log.num.partitions": "2",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "replica.lag.time.max.ms": str(int(self.lag * 1000)),
            "replica.fetch.max.bytes": str(self.fetch_bytes),
            "log.scrub.interval.ms": "60000",
            # Clocks that jump are not to keep producers out.
            "log.message.timestamp.after.max.ms": "9223372036854775807",
            **(self._of_tiered_storage() if TIERED in self.workloads else {}),
        }

    def _of_tiered_storage(self) -> dict[str, str]:
        return {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.uri": "memory://",
            "remote.log.manager.task.interval.ms": "1000",
            "remote.log.metadata.topic.num.partitions": "2",
            "remote.log.metadata.topic.replication.factor": str(self.replication),
            "log.retention.check.interval.ms": "1000",
            "log.flush.offset.checkpoint.interval.ms": "1000",
            "log.stray.retention.ms": "60000",
        }


def kinds_for(workloads: tuple[str, ...]) -> tuple[str, ...]:
    """All kinds of faults that say something of these workloads."""
    return (
        *KINDS,
        *(TRANSACTION_KINDS if TRANSACTIONS in workloads else ()),
        *(REMOTE_KINDS if TIERED in workloads else ()),
    )
