"""New replicas begin with linked copies of logs that other workers of the machine have."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from logbus.cluster.follower.sibling_copies import decode_copy, decode_request, encode_copy, encode_request
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.storage.log import Log
from logbus.storage.log_linker import LinkedCopy
from logbus.testing.simulation.environment.memory_disk import Crashed, MemoryDisk, PowerCutOutcome
from logbus.wire.messages.topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tests.cluster.memory_cluster import ClusterCase, Several
from tests.handlers.kit import a_batch, produce_request
from tests.storage.builders import read_all

NAME = TopicPartition("t", 0)
LONG = os.environ.get("LOGBUS_HYPOTHESIS_PROFILE") == "long"
STRIDE = 1 if LONG else 7
"""Steps of a disk between two deaths that are tried."""


class SiblingCopyTests(ClusterCase):
    """Brokers 0 and 1 are workers of one machine; broker 2 is another machine."""

    def setUp(self) -> None:
        self.begin_anew()

    def tearDown(self) -> None:
        self.cluster.close()

    def begin_anew(self, *order: int) -> None:
        top = MemoryDisk("/memory0")
        self.cluster = Several(
            {"log.flush.before.ack": "true"}, disks={0: [top], 1: [top.below("workers/1")]}, siblings=(0, 1)
        )
        for broker_id in order or range(3):
            self.cluster.boot(broker_id)
        self.cluster.settle()

    def create(self, *replicas: int) -> None:
        wanted = CreatableTopic(
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
            configs=[],
        )
        answer = self.ask(0, CreateTopicsRequest(topics=[wanted], timeout_ms=5000), 7)
        self.assertEqual(answer.topics[0].error_code, 0, answer)

    def ask(self, broker_id: int, message: Any, version: int, seconds: float = 10) -> Any:
        client = self.cluster[broker_id].connect(host="192.0.2.1")
        client.send(message, version)
        for _ in range(round(seconds / 0.05)):
            self.cluster.settle(0.05)
            answers = client.answers()
            if answers:
                return answers[0]
        raise AssertionError(f"broker {broker_id} did not answer {message!r}")

    def leader(self) -> int:
        return self.leaders("t", self.cluster.alive[0])[0]

    def produce(self, *values: bytes, **given: Any) -> None:
        request = produce_request(a_batch(*values, **given), "t", 0, -1)
        answer = self.ask(self.leader(), request, 9)
        self.assertEqual(answer.responses[0].partition_responses[0].error_code, 0, answer)

    def log(self, broker_id: int) -> Log:
        return self.cluster[broker_id].broker.replication.replicas.get("t", 0).log

    def begin(self, *replicas: int) -> None:
        admin = self.cluster[self.cluster.controller].broker.control.partition_admin
        answers = self.cluster.now(admin.alter_reassignments({NAME: list(replicas)}))
        self.assertEqual(answers, {NAME: None})

    def move(self, *replicas: int) -> None:
        """To other brokers, until they have it."""
        self.begin(*replicas)
        self.wait_for_move(*replicas)

    def wait_for_move(self, *replicas: int) -> None:
        for _ in range(1000):
            image = self.cluster.metadata(self.cluster.alive[0]).partition(NAME)
            if image is not None and image.replicas == replicas and image.leader in replicas:
                break
            self.cluster.settle(0.05)
        else:
            raise AssertionError("the move does not end")
        self.cluster.settle(0.5)

    def copies(self) -> list[int]:
        """How many logs each broker began as copies."""
        return [self.cluster[each].broker.replication.copies.adopted for each in self.cluster.alive]

    def values(self, broker_id: int) -> list[bytes | None]:
        return [value for _, value in read_all(self.log(broker_id))]

    def test_moved_among_workers(self) -> None:
        """No record is copied; the log, its producers and what follows are with the other worker, and only there."""
        self.create(0)
        for n in range(20):
            self.produce(b"%d" % n, producer_id=5, producer_epoch=0, base_sequence=n)
        before = read_all(self.log(0))
        self.move(1)
        self.assertEqual(self.copies(), [0, 1, 0])
        self.assertEqual(self.leader(), 1)
        self.assertEqual(read_all(self.log(1)), before)
        self.produce(b"20", producer_id=5, producer_epoch=0, base_sequence=20)
        with self.assertRaises(ApiError) as gone:
            self.log(0)
        self.assertEqual(gone.exception.code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.move(0)
        self.produce(b"21", producer_id=5, producer_epoch=0, base_sequence=21)
        self.assertEqual(self.values(0), [b"%d" % n for n in range(22)])
        self.assertEqual(self.copies(), [1, 1, 0])

    def test_replica_that_follows(self) -> None:
        """Where another machine leads, a replica here moves among the workers all the same."""
        self.create(2, 0)
        self.produce(b"a", b"b")
        self.cluster.settle(1)
        self.move(2, 1)
        self.assertEqual(self.copies(), [0, 1, 0])
        self.produce(b"c")
        self.cluster.settle(1)
        self.assertEqual(self.values(1), [b"a", b"b", b"c"])

    def test_to_another_machine(self) -> None:
        """There it is fetched as ever."""
        self.create(0)
        self.produce(b"a", b"b")
        self.move(2)
        self.assertEqual(self.copies(), [0, 0, 0])
        self.assertEqual(self.values(2), [b"a", b"b"])

    def test_no_copy_can_be_had(self) -> None:
        """Then the records are fetched."""
        self.create(0)
        self.produce(b"a", b"b")
        self.cluster.disks[0][0].faults = lambda op, path: OSError(28, "full") if op == "make" else None
        self.move(1)
        self.assertEqual(self.copies(), [0, 0, 0])
        self.assertEqual(self.values(1), [b"a", b"b"])

    def test_an_empty_partition(self) -> None:
        """There is nothing to link, and the partition moves."""
        self.create(0)
        self.move(1)
        self.produce(b"a")
        self.assertEqual(self.values(1), [b"a"])

    def test_cancelled(self) -> None:
        """A move that is called off while the other worker does not answer leaves all as it was."""
        self.create(0)
        self.produce(b"a")
        self.cluster.cut(0, 1)
        self.begin(1)
        self.cluster.settle(1)
        admin = self.cluster[self.cluster.controller].broker.control.partition_admin
        self.cluster.now(admin.alter_reassignments({NAME: None}))
        self.cluster.mend()
        self.cluster.settle(40)
        self.assertEqual((self.leader(), self.values(0), self.copies()), (0, [b"a"], [0, 0, 0]))
        self.move(1)
        self.assertEqual(self.values(1), [b"a"])

    def test_the_other_worker_is_started_again(self) -> None:
        """The move waits for it, and ends."""
        self.create(0)
        self.produce(b"a", b"b")
        self.cluster.stop(0)
        self.cluster.settle(1)
        self.begin(1)
        self.cluster.settle(2)
        self.cluster.boot(0)
        self.cluster.settle(5)
        self.assertEqual(self.leader(), 1)
        self.assertEqual(self.values(1), [b"a", b"b"])
        self.assertEqual(self.copies(), [0, 1, 0])

    def test_killed_at_some_step(self) -> None:
        """Whichever worker dies, wherever it is: once it is back, the move ends, and no record is lost or twice."""

        def die(broker_id: int) -> None:
            self.cluster.kill(broker_id)
            self.cluster.boot(broker_id)

        self.at_steps(die)

    def test_power_cut_at_some_step(self) -> None:
        """The machine dies, with both workers: the same holds, as records are synced before they are acknowledged."""
        for mode in ("lose", "tear") if LONG else ("tear",):

            def die(broker_id: int, mode: str = mode) -> None:
                top = self.cluster.disks[0][0].after_power_cut(PowerCutOutcome(mode))
                for one in (0, 1):
                    self.cluster.kill(one)
                self.cluster.disks.update({0: [top], 1: [top.below("workers/1")]})
                for one in (0, 1):
                    self.cluster.boot(one)

            self.at_steps(die)

    def at_steps(self, die: Callable[[int], object]) -> None:
        """Move a partition again and again, and have a worker die at some step of its disk."""
        linked = 0
        for broker_id in (0, 1):
            for at in range(1000):
                self.cluster.close()
                self.begin_anew(2, 0, 1)
                self.create(0)
                for n in range(4):
                    self.produce(b"%d" % n, producer_id=5, producer_epoch=0, base_sequence=n)
                crashed = self.move_until_crash(broker_id, at * STRIDE)
                if crashed:
                    die(broker_id)
                self.wait_for_move(1)
                self.produce(b"4", producer_id=5, producer_epoch=0, base_sequence=4)
                self.assertEqual(self.values(1), [b"%d" % n for n in range(5)], (broker_id, at))
                linked += self.copies()[1]
                if not crashed:
                    break
            self.assertGreater(at * STRIDE, 15)
        self.assertGreater(linked, 4)
        self.flushLoggedErrors(Crashed)

    def move_until_crash(self, broker_id: int, steps: int) -> bool:
        """Begin to move, until a worker's disk stops after so many steps; whether that happened before the end."""
        disk = self.cluster[broker_id].disks[0]
        disk.crash_at = disk.steps + steps
        self.begin(1)
        for _ in range(100):
            if disk.crashed:
                return True
            self.cluster.settle(0.05)
            image = self.cluster.metadata(2).partition(NAME)
            if image is not None and image.replicas == (1,):
                break
        disk.crash_at = None
        return disk.crashed


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 2**31 - 1), st.uuids())
def test_requests(topic: str, number: int, topic_id: uuid.UUID) -> None:
    """They come back as they were."""
    name = TopicPartition(topic, number)
    assert decode_request(encode_request(name, topic_id)) == (name, topic_id)


@given(st.text(max_size=30), st.lists(st.integers(0, 2**63 - 1), min_size=6, max_size=6))
def test_answers(path: str, numbers: list[int]) -> None:
    """They come back as they were."""
    copy = LinkedCopy(path, *numbers)
    assert decode_copy(encode_copy(copy)) == copy
