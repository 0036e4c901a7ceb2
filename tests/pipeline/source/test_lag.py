"""Tests how far a stream is behind."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logbus.model import TopicPartition
from logbus.pipeline.source.lag import Lag, lag_of


def source(end: Any, latest: Any) -> Any:
    """What Spark tells of a source."""
    return SimpleNamespace(endOffset=json.dumps(end), latestOffset=json.dumps(latest))


class LagTests(SynchronousTestCase):
    """Lag of a batch."""

    def test_partitions(self) -> None:
        """What is left to read of each, new ones included; the topics' ids do not matter."""
        end = {"t": {"0": 5, "1": 9}, ":ids": {"t": "6ed6febe-8790-4ec7-8903-3bfbf4e9cbb2"}, ":from": {"t": {"0": 0}}}
        lag = lag_of(source(end, {"t": {"0": 7, "1": 9, "2": 4}}))
        assert lag is not None
        self.assertEqual((lag.total, lag.most), (6, 4))
        self.assertEqual(str(lag), "6 offsets behind, 4 of them in t-2")
        self.assertEqual(str(Lag({TopicPartition("t", 0): 0})), "not behind")

    def test_others(self) -> None:
        """Other sources have none, and Spark may not know the latest offsets."""
        for latest in (None, {"offset": 3}, 3, "x"):
            self.assertIsNone(lag_of(source({"t": {"0": 5}}, latest)))
        self.assertIsNone(lag_of(SimpleNamespace(endOffset="{}", latestOffset=None)))  # type: ignore[arg-type]
