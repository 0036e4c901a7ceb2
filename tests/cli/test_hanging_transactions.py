"""Tests of :mod:`logbus.cli.hanging_transactions`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

from attrs import define, evolve, field
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.hanging_transactions import (
    PARTITIONS_A_REQUEST,
    SearchResult,
    find_hanging,
    refuse_if_coordinated,
    transaction_at,
)
from logbus.cli.runner import CommandFailed
from logbus.client.admin.transaction_requests import AbortTransactionSpec
from logbus.client.admin.transaction_results import ActiveProducer, ListedTransaction, TransactionDescription
from logbus.client.cluster.cluster import Node
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
OPEN = ActiveProducer(7, 3, 9, 1000, -1, 5)
GONE = ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "gone")


def description(name: str, *partitions: TopicPartition) -> TransactionDescription:
    return TransactionDescription(name, "Ongoing", 7, 3, 60_000, 900, partitions, Node(0, "h", 1))


@define(eq=False)
class MadeUpAdmin:
    """
    :ivar producers: by partition.
    :ivar names: of producers that coordinators list.
    :ivar asked: how many partitions each request named.
    :ivar meanwhile: what happens while coordinators are asked.
    """

    producers: dict[TopicPartition, tuple[ActiveProducer, ...] | ApiError] = field(factory=dict)
    names: dict[int, str] = field(factory=dict)
    descriptions: dict[str, TransactionDescription | ApiError] = field(factory=dict)
    asked: list[int] = field(factory=list)
    meanwhile: Callable[[], object] = lambda: None

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> Deferred[Any]:
        wanted = list(partitions)
        self.asked.append(len(wanted))
        return succeed({each: self.producers.get(each, ()) for each in wanted})

    def list_transactions(self, *, producer_ids: Iterable[int]) -> Deferred[Any]:
        self.meanwhile()
        return succeed(
            [ListedTransaction(self.names[each], each, "Ongoing", 0) for each in producer_ids if each in self.names]
        )

    def describe_transactions(self, names: Iterable[str]) -> Deferred[Any]:
        return succeed({name: self.descriptions[name] for name in names})


class HangingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.made_up = MadeUpAdmin()
        self.admin = cast(Any, self.made_up)

    def find(self, *partitions: TopicPartition, before_ms: int = 2000) -> SearchResult:
        return self.successResultOf(Deferred.fromCoroutine(find_hanging(self.admin, partitions or (P0,), before_ms)))

    def hangs(self) -> bool:
        return bool(self.find().transactions)

    def test_unknown_producer(self) -> None:
        """A transaction hangs whose producer no coordinator knows any more."""
        self.made_up.producers[P0] = (OPEN, evolve(OPEN, producer_id=8, open_since=None))
        (found,) = self.find().transactions
        self.assertEqual((found.partition, found.producer.producer_id, found.since), (P0, 7, 5))

    def test_known_transaction(self) -> None:
        """A transaction does not hang in a partition that its coordinator knows to be part of it."""
        self.made_up.producers[P0] = (OPEN,)
        self.made_up.names[7] = "a"
        for answer, expected in (
            (description("a", P1, P0), False),
            (description("a", P1), True),
            (description("a"), True),
            (GONE, True),
        ):
            self.made_up.descriptions["a"] = answer
            self.assertEqual(self.hangs(), expected)

    def test_recent_transactions(self) -> None:
        """
        A producer with a recent record may not have reached the coordinator yet.
        """
        self.made_up.producers[P0] = (OPEN,)
        self.assertEqual(len(self.find(before_ms=1001).transactions), 1)
        self.assertEqual(self.find(before_ms=1000).transactions, [])

    def test_transaction_ends_during_the_search(self) -> None:
        """
        A transaction that ends during the search does not hang.
        """
        ended: tuple[tuple[ActiveProducer, ...], ...] = (
            (),
            (evolve(OPEN, open_since=None),),
            (evolve(OPEN, open_since=6),),
        )
        for later in ended:
            self.made_up.producers[P0] = (OPEN,)
            self.made_up.meanwhile = partial(self.made_up.producers.update, {P0: later})
            self.assertFalse(self.hangs())

    def test_failing_coordinators(self) -> None:
        """Without their answers no transaction is reported as hanging."""
        self.made_up.producers[P0] = (OPEN,)
        self.made_up.names[7] = "a"
        self.made_up.descriptions["a"] = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "away")
        search = Deferred.fromCoroutine(find_hanging(self.admin, (P0,), 2000))
        self.assertEqual(self.failureResultOf(search, ApiError).value.message, "away")

    def test_failing_partitions(self) -> None:
        """They are reported as errors, and the others are searched."""
        self.made_up.producers = {P0: (OPEN,), P1: ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")}
        found = self.find(P0, P1)
        self.assertEqual(([each.partition for each in found.transactions], list(found.errors)), ([P0], [P1]))

    def test_many_partitions(self) -> None:
        """
        They are asked for some at a time.
        """
        many = [TopicPartition("t", number) for number in range(PARTITIONS_A_REQUEST + 1)]
        self.find(*many)
        self.assertEqual(self.made_up.asked, [PARTITIONS_A_REQUEST, 1])

    # What is to be ended.

    def ending(self, since: int) -> Any:
        return Deferred.fromCoroutine(transaction_at(self.admin, P0, since))

    def test_abort_by_start_offset(self) -> None:
        """The producer is found by the offset; the coordinator epoch is 0 where no coordinator has written a marker."""
        self.made_up.producers[P0] = (OPEN, evolve(OPEN, producer_id=8, open_since=6, coordinator_epoch=4))
        self.assertEqual(self.successResultOf(self.ending(5)), AbortTransactionSpec(7, 3, 0))
        self.assertEqual(self.successResultOf(self.ending(6)), AbortTransactionSpec(8, 3, 4))

    def test_wrong_start_offset(self) -> None:
        """The error lists where the open transactions begin."""
        for producers, words in (((), "none is open"), ((OPEN,), "those that are open begin at 5")):
            self.made_up.producers[P0] = producers
            self.assertIn(words, str(self.failureResultOf(self.ending(4), CommandFailed).value))
        self.made_up.producers[P0] = ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")
        self.failureResultOf(self.ending(4), ApiError)

    def test_live_transactions_are_not_aborted(self) -> None:
        """A transaction that its coordinator is going to end in the partition is refused, by name."""
        self.made_up.names[7] = "a"
        refusal: Mapping[TransactionDescription | ApiError, bool] = {
            description("a", P0): True,
            description("a", P1): False,
            GONE: False,
        }
        for answer, refused in refusal.items():
            self.made_up.descriptions["a"] = answer
            done = Deferred.fromCoroutine(refuse_if_coordinated(self.admin, P0, AbortTransactionSpec(7, 3, 0)))
            if refused:
                self.assertIn("transaction of a,", str(self.failureResultOf(done, CommandFailed).value))
            else:
                self.successResultOf(done)
