"""Invalid options and arguments are refused at once, with a message that says what is valid."""

from __future__ import annotations

import time
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.client import AtTime, Cluster, Consumer, GroupListener, GroupOptions, Producer, SimpleConsumer
from logbus.client.admin.admin_client import AdminClient, NewTopic
from logbus.client.cluster.addresses import parse_bootstrap
from logbus.client.consumer.fetch_options import FetchOptions
from logbus.client.serializers import JsonDeserializer, JsonSerializer
from logbus.errors import ConfigError
from logbus.model import TopicPartition
from logbus.records.compression import Codec
from tests.client.memory_cluster import MemoryCluster

P0 = TopicPartition("t", 0)


class OptionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.memory = MemoryCluster()
        self.cluster = Cluster(self.memory.clock, "b1:9092", endpoint=self.memory.endpoint)

    def refused(self, said: str, call: Any, *args: Any, **options: Any) -> None:
        with self.subTest(args=args, options=options):
            error = self.assertRaises(ConfigError, call, *args, **options)
            self.assertIn(said, str(error))

    def producer(self, **options: Any) -> Producer:
        return Producer(self.cluster, **{"wall_clock": time.time, "random": Random(1), **options})

    def test_unknown_options(self) -> None:
        """The error names what was meant, or all that there are."""
        for call, given, said in (
            (self.producer, "linger_ms", "a producer has no option linger_ms; did you mean linger?"),
            (self.producer, "compression_type", "a producer has no option compression_type; it has acks, batch_bytes,"),
            (
                lambda **o: Consumer(self.cluster, **o),
                "auto_offset",
                "did you mean auto_offset_reset?",
            ),
            (
                lambda **o: Consumer(self.cluster, **o),
                "group",
                "no option group; did you mean group_id?",
            ),
            (lambda **o: Cluster(self.memory.clock, "b1:9092", **o), "clientid", "did you mean client_id?"),
            (
                lambda **o: AdminClient(self.cluster, **o),
                "nonsense",
                "no option nonsense; it has timeout",
            ),
        ):
            with self.subTest(given):
                self.assertIn(said, str(self.assertRaises(TypeError, call, **{given: 1})))

    def test_consumers(self) -> None:
        """
        Each option by itself, and those of members.
        """

        def consumer(**options: Any) -> Consumer:
            return Consumer(self.cluster, "g", **options)

        for name, value, said in (
            ("auto_offset_reset", "begin", "auto_offset_reset is 'begin'; it can be 'earliest', 'latest' or 'none'"),
            ("auto_offset_reset", None, "'latest'"),
            ("isolation_level", "committed", "isolation_level is 'committed'; it can be 'read_uncommitted' or"),
            ("enable_auto_commit", "no", "enable_auto_commit is 'no'; it can be True or False"),
            ("auto_commit_interval", 0, "auto_commit_interval is 0; it is a number of seconds, more than 0"),
            ("auto_commit_interval", "5", "auto_commit_interval is '5'"),
            ("auto_commit_interval", float("nan"), "nan"),
            ("key_deserializer", "json", "key_deserializer is 'json'; it is something to call"),
            ("value_deserializer", JsonDeserializer, "give an instance of it: JsonDeserializer()"),
            ("interceptors", GroupListener(), "it is a list"),
            ("interceptors", ["audit"], "interceptors: 'audit' has no method on_consume"),
            ("client_rack", 3, "client_rack is 3"),
            ("fetch_max_wait", -1, "fetch_max_wait is -1; it is a number of seconds, 0 or more"),
            ("fetch_max_wait", 1e9, "at most 2147483"),
            ("fetch_min_bytes", -1, "fetch_min_bytes is -1; it is an integer from 0"),
            ("fetch_max_bytes", 1.5, "fetch_max_bytes is 1.5; it is an integer from 1 to 2147483647"),
            ("max_partition_fetch_bytes", 0, "max_partition_fetch_bytes is 0"),
            ("queue_max_bytes", True, "queue_max_bytes is True"),
            ("group_protocol", "new", "group_protocol is 'new'; it can be 'classic' or 'consumer'"),
            ("group_instance_id", "", "group_instance_id is ''; it is a text that is not empty, or None"),
            ("session_timeout", "45", "session_timeout is '45'"),
            ("session_timeout", 2, "heartbeat_interval is 3; it must be less than session_timeout, which is 2"),
            ("max_poll_interval", 0, "max_poll_interval is 0"),
            ("assignors", "range", "a list of names"),
            ("assignors", [], "a list of names"),
            ("assignors", ["fair"], "there is no assignor 'fair'; there are range"),
            ("request_timeout", None, "request_timeout is None"),
            ("require_stable", 1, "require_stable is 1"),
        ):
            self.refused(said, consumer, **{name: value})
        self.refused("group_id is ''", Consumer, self.cluster, "")
        self.refused("group_id is 3", Consumer, self.cluster, 3)
        self.refused("cluster is 'b1:9092'; it is a Cluster", Consumer, "b1:9092")
        self.assertIn("no option sesion", str(self.assertRaises(TypeError, consumer, sesion_timeout=3)))
        self.assertIn("without a group_id", str(self.assertRaises(TypeError, Consumer, self.cluster, assignors=["x"])))
        self.assertIsInstance(self.assertRaises(ValueError, GroupOptions, ""), ConfigError)
        self.assertEqual(
            str(self.assertRaises(TypeError, GroupOptions, "g", sesion_timeout=3)),
            "a group's member has no option sesion_timeout; did you mean session_timeout?",
        )

    def test_consumer_arguments(self) -> None:
        """
        Arguments of its methods.
        """
        consumer = Consumer(self.cluster, "g")
        self.refused("topics are a list of names, not 't'", consumer.subscribe, "t")
        self.refused("3 is none", consumer.subscribe, ["t", 3])
        self.refused("not None", consumer.subscribe, None)
        self.refused("at least one topic", consumer.subscribe, [])
        self.refused("give an instance of a GroupListener", consumer.subscribe, ["t"], GroupListener)
        self.refused("give an instance of a GroupListener", consumer.subscribe, ["t"], print)
        self.refused("give TopicPartition('orders', 0)", consumer.assign, ["t"])
        self.refused("give a list of TopicPartition", consumer.assign, P0)
        self.refused("the partition of topic 't' is -1", consumer.assign, [TopicPartition("t", -1)])
        self.refused("the position of t-0 is 'earliest'", consumer.assign, {P0: "earliest"})
        consumer.assign({P0: AtTime(5)})
        self.refused("the position of t-0 is -3", consumer.seek, P0, -3)
        self.refused("give TopicPartition('orders', 0)", consumer.seek, "t", 3)
        self.refused("timeout is -1", consumer.poll, -1)
        self.refused("max_records is 0", consumer.poll, None, 0)
        self.refused("the offset of t-0 is -1", consumer.commit, {P0: -1})
        self.refused("offsets are [", consumer.commit, [P0])

    def test_producers(self) -> None:
        """
        Each option by itself, and what does not go together.
        """
        for name, value, said in (
            ("acks", 2, "acks is 2; it can be -1 (all), 0 or 1"),
            ("acks", True, "acks is True"),
            ("acks", ["all"], "acks is ['all']"),
            ("wall_clock", 5, "wall_clock is 5; it is something to call"),
            ("random", 5, "random is 5; give random.Random()"),
            ("codec", "gz", "codec"),
            ("codec", 1, "codec is 1; it can be none, gzip, snappy, lz4, zstd"),
            ("level", "9", "level is '9'"),
            ("batch_bytes", 0, "batch_bytes is 0"),
            ("linger", -0.1, "linger is -0.1"),
            ("delivery_timeout", 0, "delivery_timeout is 0"),
            ("request_timeout", "30", "request_timeout is '30'"),
            ("request_bytes", None, "request_bytes is None"),
            ("buffer_bytes", -1, "buffer_bytes is -1"),
            ("create_topics", "yes", "create_topics is 'yes'"),
            ("metadata_max_age", 0, "metadata_max_age is 0"),
            ("partitioner", "random", "partitioner is 'random'"),
            ("enable_idempotence", 1, "enable_idempotence is 1"),
            ("transactional_id", "", "transactional_id is ''"),
            ("transaction_timeout", 1e8, "transaction_timeout is 100000000.0"),
            ("key_serializer", "utf-8", "key_serializer is 'utf-8'"),
            ("value_serializer", JsonSerializer, "give an instance of it: JsonSerializer()"),
            ("interceptors", [print], "has no method on_send"),
        ):
            self.refused(said, self.producer, **{name: value})
        self.refused("cluster is 'b1:9092'", Producer, "b1:9092", wall_clock=time.time, random=Random(1))
        self.refused("level is 99", self.producer, codec="gzip", level=99)

    def test_codecs_by_name(self) -> None:
        """
        As Kafka's ``compression.type`` calls them.
        """
        log = self.memory.add("t")[0]
        for number, (name, codec) in enumerate((("gzip", Codec.GZIP), ("ZSTD", Codec.ZSTD), ("none", Codec.NONE))):
            producer = self.producer(codec=name, linger=0)
            sent = producer.send("t", b"x" * 1000)
            self.memory.settle(1)
            self.assertEqual(self.successResultOf(sent).offset, number)
            self.assertEqual(log.batches[-1][22] & 7, codec)

    def test_clusters(self) -> None:
        """
        Addresses may be a list; what is no address is named.
        """
        self.assertEqual(parse_bootstrap(["a:1", "b"]), [("a", 1), ("b", 9092)])
        for wrong in (["a:1", 5], 9092, None, b"a:1", [], ["a:x"]):
            self.refused("HOST:PORT", Cluster, Clock(), wrong)
        self.refused("reactor is 'a:1'", Cluster, "a:1", Clock())
        self.refused("client_id is None", Cluster, Clock(), "a:1", client_id=None)
        self.refused("timeout is 0", Cluster, Clock(), "a:1", timeout=0)
        self.refused("connect_timeout is '3'", Cluster, Clock(), "a:1", connect_timeout="3")
        self.refused("backoff is 3", Cluster, Clock(), "a:1", backoff=3)

    def test_other_clients(self) -> None:
        """The simple consumer, the fetcher below consumers, and the admin client."""
        self.refused("isolation is 'all'", SimpleConsumer, self.cluster, isolation="all")
        self.refused("max_wait is -1", SimpleConsumer, self.cluster, max_wait=-1)
        self.refused("reset is 'begin'", FetchOptions, reset="begin")
        self.refused("queue_bytes is 0", FetchOptions, queue_bytes=0)
        self.refused("timeout is 0", AdminClient, self.cluster, timeout=0)
        self.refused("cluster is None", AdminClient, None)
        self.refused("name is 3", NewTopic, 3)
        self.refused("partitions is 0", NewTopic, "t", partitions=0)
        self.refused("replication_factor is '1'", NewTopic, "t", replication_factor="1")
        self.refused("give NewTopic", AdminClient(self.cluster).create_topics, ["t"])
        self.refused("it is a list of NewTopic", AdminClient(self.cluster).create_topics, NewTopic("t"))

    def test_lists_of_names(self) -> None:
        """A single name is no list of names: it would be one of its letters."""
        admin = AdminClient(self.cluster)
        for wrong, said in (
            ("orders", "is 'orders'; it is a list of texts"),
            ([3], "has 3; it is a list"),
            (5, "is 5"),
        ):
            self.refused(f"names {said}", admin.delete_topics, wrong)
            for name, call in (
                ("names", admin.describe_topics),
                ("names", admin.describe_scram_users),
                ("group_ids", admin.describe_groups),
                ("group_ids", admin.list_group_offsets),
                ("group_ids", admin.delete_groups),
                ("transactional_ids", admin.describe_transactions),
                ("states", lambda states: admin.list_transactions(states=states)),
                ("states", lambda states: admin.list_groups(states=states)),
                ("types", lambda types: admin.list_groups(types=types)),
            ):
                error = self.failureResultOf(call(wrong), ConfigError)
                self.assertIn(f"{name} {said}", str(error.value))

    def test_records(self) -> None:
        """An invalid record fails its Deferred, with advice, and others are sent."""
        self.memory.add("t")
        producer = self.producer(linger=0)
        for number in range(2):  # At first the topic is not known yet.
            for wrong, said in (
                (("t", "text"), "bytes"),
                (("t", b"v", 5), "bytes"),
                ((5, b"v"), "topic"),
                (("", b"v"), "topic"),
            ):
                with self.subTest(wrong=wrong, number=number):
                    sent: Deferred[Any] = producer.send(*wrong)  # type: ignore[arg-type]
                    self.memory.settle(5)
                    self.assertIn(said, str(self.failureResultOf(sent).value))
            sent = producer.send("t", b"v", partition="0")  # type: ignore[arg-type]
            self.memory.settle(5)
            self.assertIn("partition", str(self.failureResultOf(sent).value))
            sent = producer.send("t", b"v")
            self.memory.settle(1)
            self.successResultOf(sent)
        self.assertEqual(self.flushLoggedErrors(), [])
