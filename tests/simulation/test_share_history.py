"""The check of what members of a share group were given finds every anomaly, and nothing else."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.testing.simulation.checks.history import FAIL, INFO
from logbus.testing.simulation.checks.share_history import MOST_DELIVERIES, Delivery, ShareHistory
from tests.simulation.test_history import send


def given(value: int, member: str = "a", asked: float = 3.0, **more: Any) -> Delivery:
    defaults: dict[str, Any] = {"partition": 0, "offset": value, "count": 1, "time": asked + 0.5}
    return Delivery(member=member, value=value, asked=asked, **{**defaults, **more})


class ShareHistoryTests(SynchronousTestCase):
    """Each anomaly by itself, made by hand."""

    def setUp(self) -> None:
        self.history = ShareHistory()

    def assertKinds(self, expected: list[str], *sends: Any) -> None:
        found = list(self.history.check(sends))
        self.assertEqual([each.kind for each in found], expected, [str(each) for each in found])

    def test_correct_history(self) -> None:
        """A record may come twice before it is accepted; one whose send had no outcome, never."""
        self.history.deliveries += [given(1), given(2), given(2, "b", asked=4.0, count=2)]
        self.history.settle([1, 2], "b", 5.0)
        self.assertKinds([], send([1, 2], 1), send(3, None, INFO), send(4, None, FAIL))

    def test_delivered_again(self) -> None:
        """One that was asked for after somebody was told that it is accepted; earlier answers may be late."""
        self.history.deliveries += [given(1), given(1, "b", asked=3.9, time=9.0)]
        self.history.settle([1], "a", 4.0)
        self.history.settle([1], "b", 6.0)
        self.assertKinds([], send(1, 1))
        self.history.deliveries.append(given(1, "c", asked=4.1))
        self.assertKinds(["delivered-again"], send(1, 1))

    def test_not_delivered(self) -> None:
        """What a producer was told to be kept comes at least once."""
        self.history.deliveries.append(given(1))
        self.history.settle([1], "a", 4.0)
        self.assertEqual(self.history.undelivered([send([1, 2], 1), send(3, None, INFO)]), [2])
        self.assertKinds(["not-delivered"], send([1, 2], 1))

    def test_not_finished(self) -> None:
        """What is given comes again until it is accepted, or was given as often as may be."""
        self.history.deliveries += [given(1), given(2), given(3, count=MOST_DELIVERIES), given(4), given(5)]
        self.history.settle([1], "a", 4.0)
        self.history.unsure.add(2)
        self.assertEqual(self.history.unfinished([send([1, 2, 3, 4], 1), send(5, 5, INFO)]), [4])
        self.assertKinds(["not-finished"], send([1, 2, 3, 4], 1), send(5, 5, INFO))

    def test_never_sent(self) -> None:
        """What comes was sent, and to that partition; and was not refused."""
        self.history.deliveries += [given(1), given(2), given(3)]
        self.assertKinds(
            ["never-sent", "never-sent", "aborted-read"], send(2, 2, partition=1, outcome=INFO), send(3, 3, FAIL)
        )
