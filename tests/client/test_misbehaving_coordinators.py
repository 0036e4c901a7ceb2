"""
Group members at coordinators whose responses are late, truncated, out of order, wrong, or missing: no record is
skipped, processed records are committed, and members recover once responses are correct again.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import globalLogBeginner
from twisted.python.failure import Failure

from logbus.client import AdminClient, Cluster, CommittedOffset, Consumer
from logbus.client.membership import CommitFailed, MembershipFailed
from logbus.errors import ErrorCode, LogbusError
from logbus.model import TopicPartition
from logbus.net.channel import Channel
from tests.client.membership_kit import MembershipCase
from tests.client.misbehaving_brokers import MISBEHAVIORS, Misbehavior
from tests.client.misbehaving_network import Change, MisbehavingNetwork
from tests.cluster.memory_cluster import host_of
from tests.handlers.kit import a_batch

OFFSET_COMMIT, OFFSET_FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC, CONSUMER_HEARTBEAT = 8, 9, 10, 11, 12, 13, 14, 68
GROUP = frozenset({OFFSET_COMMIT, OFFSET_FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC, CONSUMER_HEARTBEAT})
NEVER_HEARD_OF = 7777
PASSING = (
    NEVER_HEARD_OF,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
LOSING = (*PASSING, ErrorCode.UNKNOWN_MEMBER_ID)
EACH_AND_ALL: list[Sequence[Misbehavior]] = [*([each] for each in MISBEHAVIORS), MISBEHAVIORS, MISBEHAVIORS]


class MisbehavingNetworkCase(MembershipCase):
    """Clients of one broker over a misbehaving network."""

    def client_of(self, wire: MisbehavingNetwork) -> Cluster:
        self.clients += 1
        client = Cluster(
            self.cluster.clock,
            f"{host_of(0)}:9092",
            endpoint=wire.endpoint(self.cluster.network.from_machine(self.clients - 1)),
            timeout=wire.patience,
            connect_timeout=wire.patience,
        )
        self.addCleanup(client.close)
        return client

    def passes(self, condition: Callable[[], bool], seconds: float = 120.0) -> None:
        """Let time pass until something is so."""
        for _ in range(round(seconds / 0.1)):
            if condition():
                return
            self.cluster.settle(0.1)
        self.fail(f"not in {seconds:g} s")

    def now(self, asked: Deferred[Any], seconds: float = 120.0) -> Any:
        results: list[Any] = []
        asked.addBoth(results.append)
        self.passes(lambda: bool(results), seconds)
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def committed(self, group: str) -> dict[int, int]:
        found: Any = self.now(AdminClient(self.a_client()).list_group_offsets([group]))[group]
        return {each.partition: at.offset for each, at in found.items() if isinstance(at, CommittedOffset)}


class Reader:
    """
    One member, that reads all the time and commits now and then by itself.

    :ivar found: partition and value of each record.
    :ivar commits: what each commit's Deferred fired with, every time it did.
    :ivar failures: what went wrong with the membership, for good as it was said.
    """

    def __init__(self, cluster: Cluster, protocol: str, name: str) -> None:
        self.name, self.clock = name, cluster.reactor
        self.consumer = Consumer(
            cluster,
            name,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            auto_commit_interval=1.0,
            request_timeout=6.0,
            session_timeout=10.0,
            heartbeat_interval=0.5,
            max_poll_interval=20.0,
        )
        self.found: list[tuple[int, bytes | None]] = []
        self.commits: list[list[object]] = []
        self.failures: list[LogbusError] = []
        self.consumer.subscribe([name])
        self._reading = Deferred.fromCoroutine(self._read())
        self.ended: list[object] = []
        self._reading.addBoth(self.ended.append)

    async def _read(self) -> None:
        while True:
            try:
                found = await self.consumer.poll(0.5)
            except MembershipFailed as e:
                self.failures.append(e)
                await self.consumer.unsubscribe()
                await deferLater(self.clock, 1)
                self.consumer.subscribe([self.name])
                continue
            for partition, records in found.items():
                self.found += [(partition.partition, each.value) for each in records]
            if found and len(self.commits) % 3 == 0:
                heard: list[object] = []
                self.commits.append(heard)
                self.consumer.commit().addBoth(heard.append)
            else:
                self.commits.append([None])

    def is_at(self, offset: int) -> bool:
        """Whether it has read all of its partitions until there."""
        return all(self.consumer.position(each) == offset for each in self.consumer.assignment)

    def close(self) -> Deferred[None]:
        self._reading.cancel()
        return self.consumer.close()


class Members:
    """Two members and a writer; mixed into cases of each protocol."""

    def work(self: Any, wire: MisbehavingNetwork, seconds: int = 20) -> tuple[list[Reader], list[tuple[int, bytes]]]:
        """Read while responses are wrong, and then until all records were read."""
        self.rounds = getattr(self, "rounds", 0) + 1
        name = f"round-{self.rounds}"
        self.cluster[0].create(name, 6)
        writer = self.cluster[0].connect()
        readers = [Reader(self.client_of(wire), self.protocol, name) for _ in range(2)]
        written = []
        for second in range(seconds):
            for number in range(6):
                value = b"%d-%d" % (second, number)
                writer.produce(a_batch(value), name, number)
                written.append((number, value))
            self.cluster.settle(1)
        wire.be_honest()
        self.passes(lambda: {each for reader in readers for each in reader.found} >= set(written))
        self.passes(lambda: all(len(reader.consumer.assignment) == 3 for reader in readers), 130)
        # Who has just got a partition reads on from what the member before has committed.
        self.passes(lambda: all(reader.is_at(seconds) for reader in readers))
        self.passes(lambda: all(heard for reader in readers for heard in reader.commits))
        return readers, written

    def check(self: Any, readers: list[Reader], written: list[tuple[int, bytes]]) -> None:
        """
        Check that all records were read, each Deferred fired once, the last offset is committed, and nothing is left.
        """
        name = readers[0].name
        for reader in readers:
            self.assertEqual(reader.ended, [])
            for (told,) in reader.commits:
                if isinstance(told, Failure):
                    self.assertIsInstance(told.value, LogbusError)
                    self.assertGreater(len(str(told.value)), 20)
            for each in reader.failures:
                self.assertGreater(len(str(each)), 20)
        consumers = [weakref.ref(reader.consumer) for reader in readers]
        for reader in readers:
            self.now(reader.close(), 30)
            (ended,) = reader.ended
            self.assertTrue(ended.check(CancelledError))  # type: ignore[attr-defined]
        self.assertEqual(self.committed(name), dict.fromkeys(range(6), len(written) // 6))
        readers.clear()
        each = told = reader = ended = None
        self.cluster.settle(60)
        # Until an application begins to log, Twisted remembers every event, and what errors in them refer to.
        globalLogBeginner._initialBuffer._buffer.clear()
        gc.collect()
        self.assertEqual([each() for each in consumers], [None, None])

    def test_lies(self: Any) -> None:
        """
        Of each kind alone, and of all of them.
        """
        for seed, misbehaviors in enumerate(EACH_AND_ALL):
            with self.subTest(misbehaviors=[each.__name__ for each in misbehaviors]):
                wire = MisbehavingNetwork(self.cluster.clock, Random(seed), GROUP, tuple(misbehaviors))
                self.check(*self.work(wire))
                self.assertGreater(wire.told, 3)

    def test_wrong_answers(self: Any) -> None:
        """
        Errors of all kinds, also such as are not known, generations and leaders that are none, and answers about other
        partitions or about nothing.
        """
        for seed in range(4):
            with self.subTest(seed=seed):
                wire = MisbehavingNetwork(self.cluster.clock, Random(seed), GROUP, share=0.3)
                wire.changes = dict(CHANGES)
                self.patch(Channel, "request", wire.request(Channel.request))
                self.check(*self.work(wire))
                self.assertGreater(wire.told, 3)

    def test_permanent_error(self: Any) -> None:
        """Requests are not sent more often, and closing takes no longer than its timeout."""
        for code in (*LOSING, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
            with self.subTest(code=code):
                wire = MisbehavingNetwork(self.cluster.clock, Random(1), GROUP, share=1.0)
                wire.changes = dict.fromkeys((JOIN, SYNC, HEARTBEAT, CONSUMER_HEARTBEAT), always(code))
                self.patch(Channel, "request", wire.request(Channel.request))
                reader = Reader(self.client_of(wire), self.protocol, "t")
                self.cluster.settle(30)
                self.assertLess(wire.told, 30 * 10)
                self.now(reader.close(), 10)


def always(code: int) -> Change:
    """An answer with this error."""

    def change(chance: Random, asked: Any, answer: Any) -> None:
        answer.error_code = code

    return change


def wrong_join(chance: Random, asked: Any, answer: Any) -> None:
    kind = chance.randrange(5)
    if kind == 0:
        answer.error_code = chance.choice(LOSING)
    elif kind == 1:
        answer.generation_id = chance.choice([-1, 0, 2**31 - 1])
    elif kind == 2:
        answer.member_id = ""
    elif kind == 3:
        answer.protocol_name = "nonsense"
    else:
        answer.error_code = ErrorCode.MEMBER_ID_REQUIRED


def wrong_sync(chance: Random, asked: Any, answer: Any) -> None:
    answer.error_code = chance.choice([*LOSING, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION])


def wrong_heartbeat(chance: Random, asked: Any, answer: Any) -> None:
    answer.error_code = chance.choice([*LOSING, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION])


def wrong_consumer_heartbeat(chance: Random, asked: Any, answer: Any) -> None:
    kind = chance.randrange(3)
    if kind == 0:
        answer.error_code = chance.choice([*LOSING, ErrorCode.FENCED_MEMBER_EPOCH])
    elif kind == 1:
        answer.heartbeat_interval_ms = chance.choice([-1, 0, 1])
    else:
        answer.member_epoch = chance.choice([-9, 0, 2**31 - 1])


def wrong_commit(chance: Random, asked: Any, answer: Any) -> None:
    kind = chance.randrange(4)
    if kind == 0:
        answer.topics = []
    for topic in answer.topics:
        if kind == 1:
            topic.name = "z"
        for each in topic.partitions:
            if kind == 2:
                each.partition_index += 50
            elif kind == 3:
                each.error_code = chance.choice([*LOSING, ErrorCode.REBALANCE_IN_PROGRESS])


CHANGES: dict[int, Change] = {
    JOIN: wrong_join,
    SYNC: wrong_sync,
    HEARTBEAT: wrong_heartbeat,
    CONSUMER_HEARTBEAT: wrong_consumer_heartbeat,
    OFFSET_COMMIT: wrong_commit,
}


class ClassicTests(Members, MisbehavingNetworkCase):
    """By JoinGroup and SyncGroup."""


class ConsumerProtocolTests(Members, MisbehavingNetworkCase):
    """By ConsumerGroupHeartbeat."""

    protocol = "consumer"
    config: ClassVar[Mapping[str, str]] = {  # type: ignore[misc]
        **MisbehavingNetworkCase.config,
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "group.consumer.session.timeout.ms": "10000",
        "group.consumer.min.session.timeout.ms": "10000",
    }

    def test_commit_in_a_former_epoch(self) -> None:
        """Assigned partitions are committed in the next epoch; for revoked ones the commit fails."""
        stale = 2

        def change(chance: Random, asked: Any, answer: Any) -> None:
            nonlocal stale
            stale -= 1
            if stale >= 0:
                for topic in answer.topics:
                    for each in topic.partitions:
                        each.error_code = ErrorCode.STALE_MEMBER_EPOCH

        wire = MisbehavingNetwork(self.cluster.clock, Random(1), GROUP, share=1.0, changes={OFFSET_COMMIT: change})
        self.patch(Channel, "request", wire.request(Channel.request))
        member = self.member("t", client=self.client_of(wire))
        self.until(lambda: len(member.assignment) == 6)
        mine = TopicPartition("t", 0)
        self.now(member.commit({mine: CommittedOffset(7)}), 5)
        self.assertEqual((self.committed("g"), stale), ({0: 7}, -1))
        stale = 10**6
        with self.assertRaisesRegex(CommitFailed, "gone on without this member.*STALE_MEMBER_EPOCH"):
            self.now(member.commit({mine: CommittedOffset(8)}), 20)
        stale = 1
        committing = member.commit({mine: CommittedOffset(9)})
        self.now(member.unsubscribe(), 5)
        with self.assertRaises(CommitFailed):
            self.now(committing, 20)
        self.assertIn(self.committed("g")[0], (7, 8, 9))
