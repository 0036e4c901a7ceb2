"""Twisted's TCP without OpenSSL."""

from __future__ import annotations

import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase


def run(program: str) -> str:
    """The output of a Python program."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    return done.stdout.strip() or done.stderr


class WithoutTlsTests(SynchronousTestCase):
    def test_import(self) -> None:
        """TCP is there, OpenSSL is not; who needs it imports it afterwards, with Twisted's TLS."""
        program = """
import sys
from logbus.net.without_tls import import_without_tls
import_without_tls()
import_without_tls()
from twisted.internet import endpoints, posixbase, tcp
print(tcp.Server.__name__, posixbase.tls, "OpenSSL" in sys.modules, "cryptography" in sys.modules)
from logbus.net.tls import TLSServerFactory
from twisted.internet.ssl import CertificateOptions
print(TLSServerFactory.__name__, "OpenSSL" in sys.modules)
"""
        self.assertEqual(run(program), "Server None False False\nTLSServerFactory True")

    def test_too_late(self) -> None:
        """Where Twisted's TCP was imported before, it stays as it is."""
        program = """
from twisted.internet import posixbase
from logbus.net.without_tls import import_without_tls
import_without_tls()
import OpenSSL
print(posixbase.tls is not None)
"""
        self.assertEqual(run(program), "True")
