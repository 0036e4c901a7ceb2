"""
Limits the transactional ids and open partitions of a broker, since a client can invent ids without cost.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.config import ConfigView, keys
from logbus.config.config_key import ConfigKey
from logbus.coordination.transactions.transaction_shard import TransactionShard
from logbus.errors import ApiError, ErrorCode

WARNING_SECONDS = 60.0
"""Interval between warnings that requests are refused."""


@define(eq=False)
class TransactionLimits:
    """The limits ``transactional.id.max.count`` and ``transaction.max.open.partitions``, with an occasional warning."""

    _config: ConfigView
    _clock: IReactorTime
    _warn_at: float = field(default=0.0, init=False)
    _log = Logger()

    def check_ids(self, shards: Iterable[TransactionShard]) -> None:
        """
        Refuse a new transactional id if the limit is reached.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE: the client may retry, since other ids may expire.
        """
        count = sum(len(shard.entries) for shard in shards)
        self._check(count + 1, keys.TRANSACTIONAL_ID_MAX_COUNT, "transactional ids")

    def check_partitions(self, shards: Iterable[TransactionShard], more: int) -> None:
        """
        Refuse more partitions in open transactions if the limit would be exceeded.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE: the client may retry, when other transactions have ended.
        """
        count = sum(shard.partitions for shard in shards)
        self._check(count + more, keys.TRANSACTION_MAX_OPEN_PARTITIONS, "partitions in open transactions")

    def _check(self, count: int, key: ConfigKey[int], what: str) -> None:
        most = self._config.get(key)
        if count <= most:
            return
        sentence = f"there would be {count} {what}, and {key.name} is {most}"
        now = self._clock.seconds()
        if now >= self._warn_at:
            self._warn_at = now + WARNING_SECONDS
            self._log.warn("requests are refused: {why}", why=sentence)
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, sentence)
