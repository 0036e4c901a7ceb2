"""Admission of connections, and the rate of warnings about them."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.connection_limits import ConnectionLimits, ConnectionQuotas, WarningLimiter


class ConnectionQuotasTests(SynchronousTestCase):
    def test_limits_on_connections(self) -> None:
        """
        The total and each address have their limit; some addresses have one of their own.
        """
        quotas = ConnectionQuotas(
            ConnectionLimits(max_connections=4, max_connections_per_ip=2, per_ip_overrides={"10.0.0.9": 1})
        )
        quotas.enter("10.0.0.1")
        self.assertIsNone(quotas.problem("10.0.0.1"))
        quotas.enter("10.0.0.1")
        self.assertIn("max.connections.per.ip is 2", str(quotas.problem("10.0.0.1")))
        quotas.enter("10.0.0.9")
        self.assertIn("is 1", str(quotas.problem("10.0.0.9")))
        self.assertIsNone(quotas.problem("10.0.0.2"))
        quotas.enter("10.0.0.2")
        self.assertIn("max.connections is 4", str(quotas.problem("10.0.0.3")))
        quotas.leave("10.0.0.1")
        self.assertIsNone(quotas.problem("10.0.0.1"))

    def test_limits_of_listeners(self) -> None:
        """
        A listener may have a limit of its own, within that of all.
        """
        quotas = ConnectionQuotas(ConnectionLimits(max_connections=3), {"clients": 1})
        quotas.enter("10.0.0.1", "clients")
        self.assertIn("of this listener are open; max.connections is 1", str(quotas.problem("10.0.0.1", "clients")))
        self.assertIsNone(quotas.problem("10.0.0.1", "brokers"))
        self.assertEqual((quotas.open_on("clients"), quotas.open_on("brokers")), (1, 0))
        quotas.leave("10.0.0.1", "clients")
        self.assertIsNone(quotas.problem("10.0.0.1", "clients"))

    def test_descriptors(self) -> None:
        """
        There are no more connections than descriptors for them: logs need some, too.
        """
        quotas = ConnectionQuotas(ConnectionLimits(), most_by_descriptors=1)
        quotas.enter("10.0.0.1")
        self.assertIn("LimitNOFILE", str(quotas.problem("10.0.0.2")))

    def test_clients_do_not_keep_brokers_out(self) -> None:
        """
        Connections of brokers have the limit of their listener to themselves, and some descriptors.
        """
        quotas = ConnectionQuotas(
            ConnectionLimits(max_connections=2),
            {"clients": 2, "brokers": 2},
            most_by_descriptors=4,
            protected="brokers",
        )
        quotas.enter("10.0.0.1", "clients")
        quotas.enter("10.0.0.1", "clients")
        for _ in range(2):
            self.assertIsNone(quotas.problem("10.0.0.2", "brokers"))
            self.assertIn("max.connections is 2", str(quotas.problem("10.0.0.1", "clients")))
            quotas.enter("10.0.0.2", "brokers")
        self.assertIn("LimitNOFILE", str(quotas.problem("10.0.0.2", "brokers")))
        quotas.leave("10.0.0.1", "clients")
        self.assertIn("of this listener are open; max.connections is 2", str(quotas.problem("10.0.0.2", "brokers")))

    def test_descriptors_for_brokers(self) -> None:
        """
        Of many descriptors clients leave some to brokers, unless no listener is the brokers' own.
        """
        for protected, left in (("brokers", 2), (None, 0)):
            quotas = ConnectionQuotas(ConnectionLimits(), most_by_descriptors=16, protected=protected)
            for _ in range(16 - left):
                self.assertIsNone(quotas.problem("10.0.0.1", "clients"))
                quotas.enter("10.0.0.1", "clients")
            self.assertIn("LimitNOFILE", str(quotas.problem("10.0.0.1", "clients")))
            self.assertEqual(quotas.problem("10.0.0.2", "brokers") is None, left > 0)

    def test_no_address_no_limit_per_address(self) -> None:
        """
        Connections over UNIX sockets count in the total only.
        """
        quotas = ConnectionQuotas(ConnectionLimits(max_connections_per_ip=1))
        quotas.enter("")
        self.assertIsNone(quotas.problem(""))

    def test_connection_ids_are_unique(self) -> None:
        """
        Every connection gets a number of its own, also after others have left.
        """
        quotas = ConnectionQuotas(ConnectionLimits())
        first = quotas.enter("a")
        quotas.leave("a")
        self.assertNotEqual(quotas.enter("a"), first)
        self.assertEqual(quotas.total, 1)


class WarningLimiterTests(SynchronousTestCase):
    def test_one_a_second_for_each_address(self) -> None:
        """
        The first complaint passes; the next one after a second says how many were kept back.
        """
        clock = Clock()
        warning_limiter = WarningLimiter(clock.seconds)
        self.assertEqual([warning_limiter.admit("a") for _ in range(4)], [0, None, None, None])
        self.assertEqual(warning_limiter.admit("b"), 0)
        clock.advance(1.0)
        self.assertEqual([warning_limiter.admit("a"), warning_limiter.admit("a")], [3, None])

    def test_memory_is_bounded(self) -> None:
        """
        A flood from any number of addresses is remembered for a limited number of them.
        """
        clock = Clock()
        warning_limiter = WarningLimiter(clock.seconds, most_hosts=10)
        for number in range(1000):
            warning_limiter.admit(str(number))
            warning_limiter.admit(str(number))
            clock.advance(0.01)
        self.assertLessEqual(len(warning_limiter._last), 10)
        self.assertLessEqual(len(warning_limiter._suppressed), 10)
