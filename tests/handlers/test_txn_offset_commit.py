"""TxnOffsetCommit, and the visibility of pending offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, succeed

from logbus.coordination.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from logbus.coordination.transactions.end_transaction_marker import EndTransactionMarker
from logbus.errors import ErrorCode
from logbus.handlers.txn_offset_commit import error_for_version
from logbus.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from logbus.records.batch import ControlType, Marker, iter_batches
from logbus.storage.log import Log
from logbus.testing.simulation.environment.memory_disk import no_space
from logbus.wire.messages.groups import DeleteGroupsRequest
from logbus.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
)
from logbus.wire.messages.partitions import TopicPartitionIndexes
from tests.handlers.group_kit import GroupCase, commit, fetch_committed
from tests.handlers.test_consumer_groups import ConsumerGroupCase
from tests.handlers.transaction_kit import UNSTABLE, OffsetProducer, stable

T0, T1 = ("t", 0), ("t", 1)
DAY_S = 24 * 3600


class TransactionCase(GroupCase):
    """A broker with few partitions for transactions, too, and a producer."""

    config = {**GroupCase.config, "transaction.state.log.num.partitions": "2"}

    def setUp(self) -> None:
        super().setUp()
        self.producer = self.a_producer()

    def a_producer(self, name: str = "x", *, by_v2: bool = True) -> OffsetProducer:
        return OffsetProducer(self.server.connect(), name, by_v2).find()

    def restart(self) -> None:
        super().restart()
        for _ in range(5):
            self.client.turn()
        self.producer.client = self.server.connect()

    def delete(self, *partitions: tuple[str, int]) -> list[int]:
        asked = OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number)])
                for name, number in partitions
            ],
        )
        response = self.client.ask(asked, 0)
        return [response.error_code, *(one.error_code for topic in response.topics for one in topic.partitions)]


class VisibilityTests(TransactionCase):
    """Visibility of pending and committed offsets."""

    def test_commit(self) -> None:
        """Pending offsets are not visible; requests for stable offsets must be retried."""
        for by_v2 in (True, False):
            with self.subTest(by_v2=by_v2):
                producer = self.a_producer(f"v{by_v2}", by_v2=by_v2)
                before = 5 + by_v2
                commit(self.client, {T0: before})
                if not by_v2:
                    self.assertEqual(producer.add_group(), 0)
                self.assertEqual(producer.commit({T0: 10 + before, T1: 10}), {T0: 0, T1: 0})
                self.assertEqual(fetch_committed(self.client, topics={"t": [0]}), {T0: before})
                self.assertEqual(stable(self.client, T0, T1), {T0: UNSTABLE, T1: UNSTABLE})
                self.assertEqual(stable(self.client)[T0], UNSTABLE)
                self.assertEqual(producer.end(), 0)
                self.assertEqual(stable(self.client, T0, T1), {T0: 10 + before, T1: 10})
                self.assertEqual(fetch_committed(self.client), {T0: 10 + before, T1: 10})

    def test_abort(self) -> None:
        """An aborted transaction leaves no offsets, and no group without others."""
        commit(self.client, {T0: 5})
        self.producer.commit({T0: 10})
        self.producer.commit({T0: 10}, "other")
        self.assertEqual(sorted(group.group_id for group in self.listed()), ["g", "other"])
        self.producer.end(committed=False)
        self.assertEqual(stable(self.client, T0), {T0: 5})
        self.assertEqual([group.group_id for group in self.listed()], ["g"])

    def test_only_pending_offsets_are_unstable(self) -> None:
        """Other partitions, and other groups, are as they were."""
        commit(self.client, {T0: 5, T1: 6})
        commit(self.client, {T0: 7}, "other")
        self.producer.commit({T0: 10})
        self.assertEqual(stable(self.client, T0, T1), {T0: UNSTABLE, T1: 6})
        self.assertEqual(stable(self.client, group="other"), {T0: 7})

    def test_versions_of_fetch(self) -> None:
        """One that names one group says it, too; those before 7 cannot ask for it."""
        self.producer.commit({T0: 10})
        asked: dict[str, Any] = {
            "group_id": "g",
            "topics": [TopicPartitionIndexes(name="t", partition_indexes=[0])],
        }
        answer = self.client.ask(OffsetFetchRequest(**asked, require_stable=True), 7).topics[0].partitions[0]
        self.assertEqual((answer.error_code, answer.committed_offset), (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1))
        answer = self.client.ask(OffsetFetchRequest(**asked), 6).topics[0].partitions[0]
        self.assertEqual((answer.error_code, answer.committed_offset), (0, -1))

    def test_plain_commit_during_a_transaction(self) -> None:
        """The later commit in the log wins, in a transaction or not."""
        self.producer.commit({T0: 10, T1: 10})
        commit(self.client, {T0: 99})
        self.assertEqual(fetch_committed(self.client), {T0: 99})
        self.assertEqual(stable(self.client, T0), {T0: UNSTABLE})
        self.producer.end()
        self.assertEqual(stable(self.client), {T0: 99, T1: 10})

    def test_format_of_the_log(self) -> None:
        """One batch of the producer's, transactional and without a sequence; then the marker."""
        self.producer.commit({T0: 10, T1: 10})
        epoch = self.producer.epoch
        self.producer.end()
        coordinator = self.server.broker.coordinators.groups
        log = coordinator.shard_of("g").log.replica.log
        data = log.read(0, 1 << 20).data
        assert data is not None
        batches = [
            (one.producer_id, one.producer_epoch, one.base_sequence, one.transactional, one.control, one.record_count)
            for _, one in iter_batches(data.read())
        ]
        producer_id = self.producer.producer_id
        self.assertEqual(
            batches,
            [(producer_id, epoch, -1, True, False, 2), (producer_id, epoch + 1, -1, True, True, 1)],
        )

    def test_response_after_the_write(self) -> None:
        """A commit is answered once it is on the disk, as any other."""
        shard = self.server.broker.coordinators.groups.shard_of("g")
        log = shard.log.replica.log
        log.configure(evolve(log.config, flush_before_ack=True))
        flushes: list[Deferred[None]] = []

        def flush(log: Log) -> Deferred[None]:
            if log is not shard.log.replica.log:
                return succeed(None)
            flushes.append(Deferred())
            return flushes[-1]

        self.patch(Log, "flush", flush)
        self.client.send(self.producer.request({T0: 10}), 5)
        for _ in range(5):
            self.client.turn()
        self.assertEqual(self.client.answers(), [])
        self.assertEqual(stable(self.server.connect(), T0), {T0: UNSTABLE})
        for one in flushes:
            one.callback(None)
        (answer,) = self.client.answers()
        self.assertEqual(answer.topics[0].partitions[0].error_code, 0)

    def test_after_a_restart(self) -> None:
        """After a restart offsets are pending again, and the transaction can be ended."""
        commit(self.client, {T0: 5})
        for committed, expected in ((True, 10), (False, 10)):
            self.producer.commit({T0: 10 if committed else 20, T1: 7})
            self.producer.commit({T0: 1}, "new")
            self.restart()
            self.assertEqual(stable(self.client, T0, T1), {T0: UNSTABLE, T1: UNSTABLE})
            self.assertIn("new", [group.group_id for group in self.listed()])
            self.assertEqual(self.producer.end(committed), 0)
            self.assertEqual(stable(self.client), {T0: expected, T1: 7})
            self.restart()
            self.assertEqual(stable(self.client), {T0: expected, T1: 7})

    def spoil_markers(self) -> None:
        """Damage all markers in the partition of the group, behind the log's back."""
        coordinator = self.server.broker.coordinators.groups
        for segment in coordinator.shards[coordinator.partition_of("g")].log.replica.log.segments:
            file = segment.log.get()
            data = file.pread(file.size(), 0)
            for position, header in iter_batches(data):
                if header.control:
                    file.write(position + header.size - 1, [bytes([data[position + header.size - 1] ^ 1])])

    def test_a_damaged_end(self) -> None:
        """Nobody waits for good for an end that cannot be read; what is open still, or committed plainly, stays."""
        commit(self.client, {T0: 5})
        other = self.a_producer("other")
        other.commit({T1: 3})
        self.producer.commit({T0: 10})
        self.assertEqual(self.producer.end(True), 0)
        self.assertEqual(stable(self.client, T0, T1), {T0: 10, T1: UNSTABLE})
        self.spoil_markers()
        self.restart()
        self.assertEqual(stable(self.client, T0, T1), {T0: 5, T1: UNSTABLE})
        other.client = self.server.connect()
        self.assertEqual(other.end(True), 0)
        self.assertEqual(stable(self.client, T0, T1), {T0: 5, T1: 3})

    def test_damaged_log_end_with_an_open_transaction(self) -> None:
        """Offsets of an earlier transaction do not become part of the producer's open one."""
        self.producer.commit({T0: 10})
        self.assertEqual(self.producer.end(False), 0)
        self.producer.commit({T1: 7})
        self.spoil_markers()
        self.restart()
        self.assertEqual(self.producer.end(True), 0)
        self.assertEqual(stable(self.client), {T1: 7})

    def test_marker_during_a_load(self) -> None:
        """A marker that is written during a load counts after it."""
        self.producer.commit({T0: 10})
        coordinator = self.server.broker.coordinators.groups
        number = coordinator.partition_of("g")
        log = coordinator.shards[number].log
        for _ in range(600):
            log.append([(b"\0\x63filler", None)], ErrorCode.UNKNOWN_SERVER_ERROR)
        name = TopicPartition(OFFSETS_TOPIC, number)
        coordinator.leads_no_more(name)
        coordinator.leads(name, 8)
        self.assertTrue(coordinator.shards[number].loading)
        coordinator.transaction_completed(number, self.producer.producer_id, True, log.end_offset)
        self.assertTrue(coordinator.shards[number].loading)
        for _ in range(5):
            self.client.turn()
        self.assertEqual(stable(self.client), {T0: 10})
        coordinator.transaction_completed(99, self.producer.producer_id, True, 0)


