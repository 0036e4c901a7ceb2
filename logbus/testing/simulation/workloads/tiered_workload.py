"""
The workload of tiered storage: a topic that keeps everything, most of it in the object store; one whose old records
expire; and topics that come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.errors import ErrorCode, LogbusError
from logbus.records.header import iter_batches
from logbus.testing.simulation.checks.history import INFO, OK, Anomaly, History
from logbus.testing.simulation.checks.remote_inspector import differences, sweep_again
from logbus.testing.simulation.environment.broker_node import EPOCH_S, BrokerNode
from logbus.testing.simulation.environment.remote_objects import RemoteObjects
from logbus.testing.simulation.settings import Settings
from logbus.testing.simulation.workloads.cluster_client import ClusterClient, Unavailable, name_of
from logbus.testing.simulation.workloads.consumer import Consumer, WorkloadContext
from logbus.testing.simulation.workloads.producer import Producer
from logbus.testing.simulation.workloads.records_workload import RecordsWorkload, WaitUntil
from logbus.wire.messages.records import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from logbus.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

ARCHIVE = "archive"
EXPIRING = "expiring"
RETENTION_BYTES = 12_288
SLACK_BYTES = 8192
"""By so much too little may be kept: what retention counted may be double, or truncated later."""

_TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": "1024",
    "index.interval.bytes": "200",
    "local.retention.bytes": "2048",
    "local.retention.ms": "-1",
    "retention.ms": "-1",
}
CONFIGS: Mapping[str, Mapping[str, str]] = {
    ARCHIVE: {**_TIERED, "retention.bytes": "-1"},
    EXPIRING: {**_TIERED, "retention.bytes": str(RETENTION_BYTES)},
}
"""Of the topics, by name."""

CLEAN_SECONDS = 300.0
"""Until nothing is left in the object store that should not be: topics must be unknown for a minute first."""
TIMESTAMPS = 8
"""That are looked up in each partition."""
_EARLIEST = -2


def topic_configs(topic: str) -> list[CreatableTopicConfig]:
    """The configuration of a topic of this workload; that of others: none."""
    return [CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.get(topic, {}).items()]


async def list_offset(view: ClusterClient, partition: int, timestamp: int) -> tuple[int, int]:
    """
    The offset that a leader finds for a timestamp, and its timestamp.

    :raise LogbusError, Unavailable: it does not answer, or refuses.
    """
    channel, epoch = await view.leader(partition, "offsets")
    asked = ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=view.topic, partitions=[asked])])
    answer = (await channel.request(request, 7)).topics[0].partitions[0]
    if answer.error_code:
        raise Unavailable(name_of(answer.error_code))
    return answer.offset, answer.timestamp


@define(eq=False)
class EarliestReader(Consumer):
    """
    Reads from the first record that there is, and goes on there if that expires meanwhile.

    :ivar sizes: of the batches that it got, by offset.
    """

    sizes: dict[int, int] = field(factory=dict, init=False)

    async def _refused(self, code: int) -> None:
        if code != ErrorCode.OFFSET_OUT_OF_RANGE:
            await Consumer._refused(self, code)
            return
        try:
            earliest, _ = await list_offset(self.view, self.partition, _EARLIEST)
        except (LogbusError, Unavailable):
            self.view.forget(self.partition)
            await self.view.sleep(0.2)
            return
        if earliest <= self.position:
            await Consumer._refused(self, code)
        self.position = max(self.position, earliest)

    def _content(self, answer: Any) -> bytes:
        data = Consumer._content(self, answer)
        for _, header in iter_batches(data):
            self.sizes[header.base_offset] = header.size
        return data


@define(eq=False)
class TieredWorkload:
    """
    The workload.

    :ivar job: of the topic that keeps everything; ``expiring``: of the other one.
    :ivar another_view: creates a cluster client of a topic; ``generator``: creates a random generator.
    :ivar found: called with anomalies that are not in the history; ``failed``: with errors in a client.
    """

    settings: Settings
    objects: RemoteObjects
    nodes: Mapping[int, BrokerNode]
    job: WorkloadContext
    expiring: WorkloadContext
    another_view: Callable[[str], ClusterClient]
    generator: Callable[[], Random]
    found: Callable[[str, str], object]
    failed: Callable[[Failure], object]
    archive: RecordsWorkload = field(init=False)
    _readers: list[EarliestReader] = field(factory=list, init=False)
    _starts: dict[int, int] = field(factory=dict, init=False)
    _times: list[tuple[int, int, int, int]] = field(factory=list, init=False)
    # Of topics that came: whether they are deleted.
    _passing: dict[str, bool] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.archive = RecordsWorkload(
            self.settings,
            self.job,
            self.another_view(ARCHIVE),
            self.another_view,
            self.generator,
            self.found,
            self.failed,
            ARCHIVE,
        )

    def start(self) -> None:
        """Start all clients."""
        self.archive.start()
        count = self.settings.partitions
        for index in range(count):
            producer = Producer(
                f"expiring {index}", self.another_view(EXPIRING), index, self.expiring, count / self.settings.rate,
                idempotent=True, random=self.generator(),
            )  # fmt: skip
            self._run(producer.run())

    def over(self) -> None:
        """No more is to be sent."""
        self.job.over = self.expiring.over = True

    def probe(self, seconds: float, wait: WaitUntil) -> None:
        """After all faults: check that partitions take writes, and that all records are read."""
        self.archive.probe(seconds, wait)

    def read_again(self, seconds: float, wait: WaitUntil) -> None:
        """Read everything once more; wait until the store has what it should, and no more."""
        for name in self._passing:
            self._run(self._delete(name))
        self._clean(wait)
        self.archive.read_again(seconds, wait)
        self._readers = readers = [
            EarliestReader(f"reader {index}", self.another_view(EXPIRING), index, self.expiring, self.generator())
            for index in range(self.settings.partitions)
        ]
        for reader in readers:
            self._run(reader.run())
        if not wait(lambda: all(each.is_at_the_end for each in readers), seconds):
            behind = [f"{each.name} at {each.position} of {each.end}" for each in readers if not each.is_at_the_end]
            self.found("not-readable", f"{EXPIRING}: {', '.join(behind)}, {seconds:g} s after the last write")
        for reader in readers:
            reader.stop()
        self._look_up(seconds, wait)

    def anomalies(
        self, losses: Mapping[str, Mapping[int, Sequence[float]]], *, may_lose: bool, flush: bool
    ) -> Iterator[Anomaly]:
        """
        What is wrong with what clients saw.

        :param losses: by topic and partition: see :class:`.DurabilityOracle`.
        :param may_lose: whether records that were read may be lost then; ``flush``: see :class:`.Settings`.
        """
        of_archive = losses[ARCHIVE] if may_lose else {}
        excused = [each for each in self.job.strange if not of_archive.get(each.partition)]
        history = self.job.history.without_losses(self.archive.readers, of_archive, acknowledged=not flush)
        yield from excused
        yield from history.check(readers=self.archive.readers)
        of_expiring = losses[EXPIRING] if may_lose else {}
        yield from (each for each in self.expiring.strange if not of_expiring.get(each.partition))
        left = self.expiring.history.without_losses(
            frozenset(each.name for each in self._readers), of_expiring, acknowledged=not flush
        )
        yield from self._of_what_is_left(left).check(readers=frozenset(each.name for each in self._readers))
        for reader in self._readers:
            start = self._starts.get(reader.partition, 0)
            kept = sum(size for offset, size in reader.sizes.items() if offset >= start)
            if start and kept < RETENTION_BYTES - SLACK_BYTES and not losses[EXPIRING].get(reader.partition):
                yield Anomaly(
                    "expired-early", f"{EXPIRING}-{reader.partition} begins at {start} and has {kept} bytes",
                    reader.partition,
                )  # fmt: skip
        yield from self._wrong_times()

    def _of_what_is_left(self, history: History) -> History:
        """The history without what has expired."""
        sends = []
        for send in history.sends:
            start = self._starts.get(send.partition, 0)
            if start and send.outcome == OK and (send.offset is None or send.offset < start):
                send = evolve(send, outcome=INFO, offset=None)
            sends.append(send)
        return History(sends, history.polls)

    # Offsets by time.

    def _look_up(self, seconds: float, wait: WaitUntil) -> None:
        """Ask for the start of each partition, and for offsets by time."""
        done: list[object] = []
        random = self.generator()
        work = []
        for index in range(self.settings.partitions):
            work.append(self._find_start(self.another_view(EXPIRING), index))
            times = self._timestamps(index)
            chosen = [each for each in times for each in (each, each + 1)]
            random.shuffle(chosen)
            view = self.another_view(ARCHIVE)
            work.append(self._find_times(view, index, chosen[:TIMESTAMPS]))
        for each in work:
            Deferred.fromCoroutine(each).addErrback(self.failed).addCallback(done.append)
        if not wait(lambda: len(done) == len(work), seconds):
            self.found("no-offsets", f"not all offsets were found within {seconds:g} s")

    def _timestamps(self, partition: int) -> list[int]:
        return sorted({_ms(send.begin) for send in self.job.history.sends if send.partition == partition})

    async def _find_start(self, view: ClusterClient, partition: int) -> None:
        self._starts[partition], _ = await self._patiently(view, partition, _EARLIEST)

    async def _find_times(self, view: ClusterClient, partition: int, times: Sequence[int]) -> None:
        for time in times:
            self._times.append((partition, time, *await self._patiently(view, partition, time)))

    async def _patiently(self, view: ClusterClient, partition: int, timestamp: int) -> tuple[int, int]:
        while True:
            try:
                return await list_offset(view, partition, timestamp)
            except (LogbusError, Unavailable):
                view.forget(partition)
                await view.sleep(0.2)

    def _wrong_times(self) -> Iterator[Anomaly]:
        sent = {value: _ms(send.begin) for send in self.job.history.sends for value in send.values}
        records: dict[int, dict[int, int]] = {}
        for poll in self.job.history.polls:
            if poll.consumer in self.archive.readers:
                records.setdefault(poll.partition, {}).update((offset, sent[value]) for offset, value in poll.records)
        for partition, time, offset, found in self._times:
            there = records.get(partition, {})
            wanted = min((each for each, stamp in there.items() if stamp >= time), default=-1)
            if offset != wanted or (wanted >= 0 and found != there[wanted]):
                yield Anomaly(
                    "wrong-time",
                    f"{ARCHIVE}-{partition}: the first record from {time} on is {wanted} of "
                    f"{there.get(wanted)}, and the leader found {offset} of {found}",
                    partition,
                )

    # The object store.

    def _clean(self, wait: WaitUntil) -> None:
        nodes = list(self.nodes.values())
        sweep_again(nodes)
        if not wait(lambda: all(self._passing.values()) and not self._differences(), CLEAN_SECONDS):
            for kind, what in self._differences()[:10]:
                self.found(kind, what)
            if left := [name for name, gone in self._passing.items() if not gone]:
                self.found("not-deleted", f"topics {left} could not be deleted")

    def _differences(self) -> list[tuple[str, str]]:
        return differences([node for node in self.nodes.values() if node.ready], self.objects.objects)

    # Topics that come and go.

    def come_and_go(self, name: str, seconds: float) -> Deferred[bool]:
        """Create a topic, write to it, and delete it; fires with whether something of it came into the store."""
        work = Deferred.fromCoroutine(self._come_and_go(name, seconds))
        return work.addErrback(lambda failure: bool(self.failed(failure)))

    async def _come_and_go(self, name: str, seconds: float) -> bool:
        self._passing[name] = False
        view = self.another_view(name)
        topic = CreatableTopic(
            name=name, num_partitions=1, replication_factor=self.settings.replication, assignments=[],
            configs=topic_configs(ARCHIVE),
        )  # fmt: skip
        try:
            channel = await view.channel(view.random.choice(view.brokers), "admin")
            await channel.request(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        except (LogbusError, Unavailable):
            pass
        job = WorkloadContext(History(), self.job.wall_clock)
        producer = Producer("passing", view, 0, job, 0.05, idempotent=False, random=self.generator())
        writing = Deferred.fromCoroutine(producer.run())
        writing.addErrback(self.failed)
        await view.sleep(seconds)
        job.over = True
        came = any(each.startswith(f"{name}-") for each in self.objects.objects)
        await self._delete(name)
        return came

    async def _delete(self, name: str) -> None:
        view = self.another_view(name)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=5000)
        while not self._passing[name]:
            try:
                channel = await view.channel(view.random.choice(view.brokers), "admin")
                answer = await channel.request(request)
                # A creation may still be under way, whose answer was lost: it is asked for again in the end.
                if answer.responses[0].error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    self._passing[name] = True
                    return
            except (LogbusError, Unavailable):
                pass
            await view.sleep(0.5)

    def _run(self, work: Any) -> None:
        Deferred.fromCoroutine(work).addErrback(self.failed)


def _ms(begin: float) -> int:
    """The timestamp of what was sent at a time."""
    return int((EPOCH_S + begin) * 1000)
