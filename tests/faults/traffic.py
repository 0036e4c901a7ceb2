"""
A producer and a consumer of one topic during faults, and their histories.

Both are librdkafka's, in threads of their own.  The producer is idempotent, writes with acks=all, tries again for
longer than any fault lasts, and sends each integer once.  The consumer reads every partition from its begin, and is not
allowed to look for another place when its own is gone.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logbus.testing.cluster import Cluster, ClusterBroker
from logbus.testing.cluster_roles import known_brokers
from logbus.testing.simulation.checks.history import INFO, OK, Anomaly, History, Poll, Send

SECONDS = 120.0
TRY_SECONDS = 10.0
"""For one try to create a topic."""
TRANSIENT = (
    KafkaError.NOT_CONTROLLER, KafkaError.INVALID_REPLICATION_FACTOR, KafkaError._TIMED_OUT, KafkaError._TRANSPORT,
)  # fmt: skip
IN_FLIGHT = 400
"""Records that are not answered yet; more are not sent."""

PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "batch.num.messages": 100,
    "message.timeout.ms": 300_000,
    "request.timeout.ms": 3000,
    "socket.timeout.ms": 4000,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 300,
    "topic.metadata.refresh.interval.ms": 1000,
    "log_level": 0,
}
CONSUMER = {
    "group.id": "none",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 50,
    "socket.timeout.ms": 4000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 300,
    "topic.metadata.refresh.interval.ms": 1000,
    "log_level": 0,
}


def login(cluster: Cluster, who: str) -> dict[str, Any]:
    """What a client of a secured cluster needs to log in; nothing for a plain one."""
    return dict(getattr(cluster, f"{who}_settings", {}))


def create(cluster: Cluster, topic: str, partitions: int = 1, **config: str) -> None:
    """A topic whose records are on three brokers, and on two before they count."""
    config = {"min.insync.replicas": "2", "segment.bytes": "262144", **config}
    settings = {**login(cluster, "admin"), "bootstrap.servers": cluster.bootstrap, "log_level": 0}
    new = NewTopic(topic, partitions, 3, config=config)
    tries = count()

    def created() -> bool:
        # Of its own for each try: one that heard of a former controller, which is frozen or dead, waits for that.
        admin = AdminClient(settings)
        again = next(tries) > 0
        refused: Any = admin.create_topics([new], request_timeout=TRY_SECONDS)[topic].exception(SECONDS)
        if refused is None:
            return True
        code = refused.args[0].code()
        # Nobody holds office at the moment, or a broker is not back yet: librdkafka leaves it to its user to try again.
        assert code in TRANSIENT or (again and code == KafkaError.TOPIC_ALREADY_EXISTS), refused
        return bool(code == KafkaError.TOPIC_ALREADY_EXISTS)

    cluster.wait_until(created, f"topic {topic}")
    cluster.wait_in_sync(topic)


class Traffic:
    """
    :param rate: records a second.

    :ivar history: what happened so far.
    :ivar worst_pause: the longest time, in seconds, in which a partition acknowledged nothing.
    :ivar machine_pause: the longest time, in seconds, that some milliseconds of work took in this process meanwhile.
    :ivar refused: errors that the producer gave up with: there should be none.
    :ivar lost_place: errors of the consumer, which only those of the log itself become.
    """

    def __init__(self, cluster: Cluster, topic: str, partitions: int = 1, *, rate: int = 1000) -> None:
        self.cluster = cluster
        self.topic = topic
        self.partitions = partitions
        self.history = History()
        self.refused: list[str] = []
        self.lost_place: list[str] = []
        self.worst_pause = 0.0
        self.machine_pause = 0.0
        self._rate = rate
        self._settings = login(cluster, "client")
        self._sent = 0
        self._others = 0
        self._acknowledged = 0
        self._next_offsets = dict.fromkeys(range(partitions), 0)
        self._last_acknowledged = dict.fromkeys(range(partitions), time.monotonic())
        self._ending = threading.Event()
        self._written = threading.Event()
        self._producer = Producer(
            {**self._settings, **PRODUCER, "bootstrap.servers": cluster.bootstrap, "error_cb": self._failed}
        )
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._write, self._read, self._work)]

    @property
    def acknowledged(self) -> int:
        """Records so far."""
        return self._acknowledged

    # What tests wait for.

    def more(self, count: int = 200, seconds: float = SECONDS) -> None:
        """Wait until so many more records were acknowledged."""
        wanted = self._acknowledged + count
        self.cluster.wait_until(lambda: self._acknowledged >= wanted, f"{count} more acknowledged records", seconds)

    def write_by_way_of(self, brokers: Sequence[ClusterBroker], count: int = 50) -> None:
        """
        Have some records of another producer acknowledged, which is told of no other brokers.

        One that heard of a former leader first could stay with that.
        """
        for broker in brokers:
            self.cluster.wait_until(
                lambda broker=broker: known_brokers(broker.bootstrap) == len(brokers),  # type: ignore[misc]
                f"broker {broker.id} knowing of {len(brokers)}",
            )
        self._others += 1
        name, first = f"producer {self._others}", self._others * 10**9
        bootstrap = ",".join(broker.bootstrap for broker in brokers)
        producer = Producer({**self._settings, **PRODUCER, "bootstrap.servers": bootstrap})
        for value in range(first, first + count):
            partition = value % self.partitions
            told = self._told(value, time.monotonic(), name)
            producer.produce(self.topic, b"%d" % value, partition=partition, on_delivery=told)
        left = producer.flush(SECONDS)
        assert left == 0, f"{left} of {count} records were not acknowledged"

    def allowed(self, seconds: float) -> float:
        """How long something may take here that takes less than so many seconds on a machine that is not busy."""
        return seconds + 20 * self.machine_pause

    def stands_still(self, seconds: float = 1.0, within: float = SECONDS) -> None:
        """Wait until nothing was acknowledged for some time."""

        def quiet() -> bool:
            return time.monotonic() - max(self._last_acknowledged.values()) >= seconds

        self.cluster.wait_until(quiet, f"{seconds:g} s without an acknowledged record", within)

    def restart_pauses(self) -> None:
        """Forget the longest pause."""
        self._last_acknowledged = dict.fromkeys(range(self.partitions), time.monotonic())
        self.worst_pause = 0.0

    def finish(self) -> None:
        """Stop writing, have everything answered and read, and read it all once more."""
        self._ending.set()
        for thread in self._threads:
            thread.join(2 * SECONDS)
            assert not thread.is_alive(), f"the end of the log was not reached: {self.lost_place[-3:]}"
        self._read_until_end("reader")

    def anomalies(self) -> list[str]:
        """What must not have happened; after :meth:`finish`."""
        found = [*self.history.check(readers=frozenset({"reader"})), *self._order()]
        return [str(each) for each in found] + self.refused + self.lost_place

    def _order(self) -> list[Anomaly]:
        """An idempotent producer's records are in the order of their sending, also if they were under way together."""
        found = []
        before: dict[tuple[str, int], Send] = {}
        for send in sorted(self.history.sends, key=lambda send: send.values):
            last = before.get((send.producer, send.partition))
            if send.outcome == OK and send.offset is not None:
                if last is not None and last.offset is not None and last.offset >= send.offset:
                    found.append(Anomaly("reordered", f"{send} is before {last}"))
                before[send.producer, send.partition] = send
        return found

    # Threads.

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        self.more(50)
        self.restart_pauses()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ending.set()
        if raised[0] is not None:
            # Nobody wants to wait for what does not come any more.
            self._written.set()
            self._producer.purge()

    def _write(self) -> None:
        producer = self._producer
        start = time.monotonic()
        while not self._ending.is_set():
            due = int((time.monotonic() - start) * self._rate)
            if len(producer) >= IN_FLIGHT or self._sent >= due:
                # What was not sent in time is not made up for in a rush.
                start = max(start, time.monotonic() - (self._sent + IN_FLIGHT) / self._rate)
                producer.poll(0.005)
                continue
            value, partition, begin = self._sent, self._sent // 7 % self.partitions, time.monotonic()
            self._sent += 1
            producer.produce(self.topic, b"%d" % value, partition=partition, on_delivery=self._told(value, begin))
        producer.flush(SECONDS)
        self._written.set()

    def _told(
        self, value: int, begin: float, producer: str = "producer"
    ) -> Callable[[KafkaError | None, Message], None]:
        def told(error: KafkaError | None, message: Message) -> None:
            end = time.monotonic()
            partition = message.partition() or 0
            if error is None:
                self.worst_pause = max(self.worst_pause, end - self._last_acknowledged[partition])
                self._last_acknowledged[partition] = end
                self._acknowledged += 1
                self._next_offsets[partition] = max(self._next_offsets[partition], (message.offset() or 0) + 1)
            elif error.code() != KafkaError._PURGE_QUEUE:
                self.refused.append(f"{value}: {error}")
            outcome, offset = (OK, message.offset()) if error is None else (INFO, None)
            self.history.sends.append(Send(producer, partition, (value,), outcome, offset, begin, end))

        return told

    def _failed(self, error: KafkaError) -> None:
        if error.fatal():
            self.refused.append(f"fatal: {error}")

    def _work(self) -> None:
        """Find out how slow everything is: sleep, use the processor and write a little, and see how long that takes."""
        with tempfile.TemporaryFile(buffering=0) as file:
            while not self._ending.wait(0.1):
                begin = time.monotonic()
                time.sleep(0.001)
                until = time.thread_time() + 0.005
                while time.thread_time() < until:
                    pass
                file.seek(0)
                file.write(bytes(4096))
                self.machine_pause = max(self.machine_pause, time.monotonic() - begin)

    def _read(self) -> None:
        self._read_until_end("consumer")

    def _read_until_end(self, name: str) -> None:
        """Read until everything that was acknowledged has been read."""
        consumer = Consumer({**self._settings, **CONSUMER, "bootstrap.servers": self.cluster.bootstrap})
        positions = dict.fromkeys(range(self.partitions), 0)
        try:
            consumer.assign([TopicPartition(self.topic, partition, 0) for partition in positions])
            until: float | None = None
            while not (self._written.is_set() and all(positions[n] >= end for n, end in self._next_offsets.items())):
                if self._written.is_set():
                    until = until or time.monotonic() + SECONDS
                    if time.monotonic() > until:
                        return
                self._note(name, positions, consumer.consume(500, 0.1))
        finally:
            consumer.close()

    def _note(self, name: str, positions: dict[int, int], messages: list[Message]) -> None:
        now = time.monotonic()
        records: dict[int, list[tuple[int, int]]] = {}
        for message in messages:
            error: Any = message.error()
            if error is not None:
                # That a broker is away is nothing special here.
                if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._BAD_MSG, KafkaError._LOG_TRUNCATION):
                    self.lost_place.append(f"{name}: {error}")
                continue
            value = message.value() or b""
            if not value.isdigit():
                self.lost_place.append(f"{name} read {value!r}, which was never acknowledged")
                continue
            records.setdefault(message.partition() or 0, []).append((message.offset() or 0, int(value)))
        for partition, found in records.items():
            self.history.polls.append(Poll(name, partition, positions[partition], tuple(found), now))
            positions[partition] = found[-1][0] + 1
