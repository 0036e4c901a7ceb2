"""The workload of plain records: producers, half of them idempotent, and consumers that read everything."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.testing.simulation.settings import Settings
from logbus.testing.simulation.workloads.cluster_client import ClusterClient
from logbus.testing.simulation.workloads.consumer import Consumer, WorkloadContext
from logbus.testing.simulation.workloads.producer import Producer

TOPIC = "numbers"
WaitUntil = Callable[[Callable[[], bool], float], bool]
"""Advances time until a condition is true, for at most a number of seconds; returns whether it became true."""


@define(eq=False)
class RecordsWorkload:
    """
    The workload.

    :ivar view: the cluster client of all producers; ``another_view``: creates one for each consumer.
    :ivar generator: creates a random generator for each client.
    :ivar found: called with anomalies that are not in the history: kind and description.
    :ivar failed: called with errors in a client.
    """

    settings: Settings
    job: WorkloadContext
    view: ClusterClient
    another_view: Callable[[str], ClusterClient]
    generator: Callable[[], Random]
    found: Callable[[str, str], object]
    failed: Callable[[Failure], object]
    topic: str = TOPIC
    _consumers: list[Consumer] = field(factory=list, init=False)

    def start(self) -> None:
        """Start all clients."""
        settings = self.settings
        count = 2 * settings.partitions
        producers = [
            Producer(
                f"producer {index}",
                self.view,
                index % settings.partitions,
                self.job,
                count / settings.rate,
                idempotent=index < settings.partitions,
                random=self.generator(),
                careless=0.0 if index < settings.partitions else 0.3,
            )
            for index in range(count)
        ]
        for index in range(settings.partitions + 1):
            partition = index % settings.partitions
            version = 12 if index % 2 else 16
            self._consumers.append(
                Consumer(
                    f"consumer {index}", self.another_view(self.topic), partition, self.job, self.generator(), version
                )
            )
        for work in [*(each.run() for each in producers), *(each.run() for each in self._consumers)]:
            self._run(work)

    def over(self) -> None:
        """No more is to be sent."""
        self.job.over = True

    def probe(self, seconds: float, wait: WaitUntil) -> None:
        """After all faults: check that every partition takes a write in time, and that all records are read."""
        probes = [
            Producer(
                f"probe {index}",
                self.another_view(self.topic),
                index,
                self.job,
                1.0,
                idempotent=True,
                random=Random(index),
            )
            for index in range(self.settings.partitions)
        ]
        written: set[int] = set()
        for probe in probes:
            self._run(self._probe(probe, written))
        if not wait(lambda: len(written) == len(probes), seconds):
            silent = [probe.partition for probe in probes if probe.partition not in written]
            self.found("not-writable", f"partitions {silent} took no write in time after all was mended")
        # Until nothing new arrives.
        wait(lambda: _all_read(self._consumers), 30.0)

    def read_again(self, seconds: float, wait: WaitUntil) -> None:
        """Read everything once more, with new consumers."""
        readers = [
            Consumer(f"reader {index}", self.another_view(self.topic), index, self.job, self.generator())
            for index in range(self.settings.partitions)
        ]
        for reader in readers:
            self._run(reader.run())
        everybody = [*self._consumers, *readers]
        if not wait(lambda: _all_read(everybody), seconds):
            behind = [f"{each.name} at {each.position} of {each.end}" for each in everybody if not each.is_at_the_end]
            self.found("not-readable", f"{', '.join(behind)}, {seconds:g} s after the last write")
        for consumer in everybody:
            consumer.stop()

    @property
    def readers(self) -> frozenset[str]:
        """The names of the consumers that read everything in the end."""
        return frozenset(f"reader {index}" for index in range(self.settings.partitions))

    async def _probe(self, probe: Producer, written: set[int]) -> None:
        while not await probe.send():
            await probe.view.sleep(0.2)
        written.add(probe.partition)

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        Deferred.fromCoroutine(work).addErrback(self.failed)


def _all_read(consumers: list[Consumer]) -> bool:
    return all(consumer.is_at_the_end for consumer in consumers)
