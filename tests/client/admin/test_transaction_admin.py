"""The admin client's part for transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.admin.admin_client import AdminClient
from logbus.client.admin.transaction_results import ActiveProducer, ListedTransaction
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.wire.messages import groups, transaction_admin, transactions
from logbus.wire.messages.partitions import PartitionErrorCode, TopicErrorCodes, TopicPartitions
from tests.client.admin.test_group_admin import nth
from tests.client.memory_cluster import MemoryCluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
FIND, INIT, MARK, PRODUCERS, DESCRIBE, LIST = 10, 22, 27, 61, 65, 66
SERVED = {FIND: (0, 6), INIT: (0, 5), MARK: (1, 2), PRODUCERS: (0, 0), DESCRIBE: (0, 0), LIST: (0, 2)}


class TransactionTests(SynchronousTestCase):
    """
    Two brokers; the topic t has a partition on each.

    :ivar states: what coordinators know; errors by code.
    """

    def setUp(self) -> None:
        self.brokers = MemoryCluster(nodes={1, 2})
        self.brokers.served.update(SERVED)
        self.brokers.add("t", 1, 2)
        self.states: dict[str, transaction_admin.DescribedTransactionState | int] = {}
        self.brokers.answers[FIND] = self.find
        self.brokers.answers[DESCRIBE] = self.described
        self.admin = AdminClient(Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint))

    def find(self, node: int, message: Any) -> Any:
        self.assertEqual(message.key_type, 1)
        return groups.FindCoordinatorResponse(
            coordinators=[
                groups.Coordinator(key=key, node_id=2, host="b2", port=9092) for key in message.coordinator_keys
            ]
        )

    def described(self, node: int, message: Any) -> Any:
        found = []
        for each in message.transactional_ids:
            state = self.states.get(each, int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
            found.append(self.state(each, error_code=state) if isinstance(state, int) else state)
        return transaction_admin.DescribeTransactionsResponse(transaction_states=found)

    def state(self, transactional_id: str, **given: Any) -> transaction_admin.DescribedTransactionState:
        return transaction_admin.DescribedTransactionState(
            **{
                "transactional_id": transactional_id,
                "transaction_state": "Ongoing",
                "transaction_timeout_ms": 60_000,
                "transaction_start_time_ms": 5,
                "producer_id": 7,
                "producer_epoch": 3,
                "topics": [],
                **given,
            }
        )

    def done(self, waiting: Deferred[Any], seconds: float = 0.0) -> Any:
        self.brokers.settle()
        for _ in range(round(seconds * 10)):
            self.brokers.settle(0.1)
        return self.successResultOf(waiting)

    def refused(self, waiting: Deferred[Any], seconds: float = 0.0) -> ApiError:
        self.brokers.settle()
        for _ in range(round(seconds * 10)):
            self.brokers.settle(0.1)
        error = self.failureResultOf(waiting, ApiError).value
        assert isinstance(error, ApiError)
        return error

    # Lists.

    def listed(self, *rows: tuple[int, str, int, str], **given: Any) -> Callable[[int, Any], Any]:
        return lambda node, message: transaction_admin.ListTransactionsResponse(
            transaction_states=[
                transaction_admin.ListedTransactionState(
                    transactional_id=name, producer_id=number, transaction_state=state
                )
                for where, name, number, state in rows
                if where == node
            ],
            **given,
        )

    def test_lists_of_all_brokers(self) -> None:
        """
        Every broker is asked for those it coordinates; together they come in order, each with its coordinator.
        """
        self.brokers.answers[LIST] = self.listed((1, "b", 8, "Ongoing"), (2, "a", 7, "Empty"))
        found = self.done(
            self.admin.list_transactions(states=["Empty"], producer_ids=[7, 8], longer_than_ms=0, pattern="a|b")
        )
        self.assertEqual(found, [ListedTransaction("a", 7, "Empty", 2), ListedTransaction("b", 8, "Ongoing", 1)])
        for asked in self.brokers.requests("ListTransactions"):
            told = (
                asked.state_filters,
                asked.producer_id_filters,
                asked.duration_filter,
                asked.transactional_id_pattern,
            )
            self.assertEqual(told, (["Empty"], [7, 8], 0, "a|b"))

    def test_no_filter(self) -> None:
        """Without filters the request has none."""
        self.brokers.answers[LIST] = self.listed()
        self.assertEqual(self.done(self.admin.list_transactions()), [])
        asked = self.brokers.requests("ListTransactions")[0]
        self.assertEqual((asked.duration_filter, asked.transactional_id_pattern, asked.state_filters), (-1, None, []))

    def test_unsupported_filters(self) -> None:
        """An older broker, and an unknown state or invalid expression, raise errors."""
        self.brokers.answers[LIST] = self.listed(unknown_state_filters=["Hopeful"])
        error = self.refused(self.admin.list_transactions(states=["Hopeful"]))
        self.assertIn("'Hopeful'", error.message)
        self.brokers.answers[LIST] = self.listed(error_code=int(ErrorCode.INVALID_REGULAR_EXPRESSION))
        error = self.refused(self.admin.list_transactions(pattern="("))
        self.assertEqual(error.code, ErrorCode.INVALID_REGULAR_EXPRESSION)
        self.assertIn("'('", error.message)
        self.brokers.served[LIST] = (0, 1)
        self.brokers.answers[LIST] = self.listed()
        self.admin = AdminClient(Cluster(self.brokers.clock, "b1:9092", endpoint=self.brokers.endpoint))
        self.done(self.admin.list_transactions(longer_than_ms=1))
        error = self.refused(self.admin.list_transactions(pattern="x"))
        self.assertEqual(error.code, ErrorCode.UNSUPPORTED_VERSION)
        self.assertIn("pattern", error.message)

    def test_loading_coordinator(self) -> None:
        """A coordinator that is loading is asked again."""
        loading = transaction_admin.ListTransactionsResponse(error_code=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        self.brokers.answers[LIST] = nth(
            lambda message: loading, lambda message: self.listed((1, "a", 7, "Empty"))(1, message)
        )
        self.assertEqual([each.transactional_id for each in self.done(self.admin.list_transactions(), 0.2)], ["a"])

    # One by one.

    def test_descriptions(self) -> None:
        """Coordinators describe transactions; errors for unknown ids name the id."""
        topics = [
            TopicPartitions(topic="u", partitions=[1]),
            TopicPartitions(topic="t", partitions=[1, 0]),
        ]
        self.states["a"] = self.state("a", topics=topics)
        self.states["b"] = self.state("b", transaction_state="Empty", transaction_start_time_ms=-1)
        self.states["over"] = self.state("over", transaction_state="CompleteAbort")
        found = self.done(self.admin.describe_transactions(["a", "b", "c", "over"]))
        self.assertEqual((found["a"].partitions, found["a"].started_ms), ((P0, P1, TopicPartition("u", 1)), 5))
        self.assertEqual((found["a"].coordinator.node_id, found["a"].timeout_ms), (2, 60_000))
        self.assertEqual((found["b"].started_ms, found["over"].started_ms), (None, None))
        self.assertEqual(found["c"].code, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        self.assertIn("no transactional id 'c'", found["c"].message)

    def test_termination(self) -> None:
        """
        It is asked for as a new producer would, with the time-out as it is, and waited for until it is done.
        """
        self.states["a"] = self.state("a")
        busy = transactions.InitProducerIdResponse(error_code=int(ErrorCode.CONCURRENT_TRANSACTIONS))
        done = transactions.InitProducerIdResponse(producer_id=7, producer_epoch=4)
        self.brokers.answers[INIT] = nth(lambda message: busy, lambda message: done)
        self.done(self.admin.terminate_transaction("a"), 0.2)
        asked = self.brokers.requests("InitProducerId")
        self.assertEqual(len(asked), 2)
        told = (asked[0].transactional_id, asked[0].transaction_timeout_ms, asked[0].producer_id)
        self.assertEqual(told, ("a", 60_000, -1))

    def test_termination_of_what_may_take_too_long(self) -> None:
        """A transaction can be ended whose time-out is more than the broker allows by now."""
        self.states["a"] = self.state("a")
        refused = transactions.InitProducerIdResponse(error_code=int(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        done = transactions.InitProducerIdResponse(producer_id=7, producer_epoch=4)
        self.brokers.answers[INIT] = nth(lambda message: refused, lambda message: done)
        self.done(self.admin.terminate_transaction("a"), 0.2)
        asked = self.brokers.requests("InitProducerId")
        self.assertEqual([each.transaction_timeout_ms for each in asked], [60_000, 1])

    def test_termination_of_an_unknown_id(self) -> None:
        """InitProducerId would create the transactional id, so it is not sent for an unknown one."""
        self.assertEqual(self.refused(self.admin.terminate_transaction("a")).code, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        self.assertEqual(self.brokers.requests("InitProducerId"), [])

    def test_failing_termination(self) -> None:
        """The retries end."""
        self.states["a"] = self.state("a")
        busy = transactions.InitProducerIdResponse(error_code=int(ErrorCode.CONCURRENT_TRANSACTIONS))
        self.brokers.answers[INIT] = nth(lambda message: busy)
        error = self.refused(self.admin.terminate_transaction("a"), 31)
        self.assertEqual(error.code, ErrorCode.CONCURRENT_TRANSACTIONS)

    # Producers.

    def producers(self, node: int, message: Any) -> Any:
        topics = []
        for topic in message.topics:
            partitions = []
            for index in topic.partition_indexes:
                leads = self.brokers.topics[topic.name][index].leader == node
                state = transaction_admin.ProducerState(
                    producer_id=7, producer_epoch=1, coordinator_epoch=-1, current_txn_start_offset=index - 1
                )
                partitions.append(
                    transaction_admin.DescribeProducersPartitionResponse(
                        partition_index=index, error_code=0 if leads else 6, active_producers=[state] if leads else []
                    )
                )
            topics.append(transaction_admin.DescribeProducersTopicResponse(name=topic.name, partitions=partitions))
        return transaction_admin.DescribeProducersResponse(topics=topics)

    def test_producers(self) -> None:
        """Each partition's leader returns its producers, and whether they have open transactions."""
        self.brokers.answers[PRODUCERS] = self.producers
        found = self.done(self.admin.describe_producers([P0, P1, TopicPartition("t", 2), TopicPartition("u", 0)]), 1)
        self.assertEqual(found[P0], (ActiveProducer(7, 1, -1, -1, -1, None),))
        self.assertEqual(found[P1][0].open_since, 0)
        self.assertIn("'t' has no partition 2; it has 0 to 1", found[TopicPartition("t", 2)].message)
        self.assertIn("no topic 'u'", found[TopicPartition("u", 0)].message)

    def test_new_leader(self) -> None:
        """The new leader is asked."""
        self.brokers.answers[PRODUCERS] = self.producers
        self.done(self.admin.describe_producers([P0]))
        self.brokers.topics["t"][0].leader = 2
        self.assertEqual(len(self.done(self.admin.describe_producers([P0]), 0.2)[P0]), 1)

    def test_one_broker(self) -> None:
        """A given replica is asked, even if it is not the leader; an unknown broker is an error."""
        self.brokers.answers[PRODUCERS] = self.producers
        found = self.done(self.admin.describe_producers([P0, P1], broker_id=2))
        self.assertEqual(found[P0].code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.assertEqual(found[P1][0].open_since, 0)
        self.assertIn(
            "no broker 3; there are 1, 2", self.refused(self.admin.describe_producers([P0], broker_id=3)).message
        )

    # Markers.

    def marked(self, code: int) -> Callable[[Any], Any]:
        return lambda message: transactions.WriteTxnMarkersResponse(
            markers=[
                transactions.WritableTxnMarkerResult(
                    producer_id=7,
                    topics=[
                        TopicErrorCodes(
                            name="t",
                            partitions=[PartitionErrorCode(partition_index=1, error_code=code)],
                        )
                    ],
                )
            ]
        )

    def abort(self) -> Deferred[None]:
        return self.admin.abort_transaction(P1, producer_id=7, producer_epoch=3, coordinator_epoch=2)

    def test_aborting(self) -> None:
        """
        The partition's leader writes the marker; if it leads no more, the next one.
        """
        self.brokers.answers[MARK] = nth(self.marked(int(ErrorCode.NOT_LEADER_OR_FOLLOWER)), self.marked(0))
        self.done(self.abort(), 0.2)
        self.assertEqual([node for node, name, _ in self.brokers.seen if name == "WriteTxnMarkers"], [2, 2])
        (marker,) = self.brokers.requests("WriteTxnMarkers")[0].markers
        self.assertEqual((marker.producer_id, marker.producer_epoch, marker.coordinator_epoch), (7, 3, 2))
        self.assertFalse(marker.transaction_result)

    def test_refused_markers(self) -> None:
        """The error says which epoch is out of date."""
        for code, word in (
            (ErrorCode.INVALID_PRODUCER_EPOCH, "epoch of producer 7 than 3"),
            (ErrorCode.TRANSACTION_COORDINATOR_FENCED, "than that of epoch 2"),
            (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "that no coordinator ends"),
            (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "internal topic"),
            (ErrorCode.UNKNOWN_PRODUCER_ID, "nothing of producer 7"),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t-1"),
        ):
            self.brokers.answers[MARK] = nth(self.marked(int(code)))
            error = self.refused(self.abort(), 31)
            self.assertEqual(error.code, code)
            self.assertIn(word, error.message)

    def test_missing_partition_in_a_response(self) -> None:
        """
        It is an error, not success.
        """
        self.brokers.answers[MARK] = nth(lambda message: transactions.WriteTxnMarkersResponse(markers=[]))
        self.assertEqual(self.refused(self.abort()).code, ErrorCode.UNKNOWN_SERVER_ERROR)
