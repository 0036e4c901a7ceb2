"""
How much a broker coordinates: names cost nothing, and clients could think of any number of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from logbus.config import ConfigView, keys
from logbus.config.key import Key
from logbus.coordination.transactions.shard import TransactionShard
from logbus.errors import ApiError, ErrorCode

COMPLAINT_SECONDS = 60.0
"""How often the log says that there is too much of something."""


@define(eq=False)
class Limits:
    """Refuses what would be too much; the log says so now and then."""

    _config: ConfigView
    _clock: IReactorTime
    _complain_at: float = field(default=0.0, init=False)
    _log = Logger()

    def check_ids(self, shards: Iterable[TransactionShard]) -> None:
        """
        Refuse one more transactional id.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE: there are as many as there may be; others may go.
        """
        count = sum(len(shard.entries) for shard in shards)
        self._check(count + 1, keys.TRANSACTIONAL_ID_MAX_COUNT, "transactional ids")

    def check_partitions(self, shards: Iterable[TransactionShard], more: int) -> None:
        """
        Refuse partitions beyond what all transactions together may have.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE: when some have ended, others may begin.
        """
        count = sum(shard.partitions for shard in shards)
        self._check(count + more, keys.TRANSACTION_MAX_OPEN_PARTITIONS, "partitions in open transactions")

    def _check(self, count: int, key: Key[int], what: str) -> None:
        most = self._config.get(key)
        if count <= most:
            return
        sentence = f"there would be {count} {what}, and {key.name} is {most}"
        now = self._clock.seconds()
        if now >= self._complain_at:
            self._complain_at = now + COMPLAINT_SECONDS
            self._log.warn("requests are refused: {why}", why=sentence)
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, sentence)
