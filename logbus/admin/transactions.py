"""
Transactional ids that this broker coordinates, and their transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from attrs import frozen

from logbus.admin.pieces import streamed
from logbus.admin.problems import Refused
from logbus.admin.routing import Answer, Call, route
from logbus.admin.shapes import flag, nullable, record, rows, text, whole
from logbus.admin.topics import TOPIC_NAME, page, paged
from logbus.coordination.transactions.states import TransactionState
from logbus.coordination.transactions.views import under_way_ms
from logbus.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from logbus.coordination.transactions.coordinator import TransactionCoordinator
    from logbus.coordination.transactions.transaction import Transaction

TRANSACTIONAL_ID = text("A transactional id; any text, percent-encoded in a path.", minLength=1, maxLength=32_767)
_SUMMARY: dict[str, Any] = {
    "id": TRANSACTIONAL_ID,
    "state": text(
        "What its last transaction is in the midst of.",
        enum=[state.value for state in TransactionState if state is not TransactionState.DEAD],
    ),
    "producer_id": whole("Id of the producer that acts for it."),
    "producer_epoch": whole("The producer's epoch: whoever has an older one is fenced."),
    "timeout_ms": whole("How long a transaction may take before it is aborted."),
    "started_at": nullable(whole("When its transaction began, in ms since 1970; null: none is under way.")),
    "duration_ms": nullable(whole("For how long that has been under way; null: none is.")),
    "partitions": whole("How many partitions take part."),
}
TRANSACTION = record("A transactional id.", **_SUMMARY)
DETAIL = record(
    "A transactional id with its transaction.",
    **{
        **_SUMMARY,
        "partitions": rows(
            "Partitions that take part.",
            record("A partition.", topic=TOPIC_NAME, partition=whole("Number of the partition.")),
        ),
    },
)
_PAGE = page("transactional ids", TRANSACTION, TRANSACTIONAL_ID)
PAGE = {
    **_PAGE,
    "properties": {
        **_PAGE["properties"],
        "loading": flag("Whether some ids are left out because they are not read back yet."),
    },
    "required": [*_PAGE["required"], "loading"],
}


@frozen
class TransactionViews:
    """The transactional ids that this broker coordinates."""

    coordinator: TransactionCoordinator

    @route(
        "GET",
        "/api/v1/transactions",
        "Transactional ids that this broker coordinates, in order",
        answer=PAGE,
        parameters=paged(TRANSACTIONAL_ID),
    )
    def list(self, call: Call) -> Answer:
        after, limit = call.query["after"], call.query["limit"]
        found = {each.transactional_id: each for each in self.coordinator.transactions()}
        names = sorted(found if after is None else (name for name in found if name > after))
        shown = names[:limit]
        now_ms = self.coordinator.wall_ms()
        return streamed(
            {
                "items": lambda: (_summary(found[name], now_ms) for name in shown),
                "next": shown[-1] if len(names) > limit else None,
                "loading": self.coordinator.loading,
            }
        )

    @route(
        "GET",
        "/api/v1/transactions/{transaction}",
        "One transactional id that this broker coordinates, with its transaction",
        answer=DETAIL,
        parameters={"transaction": TRANSACTIONAL_ID},
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def one(self, call: Call) -> Answer:
        transactional_id = call.path["transaction"]
        try:
            found = self.coordinator.describe(transactional_id)
        except ApiError as e:
            if e.code not in (ErrorCode.NOT_COORDINATOR, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                raise
            raise Refused(
                HTTPStatus.NOT_FOUND, f"This broker coordinates no transactional id {transactional_id[:200]!r}."
            ) from None
        return streamed(
            {**_summary(found, self.coordinator.wall_ms()), "partitions": lambda: _partitions(found)},
        )


def _summary(transaction: Transaction, now_ms: int) -> dict[str, Any]:
    duration_ms = under_way_ms(transaction, now_ms)
    return {
        "id": transaction.transactional_id,
        "state": transaction.state.value,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "started_at": None if duration_ms is None else transaction.started_ms,
        "duration_ms": duration_ms,
        "partitions": len(transaction.partitions),
    }


def _partitions(transaction: Transaction) -> Iterator[dict[str, Any]]:
    for topic, partition in sorted(transaction.partitions):
        yield {"topic": topic, "partition": partition}
