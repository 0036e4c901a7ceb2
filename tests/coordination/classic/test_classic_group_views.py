"""Tests for :mod:`logbus.coordination.classic.classic_group`: queries, checks and records."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.coordination.classic.classic_group import ClassicMemberDescription
from logbus.coordination.group import Group, GroupType
from logbus.coordination.group_records import decode_change, encode_change
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.group_log import GroupMemberMetadata, GroupMetadataKey, GroupMetadataValue
from tests.coordination.classic.kit import RANGE, Bench, subscription


class CommitTests(SynchronousTestCase):
    def refusal(self, bench: Bench, member_id: str, epoch: int, instance_id: str | None = None) -> ErrorCode | None:
        try:
            bench.group.check_commit(member_id, instance_id, epoch, 9)
        except ApiError as error:
            return error.code
        return None

    def test_without_a_group(self) -> None:
        """A consumer with a manual assignment commits with generation −1 while the group has no members."""
        bench = Bench()
        self.assertIs(self.refusal(bench, "", -1), None)
        joined = bench.stable(1)[0]
        self.assertEqual(self.refusal(bench, "", -1), ErrorCode.UNKNOWN_MEMBER_ID)
        bench.leave(joined.member_id)
        self.assertIs(self.refusal(bench, "", -1), None)

    def test_only_the_current_generation(self) -> None:
        """A member that was away commits nothing for what others read now."""
        bench = Bench()
        joined = bench.stable(1)[0]
        self.assertIs(self.refusal(bench, joined.member_id, 1), None)
        self.assertEqual(self.refusal(bench, joined.member_id, 0), ErrorCode.ILLEGAL_GENERATION)
        self.assertEqual(self.refusal(bench, joined.member_id, 2), ErrorCode.ILLEGAL_GENERATION)
        self.assertEqual(self.refusal(bench, joined.member_id, -1), ErrorCode.ILLEGAL_GENERATION)
        self.assertEqual(self.refusal(bench, "stranger", 1), ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(self.refusal(bench, "", 1), ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(self.refusal(bench, joined.member_id, 1, "one"), ErrorCode.UNKNOWN_MEMBER_ID)

    def test_during_a_rebalance(self) -> None:
        """Members of the former generation may commit while others join, but not until the next assignment."""
        bench = Bench()
        joined = bench.stable(1)[0]
        bench.join()
        self.assertIs(self.refusal(bench, joined.member_id, 1), None)
        again = bench.join(joined.member_id).result
        self.assertEqual(self.refusal(bench, joined.member_id, again.generation), ErrorCode.REBALANCE_IN_PROGRESS)
        self.assertEqual(self.refusal(bench, joined.member_id, 1), ErrorCode.ILLEGAL_GENERATION)

    def test_a_member_of_an_empty_group(self) -> None:
        """A generation that is over."""
        self.assertEqual(self.refusal(Bench(), "a", 3), ErrorCode.UNKNOWN_MEMBER_ID)

    def test_offset_fetch_needs_no_member(self) -> None:
        """Member and epoch of OffsetFetch 9 are for consumer groups."""
        bench = Bench()
        bench.stable(1)
        bench.group.check_fetch("stranger", 77)


class ViewTests(SynchronousTestCase):
    def test_group_interface(self) -> None:
        """The coordinator needs no more than this of any group."""
        group: Group = Bench().group
        self.assertEqual((group.group_id, group.group_type, group.protocol_type), ("g", GroupType.CLASSIC, ""))
        self.assertEqual((group.state_name, group.size, group.is_empty, group.is_dead), ("Empty", 0, True, True))
        self.assertEqual((group.tombstones(), group.empty_since_ms, group.deadline), ([], None, None))

    def test_description(self) -> None:
        """The protocol is shown while the group is stable; the members always, with the assignments they had."""
        bench = Bench()
        joined = bench.stable(1)[0]
        described = bench.group.describe()
        self.assertEqual(
            (described.state.value, described.protocol_type, described.protocol), ("Stable", "consumer", "range")
        )
        member = ClassicMemberDescription(
            joined.member_id, None, "app", "/127.0.0.1", RANGE[0][1], joined.member_id.encode()
        )
        self.assertEqual(described.members, (member,))
        bench.join()
        described = bench.group.describe()
        self.assertEqual((described.state.value, described.protocol), ("PreparingRebalance", ""))
        had = joined.member_id.encode()
        self.assertEqual([(one.metadata, one.assignment) for one in described.members], [(b"", had), (b"", b"")])
        bench.join(joined.member_id)
        described = bench.group.describe()
        self.assertEqual((described.state.value, described.protocol), ("CompletingRebalance", ""))
        self.assertEqual([(one.metadata, one.assignment) for one in described.members], [(b"", had), (b"", b"")])

    def test_deletion(self) -> None:
        """Only of groups without members; what was never stored needs no tombstone."""
        bench = Bench()
        bench.group.check_deletable()
        joined = bench.stable(1)[0]
        self.assertEqual(self.assertRaises(ApiError, bench.group.check_deletable).code, ErrorCode.NON_EMPTY_GROUP)
        bench.leave(joined.member_id)
        bench.group.check_deletable()
        self.assertFalse(bench.group.is_dead, "it is in the log")
        self.assertEqual(bench.group.tombstones(), [(GroupMetadataKey(group="g"), None)])

    def test_subscriptions(self) -> None:
        """Topics of all members; any topic while it cannot be known; none of an empty group."""
        bench = Bench()
        joined = bench.stable(1)[0]
        asked = bench.group.is_subscribed_to
        self.assertEqual((asked("orders"), asked("other")), (True, False))
        bench.join(joined.member_id, protocols=(("range", subscription("other")),))
        self.assertEqual((asked("orders"), asked("other")), (False, True))
        bench.join()
        self.assertEqual((asked("orders"), asked("other"), asked("third")), (True, True, True))
        bench.leave(*bench.members)
        self.assertEqual(bench.state, "Empty")
        self.assertFalse(asked("other"))

    def test_other_protocol_types(self) -> None:
        """Metadata of other protocol types cannot be decoded."""
        bench = Bench()
        bench.stable(1, protocol_type="connect")
        self.assertTrue(bench.group.is_subscribed_to("orders"))

    def test_unreadable_subscriptions(self) -> None:
        """So are those of consumers that say what we do not understand."""
        bench = Bench()
        bench.stable(1, protocols=(("range", b"?"),))
        self.assertTrue(bench.group.is_subscribed_to("orders"))


class RestoreTests(SynchronousTestCase):
    def test_stable_group_is_restored(self) -> None:
        """A restored group has the same members, generation, leader and assignments."""
        bench = Bench()
        leader, follower = bench.stable(2)
        key, value = bench.group.change()
        encoded = encode_change((key, value))
        self.assertEqual(decode_change(*encoded), (key, value), "the record holds all of it")
        bench.advance(8)
        bench.restart()
        bench.advance(9)
        self.assertEqual([bench.beat(one) for one in (leader, follower)], [ErrorCode.NONE] * 2)
        self.assertEqual(bench.sync(follower).result.assignment, follower.member_id.encode())
        self.assertTrue(bench.group.is_subscribed_to("orders"))
        self.assertTrue(bench.join(leader.member_id).waits)

    def test_sessions_restart(self) -> None:
        """The sessions of a restored group begin anew."""
        bench = Bench()
        bench.stable(2)
        bench.restart()
        bench.advance(10)
        self.assertEqual(bench.state, "Empty")

    def test_an_empty_group(self) -> None:
        """A restored empty group knows since when it is empty."""
        bench = Bench()
        bench.leave(bench.stable(1)[0].member_id)
        since = bench.now_ms()
        bench.advance(100)
        bench.restart()
        self.assertEqual((bench.state, bench.group.empty_since_ms), ("Empty", since))
        self.assertEqual(bench.join().result.generation, 3)

    def test_too_many_members(self) -> None:
        """The limit was lowered meanwhile: all rejoin, as far as there is room."""
        bench = Bench()
        joined = bench.stable(3)
        bench.set(max_size=2)
        bench.restart()
        self.assertEqual(bench.state, "PreparingRebalance")
        errors = [bench.join(one.member_id).results for one in joined]
        self.assertEqual(errors[2][0].error, ErrorCode.GROUP_MAX_SIZE_REACHED)

    def test_a_strange_record(self) -> None:
        """Records with a missing leader or protocol, duplicate names or negative times can be restored."""
        bench = Bench()
        member = GroupMemberMetadata(
            member_id="a",
            group_instance_id="i",
            client_id="",
            client_host="",
            rebalance_timeout=-1,
            session_timeout=-5,
            subscription=b"",
            assignment=b"",
        )
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=-3,
            protocol=None,
            leader="nobody",
            current_state_timestamp=-1,
            members=[member, member, member],
        )
        bench.log.append((GroupMetadataKey(group="g"), value))
        bench.restart()
        self.assertEqual(bench.members, ["a"])
        encode_change(bench.group.change())
        bench.advance(10)
        self.assertEqual(bench.state, "Empty")
