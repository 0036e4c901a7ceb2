"""Mirrors between clusters in memory."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred

from logbus.client import Fenced, Producer, TransactionAborted
from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.config_admin import Resource, ResourceType
from logbus.config import config_view
from logbus.config.validation import Findings
from logbus.errors import ConfigError, LogbusError
from logbus.handlers import api_versions
from logbus.mirror import position_store
from logbus.mirror.audit.mirror_audit import MirrorAudit
from logbus.mirror.audit.partition_report import MirrorVerdict
from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.name_filter import NameFilter
from logbus.model import TimestampOffset, TopicPartition
from logbus.security.acl.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
)
from logbus.security.acl.acls import ResourceType as AclResourceType
from tests.mirror.kit import MirrorCase, RunningMirror

INIT_PRODUCER_ID = 22
NUMBERS = [b"%d" % number for number in range(30)]


class CopyTests(MirrorCase):
    """One source, one target."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster("a")
        self.cluster("b")

    def test_records(self) -> None:
        """Records come with keys, values, timestamps and tombstones, in the same partitions, under a prefix."""
        self.create("a", "orders", 2, cleanup_policy="compact")
        self.send("a", "orders", [b"one", None, b"three"])
        self.send("a", "orders", [b"four"], partition=1)
        self.mirror_all("a", "b")
        for partition in (0, 1):
            theirs, ours = self.read("a", "orders", partition), self.read("b", "a.orders", partition)
            self.assertEqual([each[3:] for each in ours], [each[3:] for each in theirs])

    def test_no_topic_to_copy(self) -> None:
        """It is a problem where nothing waits for topics, so that a mistyped name does not look like success."""
        self.create("a", "orders")
        line = "there is no topic to copy: --topics matches none that User:ANONYMOUS may DESCRIBE at the source a"
        for until_end, problems in ((True, {"topics": line}), (False, {})):
            running = self.mirror("a", "b", topics=NameFilter(["order"]), until_end=until_end)
            self.settle(5)
            self.assertIn(line, running.lines)
            self.assertEqual(running.mirror.status.problems, problems)

    def test_headers(self) -> None:
        """Headers come with the records, in order and with their repetitions, and so does a time of long ago."""
        self.create("a", "orders")
        headers = (("trace", b"1"), ("trace", None), ("other", b""))

        async def send() -> None:
            producer = Producer(self.clients["a"])
            await producer.send("orders", b"x", None, partition=0, timestamp=86_400_000, headers=headers)
            await producer.close()

        self.result(Deferred.fromCoroutine(send()))
        self.mirror_all("a", "b")
        (copied,) = self.read("b", "a.orders")
        self.assertEqual((copied.key, copied.headers, copied.timestamp), (None, headers, 86_400_000))

    def test_batches_as_they_are(self) -> None:
        """A batch that is not small is copied as its producer has compressed it."""
        self.create("a", "orders")
        self.send("a", "orders", [bytes(range(256)) * 8 * (n + 1) for n in range(8)], codec="gzip")
        self.send("a", "orders", [bytes([n]) * 3000 for n in range(8)])
        mirror = self.mirror_all("a", "b")
        self.assertEqual(self.values("b", "a.orders"), self.values("a", "orders"))
        self.assertEqual(mirror.mirror.status.records, 16)
        self.assertEqual(mirror.mirror.status.encoded_again, 1)

    def test_going_on(self) -> None:
        """A mirror that begins again goes on where the last one ended: nothing is lost or repeated."""
        self.create("a", "orders")
        for first in range(0, 30, 10):
            self.send("a", "orders", NUMBERS[first : first + 10])
            self.mirror_all("a", "b")
            self.assertEqual(self.values("b", "a.orders"), NUMBERS[: first + 10])

    def test_continuously(self) -> None:
        """A mirror that runs copies what is written, and ends in order."""
        self.create("a", "orders")
        mirror = self.mirror("a", "b")
        for first in range(0, 30, 10):
            self.send("a", "orders", NUMBERS[first : first + 10])
            self.settle(3)
            self.assertEqual(self.values("b", "a.orders"), NUMBERS[: first + 10])
        self.assertEqual(mirror.mirror.status.lag, 0)
        mirror.mirror.stop()
        self.result(mirror.ended)

    def test_killed(self) -> None:
        """A mirror that is cut off in the middle leaves nothing half copied; the next one has the rest."""
        self.create("a", "orders")
        for moment in range(8):
            self.send("a", "orders", [b"%d" % (10 * moment + n) for n in range(10)])
            first = self.mirror("a", "b")
            self.settle()
            for _ in range(moment * 3):
                self.clock.advance(0.001)
            first.ended.addErrback(lambda _: None)
            first.ended.cancel()
        self.mirror_all("a", "b")
        self.assertEqual(self.values("b", "a.orders"), [b"%d" % n for n in range(80)])

    def test_leader_that_was_replaced(self) -> None:
        """
        A mirror goes on behind all that was copied, also if a leader that was replaced tells it an end of before.
        """
        self.create("a", "orders")
        self.send("a", "orders", NUMBERS[:10])
        self.mirror_all("a", "b")
        self.send("a", "orders", NUMBERS[10:])
        asked = position_store.list_offsets_with_retries

        async def stale(*arguments: Any, **options: Any) -> dict[TopicPartition, TimestampOffset]:
            return dict.fromkeys(await asked(*arguments, **options), TimestampOffset(-1, 0, 0))

        self.patch(position_store, "list_offsets_with_retries", stale)
        self.mirror_all("a", "b")
        self.patch(position_store, "list_offsets_with_retries", asked)
        self.assertEqual(self.values("b", "a.orders"), NUMBERS)

    def test_fencing(self) -> None:
        """Of two mirrors of the same flow the older one ends, with a line that says why."""
        self.create("a", "orders")
        first = self.mirror("a", "b")
        self.send("a", "orders", NUMBERS[:10])
        self.settle(3)
        self.mirror("a", "b")
        self.settle(3)
        self.send("a", "orders", NUMBERS[10:])
        self.settle(5)
        self.assertIn("another mirror from a to b has begun", str(self.failureResultOf(first.ended, Fenced).value))
        self.assertEqual(self.values("b", "a.orders"), NUMBERS)

    def test_transactions_of_the_source(self) -> None:
        """Records of transactions are copied once these are committed; those of aborted ones never."""
        self.create("a", "orders")

        async def send() -> None:
            producer = Producer(self.clients["a"], transactional_id="t", wall_clock=self.clusters["a"].wall_clock)
            for number in range(4):
                try:
                    async with producer.transaction():
                        await producer.send("orders", b"%d" % number, partition=0)
                        if number % 2:
                            raise TransactionAborted("as it happens")
                except TransactionAborted:
                    pass
            await producer.close()

        self.result(Deferred.fromCoroutine(send()))
        self.mirror_all("a", "b")
        self.assertEqual(self.values("b", "a.orders"), [b"0", b"2"])

    def test_a_source_that_dies(self) -> None:
        """While a source is away, the mirror waits for it."""
        self.create("a", "orders")
        self.send("a", "orders", NUMBERS[:10])
        self.mirror("a", "b")
        self.settle(3)
        self.clusters["a"].kill(0)
        self.settle(20)
        self.clusters["a"].boot(0)
        self.send("a", "orders", NUMBERS[10:])
        self.settle(20)
        self.assertEqual(self.values("b", "a.orders"), NUMBERS)

    def test_a_target_that_dies(self) -> None:
        """While a target is away, nothing is lost; afterwards the mirror goes on."""
        self.create("a", "orders")
        self.send("a", "orders", NUMBERS[:10])
        self.mirror("a", "b")
        self.settle(3)
        self.clusters["b"].kill(0)
        self.send("a", "orders", NUMBERS[10:20])
        self.settle(20)
        self.clusters["b"].boot(0)
        self.send("a", "orders", NUMBERS[20:])
        self.settle(90)
        self.assertEqual(self.values("b", "a.orders"), NUMBERS)

    def test_a_target_without_transactions(self) -> None:
        """A target that is too old is told of at the start, with what it lacks."""
        real = api_versions.advertised_table
        self.patch(
            api_versions,
            "advertised_table",
            lambda *how: {key: versions for key, versions in real(*how).items() if key != INIT_PRODUCER_ID},
        )
        self.cluster("c")
        mirror = self.mirror("a", "c")
        self.settle(5)
        error = self.failureResultOf(mirror.ended, LogbusError).value
        self.assertIn(
            "the target c has no transactions, which a mirror writes in: Kafka has them since 0.11", str(error)
        )

    def test_rate(self) -> None:
        """A mirror that is throttled takes its time."""
        self.create("a", "orders")
        for number in range(10):
            self.send("a", "orders", [bytes([number]) * 5000])
        began = self.clock.seconds()
        self.mirror_all("a", "b", rate=10_000)
        self.assertGreater(self.clock.seconds() - began, 4.0)
        self.assertEqual(len(self.values("b", "a.orders")), 10)


