"""Removes delegation tokens that have ended (``delegation.token.expiry.check.interval.ms``)."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from logbus.cluster.controller.security_admin import NodeEdit, SecurityAdmin
from logbus.cluster.delegation_tokens import DelegationTokens
from logbus.config import ConfigView, keys
from logbus.errors import ApiError
from logbus.metastore.security_znodes import DelegationTokenZnode
from logbus.metastore.znode_json import BadZnode


@define(eq=False)
class TokenExpiration:
    """
    Runs on every broker; only the controller's has an effect.

    :param wall_clock: seconds since 1970.
    """

    _tokens: DelegationTokens
    _admin: SecurityAdmin
    _config: ConfigView
    _clock: IReactorTime
    _wall_clock: Callable[[], float]
    _timer: IDelayedCall | None = field(default=None, init=False)
    _log = Logger()

    def start(self) -> None:
        """Look for the first time one interval from now, if there can be tokens."""
        if self._tokens.enabled:
            self._schedule()

    def stop(self) -> None:
        """Look no more."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _schedule(self) -> None:
        seconds = self._config.get(keys.DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS) / 1000
        self._timer = self._clock.callLater(seconds, self._remove_expired)

    def _remove_expired(self) -> None:
        self._schedule()
        if self._admin.controller.active is None:
            return
        now = self._wall_clock() * 1000
        expired = [token.token_id for token in self._tokens.all() if token.is_expired(now)]
        if expired:
            edits = {path: _unless_renewed(path, now) for path in map(DelegationTokenZnode.path, expired)}
            self._admin.change_all(edits).addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        # The next round finds them again.
        if failure.check(ApiError) is None:
            self._log.failure("delegation tokens that have ended were not removed", failure)


def _unless_renewed(path: str, now_ms: float) -> NodeEdit:
    def edit(data: bytes | None) -> bytes | None:
        try:
            return data if data is None or not DelegationTokenZnode.decode(path, data).is_expired(now_ms) else None
        except BadZnode:
            return data

    return edit
