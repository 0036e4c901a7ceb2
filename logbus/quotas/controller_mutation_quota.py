"""Limits how many partitions requests create and delete (Kafka: ControllerMutationQuota, KIP-599). Pure."""

from __future__ import annotations

from math import ceil

from attrs import define, field

from logbus.errors import ApiError, ErrorCode
from logbus.quotas.client_quota_manager import ClientQuotaManager


@define
class ControllerMutationQuota:
    """
    The quota of the client of one request.

    As long as a client has not used up its burst, it may make a change of any size, and pays for it afterwards.

    :param quotas: None: the client has none, as a broker that asks of its own accord.
    :param is_strict: what comes when the burst is used up is refused; older clients, which do not know the error, only
        wait.
    :ivar throttle_time_ms: for how long the client should wait.
    """

    _quotas: ClientQuotaManager | None
    _user: str
    _client_id: str | None
    _is_strict: bool
    throttle_time_ms: int = field(default=0, init=False)

    def take(self, partitions: int) -> None:
        """
        Count a change.

        :raise ApiError: THROTTLING_QUOTA_EXCEEDED: it must not be made now.
        """
        if self._quotas is None:
            return
        seconds = self._quotas.wait(self._user, self._client_id)
        if seconds and self._is_strict:
            self.throttle_time_ms = ceil(1000 * seconds)
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"the quota of changes to topics (controller_mutation_rate) is used up; try again in {seconds:.1f} s",
            )
        seconds = self._quotas.record(self._user, self._client_id, max(partitions, 1))
        if not self._is_strict:
            self.throttle_time_ms = ceil(1000 * seconds)
