"""
Exactly once: each task has a transaction, and the driver commits them when all tasks are done.

A task's transactional id is made of the query and the number of the task, so that an attempt fences those before it, of
this run of the query or of an earlier one, and has what they left open aborted. With the rows of a batch its number is
committed as an offset of a group that is named as the transactional id is. A task whose batch is committed already,
because the driver died before Spark could note it, writes nothing; that its rows and the number of tasks are those of
the first time is checked by the driver before it commits anything else. The first task, which every run of a batch has,
takes part even without rows, and is committed first: so a batch that was committed in part is always noticed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from attrs import frozen

from logbus.errors import LogbusError
from logbus.model import TopicPartition
from logbus.pipeline.blocking import transactions
from logbus.pipeline.blocking.brokers import Brokers
from logbus.pipeline.blocking.transactions import Committed, Identity
from logbus.pipeline.errors import NotRepeatable

_AT_ONCE = 8
"""Transactions that a driver ends at a time."""
_ABORT_PATIENCE = 5.0
"""Seconds for an abort: whoever has the transactional id next aborts, too, and so does the coordinator in the end."""

T = TypeVar("T")


@frozen
class Run:
    """
    Which batch a task works at.

    :ivar name: who writes: the query, or whoever numbers its batches itself.
    :ivar number: of the batch; None: it is never repeated, and nothing need be remembered of it.
    :ivar may_lag: a batch older than the last one is passed over, too; else it is an error.
    """

    name: str
    number: int | None
    may_lag: bool = False

    def transactional_id(self, prefix: str, task: int) -> str:
        """Also the name of the group."""
        return f"{prefix}-{self.name}-{task}"


@frozen
class Prepared:
    """
    A transaction that holds all rows of a task, to be committed or aborted.

    :ivar topic: one that it wrote to; empty: it has no rows.
    """

    identity: Identity
    topic: str


@frozen
class Noted:
    """
    What was committed with a batch.

    :ivar tasks: how many the batch had.
    :ivar rows: how many this task had.
    """

    number: int
    tasks: int
    rows: int

    def spelled(self) -> str:
        """As it is kept beside the offset."""
        return json.dumps({"tasks": self.tasks, "rows": self.rows})


@frozen
class Outcome:
    """
    What a task has done.

    :ivar task: its number.
    :ivar rows: it had, written or not.
    :ivar prepared: None: it wrote nothing, or not in a transaction.
    :ivar before: what was committed earlier, because of which it wrote nothing.
    """

    task: int
    rows: int
    prepared: Prepared | None = None
    before: Noted | None = None


def noted(committed: Sequence[Committed]) -> Noted | None:
    """The latest of what a group has committed; None: nothing. What beside it cannot be read counts as −1."""
    if not committed:
        return None
    latest = max(committed, key=lambda each: each.offset)
    try:
        beside = json.loads(latest.metadata)
        return Noted(latest.offset, int(beside["tasks"]), int(beside["rows"]))
    except (ValueError, KeyError, TypeError):
        return Noted(latest.offset, -1, -1)


def is_done(run: Run, last: Noted | None) -> bool:
    """
    Whether a task's rows are committed already.

    :raises NotRepeatable: the batch is older than one that was committed.
    """
    if last is None or run.number is None or last.number < run.number:
        return False
    if last.number > run.number and not run.may_lag:
        raise NotRepeatable(
            f"batch {run.number} of {run.name} is to be written, but batch {last.number} is committed: the checkpoint "
            "was set back, or another run of the query is ahead of this one. Begin with a new checkpoint"
        )
    return True


def check_repeated(run: Run, outcomes: Sequence[Outcome]) -> None:
    """
    See that a batch that was committed in part came again as it was.

    :param outcomes: of all tasks.
    :raises NotRepeatable: it did not: what is still to be written cannot be told from what is.
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


def commit(brokers: Brokers, run: Run, outcomes: Sequence[Outcome]) -> None:
    """
    Commit what all tasks have prepared. As long as any of them might refuse, none is.

    :raises NotRepeatable: see :func:`check_repeated`; nothing is committed.
    :raises Fenced: another attempt at the batch is under way.
    :raises TransactionLost: a transaction was aborted by the brokers.
    """
    check_repeated(run, outcomes)
    prepared = [(each, each.prepared) for each in outcomes if each.prepared is not None]
    topic = next((mine.topic for _, mine in prepared if mine.topic), None)
    if topic is None:
        # No task has written anything now.
        return
    if run.number is not None:
        number = run.number

        def note(pair: tuple[Outcome, Prepared]) -> None:
            outcome, mine = pair
            beside = Noted(number, len(outcomes), outcome.rows).spelled()
            place = Committed(TopicPartition(mine.topic or topic, 0), number, beside)
            transactions.add_offset(brokers, mine.identity, mine.identity.transactional_id or "", place)

        _all_at_once(brokers, note, prepared)
    first = min(each.task for each in outcomes)
    for some in ([pair for pair in prepared if (pair[0].task == first) is is_first] for is_first in (True, False)):
        _all_at_once(brokers, lambda pair: transactions.end(brokers, pair[1].identity, commit=True), some)


def abort(brokers: Brokers, outcomes: Sequence[Outcome | None]) -> None:
    """
    Abort what tasks have prepared, as far as that can be done now.

    :param outcomes: None for a task that failed.
    """

    prepared = [each.prepared for each in outcomes if each is not None and each.prepared is not None]
    _all_at_once(brokers, lambda mine: abandon(brokers, mine.identity), prepared)


def abandon(brokers: Brokers, identity: Identity) -> None:
    """Abort a transaction if that can be done now; it is no more than a courtesy to readers, who wait for its end."""
    try:
        transactions.end(brokers, identity, commit=False, seconds=_ABORT_PATIENCE)
    except LogbusError:
        pass  # It is ended already, or will be by its time-out.


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
        # All are begun, and the first error is raised when all are over.
        for _ in pool.map(one, what):
            pass
