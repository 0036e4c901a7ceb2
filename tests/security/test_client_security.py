"""The protection of a client's connections, read from properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from logbus.errors import ConfigError
from logbus.security.client_security import ClientSecurity, split_properties
from tests.certificates import Authority

LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}


def test_plaintext() -> None:
    """Neither TLS nor a login."""
    assert ClientSecurity.of({}) == ClientSecurity()
    assert ClientSecurity.of({"security.protocol": "plaintext"}) == ClientSecurity()


def test_both(tmp_path: Path) -> None:
    """TLS and a login."""
    authority = Authority.new()
    authority.write(tmp_path / "ca.pem")
    found = ClientSecurity.of(
        {"security.protocol": "SASL_SSL", "ssl.truststore.location": str(tmp_path / "ca.pem"), **LOGIN}
    )
    assert found.login is not None
    assert found.tls is not None
    assert found.tls.check_host
    assert "secret" not in repr(found)


def test_new_certificates(tmp_path: Path) -> None:
    """A file that was replaced is used for the next connection."""
    store = tmp_path / "ca.pem"
    Authority.new().write(store)
    tls = ClientSecurity.of({"security.protocol": "SSL", "ssl.truststore.location": str(store)}).tls
    assert tls is not None
    first = tls.client_context
    assert tls.client_context is first
    Authority.new().write(store)
    assert tls.client_context is not first


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security.protocl": "SSL"}, "security.protocl: no such property; did you mean security.protocol?"),
        ({"zzz": "1"}, "zzz: no such property; known are security.protocol, "),
        ({"security.protocol": "TLS"}, "security.protocol: TLS; accepted: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"sasl.password": "secret"}, "sasl.password: no use with security.protocol=PLAINTEXT; is it SASL_SSL?"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "ssl.key.password": "secret", **LOGIN},
            "ssl.key.password: no use with security.protocol=SASL_PLAINTEXT; is it SSL or SASL_SSL?",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere"}, "ssl.truststore.location: /nowhere"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "ssl.truststore.type: JKS; accepted: PEM, PKCS12"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "accepted: TLSv1.2 and TLSv1.3"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "AES128-SHA"}, "ssl.cipher.suites: AES128-SHA"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "no"},
            "ssl.endpoint.identification.algorithm: no; accepted: https, or nothing",
        ),
    ],
)
def test_wrong(given: dict[str, str], said: str) -> None:
    """Each error names the property and what would be right, and no password."""
    with pytest.raises(ConfigError) as caught:
        ClientSecurity.of(given)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_others() -> None:
    """A file of a client's properties has others, too."""
    ours, others = split_properties({"security.protocol": "SSL", "acks": "all"})
    assert (ours, others) == ({"security.protocol": "SSL"}, ["acks"])
