"""Tests of :mod:`logbus.admin.verified_passwords`."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.authorization_header import PasswordCredentials
from logbus.admin.verified_passwords import VerifiedPasswords

ALICE = PasswordCredentials("alice", "wonderland")


class VerifiedPasswordsTests(SynchronousTestCase):
    """What is remembered, and for how long."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.verified = VerifiedPasswords(self.clock.seconds, most=2)

    def test_remembered(self) -> None:
        """Only the password that was right is."""
        self.assertFalse(self.verified.has(ALICE, 1))
        self.verified.add(ALICE, 1)
        self.assertTrue(self.verified.has(ALICE, 1))
        for other in (("alice", "wonderlan"), ("alicew", "onderland"), ("bob", "wonderland")):
            self.assertFalse(self.verified.has(PasswordCredentials(*other), 1))
        self.assertTrue(self.verified.has(ALICE, 1))

    def test_changed_user(self) -> None:
        """A user who is changed or deleted is not known any more, even if the change is undone."""
        self.verified.add(ALICE, 1)
        self.assertFalse(self.verified.has(ALICE, 2))
        self.assertFalse(self.verified.has(ALICE, 1))

    def test_end(self) -> None:
        """After a minute the password is verified again."""
        self.verified.add(ALICE, 1)
        self.clock.advance(59)
        self.assertTrue(self.verified.has(ALICE, 1))
        self.clock.advance(1)
        self.assertFalse(self.verified.has(ALICE, 1))
        self.assertEqual(len(self.verified), 0)

    def test_limit(self) -> None:
        """Many users take no more memory."""
        for number in range(5):
            self.verified.add(PasswordCredentials(f"u{number}", "x"), 1)
        self.assertEqual(len(self.verified), 2)
        self.assertTrue(self.verified.has(PasswordCredentials("u4", "x"), 1))

    def test_secrets(self) -> None:
        """Nothing of it is shown."""
        self.verified.add(ALICE, 1)
        self.assertNotIn("wonderland", repr(self.verified))
        self.assertNotIn(self.verified._secret.hex()[:8], repr(self.verified))