class TopicTests(MirrorCase):
    """Topics of a source, and their copies."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster("a")
        self.cluster("b")

    def lines(self, mirror: RunningMirror, text: str) -> int:
        """How often a mirror said something."""
        return sum(text in each for each in mirror.lines)

    def test_settings(self) -> None:
        """A copy gets the settings and partitions of its topic, and changes of them; other settings are its own."""
        self.create("a", "orders", 2, retention_ms="60000", min_insync_replicas="1")
        self.mirror("a", "b", refresh_interval=5.0)
        self.settle(3)
        ours, theirs = AdminClient(self.clients["b"]), AdminClient(self.clients["a"])
        copy, topic = Resource(ResourceType.TOPIC, "a.orders"), Resource(ResourceType.TOPIC, "orders")
        self.assertEqual(self.settings(copy), {"retention.ms": "60000"})
        self.result(theirs.alter_configs({topic: {"retention.ms": None, "segment.ms": "70000"}}))
        self.result(theirs.create_partitions({"orders": 5}))
        self.settle(12)
        self.assertEqual(self.settings(copy), {"segment.ms": "70000"})
        found = self.result(ours.describe_topics(["a.orders"]))["a.orders"]
        self.assertEqual(len(found.partitions), 5)
        self.send("a", "orders", [b"x"], partition=4)
        self.settle(3)
        self.assertEqual(self.values("b", "a.orders", 4), [b"x"])

    def test_settings_that_the_target_does_not_take(self) -> None:
        """A setting that only the source's brokers take does not keep the records, and the other settings, away."""
        self.cluster("c")
        # As brokers would that have tiered storage.
        anything = self.patch(config_view, "check_remote_change", lambda *_, **__: Findings())
        self.create("c", "orders", 1, remote_storage_enable="true", retention_ms="60000")
        anything.restore()
        self.send("c", "orders", [b"x"])
        mirror = self.mirror("c", "b", refresh_interval=5.0)
        self.settle(12)
        self.assertEqual(self.values("b", "c.orders"), [b"x"])
        copy, topic = Resource(ResourceType.TOPIC, "c.orders"), Resource(ResourceType.TOPIC, "orders")
        self.assertEqual(self.settings(copy), {"retention.ms": "60000"})
        without = "created c.orders with 1 partitions, without remote.storage.enable=true, which the target b does not"
        self.assertEqual(self.lines(mirror, without), 1)
        self.assertEqual(self.lines(mirror, "the target b does not take remote.storage.enable=true: "), 1)
        self.result(AdminClient(self.clients["c"]).alter_configs({topic: {"retention.ms": "70000"}}))
        self.settle(6)
        self.assertEqual(self.settings(copy), {"retention.ms": "70000"})
        self.assertEqual(self.lines(mirror, "settings as at the source: retention.ms=70000"), 1)

    def settings(self, resource: Resource) -> dict[str, str | None]:
        """The settings that a topic was given."""
        answers = self.result(AdminClient(self.clients["b"]).describe_configs([resource]))
        return {each.name: each.value for each in answers[resource] if each.source == 1}

    def test_partitions_that_cannot_be_added(self) -> None:
        """Without the right to add partitions those that there are go on; with it, the others come, too."""
        self.cluster(
            "c",
            authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            allow_everyone_if_no_acl_found="true",
        )
        self.create("a", "orders", 2, retention_ms="60000")
        mirror = self.mirror("a", "c", refresh_interval=5.0)
        self.settle(3)
        ours, theirs = AdminClient(self.clients["c"]), AdminClient(self.clients["a"])
        rights = [
            AclBinding(
                ResourcePattern(AclResourceType.TOPIC, "a.orders", PatternType.LITERAL),
                AccessControlEntry("User:ANONYMOUS", "*", each, kind),
            )
            for each, kind in (
                (AclOperation.ALL, AclPermission.ALLOW),
                (AclOperation.ALTER, AclPermission.DENY),
                (AclOperation.ALTER_CONFIGS, AclPermission.DENY),
            )
        ]
        self.result(ours.create_acls(rights))
        self.result(theirs.create_partitions({"orders": 3}))
        self.result(theirs.alter_configs({Resource(ResourceType.TOPIC, "orders"): {"retention.ms": "70000"}}))
        for partition in range(3):
            self.send("a", "orders", NUMBERS, partition=partition)
        self.settle(20)
        self.assertEqual(self.values("c", "a.orders", 1), NUMBERS)
        lacking = "User:ANONYMOUS lacks {} on topic a.orders at the target c"
        line = "orders: only its partitions below 2 are copied, since a.orders cannot get 3 partitions: "
        self.assertEqual(self.lines(mirror, line + lacking.format("ALTER")), 1, mirror.lines)
        line = "a.orders: its settings stay as they are: " + lacking.format("ALTER_CONFIGS")
        self.assertEqual(self.lines(mirror, line), 1, mirror.lines)
        denied = AclBindingFilter(resource_type=AclResourceType.TOPIC, permission=AclPermission.DENY)
        self.result(ours.delete_acls(denied))
        self.settle(12)
        self.topics("c")
        self.assertEqual(self.values("c", "a.orders", 2), NUMBERS)
        self.assertEqual((mirror.mirror.status.problems, self.values("c", "a.orders", 0)), ({}, NUMBERS))
        self.assertEqual(self.lines(mirror, "a.orders has 3 partitions now"), 1)
        self.assertEqual(self.lines(mirror, "settings as at the source: retention.ms=70000"), 1)

    def test_more_partitions_at_the_target(self) -> None:
        """A copy may have more partitions than its topic, which is said once; these wait for the topic's."""
        self.create("a", "orders", 1)
        self.create("b", "a.orders", 3)
        mirror = self.mirror("a", "b", refresh_interval=3.0)
        self.send("a", "orders", NUMBERS)
        self.settle(10)
        self.assertEqual([self.values("b", "a.orders", each) for each in range(3)], [NUMBERS, [], []])
        self.assertEqual(self.lines(mirror, "a.orders has 3 partitions, and orders has 1"), 1, mirror.lines)
        self.result(AdminClient(self.clients["a"]).create_partitions({"orders": 3}))
        self.send("a", "orders", [b"x"], partition=2)
        self.settle(6)
        self.assertEqual(self.values("b", "a.orders", 2), [b"x"])
        self.assertEqual(mirror.mirror.status.problems, {})

    def test_new_topic(self) -> None:
        """A topic that is created later is found."""
        self.create("a", "orders")
        self.mirror("a", "b", refresh_interval=5.0)
        self.settle(3)
        self.create("a", "bills")
        self.send("a", "bills", [b"x"])
        self.settle(8)
        self.assertEqual(self.values("b", "a.bills"), [b"x"])

    def test_topic_created_anew_at_the_source(self) -> None:
        """Its new records are not put behind the old ones, and it is said what to do; then they are copied."""
        self.create("a", "orders")
        self.create("a", "bills")
        self.send("a", "orders", NUMBERS[:10])
        mirror = self.mirror("a", "b", refresh_interval=5.0)
        self.settle(3)
        self.result(AdminClient(self.clients["a"]).delete_topics(["orders"]))
        self.settle(1)
        self.create("a", "orders")
        self.send("a", "orders", [b"new"] * 20)
        self.settle(12)
        self.assertEqual(self.values("b", "a.orders"), NUMBERS[:10])
        self.assertEqual(self.lines(mirror, "delete a.orders at the target"), 1)
        self.send("a", "bills", [b"x"])
        self.settle(3)
        self.assertEqual(self.values("b", "a.bills"), [b"x"])
        self.result(AdminClient(self.clients["b"]).delete_topics(["a.orders"]))
        self.settle(15)
        self.assertEqual(self.values("b", "a.orders"), [b"new"] * 20)

    def test_topic_created_anew_and_noticed_first(self) -> None:
        """Nothing of the new topic is copied, either, if that is noticed before it has records."""
        self.create("a", "orders")
        self.send("a", "orders", NUMBERS[:10])
        mirror = self.mirror("a", "b", refresh_interval=1.0)
        self.settle(3)
        self.result(AdminClient(self.clients["a"]).delete_topics(["orders"]))
        self.create("a", "orders")
        self.settle(5)
        self.assertEqual(self.lines(mirror, "delete a.orders at the target"), 1)
        self.send("a", "orders", [b"new"] * 20)
        self.settle(5)
        self.assertEqual(self.values("b", "a.orders"), NUMBERS[:10])

    def test_topic_created_anew_is_left_alone_to_the_end(self) -> None:
        """A mirror that is to end does so, and says what it has not copied; other topics are."""
        self.create("a", "orders")
        self.create("a", "bills")
        self.send("a", "orders", NUMBERS[:10])
        self.mirror_all("a", "b")
        self.result(AdminClient(self.clients["a"]).delete_topics(["orders"]))
        self.settle(1)
        self.create("a", "orders")
        self.send("a", "orders", [b"new"] * 20)
        self.send("a", "bills", [b"x"])
        mirror = self.mirror_all("a", "b")
        self.assertEqual(self.lines(mirror, "delete a.orders at the target"), 1)
        self.assertEqual(self.values("b", "a.orders"), NUMBERS[:10])
        self.assertEqual(self.values("b", "a.bills"), [b"x"])
        self.assertEqual(list(mirror.mirror.status.problems), ["orders at the source"])

    def test_topic_that_goes_before_the_end(self) -> None:
        """A topic that is deleted at the source while it is copied keeps no mirror from its end, which says so."""
        self.create("a", "orders")
        for _ in range(30):
            # More than a fetch has.
            self.send("a", "orders", [b"x" * 900_000])
        mirror = self.mirror("a", "b", until_end=True, refresh_interval=1.0, rate=1_000_000)
        self.settle(3)
        self.result(AdminClient(self.clients["a"]).delete_topics(["orders"]))
        self.result(mirror.ended, 60)
        [problem] = mirror.mirror.status.problems.values()
        self.assertRegex(problem, r"^orders-0: it is not at the source any more; \d+ offsets were not copied$")

    def test_copy_created_anew(self) -> None:
        """A copy that was deleted at the target is made from the beginning."""
        self.create("a", "orders")
        self.send("a", "orders", NUMBERS[:10])
        self.mirror_all("a", "b")
        self.result(AdminClient(self.clients["b"]).delete_topics(["a.orders"]))
        self.settle(1)
        self.mirror_all("a", "b")
        self.assertEqual(self.values("b", "a.orders"), NUMBERS[:10])

    def test_too_large(self) -> None:
        """A record that the target refuses stops its partition only; with a higher limit it goes on."""
        self.create("a", "orders", 2)
        mirror = self.mirror("a", "b", refresh_interval=5.0, sync_settings=False)
        self.settle(3)
        copy = Resource(ResourceType.TOPIC, "a.orders")
        self.result(AdminClient(self.clients["b"]).alter_configs({copy: {"max.message.bytes": "10000"}}))
        self.send("a", "orders", [b"first", b"x" * 20_000])
        self.send("a", "orders", NUMBERS, partition=1)
        self.settle(12)
        self.assertEqual(self.values("b", "a.orders", 1), NUMBERS)
        line = (
            "orders-0 offset 1: a record of 20074 bytes, of which a.orders at the target b takes 10000; raise "
            "max.message.bytes of a.orders to 20074, or have such records left out by --on-too-large skip"
        )
        self.assertEqual(self.lines(mirror, line), 1, mirror.lines)
        # What is before it is copied.
        self.assertEqual(self.values("b", "a.orders", 0), [b"first"])
        self.assertEqual(mirror.mirror.status.positions[TopicPartition("orders", 0)], 1)
        self.result(AdminClient(self.clients["b"]).alter_configs({copy: {"max.message.bytes": "100000"}}))
        self.settle(12)
        self.assertEqual(self.values("b", "a.orders", 0), [b"first", b"x" * 20_000])
        self.assertEqual(mirror.mirror.status.problems, {})

    def test_latest_and_stopped(self) -> None:
        """A mirror that begins with the newest records goes on where it was stopped, if it has copied nothing yet."""
        self.create("a", "orders")
        self.send("a", "orders", [b"before"])
        self.mirror("a", "b", refresh_interval=5.0, sync_settings=False, start="latest")
        self.settle(3)
        copy = Resource(ResourceType.TOPIC, "a.orders")
        self.result(AdminClient(self.clients["b"]).alter_configs({copy: {"max.message.bytes": "10000"}}))
        self.send("a", "orders", [b"x" * 20_000, b"next"])
        self.settle(3)
        self.result(AdminClient(self.clients["b"]).alter_configs({copy: {"max.message.bytes": "100000"}}))
        self.settle(12)
        self.assertEqual(self.values("b", "a.orders"), [b"x" * 20_000, b"next"])

    def test_latest_and_a_target_that_dies(self) -> None:
        """The same, if it was the target that was away."""
        self.create("a", "orders")
        self.send("a", "orders", [b"before"])
        self.mirror("a", "b", start="latest")
        self.settle(3)
        target = self.clusters["b"]
        target.kill(0)
        self.settle(120)
        self.send("a", "orders", [b"meanwhile"])
        self.settle(120)
        target.boot(0)
        self.settle(60)
        self.send("a", "orders", [b"afterwards"])
        self.settle(5)
        self.assertEqual(self.values("b", "a.orders"), [b"meanwhile", b"afterwards"])

    def test_too_large_is_left_out(self) -> None:
        """With that option such records are left out, wherever they are, also by a mirror that begins again."""
        self.create("a", "orders", 2)
        options = {"on_too_large": "skip", "sync_settings": False, "refresh_interval": 5.0}
        first = self.mirror("a", "b", **options)
        self.settle(3)
        copy = Resource(ResourceType.TOPIC, "a.orders")
        self.result(AdminClient(self.clients["b"]).alter_configs({copy: {"max.message.bytes": "10000"}}))
        large, small = b"x" * 20_000, [b"%d" % number + b"-" * 3000 for number in range(9)]
        self.send("a", "orders", [large, *small[:3], large, *small[3:6], large])
        self.send("a", "orders", NUMBERS, partition=1)
        self.settle(5)
        self.send("a", "orders", small[6:])
        # One that is not too large when it is compressed.
        self.send("a", "orders", [large], codec="gzip")
        self.send("a", "orders", [large])
        self.settle(8)
        copied = [*small, large]
        self.assertEqual(self.values("b", "a.orders"), copied)
        self.assertEqual(self.values("b", "a.orders", 1), NUMBERS)
        status = first.mirror.status
        self.assertEqual((status.skipped, status.problems, status.lag), (4, {}, 0))
        # The first transaction has refused one record, and the limit finds the others.
        self.assertEqual(status.aborted, 1)
        line = "left out 3 records, the first of 20074 bytes at offset 0: too large for a.orders, which takes 10000"
        self.assertEqual(self.lines(first, line), 1, first.lines)
        first.mirror.stop()
        self.settle(3)
        self.result(AdminClient(self.clients["b"]).alter_configs({copy: {"max.message.bytes": "100000"}}))
        second = self.mirror_all("a", "b", **options)
        self.assertEqual((second.mirror.status.skipped, self.values("b", "a.orders")), (0, copied))
        told = [json.loads(each.value or b"") for each in self.read("b", "logbus-mirror-skipped.a.internal")]
        self.assertEqual([each["offset"] for each in told], [0, 4, 8, 13])
        (report, other) = self.result(
            Deferred.fromCoroutine(
                MirrorAudit(self.clients["a"], self.clients["b"], MirrorOptions(source="a", target="b")).run()
            )
        )
        self.assertEqual((report.verdict, report.skipped, report.source), (MirrorVerdict.SKIPPED, 3, 10))
        self.assertEqual((report.behind, other.verdict), (0, MirrorVerdict.COMPLETE))

    def test_split_batches(self) -> None:
        """A batch that is too large for the target as a whole is split."""
        self.create("a", "orders")
        mirror = self.mirror("a", "b", refresh_interval=5.0, sync_settings=False)
        self.settle(3)
        copy = Resource(ResourceType.TOPIC, "a.orders")
        self.result(AdminClient(self.clients["b"]).alter_configs({copy: {"max.message.bytes": "10000"}}))
        values = [bytes([65 + n]) * 4000 for n in range(10)]
        self.send("a", "orders", values)
        self.settle(5)
        self.assertEqual(self.values("b", "a.orders"), values)
        self.assertEqual(mirror.mirror.status.problems, {})

    def test_deleted_before_they_were_copied(self) -> None:
        """Records that the source deletes first are said to be lost, and the mirror goes on behind them."""
        self.create("a", "orders")
        self.send("a", "orders", NUMBERS[:10])
        self.mirror_all("a", "b")
        self.send("a", "orders", NUMBERS[10:])
        self.result(AdminClient(self.clients["a"]).delete_records({TopicPartition("orders", 0): 20}))
        mirror = self.mirror_all("a", "b")
        self.assertEqual(self.values("b", "a.orders"), NUMBERS[:10] + NUMBERS[20:])
        self.assertEqual(self.lines(mirror, "offsets 10 to 19 were deleted at the source"), 1)

    def test_internal_topics(self) -> None:
        """Topics of brokers and of mirrors are not copied."""
        self.create("a", "orders")
        self.create("a", "connect-offsets-internal")
        self.mirror_all("a", "b")
        self.assertEqual(self.topics("b"), {"a.orders"})


