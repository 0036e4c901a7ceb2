"""Offsets of groups, translated from a source to a target."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import succeed

from logbus.client import CommittedOffset, Consumer
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.config_admin import Resource, ResourceType
from logbus.errors import ApiError, ErrorCode
from logbus.mirror.checkpoints import Checkpoints
from logbus.mirror.mirror_records import Checkpoint
from logbus.model import TopicPartition
from tests.mirror.kit import MirrorCase

THERE, HERE = TopicPartition("orders", 0), TopicPartition("a.orders", 0)


class CheckpointTests(MirrorCase):
    """One group ``billing`` of cluster ``a``."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster("a")
        self.cluster("b")
        self.create("a", "orders")

    def commit(self, name: str, partition: TopicPartition, offset: int) -> None:
        """Commit an offset of the group."""
        admin = AdminClient(self.clients[name])
        answers = self.result(admin.alter_group_offsets("billing", {partition: CommittedOffset(offset)}))
        self.assertEqual(answers, {partition: None})

    def committed(self) -> int | None:
        """The group's offset at the target."""
        found = self.result(AdminClient(self.clients["b"]).list_group_offsets(["billing"]))["billing"]
        return found[HERE].offset if HERE in found else None

    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints at the target."""
        return [Checkpoint.decode(each.key, each.value) for each in self.read("b", "a.checkpoints.internal")]

    def options(self, **more: Any) -> dict[str, Any]:
        return {"checkpoint_interval": 1.0, "sync_groups": True, **more}

    def send_in_turns(self) -> None:
        """Ten transactions of the mirror with ten records each, so that offsets differ between the sides."""
        for turn in range(10):
            self.send("a", "orders", [b"%d" % (10 * turn + n) for n in range(10)])
            self.settle(2)

    def test_translation(self) -> None:
        """Wherever a group is, it reads on at the target with the record that it would have read at the source."""
        self.mirror("a", "b", **self.options())
        self.send_in_turns()
        copies = {int(each.value or b"-1"): each.offset for each in self.read("b", "a.orders")}
        for offset in (0, 1, 5, 10, 19, 55, 99):
            self.commit("a", THERE, offset)
            self.settle(3)
            last = self.checkpoints()[-1]
            self.assertEqual((last.group, last.partition, last.upstream), ("billing", HERE, offset))
            # Offsets between records are those of transaction markers.
            self.assertLessEqual(last.downstream, copies[offset])
            self.assertEqual([n for n, at in copies.items() if last.downstream <= at < copies[offset]], [])
            self.assertEqual(self.committed(), last.downstream)

    def test_at_the_end(self) -> None:
        """A group that has read everything has read everything."""
        self.mirror("a", "b", **self.options())
        self.send_in_turns()
        self.commit("a", THERE, 100)
        self.settle(3)
        end = self.read("b", "a.orders")[-1].offset + 1
        self.assertEqual(self.committed(), end)

    def test_more_metadata_than_the_target_takes(self) -> None:
        """The offset is committed without them; what is told, once, names what would be right."""
        self.cluster("c", offset_metadata_max_bytes="3")
        running = self.mirror("a", "c", **self.options())
        admin = AdminClient(self.clients["a"])
        for offset in (1, 2):
            self.send("a", "orders", [b"1"])
            self.settle(3)
            self.result(admin.alter_group_offsets("billing", {THERE: CommittedOffset(offset, metadata="more")}))
            self.settle(3)
            last = self.read("c", "a.orders")[-1].offset
            found = self.result(AdminClient(self.clients["c"]).list_group_offsets(["billing"]))["billing"]
            self.assertEqual(found[HERE].offset, last + 1)
            self.assertEqual(found[HERE].metadata, "")
        [told] = [line for line in running.lines if "billing" in line]
        self.assertRegex(told, "without their metadata: .*OFFSET_METADATA_TOO_LARGE.*; raise offset.metadata.max.bytes")
        self.assertEqual(running.mirror.status.problems, {})

    def test_checkpoints_that_cannot_be_written(self) -> None:
        """The problem is told while it lasts; then checkpoints are written again."""
        running = self.mirror("a", "b", **self.options())
        self.send_in_turns()
        admin = AdminClient(self.clients["b"])
        topic = Resource(ResourceType.TOPIC, "a.checkpoints.internal")
        self.assertEqual(self.result(admin.alter_configs({topic: {"max.message.bytes": "1"}})), {topic: None})
        self.commit("a", THERE, 10)
        self.settle(3)
        self.assertIn("more than max.message.bytes = 1", running.mirror.status.problems["checkpoints"])
        self.assertEqual(self.checkpoints(), [])
        self.result(admin.alter_configs({topic: {"max.message.bytes": None}}))
        self.settle(3)
        self.assertEqual(running.mirror.status.problems, {})
        self.assertEqual([each.upstream for each in self.checkpoints()], [10])

    def test_a_round_that_fails(self) -> None:
        """Whatever goes wrong in a round, there is another one."""
        emit, failures = Checkpoints.emit, [RuntimeError("as it happens")]

        async def failing(checkpoints: Checkpoints, *more: Any) -> None:
            if failures:
                raise failures.pop()
            await emit(checkpoints, *more)

        self.patch(Checkpoints, "emit", failing)
        self.mirror("a", "b", **self.options())
        self.send_in_turns()
        self.commit("a", THERE, 10)
        self.settle(3)
        self.assertEqual([each.upstream for each in self.checkpoints()], [10])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_offsets_of_the_target_that_cannot_be_read(self) -> None:
        """A group whose offset at the target is not known may be ahead: it stays, and goes on once that is known."""
        running = self.mirror("a", "b", **self.options())
        self.send_in_turns()
        self.commit("b", HERE, 60)
        real = AdminClient.list_group_offsets
        loading = ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it loads")
        answers: list[Any] = [{"billing": loading}, {"billing": {HERE: loading}}]

        def list_group_offsets(admin: AdminClient, groups: Any) -> Any:
            is_target = admin._cluster.cluster_id == there
            return succeed(answers.pop(0)) if is_target and answers else real(admin, groups)

        self.result(self.clients["b"].refresh())
        there = self.clients["b"].cluster_id
        self.patch(AdminClient, "list_group_offsets", list_group_offsets)
        self.commit("a", THERE, 10)
        self.settle(4)
        self.assertEqual(answers, [])
        self.assertEqual(self.committed(), 60)
        self.settle(3)
        self.assertEqual(self.committed(), 60)
        told = [line for line in running.lines if "billing" in line]
        self.assertEqual(len(told), 3, told)
        self.assertIn("not committed at the target: ", told[0])
        self.assertEqual(told[-1], "group billing: goes on")
        self.assertEqual(running.mirror.status.problems, {})

    def test_a_group_with_members(self) -> None:
        """A group that consumes at the target already is left alone."""
        self.mirror("a", "b", **self.options())
        self.send_in_turns()
        consumer = Consumer(self.clients["b"], "billing", auto_commit_interval=1000.0)
        consumer.subscribe(["a.orders"])
        reading = consumer.poll()
        reading.addErrback(lambda _: None)
        self.settle(5)
        self.commit("a", THERE, 50)
        self.settle(3)
        self.assertIsNone(self.committed())
        self.result(consumer.close())

    def test_a_group_that_is_ahead(self) -> None:
        """A group that has read on at the target does not go back."""
        self.mirror("a", "b", **self.options())
        self.send_in_turns()
        self.commit("b", HERE, 60)
        self.commit("a", THERE, 50)
        self.settle(3)
        self.assertEqual(self.committed(), 60)

    def test_after_a_restart(self) -> None:
        """A new mirror translates as well as what is left in the topic of offset syncs allows, and never backwards."""
        first = self.mirror("a", "b", **self.options())
        self.send_in_turns()
        self.commit("a", THERE, 55)
        self.settle(3)
        before = self.committed()
        first.mirror.stop()
        self.result(first.ended)
        self.mirror("a", "b", **self.options())
        self.settle(3)
        self.assertEqual(self.committed(), before)
        self.commit("a", THERE, 99)
        self.settle(3)
        after = self.committed()
        assert after is not None
        left = [each.value for each in self.read("b", "a.orders") if each.offset >= after]
        self.assertEqual(left, [b"99"])

    def test_a_copy_made_anew(self) -> None:
        """When a copy was deleted and made anew, groups get offsets of the new one, where fewer markers may be."""
        self.mirror("a", "b", **self.options(refresh_interval=1.0))
        self.send_in_turns()
        self.commit("a", THERE, 55)
        self.settle(3)
        self.assertEqual(self.committed(), self.checkpoints()[-1].downstream)
        self.result(AdminClient(self.clients["b"]).delete_topics(["a.orders"]))
        self.settle(10)
        self.assertEqual(len(self.values("b", "a.orders")), 100)
        self.check_where_it_goes_on(b"55")

    def test_a_copy_made_anew_during_a_restart(self) -> None:
        """The same, if the mirror was not there meanwhile."""
        first = self.mirror("a", "b", **self.options())
        self.send_in_turns()
        self.commit("a", THERE, 55)
        self.settle(3)
        first.mirror.stop()
        self.result(first.ended)
        self.result(AdminClient(self.clients["b"]).delete_topics(["a.orders"]))
        self.mirror("a", "b", **self.options())
        self.settle(10)
        self.assertEqual(len(self.values("b", "a.orders")), 100)
        self.check_where_it_goes_on(b"55")

    def check_where_it_goes_on(self, value: bytes) -> None:
        """The record that the group reads next at the target."""
        at = self.committed()
        assert at is not None
        self.assertEqual(next(each.value for each in self.read("b", "a.orders") if each.offset >= at), value)

    def test_until_the_end(self) -> None:
        """A mirror that ends with the records has translated the offsets, too."""
        self.send("a", "orders", [b"x"] * 10)
        self.commit("a", THERE, 7)
        self.mirror_all("a", "b", **self.options())
        self.assertEqual(self.committed(), 7)

    def test_heartbeats(self) -> None:
        """Heartbeats arrive by way of the source, with the name that tells the clusters upstream."""
        self.mirror("a", "b", heartbeat_interval=1.0, refresh_interval=2.0)
        self.settle(8)
        self.assertGreater(len(self.read("b", "a.heartbeats")), 2)
        self.assertGreater(len(self.read("b", "heartbeats")), 2)

    def test_without_rights(self) -> None:
        """What is in the way of checkpoints is said once; records are copied all the same."""
        mirror = self.mirror("a", "b", **self.options())

        class Refused:
            async def emit(self, *_: object) -> None:
                raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "groups may not be listed")

        mirror.mirror._checkpoints = Refused()  # type: ignore[assignment]
        self.send_in_turns()
        self.assertEqual(len(self.values("b", "a.orders")), 100)
        self.assertEqual(sum("checkpoints of groups cannot be written" in each for each in mirror.lines), 1)
