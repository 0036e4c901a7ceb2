"""Hands leadership back to preferred leaders now and then (``auto.leader.rebalance.enable``)."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.controller.partition_admin import PartitionAdmin
from logbus.config import ConfigView, keys
from logbus.errors import ApiError, ErrorCode


@define(eq=False)
class LeaderRebalancer:
    """Runs on every broker; only the controller's has an effect."""

    partitions: PartitionAdmin
    config: ConfigView
    clock: IReactorTime
    _timer: IDelayedCall | None = field(default=None, init=False)
    _log = Logger()

    def start(self) -> None:
        """Check for the first time one interval from now."""
        self._schedule()

    def stop(self) -> None:
        """Stop checking."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _schedule(self) -> None:
        seconds = self.config.get(keys.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS)
        self._timer = self.clock.callLater(seconds, self._balance)

    def _balance(self) -> None:
        self._schedule()
        if self.config.get(keys.AUTO_LEADER_REBALANCE_ENABLE) and self.partitions.controller.active is not None:
            percentage = self.config.get(keys.LEADER_IMBALANCE_PER_BROKER_PERCENTAGE)
            self.partitions.balance(percentage).addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, ApiError) or error.code is not ErrorCode.NOT_CONTROLLER:
            self._log.failure("leadership could not be balanced", failure)
