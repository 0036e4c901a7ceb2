"""Tests of :mod:`logbus.coordination.share.share_group_settings`, and of the bounds of its keys."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from twisted.trial.unittest import SynchronousTestCase

from logbus.config import ConfigView
from logbus.config.offset_reset import EARLIEST, OffsetReset
from logbus.coordination.share.share_group_settings import (
    ShareGroupSettings,
    ShareGroupSettingsCache,
    share_group_settings,
)
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
            "share.assignment.interval.ms": "2000",
            "share.record.lock.duration.ms": "16000",
            "share.auto.offset.reset": "earliest",
            "share.isolation.level": "read_committed",
            "share.renew.acknowledge.enable": "false",
            "share.delivery.count.limit": "x",
        }
        expected = ShareGroupSettings(
            50_000,
            6000,
            2000,
            7,
            16_000,
            6,
            300,
            OffsetReset(EARLIEST),
            read_committed=True,
            renew_acknowledge=False,
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


class ShareGroupSettingsCacheTests(SynchronousTestCase):
    """A broker on which groups have a session timeout of 50 s."""

    def setUp(self) -> None:
        self.view = ConfigView.load({"group.share.session.timeout.ms": "50000"})
        self.overrides: dict[str, Mapping[str, str]] = {}
        self.cache = ShareGroupSettingsCache(self.view, self.overrides)

    def override(self, group_id: str, timeout_ms: int) -> None:
        self.overrides[group_id] = MappingProxyType({"share.session.timeout.ms": str(timeout_ms)})

    def test_made_once(self) -> None:
        """One object for a group with settings of its own, and one for all others."""
        self.override("own", 46_000)
        self.assertIs(self.cache.of("own"), self.cache.of("own"))
        self.assertEqual(self.cache.of("own").session_timeout_ms, 46_000)
        self.assertIs(self.cache.of("a"), self.cache.of("b"))
        self.assertEqual(self.cache.of("a").session_timeout_ms, 50_000)

    def test_changes(self) -> None:
        """A change of the group's settings counts at once; after one of the broker's they are made anew."""
        self.override("own", 46_000)
        self.cache.of("own")
        self.override("own", 47_000)
        own, common = self.cache.of("own"), self.cache.of("a")
        self.assertEqual(own.session_timeout_ms, 47_000)
        self.view.update(cluster={"log.retention.ms": "1000"})
        self.assertIsNot(self.cache.of("own"), own)
        self.assertIsNot(self.cache.of("a"), common)
        del self.overrides["own"]
        self.assertEqual(self.cache.of("own").session_timeout_ms, 50_000)

    def test_memory(self) -> None:
        """Nothing is kept of groups that are only named, and no more than there are of those with settings."""
        for number in range(10):
            self.override(f"own-{number}", 46_000 + number)
            self.cache.of(f"own-{number}"), self.cache.of(f"invented-{number}")
            if number > 1:
                del self.overrides[f"own-{number}"]
        self.assertLessEqual(len(self.cache._own), 3)
