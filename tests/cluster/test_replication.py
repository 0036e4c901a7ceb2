"""Replication among three brokers: acknowledged records are on all of them, byte by byte, whatever happens to one."""

from __future__ import annotations

from typing import Any

from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.records.batch import iter_batches
from logbus.storage.log import Log
from logbus.testing.simulation.environment.inodes import PowerCutOutcome
from logbus.testing.simulation.environment.memory_disk import broken
from logbus.wire.messages.records import PartitionProduceResponse
from logbus.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, DeleteTopicsRequest
from tests.cluster.memory_cluster import ClusterCase
from tests.handlers.kit import Client, a_batch, produce_request
from tests.storage.builders import data_of

NAME = TopicPartition("t", 0)


class ReplicationCase(ClusterCase):
    """A topic on all three brokers."""

    def create(self, topic: str = "t", partitions: int = 1, **configs: str) -> None:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=3,
            assignments=[],
            configs=[CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()],
        )
        answer = self.ask(self.cluster.alive[0], CreateTopicsRequest(topics=[wanted], timeout_ms=5000), 7)
        self.assertEqual(answer.topics[0].error_code, 0, answer)

    def client(self, broker_id: int) -> Client:
        return self.cluster[broker_id].connect(host="192.0.2.1")

    def ask(self, broker_id: int, message: Any, version: int, seconds: float = 10) -> Any:
        client = self.client(broker_id)
        client.send(message, version)
        for _ in range(round(seconds / 0.05)):
            self.cluster.settle(0.05)
            answers = client.answers()
            if answers:
                return answers[0]
        raise AssertionError(f"broker {broker_id} did not answer {message!r}")

    def leader(self, partition: int = 0) -> int:
        return self.leaders("t", self.cluster.alive[0])[partition]

    def produce(self, *values: bytes, partition: int = 0, acks: int = -1, **given: Any) -> PartitionProduceResponse:
        request = produce_request(a_batch(*values, **given), "t", partition, acks)
        answer: PartitionProduceResponse = (
            self.ask(self.leader(partition), request, 9).responses[0].partition_responses[0]
        )
        return answer

    def log(self, broker_id: int, partition: int = 0) -> Log:
        return self.cluster[broker_id].broker.replication.replicas.get("t", partition).log

    def content(self, broker_id: int, partition: int = 0) -> bytes:
        log, found = self.log(broker_id, partition), b""
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            result = log.read(offset, 1 << 30)
            data = data_of(result.data)
            assert data
            found += data
            offset = next(reversed([h.next_offset for _, h in iter_batches(data)]))
        return found

    def isr(self, partition: int = 0) -> tuple[int, ...]:
        image = self.cluster.metadata(self.cluster.alive[0]).topic("t")
        assert image is not None
        return image.partitions[partition].isr

    def all_equal(self, partition: int = 0) -> None:
        contents = {broker_id: self.content(broker_id, partition) for broker_id in self.cluster.alive}
        first = next(iter(contents.values()))
        for broker_id, found in contents.items():
            self.assertEqual(found, first, f"broker {broker_id} has other bytes")
        histories = [list(self.log(broker_id, partition).epochs) for broker_id in self.cluster.alive]
        self.assertEqual(histories, histories[:1] * len(histories))


