"""Words for errors of TLS, the same at both ends of a connection. Pure, and without a library of TLS."""

from __future__ import annotations

from typing import TypeGuard

from logbus.errors import ConfigError

_WRONG_HOST = "its certificate is not of the host connected to (ssl.endpoint.identification.algorithm)"

_REFUSED = "the other side refuses the certificate in ssl.keystore.location"
_MEANINGS = {
    "wrong version number": "the other side does not speak TLS",
    "http request": "the other side speaks HTTP without TLS",
    "alert unknown ca": f"{_REFUSED}, whose authority it does not trust",
    "alert bad certificate": f"{_REFUSED}, as of another host",
    # So Java says both.
    "alert certificate unknown": f"{_REFUSED}, whose authority it does not trust, or which is of another host",
    "alert certificate expired": f"{_REFUSED}, which has expired",
    "alert certificate required": "the other side demands a certificate, as in ssl.keystore.location",
    "peer did not return a certificate": "the other side shows no certificate, which ssl.client.auth demands",
}
"""What to make of OpenSSL's words, by a part of them. An alert is what the other side says (RFC 8446, 6.2)."""


class UnusableCertificate(ConfigError):
    """A new certificate that others would not accept, in place of one that they do."""


def is_tls_error(error: object) -> TypeGuard[BaseException]:
    """Whether an error is of OpenSSL, or of the check of a certificate's host."""
    return type(error).__module__.partition(".")[0] in ("OpenSSL", "service_identity")


def describe_tls_error(error: BaseException) -> str:
    """Return why a connection over TLS was not made: what it means, and OpenSSL's words."""
    if type(error).__module__.startswith("service_identity"):
        return _WRONG_HOST
    said = reason(error)
    if said == "certificate verify failed":
        return f"{said}; see ssl.truststore.location"
    meaning = next((meaning for part, meaning in _MEANINGS.items() if part in said), "")
    return f"{meaning} ({said})" if meaning else said


def reason(error: BaseException) -> str:
    """Return OpenSSL's words for an error."""
    details = error.args[0] if error.args else ""
    if isinstance(details, list) and details:
        return ", ".join(str(detail[-1]) for detail in details)
    return str(details) or type(error).__name__
