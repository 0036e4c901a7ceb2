"""The public names of the client."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase


class PackageTests(SynchronousTestCase):
    def test_public_names(self) -> None:
        """
        The package's names are imported when they are asked for, and others are refused as usual.
        """
        import logbus.client

        for name in logbus.client.__all__:
            self.assertIsNotNone(getattr(logbus.client, name))
        self.assertRaises(AttributeError, getattr, logbus.client, "nonsense")
