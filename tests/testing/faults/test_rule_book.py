"""The rules in force: which one a request meets, and how often."""

from __future__ import annotations

import threading
from unittest import TestCase

from logbus.testing.faults.rule_book import RuleBook, Subject
from logbus.testing.faults.rules import make_rule

PRODUCE, FETCH = 0, 1


def of(*subjects: Subject) -> list[Subject]:
    return list(subjects)


class RuleBookTests(TestCase):
    def setUp(self) -> None:
        self.book = RuleBook()

    def take(self, key: int = PRODUCE, client: str | None = "c", *subjects: Subject) -> int | None:
        found = self.book.take(key, client, lambda: subjects)
        return None if found is None else found[1]

    def test_first_that_matches(self) -> None:
        """Rules are looked at in the order in which they were given."""
        only = self.book.add(make_rule("drop", "Produce", topic="orders"))
        rest = self.book.add(make_rule("drop", "Produce"))
        self.assertEqual(self.take(PRODUCE, "c", ("orders", 0)), only)
        self.assertEqual(self.take(PRODUCE, "c", ("bills", 0)), rest)
        self.assertIsNone(self.take(FETCH))

    def test_count(self) -> None:
        """A rule lets some through, happens so often, and is over."""
        number = self.book.add(make_rule("drop", "Produce", times=2, skip=1))
        self.assertEqual([self.take() for _ in range(5)], [None, number, number, None, None])
        self.assertEqual(self.book.hits(number), 2)
        self.assertEqual(self.book.active, ())
        self.assertFalse(self.book.concerned(PRODUCE, "c"))

    def test_removal(self) -> None:
        """What a rule has done stays known."""
        number = self.book.add(make_rule("drop", "*"))
        self.take()
        self.assertTrue(self.book.remove(number))
        self.assertFalse(self.book.remove(number))
        self.assertIsNone(self.take())
        self.assertEqual(self.book.hits(number), 1)

    def test_subjects_are_asked_for_if_needed(self) -> None:
        """Rules without topics do not pay for them."""
        self.book.add(make_rule("drop", "Produce"))
        self.book.take(PRODUCE, None, lambda: self.fail("asked"))

    def test_wait(self) -> None:
        """A test waits in its thread until a rule has happened in that of the broker."""
        number = self.book.add(make_rule("drop", "*"))
        thread = threading.Thread(target=lambda: [self.take() for _ in range(3)])
        thread.start()
        self.assertTrue(self.book.wait(number, 3, 60))
        thread.join()
        self.assertFalse(self.book.wait(number, 4, 0.01))

    def test_wait_for_what_cannot_come(self) -> None:
        """The end of a rule ends the wait."""
        number = self.book.add(make_rule("drop", "*", times=1))
        self.take()
        self.assertFalse(self.book.wait(number, 2, 60))
