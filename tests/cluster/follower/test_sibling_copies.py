"""New replicas begin with linked copies of logs that other workers of the machine have."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from logbus.cluster.follower.sibling_copies import decode_copy, decode_request, encode_copy, encode_request
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.storage.log import Log
from logbus.storage.log_linker import LinkedCopy
from logbus.testing.simulation.environment.memory_disk import MemoryDisk
from logbus.wire.messages.topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tests.cluster.memory_cluster import ClusterCase, Several
from tests.handlers.kit import a_batch, produce_request
from tests.storage.builders import read_all

NAME = TopicPartition("t", 0)


class SiblingCopyTests(ClusterCase):
    """Brokers 0 and 1 are workers of one machine; broker 2 is another machine."""

    def setUp(self) -> None:
        top = MemoryDisk("/memory0")
        self.cluster = Several(disks={0: [top], 1: [top.below("workers/1")]}, siblings=(0, 1))
        self.addCleanup(self.cluster.close)
        for broker_id in range(3):
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
        for _ in range(400):
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
