"""Tests the example plugin of ``docs/howto/delete_policy``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import field, frozen
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logbus.config.topic_config import TopicConfig
from logbus.storage.istorage import IDeletePolicy, LogView
from logbus.storage.retention import deletable

EXAMPLE = Path(__file__).parent.parent.parent / "docs" / "howto" / "delete_policy"
HOUR = 3_600_000
NOW = 100 * HOUR


@frozen
class Segment:
    """A segment of 100 bytes, ten records."""

    base_offset: int
    hours: int
    size: int = 100

    @property
    def max_timestamp(self) -> int:
        return NOW - self.hours * HOUR

    def modified_ms(self) -> int:
        raise AssertionError("the records have timestamps")


@frozen
class Log:
    """A log whose segments' youngest records are so many hours old."""

    config: TopicConfig
    segments: Sequence[Segment] = field()
    log_start_offset: int = 0
    high_watermark: int = 1000
    log_end_offset: int = 1000


class Policies(SynchronousTestCase):
    def setUp(self) -> None:
        sys.path.insert(0, str(EXAMPLE))
        self.addCleanup(sys.path.remove, str(EXAMPLE))
        self.policy: Any = import_module("logbus_delete_policy").SizeWithPromise()

    def deleted(self, *hours: int, policy: str = "delete", hours_kept: int = 24, bytes_kept: int = 200) -> int:
        """How many segments go, of those whose youngest records are so many hours old."""
        ms = hours_kept * HOUR if hours_kept >= 0 else -1
        config = TopicConfig(retention_ms=ms, retention_bytes=bytes_kept, cleanup_policy=frozenset({policy}))
        log: LogView = Log(config, [Segment(10 * n, each) for n, each in enumerate(hours)])
        return deletable(log, self.policy, NOW)

    def test_size_and_promise(self) -> None:
        """
        A segment goes if the rest is large enough, and it is older than what was promised.
        """
        self.assertTrue(verifyObject(IDeletePolicy, self.policy))
        self.assertEqual(self.deleted(90, 80, 70, 60, 50), 3)
        self.assertEqual(self.deleted(90, 80, 20, 10, 5), 2)
        self.assertEqual(self.deleted(20, 15, 10, 5, 1), 0)
        self.assertEqual(self.deleted(90, 80), 0)

    def test_settings(self) -> None:
        """
        Without a size nothing goes, nor with a promise for ever, nor from a compacted topic.
        """
        self.assertEqual(self.deleted(90, 80, 70, bytes_kept=-1), 0)
        self.assertEqual(self.deleted(90, 80, 70, hours_kept=-1), 0)
        self.assertEqual(self.deleted(90, 80, 70, policy="compact"), 0)
