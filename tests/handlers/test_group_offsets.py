"""OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from logbus.coordination.group_offsets import CommittedOffset, offset_commit_change
from logbus.errors import ErrorCode
from logbus.model import TopicPartition
from logbus.records.batch import iter_batches
from logbus.storage.log import Log
from logbus.testing.simulation.environment.memory_disk import broken, no_space
from logbus.wire.messages.groups import DeleteGroupsRequest, FindCoordinatorRequest
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from logbus.wire.messages.partitions import TopicPartitionIndexes
from tests.handlers.group_kit import GroupCase, commit, fetch_committed
from tests.handlers.kit import NOW_MS, MemoryBroker

T0, T1 = ("t", 0), ("t", 1)
DAY_S = 24 * 3600


class SimpleTests(GroupCase):
    """Consumers with a manual assignment, which are not members."""

    def test_commit_and_fetch(self) -> None:
        """A committed offset is returned with epoch and metadata; a missing one is -1, without an error."""
        self.assertEqual(commit(self.client, {T0: 5}, metadata="my words", leader_epoch=3), {T0: 0})
        response = self.client.ask(
            OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup(
                        group_id="g",
                        topics=[
                            OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1]),
                            OffsetFetchRequestTopics(name="nowhere", partition_indexes=[7]),
                        ],
                    ),
                    OffsetFetchRequestGroup(group_id="nobody", topics=None),
                ]
            ),
            8,
        )
        group, nobody = response.groups
        t, nowhere = group.topics
        self.assertEqual(
            [(one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code) for one in t.partitions],
            [(5, 3, "my words", 0), (-1, -1, "", 0)],
        )
        self.assertEqual([(one.committed_offset, one.error_code) for one in nowhere.partitions], [(-1, 0)])
        self.assertEqual((nobody.error_code, nobody.topics), (0, []))

    def test_offsets_make_a_group(self) -> None:
        """A group with offsets only is listed as empty and without a protocol, also after a restart."""
        commit(self.client, {T0: 5})
        for _ in range(2):
            (group,) = self.listed()
            self.assertEqual(
                (group.group_id, group.protocol_type, group.group_state, group.group_type),
                ("g", "", "Empty", "classic"),
            )
            self.restart()

    def test_null_is_no_text(self) -> None:
        """Text that is not given is empty text."""
        self.assertEqual(commit(self.client, {T0: 5}, metadata=None), {T0: 0})
        self.assertEqual(self.server.broker.coordinators.groups.committed("g")[T0].metadata, "")  # type: ignore[index]

    def test_a_group_without_a_name(self) -> None:
        """Old consumers commit without one, and find what they committed."""
        self.assertEqual(commit(self.client, {T0: 5}, ""), {T0: 0})
        self.assertEqual(fetch_committed(self.client, ""), {T0: 5})

    def test_unknown_partitions(self) -> None:
        """They have an error of their own, and do not hold back the others."""
        codes = commit(self.client, {T0: 5, ("t", 2): 6, ("t", -1): 7, ("nowhere", 0): 8})
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.assertEqual(codes, {T0: 0, ("t", 2): unknown, ("t", -1): unknown, ("nowhere", 0): unknown})
        self.assertEqual(fetch_committed(self.client), {T0: 5})

    def test_metadata_too_long(self) -> None:
        """More bytes than offset.metadata.max.bytes are refused, however few characters they are."""
        self.assertEqual(commit(self.client, {T0: 1}, metadata="m" * 4096), {T0: 0})
        for text in ("m" * 4097, "é" * 2049, "m" * 30_000):
            codes = commit(self.client, {T0: 2}, metadata=text)
            self.assertEqual(codes, {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE})
        self.assertEqual(fetch_committed(self.client), {T0: 1})

    def test_more_than_a_batch_can_hold(self) -> None:
        """A commit is one batch; one that is too large changes nothing."""
        self.server.create("wide", 400)
        offsets = {("wide", number): 1 for number in range(400)}
        codes = commit(self.client, offsets, metadata="m" * 4096)
        self.assertEqual(set(codes.values()), {ErrorCode.INVALID_COMMIT_OFFSET_SIZE})
        self.assertEqual(fetch_committed(self.client), {})
        self.assertEqual(self.listed(), [])
        self.assertEqual(set(commit(self.client, offsets).values()), {0})
        self.assertEqual(len(fetch_committed(self.client)), 400)

    def test_the_same_partition_twice(self) -> None:
        """The last one counts, before and after a restart."""
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset) for offset in (5, 7, 6)]
        topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
        self.client.ask(OffsetCommitRequest(group_id="g", topics=topics), 8)
        self.assertEqual(fetch_committed(self.client), {T0: 6})
        self.restart()
        self.assertEqual(fetch_committed(self.client), {T0: 6})

    def test_every_version_of_commit(self) -> None:
        """Even those that Kafka 4 has lost."""
        for version in range(10):
            group = f"v{version}"
            self.assertEqual(commit(self.client, {T0: version}, group, version=version), {T0: 0})
            self.assertEqual(fetch_committed(self.client, group), {T0: version})

    def test_retention_set_by_the_client(self) -> None:
        """Up to version 4 a client sends a retention time; in version 1 a commit timestamp."""
        commit(self.client, {T0: 1}, "kept", version=4, retention_time_ms=1000)
        commit(self.client, {T0: 1}, "by default", version=4)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, commit_timestamp=77)
        topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
        self.client.ask(OffsetCommitRequest(group_id="timed", topics=topics), 1)
        held = self.server.broker.coordinators.groups.committed
        found = {name: held(name)[T0] for name in ("kept", "by default", "timed")}  # type: ignore[index]
        now_ms = NOW_MS + int(self.server.reactor.seconds() * 1000)
        self.assertEqual(found["kept"].expire_timestamp, found["kept"].commit_timestamp + 1000)
        self.assertEqual(found["by default"].expire_timestamp, -1)
        self.assertAlmostEqual(found["by default"].commit_timestamp, now_ms, delta=1000)
        self.assertEqual(found["timed"].commit_timestamp, 77)

    def test_every_version_of_fetch(self) -> None:
        """One group with named partitions; from version 2 on all of them, from 8 on several groups."""
        commit(self.client, {T0: 5, T1: 6})
        for version in range(8):
            asked: Any = [TopicPartitionIndexes(name="t", partition_indexes=[0])]
            response = self.client.ask(OffsetFetchRequest(group_id="g", topics=asked), version)
            self.assertEqual(response.topics[0].partitions[0].committed_offset, 5)
            if version >= 2:
                response = self.client.ask(OffsetFetchRequest(group_id="g", topics=None), version)
                self.assertEqual([one.committed_offset for one in response.topics[0].partitions], [5, 6])
                response = self.client.ask(OffsetFetchRequest(group_id="g", topics=[]), version)
                self.assertEqual(response.topics, [])
        for version in (8, 9):
            groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "h")]
            response = self.client.ask(OffsetFetchRequest(groups=groups), version)
            self.assertEqual([(g.group_id, len(g.topics)) for g in response.groups], [("g", 1), ("h", 0)])
            self.assertEqual(len(response.groups[0].topics[0].partitions), 2)

    def test_missing_offset_in_version_0(self) -> None:
        """It is an error, as version 0 was made for ZooKeeper."""
        asked = [TopicPartitionIndexes(name="t", partition_indexes=[0])]
        response = self.client.ask(OffsetFetchRequest(group_id="g", topics=asked), 0)
        self.assertEqual(response.topics[0].partitions[0].error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_errors_in_every_version_of_fetch(self) -> None:
        """Errors are those of each partition at first, later of the request, then of each group."""
        self.server.broker.coordinators.groups.stop()
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for version in range(8):
            asked = [TopicPartitionIndexes(name="t", partition_indexes=[0])]
            response = self.client.ask(OffsetFetchRequest(group_id="g", topics=asked), version)
            if version < 2:
                self.assertEqual([one.error_code for one in response.topics[0].partitions], [code])
            else:
                self.assertEqual((response.error_code, response.topics), (code, []))
        response = self.client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]), 9)
        self.assertEqual(response.groups[0].error_code, code)


class MemberTests(GroupCase):
    """Only members of the present generation may commit."""

    def test_refused_commits(self) -> None:
        """A stale generation, a stranger and a simple consumer are refused."""
        member = self.member()
        self.group_of(member)
        self.assertEqual(member.commit(5), 0)
        self.assertEqual(member.commit(6, generation=0), ErrorCode.ILLEGAL_GENERATION)
        self.assertEqual(member.commit(6, member_id="stranger"), ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(commit(self.client, {T0: 6}), {T0: ErrorCode.UNKNOWN_MEMBER_ID})
        self.assertEqual(fetch_committed(self.client), {T0: 5})
        member.leave()
        self.assertEqual(commit(self.client, {T0: 6}), {T0: 0})

    def test_missing_group(self) -> None:
        """A commit of a member to a missing group gets an error by version, and creates no group."""
        for version, code in ((8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)):
            codes = commit(self.client, {T0: 1}, generation=1, member_id="m", version=version)
            self.assertEqual(codes, {T0: code})
        self.assertEqual(self.listed(), [])


class WritingTests(GroupCase):
    """Durability and failures of commits."""

    config = {**GroupCase.config, "log.flush.before.ack": "true"}

    def test_a_commit_is_durable(self) -> None:
        """A commit is answered when it is on stable storage."""
        flushes: list[Deferred[None]] = []

        def flush(log: Log) -> Deferred[None]:
            flushes.append(Deferred())
            return flushes[-1]

        self.patch(Log, "flush", flush)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
        self.client.send(OffsetCommitRequest(group_id="g", topics=topics), 8)
        self.client.turn()
        self.assertEqual((self.client.answers(), len(flushes)), ([], 1))
        flushes[0].callback(None)
        (answer,) = self.client.answers()
        self.assertEqual(answer.topics[0].partitions[0].error_code, 0)

    def test_the_disk_is_full(self) -> None:
        """A commit fails with an error that clients retry, and nothing has changed; when there is space it works."""
        codes = commit(self.client, {T0: 5})
        self.assertEqual(codes, {T0: 0})
        self.disk.faults = lambda op, path: no_space() if op == "write" else None
        self.assertEqual(commit(self.client, {T0: 6}), {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE})
        self.assertEqual(commit(self.client, {T0: 6}, "new"), {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE})
        self.assertEqual(fetch_committed(self.client), {T0: 5})
        self.assertEqual([group.group_id for group in self.listed()], ["g"])
        self.disk.faults = lambda op, path: None
        self.assertEqual(commit(self.client, {T0: 7}), {T0: 0})
        self.restart()
        self.assertEqual(fetch_committed(self.client), {T0: 7})

    def test_the_disk_fails(self) -> None:
        """A broker that loses a disk resigns as the coordinator of the groups on it."""
        member = self.member()
        self.group_of(member)
        self.assertEqual(member.commit(5), 0)
        self.disk.faults = lambda op, path: broken() if op == "write" else None
        self.assertEqual(member.commit(6), ErrorCode.NOT_COORDINATOR)
        self.assertEqual(member.heartbeat(), ErrorCode.NOT_COORDINATOR)
        self.assertEqual(self.server.broker.coordinators.groups.shards, {})

    def test_batches_are_compressed(self) -> None:
        """As the configuration says."""
        server = MemoryBroker({**self.config, "offsets.topic.compression.codec": "1"}).start()
        self.addCleanup(server.close)
        server.create("t")
        client = server.connect()
        client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        self.assertEqual(commit(client, {T0: 5}, metadata="m" * 1000), {T0: 0})
        log = server.broker.coordinators.groups.shard_of("g").log.replica.log
        data = log.read(0, 1 << 20).data
        assert data is not None
        self.assertLess(len(data), 300)
        self.assertEqual([header.codec for _, header in iter_batches(data.read())], [1])

    def test_expiration_with_a_full_disk(self) -> None:
        """Expiration fails without disk space; the next check tries again."""
        commit(self.client, {T0: 5}, version=4, retention_time_ms=1000)
        self.disk.faults = lambda op, path: no_space() if op == "write" else None
        self.client.turn(601)
        self.assertEqual(fetch_committed(self.client), {T0: 5})
        self.disk.faults = lambda op, path: None
        self.client.turn(601)
        self.client = self.server.connect()
        self.assertEqual((fetch_committed(self.client), self.listed()), ({}, []))

    def test_assignment_with_a_full_disk(self) -> None:
        """Members get a retriable error until there is space."""
        member = self.member()
        member.get_id()
        member.send_join()
        member.joined()
        self.disk.faults = lambda op, path: no_space() if op == "write" else None
        member.send_sync({member.member_id: b"a"})
        self.assertIn(member.answer().error_code, (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR))
        self.disk.faults = lambda op, path: None
        self.group_of(member)
        self.assertEqual(member.heartbeat(), 0)


class GoingTests(GroupCase):
    """Removal of offsets: OffsetDelete, deleted topics, expiration."""

    config = {**GroupCase.config, "offsets.retention.minutes": str(24 * 60)}

    def delete(self, *partitions: tuple[str, int], group: str = "g") -> Any:
        topics = [
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number)])
            for name, number in partitions
        ]
        response = self.client.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0)
        if response.error_code:
            return response.error_code
        return [one.error_code for topic in response.topics for one in topic.partitions]

    def test_deleting(self) -> None:
        """Named offsets go, for good; what is not there, too; unknown partitions are an error of their own."""
        commit(self.client, {T0: 5, T1: 6})
        self.assertEqual(self.delete(T0, ("t", 9), ("nowhere", 0)), [0, 3, 3])
        self.assertEqual(self.delete(T0), [0])
        self.assertEqual(fetch_committed(self.client), {T1: 6})
        self.restart()
        self.assertEqual(fetch_committed(self.client), {T1: 6})
        self.assertEqual(self.delete(T1), [0])
        self.assertEqual([group.group_id for group in self.listed()], ["g"], "tools delete the group right afterwards")
        (deleted,) = self.client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
        self.assertEqual(deleted.error_code, 0)
        self.assertEqual(self.listed(), [])

    def test_deleting_all(self) -> None:
        """A group without any offset left goes with the next look for what is too old."""
        commit(self.client, {T0: 5})
        self.assertEqual(self.delete(T0), [0])
        self.assertEqual(self.listed_later(601), [])

    def test_offset_deletion_of_a_missing_group(self) -> None:
        """A missing group, and one without a name."""
        self.assertEqual(self.delete(T0), ErrorCode.GROUP_ID_NOT_FOUND)
        self.assertEqual(self.delete(T0, group=""), ErrorCode.INVALID_GROUP_ID)

    def test_deleting_from_members(self) -> None:
        """Offsets of subscribed topics cannot be deleted, nor any in a group of another protocol type."""
        member = self.member()
        # Nobody can tell what "meta" subscribes to.
        self.group_of(member)
        member.commit(5)
        self.assertEqual(self.delete(T0), [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
        worker = self.member(group="connect")
        worker.send_join(3, protocol_type="connect")
        worker.joined()
        self.assertEqual(self.delete(T0, group="connect"), ErrorCode.NON_EMPTY_GROUP)
        self.assertEqual(fetch_committed(self.client), {T0: 5})

    def test_topic_deletion(self) -> None:
        """The offsets of a deleted topic are deleted in all groups, and so are groups that are empty then."""
        self.server.create("u")
        commit(self.client, {T0: 5, ("u", 0): 6}, "both")
        commit(self.client, {("u", 0): 7}, "only")
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["u"]))
        self.server.create("u")
        self.assertEqual([group.group_id for group in self.listed()], ["both"])
        for _ in range(2):
            self.assertEqual(fetch_committed(self.client, "both"), {T0: 5})
            self.assertEqual(fetch_committed(self.client, "only"), {})
            self.restart()

    def test_age(self) -> None:
        """A day after the last commit the offsets go, and the group with them; what was committed later stays."""
        commit(self.client, {T0: 5}, "old")
        self.client.turn(DAY_S / 2)
        commit(self.client, {T0: 5}, "new")
        self.assertEqual(len(self.listed_later(DAY_S / 2 + 601)), 1)
        self.assertEqual(fetch_committed(self.client, "old"), {})
        self.assertEqual(fetch_committed(self.client, "new"), {T0: 5})
        self.restart()
        self.assertEqual([group.group_id for group in self.listed()], ["new"])

    def listed_later(self, seconds: float) -> list[str]:
        for _ in range(int(seconds // 60) + 1):
            self.client.turn(60)
        # Nobody stays connected so long without a word.
        self.client = self.server.connect()
        return [group.group_id for group in self.listed()]

    def test_age_of_a_group_in_use(self) -> None:
        """As long as there are members their offsets stay; a day after they left, they go."""
        member = self.member(session_timeout_ms=1_800_000)
        self.group_of(member)
        member.commit(5)
        for _ in range(100):
            self.client.turn(1700)
            member.client = self.client = self.server.connect()
            self.assertEqual(member.heartbeat(), 0)
        self.assertEqual(fetch_committed(self.client), {T0: 5})
        member.leave()
        self.assertEqual(self.listed_later(DAY_S / 2), ["g"])
        self.assertEqual(fetch_committed(self.client), {T0: 5})
        self.assertEqual(self.listed_later(DAY_S / 2 + 601), [])
        self.assertEqual(self.server.broker.coordinators.groups.metrics.expired, 1)
        self.restart()
        self.assertEqual(self.listed(), [])

    def test_pending_member(self) -> None:
        """A group with a reserved member id is not removed."""
        commit(self.client, {T0: 5}, version=4, retention_time_ms=1000)
        self.client.turn(598)
        member = self.member()
        member.get_id()
        self.client.turn(4)
        self.assertEqual(fetch_committed(self.client), {})
        self.group_of(member)
        self.assertEqual(member.heartbeat(), 0)


class TopicIdTests(GroupCase):
    """Version 10 names topics by their ids."""

    NOBODYS = b"\7" * 16

    def commit(self, *topics: tuple[bytes, int], **given: Any) -> list[tuple[bytes, str, int]]:
        asked = [
            OffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, **given)],
            )
            for topic_id, offset in topics
        ]
        response = self.client.ask(OffsetCommitRequest(group_id="g", topics=asked), 10)
        return [(topic.topic_id, topic.name, topic.partitions[0].error_code) for topic in response.topics]

    def fetch(self, *topics: tuple[bytes, list[int]], everything: bool = False) -> list[tuple[bytes, list[Any]]]:
        asked = OffsetFetchRequestGroup(
            group_id="g",
            topics=None
            if everything
            else [OffsetFetchRequestTopics(topic_id=one, partition_indexes=numbers) for one, numbers in topics],
        )
        (group,) = self.client.ask(OffsetFetchRequest(groups=[asked]), 10).groups
        self.assertEqual(group.error_code, 0)
        return [
            (topic.topic_id, [(p.partition_index, p.committed_offset, p.error_code) for p in topic.partitions])
            for topic in group.topics
        ]

    def test_commit_and_fetch(self) -> None:
        """An offset that is committed by topic id is found by id and by name."""
        t = self.server.topic_id()
        self.assertEqual(self.commit((t, 5)), [(t, "", 0)])
        self.assertEqual(fetch_committed(self.client), {T0: 5})
        self.assertEqual(self.fetch((t, [0, 1, 0])), [(t, [(0, 5, 0), (1, -1, 0)])])
        self.assertEqual(self.fetch(everything=True), [(t, [(0, 5, 0)])])

    def test_unknown_topic_ids(self) -> None:
        """UNKNOWN_TOPIC_ID for each of their partitions; the others are served."""
        t, code = self.server.topic_id(), ErrorCode.UNKNOWN_TOPIC_ID
        for nobodys in (self.NOBODYS, bytes(16)):
            self.assertEqual(self.commit((nobodys, 5), (t, 6)), [(nobodys, "", code), (t, "", 0)])
            self.assertEqual(
                self.fetch((nobodys, [3, 4]), (t, [0]), (nobodys, [4])),
                [(t, [(0, 6, 0)]), (nobodys, [(3, -1, code), (4, -1, code)])],
            )
        self.assertEqual(self.commit((self.NOBODYS, 5)), [(self.NOBODYS, "", code)])
        self.group_of(self.member())
        self.assertEqual(
            self.commit((self.NOBODYS, 5), (t, 6)), [(self.NOBODYS, "", code), (t, "", ErrorCode.UNKNOWN_MEMBER_ID)]
        )

    def test_other_problems(self) -> None:
        """Other errors of a known topic are as in earlier versions."""
        t = self.server.topic_id()
        self.assertEqual(
            self.commit((t, 5), committed_metadata="x" * 4097), [(t, "", ErrorCode.OFFSET_METADATA_TOO_LARGE)]
        )
        asked = OffsetCommitRequestTopic(
            topic_id=t, partitions=[OffsetCommitRequestPartition(partition_index=9, committed_offset=1)]
        )
        response = self.client.ask(OffsetCommitRequest(group_id="g", topics=[asked]), 10)
        self.assertEqual(response.topics[0].partitions[0].error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_a_topic_made_anew(self) -> None:
        """A recreated topic has another id, so a commit with the old id is refused."""
        self.server.create("u")
        former = self.server.topic_id("u")
        self.commit((former, 5))
        self.server.now(self.server.broker.control.topic_admin.delete_topics(["u"]))
        self.server.create("u")
        self.assertEqual(self.commit((former, 6)), [(former, "", ErrorCode.UNKNOWN_TOPIC_ID)])
        self.assertEqual(self.fetch((former, [0])), [(former, [(0, -1, ErrorCode.UNKNOWN_TOPIC_ID)])])
        self.assertEqual(self.fetch((self.server.topic_id("u"), [0])), [(self.server.topic_id("u"), [(0, -1, 0)])])

    def test_empty_topic_names(self) -> None:
        """Before version 10 the empty name is like that of any missing topic."""
        self.assertEqual(commit(self.client, {("", 0): 1}), {("", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        self.assertEqual(fetch_committed(self.client, topics={"": [0]}), {("", 0): -1})

    def test_offsets_of_a_deleted_topic(self) -> None:
        """The offsets of a deleted topic cannot be fetched by id."""
        t = self.server.topic_id()
        commit(self.client, {T0: 5})
        shard = self.server.broker.coordinators.groups.shard_of("g")
        shard.offsets["g"].apply(*offset_commit_change("g", TopicPartition("gone", 0), CommittedOffset(1)))
        self.assertEqual(self.fetch(everything=True), [(t, [(0, 5, 0)])])
        self.assertEqual(fetch_committed(self.client), {T0: 5, ("gone", 0): 1})
