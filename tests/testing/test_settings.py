"""Settings of tests as texts."""

from __future__ import annotations

from datetime import timedelta

from twisted.trial.unittest import SynchronousTestCase

from logbus.config.key_table import BROKER_KEYS
from logbus.testing.settings import UNITS, as_texts


class SettingTests(SynchronousTestCase):
    """``as_texts``."""

    def test_names(self) -> None:
        """Kafka's names, or those with ``_`` for dots: no key has one of its own."""
        self.assertEqual(as_texts({"num.partitions": 3, "log_cleaner_enable": False, "workers": 2}).keys(),
                         {"num.partitions", "log.cleaner.enable", "workers"})  # fmt: skip
        self.assertEqual([name for name in BROKER_KEYS if "_" in name], [])
        error = self.assertRaises(TypeError, as_texts, {"num.partitions": 3, "num_partitions": 4})
        self.assertEqual(str(error), "config: num.partitions is set twice, as num_partitions, too")

    def test_spans_of_time(self) -> None:
        """A timedelta has the unit of its key, in whole numbers."""
        day = timedelta(days=1)
        config = {"log.retention.ms": day, "log_retention_minutes": day, "log.retention.hours": day}
        self.assertEqual([*as_texts(config).values()], ["86400000", "1440", "24"])
        self.assertEqual(as_texts({"quota.window.size.seconds": day}), {"quota.window.size.seconds": "86400"})
        self.assertEqual(as_texts({"log.retention.ms": timedelta(milliseconds=-1)}), {"log.retention.ms": "-1"})
        self.assertIn("ms", UNITS)

    def test_wrong_spans(self) -> None:
        """A key without a unit and a part of one are named."""
        error = self.assertRaises(TypeError, as_texts, {"num.partitions": timedelta(seconds=3)})
        self.assertIn("num.partitions: datetime.timedelta(seconds=3) is a time, and the key has none", str(error))
        error = self.assertRaises(TypeError, as_texts, {"log.roll.hours": timedelta(minutes=90)})
        self.assertIn("log.roll.hours: datetime.timedelta(seconds=5400) is no whole number of hours", str(error))

    def test_no_mapping(self) -> None:
        """A list of pairs is none."""
        error = self.assertRaises(TypeError, as_texts, [("num.partitions", 3)])
        self.assertIn("give a dict such as {'num.partitions': 3}", str(error))
