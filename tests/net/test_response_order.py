"""Responses that wait for earlier ones."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.metrics import NetMetrics
from logbus.net.response_order import ResponseOrder, ResponseSlot

REQUEST: Any = object()


class ResponseOrderTests(SynchronousTestCase):
    @given(st.lists(st.booleans(), max_size=20), st.randoms())
    def test_they_leave_in_order(self, ready: list[bool], random: Any) -> None:
        """
        In whatever order answers come, they leave in the order of the requests, each as soon as it may.
        """
        metrics = NetMetrics()
        answers = ResponseOrder(100, 100, metrics)
        # The first is one that is not ready: only behind such a one is anything pending.
        places = [ResponseSlot(REQUEST, None if now and number else Deferred(), []) for number, now in enumerate(ready)]
        for place in places:
            answers.add(place)
        waiting = [number for number, place in enumerate(places) if not place.ready]
        random.shuffle(waiting)
        for place in places:
            place.parts = [b"early"]
        left: list[Any] = []
        for number in waiting:
            left += answers.settle(places[number], [b"%d" % number])
            firsts = [place.ready for place in places]
            self.assertEqual(len(left), firsts.index(False) if False in firsts else len(places))
        expected = [[b"early"] if now and number else [b"%d" % number] for number, now in enumerate(ready)]
        self.assertEqual(left, expected)
        self.assertEqual((answers.waiting, metrics.requests_pending), (0, 0))

    def test_full(self) -> None:
        """
        Full is the number of places, or the bytes of those that are ready.
        """
        answers = ResponseOrder(3, 100, NetMetrics())
        first = ResponseSlot(REQUEST, Deferred(), [])
        answers.add(first)
        answers.add(ResponseSlot(REQUEST, None, [bytes(100)]))
        self.assertFalse(answers.full)
        answers.add(ResponseSlot(REQUEST, None, [b""]))
        self.assertTrue(answers.full)
        list(answers.settle(first, []))
        self.assertFalse(answers.full)
        answers.add(ResponseSlot(REQUEST, Deferred(), []))
        answers.add(ResponseSlot(REQUEST, None, [bytes(101)]))
        self.assertTrue(answers.full)

    def test_runs(self) -> None:
        """
        A run has the places of all its requests.
        """
        metrics = NetMetrics()
        answers = ResponseOrder(5, 100, metrics)
        first, second = ResponseSlot(REQUEST, Deferred(), [], 3), ResponseSlot(REQUEST, Deferred(), [], 2)
        answers.add(first)
        self.assertEqual((answers.room, answers.full), (2, False))
        answers.add(second)
        self.assertEqual((answers.room, answers.full, metrics.requests_pending), (0, True, 5))
        list(answers.settle(first, []))
        self.assertEqual((answers.room, metrics.requests_pending), (3, 2))
        answers.clear()
        self.assertEqual((answers.room, metrics.requests_pending), (5, 0))

    def test_clearing(self) -> None:
        """
        A lost connection's answers are forgotten and counted out.
        """
        metrics = NetMetrics()
        answers = ResponseOrder(1, 100, metrics)
        place = ResponseSlot(REQUEST, Deferred(), [])
        answers.add(place)
        self.assertEqual(answers.clear(), [place])
        self.assertEqual((answers.waiting, metrics.requests_pending, answers.full), (0, 0, False))
