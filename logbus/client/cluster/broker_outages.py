"""Decides which connection failures are logged. Pure."""

from __future__ import annotations

from attrs import define, field

EVERY = 30.0
"""Seconds between log messages about the same broker."""
_MOST = 1000
"""The number of addresses to remember."""


@define
class _Outage:
    """
    :ivar told_at: when it was last logged.
    :ivar failures: since then.
    """

    told_at: float
    failures: int = 0


@define(eq=False)
class BrokerOutages:
    """The addresses that cannot be reached, and when that was last logged."""

    _outages: dict[str, _Outage] = field(factory=dict, init=False)

    def failed(self, address: str, now: float) -> int | None:
        """
        Count a failed connection.

        :param now: seconds.
        :returns: the number of failures to log now; None: do not log.
        """
        outage = self._outages.get(address)
        if outage is None:
            while len(self._outages) >= _MOST:
                del self._outages[next(iter(self._outages))]
            self._outages[address] = _Outage(now)
            return 1
        outage.failures += 1
        if now - outage.told_at < EVERY:
            return None
        failures, outage.failures, outage.told_at = outage.failures, 0, now
        return failures

    def reached(self, address: str) -> bool:
        """
        Note a connection.

        :returns: whether failures had been logged.
        """
        return self._outages.pop(address, None) is not None
