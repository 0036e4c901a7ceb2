"""
Exactly-once writes: each task has a transaction, and the driver commits them when all tasks are done.

A task's transactional id consists of the query and the task's number. So a new attempt fences earlier ones, of this run
of the query or a previous one, and their open transactions are aborted. The batch's number is committed in the same
transaction, as an offset of a group with the transactional id as its name. If the driver dies before Spark records a
committed batch, Spark repeats it; a task that finds its batch committed writes nothing. Before the driver commits the
rest, it checks that the repeated batch has as many tasks, and as many rows in each, as the first time. Task 0, which
every batch has, takes part even without rows and is committed first: so a partly committed batch is always detected.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from attrs import frozen

from logbus.errors import LogbusError
from logbus.model import TopicPartition
from logbus.pipeline.blocking import transactions
from logbus.pipeline.blocking.brokers import Brokers
from logbus.pipeline.blocking.transactions import OffsetAndMetadata, ProducerIdentity
from logbus.pipeline.errors import NotRepeatable

_AT_ONCE = 8
"""Transactions that the driver ends in parallel."""
_ABORT_PATIENCE = 5.0
"""Seconds to abort all: if it fails, the next producer with the transactional id or the coordinator aborts."""

T = TypeVar("T")


@frozen
class BatchIdentity:
    """
    The query and number of a batch.

    :ivar name: of the query, or the option ``txnAppId``.
    :ivar number: of the batch; None: it is never repeated, so its number is not committed.
    :ivar skips_older: a batch older than the last committed one is skipped; else it is an error.
    """

    name: str
    number: int | None
    skips_older: bool = False

    def transactional_id(self, prefix: str, task: int) -> str:
        """The transactional id of a task, which is also the name of its group."""
        return f"{prefix}-{self.name}-{task}"


@frozen
class PreparedTransaction:
    """
    An open transaction with all rows of a task.

    :ivar topic: one that it wrote to; empty: it has no rows.
    """

    identity: ProducerIdentity
    topic: str


@frozen
class CommittedBatch:
    """
    The last batch that a task committed, as saved with the offset of its group.

    :ivar tasks: the number of tasks of the batch.
    :ivar rows: the number of rows of this task.
    """

    number: int
    tasks: int
    rows: int

    def metadata(self) -> str:
        """The metadata text that is committed with the offset."""
        return json.dumps({"tasks": self.tasks, "rows": self.rows})


@frozen
class TaskOutcome:
    """
    The result of a task.

    :ivar task: its number.
    :ivar rows: the number of its rows, written or not.
    :ivar prepared: None: it wrote nothing, or not in a transaction.
    :ivar before: the batch committed earlier, because of which it wrote nothing.
    """

    task: int
    rows: int
    prepared: PreparedTransaction | None = None
    before: CommittedBatch | None = None


def last_committed_batch(committed: Sequence[OffsetAndMetadata]) -> CommittedBatch | None:
    """The last batch in a group's committed offsets; None: there is none. Unreadable metadata count as −1."""
    if not committed:
        return None
    latest = max(committed, key=lambda each: each.offset)
    try:
        beside = json.loads(latest.metadata)
        return CommittedBatch(latest.offset, int(beside["tasks"]), int(beside["rows"]))
    except (ValueError, KeyError, TypeError):
        return CommittedBatch(latest.offset, -1, -1)


def is_committed(run: BatchIdentity, last: CommittedBatch | None) -> bool:
    """
    Whether a task's rows are committed already.

    :raises NotRepeatable: the batch is older than one that was committed.
    """
    if last is None or run.number is None or last.number < run.number:
        return False
    if last.number > run.number and not run.skips_older:
        raise NotRepeatable(
            f"batch {run.number} of {run.name} is to be written, but batch {last.number} is committed: the checkpoint "
            "was set back, or another run of the query is ahead of this one. Begin with a new checkpoint"
        )
    return True


