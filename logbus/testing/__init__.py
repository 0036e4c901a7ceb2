"""
A test kit that ships with the product: real brokers for any test.

* :mod:`~logbus.testing.broker`: :class:`Broker`, a broker on a free port, in this process or in one of its own.
* :mod:`~logbus.testing.pytest_plugin`: the fixture ``logbus_broker``.
"""

from logbus.testing.broker import Broker, BrokerFailed

__all__ = ["Broker", "BrokerFailed"]
