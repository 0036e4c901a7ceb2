"""Members of a share group that wait: for data that are loaded, for partitions that are opened, and with others."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logbus.cluster.replication.replica_reader import ReplicaReader
from logbus.coordination.share_state.persister import SharePersister
from logbus.coordination.share_state.share_state import ShareState
from logbus.errors import ApiError, ErrorCode
from logbus.storage.istorage import IOPool
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from logbus.wire.messages.groups import FindCoordinatorRequest
from tests.handlers.kit import HandlerCase, a_batch
from tests.handlers.test_share_fetches import ACCEPT, GROUP_CONFIG, RELEASE, Member, acquired

OLD = "t-0/00000000000000000000.log"


class ShareFetchWaitTests(HandlerCase):
    """A topic of two partitions, which members read from the beginning; who joins is answered at once."""

    config = {"group.share.assignment.interval.ms": "0"}

    def setUp(self) -> None:
        super().setUp()
        resource = IncrementalAlterConfigsResource(
            resource_type=GROUP_CONFIG,
            resource_name="g",
            configs=[IncrementalAlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")],
        )
        self.client.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        self.client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        self.client.turn(0.1)
        self.member = self.join("a", 0, 1)

    def join(self, name: str, *partitions: int) -> Member:
        member = Member(self.server.connect(), name, partitions=partitions)
        member.join()
        for _ in range(20):
            self.client.turn()
        return member

    def send(self, member: Member, **given: Any) -> None:
        member.client.send(member.request(**given), 2)
        member.epoch += 1
        for _ in range(5):
            self.client.turn()

    def answer(self, member: Member) -> dict[int, list[tuple[int, int, int]]] | None:
        """What it has acquired of each partition; None: it waits."""
        for _ in range(5):
            self.client.turn()
        answers = member.client.answers()
        if not answers:
            return None
        (response,) = answers
        self.assertEqual(response.error_code, 0)
        return {one.partition_index: acquired(one) for topic in response.responses for one in topic.partitions}

    def cool(self) -> None:
        """Partition 0 has a record that is not in memory; the disk reads when it is told to."""
        self.client.produce(a_batch(b"x" * 20_000))
        self.disk.evict(OLD)
        self.disk.held.add(IOPool.READ)

    def test_cold_data(self) -> None:
        """While they are loaded the member gets the records of other partitions, and then them."""
        self.cool()
        self.client.produce(a_batch(b"0"), partition=1)
        self.send(self.member, max_wait_ms=500)
        self.assertEqual(self.answer(self.member), {1: [(0, 0, 1)]})
        self.send(self.member, max_wait_ms=500)
        self.assertIsNone(self.answer(self.member))
        while self.disk.release(IOPool.READ):
            self.client.turn()
        self.assertEqual(self.answer(self.member), {0: [(0, 0, 1)]})

    def test_records_come_while_others_are_loaded(self) -> None:
        """The member gets them at once."""
        self.cool()
        self.send(self.member, max_wait_ms=60_000)
        self.assertIsNone(self.answer(self.member))
        self.client.produce(a_batch(b"0"), partition=1)
        self.assertEqual(self.answer(self.member), {1: [(0, 0, 1)]})

    def test_cold_data_without_waiting(self) -> None:
        """A member that does not wait for records waits for them to be loaded, but not forever."""
        self.cool()
        self.send(self.member)
        self.assertIsNone(self.answer(self.member))
        self.client.turn(1.01)
        self.assertEqual(self.answer(self.member), {})
        self.send(self.member)
        while self.disk.release(IOPool.READ):
            self.client.turn()
        self.assertEqual(self.answer(self.member), {0: [(0, 0, 1)]})

    def test_a_partition_that_is_opened(self) -> None:
        """A coordinator that is slow to say where a group is in one partition does not hold up the others."""
        states: list[Deferred[ShareState]] = []
        original = SharePersister.read

        def read(persister: SharePersister, key: Any, *given: int) -> Deferred[ShareState]:
            if key.partition == 1:
                return original(persister, key, *given)
            states.append(Deferred())
            return states[-1]

        self.patch(SharePersister, "read", read)
        for partition in (0, 1):
            self.client.produce(a_batch(b"0"), partition=partition)
        self.send(self.member, max_wait_ms=500)
        self.assertEqual(self.answer(self.member), {1: [(0, 0, 1)]})
        self.send(self.member, max_wait_ms=500)
        self.client.turn(1.01)
        self.assertEqual(self.answer(self.member), {})
        self.send(self.member, max_wait_ms=500)
        states[0].callback(ShareState(0, 0, 0, (), 0))
        self.assertEqual(self.answer(self.member), {0: [(0, 0, 1)]})
        self.assertEqual(len(states), 1)

    def test_a_partition_that_cannot_be_opened(self) -> None:
        """The member is told so, beside the records of another one."""
        reading: Deferred[ShareState] = Deferred()
        original = SharePersister.read
        self.patch(
            SharePersister, "read", lambda self, key, *given: reading if key.partition else original(self, key, *given)
        )
        self.send(self.member, max_wait_ms=60_000)
        self.assertIsNone(self.answer(self.member))
        reading.errback(ApiError(ErrorCode.NOT_COORDINATOR))
        self.client.turn()
        (response,) = self.member.client.answers()
        (partition,) = response.responses[0].partitions
        self.assertEqual((partition.partition_index, partition.error_code), (1, ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def test_one_record_for_many(self) -> None:
        """One of them looks for it; when it is released, or more come, so does another one."""
        members = [self.join(name, 0) for name in "bcde"]
        for member in members:
            self.send(member, max_wait_ms=60_000)
        reads: list[int] = []
        original = ReplicaReader.read

        def read(reader: ReplicaReader, *given: Any) -> Any:
            reads.append(1)
            return original(reader, *given)

        self.patch(ReplicaReader, "read", read)
        self.client.produce(a_batch(b"0"))
        self.assertEqual([self.answer(member) for member in members], [{0: [(0, 0, 1)]}, None, None, None])
        self.assertEqual(len(reads), 1)
        members[0].acknowledge((0, 0, RELEASE))
        self.assertEqual([self.answer(member) for member in members[1:]], [{0: [(0, 0, 2)]}, None, None])
        self.assertEqual(len(reads), 2)
        for value in (b"1", b"2"):
            self.client.produce(a_batch(value))
        self.assertEqual([self.answer(member) for member in members[2:]], [{0: [(1, 2, 1)]}, None])

    def test_records_for_several(self) -> None:
        """What one does not want the next one gets, without another event; also if the first one is gone by then."""
        members = [self.join(name, 0) for name in "bcd"]
        for member in members:
            self.send(member, max_wait_ms=60_000, max_records=1, share_acquire_mode=1)
        self.client.produce(a_batch(b"0", b"1"))
        members[0].client.transport.loseConnection()
        self.assertEqual([self.answer(member) for member in members[1:]], [{0: [(0, 0, 1)]}, {0: [(1, 1, 1)]}])
        self.assertEqual(self.server.watchers, 0)

    def test_who_wants_more_bytes(self) -> None:
        """Records that are too few for one member go to the next one; nobody goes round in circles."""
        members = [self.join(name, 0) for name in "bcd"]
        for member, least in zip(members, (10_000, 20_000, 1), strict=True):
            self.send(member, max_wait_ms=500, min_bytes=least)
        self.client.produce(a_batch(b"0"))
        self.assertEqual([self.answer(member) for member in members], [None, None, {0: [(0, 0, 1)]}])
        members[2].acknowledge((0, 0, RELEASE))
        self.client.turn(0.6)
        self.assertEqual([self.answer(member) for member in members[:2]], [{0: [(0, 0, 2)]}, {}])

    def test_full(self) -> None:
        """Members that wait for room get records as soon as there is some."""
        member, other = self.join("b", 0), self.join("c", 0)
        for _ in range(201):
            self.client.produce(a_batch(*[b"x"] * 10))
        self.assertEqual(member.fetch(max_records=5000), [(0, 1999, 1)])
        self.send(other, max_wait_ms=60_000)
        self.client.produce(a_batch(b"x"))
        self.assertIsNone(self.answer(other))
        member.acknowledge((0, 0, ACCEPT))
        self.assertEqual(self.answer(other), {0: [(2000, 2000, 1)]})

    def test_a_session_that_has_ended(self) -> None:
        """A fetch that waits in it is answered at once, and gets nothing: nobody would acknowledge it."""
        member, other = self.join("b", 0), self.join("c", 0)
        for epoch in (-1, 0):
            self.send(member, max_wait_ms=60_000)
            self.assertIsNone(self.answer(member))
            elsewhere = Member(self.server.connect(), "b", epoch)
            self.assertEqual(elsewhere.fetch(), [])
            self.assertEqual(self.answer(member), {})
            self.client.produce(a_batch(b"0"))
            self.assertEqual([each[2] for each in other.fetch()], [1])
            elsewhere.client.transport.loseConnection()
            member.epoch = 0
