"""
Random faults from a seed, under the producer and consumers of :mod:`logbus.client`.

    python -m tests.faults.native_soak --seconds 120 --seed 1 [--protocol consumer]

The producer is idempotent and sends each integer once; two consumers, of which one now and then leaves and comes back,
share the partitions of a group and commit what they have read. In the end every record that was acknowledged is in the
log, once, where the producer was told, and in the order of sending; and the group has read every record that is there.
It tells what was done; the status is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from logbus.client import Cluster as Client
from logbus.client import Consumer, ConsumerRecord, Producer, RecordMetadata
from logbus.client.retry import Backoff
from logbus.model import TopicPartition
from logbus.testing.cluster import Cluster
from logbus.testing.private_reactor import close_reactor, private_reactor
from tests.faults.conftest import FAULTY_CONFIG
from tests.faults.nemesis import Nemesis
from tests.faults.partition_logs import wait_same
from tests.faults.soak import FAULTS, PARTITIONS, TOPIC, Fault, chosen
from tests.faults.traffic import create

SECONDS = 120.0
EACH_TURN = 10
TURN = 0.01
"""A thousand records a second, ten at a time."""


class NativeTraffic:
    """
    A producer and a group at work, on a reactor in a thread of its own.

    :param protocol: ``classic`` or ``consumer``, by which the group is one.

    :ivar acknowledged: where the producer was told that each value is: partition and offset.
    :ivar refused: errors of records: there should be none.
    :ivar read: what the group read: values by partition and offset.
    :ivar again: records that the group read once more, as members do that lost their place before they had committed.
    :ivar log: the values of each partition in the end, by offset.
    :ivar wrong: what must not be.
    """

    def __init__(self, cluster: Cluster, protocol: str) -> None:
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.refused: list[str] = []
        self.read: dict[tuple[int, int], int] = {}
        self.again = 0
        self.log: dict[int, dict[int, int]] = {number: {} for number in range(PARTITIONS)}
        self.wrong: list[str] = []
        self._bootstrap = cluster.bootstrap
        self._protocol: Any = protocol
        self._sent = 0
        self._ending = False
        self._read_all = False
        self._swap = False
        self._failure: BaseException | None = None
        self._reactor = private_reactor()
        self._thread = threading.Thread(target=self._run, daemon=True)

    # In the thread of the test.

    def __enter__(self) -> NativeTraffic:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending = True
        self._thread.join(4 * SECONDS)
        assert not self._thread.is_alive(), "the clients do not end"
        if self._failure is not None:
            raise self._failure

    def more(self, count: int = 100) -> None:
        """Wait until so many more records are acknowledged, and as many read."""
        wanted = [len(self.acknowledged) + count, len(self.read) + count]
        deadline = time.monotonic() + SECONDS
        while len(self.acknowledged) < wanted[0] or len(self.read) < wanted[1]:
            found = f"{len(self.acknowledged)} acknowledged and {len(self.read)} read of {wanted}"
            assert self._thread.is_alive(), f"the clients have ended: {self._failure!r}"
            assert time.monotonic() < deadline, f"{found} after {SECONDS:g} s; {self.refused[:3]}"
            time.sleep(0.02)

    def swap_member(self) -> None:
        """Have the second consumer leave, and another one come."""
        self._swap = True

    def anomalies(self) -> list[str]:
        """What is not as it should be, in the end."""
        found = [*self.wrong, *self.refused]
        for partition, values in self.log.items():
            if list(values) != list(range(len(values))):
                found.append(f"partition {partition} has gaps: {len(values)} records up to offset {max(values)}")
            in_order = list(values.values())
            if sorted(set(in_order)) != in_order:
                found.append(f"partition {partition} has records twice, or out of order")
            missed = [offset for offset, value in values.items() if self.read.get((partition, offset)) != value]
            if missed:
                found.append(f"the group did not read {len(missed)} of partition {partition}, from {missed[0]} on")
        lost = [value for value, (partition, at) in self.acknowledged.items() if self.log[partition].get(at) != value]
        if lost:
            found.append(f"{len(lost)} acknowledged records are not where they were said to be, such as {lost[:5]}")
        return found

    # In the reactor's.

    def _run(self) -> None:
        async def whole() -> None:
            client = Client(
                self._reactor, self._bootstrap, timeout=3.0, connect_timeout=2.0, backoff=Backoff(0.05, 0.3)
            )
            try:
                await self._work(client)
            except BaseException as e:
                self._failure = e
            await client.close()
            await deferLater(self._reactor, 0)
            left = self._reactor.getDelayedCalls()
            if left and self._failure is None:
                self.wrong.append(f"timers are left when all is closed: {left}")
            self._reactor.stop()

        self._reactor.callWhenRunning(lambda: Deferred.fromCoroutine(whole()))
        self._reactor.run(installSignalHandlers=False)
        close_reactor(self._reactor)

    async def _work(self, client: Client) -> None:
        reading = [Deferred.fromCoroutine(self._member(client, number)) for number in range(2)]
        await self._write(client)
        plain = Consumer(client)
        places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        ends = await plain.end_offsets(places)
        plain.assign(dict.fromkeys(places, 0))
        while any(len(self.log[place.partition]) < end for place, end in ends.items()):
            for place, records in (await plain.poll(SECONDS)).items():
                self.log[place.partition].update((each.offset, _number(each)) for each in records)
        await plain.close()
        deadline = self._reactor.seconds() + SECONDS
        while len(self.read) < sum(ends.values()) and self._reactor.seconds() < deadline:
            await deferLater(self._reactor, 0.05)
        self._read_all = True
        for each in reading:
            await each

    async def _write(self, client: Client) -> None:
        producer = Producer(
            client,
            wall_clock=time.time,
            random=random.Random(1),
            enable_idempotence=True,
            delivery_timeout=5 * SECONDS,
            request_timeout=3.0,
            buffer_bytes=1 << 20,
        )
        while not self._ending:
            for _ in range(EACH_TURN):
                value, self._sent = self._sent, self._sent + 1
                sent = producer.send(TOPIC, b"%d" % value, partition=value % PARTITIONS)
                sent.addCallbacks(self._acknowledged, self._refused, callbackArgs=(value,), errbackArgs=(value,))
            await deferLater(self._reactor, TURN)
            if (room := producer.room()) is not None:
                await room
        await producer.close()
        if len(self.acknowledged) + len(self.refused) != self._sent:
            self.wrong.append(f"of {self._sent} records {len(self.acknowledged)} were acknowledged, and no more failed")

    def _acknowledged(self, told: RecordMetadata, value: int) -> None:
        if value in self.acknowledged:
            self.wrong.append(f"{value} was acknowledged twice")
        self.acknowledged[value] = (told.partition, told.offset)

    def _refused(self, failure: Any, value: int) -> None:
        self.refused.append(f"{value} was refused: {failure.value}")

    async def _member(self, client: Client, number: int) -> None:
        while not self._read_all:
            consumer = Consumer(
                client,
                "soak",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                group_protocol=self._protocol,
                assignors=("cooperative-sticky",),
                session_timeout=6.0,
                heartbeat_interval=0.5,
                request_timeout=10.0,
            )
            consumer.subscribe([TOPIC])
            await self._read(consumer, number)
            await consumer.close()

    async def _read(self, consumer: Consumer, number: int) -> None:
        while not self._read_all and not (number and self._swap):
            for place, records in (await consumer.poll(0.2)).items():
                offsets = [each.offset for each in records]
                if offsets != list(range(offsets[0], offsets[0] + len(offsets))):
                    self.wrong.append(f"{place} was read out of order: {offsets}")
                for each in records:
                    self._was_read(each)
            consumer.commit_nowait()
        if number:
            self._swap = False

    def _was_read(self, record: ConsumerRecord) -> None:
        at, value = (record.partition, record.offset), _number(record)
        self.again += at in self.read
        if self.read.setdefault(at, value) != value:
            self.wrong.append(f"{record.topic}-{record.partition} has {value} at {record.offset}, and had another")


def _number(record: ConsumerRecord) -> int:
    assert record.value is not None
    return int(record.value)


def soak(
    cluster: Cluster, seconds: float, seed: int, faults: Sequence[Fault] = FAULTS, protocol: str = "classic"
) -> list[str]:
    """
    Faults, one after another, for so many seconds, and at least one of each kind that is given.

    :return: what was wrong.
    """
    chance = random.Random(seed)
    create(cluster, TOPIC, PARTITIONS)
    nemesis = Nemesis(cluster)
    begin = time.monotonic()
    with NativeTraffic(cluster, protocol) as traffic:
        traffic.more()
        left: list[Fault] = []
        done = 0
        while time.monotonic() - begin < seconds or done < len(faults):
            if not left:
                left = chance.sample(list(faults), len(faults))
            fault = left.pop()
            role, hit = chosen(cluster, chance)
            fault(nemesis, hit, chance.uniform(0.2, 2.0))
            traffic.swap_member()
            traffic.more()
            done += 1
            print(
                f"{done:4} {fault.__name__:20} {role:10} broker {hit.id}: {len(traffic.acknowledged)} acknowledged, "
                f"{len(traffic.read)} read",
                flush=True,
            )
        cluster.wait_in_sync(TOPIC)
        traffic.more()
    for kind, count in sorted(nemesis.injected.items()):
        print(f"  {count:4} {kind}")
    print(f"  {len(traffic.acknowledged)} records acknowledged, {traffic.again} read again")
    return [*traffic.anomalies(), *wait_same(cluster, TOPIC, PARTITIONS)]


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.native_soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="for how long faults go on (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which faults hit whom (default: %(default)s)")
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic", help="of the group")
    given = parser.parse_args(arguments)
    with Cluster(config=FAULTY_CONFIG) as cluster:
        wrong = soak(cluster, given.seconds, given.seed, protocol=given.protocol)
    print(f"  {len(wrong)} violations", *wrong[:20], sep="\n    ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
