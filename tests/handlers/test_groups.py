"""Members of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from tests.handlers.groupkit import GroupCase


class FlowTests(GroupCase):
    """What several clients see of one group."""

    def test_alone(self) -> None:
        """The first member gets an id, joins with it, leads, assigns to itself, and is alive."""
        member = self.member()
        self.assertRegex(member.get_id(), r"tester-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-")
        member.send_join()
        told = member.joined()
        self.assertEqual((told.error_code, told.generation_id, told.protocol_name), (0, 1, "range"))
        self.assertEqual((told.leader, told.protocol_type), (member.member_id, "consumer"))
        self.assertEqual([(one.member_id, one.metadata) for one in told.members], [(member.member_id, b"meta")])
        member.send_sync({member.member_id: b"all"})
        synced = member.answer()
        self.assertEqual((synced.error_code, synced.assignment, synced.protocol_name), (0, b"all", "range"))
        self.assertEqual(member.heartbeat(), 0)