def check_same_batch(run: BatchIdentity, outcomes: Sequence[TaskOutcome]) -> None:
    """
    Check that a partly committed batch was repeated with the same tasks and rows.

    :param outcomes: of all tasks.
    :raises NotRepeatable: it was not, so the rows that are missing are unknown.
    """
    for each in outcomes:
        before = each.before
        if before is None or before.number != run.number:
            continue
        what = f"batch {run.number} of {run.name} was committed in part, and cannot be completed: "
        if before.tasks != len(outcomes):
            raise NotRepeatable(
                f"{what}it had {before.tasks} tasks and has {len(outcomes)} now. Use as many as before: the same "
                "number of partitions, and no adaptive execution"
            )
        if before.rows != each.rows:
            raise NotRepeatable(
                f"{what}task {each.task} had {before.rows} rows and has {each.rows} now. The query does not give the "
                "same rows to the same task when it is run again"
            )


def commit(brokers: Brokers, run: BatchIdentity, outcomes: Sequence[TaskOutcome]) -> None:
    """
    Commit the transactions of all tasks. None is committed before all checks have passed.

    :raises NotRepeatable: see :func:`check_same_batch`; nothing is committed.
    :raises ProducerFenced: a newer attempt at the batch is under way.
    :raises TransactionLost: a transaction was aborted by the brokers.
    """
    check_same_batch(run, outcomes)
    prepared = [(each, each.prepared) for each in outcomes if each.prepared is not None]
    topic = next((mine.topic for _, mine in prepared if mine.topic), None)
    if topic is None:
        # No task has written anything in this attempt.
        return
    if run.number is not None:
        number = run.number

        def note(pair: tuple[TaskOutcome, PreparedTransaction]) -> None:
            outcome, mine = pair
            beside = CommittedBatch(number, len(outcomes), outcome.rows).metadata()
            place = OffsetAndMetadata(TopicPartition(mine.topic or topic, 0), number, beside)
            transactions.add_offset_to_txn(brokers, mine.identity, mine.identity.transactional_id or "", place)

        _all_at_once(brokers, note, prepared)
    first = min(each.task for each in outcomes)
    for some in ([pair for pair in prepared if (pair[0].task == first) is is_first] for is_first in (True, False)):
        _all_at_once(brokers, lambda pair: transactions.end_txn(brokers, pair[1].identity, commit=True), some)


def abort(
    brokers: Brokers,
    outcomes: Sequence[TaskOutcome | None],
    run: BatchIdentity | None,
    prefix: str,
    transaction_timeout: float,
) -> None:
    """
    Try to abort the transactions of all tasks.

    A task that Spark gave up has not told its transaction, which may be open even so: it had just finished, or was
    killed. Its transactional id is known, so it is fenced. (One that is still to begin is not; its transaction ends by
    its timeout, or with the next attempt at the batch.)

    :param outcomes: by the number of the task; None for one that failed or was given up.
    :param run: the batch; None: it is not known, so such tasks are not fenced.
    :param transaction_timeout: ``transaction.timeout.ms`` in seconds.
    """
    given_up_at = time.monotonic() + _ABORT_PATIENCE

    def end(task: int) -> None:
        seconds = given_up_at - time.monotonic()
        outcome = outcomes[task]
        if seconds <= 0:
            return
        if outcome is None and run is not None:
            with suppress(LogbusError):
                transactions.init_transactions(
                    brokers, run.transactional_id(prefix, task), transaction_timeout, seconds
                )
        elif outcome is not None and outcome.prepared is not None:
            try_abort(brokers, outcome.prepared.identity, seconds)

    _all_at_once(brokers, end, range(len(outcomes)))


def try_abort(brokers: Brokers, identity: ProducerIdentity, seconds: float = _ABORT_PATIENCE) -> None:
    """Try to abort a transaction, so that readers need not wait until it times out."""
    with suppress(LogbusError):  # It has ended already, or will by its timeout.
        transactions.end_txn(brokers, identity, commit=False, seconds=seconds)


def _all_at_once(brokers: Brokers, do: Callable[[T], None], what: Sequence[T]) -> None:
    def one(each: T) -> None:
        try:
            do(each)
        finally:
            brokers.release()

    if len(what) < 2:
        for each in what:
            one(each)
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(what))) as pool:
        # All are started, and the first error is raised when all are done.
        for _ in pool.map(one, what):
            pass
