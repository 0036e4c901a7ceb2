"""Tests the decisions about a repeated batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.model import TopicPartition
from logbus.pipeline.blocking.transactions import OffsetAndMetadata, ProducerIdentity
from logbus.pipeline.errors import NotRepeatable
from logbus.pipeline.sink.exactly_once import (
    BatchIdentity,
    CommittedBatch,
    PreparedTransaction,
    TaskOutcome,
    check_same_batch,
    is_committed,
    last_committed_batch,
)

PLACE = TopicPartition("orders", 0)
RUN = BatchIdentity("query", 5)
numbers = st.integers(0, 2**31)


class NotedTests(SynchronousTestCase):
    @given(st.lists(st.builds(CommittedBatch, numbers, numbers, numbers), max_size=5))
    def test_the_latest_counts(self, all_of_them: list[CommittedBatch]) -> None:
        """A group may have committed under several topics; what was noted comes back as it was."""
        committed = [OffsetAndMetadata(PLACE, each.number, each.metadata()) for each in all_of_them]
        latest = last_committed_batch(committed)
        if not all_of_them:
            self.assertIsNone(latest)
        else:
            self.assertIn(latest, all_of_them)
            assert latest is not None
            self.assertEqual(latest.number, max(each.number for each in all_of_them))

    @given(st.text())
    def test_foreign_metadata(self, beside: str) -> None:
        """What somebody else has written there is no error before it matters."""
        latest = last_committed_batch([OffsetAndMetadata(PLACE, 3, beside)])
        assert latest is not None
        self.assertEqual(latest.number, 3)


class IsDoneTests(SynchronousTestCase):
    def test_new_batches(self) -> None:
        """Are written."""
        self.assertFalse(is_committed(RUN, None))
        self.assertFalse(is_committed(RUN, CommittedBatch(4, 2, 10)))
        self.assertFalse(is_committed(BatchIdentity("write", None), CommittedBatch(4, 2, 10)))

    def test_committed_batch(self) -> None:
        """It is not written again."""
        self.assertTrue(is_committed(RUN, CommittedBatch(5, 2, 10)))

    def test_older_batch(self) -> None:
        """
        It is an error for a query, whose offsets may differ now, and allowed where the application numbers its
        batches.
        """
        error = self.assertRaises(NotRepeatable, is_committed, RUN, CommittedBatch(6, 2, 10))
        self.assertRegex(str(error), "batch 5 of query .* but batch 6 is committed")
        self.assertTrue(is_committed(BatchIdentity("daily", 5, skips_older=True), CommittedBatch(6, 2, 10)))


class CheckTests(SynchronousTestCase):
    def outcomes(self, *before: CommittedBatch | None, rows: int = 10) -> list[TaskOutcome]:
        ours = PreparedTransaction(ProducerIdentity(7, 0, "x"), "orders")
        return [TaskOutcome(task, rows, None if each else ours, each) for task, each in enumerate(before)]

    def test_same_rows_again(self) -> None:
        """The missing rows can be written."""
        check_same_batch(RUN, self.outcomes(CommittedBatch(5, 3, 10), None, CommittedBatch(5, 3, 10)))
        check_same_batch(RUN, self.outcomes(None, None))

    def test_another_number_of_tasks(self) -> None:
        """Rows may have gone from one task to another."""
        error = self.assertRaises(NotRepeatable, check_same_batch, RUN, self.outcomes(CommittedBatch(5, 3, 10), None))
        self.assertRegex(str(error), "had 3 tasks and has 2 now")

    def test_other_rows(self) -> None:
        """It was not the same query, or one that does not repeat itself."""
        error = self.assertRaises(NotRepeatable, check_same_batch, RUN, self.outcomes(None, CommittedBatch(5, 2, 11)))
        self.assertRegex(str(error), "task 1 had 11 rows and has 10 now")

    def test_a_later_batch(self) -> None:
        """Says nothing about this one."""
        check_same_batch(
            BatchIdentity("daily", 4, skips_older=True),
            self.outcomes(CommittedBatch(5, 3, 11), CommittedBatch(5, 3, 11)),
        )