class ThreeBrokersTests(ReplicationCase):
    """Records on three brokers."""

    def test_acknowledged_records_are_on_all_replicas(self) -> None:
        """Records acknowledged with acks=all are in all three logs, byte by byte."""
        self.create(partitions=3)
        for partition in range(3):
            for number in range(5):
                answer = self.produce(b"%d" % number, b"more", partition=partition)
                self.assertEqual((answer.error_code, answer.base_offset), (0, 2 * number))
                self.all_equal(partition)
                self.assertEqual(self.log(0, partition).log_end_offset, 2 * number + 2)
        self.assertEqual(len({self.leader(n) for n in range(3)}), 3)

    def test_the_high_watermark_follows(self) -> None:
        """Followers learn what is committed."""
        self.create()
        self.produce(b"a")
        self.cluster.settle(1)
        marks = [self.cluster[n].broker.replication.replicas.get("t", 0).high_watermark for n in range(3)]
        self.assertEqual(marks, [1, 1, 1])

    def test_flush_before_acknowledgement(self) -> None:
        """With flush.before.ack acknowledged records are on stable storage on all three brokers."""
        self.create(flush_before_ack="true")
        self.assertEqual(self.produce(b"a").error_code, 0)
        self.assertEqual([self.log(n).flushed_end_offset for n in range(3)], [1, 1, 1])

    def test_follower_killed_and_restarted(self) -> None:
        """The others go on without it; when it is back it catches up, and is in sync again."""
        self.create(min_insync_replicas="2")
        self.produce(b"a")
        follower = (self.leader() + 1) % 3
        self.cluster.kill(follower)
        self.cluster.settle(1)
        for number in range(5):
            self.assertEqual(self.produce(b"%d" % number).error_code, 0)
        self.assertNotIn(follower, self.isr())
        self.cluster.boot(follower)
        self.cluster.settle(5)
        self.all_equal()
        self.assertEqual(sorted(self.isr()), [0, 1, 2])

    def test_the_leader_dies(self) -> None:
        """Another one leads on with everything acknowledged; the old one cuts what nobody else had."""
        self.create(min_insync_replicas="2")
        self.produce(b"a", b"b")
        old = self.leader()
        for other in range(3):
            if other != old:
                self.cluster.cut(old, other)
        # Written, and never acknowledged.
        self.cluster[old].broker.replication.replicas.get("t", 0).append(a_batch(b"lost"), 1_700_000_000_000)
        self.cluster.kill(old)
        self.cluster.mend()
        self.cluster.settle(1)
        self.assertNotEqual(self.leader(), old)
        answer = self.produce(b"c")
        self.assertEqual((answer.error_code, answer.base_offset), (0, 2))
        self.cluster.boot(old)
        self.cluster.settle(5)
        self.all_equal()
        self.assertEqual(sorted(self.isr()), [0, 1, 2])
        self.assertEqual(self.cluster[old].broker.replication.fetcher.counters.truncations, 1)

    def test_duplicates_across_a_failover(self) -> None:
        """An idempotent producer's batch that is sent again to the next leader is the same batch."""
        self.create()
        for sequence in range(3):
            self.produce(b"v", producer_id=9, producer_epoch=0, base_sequence=sequence)
        self.cluster.kill(self.leader())
        self.cluster.settle(1)
        again = self.produce(b"v", producer_id=9, producer_epoch=0, base_sequence=2)
        self.assertEqual((again.error_code, again.base_offset), (0, 2))
        after = self.produce(b"v", producer_id=9, producer_epoch=0, base_sequence=3)
        self.assertEqual((after.error_code, after.base_offset), (0, 3))

    def test_duplicates_at_a_new_leader(self) -> None:
        """
        What the next leader was told to be committed does not do for a batch that is sent again: it waits until those
        in sync have shown in this epoch that they have it, or are in sync no more.
        """
        self.create()
        self.produce(b"v", producer_id=9, producer_epoch=0, base_sequence=0)
        self.cluster.settle(1)
        old = self.leader()
        one, other = (broker_id for broker_id in range(3) if broker_id != old)
        self.cluster.cut(one, other)
        self.cluster.kill(old)
        self.cluster.settle(0.5)
        leader = self.leader()
        replica = self.cluster[leader].broker.replication.replicas.get("t", 0)
        self.assertEqual((replica.high_watermark, len(self.isr())), (1, 2))
        client = self.client(leader)
        again = a_batch(b"v", producer_id=9, producer_epoch=0, base_sequence=0)
        client.send(produce_request(again, "t", 0, -1), 9)
        self.cluster.settle(0.5)
        self.assertEqual(client.answers(), [])
        self.cluster.kill(other if leader == one else one)
        self.cluster.settle(1)
        answer = client.answers()[0].responses[0].partition_responses[0]
        self.assertEqual((answer.error_code, answer.base_offset), (0, 0))

    def test_last_in_sync_replica_loses_records(self) -> None:
        """
        A leader that is alone in sync and loses power is back without what was committed: nobody else could lead. The
        others cut what they have beyond it, or would be out of sync for ever; it is counted.
        """
        self.create(flush_before_ack="false")
        self.assertEqual(self.produce(b"a", b"b").error_code, 0)
        self.cluster.settle(1)
        old = self.leader()
        followers = [broker_id for broker_id in range(3) if broker_id != old]
        for follower in followers:
            self.cluster.stop(follower)
        self.cluster.kill(old, power=PowerCutOutcome("lose"))
        self.cluster.boot(old)
        self.cluster.settle(1)
        self.assertEqual((self.leader(), self.log(old).log_end_offset), (old, 0))
        self.assertEqual(self.cluster[old].broker.control.controller.metrics.unclean_elections, 1)
        for follower in followers:
            self.cluster.boot(follower)
            self.assertEqual(self.log(follower).log_end_offset, 2)
        self.cluster.settle(5)
        self.assertEqual(sorted(self.isr()), [0, 1, 2])
        self.assertEqual(self.produce(b"c").base_offset, 0)
        self.all_equal()

    def test_topic_deleted_while_a_broker_is_away(self) -> None:
        """The log is deleted when the broker is back; a new topic of the same name starts empty."""
        self.create()
        self.produce(b"a")
        follower = (self.leader() + 1) % 3
        self.cluster.kill(follower)
        self.cluster.settle(1)
        self.ask(self.cluster.alive[0], DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), 5)
        self.cluster.boot(follower)
        self.cluster.settle(1)
        self.assertIsNone(self.cluster[follower].broker.logs.get(NAME))

    def test_a_directory_of_a_follower_fails(self) -> None:
        """Its replicas leave the ISR; the leader goes on."""
        self.create(min_insync_replicas="2")
        self.produce(b"a")
        follower = (self.leader() + 1) % 3
        disk = self.cluster[follower].disks[0]
        disk.faults = lambda op, path: broken() if op == "write" else None
        self.assertEqual(self.produce(b"b").error_code, 0)
        self.assertNotIn(follower, self.isr())
        with self.assertRaises(ApiError) as caught:
            self.cluster[follower].broker.replication.replicas.get("t", 0)
        self.assertEqual(caught.exception.code, ErrorCode.KAFKA_STORAGE_ERROR)
