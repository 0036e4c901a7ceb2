"""Decides which failures to reach brokers are worth a line in the log. Pure."""

from __future__ import annotations

from attrs import define, field

EVERY = 30.0
"""Seconds after which the log says again that a broker is away."""
_MOST = 1000
"""Addresses that are remembered."""


@define
class _Outage:
    """
    :ivar told_at: when the log last said so.
    :ivar failures: since then.
    """

    told_at: float
    failures: int = 0


@define(eq=False)
class BrokerOutages:
    """Which addresses cannot be reached, and when the log last said so."""

    _outages: dict[str, _Outage] = field(factory=dict, init=False)

    def failed(self, address: str, now: float) -> int | None:
        """
        A connection to an address failed.

        :param now: seconds.
        :returns: how many failures to tell of now; None if the log said so a short while ago.
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
        An address was reached.

        :returns: whether the log said that it could not be.
        """
        return self._outages.pop(address, None) is not None
