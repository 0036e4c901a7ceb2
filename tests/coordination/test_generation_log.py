"""Tests of :mod:`logbus.coordination.generation_log` and of other log messages about groups."""

from __future__ import annotations

from logbus.wire.messages.groups import DeleteGroupsRequest
from tests.handlers.group_kit import commit
from tests.handlers.test_consumer_groups import SUBSCRIPTION, ConsumerGroupCase
from tests.hostile.log_capture import logged

DAY_S = 24 * 3600


class NewsTests(ConsumerGroupCase):
    """One log line for each change of a group."""

    config = {**ConsumerGroupCase.config, "offsets.retention.minutes": str(24 * 60)}

    def test_a_classic_group(self) -> None:
        """Its generations, that it is empty, that it is deleted; heartbeats and commits are no news."""
        member = self.member()
        with logged() as lines:
            self.group_of(member)
            self.assertEqual((member.heartbeat(), member.commit(1)), (0, 0))
            member.leave()
            self.client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
        self.assertEqual(
            lines,
            [
                "group 'g' is at generation 1, with 1 members",
                "group 'g' is empty, at generation 2",
                "group 'g' was deleted",
            ],
        )

    def test_a_consumer_group(self) -> None:
        """Its epochs; a heartbeat in which nothing changes is no news."""
        new = self.consumer("new")
        with logged() as lines:
            new.beat()
            new.beat()
            new.send(member_epoch=-1)
        self.assertEqual(lines, ["group 'g' is at epoch 1, with 1 members", "group 'g' is empty, at epoch 2"])

    def test_late_members(self) -> None:
        """The last session ends."""
        self.consumer("new").beat()
        with logged() as lines:
            self.client.turn(60)
        self.assertIn("group 'g' is empty, at epoch 2", lines)

    def test_migration(self) -> None:
        """Each change of protocol, with the epoch or generation it leads to."""
        old = self.classic()
        old.send_sync({old.member_id: b""})
        old.answer()
        new = self.consumer("new")
        with logged() as lines:
            new.beat()
            new.send(member_epoch=-1)
        self.assertEqual(
            lines,
            [
                "group 'g' speaks the consumer protocol from now on",
                "group 'g' is at epoch 2, with 2 members",
                "group 'g' is at epoch 3, with 1 members",
                "group 'g' is at generation 2, with 1 members",
                "group 'g' speaks the classic protocol from now on",
            ],
        )

    def test_an_empty_group_makes_way(self) -> None:
        """A group without members takes the protocol of who comes, and the log says so."""
        new = self.consumer("new")
        new.beat()
        new.send(member_epoch=-1)
        with logged() as lines:
            self.member().send_join(protocols={"range": SUBSCRIPTION})
            self.client.turn()
        self.assertEqual(lines, ["group 'g' speaks the classic protocol from now on"])

    def test_group_ids_are_quoted(self) -> None:
        """Group ids are quoted and shortened, so that they cannot forge lines."""
        with logged() as lines:
            self.group_of(self.member(group="g\n" + "x" * 20_000))
        (line,) = lines
        self.assertTrue(line.startswith("group 'g\\nxxx"), line)
        self.assertLess(len(line), 200)

    def test_age(self) -> None:
        """One line reports all expired offsets, whatever the number of groups."""
        for number in range(3):
            commit(self.client, {("t", 0): 1, ("t", 1): 2}, f"g{number}")
        with logged() as lines:
            for _ in range(DAY_S // 60 + 11):
                self.client.turn(60)
        told = [line for line in lines if "expired" in line]
        self.assertEqual(told, ["6 committed offsets have expired; 3 groups without offsets were removed"])
