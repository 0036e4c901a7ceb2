"""
The markers on their way to one broker (Kafka: TxnMarkerQueue), batched over a few connections.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from attrs import define, field
from twisted.internet.defer import fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.peers import Peers
from logbus.coordination.transactions.marker_codec import marker_errors, marker_request
from logbus.coordination.transactions.pending_complete_txn import PendingCompleteTxn
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import TopicPartition
from logbus.wire.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse

MARKERS = "markers"
CONNECTIONS_PER_BROKER = 4
"""Connections to each broker: a partition whose marker must wait delays later markers on one connection only."""

MAX_PARTITIONS_PER_REQUEST = 500
"""Maximum number of partitions in one request."""

MAX_TRANSACTIONS_PER_REQUEST = 50
"""Maximum number of transactions in one request: its response may complete all of them, in one turn of the reactor."""

Batch = Sequence[tuple[PendingCompleteTxn, list[TopicPartition]]]


@define(eq=False)
class TxnMarkerQueue:
    """
    Sends markers to one broker.

    :ivar written: called with the outcome for each partition of a transaction.
    """

    broker_id: int
    _peers: Peers
    _written: Callable[[Mapping[TopicPartition, ErrorCode], PendingCompleteTxn], None]
    _queue: deque[tuple[PendingCompleteTxn, TopicPartition]] = field(factory=deque, init=False)
    _busy: set[int] = field(factory=set, init=False)
    _log = Logger()

    def add(self, pending: PendingCompleteTxn, partition: TopicPartition) -> None:
        """Queue a marker; :meth:`send` sends it."""
        self._queue.append((pending, partition))

    def send(self) -> None:
        """Send queued markers while a connection is free."""
        while self._queue and len(self._busy) < CONNECTIONS_PER_BROKER:
            batch: dict[str, tuple[PendingCompleteTxn, list[TopicPartition]]] = {}
            for _ in range(min(len(self._queue), MAX_PARTITIONS_PER_REQUEST)):
                if len(batch) >= MAX_TRANSACTIONS_PER_REQUEST:
                    break
                pending, partition = self._queue.popleft()
                if not pending.over:
                    name = pending.transaction.transactional_id
                    batch.setdefault(name, (pending, []))[1].append(partition)
            if batch:
                connection = next(number for number in range(CONNECTIONS_PER_BROKER) if number not in self._busy)
                self._busy.add(connection)
                self._request(connection, list(batch.values()))

    def _request(self, connection: int, batch: Batch) -> None:
        request = WriteTxnMarkersRequest(markers=[marker_request(pending.end_marker, some) for pending, some in batch])
        try:
            asked = self._peers.request(self._peers.broker(self.broker_id), request, f"{MARKERS}-{connection}")
        except ApiError as e:
            asked = fail(e)
        asked.addBoth(self._answered, connection, batch).addErrback(
            lambda failure: self._log.failure("markers cannot be sent", failure)
        )

    def _answered(self, result: WriteTxnMarkersResponse | Failure, connection: int, batch: Batch) -> None:
        self._busy.discard(connection)
        # A partition that is missing in the response counts as unanswered.
        problem = self._problem(result) if isinstance(result, Failure) else ErrorCode.NETWORK_EXCEPTION
        found = {} if isinstance(result, Failure) else marker_errors(result)
        for pending, some in batch:
            outcomes = {}
            for partition in some:
                code = found.get((pending.end_marker.producer_id, *partition))
                outcomes[partition] = problem if code is None else error_of(code).code
            self._written(outcomes, pending)
        self.send()

    def _problem(self, failure: Failure) -> ErrorCode:
        """The error of a failed request. Whatever it is, the markers are sent again."""
        if isinstance(failure.value, ApiError):
            return failure.value.code
        self._log.error("markers for broker {broker} cannot be sent: {why!r}", broker=self.broker_id, why=failure.value)
        return ErrorCode.UNKNOWN_SERVER_ERROR
