"""The error of the test kit's brokers and clusters. Pure."""

from __future__ import annotations

from logbus.errors import LogbusError

OF_ITS_OWN = "use Broker(in_process=False), or @pytest.mark.logbus(in_process=False)"
"""How a broker has a process of its own."""


class BrokerFailed(LogbusError):
    """A broker or a cluster did not start or stop; or was asked for something that it cannot do as it is."""


def is_closed(what: str = "", name: str = "the broker") -> BrokerFailed:
    """
    The error of something that is asked of a broker after its close.

    :param what: the method, if it is known.
    """
    asked = f"{what}: " if what else ""
    return BrokerFailed(f"{asked}{name} is closed, and gave up its ports and data; make another one")
