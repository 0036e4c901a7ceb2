"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.wire.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from tests.handlers.group_kit import GroupCase, fetch_committed


class FlowTests(GroupCase):
    """Several clients in one group."""

    def test_single_member(self) -> None:
        """The first member gets an id, joins with it, leads, assigns to itself, and is alive."""
        member = self.member()
        self.assertRegex(member.get_id(), r"^tester-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-")
        member.send_join()
        told = member.joined()
        self.assertEqual((told.error_code, told.generation_id, told.protocol_name), (0, 1, "range"))
        self.assertEqual((told.leader, told.protocol_type), (member.member_id, "consumer"))
        self.assertEqual([(one.member_id, one.metadata) for one in told.members], [(member.member_id, b"meta")])
        member.send_sync({member.member_id: b"all"})
        synced = member.answer()
        self.assertEqual((synced.error_code, synced.assignment, synced.protocol_name), (0, b"all", "range"))
        self.assertEqual(member.heartbeat(), 0)

    def test_a_second_member(self) -> None:
        """Its JoinGroup waits until the first has heard of the rebalance by a heartbeat, and has joined again."""
        first, second = self.member(), self.member()
        self.group_of(first)
        second.get_id()
        second.send_join()
        self.assertIsNone(second.answer())
        self.assertEqual(first.heartbeat(), ErrorCode.REBALANCE_IN_PROGRESS)
        first.send_join()
        self.assertEqual((first.joined().generation_id, second.joined().generation_id), (2, 2))
        self.assertEqual([first.leads, second.leads], [True, False])
        self.assertEqual(len(first.told.members), 2)
        self.assertEqual(second.told.members, [])
        second.send_sync()
        self.assertIsNone(second.answer(), "there is no assignment yet")
        first.send_sync({first.member_id: b"one", second.member_id: b"two"})
        self.assertEqual((first.answer().assignment, second.answer().assignment), (b"one", b"two"))
        self.assertEqual([first.heartbeat(), second.heartbeat()], [0, 0])

    def test_ten_members_join_and_leave(self) -> None:
        """All are in each generation; when some leave, the rest goes on without them."""
        members = [self.member() for _ in range(10)]
        for count in range(1, 11):
            self.group_of(*members[:count])
        self.assertEqual({member.generation for member in members}, {10})
        for member in members[5:]:
            (left,) = member.leave().members
            self.assertEqual(left.error_code, 0)
            self.assertEqual(member.heartbeat(), ErrorCode.UNKNOWN_MEMBER_ID)
        for member in members[:5]:
            self.assertEqual(member.heartbeat(), ErrorCode.REBALANCE_IN_PROGRESS)
        self.group_of(*members[:5])
        self.assertEqual(len(self.describe().members), 5)

    def test_refused_requests(self) -> None:
        """Unknown members, stale generations and syncs of another protocol get errors, and have no effect."""
        member = self.member()
        self.group_of(member)
        self.assertEqual(member.heartbeat(member_id="nobody"), ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(member.heartbeat(generation_id=0), ErrorCode.ILLEGAL_GENERATION)
        self.assertEqual(member.heartbeat(generation_id=2), ErrorCode.ILLEGAL_GENERATION)
        self.assertEqual(member.heartbeat(group_instance_id="i"), ErrorCode.UNKNOWN_MEMBER_ID)
        member.send_sync(protocol_name="sticky")
        self.assertEqual(member.answer().error_code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        for names in (None, "range"), ("consumer", None):
            member.send_sync(protocol_type=names[0], protocol_name=names[1])
            self.assertEqual(member.answer().error_code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member.send_sync(version=4, protocol_type=None, protocol_name=None)
        self.assertEqual(member.answer().error_code, 0, "only from version 5 on there are fields for them")
        stranger = self.member(member_id="stranger")
        stranger.send_join()
        self.assertEqual(stranger.joined().error_code, ErrorCode.UNKNOWN_MEMBER_ID)
        other = self.member()
        other.send_join(session_timeout_ms=1)
        self.assertEqual(other.joined().error_code, ErrorCode.INVALID_SESSION_TIMEOUT)
        self.assertEqual(member.heartbeat(), 0)

    def test_refusals_leave_no_group(self) -> None:
        """A refused request does not create a group."""
        self.member(group="a", member_id="stranger").send_join()
        other = self.member(group="b")
        other.send_join(session_timeout_ms=1)
        self.assertEqual(other.joined().error_code, ErrorCode.INVALID_SESSION_TIMEOUT)
        other.send_sync()
        self.assertEqual(other.answer().error_code, ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(other.heartbeat(), ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(self.server.broker.coordinators.groups.groups(), [])

    def test_every_version(self) -> None:
        """All versions serve a member from its first request to its last."""
        for version in range(10):
            member = self.member(group=f"v{version}")
            member.send_join(version)
            if version >= 4:
                self.assertEqual(member.joined().error_code, ErrorCode.MEMBER_ID_REQUIRED)
                member.send_join(version)
            self.assertEqual(member.joined().error_code, 0)
            member.send_sync({member.member_id: b"a"}, min(version, 5))
            self.assertEqual(member.answer().assignment, b"a")
            self.assertEqual(member.heartbeat(min(version, 4)), 0)
            self.assertEqual(member.leave(min(version, 5)).error_code, 0)
            self.assertEqual(self.describe(f"v{version}").group_state, "Empty")

    def test_errors_in_every_version(self) -> None:
        """An error can be spelled in all of them, without a protocol or with."""
        for version in range(10):
            member = self.member(member_id="stranger")
            member.send_join(version)
            told = member.joined()
            self.assertEqual(told.error_code, ErrorCode.UNKNOWN_MEMBER_ID)
            self.assertEqual(told.protocol_name, None if version >= 7 else "")
            self.assertEqual(told.generation_id, -1)

    def test_the_group_id_is_empty(self) -> None:
        """An empty group id is refused."""
        member = self.member(group="")
        member.send_join()
        self.assertEqual(member.joined().error_code, ErrorCode.INVALID_GROUP_ID)
        member.send_sync()
        self.assertEqual(member.answer().error_code, ErrorCode.INVALID_GROUP_ID)
        self.assertEqual(member.heartbeat(), ErrorCode.INVALID_GROUP_ID)
        self.assertEqual(member.leave().error_code, ErrorCode.INVALID_GROUP_ID)

    def test_the_group_id_is_long(self) -> None:
        """Ten kilobytes, and as much as a text on the wire can have, are a name like any other, after a restart too."""
        for length in (10_000, 32_767):
            member = self.member(group="g" * length)
            self.group_of(member)
            self.assertEqual(member.commit(5), 0)
            self.restart()
            self.assertEqual(self.describe(member.group_id).group_state, "Stable")
            self.assertEqual(fetch_committed(self.client, member.group_id), {("t", 0): 5})
            self.assertEqual(self.describe(member.group_id, version=4).members[0].member_id, member.member_id)

    def test_a_long_client_id(self) -> None:
        """The member id made of it still fits into a record."""
        member = self.member()
        member.client.wire.client_id = "c" * 32_000
        self.group_of(member)
        self.assertEqual(len(self.describe().members[0].client_id), 32_000)

    def test_static_members(self) -> None:
        """One that comes back takes over without a rebalance; its former self is fenced."""
        old, other = self.member(instance_id="i1"), self.member(instance_id="i2")
        self.group_of(old)
        self.group_of(old, other)
        new = self.member(instance_id="i2")
        new.send_join()
        self.assertEqual((new.joined().error_code, new.generation), (0, 2))
        self.assertNotEqual(new.member_id, other.member_id)
        self.assertEqual(other.heartbeat(), ErrorCode.FENCED_INSTANCE_ID)
        self.assertEqual(other.commit(1), ErrorCode.FENCED_INSTANCE_ID)
        self.assertEqual((old.heartbeat(), new.heartbeat()), (0, 0))


class TimeTests(GroupCase):
    """Sessions, rebalances, delays, on the broker's clock."""

    def test_a_session_ends(self) -> None:
        """A member that is not heard of is gone after its session timeout, and the others rebalance."""
        first, second = self.member(), self.member()
        self.group_of(first)
        self.group_of(first, second)
        for _ in range(3):
            self.client.turn(4)
            self.assertIn(first.heartbeat(), (0, ErrorCode.REBALANCE_IN_PROGRESS))
        self.assertEqual(second.heartbeat(), ErrorCode.UNKNOWN_MEMBER_ID)
        self.group_of(first)
        self.assertEqual(first.generation, 3)

    def test_version_0_has_one_timeout(self) -> None:
        """In version 0 members may take their session timeout to join again."""
        first, second = self.member(), self.member()
        for member in (first, second):
            member.send_join(0)
        first.joined()
        self.client.turn(9)
        self.assertIsNone(second.answer())
        self.client.turn(2)
        self.assertEqual((second.joined().error_code, second.leads), (0, True))

    def test_commits_keep_a_member_alive(self) -> None:
        """As heartbeats do."""
        member = self.member()
        self.group_of(member)
        for offset in range(10):
            self.client.turn(6)
            self.assertEqual(member.commit(offset), 0)
        self.assertEqual(member.heartbeat(), 0)

    def test_waiting_outlasts_the_idle_limit(self) -> None:
        """A JoinGroup that waits for others keeps its connection, however long; and is answered at last."""
        first = self.member(session_timeout_ms=1_800_000, rebalance_timeout_ms=1_700_000)
        second = self.member(session_timeout_ms=1_800_000, rebalance_timeout_ms=1_700_000)
        self.group_of(first)
        self.group_of(first, second)
        second.send_join(protocols={"range": b"other"})
        for _ in range(160):
            self.client.turn(10)
        self.assertTrue(first.client.closed, "it was idle")
        self.assertFalse(second.client.closed)
        self.assertIsNone(second.answer())
        self.client.turn(101)
        self.assertEqual(second.joined().error_code, 0)
        self.assertTrue(second.leads, "the first one did not come back")

    def test_hanging_up_while_waiting(self) -> None:
        """A member that disconnects while it waits is removed when its session ends; the others go on."""
        first, second = self.member(), self.member()
        self.group_of(first)
        second.get_id()
        second.send_join()
        second.client.transport.loseConnection()
        self.group_of(first)
        self.assertEqual(len(self.describe().members), 2)
        self.client.turn(9)
        self.assertEqual(first.heartbeat(), 0)
        self.client.turn(2)
        self.assertEqual(first.heartbeat(), ErrorCode.REBALANCE_IN_PROGRESS)
        self.group_of(first)
        self.assertEqual([one.member_id for one in self.describe().members], [first.member_id])

    def test_vanishing_members(self) -> None:
        """
        Ten thousand members that join and are never heard of again leave nothing behind; other groups are not
        affected.
        """
        steady = self.member(group="steady", session_timeout_ms=60_000)
        self.group_of(steady)
        coordinator = self.server.broker.coordinators.groups
        for count in range(10_000):
            member = self.member(group=f"g{count % 1000}", session_timeout_ms=6000)
            member.send_join(3 if count % 2 else 9)
            member.client.transport.loseConnection()
            if count % 100 == 99:
                self.client.turn(0.01)
        self.assertEqual(steady.heartbeat(), 0)
        self.assertGreater(len(coordinator.groups()), 500)
        for _ in range(40):
            self.client.turn(10)
            self.assertEqual(steady.heartbeat(), 0)
        # What had members once has a record until the next look at what is stale.
        self.client.turn(20)
        self.assertEqual(steady.heartbeat(), 0)
        for _ in range(20):
            self.client.turn(10)
            self.assertEqual(steady.heartbeat(), 0)
        self.assertEqual([group.group_id for group in coordinator.groups()], ["steady"])
        self.assertEqual(sum(len(shard.alarms) for shard in coordinator.active_shards()), 1)

    def test_idle_groups_cost_no_timer(self) -> None:
        """A heartbeat moves no timer, and a group without members has none."""
        member = self.member()
        self.group_of(member)
        coordinator = self.server.broker.coordinators.groups
        (alarm,) = [alarm for shard in coordinator.active_shards() for alarm in shard.alarms.values()]
        for _ in range(3):
            self.client.turn(1)
            member.heartbeat()
        (now,) = [alarm for shard in coordinator.active_shards() for alarm in shard.alarms.values()]
        self.assertIs(now, alarm)
        member.leave()
        self.assertEqual([alarm for shard in coordinator.active_shards() for alarm in shard.alarms.values()], [])

    def test_a_restart_in_the_middle(self) -> None:
        """Members go on in the generation they were in: no rebalance, commits and heartbeats as before."""
        first, second = self.member(), self.member()
        self.group_of(first)
        self.group_of(first, second)
        self.assertEqual(first.commit(7), 0)
        self.restart()
        first.client, second.client = self.server.connect(), self.server.connect()
        self.assertEqual(fetch_committed(self.client), {("t", 0): 7})
        self.assertEqual([first.heartbeat(), second.heartbeat()], [0, 0])
        self.assertEqual(second.commit(8), 0)
        described = self.describe()
        self.assertEqual((described.group_state, described.protocol_data), ("Stable", "range"))
        self.assertEqual(
            {one.member_assignment for one in described.members}, {first.member_id.encode(), second.member_id.encode()}
        )
        self.client.turn(11)
        self.assertEqual(first.heartbeat(), ErrorCode.UNKNOWN_MEMBER_ID)

    def test_a_restart_while_joining(self) -> None:
        """Waiting requests get NOT_COORDINATOR before the connection closes."""
        first, second = self.member(), self.member()
        self.group_of(first)
        second.get_id()
        second.send_join()
        self.server.stop()
        (told,) = second.client.answers()
        self.assertEqual(told.error_code, ErrorCode.NOT_COORDINATOR)
        self.assertTrue(second.client.closed)
        self.assertEqual([str(call) for call in self.server.reactor.getDelayedCalls()], [])

    def test_waiting_holds_the_connection_only(self) -> None:
        """Later requests of the same connection wait for a JoinGroup; other clients are served."""
        first, second = self.member(), self.member()
        self.group_of(first)
        second.get_id()
        second.send_join()
        second.client.send(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        self.assertIsNone(second.answer())
        self.assertEqual(first.heartbeat(), ErrorCode.REBALANCE_IN_PROGRESS)
        first.send_join()
        first.joined()
        self.client.turn()
        joined, found = second.client.answers()
        self.assertEqual(joined.error_code, 0)
        self.assertEqual(found.coordinators[0].error_code, 0)


class DelayTests(GroupCase):
    """The first rebalance of a group waits for more members."""

    config = {"offsets.topic.num.partitions": "1"}

    def test_members_start_together(self) -> None:
        """Two that come within the delay are in the first generation both."""
        first, second = self.member(), self.member()
        for member in (first, second):
            member.get_id()
            member.send_join()
            self.client.turn(1)
        self.assertIsNone(first.answer())
        for _ in range(5):
            self.client.turn(1)
        self.assertEqual((first.joined().generation_id, second.joined().generation_id), (1, 1))


class ElsewhereTests(GroupCase):
    """A broker that does not coordinate a group says so."""

    def test_not_here(self) -> None:
        """Without the internal topic there is no coordinator."""
        self.server.delete_internal("__consumer_offsets")
        member = self.member(member_id="m")
        member.send_join()
        self.assertEqual(member.joined().error_code, ErrorCode.NOT_COORDINATOR)
        member.send_sync()
        self.assertEqual(member.answer().error_code, ErrorCode.NOT_COORDINATOR)
        self.assertEqual(member.heartbeat(), ErrorCode.NOT_COORDINATOR)
        self.assertEqual(member.leave().error_code, ErrorCode.NOT_COORDINATOR)
        self.assertEqual(member.commit(1), ErrorCode.NOT_COORDINATOR)

    def test_deleted_offsets_topic(self) -> None:
        """Waiting requests get NOT_COORDINATOR; the next look-up creates a new, empty topic."""
        first, second = self.member(), self.member()
        self.group_of(first)
        second.get_id()
        second.send_join()
        self.server.delete_internal("__consumer_offsets")
        self.assertEqual(second.joined().error_code, ErrorCode.NOT_COORDINATOR)
        self.assertEqual(self.find().error_code, 0)
        self.assertEqual(first.heartbeat(), ErrorCode.UNKNOWN_MEMBER_ID)
        self.assertEqual(self.listed(), [])

    def test_after_the_stop(self) -> None:
        """A broker that stops coordinates nothing more."""
        coordinator = self.server.broker.coordinators.groups
        coordinator.stop()
        for request, version in (
            (JoinGroupRequest(group_id="g", session_timeout_ms=6000, member_id="", protocol_type="", protocols=[]), 5),
            (SyncGroupRequest(group_id="g", generation_id=1, member_id="m"), 3),
            (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3),
            (LeaveGroupRequest(group_id="g", members=[]), 3),
        ):
            self.assertEqual(self.client.ask(request, version).error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
