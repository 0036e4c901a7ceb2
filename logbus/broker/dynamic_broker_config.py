"""
The configuration of brokers in the metadata store (Kafka: DynamicBrokerConfig).
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define
from twisted.logger import Logger

from logbus.broker.security import BrokerSecurity
from logbus.config import ConfigView
from logbus.config.setting_checks import usable_broker_overrides
from logbus.metastore.znodes import DEFAULT_ENTITY


@define(eq=False)
class DynamicBrokerConfig:
    """Applies the stored overrides of this broker and of all brokers, and checks new ones."""

    _broker_id: int
    _config: ConfigView
    _security: BrokerSecurity
    _log = Logger()

    def apply(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Apply overrides by entity: a broker's id, or ``<default>`` for all; others are not this broker's."""
        problems: list[str] = []
        mine, everyones = configs.get(str(self._broker_id)), configs.get(DEFAULT_ENTITY)
        warnings = self._config.update(
            cluster=None if everyones is None else usable_broker_overrides(everyones, cluster=True, problems=problems),
            broker=None if mine is None else usable_broker_overrides(mine, cluster=False, problems=problems),
        )
        for warning in [*problems, *warnings]:
            self._log.warn("{warning}", warning=warning)
        if mine is not None:
            # Also if no text has changed: a file may have, as in Kafka.
            self._security.reload()

    def check(self, broker_id: int | None, given: Mapping[str, str | None]) -> None:
        """
        Check the overrides of a broker, or of all (None).

        :raise ConfigError: one cannot be set.
        """
        self._config.validate_broker_overrides(given, cluster=broker_id is None)
        if broker_id == self._broker_id:
            self._security.check(self._config.with_broker_overrides(given))
