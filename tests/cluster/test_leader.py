"""Leaders with followers, producers and consumers."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from attrs import evolve

from logbus.errors import ErrorCode
from logbus.handlers.fetch import FetchHandlers
from logbus.model import LeaderAndIsr
from logbus.records.batch import read_header
from logbus.storage.istorage import IOPool
from logbus.wire.fetch_template import RepeatedFetch
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from logbus.wire.messages.records import (
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    ReplicaState,
)
from logbus.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.cluster.memory_cluster import ClusterCase
from tests.handlers.kit import Client, a_batch, content, fetch_request, produce_request

ALL = -1


class LeaderCase(ClusterCase):
    """Three brokers, and topics whose partitions they lead in turn: partition n is led by broker n."""

    config = {"replica.lag.time.max.ms": "2000", "auto.leader.rebalance.enable": "false"}

    def create(self, name: str = "t", partitions: int = 1, **configs: str) -> None:
        assignments = [
            CreatableReplicaAssignment(partition_index=n, broker_ids=[(n + i) % 3 for i in range(3)])
            for n in range(partitions)
        ]
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=[CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()],
        )
        answer = self.ask(0, CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
        assert answer.topics[0].error_code == 0, answer
        self.cluster.settle(0.1)

    def client(self, broker_id: int) -> Client:
        return self.cluster[broker_id].connect(host="192.0.2.1")

    def ask(self, broker_id: int, message: Any, version: int, seconds: float = 6.0) -> Any:
        client = self.client(broker_id)
        client.send(message, version)
        return self.answer(client, seconds)

    def answer(self, client: Client, seconds: float = 6.0) -> Any:
        for _ in range(round(seconds / 0.05)):
            answers = client.answers()
            if answers:
                return answers[0]
            self.cluster.settle(0.05)
        raise AssertionError("no answer")

    def produce(
        self, broker_id: int = 0, topic: str = "t", partition: int = 0, acks: int = ALL, version: int = 9
    ) -> Any:
        response = self.ask(broker_id, produce_request(a_batch(), topic, partition, acks), version)
        return response.responses[0].partition_responses[0]

    def fetch(self, broker_id: int, offset: int = 0, version: int = 12, partition: int = 0, **given: Any) -> Any:
        response = self.ask(broker_id, fetch_request([("t", partition, offset)], **given), version)
        return response.responses[0].partitions[0]

    def replica(self, broker_id: int, partition: int = 0) -> Any:
        return self.cluster[broker_id].broker.replication.replicas.get("t", partition)

    def isr(self, broker_id: int = 0) -> tuple[int, ...]:
        isr: tuple[int, ...] = self.replica(broker_id).partition.leader_and_isr.isr
        return isr


class ProduceTests(LeaderCase):
    """acks=all."""

    def test_acknowledged_is_on_all(self) -> None:
        """An acknowledgement of acks=all means that every in-sync replica has the records."""
        self.create(partitions=3)
        for broker_id in range(3):
            self.assertEqual(self.produce(broker_id, partition=broker_id).error_code, 0)
            for other in range(3):
                self.assertEqual(self.replica(other, broker_id).log.log_end_offset, 1)

    def test_with_syncs(self) -> None:
        """With flush.before.ack they are on stable storage there."""
        self.create(flush_before_ack="true")
        self.assertEqual(self.produce().error_code, 0)
        for other in range(3):
            self.assertEqual(self.replica(other).log.flushed_end_offset, 1)

    def test_followers_ahead_of_a_sync(self) -> None:
        """Records that the others have on stable storage while the leader's sync is still under way are synced next."""
        self.create(flush_before_ack="true")
        disk = self.cluster[0].disks[0]
        disk.held.add(IOPool.SYNC)
        client = self.client(0)
        for _ in range(2):
            client.send(produce_request(a_batch(), acks=1), 9)
            self.cluster.settle(0.05)
        disk.held.clear()
        disk.release(IOPool.SYNC)
        self.cluster.settle(0.1)
        self.assertEqual(self.replica(0).high_watermark, 2)

    def test_waits_for_in_sync_replicas(self) -> None:
        """A follower that is cut off holds acknowledgements up until it has left the in-sync replicas."""
        self.create()
        self.produce()
        self.cluster.cut(0, 2)
        client = self.client(0)
        client.send(produce_request(a_batch(), acks=ALL), 9)
        self.cluster.settle(0.9)
        self.assertEqual(client.frames(), [])
        self.assertEqual(self.replica(0).high_watermark, 1)
        client.send(produce_request(a_batch(), acks=ALL), 9)
        self.assertEqual(
            self.answer(client).responses[0].partition_responses[0].error_code, ErrorCode.REQUEST_TIMED_OUT
        )
        self.cluster.settle(3)
        self.assertEqual(self.isr(), (0, 1))
        self.assertEqual(self.replica(0).high_watermark, 3)
        self.assertEqual(self.produce().base_offset, 3)
        keeper = self.cluster[0].broker.replication.isr
        self.assertEqual((keeper.shrinks, self.replica(0).partition.has_enough_replicas), (1, True))

    def test_returning_follower_joins(self) -> None:
        """A follower that returns joins the ISR, and is waited for again."""
        self.test_waits_for_in_sync_replicas()
        self.cluster.mend()
        self.cluster.settle(40)
        self.assertEqual(sorted(self.isr()), [0, 1, 2])
        self.assertEqual(self.cluster[0].broker.replication.isr.expansions, 1)
        self.assertEqual(self.produce().error_code, 0)
        self.assertEqual(self.replica(2).log.log_end_offset, 5)

    def test_too_few_in_sync(self) -> None:
        """With fewer in sync than min.insync.replicas nothing is written for acks=all, and acks=1 stays unread."""
        self.create(min_insync_replicas="2")
        self.produce()
        for broker_id in (1, 2):
            self.cluster.kill(broker_id)
        self.cluster.settle(1)
        self.assertEqual(self.isr(), (0,))
        self.assertEqual(self.produce().error_code, ErrorCode.NOT_ENOUGH_REPLICAS)
        self.assertEqual(self.produce(acks=1).base_offset, 1)
        self.assertEqual(self.fetch(0, 1).high_watermark, 1)
        self.assertFalse(self.replica(0).partition.has_enough_replicas)
        self.cluster.boot(1)
        self.cluster.settle(3)
        self.assertEqual(sorted(self.isr()), [0, 1])
        self.assertEqual(self.produce().base_offset, 2)

    def test_a_lower_minimum_for_all_topics(self) -> None:
        """
        Who was eligible to lead while too few were in sync is so no more when the brokers' default is lowered, and the
        leader goes on at once.
        """
        self.create(partitions=2)
        self.set_default("min.insync.replicas", "2")
        self.cluster.kill(2)
        self.cluster.kill(1)
        self.cluster.settle(0.5)
        self.assertNotEqual(self.replica(0).partition.leader_and_isr.eligible, ())
        self.assertEqual(self.produce().error_code, ErrorCode.NOT_ENOUGH_REPLICAS)
        self.set_default("min.insync.replicas", "1")
        self.assertEqual(self.produce().error_code, 0)
        self.assertEqual(self.replica(0).partition.leader_and_isr.eligible, ())

    def test_unclean_elections_for_all_topics(self) -> None:
        """Where they are allowed from now on, somebody leads at once what nobody led."""
        self.create(partitions=2)
        self.cluster.kill(0)
        self.cluster.kill(2)
        self.cluster.settle(0.5)
        self.cluster.boot(0)
        self.cluster.kill(1)
        self.cluster.settle(0.5)
        self.assertEqual(self.leaders("t"), [-1, -1])
        self.set_default("unclean.leader.election.enable", "true")
        self.cluster.settle(0.5)
        self.assertEqual(self.leaders("t"), [0, 0])

    def set_default(self, name: str, value: str) -> None:
        """Change a setting of all brokers."""
        change = IncrementalAlterableConfig(name=name, config_operation=0, value=value)
        resource = IncrementalAlterConfigsResource(resource_type=4, resource_name="", configs=[change])
        answer = self.ask(0, IncrementalAlterConfigsRequest(resources=[resource]), 1)
        self.assertEqual(answer.responses[0].error_code, 0, answer)

    def test_too_few_after_the_append(self) -> None:
        """Who waits when the last but one goes hears of it at once."""
        self.create(min_insync_replicas="3")
        self.cluster.cut(0, 2)
        client = self.client(0)
        client.send(produce_request(a_batch(), acks=ALL), 9)
        self.cluster.settle(0.3)
        self.cluster.kill(2)
        (answer,) = self.answer(client).responses[0].partition_responses
        self.assertEqual(answer.error_code, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def test_internal_topics(self) -> None:
        """Plugins' records, too, are appended for all in-sync replicas when they ask for that."""
        self.create()
        done = self.cluster[0].broker.plugin_services.append("t", [(b"k", b"v")], 0, acks=-1)
        self.cluster.settle()
        self.cluster.settle(0.1)
        self.assertEqual(self.successResultOf(done), (0, 0))
        self.assertEqual(self.replica(1).log.log_end_offset, 1)

    def test_leader_hints(self) -> None:
        """Who writes to a follower, or reads from one with an old version, hears who leads and where that is."""
        self.create()
        response = self.ask(1, produce_request(a_batch(), acks=1), 10)
        (answer,) = response.responses[0].partition_responses
        self.assertEqual(answer.error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.assertEqual((answer.current_leader.leader_id, answer.current_leader.leader_epoch), (0, 0))
        self.assertEqual([(node.node_id, node.host) for node in response.node_endpoints], [(0, "10.1.0.0")])
        self.replica(1).partition.leader_epoch = 1
        response = self.ask(1, fetch_request([("t", 0, 0)], self.cluster[1], current_leader_epoch=0), 16)
        (answer,) = response.responses[0].partitions
        self.assertEqual((answer.error_code, answer.current_leader.leader_id), (ErrorCode.FENCED_LEADER_EPOCH, 0))
        self.assertEqual([(node.node_id, node.host) for node in response.node_endpoints], [(0, "10.1.0.0")])


class FetchTests(LeaderCase):
    """Replicas that fetch, and who says to be one."""

    def request(self, broker_id: int, epoch: int) -> FetchRequest:
        return fetch_request(
            [("t", 0, 0)],
            self.cluster[0],
            current_leader_epoch=0,
            replica_state=ReplicaState(replica_id=broker_id, replica_epoch=epoch),
        )

    def test_only_brokers_follow(self) -> None:
        """A client that says it is a broker is refused, and moves nothing."""
        self.create()
        self.cluster.cut(0, 1)
        self.produce(acks=1)
        epoch = self.cluster.metadata(0).brokers[1].epoch
        self.assertEqual(self.ask(0, self.request(1, epoch), 17).error_code, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        self.assertEqual(self.replica(0).high_watermark, 0)

    def test_stale_broker_epoch(self) -> None:
        """A fetch that a broker sent before its restart is refused."""
        self.create()
        client = self.client(0)
        client.protocol.context.broker = 1
        epoch = self.cluster.metadata(0).brokers[1].epoch
        client.send(self.request(1, epoch - 1), 17)
        self.assertEqual(self.answer(client).error_code, ErrorCode.STALE_BROKER_EPOCH)
        client.send(self.request(1, epoch), 17)
        self.assertEqual(self.answer(client).responses[0].partitions[0].error_code, 0)

    def test_repeated_fetches(self) -> None:
        """
        A follower that reads on is served without decoding its fetches: each acknowledges what is before it. One that
        is not who it claims to be, or that was registered anew, is refused as ever.
        """
        self.create()
        for other in (1, 2):
            self.cluster.cut(0, other)
        recognized = self.recognized(0)
        epochs = {n: broker.epoch for n, broker in self.cluster.metadata(0).brokers.items()}
        clients = {n: self.client(0) for n in (1, 2)}
        sessions = {}
        for n, client in clients.items():
            client.protocol.context.broker = n
            client.send(self.follow(0, n, epochs[n]), 17)
            sessions[n] = self.answer(client).session_id
        heard: list[int] = []
        self.cluster[0].broker.replication.replicas.heard = heard.append
        for offset in range(4):
            self.produce(acks=1)
            for n, client in clients.items():
                client.send(self.follow(offset, n, epochs[n], sessions[n], offset + 1), 17)
                answer = self.answer(client)
                (partition,) = answer.responses[0].partitions
                self.assertEqual((answer.session_id, partition.error_code), (sessions[n], 0))
                self.assertEqual(read_header(partition.records).base_offset, offset)
                self.assertEqual(self.replica(0).partition.followers[n].log_end_offset, offset)
            self.assertEqual(self.replica(0).high_watermark, offset)
        self.assertEqual(heard, [1, 2] * 4)
        self.assertEqual([fetch.offset for fetch in recognized], [offset for offset in range(4) for _ in (1, 2)])
        totals = self.cluster[0].broker.kafka_server.router.find(FetchHandlers).totals
        self.assertEqual((totals.bytes_sent, totals.bytes_replicated), (0, 8 * len(a_batch())))
        # The same bytes from a client that is no broker, and from one that has registered again since.
        stranger = self.client(0)
        for claims, code in ((0, "CLUSTER_AUTHORIZATION_FAILED"), (1, "STALE_BROKER_EPOCH")):
            if claims:
                stranger.protocol.context.broker = 1
                brokers = self.cluster.metadata(0).brokers
                brokers[1] = evolve(brokers[1], epoch=epochs[1] + 1)
            stranger.send(self.follow(4, 1, epochs[1], sessions[1], 5), 17)
            self.assertEqual(self.answer(stranger).error_code, ErrorCode[code])
        self.assertEqual(len(recognized), 8)
        self.assertEqual((self.replica(0).high_watermark, heard), (3, [1, 2] * 4))

    def recognized(self, broker_id: int) -> list[RepeatedFetch]:
        """The fetches that this broker serves without decoding them, from now on."""
        found: list[RepeatedFetch] = []
        handlers = self.cluster[broker_id].broker.kafka_server.router.find(FetchHandlers)
        original = handlers._repeated.fetch

        def fetch(context: Any, request: RepeatedFetch) -> Any:
            answer = original(context, request)
            if answer is not None:
                found.append(request)
            return answer

        self.patch(handlers, "_repeated", Mock(fetch=fetch, prepare=handlers._repeated.prepare))
        return found

    def follow(self, offset: int, broker_id: int, broker_epoch: int, session_id: int = 0, epoch: int = 0) -> Any:
        """A follower's fetch."""
        return fetch_request(
            [("t", 0, offset)],
            self.cluster[0],
            current_leader_epoch=0,
            last_fetched_epoch=0 if offset else -1,
            replica_state=ReplicaState(replica_id=broker_id, replica_epoch=broker_epoch),
            session_id=session_id,
            session_epoch=epoch,
            max_wait_ms=0,
        )

    def test_divergent_fetch_acknowledges_nothing(self) -> None:
        """A follower with other records than the leader is told so, and its fetch acknowledges nothing."""
        self.create()
        for other in (1, 2):
            self.cluster.cut(0, other)
        self.produce(acks=1)
        self.replica(0).take_role(LeaderAndIsr(0, 1, (0, 1, 2), version=9), (0, 1, 2))
        self.produce(acks=1)
        for other in (1, 2):
            client = self.client(0)
            client.protocol.context.broker = other
            state = ReplicaState(replica_id=other, replica_epoch=self.cluster.metadata(0).brokers[other].epoch)
            for last_epoch, diverging in ((0, True), (1, False)):
                given = {"current_leader_epoch": 1, "last_fetched_epoch": last_epoch, "replica_state": state}
                client.send(fetch_request([("t", 0, 2)], self.cluster[0], **given), 17)
                (answer,) = self.answer(client).responses[0].partitions
                self.assertEqual(answer.error_code, 0)
                if diverging:
                    self.assertEqual((answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset), (0, 1))
                    self.assertEqual(self.replica(0).partition.followers[other].log_end_offset, -1)
                else:
                    self.assertEqual(self.replica(0).partition.followers[other].log_end_offset, 2)
        self.assertEqual(self.replica(0).high_watermark, 2)

    def test_consumers_at_a_follower(self) -> None:
        """A follower serves consumers that know of it, up to what it knows to be committed."""
        self.create()
        for _ in range(2):
            self.produce()
        self.cluster.settle(1)
        self.assertEqual(self.fetch(1, 0).high_watermark, 2)
        self.assertNotEqual(content(self.fetch(1, 0)), b"")
        self.assertEqual(self.fetch(1, 0, version=10).error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.assertEqual(self.fetch(1, 3).error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.cluster.cut(0, 2)
        self.produce(acks=1)
        self.cluster.settle(0.1)
        self.assertEqual(self.replica(1).log.log_end_offset, 3)
        self.assertEqual(self.fetch(1, 2).error_code, 0)
        self.assertEqual(self.fetch(1, 3).error_code, ErrorCode.OFFSET_NOT_AVAILABLE)

    def test_high_watermark_of_a_new_leader(self) -> None:
        """A new leader does not report the end of the committed records until its followers have fetched."""
        self.create()
        self.produce()
        for other in (1, 2):
            self.cluster.cut(0, other)
            self.cluster.cut(other, 3 - other)
        partition = self.replica(1).partition
        self.replica(1).take_role(LeaderAndIsr(1, 7, (0, 1, 2), version=9), partition.replicas)
        self.replica(1).partition.high_watermark = 0
        for version, code in ((4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)):
            asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
            request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
            self.assertEqual(self.ask(1, request, version).topics[0].partitions[0].error_code, code)

    def test_deleted_records(self) -> None:
        """DeleteRecords is answered when the followers have deleted them, too."""
        self.create()
        for _ in range(3):
            self.produce()
        asked = DeleteRecordsPartition(partition_index=0, offset=2)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[asked])], timeout_ms=3000)
        (answer,) = self.ask(0, request, 2).topics[0].partitions
        self.assertEqual((answer.error_code, answer.low_watermark), (0, 2))
        self.assertEqual([self.replica(n).log.log_start_offset for n in range(3)], [2, 2, 2])
        self.cluster.cut(0, 1)
        asked.offset = 3
        (answer,) = self.ask(0, request, 2).topics[0].partitions
        self.assertEqual(answer.error_code, ErrorCode.REQUEST_TIMED_OUT)


class RackTests(LeaderCase):
    """KIP-392: consumers read near them."""

    config = {**LeaderCase.config, "replica.selector.class": "rack-aware"}

    def test_preferred_read_replica(self) -> None:
        """The leader sends a consumer to the in-sync follower in its rack, and serves others itself."""
        for broker_id in range(3):
            self.cluster.stop(broker_id)
        for broker_id in range(3):
            self.cluster.boot(broker_id, broker_rack=f"r{broker_id}")
        self.create()
        self.produce()
        self.cluster.settle(1)
        answer = self.fetch(0, 0, rack_id="r2")
        self.assertEqual((answer.preferred_read_replica, content(answer)), (2, b""))
        for rack in ("r0", "elsewhere", ""):
            answer = self.fetch(0, 0, rack_id=rack)
            self.assertEqual(answer.preferred_read_replica, -1)
            self.assertNotEqual(content(answer), b"")
        self.assertNotEqual(content(self.fetch(2, 0, rack_id="r2")), b"")
        self.assertEqual(self.fetch(0, 5, rack_id="r2").error_code, ErrorCode.OFFSET_OUT_OF_RANGE)

    def test_followers_hear_of_commits_at_once(self) -> None:
        """A consumer at a follower does not wait for the next record to see the last one."""
        self.create()
        self.produce()
        self.cluster.settle()
        self.assertEqual([self.replica(n).high_watermark for n in range(3)], [1, 1, 1])
