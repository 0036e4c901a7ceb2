"""Share groups that are made anew, or whose offsets are set, while members that have left go on fetching."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.wire.messages.groups import DeleteGroupsRequest
from logbus.wire.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    ShareGroupHeartbeatRequest,
)
from tests.handlers.kit import a_batch
from tests.handlers.test_share_fetches import ACCEPT, Member, ShareFetchCase
from tests.handlers.test_share_truncation import FINAL_EPOCH


class LeftSessionTests(ShareFetchCase):
    """A member has accepted the records 0 to 2, and has 3 and 4, when all leave the group, but not their sessions."""

    def setUp(self) -> None:
        super().setUp()
        self.client.produce(a_batch(b"0", b"1", b"2"))
        self.assertEqual(self.member.fetch(), [(0, 2, 1)])
        self.client.produce(a_batch(b"3", b"4"))
        self.assertEqual(self.member.fetch((0, 2, ACCEPT)), [(3, 4, 1)])
        for member in (self.member, self.other):
            leaving = ShareGroupHeartbeatRequest(group_id="g", member_id=member.name, member_epoch=-1)
            self.assertEqual(member.client.ask(leaving, 1).error_code, 0)
        self.third = Member(self.server.connect(), "c")

    def join(self) -> None:
        self.third.join()
        for _ in range(20):
            self.client.turn()

    def delete_group(self) -> None:
        (result,) = self.client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
        self.assertEqual(result.error_code, 0)

    def test_a_new_group(self) -> None:
        """It gets all records, whatever members of the deleted one do: that is refused."""
        self.delete_group()
        self.join()
        (partition,) = self.member.ask((3, 4, ACCEPT), max_records=0).responses[0].partitions
        self.assertEqual(partition.acknowledge_error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.assertEqual(self.third.fetch(), [(0, 4, 1)])

    def test_a_new_group_begins_at_once(self) -> None:
        """Its first member gets all records, though nothing is written for the deleted group any more."""
        self.delete_group()
        self.join()
        self.assertEqual(self.third.fetch(), [(0, 4, 1)])
        (partition,) = self.member.acknowledge((3, 4, ACCEPT)).responses[0].partitions
        self.assertEqual(partition.error_code, ErrorCode.INVALID_RECORD_STATE)
        self.assertEqual(self.third.fetch((0, 4, ACCEPT)), [])

    def set_start(self, offset: int) -> None:
        starts = [AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)]
        topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=starts)
        answer = self.client.ask(AlterShareGroupOffsetsRequest(group_id="g", topics=[topic]), 0)
        self.assertEqual(answer.responses[0].partitions[0].error_code, 0)

    def test_an_offset_behind_the_end(self) -> None:
        """The group begins at the end, and misses nothing that comes from now on, however often the state is read."""
        self.set_start(9)
        self.join()
        self.assertEqual(self.third.fetch(), [])
        self.client.produce(a_batch(b"5", b"6"))
        self.assertEqual(self.third.fetch(), [(5, 6, 1)])
        for member in (self.member, self.third):
            member.acknowledge(epoch=FINAL_EPOCH)
            member.epoch = 0
        for _ in range(5):
            self.client.turn()
        self.assertEqual(self.third.fetch(), [(5, 6, 2)])

    def test_offsets_that_are_set(self) -> None:
        """The next member begins there."""
        self.set_start(1)
        self.join()
        self.assertEqual(self.third.fetch(), [(1, 4, 1)])
        self.assertEqual(self.third.fetch((1, 4, ACCEPT)), [])
