"""The brokers that cannot be reached: one warning when that begins, one line when it is over. Pure."""

from __future__ import annotations

from attrs import define, field

_MOST = 1000
"""The number of addresses to remember."""


@define
class Outage:
    """
    :ivar since: when it began, in seconds.
    :ivar failures: how many attempts have failed.
    """

    since: float
    failures: int = 0


@define(eq=False)
class BrokerOutages:
    """The addresses that cannot be reached."""

    _outages: dict[str, Outage] = field(factory=dict, init=False)

    def __contains__(self, address: str) -> bool:
        return address in self._outages

    def failed(self, address: str, now: float) -> bool:
        """
        Count a failed connection.

        :param now: seconds.
        :returns: whether an outage begins, which is logged.
        """
        outage = self._outages.get(address)
        if is_new := outage is None:
            while len(self._outages) >= _MOST:
                del self._outages[next(iter(self._outages))]
            outage = self._outages[address] = Outage(now)
        outage.failures += 1
        return is_new

    def reached(self, address: str) -> Outage | None:
        """
        Note a connection.

        :returns: the outage that is over; None: there was none.
        """
        return self._outages.pop(address, None)
