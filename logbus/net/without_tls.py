"""
Imports Twisted's TCP without OpenSSL, for a process that has no TLS.

Twisted imports pyOpenSSL and cryptography with its TCP transport, for ``startTLS``: 12 MB of memory and a tenth of a
broker's start.  If the import fails, Twisted does without, and its reactors cannot make TLS connections until the
process ends.  Other users of these packages can import them afterwards.
"""

from __future__ import annotations

import sys
from importlib import import_module

OPENSSL = "OpenSSL"

WITH_TLS = ("twisted.internet.posixbase", "twisted.internet.endpoints", "twisted.internet.tcp")
"""The modules that make do without it."""


def import_without_tls() -> None:
    """Import them, unless that was done already with TLS."""
    if OPENSSL in sys.modules or any(name in sys.modules for name in WITH_TLS):
        return
    sys.modules[OPENSSL] = None  # type: ignore[assignment]  # "import" raises ImportError then
    try:
        for name in WITH_TLS:
            import_module(name)
    finally:
        del sys.modules[OPENSSL]
