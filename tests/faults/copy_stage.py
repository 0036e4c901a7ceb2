"""
A stage as applications have them: reads one topic, writes what it makes of it to another, and commits where it is in
the same transactions, by librdkafka.

    python -m tests.faults.copy_stage BOOTSTRAP SOURCE TARGET

What fails is aborted, and done again from what the group has committed. It ends when its standard input does, and when
the producer is of no use any more, or does not come back: whoever started it starts it again.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.faults.traffic import CONSUMER, PRODUCER

SECONDS = 20.0
MOST = 50
LONGEST = 0.3
"""Records in a transaction, and seconds that it takes: most of the time one is open when something is killed."""


def changed(value: bytes) -> bytes:
    """What it makes of a record."""
    return b"copy of " + value


class Copier:
    """The stage."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._target = target
        self._moved = False
        own = {"bootstrap.servers": bootstrap, "transactional.id": f"{source}-to-{target}"}
        settings = {
            "message.timeout.ms": 20_000,
            "transaction.timeout.ms": 20_000,
            # Else it forgets all brokers while none can be reached, but not which of those forgotten coordinates the
            # group, and waits for that one in vain (2.15, 2.16).
            "metadata.recovery.strategy": "none",
        }
        self._producer = Producer({**PRODUCER, **settings, **own})
        # Whoever had this id before is fenced, and what it had open is aborted, before anything is read.
        self._producer.init_transactions(SECONDS)
        group = {"group.id": f"{source}-to-{target}", "isolation.level": "read_committed", "session.timeout.ms": 6000}
        self._consumer = Consumer(
            {**CONSUMER, **group, "bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([source], on_assign=self._partitions_moved, on_revoke=self._partitions_moved)

    def _partitions_moved(self, _: Consumer, __: list[TopicPartition]) -> None:
        self._moved = True

    def step(self) -> None:
        """
        Copy some records in one transaction, or none.

        :raise KafkaException: this producer is of no use any more.
        """
        self._moved = False
        # Asked for first: if the group changes after that, the offsets are refused.
        member = self._consumer.consumer_group_metadata()
        offsets: dict[int, TopicPartition] = {}
        copied, until = 0, time.monotonic() + LONGEST
        while copied < MOST and time.monotonic() < until and not self._moved:
            record = self._consumer.poll(0.05)
            if record is None or record.error():
                continue
            if not offsets:
                self._producer.begin_transaction()
            self._copy(record, offsets)
            copied += 1
        if offsets:
            self._end(list(offsets.values()), member)
        elif self._moved:
            self._rewind()

    def _copy(self, record: Any, offsets: dict[int, TopicPartition]) -> None:
        partition = record.partition()
        self._producer.produce(self._target, changed(record.value()), partition=partition)
        self._producer.poll(0)
        offsets[partition] = TopicPartition(record.topic(), partition, record.offset() + 1)

    def _end(self, offsets: list[TopicPartition], member: Any) -> None:
        try:
            if not self._moved:
                self._patiently(lambda: self._producer.send_offsets_to_transaction(offsets, member, SECONDS))
                self._patiently(lambda: self._producer.commit_transaction(SECONDS))
                return
            problem = "the group has changed"
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            problem = str(failure)
        print(f"aborted: {problem}", file=sys.stderr, flush=True)
        self._patiently(lambda: self._producer.abort_transaction(SECONDS))
        self._rewind()

    def _patiently(self, work: Callable[[], object]) -> None:
        """Ask again for what may be asked again."""
        # librdkafka 2.16 may wait without end for a coordinator of the group that was down (its issues 5456 and 5511).
        faulthandler.dump_traceback_later(1.5 * SECONDS, exit=True)
        try:
            for _ in range(2):
                try:
                    work()
                    return
                except KafkaException as failure:
                    if not failure.args[0].retriable():
                        raise
            work()
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _rewind(self) -> None:
        """Go on from what is committed: nothing of what was read since holds."""
        for place in self._consumer.committed(self._consumer.assignment(), SECONDS):
            self._consumer.seek(TopicPartition(place.topic, place.partition, max(0, place.offset)))


def main() -> None:
    """Until told to end."""
    ending = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ending.set()

    threading.Thread(target=listen, daemon=True).start()
    copier = Copier(*sys.argv[1:])
    while not ending.is_set():
        copier.step()


if __name__ == "__main__":
    main()
