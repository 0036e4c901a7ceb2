"""DescribeGroups, ListGroups, DeleteGroups."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.handlers.authorization.access import bits
from logbus.security.acl.acls import OPERATIONS_OF, ResourceType
from logbus.wire.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from tests.handlers.group_kit import GroupCase, commit, fetch_committed

OPERATIONS_UNKNOWN = -(2**31)


class DescribeTests(GroupCase):
    """DescribeGroups."""

    def test_a_stable_group(self) -> None:
        """Its members, who they are, where they come from, and what was assigned to them."""
        member = self.member(instance_id="i1")
        self.group_of(member)
        found = self.describe()
        self.assertEqual(
            (found.error_code, found.group_state, found.protocol_type, found.protocol_data),
            (0, "Stable", "consumer", "range"),
        )
        (one,) = found.members
        self.assertEqual(
            (one.member_id, one.group_instance_id, one.client_id, one.client_host),
            (member.member_id, "i1", "tester", "/10.0.0.1"),
        )
        self.assertEqual((one.member_metadata, one.member_assignment), (b"meta", member.member_id.encode()))

    def test_the_states(self) -> None:
        """As Kafka spells them."""
        first, second = self.member(), self.member()
        first.get_id()
        self.assertEqual(self.describe().group_state, "Empty")
        first.send_join()
        first.joined()
        self.assertEqual(self.describe().group_state, "CompletingRebalance")
        self.sync(first)
        self.assertEqual(self.describe().group_state, "Stable")
        second.get_id()
        second.send_join()
        self.assertEqual(self.describe().group_state, "PreparingRebalance")

    def test_missing_group(self) -> None:
        """A missing group is "Dead", from version 6 on an error."""
        for version in range(6):
            found = self.describe("nobody", version)
            self.assertEqual((found.error_code, found.group_state, found.members), (0, "Dead", []))
        found = self.describe("nobody", 6)
        self.assertEqual((found.error_code, found.group_state), (ErrorCode.GROUP_ID_NOT_FOUND, "Dead"))
        self.assertIn("'nobody'", found.error_message or "")
        self.assertEqual(self.listed(), [])

    def test_authorized_operations(self) -> None:
        """
        All operations on groups are allowed, if the client asks for them and the group can be described: those that an
        authorizer tells of, too.
        """
        commit(self.client, {("t", 0): 1})
        self.assertEqual(self.describe().authorized_operations, OPERATIONS_UNKNOWN)
        asked = self.describe(include_authorized_operations=True).authorized_operations
        self.assertEqual([bit for bit in range(16) if asked >> bit & 1], [3, 6, 8, 10, 11])
        self.assertEqual(asked, bits(OPERATIONS_OF[ResourceType.GROUP]))
        self.server.broker.coordinators.groups.stop()
        found = self.describe(include_authorized_operations=True)
        self.assertEqual(
            (found.error_code, found.authorized_operations), (ErrorCode.COORDINATOR_NOT_AVAILABLE, OPERATIONS_UNKNOWN)
        )

    def test_repeated_group_id(self) -> None:
        """A repeated group id is described once."""
        commit(self.client, {("t", 0): 1})
        response = self.client.ask(DescribeGroupsRequest(groups=["a group"] * 100 + ["h"]), 5)
        self.assertEqual([group.group_id for group in response.groups], ["a group", "h"])


class ListTests(GroupCase):
    """ListGroups."""

    def test_filters(self) -> None:
        """By state and by type, in any case; what no group can be filters all away."""
        self.group_of(self.member(group="used"))
        commit(self.client, {("t", 0): 1}, "simple")

        def names(**filters: list[str]) -> list[str]:
            return sorted(group.group_id for group in self.listed(**filters))

        self.assertEqual(names(), ["simple", "used"])
        self.assertEqual(names(states_filter=["Stable"]), ["used"])
        self.assertEqual(names(states_filter=["stable", "EMPTY"]), ["simple", "used"])
        self.assertEqual(names(states_filter=["Dead"]), [])
        self.assertEqual(names(types_filter=["Classic"]), ["simple", "used"])
        self.assertEqual(names(types_filter=["consumer"]), [])
        self.assertEqual(names(types_filter=["classic"], states_filter=["empty"]), ["simple"])

    def test_versions(self) -> None:
        """The older say less."""
        self.group_of(self.member())
        for version in range(6):
            (group,) = self.client.ask(ListGroupsRequest(), version).groups
            self.assertEqual((group.group_id, group.protocol_type), ("g", "consumer"))
            self.assertEqual(group.group_state, "Stable" if version >= 4 else "")
            self.assertEqual(group.group_type, "classic" if version >= 5 else "")


class DeleteTests(GroupCase):
    """DeleteGroups."""

    def delete(self, *groups: str, version: int = 2) -> dict[str, int]:
        response = self.client.ask(DeleteGroupsRequest(groups_names=list(groups)), version)
        return {result.group_id: result.error_code for result in response.results}

    def test_deleting(self) -> None:
        """With what they committed; not as long as they have members, nor if they are not there."""
        member = self.member(group="left")
        self.group_of(member)
        self.assertEqual(member.commit(5), 0)
        used = self.member(group="used")
        self.group_of(used)
        commit(self.client, {("t", 1): 6}, "simple")
        self.assertEqual(
            self.delete("left", "simple", "nobody", "simple"),
            {"left": ErrorCode.NON_EMPTY_GROUP, "simple": 0, "nobody": ErrorCode.GROUP_ID_NOT_FOUND},
        )
        member.leave()
        self.assertEqual([self.delete("left", version=version)["left"] for version in (0, 1)], [0, 69])
        for _ in range(2):
            self.assertEqual([group.group_id for group in self.listed()], ["used"])
            self.assertEqual(fetch_committed(self.client, "left"), {})
            self.restart()

    def test_pending_member(self) -> None:
        """A group can be deleted while a member id is reserved; the next member creates it again."""
        member = self.member()
        member.get_id()
        self.assertEqual(self.delete("g"), {"g": 0})
        member.send_join()
        self.assertEqual(member.joined().error_code, ErrorCode.UNKNOWN_MEMBER_ID)
        member.member_id = ""
        self.group_of(member)
        self.assertEqual(member.heartbeat(), 0)
