"""
Identifies a TLS connection to both of its ends, and to nobody in between.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import ISystemHandle

_LABEL, _LENGTH = b"EXPORTER-Channel-Binding", 32


def channel_binding(transport: Any) -> bytes:
    """Return the ``tls-exporter`` channel binding (RFC 9266) of a connection; empty without TLS."""
    handle = transport.getHandle() if ISystemHandle.providedBy(transport) else None
    export = getattr(handle, "export_keying_material", None)
    found: bytes = b"" if export is None else export(_LABEL, _LENGTH, b"")
    return found