class RefusalTests(TransactionCase):
    """Refused commits."""

    def test_a_fenced_producer(self) -> None:
        """A newer producer with the same id ends the transaction of the older, whose commits are refused then."""
        for by_v2 in (True, False):
            with self.subTest(by_v2=by_v2):
                old = self.a_producer(f"v{by_v2}", by_v2=by_v2)
                if not by_v2:
                    old.add_group()
                old.commit({T0: 10})
                self.a_producer(f"v{by_v2}", by_v2=by_v2)
                self.assertEqual(stable(self.client, T0), {T0: -1})
                self.assertEqual(old.commit({T0: 11}), {T0: ErrorCode.INVALID_PRODUCER_EPOCH})
                self.assertEqual(stable(self.client, T0), {T0: -1})

    def test_a_late_request(self) -> None:
        """A request with the epoch of an ended transaction is refused (KIP-890)."""
        late = self.producer.request({T0: 10})
        self.producer.commit({T1: 10})
        self.producer.end()
        self.producer.commit({T1: 11})
        answer = self.client.ask(late, 5)
        self.assertEqual(answer.topics[0].partitions[0].error_code, ErrorCode.INVALID_PRODUCER_EPOCH)
        self.producer.end()
        self.assertEqual(stable(self.client), {T1: 11})

    def test_not_added(self) -> None:
        """By V1 the group must be added first; the error is one that the version knows."""
        producer = self.a_producer("old", by_v2=False)
        for version, code in (
            (0, ErrorCode.INVALID_TXN_STATE),
            (3, ErrorCode.INVALID_TXN_STATE),
            (4, ErrorCode.TRANSACTION_ABORTABLE),
        ):
            self.assertEqual(producer.commit({T0: 10}, version=version), {T0: code})
        producer.add_group("another")
        self.assertEqual(producer.add_group(), 0)
        for version in range(5):
            self.assertEqual(producer.commit({T0: version}, version=version), {T0: 0})
        producer.end()
        self.assertEqual(stable(self.client), {T0: 4})

    def test_not_verified(self) -> None:
        """Nobody is asked where the broker is told not to; nothing is wrong with those that add the group."""
        self.config = {**self.config, "transaction.partition.verification.enable": "false"}
        self.restart()
        producer = self.a_producer("old", by_v2=False)
        self.assertEqual(producer.commit({T0: 10}), {T0: 0})
        self.assertEqual(stable(self.client, T0), {T0: UNSTABLE})
        self.assertEqual(self.producer.commit({T1: 10}), {T1: 0})
        self.producer.end()
        self.assertEqual(stable(self.client, T1), {T1: 10})

    def test_invalid_producers_and_groups(self) -> None:
        """Invalid ids, epochs and names are refused, as are unknown producers."""
        commits = self.producer.commit
        self.assertEqual(commits({T0: 1}, ""), {T0: ErrorCode.INVALID_GROUP_ID})
        self.assertEqual(commits({T0: 1}, producer_id=-1), {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING})
        self.assertEqual(commits({T0: 1}, producer_epoch=-1), {T0: ErrorCode.INVALID_PRODUCER_EPOCH})
        self.assertEqual(commits({T0: 1}, producer_id=12345), {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING})
        self.assertEqual(commits({T0: 1}, transactional_id="nobody"), {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING})
        self.assertEqual(self.listed(), [])

    def test_errors_per_partition(self) -> None:
        """Missing partitions and too long metadata are refused singly; the rest is committed."""
        self.assertEqual(
            self.producer.commit({T0: 1, ("t", 9): 1, ("nothing", 0): 1}),
            {
                T0: 0,
                ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            },
        )
        self.assertEqual(self.producer.commit({T1: 1}, metadata="x" * 4097), {T1: ErrorCode.OFFSET_METADATA_TOO_LARGE})
        unknown = {("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        self.assertEqual(self.producer.commit({("t", 9): 1}), unknown)
        self.assertEqual(
            self.producer.commit({("t", 9): 1, T0: 1}, generation_id=5, member_id="m"),
            {**unknown, T0: ErrorCode.UNKNOWN_MEMBER_ID},
        )
        self.producer.end()
        self.assertEqual(stable(self.client), {T0: 1})

    def test_a_full_disk(self) -> None:
        """Nothing has changed, and the client tries again."""
        self.producer.commit({T1: 1})
        self.disk.faults = lambda op, path: no_space() if op == "write" and OFFSETS_TOPIC in str(path) else None
        for group in ("g", "new"):
            self.assertEqual(self.producer.commit({T0: 1}, group), {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE})
        self.disk.faults = lambda op, path: None
        self.assertEqual(stable(self.client, T0, T1), {T0: -1, T1: UNSTABLE})
        self.assertEqual([group.group_id for group in self.listed()], ["g"])

    def test_another_coordinator(self) -> None:
        """Who does not lead the group's partition says so, and who still reads it, in words that are known."""
        shards = self.server.broker.coordinators.groups.shards
        shard = self.server.broker.coordinators.groups.shard_of("g")
        shard.loading = True
        for version, code in ((1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)):
            self.assertEqual(self.producer.commit({T0: 1}, version=version), {T0: code})
        shard.loading = False
        del shards[shard.number]
        self.assertEqual(self.producer.commit({T0: 1}), {T0: ErrorCode.NOT_COORDINATOR})
        shards[shard.number] = shard

    def test_errors_by_version(self) -> None:
        """Errors that a version does not have are replaced by others."""
        self.assertEqual(error_for_version(ErrorCode.PRODUCER_FENCED, 5), ErrorCode.INVALID_PRODUCER_EPOCH)
        self.assertEqual(error_for_version(ErrorCode.TRANSACTION_ABORTABLE, 4), ErrorCode.TRANSACTION_ABORTABLE)
        self.assertEqual(error_for_version(ErrorCode.CONCURRENT_TRANSACTIONS, 0), ErrorCode.CONCURRENT_TRANSACTIONS)


class AskingTests(TransactionCase):
    """Events during a request to the transaction's coordinator."""

    def asked(self, *answers: Mapping[TopicPartition, ErrorCode] | Deferred[Any]) -> list[tuple[Any, ...]]:
        """Answer in its place; what it was asked."""
        questions: list[tuple[Any, ...]] = []
        left = list(answers)

        def add_or_verify(self: Any, *question: Any) -> Any:
            questions.append(question)
            answer = left.pop(0)
            return answer if isinstance(answer, Deferred) else succeed(answer)

        self.patch(AddPartitionsToTxnManager, "add_or_verify", add_or_verify)
        return questions

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, self.server.broker.coordinators.groups.partition_of("g"))

    def test_verification_requests(self) -> None:
        """The coordinator is asked once per transaction to verify, or to add, the group's partition."""
        for version, add in ((5, True), (3, False)):
            producer = self.a_producer(f"v{version}", by_v2=add)
            questions = self.asked({self.place: ErrorCode.NONE})
            for offset in (1, 2):
                self.assertEqual(producer.commit({T0: offset}, version=version), {T0: 0})
            self.assertEqual(questions, [(f"v{version}", producer.producer_id, producer.epoch, [self.place], add)])

    def test_unreachable_coordinator(self) -> None:
        """The client has to retry."""
        for code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_COORDINATOR):
            self.asked({self.place: code})
            self.assertEqual(self.producer.commit({T0: 1}), {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE})

    def test_the_transaction_before_is_about_to_end(self) -> None:
        """A producer that goes on at once is let wait a little; then it is to ask again itself."""
        busy = {self.place: ErrorCode.CONCURRENT_TRANSACTIONS}
        questions = self.asked(busy, busy, {self.place: ErrorCode.NONE}, *[busy] * 110)
        self.client.send(self.producer.request({T0: 1}), 5)
        for _ in range(2):
            self.assertEqual(self.client.answers(), [])
            self.client.turn(0.02)
        (answer,) = self.client.answers()
        self.assertEqual((answer.topics[0].partitions[0].error_code, len(questions)), (0, 3))
        other = self.a_producer("y")
        self.client.send(other.request({T0: 1}), 5)
        for _ in range(99):
            self.client.turn(0.02)
        self.assertEqual(self.client.answers(), [])
        for _ in range(3):
            self.client.turn(0.02)
        (answer,) = self.client.answers()
        code = ErrorCode.CONCURRENT_TRANSACTIONS
        self.assertEqual(answer.topics[0].partitions[0].error_code, code)
        self.assertTrue(100 <= len(questions) - 3 <= 102, len(questions))
        self.assertEqual(other.commit({T0: 1}, version=4), {T0: code})

    def test_client_disconnects_during_verification(self) -> None:
        """A client that disconnects meanwhile causes no error."""
        place = TopicPartition(TRANSACTIONS_TOPIC, self.server.broker.coordinators.transactions.partition_of("x"))
        log = self.server.broker.replication.replicas.get(*place).log
        log.configure(evolve(log.config, flush_before_ack=True))
        self.patch(Log, "flush", lambda log: Deferred() if log.partition == place else succeed(None))
        client = self.server.connect()
        client.send(self.producer.request({T0: 1}), 5)
        client.turn()
        client.transport.loseConnection()
        client.turn()
        self.assertEqual((client.answers(), self.flushLoggedErrors()), ([], []))

    def ended_meanwhile(self, again: ErrorCode) -> tuple[int, int]:
        """The answer, and how the log grows, if a marker comes while the coordinator is asked: it is asked again."""
        answer: Deferred[Any] = Deferred()
        questions = self.asked(answer, {self.place: again})
        self.client.send(self.producer.request({T0: 1}), 5)
        self.client.turn()
        shard = self.server.broker.coordinators.groups.shard_of("g")
        ending = self.server.broker.coordinators.marker_writer
        ending.write(EndTransactionMarker(self.producer.producer_id, self.producer.epoch, False, 9, 0), [self.place])
        end = shard.log.end_offset
        answer.callback({self.place: ErrorCode.NONE})
        (told,) = self.client.answers()
        self.assertEqual(len(questions), 2)
        return told.topics[0].partitions[0].error_code, shard.log.end_offset - end

    def test_transaction_ends_during_verification(self) -> None:
        """The result is dropped: the offsets would belong to no transaction, and stay pending."""
        self.assertEqual(self.ended_meanwhile(ErrorCode.INVALID_TXN_STATE), (ErrorCode.INVALID_TXN_STATE, 0))

    def test_former_transaction_ends_during_verification(self) -> None:
        """The late marker does not concern this transaction."""
        self.assertEqual(self.ended_meanwhile(ErrorCode.NONE), (ErrorCode.NONE, 1))

    def test_partition_moves_during_verification(self) -> None:
        """The commit must go to the new leader."""
        coordinator = self.server.broker.coordinators.groups
        answer: Deferred[Any] = Deferred()
        self.asked(answer)
        self.client.send(self.producer.request({T0: 1}), 5)
        self.client.turn()
        coordinator.leads_no_more(self.place)
        coordinator.leads(self.place, 8)
        for _ in range(3):
            self.client.turn()
        answer.callback({self.place: ErrorCode.NONE})
        (told,) = self.client.answers()
        self.assertEqual(told.topics[0].partitions[0].error_code, ErrorCode.NOT_COORDINATOR)

    def test_the_end_is_not_durable_yet(self) -> None:
        """Until the last marker is durable commits of the next transaction are refused."""
        self.producer.commit({T0: 1})
        shard = self.server.broker.coordinators.groups.shard_of("g")
        marker = Marker(ControlType.COMMIT, 9)
        shard.log.replica.append_marker(self.producer.producer_id, self.producer.epoch + 1, marker, 0, 2)
        self.asked({self.place: ErrorCode.NONE})
        self.producer.epoch += 1
        self.assertEqual(self.producer.commit({T0: 2}, version=4), {T0: ErrorCode.CONCURRENT_TRANSACTIONS})