class LoopTests(MirrorCase):
    """Several flows."""

    def test_many_to_one(self) -> None:
        """Topics of the same name from several clusters stay apart."""
        for name in "abc":
            self.cluster(name)
        for name in "ab":
            self.create(name, "orders")
            self.send(name, "orders", [name.encode()])
            self.mirror_all(name, "c")
        self.assertEqual(self.values("c", "a.orders") + self.values("c", "b.orders"), [b"a", b"b"])

    def test_active_active(self) -> None:
        """Two clusters mirror each other, and what comes from the other one does not go back."""
        for name in "ab":
            self.cluster(name)
            self.create(name, "orders")
        self.mirror("a", "b", refresh_interval=3.0)
        self.mirror("b", "a", refresh_interval=3.0)
        for name in "ab":
            self.send(name, "orders", [name.encode()])
        self.settle(15)
        self.assertEqual(self.topics("a"), {"orders", "b.orders"})
        self.assertEqual(self.topics("b"), {"orders", "a.orders"})
        self.assertEqual(self.values("a", "b.orders") + self.values("b", "a.orders"), [b"b", b"a"])

    def test_three_clusters_in_a_ring(self) -> None:
        """A record goes round once, and not on to where it comes from."""
        flows = (("a", "b"), ("b", "c"), ("c", "a"))
        for name in "abc":
            self.cluster(name)
        self.create("a", "orders")
        self.send("a", "orders", [b"x"])
        for source, target in flows:
            self.mirror(source, target, refresh_interval=3.0)
        self.settle(25)
        self.assertEqual(self.topics("a"), {"orders"})
        self.assertEqual(self.topics("b"), {"a.orders"})
        self.assertEqual(self.topics("c"), {"b.a.orders"})

    def test_identity(self) -> None:
        """Topics keep their names if that is wanted; then a mirror onto its own source is refused."""
        self.cluster("a")
        self.cluster("b")
        self.create("a", "orders")
        self.send("a", "orders", NUMBERS)
        self.mirror_all("a", "b", naming="identity")
        self.assertEqual(self.values("b", "orders"), NUMBERS)
        self.clusters["c"] = self.clusters["a"]
        same = self.mirror("a", "c", naming="identity")
        self.settle(1)
        self.assertIn("are the same cluster", str(self.failureResultOf(same.ended, ConfigError).value))
        del self.clusters["c"]

    def test_back_again(self) -> None:
        """After a move to another cluster, what is new there comes back, and nothing of what came from here."""
        self.cluster("a")
        self.cluster("b")
        self.create("a", "orders", 2)
        self.send("a", "orders", NUMBERS[:10])
        self.mirror_all("a", "b", naming="identity")
        self.send("b", "orders", NUMBERS[10:20])
        self.send("b", "orders", [b"other"], partition=1)
        self.mirror_all("b", "a", naming="identity")
        self.assertEqual(self.values("a", "orders"), NUMBERS[:20])
        self.assertEqual(self.values("a", "orders", 1), [b"other"])
        self.send("a", "orders", NUMBERS[20:])
        self.mirror_all("a", "b", naming="identity")
        self.assertEqual(self.values("b", "orders"), NUMBERS)
        self.assertEqual(self.values("b", "orders", 1), [b"other"])

    def test_identity_both_ways(self) -> None:
        """Of two mirrors without prefixes in opposite directions one stops, and says why, before records go round."""
        for name in ("a", "b"):
            self.cluster(name)
        self.create("a", "orders")
        self.mirror("a", "b", naming="identity", refresh_interval=2.0)
        self.settle(5)
        back = self.mirror("b", "a", naming="identity", refresh_interval=2.0)
        for number in NUMBERS:
            self.send("a", "orders", [number])
            self.settle(1)
        self.assertEqual(sum("stop that one first" in each for each in back.lines), 1)
        self.assertEqual(self.values("a", "orders"), NUMBERS)
        self.assertEqual(self.values("b", "orders"), NUMBERS)

    def test_identity_in_a_ring_at_once(self) -> None:
        """If all three begin together, and records are written meanwhile, none goes round."""
        for name in "abc":
            self.cluster(name)
        self.create("a", "orders")
        self.send("a", "orders", NUMBERS[:10])
        flows = [
            self.mirror(*sides, naming="identity", refresh_interval=2.0)
            for sides in (("a", "b"), ("b", "c"), ("c", "a"))
        ]
        for number in NUMBERS[10:]:
            self.send("a", "orders", [number])
            self.settle(1)
        self.settle(10)
        for name in "abc":
            self.assertEqual(self.values(name, "orders"), NUMBERS, name)
        self.assertEqual([sum("come from" in each for each in flow.lines) for flow in flows], [0, 0, 1])

    def test_identity_in_a_ring(self) -> None:
        """The last of three mirrors without prefixes finds that the records come from its target, by way of another."""
        for name in ("a", "b", "c"):
            self.cluster(name)
        self.create("a", "orders")
        self.send("a", "orders", NUMBERS)
        self.mirror_all("a", "b", naming="identity")
        self.mirror_all("b", "c", naming="identity")
        last = self.mirror_all("c", "a", naming="identity")
        self.assertEqual(self.values("a", "orders"), NUMBERS)
        self.assertIn("come from a", next(iter(last.mirror.status.problems.values())))
