"""Audits of mirrors between clusters in memory."""

from __future__ import annotations

from random import Random
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from logbus.client import Producer, TransactionAborted
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.config_admin import Resource, ResourceType
from logbus.errors import LogbusError
from logbus.mirror.audit.audit_options import AuditOptions
from logbus.mirror.audit.mirror_audit import MirrorAudit
from logbus.mirror.audit.partition_report import MirrorVerdict, PartitionReport
from logbus.mirror.audit.range_reader import Side, Unread
from logbus.mirror.mirror_options import MirrorOptions
from logbus.model import TopicPartition
from tests.mirror.kit import MirrorCase

NUMBERS = [b"%d" % number for number in range(30)]


class AuditCase(MirrorCase):
    """One source, one target."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster("a")
        self.cluster("b")

    def audit(
        self, options: AuditOptions | None = None, wait: float = 0, source: str = "a", target: str = "b", **mirror: Any
    ) -> list[PartitionReport]:
        """Audit the flow from ``a`` to ``b``, or another one."""
        flow = MirrorOptions(source=source, target=target, heartbeat_interval=0, **mirror)
        made = MirrorAudit(self.clients[source], self.clients[target], flow, options or AuditOptions(), wait)
        found: list[PartitionReport] = self.result(Deferred.fromCoroutine(made.run()), 60)
        return found

    def itself(self) -> MirrorAudit:
        """An audit of a cluster against itself."""
        client = self.clients["a"]
        return MirrorAudit(client, client, MirrorOptions(heartbeat_interval=0), AuditOptions())

    def only(self, **options: Any) -> PartitionReport:
        """The report of the only partition."""
        (found,) = self.audit(**options)
        return found

    def write(self, name: str, topic: str, *values: bytes | None, time: int = 1_700_000_000_000) -> None:
        """Write records with a known time, each with its value as its key, too."""

        async def send() -> None:
            producer = Producer(self.clients[name])
            for each in values:
                await producer.send(topic, each, (each or b"gone")[:1], partition=0, timestamp=time)
            await producer.close()

        self.result(Deferred.fromCoroutine(send()))


class MirroredTests(AuditCase):
    """What a mirror has copied."""

    def test_the_same_cluster(self) -> None:
        """A cluster is not the copy of itself, which it would be without prefixes."""
        running = Deferred.fromCoroutine(self.itself().run())
        self.settle(2)
        self.assertIn("are the same cluster", str(self.failureResultOf(running, LogbusError).value))

    def test_a_partition_that_cannot_be_read(self) -> None:
        """One side's error is its partition's: the others are compared all the same."""
        read = Side.read

        async def failing(side: Side, *more: Any) -> None:
            if side.partition == TopicPartition("a.orders", 1):
                raise Unread("nothing was read of it")
            await read(side, *more)

        self.create("a", "orders", 2)
        for partition in (0, 1):
            self.send("a", "orders", NUMBERS, partition=partition)
        self.mirror_all("a", "b")
        self.patch(Side, "read", failing)
        for policy in ("delete", "compact"):
            for name, topic in (("a", "orders"), ("b", "a.orders")):
                resource = Resource(ResourceType.TOPIC, topic)
                change = {resource: {"cleanup.policy": policy}}
                self.assertEqual(self.result(AdminClient(self.clients[name]).alter_configs(change)), {resource: None})
            first, second = self.audit()
            self.assertEqual((first.verdict, second.verdict), (MirrorVerdict.COMPLETE, MirrorVerdict.UNKNOWN), policy)
            self.assertIn("nothing was read of it", second.problem or "")

    def test_complete(self) -> None:
        """All partitions are compared, and each record was copied once; control records do not count."""
        self.create("a", "orders", 2)

        async def send() -> None:
            producer = Producer(self.clients["a"], transactional_id="t", wall_clock=self.clusters["a"].wall_clock)
            for number in range(4):
                try:
                    async with producer.transaction():
                        await producer.send("orders", b"%d" % number, partition=0, headers=(("n", b"1"),))
                        if number % 2:
                            raise TransactionAborted("as it happens")
                except TransactionAborted:
                    pass
            await producer.close()

        self.result(Deferred.fromCoroutine(send()))
        self.send("a", "orders", NUMBERS, partition=1)
        self.mirror_all("a", "b")
        found = self.audit()
        self.assertEqual([(each.source, each.copy, each.behind) for each in found], [(2, 2, 0), (30, 30, 0)])
        self.assertEqual({each.verdict for each in found}, {MirrorVerdict.COMPLETE})

    def test_behind(self) -> None:
        """What is not copied yet is counted apart; a mirror that runs is waited for."""
        self.create("a", "orders")
        self.create("a", "bills")
        self.send("a", "orders", NUMBERS[:10])
        self.mirror_all("a", "b")
        self.send("a", "orders", NUMBERS[10:])
        self.send("a", "bills", NUMBERS)
        bills, orders = self.audit()
        self.assertEqual((orders.verdict, orders.source, orders.behind), (MirrorVerdict.BEHIND, 10, 20))
        self.assertEqual((bills.verdict, bills.source, bills.behind), (MirrorVerdict.BEHIND, 0, 30))
        self.mirror("a", "b")
        found = self.audit(wait=20)
        self.assertEqual([(each.verdict, each.source) for each in found], [(MirrorVerdict.COMPLETE, 30)] * 2)

    def test_deleted_at_the_source(self) -> None:
        """Records that only the copy has still are no mistake of the mirror; what else differs is seen all the same."""
        self.create("a", "orders")
        self.write("a", "orders", *[b"same"] * 5)
        self.send("a", "orders", NUMBERS)
        self.mirror_all("a", "b")
        self.result(AdminClient(self.clients["a"]).delete_records({TopicPartition("orders", 0): 3}))
        found = self.only()
        self.assertEqual((found.verdict, found.gone_at_source, found.source), (MirrorVerdict.COMPLETE, 3, 32))
        self.result(AdminClient(self.clients["b"]).delete_records({TopicPartition("a.orders", 0): 8}))
        found = self.only()
        self.assertEqual((found.verdict, found.gone_at_target, found.source), (MirrorVerdict.COMPLETE, 5, 27))
        self.write("b", "a.orders", b"0")
        self.assertEqual(self.only().foreign, 1)

    def test_without_leader(self) -> None:
        """A partition that cannot be read on a side is unknown, and it is said what to do; the others are proved."""
        for name in ("a", "b"):
            self.clusters[name].boot(1)
        self.settle(1)
        self.create("a", "orders", 4)
        for number in range(4):
            self.send("a", "orders", NUMBERS, partition=number)
        self.mirror_all("a", "b")
        for name, copy in (("a", "orders"), ("b", "a.orders")):
            lost = {
                each.partition
                for each in (TopicPartition(copy, number) for number in range(4))
                if self.clients[name].leader(each) == 1
            }
            self.assertEqual(len(lost), 2)
            self.clusters[name].kill(1)
            self.settle(20)
            found = self.audit()
            for each in found:
                self.assertEqual(each.verdict is MirrorVerdict.UNKNOWN, each.partition in lost, each)
                if each.partition in lost:
                    self.assertRegex(
                        each.problem, rf"^{copy}-{each.partition} has no leader at the (source a|target b): start "
                    )
            self.clusters[name].boot(1)
            self.settle(20)
        self.assertEqual({each.verdict for each in self.audit()}, {MirrorVerdict.COMPLETE})

    def test_foreign(self) -> None:
        """What others write to a copy is seen, while the mirror goes on."""
        self.create("a", "orders")
        self.write("a", "orders", b"1", b"2")
        self.mirror("a", "b")
        self.settle(3)
        self.write("b", "a.orders", b"2", b"9")
        found = self.only(wait=5)
        self.assertEqual((found.verdict, found.repeated, found.foreign), (MirrorVerdict.DIFFERENT, 1, 1))
        self.assertEqual([each.kind.value for each in found.examples], ["repeated", "foreign"])

    def test_created_anew(self) -> None:
        """A topic that is another one than that which was copied is not compared, and it is said why."""
        self.create("a", "orders")
        self.send("a", "orders", NUMBERS)
        self.mirror_all("a", "b")
        self.result(AdminClient(self.clients["a"]).delete_topics(["orders"]))
        self.settle(1)
        self.create("a", "orders")
        self.assertIn("orders was deleted and created anew at the source", self.only().problem)

    def test_absent(self) -> None:
        """A topic or partition without a copy is a problem."""
        self.create("a", "orders", 2)
        self.create("b", "a.orders")
        self.send("a", "orders", NUMBERS, partition=1)
        found = self.audit()
        self.assertIn("a.orders has 1 partitions at the target", found[1].problem)
        self.assertEqual((found[1].verdict, found[1].behind), (MirrorVerdict.UNKNOWN, 30))
        self.create("a", "bills")
        self.assertIn("the target has no topic a.bills", self.audit()[0].problem)

    def test_there_and_back(self) -> None:
        """Topics that keep their names, moved to another cluster and back, have each record once."""
        self.create("a", "orders")
        self.send("a", "orders", NUMBERS[:10])
        self.mirror_all("a", "b", naming="identity")
        self.assertEqual(self.only(naming="identity", source="b", target="a").verdict, MirrorVerdict.COMPLETE)
        self.send("b", "orders", NUMBERS[10:])
        self.mirror_all("b", "a", naming="identity")
        found = self.only(naming="identity", source="b", target="a")
        self.assertEqual((found.verdict, found.source, found.copy), (MirrorVerdict.COMPLETE, 30, 30))


class KilledTests(AuditCase):
    """Both directions, while brokers and mirrors are killed."""

    def test_under_kills(self) -> None:
        """Whatever is killed, and when: in the end each record was copied once, in order, both ways."""
        random, flows = Random(1), [("a", "b"), ("b", "a")]
        for name in "ab":
            self.create(name, "orders")
        running = {flow: self.mirror(*flow, refresh_interval=2.0) for flow in flows}
        for number in range(8):
            for name in "ab":
                self.send(name, "orders", [b"%d" % (10 * number + n) for n in range(10)])
            self.settle(random.random())
            if number % 2:
                name = random.choice("ab")
                self.clusters[name].kill(0)
                self.settle(random.random() * 3)
                self.clusters[name].boot(0)
                self.settle(2)
            else:
                flow = random.choice(flows)
                running[flow].ended.addErrback(lambda failure: failure.trap(CancelledError, LogbusError))
                running[flow].ended.cancel()
                running[flow] = self.mirror(*flow, refresh_interval=2.0)
        for source, target in flows:
            found = self.only(wait=20, source=source, target=target)
            self.assertEqual((found.verdict, found.source), (MirrorVerdict.COMPLETE, 80))


class OtherMirrorTests(AuditCase):
    """Copies of which no offset syncs say up to where they go."""

    def setUp(self) -> None:
        super().setUp()
        self.create("a", "orders")
        self.create("b", "a.orders")

    def test_differences(self) -> None:
        """Records that are missing and replaced are counted in their windows."""
        self.write("a", "orders", b"1", b"2", b"3")
        self.write("b", "a.orders", b"1", b"2", b"3")
        later = 1_700_000_000_000 + 3_600_000
        self.write("a", "orders", b"4", b"5", b"6", time=later)
        self.write("b", "a.orders", b"4", b"X", time=later)
        found = self.only()
        first, second = found.windows
        self.assertEqual((first.verdict, second.verdict), (MirrorVerdict.COMPLETE, MirrorVerdict.DIFFERENT))
        self.assertEqual((second.source, second.copy, found.missing, found.foreign), (3, 2, 2, 1))
        self.assertEqual(self.only(options=AuditOptions(until_ms=later)).verdict, MirrorVerdict.COMPLETE)
        self.assertEqual(self.only(options=AuditOptions(since_ms=later)).source, 3)

    def test_order(self) -> None:
        """The same records in another order are not the same."""
        self.write("a", "orders", b"1", b"2", b"3")
        self.write("b", "a.orders", b"1", b"3", b"2")
        found = self.only()
        self.assertEqual((found.verdict, found.missing, found.foreign), (MirrorVerdict.REORDERED, 0, 0))

    def test_order_of_windows(self) -> None:
        """Nor are those whose windows are the same, and come in another order."""
        later = 1_700_000_000_000 + 3_600_000
        for name, topic, times in ("a", "orders", (0, later)), ("b", "a.orders", (later, 0)):
            for time in times:
                self.write(name, topic, b"1", b"2", time=time)
        self.assertEqual(self.only().verdict, MirrorVerdict.REORDERED)
        self.assertEqual(self.only(options=AuditOptions(since_ms=later)).verdict, MirrorVerdict.COMPLETE)

    def test_more_partitions(self) -> None:
        """What the copy has in partitions that the source lacks is foreign; without records they are no matter."""
        self.create("a", "bills")
        self.create("b", "a.bills", 3)
        self.send("b", "a.bills", NUMBERS[:5], partition=2)
        bills, extra, orders = self.audit()
        self.assertEqual((bills.verdict, orders.verdict), (MirrorVerdict.COMPLETE, MirrorVerdict.COMPLETE))
        self.assertEqual((extra.topic, extra.partition, extra.source, extra.foreign), ("bills", 2, 0, 5))

    def test_deleted_and_different(self) -> None:
        """Where one side has deleted its oldest records, what else differs is not taken for that, nor shifts it."""
        values = [b"%d" % number for number in range(12)]
        self.write("a", "orders", *values)
        self.write("b", "a.orders", *values[:6], b"stray", *values[6:9], *values[10:])
        self.delete("a", "orders", 4)
        found = self.only()
        self.assertEqual((found.gone_at_source, found.missing, found.foreign), (4, 1, 1))
        self.assertEqual([(each.kind.value, each.offset) for each in found.examples], [("missing", 9), ("foreign", 6)])
        self.delete("b", "a.orders", 7)
        found = self.only()
        self.assertEqual((found.gone_at_target, found.missing, found.foreign), (2, 1, 0))
        self.delete("a", "orders", 12)
        self.assertEqual((self.only().verdict, self.only().gone_at_source), (MirrorVerdict.COMPLETE, 5))

    def test_only_added(self) -> None:
        """What was deleted before the mirror began does not make another record missing, if the copy has one more."""
        self.write("a", "orders", b"0", b"1", b"2", b"3")
        self.write("b", "a.orders", b"1", b"2", b"stray", b"3")
        self.delete("a", "orders", 1)
        found = self.only()
        self.assertEqual((found.gone_at_source, found.missing, found.foreign), (0, 0, 1))

    def test_tombstones_and_deletion(self) -> None:
        """A key with a tombstone was not deleted by retention, so a copy that lacks the tombstone differs, and back."""
        self.create("a", "users", cleanup_policy="compact,delete", retention_ms="-1")
        self.create("b", "a.users", cleanup_policy="compact,delete", retention_ms="-1")
        self.write("a", "users", b"0", b"gone", b"1", None)
        self.write("b", "a.users", b"0", b"gone", b"1")
        self.delete("a", "users", 1)
        found = self.only(topics_of="users")
        self.assertEqual((found.gone_at_source, found.missing, found.foreign), (1, 0, 1))
        self.write("a", "users", b"gone")
        self.write("b", "a.users", None)
        self.delete("b", "a.users", 1)
        found = self.only(topics_of="users")
        self.assertEqual((found.gone_at_target, found.missing, found.foreign), (0, 1, 0))

    def test_compacted_until(self) -> None:
        """Of a key that was written later nothing can be said, since compaction may have removed what counted."""
        self.create("a", "users", cleanup_policy="compact")
        self.create("b", "a.users", cleanup_policy="compact")
        later = 1_700_000_000_000 + 3_600_000
        self.write("a", "users", b"1", b"2")
        self.write("b", "a.users", b"1", b"2")
        self.write("a", "users", b"1", time=later)
        found = self.only(topics_of="users", options=AuditOptions(until_ms=later))
        self.assertEqual((found.verdict, found.source), (MirrorVerdict.COMPLETE, 1))

    def test_compacted(self) -> None:
        """Of compacted topics the last records of keys count, and tombstones are as good as no records."""
        self.create("a", "users", cleanup_policy="compact")
        self.create("b", "a.users", cleanup_policy="compact")
        self.write("a", "users", b"1", b"2", b"1x", None)
        self.write("b", "a.users", b"2", b"1", b"gone", b"1x", None)
        found = self.only(topics_of="users")
        self.assertEqual((found.verdict, found.source, found.compacted), (MirrorVerdict.COMPLETE, 2, True))
        self.write("b", "a.users", b"2y", b"3")
        self.write("a", "users", b"4")
        found = self.only(topics_of="users")
        self.assertEqual((found.missing, found.foreign), (2, 2))

    def delete(self, name: str, topic: str, before: int) -> None:
        """Delete the records of a topic's only partition before an offset."""
        self.result(AdminClient(self.clients[name]).delete_records({TopicPartition(topic, 0): before}))

    def only(self, topics_of: str = "orders", **options: Any) -> PartitionReport:
        """The report of the only partition of a topic."""
        (found,) = [each for each in self.audit(**options) if each.topic == topics_of]
        return found