class MembershipTests(ConsumerGroupCase, TransactionCase):
    """Commits for a group with members."""

    def test_members(self) -> None:
        """They say who they are, and in which generation; others are refused, and the transaction goes on."""
        member = self.member(instance_id="one")
        self.group_of(member)
        told = {"generation_id": member.generation, "member_id": member.member_id}
        for given, code in (
            ({**told, "generation_id": member.generation + 1}, ErrorCode.ILLEGAL_GENERATION),
            ({**told, "member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({**told, "member_id": "stranger", "group_instance_id": "one"}, ErrorCode.FENCED_INSTANCE_ID),
            ({**told, "group_instance_id": "one"}, ErrorCode.NONE),
            (told, ErrorCode.NONE),
        ):
            self.assertEqual(self.producer.commit({T0: 10}, **given), {T0: code}, given)
        self.assertEqual(self.producer.commit({T0: 1}, "none", **told), {T0: ErrorCode.ILLEGAL_GENERATION})
        self.producer.end()
        self.assertEqual(stable(self.client), {T0: 10})

    def test_commits_without_a_member(self) -> None:
        """An old producer sends no member: it may commit for a group with members."""
        self.group_of(self.member())
        producer = self.a_producer("old", by_v2=False)
        producer.add_group()
        for version in (0, 2, 3):
            self.assertEqual(producer.commit({T0: 10 + version}, version=version), {T0: 0})
        self.assertEqual(commit(self.client, {T0: 99}), {T0: ErrorCode.UNKNOWN_MEMBER_ID})
        producer.end()
        self.assertEqual(stable(self.client), {T0: 13})

    def test_while_the_group_rebalances(self) -> None:
        """A member that has the new generation may commit before it knows what it is to read."""
        member = self.member()
        member.get_id()
        member.send_join()
        member.joined()
        self.assertEqual(self.describe().group_state, "CompletingRebalance")
        told = {"generation_id": member.generation, "member_id": member.member_id}
        self.assertEqual(member.commit(1), ErrorCode.REBALANCE_IN_PROGRESS)
        self.assertEqual(self.producer.commit({T0: 10}, **told), {T0: 0})

    def test_the_consumer_protocol(self) -> None:
        """A stale member epoch gets ILLEGAL_GENERATION, which producers know."""
        member = self.consumer()
        member.beat()
        told = {"generation_id": member.epoch, "member_id": "m1"}
        for version in (3, 5):
            self.producer.add_group()
            self.assertEqual(self.producer.commit({T0: version}, version=version, **told), {T0: 0})
        for given, code in (
            ({**told, "generation_id": member.epoch - 1}, ErrorCode.ILLEGAL_GENERATION),
            ({**told, "member_id": "m2"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            self.assertEqual(self.producer.commit({T0: 99}, **given), {T0: code}, given)
        # Producers need not send the member.
        for version in (2, 3, 5):
            self.assertEqual(self.producer.commit({T0: 10 + version}, version=version), {T0: 0})
        self.producer.end()
        self.assertEqual(stable(self.client), {T0: 15})

    def test_group_changes_its_protocol(self) -> None:
        """Pending offsets stay when a group changes its protocol."""
        self.producer.commit({T0: 10})
        member = self.consumer()
        member.beat()
        self.assertEqual(stable(self.client, T0), {T0: UNSTABLE})
        member.beat(member_epoch=-1)
        self.group_of(self.member())
        self.assertEqual(stable(self.client, T0), {T0: UNSTABLE})
        self.producer.end()
        self.assertEqual(stable(self.client), {T0: 10})


class EndTests(TransactionCase):
    """Removal of offsets and groups with pending offsets."""

    def listed_later(self, seconds: float) -> list[str]:
        for _ in range(int(seconds // 60) + 1):
            self.client.turn(60)
        self.client = self.server.connect()
        return [group.group_id for group in self.listed()]

    def test_deleting_offsets(self) -> None:
        """Deleting an offset drops the pending one, too."""
        commit(self.client, {T0: 5})
        self.producer.commit({T0: 10, T1: 10})
        self.assertEqual(self.delete(T0), [0, 0])
        self.assertEqual(stable(self.client, T0, T1), {T0: -1, T1: UNSTABLE})
        self.producer.end()
        for _ in range(2):
            self.assertEqual(stable(self.client), {T1: 10})
            self.restart()
        self.producer.commit({T0: 11})
        self.delete(T0, T1)
        self.producer.end()
        self.assertEqual(self.listed(), [])

    def test_deleting_the_group(self) -> None:
        """A deleted group does not reappear when a transaction ends."""
        self.producer.commit({T0: 10})
        (result,) = self.client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
        self.assertEqual(result.error_code, 0)
        self.producer.end()
        for _ in range(2):
            self.assertEqual(self.listed(), [])
            self.restart()

    def test_deleting_the_topic(self) -> None:
        """With a topic goes what is pending for it: another one of that name has nothing to do with it."""
        self.server.create("u")
        self.producer.commit({T0: 10, ("u", 0): 7})
        self.producer.commit({("u", 0): 7}, "only")
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["u"]))
        self.server.create("u")
        self.assertEqual([group.group_id for group in self.listed()], ["g"])
        self.producer.end()
        for _ in range(2):
            self.assertEqual(stable(self.client), {T0: 10})
            self.assertEqual(stable(self.client, group="only"), {})
            self.restart()

    def test_age(self) -> None:
        """Nothing goes of a partition of which something is pending, nor does the group."""
        week_ms = str(7 * DAY_S * 1000)
        self.config = {**self.config, "transaction.max.timeout.ms": week_ms, "offsets.retention.minutes": "1440"}
        self.restart()
        self.producer.timeout_ms = 3 * DAY_S * 1000
        self.producer.init()
        commit(self.client, {T0: 5, T1: 5})
        commit(self.client, {T0: 5}, "other")
        self.producer.commit({T0: 10})
        self.producer.commit({T0: 10}, "pending")
        self.assertEqual(sorted(self.listed_later(DAY_S + 601)), ["g", "pending"])
        self.assertEqual(fetch_committed(self.client), {T0: 5})
        self.producer.client = self.server.connect()
        self.producer.end(committed=False)
        self.assertEqual(self.listed_later(601), [])
        self.restart()
        self.assertEqual(self.listed(), [])
