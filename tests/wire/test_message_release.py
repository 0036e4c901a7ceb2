"""Freeing of large messages: in steps of few elements, and without a change to what others keep."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.message_release import FEW, arrays_of, release_in_steps
from logbus.wire.messages.metadata import MetadataRequest
from logbus.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics


class Name(str):
    """An array element that can be watched."""


class MessageReleaseTests(SynchronousTestCase):
    def freed_by_step(self, make: Callable[[Callable[[], Name]], object]) -> list[int]:
        """How many elements are freed in each step, of a message that is built of new names."""
        alive = [0]

        def name() -> Name:
            made = Name("n")
            alive[0] += 1
            weakref.finalize(made, lambda: alive.__setitem__(0, alive[0] - 1))
            return made

        message = make(name)
        arrays = arrays_of(message)
        del message
        counts = [alive[0], *(alive[0] for _ in release_in_steps(arrays))]
        self.assertEqual(alive[0], 0)
        counts.append(0)
        return [before - after for before, after in itertools.pairwise(counts)]

    def test_elements_go_by_and_by(self) -> None:
        """
        A message of one long array is freed some elements at a time.
        """
        count = 10 * ELEMENTS_PER_STEP
        freed = self.freed_by_step(lambda name: OffsetFetchRequestTopics(name="", partition_indexes=names(name, count)))
        self.assertLessEqual(max(freed), ELEMENTS_PER_STEP)
        self.assertEqual(sum(freed), count)

    def test_arrays_within_arrays(self) -> None:
        """
        So is one whose elements have arrays of their own: one that is long, or very many that are short.
        """
        for each, topics in ((5 * ELEMENTS_PER_STEP, 3), (FEW, 20 * ELEMENTS_PER_STEP)):

            def made(name: Callable[[], Name], each: int = each, topics: int = topics) -> object:
                return OffsetFetchRequest(
                    groups=[
                        OffsetFetchRequestGroup(
                            group_id="g",
                            topics=[
                                OffsetFetchRequestTopics(name="t", partition_indexes=names(name, each))
                                for _ in range(topics)
                            ],
                        )
                    ]
                )

            freed = self.freed_by_step(made)
            self.assertLessEqual(max(freed), ELEMENTS_PER_STEP * (FEW + 1))
            self.assertEqual(sum(freed), each * topics)

    def test_what_others_keep_stays(self) -> None:
        """
        The message itself is not changed: its arrays may be those of other messages, too.
        """
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=list(range(1000))) for _ in range(1000)]
        message = OffsetFetchRequestGroup(group_id="g", topics=topics)
        for _ in release_in_steps(arrays_of(message)):
            pass
        self.assertEqual(len(topics), 1000)
        self.assertEqual({len(topic.partition_indexes) for topic in topics}, {1000})

    def test_nothing_to_free(self) -> None:
        """
        A null array has no elements, and a response that was encoded already is no message.
        """
        for answer in (MetadataRequest(topics=None), b"encoded", None):
            self.assertEqual(list(release_in_steps(arrays_of(answer))), [])


def names(name: Callable[[], Name], count: int) -> list[int]:
    """An array of new names, where numbers are usual."""
    return [name() for _ in range(count)]  # type: ignore[misc]
