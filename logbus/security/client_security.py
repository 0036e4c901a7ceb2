"""
The protection of a client's connections, by the properties of Kafka's clients: ``security.protocol``, ``ssl.*`` and
``sasl.*``. Pure, but for reading files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Self

from attrs import frozen

from logbus.errors import ConfigError
from logbus.extras import install_hint

if TYPE_CHECKING:
    from logbus.security.sasl.client_login import ClientLogin, Token
    from logbus.security.tls.client_tls import ClientTls

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

PROPERTIES = (
    "security.protocol",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.token.endpoint.url",
)
"""What is read; the names are Kafka's, and ``sasl.username`` and ``sasl.password`` librdkafka's."""

_PREFIXES = ("security.", "ssl.", "sasl.")


@frozen
class ClientSecurity:
    """
    The protection of a client's connections.

    :ivar tls: None: connections are not encrypted.
    :ivar login: None: the client does not log in.
    """

    tls: ClientTls | None = None
    login: ClientLogin | None = None

    @property
    def principal(self) -> str:
        """Who the client is for brokers that do not map names, such as ``User:alice``; for errors."""
        if self.login is not None:
            return self.login.principal
        subject = None if self.tls is None else self.tls.subject
        return "User:ANONYMOUS" if subject is None else f"User:{subject}"

    @classmethod
    def of(cls, properties: Mapping[str, str], token: Token | None = None) -> Self:
        """
        Read :data:`PROPERTIES`.

        :param token: gives the token for OAUTHBEARER.
        :raise ConfigError: names the property that is unknown, wrong or missing, and what would be right.
        """
        unknown = sorted(properties.keys() - set(PROPERTIES))
        if unknown:
            import difflib  # needed only here

            near = difflib.get_close_matches(unknown[0], PROPERTIES, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(PROPERTIES)}"
            raise ConfigError(f"{unknown[0]}: no such property; {hint}")
        protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
        if protocol not in PROTOCOLS:
            raise ConfigError(f"security.protocol: {protocol}; accepted: {', '.join(PROTOCOLS)}")
        has_tls, has_login = protocol.endswith("SSL"), protocol.startswith("SASL")
        for prefix, has, wanted in (("ssl.", has_tls, "SSL or SASL_SSL"), ("sasl.", has_login, "SASL_SSL")):
            useless = sorted(name for name in properties if name.startswith(prefix))
            if useless and not has:
                raise ConfigError(f"{useless[0]}: no use with security.protocol={protocol}; is it {wanted}?")
        return cls(
            _client_tls(properties) if has_tls else None, _client_login(properties, token) if has_login else None
        )


def split_properties(properties: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """
    Divide a client's properties.

    :returns: those about security, and the names of the others.
    """
    ours = {name: value for name, value in properties.items() if name.startswith(_PREFIXES)}
    return ours, _others(properties, ours)


def _others(names: Iterable[str], ours: Mapping[str, str]) -> list[str]:
    return sorted(name for name in names if name not in ours)


def _client_login(properties: Mapping[str, str], token: Token | None) -> ClientLogin:
    from logbus.security.sasl.client_login import ClientLogin  # most clients do not log in

    return ClientLogin.of(properties, token)


def _client_tls(properties: Mapping[str, str]) -> ClientTls:
    try:
        from logbus.security.tls.client_tls import ClientTls  # its packages are an extra
    except ImportError as e:
        raise ConfigError(
            f"security.protocol: TLS needs a package that is not installed ({e}): {install_hint('tls')}"
        ) from None
    return ClientTls.of(properties)
