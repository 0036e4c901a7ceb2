"""Tests for :mod:`logbus.storage.delete_policy`."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from logbus.errors import ConfigError
from logbus.storage.delete_policy import delete_policy
from logbus.storage.istorage import IDeletePolicy, LogView, SegmentView
from logbus.storage.retention import TimeAndSize


@implementer(IDeletePolicy)
@frozen
class KeepAll:
    """A plugin's policy: nothing ever goes."""

    name: str = "keep-all"

    def expired(self, log: LogView, now_ms: int) -> Sequence[SegmentView]:
        return ()


class DeletePolicyTests(SynchronousTestCase):
    def test_built_in(self) -> None:
        """Kafka's retention is there by default."""
        self.assertEqual(delete_policy("time-and-size"), TimeAndSize())

    def test_plugin(self) -> None:
        """A plugin's policy is found by its name."""
        self.assertTrue(verifyObject(IDeletePolicy, KeepAll()))
        self.assertEqual(delete_policy("keep-all", [KeepAll()]), KeepAll())

    def test_unknown(self) -> None:
        """An unknown name is refused, with the known names."""
        error = self.assertRaises(ConfigError, delete_policy, "keep-some", [KeepAll()])
        self.assertEqual(
            str(error),
            "log.delete.policy: there is no policy 'keep-some'; there are: keep-all, time-and-size",
        )
