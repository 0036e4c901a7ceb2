"""
Checks that others can use the certificates of a listener (Kafka: SslFactory's SslEngineValidator). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from cryptography import x509
from OpenSSL import crypto

from logbus.security.tls.key_store import KeyPair

_DATES = (9, 10)
"""OpenSSL's numbers of a certificate that is not valid yet or any more: :meth:`.KeyPair.warnings` says so."""


def wrong_host(pairs: Sequence[KeyPair], host: str) -> str | None:
    """Describe that none of the certificates is of a host's name or address; None: one is."""
    if any(pair.names(host) for pair in pairs):
        return None
    named = ", ".join(sorted({name for pair in pairs for name in pair.hosts | pair.addresses})) or "no host"
    subject = pairs[0].certificate.subject.rfc4514_string()
    return f"the certificate of {subject} is of {named}, and not of {host}, which the listener advertises"


def untrusted(pairs: Sequence[KeyPair], host: str | None, trusted: Iterable[x509.Certificate]) -> str | None:
    """
    Describe that the certificate shown to those who ask for a host is of no trusted authority; None: it is.

    :param host: None: any.
    """
    shown = next((pair for pair in pairs if host is not None and pair.names(host)), pairs[0])
    store = crypto.X509Store()
    for authority in trusted:
        store.add_cert(crypto.X509.from_cryptography(authority))
    chain = [crypto.X509.from_cryptography(one) for one in shown.chain]
    context = crypto.X509StoreContext(store, crypto.X509.from_cryptography(shown.certificate), chain)
    try:
        context.verify_certificate()
    except crypto.X509StoreContextError as e:
        if e.errors[0] not in _DATES:
            subject, issuer = (name.rfc4514_string() for name in (shown.certificate.subject, shown.certificate.issuer))
            return f"the certificate of {subject}, issued by {issuer}, cannot be verified: {e.errors[2]}"
    return None


def outdated(pairs: Iterable[KeyPair], now: datetime) -> list[str]:
    """Describe the certificates that are not valid at this time."""
    return [warning for pair in pairs for warning in pair.warnings(now)]
