"""Tests of :mod:`logbus.coordination.share.share_group_settings`, and of the bounds of its keys."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView
from logbus.config.offset_reset import EARLIEST, OffsetReset
from logbus.coordination.share.share_group_settings import ShareGroupSettings, share_group_settings
from logbus.errors import ConfigError


class ShareGroupSettingsTests(SynchronousTestCase):
    """The broker's keys, and a group's own."""

    def test_defaults(self) -> None:
        """Those of Kafka 4.3."""
        self.assertEqual(share_group_settings(ConfigView.load().get, {}), ShareGroupSettings())

    def test_broker_and_group(self) -> None:
        """A group's own value counts, within the bounds of the broker; a stored one that is invalid does not."""
        view = ConfigView.load(
            {
                "group.share.max.size": "7",
                "group.share.max.share.sessions": "8",
                "group.share.max.session.timeout.ms": "50000",
                "group.share.delivery.count.limit": "6",
                "group.share.partition.max.record.locks": "300",
            }
        )
        overrides = {
            "share.session.timeout.ms": "60000",
            "share.heartbeat.interval.ms": "6000",
            "share.record.lock.duration.ms": "16000",
            "share.auto.offset.reset": "earliest",
            "share.isolation.level": "read_committed",
            "share.renew.acknowledge.enable": "false",
            "share.delivery.count.limit": "x",
        }
        expected = ShareGroupSettings(
            50_000,
            6000,
            7,
            16_000,
            6,
            300,
            OffsetReset(EARLIEST),
            read_committed=True,
            renew_acknowledge=False,
            max_sessions=8,
        )
        self.assertEqual(share_group_settings(view.get, overrides), expected)

    def test_protocols(self) -> None:
        """A file for Kafka 4.0 may name ``share``; share groups are there without it, too."""
        ConfigView.load({"group.coordinator.rebalance.protocols": "classic,consumer,share"})

    def test_refused(self) -> None:
        """Values beyond the bounds, and a heartbeat interval that is longer than the session."""
        for name, value in (
            ("group.share.session.timeout.ms", "44999"),
            ("group.share.heartbeat.interval.ms", "15001"),
            ("group.share.delivery.count.limit", "11"),
            ("group.share.record.lock.duration.ms", "14999"),
            ("group.share.partition.max.record.locks", "99"),
            ("share.auto.offset.reset", "latest"),
        ):
            self.assertRaises(ConfigError, ConfigView.load, {name: value})
