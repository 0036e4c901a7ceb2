"""
DescribeTransactions, ListTransactions: the administration of transactions (KIP-664, KIP-994, KIP-1152).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Self

from attrs import define
from twisted.internet.task import deferLater

from logbus.coordination.consumer.regular_expressions import compile_expression
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.coordination.transactions.transaction_metadata import TransactionMetadata
from logbus.coordination.transactions.transaction_state import TransactionState
from logbus.coordination.transactions.transaction_summary import transaction_duration_ms
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.model import TopicPartition
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.partitions import TopicPartitions
from logbus.wire.messages.transaction_admin import (
    DescribedTransactionState,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransactionState,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

CHARACTERS_A_TURN = 20_000
"""Number of characters of transactional ids checked before the reactor gets a turn; takes a few milliseconds."""

CHARACTERS_AN_ID = 20
"""Cost of checking an id, in characters, besides its length."""

_STATES = {state.value: state for state in TransactionState}

Test = Callable[[TransactionMetadata], bool]


@define(eq=False)
class TransactionAdminHandlers:
    """Lists and describes transactions."""

    _coordinator: TransactionCoordinator

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.transactions)

    @serves(65, 0, 0)
    @task
    async def describe_transactions(self, context: RequestContext, request: Request) -> DescribeTransactionsResponse:
        message: DescribeTransactionsRequest = request.message
        time_slice = context.time_slice(request)
        states = []
        # Each id is described once, since a request can repeat ids at little cost.
        for each in await time_slice.distinct(message.transactional_ids):
            state = self._described(each)
            states.append(state)
            if time_slice.used(4 + sum(1 + len(topic.partitions) for topic in state.topics)):
                await time_slice.next()
        return DescribeTransactionsResponse(transaction_states=states)

    def _described(self, transactional_id: str) -> DescribedTransactionState:
        try:
            found = self._coordinator.describe(transactional_id)
        except ApiError as e:
            return DescribedTransactionState(
                error_code=e.code,
                transactional_id=transactional_id,
                transaction_state="",
                transaction_timeout_ms=0,
                transaction_start_time_ms=0,
                producer_id=0,
                producer_epoch=0,
                topics=[],
            )
        left = self._coordinator.markers.left(transactional_id)
        return DescribedTransactionState(
            transactional_id=transactional_id,
            transaction_state=found.state.value,
            transaction_timeout_ms=found.timeout_ms,
            transaction_start_time_ms=found.started_ms,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            topics=_by_topic(found.partitions if left is None else left),
        )

    @serves(66, 0, 2)
    @task
    async def list_transactions(self, context: RequestContext, request: Request) -> ListTransactionsResponse:
        message: ListTransactionsRequest = request.message
        if self._coordinator.loading:
            # An incomplete list would be taken for a complete one.
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            passes = _filter(message, self._coordinator.wall_ms())
            found = self._coordinator.transactions()
        except ApiError as e:
            return ListTransactionsResponse(error_code=e.code)
        states: list[ListedTransactionState] = []
        for number, some in enumerate(slices(found)):
            if number:
                await deferLater(self._coordinator.clock, 0)
            states += [
                ListedTransactionState(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.state.value,
                )
                for each in some
                if passes(each)
            ]
        return ListTransactionsResponse(
            unknown_state_filters=[name for name in dict.fromkeys(message.state_filters) if name not in _STATES],
            transaction_states=states,
        )


def _filter(message: ListTransactionsRequest, now_ms: int) -> Test:
    """
    A predicate for the transactional ids that match a request's filters.

    :raise ApiError: INVALID_REGULAR_EXPRESSION.
    """
    tests: list[Test] = [lambda each: each.state is not TransactionState.DEAD]
    if message.state_filters:
        # If all names are unknown, no id matches.
        states = {_STATES[name] for name in message.state_filters if name in _STATES}
        tests.append(lambda each: each.state in states)
    if message.producer_id_filters:
        producer_ids = set(message.producer_id_filters)
        tests.append(lambda each: each.producer_id in producer_ids)
    # Clients that know no default, such as kcl, send 0: Kafka's brokers answer it with all ids.
    if message.duration_filter > 0:
        tests.append(lambda each: (transaction_duration_ms(each, now_ms) or 0) > message.duration_filter)
    if message.transactional_id_pattern:
        matches = compile_expression(message.transactional_id_pattern)
        tests.append(lambda each: matches(each.transactional_id))
    return lambda each: all(test(each) for test in tests)


def slices(found: Iterable[TransactionMetadata]) -> Iterator[list[TransactionMetadata]]:
    """Transactional ids in lists that take one turn of the reactor each."""
    some: list[TransactionMetadata] = []
    room = CHARACTERS_A_TURN
    for each in found:
        some.append(each)
        room -= CHARACTERS_AN_ID + len(each.transactional_id)
        if room <= 0:
            yield some
            some, room = [], CHARACTERS_A_TURN
    if some:
        yield some


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    topics: dict[str, TopicPartitions] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, TopicPartitions(topic=topic, partitions=[])).partitions.append(number)
    return list(topics.values())
