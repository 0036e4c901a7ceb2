"""Retriable errors, and the backoff between attempts."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.client.retry import Backoff, ClientClosed, Unreachable, api_error, is_retriable
from logbus.errors import ApiError, Disconnected, ErrorCode


class ErrorTests(SynchronousTestCase):
    def test_sentences(self) -> None:
        """The broker's message is kept; the subject appears once; an unknown code is shown as a number."""
        self.assertEqual(str(api_error(36, "topic a", "topic 'a' exists already")), "topic 'a' exists already")
        self.assertEqual(str(api_error(36, "topic a", "no")), "topic a: no")
        # A short name may be a part of a word.
        denied = "Topic authorization failed."
        self.assertEqual(str(api_error(29, "topic t", denied)), f"topic t: {denied}")
        self.assertEqual(str(api_error(29, "topic failed", denied)), f"topic failed: {denied}")
        self.assertEqual(str(api_error(29, "topic t", "it is not yours")), "topic t: it is not yours")
        self.assertIn("(LEADER_NOT_AVAILABLE)", str(api_error(5, "a-0")))
        self.assertIn("999", str(api_error(999, "a-0")))
        self.assertIs(api_error(999, "a-0").code, ErrorCode.UNKNOWN_SERVER_ERROR)

    def test_retriable_errors(self) -> None:
        """
        Lost connections and Kafka's retriable codes are; refusals, a closed client and bugs are not.
        """
        for error in (Disconnected(), Unreachable(), ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)):
            self.assertTrue(is_retriable(error))
        for error in (ApiError(ErrorCode.MESSAGE_TOO_LARGE), ClientClosed(), ValueError()):
            self.assertFalse(is_retriable(error))

    def test_backoff_doubles_up_to_a_limit(self) -> None:
        """
        0.1, 0.2, 0.4, 0.8, 1, 1, … seconds, however many attempts there were.
        """
        waits = [Backoff().before(attempt) for attempt in (1, 2, 3, 4, 5, 10_000)]
        self.assertEqual(waits, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
