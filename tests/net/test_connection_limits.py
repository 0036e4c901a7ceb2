"""Admission of connections, and the rate of warnings about them."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.net.connection_limits import ConnectionLimits, ConnectionQuotas, WarningLimiter


class LedgerTests(SynchronousTestCase):
    def test_limits_on_connections(self) -> None:
        """
        The total and each address have their limit; some addresses have one of their own.
        """
        ledger = ConnectionQuotas(
            ConnectionLimits(max_connections=4, max_connections_per_ip=2, per_ip_overrides={"10.0.0.9": 1})
        )
        ledger.enter("10.0.0.1")
        self.assertIsNone(ledger.problem("10.0.0.1"))
        ledger.enter("10.0.0.1")
        self.assertIn("max.connections.per.ip is 2", str(ledger.problem("10.0.0.1")))
        ledger.enter("10.0.0.9")
        self.assertIn("is 1", str(ledger.problem("10.0.0.9")))
        self.assertIsNone(ledger.problem("10.0.0.2"))
        ledger.enter("10.0.0.2")
        self.assertIn("max.connections is 4", str(ledger.problem("10.0.0.3")))
        ledger.leave("10.0.0.1")
        self.assertIsNone(ledger.problem("10.0.0.1"))

    def test_limits_of_listeners(self) -> None:
        """
        A listener may have a limit of its own, within that of all.
        """
        ledger = ConnectionQuotas(ConnectionLimits(max_connections=3), {"clients": 1})
        ledger.enter("10.0.0.1", "clients")
        self.assertIn("of this listener are open; max.connections is 1", str(ledger.problem("10.0.0.1", "clients")))
        self.assertIsNone(ledger.problem("10.0.0.1", "brokers"))
        ledger.leave("10.0.0.1", "clients")
        self.assertIsNone(ledger.problem("10.0.0.1", "clients"))

    def test_descriptors(self) -> None:
        """
        There are no more connections than descriptors for them: logs need some, too.
        """
        ledger = ConnectionQuotas(ConnectionLimits(), most_by_descriptors=1)
        ledger.enter("10.0.0.1")
        self.assertIn("LimitNOFILE", str(ledger.problem("10.0.0.2")))

    def test_no_address_no_limit_per_address(self) -> None:
        """
        Connections over UNIX sockets count in the total only.
        """
        ledger = ConnectionQuotas(ConnectionLimits(max_connections_per_ip=1))
        ledger.enter("")
        self.assertIsNone(ledger.problem(""))

    def test_numbers_are_never_used_again(self) -> None:
        """
        Every connection gets a number of its own, also after others have left.
        """
        ledger = ConnectionQuotas(ConnectionLimits())
        first = ledger.enter("a")
        ledger.leave("a")
        self.assertNotEqual(ledger.enter("a"), first)
        self.assertEqual(ledger.total, 1)


class ComplaintsTests(SynchronousTestCase):
    def test_one_a_second_for_each_address(self) -> None:
        """
        The first complaint passes; the next one after a second says how many were kept back.
        """
        clock = Clock()
        complaints = WarningLimiter(clock.seconds)
        self.assertEqual([complaints.admit("a") for _ in range(4)], [0, None, None, None])
        self.assertEqual(complaints.admit("b"), 0)
        clock.advance(1.0)
        self.assertEqual([complaints.admit("a"), complaints.admit("a")], [3, None])

    def test_memory_is_bounded(self) -> None:
        """
        A flood from any number of addresses is remembered for a limited number of them.
        """
        clock = Clock()
        complaints = WarningLimiter(clock.seconds, most_hosts=10)
        for number in range(1000):
            complaints.admit(str(number))
            complaints.admit(str(number))
            clock.advance(0.01)
        self.assertLessEqual(len(complaints._last), 10)
        self.assertLessEqual(len(complaints._suppressed), 10)
