"""ShareFetch and ShareAcknowledge: members of share groups by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred

from logbus.coordination.share_state.persister import SharePersister
from logbus.coordination.share_state.share_state import ShareState
from logbus.errors import ErrorCode
from logbus.handlers.share_fetches import ShareFetchHandlers
from logbus.records.batch import decode_batch, iter_batches
from logbus.share import share_fetches
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from logbus.wire.messages.groups import FindCoordinatorRequest
from logbus.wire.messages.share_fetches import (
    AcknowledgementBatch,
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
    ShareForgottenTopic,
)
from logbus.wire.messages.share_groups import ShareGroupHeartbeatRequest
from logbus.wire.messages.topics import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.handlers.kit import Client, HandlerCase, a_batch, content
from tests.handlers.test_read_committed import end, write

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
GROUP_CONFIG = 32
Said = Sequence[tuple[int, int, int]]
"""First and last offset, and the type."""


@define(eq=False)
class Member:
    """A member with a session."""

    client: Client
    name: str
    epoch: int = 0
    partitions: Sequence[int] = (0,)

    def join(self) -> None:
        response = self.client.ask(
            ShareGroupHeartbeatRequest(group_id="g", member_id=self.name, member_epoch=0, subscribed_topic_names=["t"]),
            1,
        )
        assert response.error_code == 0, response

    def request(self, *said: tuple[int, int, int], version: int = 2, **given: Any) -> ShareFetchRequest:
        terms: dict[str, Any] = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_records": 500,
            "batch_size": 500,
            "forgotten_topics_data": [],
        }
        epoch = given.pop("epoch", self.epoch)
        return ShareFetchRequest(
            group_id="g",
            member_id=self.name,
            share_session_epoch=epoch,
            topics=[
                ShareFetchTopic(
                    topic_id=self.client.server.topic_id(),
                    partitions=[
                        ShareFetchPartition(
                            partition_index=number, acknowledgement_batches=batches(said) if number == 0 else []
                        )
                        for number in self.partitions
                    ],
                )
            ],
            **(terms | given),
        )

    def ask(self, *said: tuple[int, int, int], version: int = 2, **given: Any) -> Any:
        response = self.client.ask(self.request(*said, **given), version)
        if not response.error_code:
            self.epoch += 1
        return response

    def fetch(self, *said: tuple[int, int, int], **given: Any) -> list[tuple[int, int, int]]:
        """What it acquires of partition 0."""
        response = self.ask(*said, **given)
        assert response.error_code == 0, response
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.partition_index == 0:
                    assert (partition.error_code, partition.acknowledge_error_code) == (0, 0), partition
                    return acquired(partition)
        return []

    def acknowledge(self, *said: tuple[int, int, int], **given: Any) -> Any:
        epoch = given.pop("epoch", self.epoch)
        response = self.client.ask(
            ShareAcknowledgeRequest(
                group_id="g",
                member_id=self.name,
                share_session_epoch=epoch,
                topics=[
                    ShareAcknowledgeTopic(
                        topic_id=self.client.server.topic_id(),
                        partitions=[
                            ShareAcknowledgePartition(partition_index=0, acknowledgement_batches=batches(said))
                        ],
                    )
                ],
                **given,
            ),
            2,
        )
        if not response.error_code:
            self.epoch += 1
        return response


def batches(said: Said) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        for first, last, kind in said
    ]


def acquired(partition: Any) -> list[tuple[int, int, int]]:
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in partition.acquired_records]


def offsets(partition: Any) -> list[int]:
    """The offsets of the records that were sent."""
    data = content(partition)
    return [
        record.offset
        for position, header in iter_batches(data)
        for record in decode_batch(data, position, header=header)
    ]


class ShareFetchCase(HandlerCase):
    """A topic of two partitions, which members read from the beginning."""

    config = {
        "group.share.partition.max.record.locks": "100",
        # Who joins is answered at once.
        "group.share.assignment.interval.ms": "0",
        "max.incremental.fetch.session.cache.partitions": "200",
    }

    def setUp(self) -> None:
        super().setUp()
        self.set(**{"share.auto.offset.reset": "earliest"})
        self.client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        for _ in range(5):
            self.client.turn(0.1)
        self.member, self.other = Member(self.client, "a"), Member(self.server.connect(), "b")
        for member in (self.member, self.other):
            member.join()
        for _ in range(20):
            self.client.turn()

    def set(self, **values: str) -> None:
        """Settings of the group."""
        configs = [
            IncrementalAlterableConfig(name=name, config_operation=0, value=value) for name, value in values.items()
        ]
        resource = IncrementalAlterConfigsResource(resource_type=GROUP_CONFIG, resource_name="g", configs=configs)
        response = self.client.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        self.assertEqual([one.error_code for one in response.responses], [0])


class ShareFetchTests(ShareFetchCase):
    """The members by turns."""

    def test_two_members(self) -> None:
        """Each gets what the other has not; what both have accepted nobody gets again."""
        self.client.produce(a_batch(b"0", b"1", b"2"))
        self.client.produce(a_batch(b"3", b"4"))
        self.assertEqual(self.member.fetch(max_records=3), [(0, 2, 1)])
        response = self.other.ask()
        (partition,) = response.responses[0].partitions
        self.assertEqual((acquired(partition), offsets(partition)), ([(3, 4, 1)], [3, 4]))
        self.assertEqual(response.acquisition_lock_timeout_ms, 30_000)
        self.assertEqual(self.other.fetch((3, 4, ACCEPT)), [])
        self.assertEqual(self.member.fetch((0, 2, ACCEPT)), [])
        self.client.produce(a_batch(b"5"))
        self.assertEqual(self.other.fetch(), [(5, 5, 1)])

    def test_what_it_is_sent(self) -> None:
        """Only the batches with what it has acquired; of one that comes again, too."""
        for _ in range(3):
            self.client.produce(a_batch(b"x", b"y"))
        self.assertEqual(self.member.fetch(max_records=2), [(0, 1, 1)])
        self.assertEqual(self.member.fetch((1, 1, RELEASE), max_records=1, share_acquire_mode=1), [(1, 1, 2)])
        (partition,) = self.member.ask(max_records=1, share_acquire_mode=1).responses[0].partitions
        self.assertEqual((acquired(partition), offsets(partition)), ([(2, 2, 1)], [2, 3]))

    def test_no_bytes(self) -> None:
        """A member that wants no bytes gets no records, not even a first batch."""
        self.client.produce(a_batch(b"x"))
        self.assertEqual(self.member.fetch(max_bytes=0), [])
        self.assertEqual(self.member.fetch(max_bytes=1), [(0, 0, 1)])

    def test_waiting(self) -> None:
        """A fetch waits for records, for what others release, and for what they let go of."""
        self.member.fetch()
        self.client.send(self.member.request(max_wait_ms=500), 2)
        self.client.turn(0.1)
        self.assertEqual(self.client.answers(), [])
        self.server.connect().produce(a_batch(b"0"))
        self.client.turn()
        (response,) = self.client.answers()
        self.assertEqual(acquired(response.responses[0].partitions[0]), [(0, 0, 1)])
        self.member.epoch += 1
        self.other.fetch()
        self.other.client.send(self.other.request(max_wait_ms=60_000), 2)
        self.assertEqual(self.member.acknowledge((0, 0, RELEASE)).responses[0].partitions[0].error_code, 0)
        self.client.turn()
        (response,) = self.other.client.answers()
        self.assertEqual(acquired(response.responses[0].partitions[0]), [(0, 0, 2)])
        self.client.send(self.member.request(max_wait_ms=60_000), 2)
        self.client.turn(29)
        self.assertEqual(self.client.answers(), [])
        self.client.turn(1.01)
        self.client.turn()
        (response,) = self.client.answers()
        self.assertEqual(acquired(response.responses[0].partitions[0]), [(0, 0, 3)])

    def test_nothing_comes(self) -> None:
        """A fetch that finds nothing ends in time, and nobody watches for it any more."""
        self.member.fetch()
        self.client.send(self.member.request(max_wait_ms=500), 2)
        self.client.turn(0.6)
        (response,) = self.client.answers()
        self.assertEqual((response.error_code, response.responses), (0, []))
        self.assertEqual(self.server.watchers, 0)

    def test_a_connection_is_lost(self) -> None:
        """What its member had others get at once; and what it waited for is given up."""
        self.client.produce(a_batch(b"0"))
        self.assertEqual(self.other.fetch(), [(0, 0, 1)])
        self.other.client.send(self.other.request(max_wait_ms=60_000), 2)
        self.client.turn()
        self.other.client.transport.loseConnection()
        self.client.turn()
        self.assertEqual(self.member.fetch(), [(0, 0, 2)])
        handlers = self.server.broker.kafka_server.router.find(ShareFetchHandlers)
        self.assertEqual(len(handlers.sessions), 1)
        self.assertEqual(self.server.watchers, 0)

    def test_a_connection_is_lost_while_a_partition_is_opened(self) -> None:
        """Others that wait for it get it; and when nobody is left, it is forgotten."""
        handlers = self.server.broker.kafka_server.router.find(ShareFetchHandlers)
        reads: list[Deferred[ShareState]] = []

        def read(persister: object, key: object, *given: int) -> Deferred[ShareState]:
            reads.append(Deferred())
            return reads[-1]

        for others in (True, False):
            with self.subTest(others=others):
                self.patch(SharePersister, "read", read)
                gone = Member(self.server.connect(), "c")
                gone.client.send(gone.request(), 2)
                if others:
                    self.client.send(self.member.request(), 2)
                self.client.turn()
                gone.client.transport.loseConnection()
                self.client.turn()
                reads[-1].callback(ShareState(0, 0, 0, (), 0))
                self.client.turn()
                if others:
                    self.assertEqual([answer.error_code for answer in self.client.answers()], [0])
                    self.assertEqual(len(handlers.partitions), 1)
                    self.member.ask(epoch=-1)
                    self.member.epoch = 0
                self.client.turn()
                self.assertEqual((len(handlers.sessions), len(handlers.partitions)), (0, 0))

    def test_a_session_moves_to_another_connection(self) -> None:
        """It ends with that one."""
        self.member.fetch()
        client = self.member.client = self.server.connect()
        self.member.fetch()
        client.transport.loseConnection()
        self.client.turn()
        handlers = self.server.broker.kafka_server.router.find(ShareFetchHandlers)
        self.assertEqual(len(handlers.sessions), 0)

    def test_the_next_session_begins_before_the_last_one_has_ended(self) -> None:
        """It stays."""
        self.client.produce(a_batch(b"0"))
        self.member.fetch()
        written: Deferred[None] = Deferred()
        self.patch(SharePersister, "write", lambda *given: written)
        self.client.send(self.member.request((0, 0, ACCEPT), epoch=-1), 2)
        client = self.member.client = self.server.connect()
        client.send(self.member.request(epoch=0), 2)
        self.client.turn()
        written.callback(None)
        self.client.turn()
        self.assertEqual([answer.error_code for each in (self.client, client) for answer in each.answers()], [0, 0])
        self.member.epoch = 1
        self.assertEqual(self.member.ask().error_code, 0)

    def test_the_session_ends(self) -> None:
        """With its last request a member says what became of records; it has the others no more."""
        self.client.produce(a_batch(b"0", b"1"))
        self.member.fetch()
        response = self.member.ask((0, 0, ACCEPT), epoch=-1)
        self.assertEqual(response.responses[0].partitions[0].acknowledge_error_code, 0)
        self.assertEqual(self.other.fetch(), [(1, 1, 2)])
        self.assertEqual(self.member.ask(epoch=self.member.epoch).error_code, ErrorCode.SHARE_SESSION_NOT_FOUND)
        response = self.other.acknowledge((1, 1, ACCEPT), epoch=-1)
        self.assertEqual((response.error_code, response.responses[0].partitions[0].error_code), (0, 0))
        for _ in range(5):
            self.client.turn()
        handlers = self.server.broker.kafka_server.router.find(ShareFetchHandlers)
        self.assertEqual((len(handlers.sessions), len(handlers.partitions)), (0, 0))

    def test_too_many_partitions(self) -> None:
        """The session ends, and others get what its member had; it begins another one."""
        self.client.produce(a_batch(b"0"))
        self.member.fetch()
        handlers = self.server.broker.kafka_server.router.find(ShareFetchHandlers)
        self.member.partitions = range(30)
        self.assertEqual(self.member.ask().error_code, ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self.assertEqual((len(handlers.sessions), handlers.sessions.partitions), (0, 0))
        self.assertEqual(self.other.fetch(), [(0, 0, 2)])
        self.member.partitions, self.member.epoch = (0, 1), 0
        self.assertEqual(self.member.ask().error_code, 0)
        self.assertEqual(handlers.sessions.partitions, 3)

    def test_sessions_that_are_wrong(self) -> None:
        self.assertEqual(self.member.ask(epoch=1).error_code, ErrorCode.SHARE_SESSION_NOT_FOUND)
        self.assertEqual(self.member.ask((0, 0, ACCEPT)).error_code, ErrorCode.INVALID_REQUEST)
        self.assertEqual(self.member.acknowledge(epoch=0).error_code, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        self.member.fetch()
        self.assertEqual(self.member.ask(epoch=5).error_code, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        self.assertEqual(self.member.ask((0, 0, RENEW)).error_code, ErrorCode.INVALID_REQUEST)
        self.assertEqual(self.member.ask((0, 0, RENEW), is_renew_ack=True).error_code, ErrorCode.INVALID_REQUEST)
        for nobody in Member(self.client, ""), Member(self.client, "m" * 37):
            self.assertEqual(nobody.ask().error_code, ErrorCode.INVALID_REQUEST)
            self.assertEqual(nobody.acknowledge(epoch=-1).error_code, ErrorCode.INVALID_REQUEST)
        # The session goes on.
        self.member.fetch()

    def test_acknowledgements_that_are_wrong(self) -> None:
        """They are refused for their partition; a member cannot speak for another one."""
        self.client.produce(a_batch(b"0"))
        self.member.fetch()
        self.other.fetch()
        (partition,) = self.other.ask((0, 0, ACCEPT)).responses[0].partitions
        self.assertEqual((partition.error_code, partition.acknowledge_error_code), (0, ErrorCode.INVALID_RECORD_STATE))
        (partition,) = self.member.acknowledge((0, 1, ACCEPT)).responses[0].partitions
        self.assertEqual(partition.error_code, ErrorCode.INVALID_REQUEST)
        (partition,) = self.member.acknowledge((0, 0, ACCEPT)).responses[0].partitions
        self.assertEqual(partition.error_code, 0)

    def test_more_time(self) -> None:
        """A member asks for more time, without fetching."""
        self.client.produce(a_batch(b"0"))
        self.member.fetch()
        self.client.turn(20)
        nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0}
        self.assertEqual(self.member.fetch((0, 0, RENEW), is_renew_ack=True, **nothing), [])
        self.client.turn(20)
        self.assertEqual(self.other.fetch(), [])
        self.assertEqual(self.member.fetch((0, 0, ACCEPT)), [])

    def test_partitions_that_are_not_there(self) -> None:
        """A topic that is unknown and a partition that has no leader here are errors of their own."""
        self.client.produce(a_batch(b"0"))
        self.member.partitions = 0, 7
        answers = {one.partition_index: one for one in self.member.ask(max_wait_ms=1000).responses[0].partitions}
        self.assertEqual(acquired(answers[0]), [(0, 0, 1)])
        self.assertEqual(answers[7].error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        forgotten = [ShareForgottenTopic(topic_id=self.server.topic_id(), partitions=[0, 7])]
        self.member.partitions = ()
        self.assertEqual(self.member.ask(forgotten_topics_data=forgotten).responses, [])
        self.assertEqual(self.other.fetch(), [(0, 0, 2)])

    def test_transactions(self) -> None:
        """Markers nobody gets; with read_committed records of aborted transactions, and of open ones, neither."""
        write(self.server, b"0", b"1")
        self.assertEqual(self.member.fetch(), [(0, 1, 1)])
        self.set(**{"share.isolation.level": "read_committed"})
        end(self.server, True)
        write(self.server, b"3", sequence=2)
        self.assertEqual(self.member.fetch((0, 1, ACCEPT)), [])
        end(self.server, False)
        # All that there is by now, nobody is to get.
        self.assertEqual(self.member.fetch(), [])
        self.client.produce(a_batch(b"5"))
        self.assertEqual(self.member.fetch(), [(5, 5, 1)])

    def test_records_that_are_deleted(self) -> None:
        """Where the log begins later by now, the group goes on there."""
        for _ in range(3):
            self.client.produce(a_batch(b"0", b"1"))
        self.assertEqual(self.member.fetch(max_records=2), [(0, 1, 1)])
        deleted = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=4)])
        self.client.ask(DeleteRecordsRequest(topics=[deleted], timeout_ms=1000), 2)
        self.assertEqual(self.other.fetch(), [(4, 5, 1)])
        self.assertEqual(self.member.fetch((0, 1, ACCEPT)), [])

    def test_no_more_is_read_than_wanted(self) -> None:
        """Neither of the first partition nor of the others; each has its turn."""
        for partition in (0, 1):
            for _ in range(30):
                self.client.produce(a_batch(b"x"), partition=partition)
        looked_at: list[int] = []

        def counted(content: Any, pos: int = 0) -> Iterator[Any]:
            for each in iter_batches(content, pos):
                looked_at.append(each[1].base_offset)
                yield each

        self.patch(share_fetches, "iter_batches", counted)
        self.member.partitions = 0, 1
        self.assertEqual(self.member.fetch(max_records=3, min_bytes=10_000), [(0, 2, 1)])
        self.assertEqual(looked_at, [0, 1, 2])
        self.assertEqual(self.member.fetch(max_records=2), [])
        self.assertEqual(self.member.fetch((0, 0, RELEASE), max_records=2), [(0, 0, 2), (3, 3, 1)])
        self.assertEqual(looked_at[3:], [0, 1, 0, 1, 2, 3])

    def test_as_many_as_may_be(self) -> None:
        """No more records are under way than the group may have of a partition."""
        for _ in range(30):
            self.client.produce(a_batch(*[b"x"] * 10))
        self.assertEqual(self.member.fetch(), [(0, 99, 1)])
        self.assertEqual(self.other.fetch(), [])
        self.assertEqual(self.member.fetch((0, 9, ACCEPT)), [(100, 109, 1)])
