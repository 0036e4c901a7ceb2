"""Cluster metadata and connections, and the admin client's part for topics and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.error import ConnectionRefusedError
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.admin.admin_client import AdminClient, NewTopic
from logbus.client.cluster.cluster import Cluster, Node
from logbus.client.cluster.coordinators import GROUPS, TRANSACTIONS, Coordinators
from logbus.client.list_offsets import LATEST, list_offsets
from logbus.client.membership.group_coordinator_client import GroupCoordinatorClient
from logbus.client.producer.coordinator_requests import CoordinatorRequests
from logbus.client.retry import Backoff, ClientClosed, Unreachable
from logbus.errors import ApiError, ConfigError, ErrorCode
from logbus.model import TopicPartition
from logbus.net.channel import Channel
from logbus.wire.messages.groups import Coordinator, FindCoordinatorResponse
from logbus.wire.messages.topics import CreatableTopicResult, CreateTopicsResponse
from tests.client.client_warnings import client_warnings
from tests.client.memory_cluster import MemoryCluster


class ClusterTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = MemoryCluster()

    def cluster(self, bootstrap: str = "b1:9092", **options: Any) -> Cluster:
        return Cluster(self.brokers.clock, bootstrap, endpoint=self.brokers.endpoint, **options)

    def done(self, waiting: Deferred[Any], seconds: float = 0.0) -> Any:
        self.brokers.settle(seconds)
        return self.successResultOf(waiting)

    def test_metadata_are_kept_until_forgotten(self) -> None:
        """
        A topic is asked for once, and again when it was forgotten.
        """
        self.brokers.add("t", 1, 1)
        cluster = self.cluster()
        self.assertEqual(len(self.done(cluster.topic("t")).partitions), 2)
        self.assertEqual((cluster.leader(TopicPartition("t", 1)), cluster.leader(TopicPartition("t", 9))), (1, None))
        self.done(cluster.topic("t"))
        self.assertEqual(len(self.brokers.requests("Metadata")), 1)
        cluster.forget("t")
        self.done(cluster.topic("t"))
        self.assertEqual(len(self.brokers.requests("Metadata")), 2)
        self.assertEqual(cluster.nodes, {1: Node(1, "b1", 9092)})

    def test_unreachable_broker_is_logged(self) -> None:
        """
        An outage is one warning, however long it takes, and one line when it is over.
        """
        cluster = self.cluster()
        self.brokers.nodes = set()

        def lines(seconds: int) -> list[tuple[str, str]]:
            with capturedLogs() as captured:
                for _ in range(seconds):
                    asked = cluster.refresh()
                    self.brokers.settle(1)
                    asked.addErrback(lambda _: None)
            return [(each["log_level"].name, formatEvent(each)) for each in captured]

        self.assertEqual(lines(50), [("warn", "cannot connect to b1:9092: connection refused")])
        self.assertEqual(lines(50), [])
        self.brokers.nodes = {1}
        ((level, line),) = lines(5)
        self.assertEqual(level, "info")
        self.assertRegex(line, r"^connected to b1:9092 again, after 1\d\d s and \d+ failed attempts$")
        self.assertEqual((cluster.metrics.connections, cluster.metrics.connects), (1, 1))
        self.assertGreater(cluster.metrics.failed_connects, 50)
        self.assertEqual(list(cluster.metrics.latencies), ["ApiVersions", "Metadata"])
        self.brokers.drop(1)
        self.assertEqual(cluster.metrics.connections, 0)

    def test_silent_broker_is_logged(self) -> None:
        """A broker that accepts connections and does not answer is logged, too."""
        cluster = self.cluster(timeout=3.0)
        self.done(cluster.refresh())
        self.brokers.deliver = lambda to, key, frame: None
        with capturedLogs() as captured:
            asked = cluster.refresh()
            self.brokers.settle(4)
        self.failureResultOf(asked)
        warned = client_warnings(captured)
        self.assertEqual(warned, ["Metadata: no answer from 192.168.1.1:54321 in 3 s"])

    def test_connecting_logs_no_factories(self) -> None:
        """
        Twisted says of a noisy factory when it starts and stops, which would be with each attempt.
        """
        noisy = []

        class Endpoint:
            def connect(self, factory: Any) -> Deferred[Any]:
                noisy.append(factory.noisy)
                return fail(ConnectionRefusedError())

        cluster = Cluster(self.brokers.clock, "b1:9092", endpoint=lambda host, port: Endpoint())  # type: ignore[arg-type, return-value]
        self.failureResultOf(cluster.refresh(), Unreachable)
        self.assertEqual(noisy, [False])

    def test_bootstrap_order(self) -> None:
        """Addresses are tried in order; if none answers, the error names all."""
        self.brokers.nodes = {3}
        self.assertTrue(self.done(self.cluster("b1:9092,b2:9092,b3:9092").any_channel()).usable)
        with self.assertRaises(Unreachable) as caught:
            raise self.failureResultOf(self.cluster("b1:1,b2:2").any_channel()).value
        for part in ("b1:1: connection refused", "b2:2: connection refused"):
            self.assertIn(part, str(caught.exception))

    def test_connections_are_shared(self) -> None:
        """
        Concurrent callers share a connection, and one can cancel without affecting the others; lanes have their own.
        """
        cluster = self.cluster()
        self.done(cluster.refresh())
        cluster = self.cluster()
        waiting = [cluster.any_channel() for _ in range(3)]
        waiting[0].cancel()
        self.failureResultOf(waiting[0], CancelledError)
        first, second = self.done(waiting[1]), self.done(waiting[2])
        self.assertIs(first, second)
        self.done(cluster.refresh())
        self.assertIs(self.done(cluster.channel(1)), first)
        self.assertIsNot(self.done(cluster.channel(1, "fetch")), first)

    def test_a_lane_that_is_closed_while_it_is_connected(self) -> None:
        """What is closed while it connects keeps no connection; that is no outage, and it may be asked for again."""
        cluster = self.cluster()
        self.done(cluster.refresh())
        lane = cluster.lane("fetch")
        self.brokers.answers[18] = lambda node, message: Deferred()
        waiting = cluster.channel(1, lane)
        self.brokers.settle()
        self.assertEqual(len(self.brokers.connections), 2)
        with capturedLogs() as captured:
            cluster.close_lane(lane)
            self.brokers.settle()
        self.failureResultOf(waiting, Unreachable)
        self.assertEqual(len(self.brokers.connections), 1)
        self.assertEqual((client_warnings(captured), cluster.metrics.failed_connects), ([], 0))
        del self.brokers.answers[18]
        self.assertTrue(self.done(cluster.channel(1, lane)).usable)

    def test_a_broken_connection_is_made_anew(self) -> None:
        """A request on a connection that broke while idle is repeated."""
        self.brokers.add("t")
        cluster = self.cluster()
        first = self.done(cluster.any_channel())
        self.brokers.drop(1)
        self.assertFalse(first.usable)
        self.done(cluster.topic("t"))

    def test_silent_bootstrap_broker(self) -> None:
        """It is given up after the connection timeout, with its address."""
        self.brokers.answers[18] = lambda node, message: Deferred()
        waiting = self.cluster(connect_timeout=2).any_channel()
        self.brokers.settle(1.9)
        self.assertNoResult(waiting)
        self.brokers.settle(0.2)
        self.assertIn("b1:9092: no answer in 2 s", str(self.failureResultOf(waiting, Unreachable).value))

    def test_unknown_broker_id(self) -> None:
        """An unknown broker id is an error that lists the known ones."""
        waiting = self.cluster().channel(7)
        self.brokers.settle()
        self.assertIn("broker 7 is not there; there are: 1", str(self.failureResultOf(waiting, Unreachable).value))

    def test_coordinator_at_another_address(self) -> None:
        """
        A coordinator that came back at another address is found there by clients that ask for no metadata meanwhile,
        since none of their partitions has an error.
        """
        self.brokers.served[10] = (0, 4)
        self.brokers.nodes = {1, 2}
        self.brokers.answers[10] = lambda node, message: FindCoordinatorResponse(
            coordinators=[Coordinator(key=each, node_id=2, host="b3", port=9092) for each in message.coordinator_keys]
        )
        cluster = self.cluster(backoff=Backoff(0.1, 0.1))
        self.done(cluster.refresh())
        self.brokers.nodes = {1, 3}
        found = self.done(Deferred.fromCoroutine(GroupCoordinatorClient(cluster, "g").channel()), 1)
        self.assertEqual([each.node for each in self.brokers.connections], [1, 3])
        for kind in (GROUPS, TRANSACTIONS):
            cluster.nodes = {1: Node(1, "b1", 9092), 2: Node(2, "b2", 9092, "r")}
            waiting = Deferred.fromCoroutine(CoordinatorRequests(cluster, kind).channel("k", 5.0))
            self.assertIs(self.done(waiting, 1), found)
            self.assertEqual(cluster.nodes[2], Node(2, "b3", 9092, "r"))
        cluster.nodes = {1: Node(1, "b1", 9092)}

        async def send(channel: Channel, node: Node, keys: Sequence[str]) -> dict[str, Channel]:
            return dict.fromkeys(keys, channel)

        asked = Deferred.fromCoroutine(Coordinators(cluster, 1.0).ask(["g"], send))
        self.assertEqual(self.done(asked, 1), {"g": found})
        self.assertEqual(len(self.brokers.requests("Metadata")), 1)

    def test_closing(self) -> None:
        """
        A closed cluster has no connections and no timers, and makes none.
        """
        cluster = self.cluster()
        self.done(cluster.any_channel())
        self.done(cluster.close())
        self.assertEqual((self.brokers.connections, self.brokers.clock.getDelayedCalls()), ([], []))
        self.failureResultOf(cluster.any_channel(), ClientClosed)

    def test_a_bad_address(self) -> None:
        """
        It is refused before anything is tried.
        """
        self.assertRaises(ConfigError, self.cluster, "nonsense:port")

    def test_creating_topics_follows_the_controller(self) -> None:
        """After NOT_CONTROLLER the new controller is asked; other errors are returned for each topic."""
        codes = [ErrorCode.NOT_CONTROLLER, 0]

        def create(node: int, message: Any) -> Any:
            code = codes.pop(0)
            return CreateTopicsResponse(
                topics=[
                    CreatableTopicResult(name="a", error_code=code),
                    CreatableTopicResult(name="b", error_code=36, error_message="topic 'b' exists already"),
                ]
            )

        self.brokers.answers[19] = create
        waiting = AdminClient(self.cluster()).create_topics([NewTopic("a", 3), NewTopic("b", assignment=[[1], [1]])])
        self.brokers.settle()
        answers = self.done(waiting, 1)
        self.assertIsNone(answers["a"])
        self.assertIs(answers["b"].code, ErrorCode.TOPIC_ALREADY_EXISTS)
        asked = self.brokers.requests("CreateTopics")[-1].topics
        self.assertEqual([(each.num_partitions, each.replication_factor) for each in asked], [(3, -1), (-1, -1)])
        self.assertEqual([each.broker_ids for each in asked[1].assignments], [[1], [1]])

    def test_changes_over_a_quota(self) -> None:
        """What is refused for a quota is tried again after the time that is said, if that is in time (KIP-599)."""
        refused: list[list[str]] = []

        def create(node: int, message: Any) -> Any:
            first, *others = [topic.name for topic in message.topics]
            refused.append(others)
            return CreateTopicsResponse(
                throttle_time_ms=2000 if others else 0,
                topics=[
                    CreatableTopicResult(name=first),
                    *(CreatableTopicResult(name=name, error_code=89) for name in others),
                ],
            )

        self.brokers.answers[19] = create
        for seconds, missing in ((10.0, set()), (3.0, {"c"})):
            refused.clear()
            waiting = AdminClient(self.cluster(), timeout=seconds).create_topics([NewTopic(name) for name in "abc"])
            self.brokers.settle()
            self.assertEqual(refused, [["b", "c"]])
            for _ in range(2):
                self.brokers.clock.advance(2)
                self.brokers.settle()
            answers = self.done(waiting)
            self.assertEqual({name for name, error in answers.items() if error is not None}, missing)
            self.assertEqual(refused[1:], [["c"]] if missing else [["c"], []])

    def test_offsets_of_partitions_with_and_without_a_leader(self) -> None:
        """
        Each partition has its answer: an offset, or the error.
        """
        logs = self.brokers.add("t", 1, -1)
        logs[0].put(b"x")
        wanted = dict.fromkeys([TopicPartition("t", index) for index in range(3)], LATEST)
        answers = self.done(AdminClient(self.cluster()).list_offsets(wanted))
        self.assertEqual(answers[TopicPartition("t", 0)].offset, 1)
        codes = [answers[TopicPartition("t", index)].code for index in (1, 2)]
        self.assertEqual(codes, [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        for index in (1, 2):
            self.assertIsInstance(answers[TopicPartition("t", index)], ApiError)

    def test_leader_not_ready(self) -> None:
        """The leader is asked again for a while; then its error is the result."""
        log = self.brokers.add("t", 1)[0]
        self.brokers.nodes = {1, 2}
        wanted = {TopicPartition("t", 0): LATEST}
        cluster = self.cluster()
        self.done(cluster.topic("t"))
        log.leader = 2
        waiting = Deferred.fromCoroutine(list_offsets(cluster, wanted, patience=1))
        self.brokers.settle()
        self.assertNoResult(waiting)
        self.assertEqual(self.done(waiting, 0.2)[TopicPartition("t", 0)].offset, 0)
        self.brokers.topics["t"][0].leader = -1
        cluster.forget("t")
        waiting = Deferred.fromCoroutine(list_offsets(cluster, wanted, patience=1))
        for _ in range(20):
            self.brokers.settle(0.1)
        answer = self.successResultOf(waiting)[TopicPartition("t", 0)]
        self.assertIs(answer.code, ErrorCode.LEADER_NOT_AVAILABLE)
