"""The settings of connections to brokers, read from the ``kafka.*`` options of Kafka's clients; can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from logbus.client.cluster.addresses import parse_bootstrap
from logbus.errors import ConfigError
from logbus.pipeline.blocking import jaas
from logbus.pipeline.blocking.oauth_token import TokenSource
from logbus.pipeline.errors import OptionError
from logbus.pipeline.options import Option, OptionTable, OptionType, Refusal, integer, milliseconds, one_of, text

PREFIX = "kafka."
"""Of the names of Kafka's options."""

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def _addresses(given: str) -> tuple[tuple[str, int], ...]:
    try:
        return tuple(parse_bootstrap(given))
    except ConfigError as e:
        raise ValueError(str(e)) from None


def _versions(given: str) -> tuple[str, ...]:
    versions = tuple(each.strip() for each in given.split(","))
    if not set(versions) <= {"TLSv1.2", "TLSv1.3"}:
        raise ValueError(given)
    return versions


CONNECTION_OPTIONS = OptionTable(
    [
        Option(
            "bootstrap.servers",
            OptionType(_addresses, "HOST:PORT, or several with commas between"),
            None,
            "The bootstrap brokers, ``HOST:PORT`` with commas between. Required.",
        ),
        Option("client.id", text(), "logbus-pipeline", "The name of this client, for quotas and request logs."),
        Option(
            "security.protocol",
            one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
            "PLAINTEXT",
            "``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.",
        ),
        Option(
            "ssl.truststore.type",
            one_of("PEM"),
            "PEM",
            "``PEM``. Java's formats are not read: ``keytool -exportcert -rfc`` writes PEM.",
        ),
        Option(
            "ssl.truststore.location",
            text(),
            None,
            "A PEM file with trusted CA certificates; default: the system's. It is read where a task runs.",
        ),
        Option("ssl.truststore.certificates", text(), None, "The same, as the text of such a file."),
        Option("ssl.keystore.type", one_of("PEM"), "PEM", "``PEM``."),
        Option(
            "ssl.keystore.location", text(), None, "A PEM file with the client's certificate chain and private key."
        ),
        Option("ssl.keystore.certificate.chain", text(), None, "The client's certificate chain as PEM text."),
        Option("ssl.keystore.key", text(), None, "The client's private key as PEM text (PKCS#8).", secret=True),
        Option("ssl.key.password", text(), None, "The password of the private key.", secret=True),
        Option(
            "ssl.endpoint.identification.algorithm",
            one_of("https", ""),
            "https",
            "``https``: verify that the broker's certificate is of its host name; empty: do not.",
        ),
        Option(
            "ssl.enabled.protocols",
            OptionType(_versions, "TLSv1.2 and TLSv1.3, with commas between"),
            ("TLSv1.2", "TLSv1.3"),
            "Of ``TLSv1.2,TLSv1.3``.",
        ),
        Option("ssl.cipher.suites", text(), None, "OpenSSL's names of ciphers for TLS 1.2, with colons or commas."),
        Option("sasl.mechanism", one_of(*MECHANISMS), None, f"One of {', '.join(f'``{m}``' for m in MECHANISMS)}."),
        Option(
            "sasl.jaas.config",
            text(),
            None,
            "User and password as in Java's clients: ``org.apache.kafka.common.security.scram.ScramLoginModule "
            'required username="..." password="...";``',
            secret=True,
        ),
        Option("sasl.username", text(), None, "The user, instead of ``sasl.jaas.config``."),
        Option("sasl.password", text(), None, "The password, instead of ``sasl.jaas.config``.", secret=True),
        Option(
            "sasl.oauthbearer.token.endpoint.url",
            text(),
            None,
            "With ``OAUTHBEARER``: ``file:///PATH`` of a file with a token, which is read at each login where a task "
            "runs; or the URL of an OAuth 2.0 token endpoint, which is asked by client credentials.",
        ),
        Option(
            "sasl.oauthbearer.token.callback",
            text(),
            None,
            "Instead of a URL, ``MODULE:FUNCTION`` in Python: it is called at each login, also where tasks run, and "
            "returns a token.",
        ),
        Option(
            "sasl.oauthbearer.client.credentials.client.id",
            text(),
            None,
            "For the token endpoint; or ``clientId`` in ``sasl.jaas.config``.",
        ),
        Option(
            "sasl.oauthbearer.client.credentials.client.secret",
            text(),
            None,
            "For the token endpoint; or ``clientSecret`` in ``sasl.jaas.config``.",
            secret=True,
        ),
        Option("sasl.oauthbearer.scope", text(), None, "For the token endpoint; or ``scope`` in ``sasl.jaas.config``."),
        Option("request.timeout.ms", milliseconds(1), 30.0, "How long to wait for a response."),
        Option(
            "socket.connection.setup.timeout.ms", milliseconds(1), 10.0, "How long to wait until a broker is connected."
        ),
        Option(
            "default.api.timeout.ms",
            milliseconds(0),
            60.0,
            "How long to retry retriable errors, such as those of moving leaders and restarting brokers.",
        ),
        Option(
            "retry.backoff.ms", milliseconds(0), 0.1, "The wait before the first retry; it doubles with each retry."
        ),
        Option("retry.backoff.max.ms", milliseconds(0), 1.0, "The longest wait before a retry."),
        Option("connections.max.idle.ms", milliseconds(0), 540.0, "After how long idle connections are closed."),
        Option(
            "receive.buffer.bytes", integer(-1, 2**31 - 1), -1, "The socket's receive buffer; -1: the system decides."
        ),
        Option("send.buffer.bytes", integer(-1, 2**31 - 1), -1, "The socket's send buffer; -1: the system decides."),
    ]
)
"""The ``kafka.*`` options about connections; times become seconds."""

_NO_JAVA = Refusal("there is no Java here that has it; leave it out")
_NO_CLASS = Refusal("there is no Java here that could load it")
_ADDRESSES = "the bootstrap addresses are tried whenever no broker answers; leave it out"

CONNECTION_REFUSED = {
    "metadata.recovery.strategy": Refusal(_ADDRESSES, "rebootstrap"),
    "metadata.recovery.rebootstrap.trigger.ms": Refusal(_ADDRESSES),
    "reconnect.backoff.ms": Refusal("give kafka.retry.backoff.ms"),
    "reconnect.backoff.max.ms": Refusal("give kafka.retry.backoff.max.ms"),
    "socket.connection.setup.timeout.max.ms": Refusal("give kafka.socket.connection.setup.timeout.ms"),
    "client.dns.lookup": Refusal("all addresses of a name are tried", "use_all_dns_ips"),
    "enable.metrics.push": Refusal("nothing is pushed", "false"),
    "ssl.protocol": Refusal("give kafka.ssl.enabled.protocols"),
    "ssl.truststore.password": Refusal("a PEM file has none; Java's keystores are not read"),
    "ssl.keystore.password": Refusal("a PEM file has none: kafka.ssl.key.password is that of the key in it"),
    "ssl.engine.factory.class": _NO_CLASS,
    "ssl.keymanager.algorithm": _NO_JAVA,
    "ssl.trustmanager.algorithm": _NO_JAVA,
    "ssl.provider": _NO_JAVA,
    "ssl.secure.random.implementation": _NO_JAVA,
    "security.providers": _NO_CLASS,
    "sasl.kerberos.service.name": Refusal("Kerberos is not spoken here"),
    "sasl.client.callback.handler.class": _NO_CLASS,
    "sasl.login.callback.handler.class": Refusal(
        "there is no Java here that could load it; OAUTHBEARER takes its token from kafka.sasl.oauthbearer.* options"
    ),
    "sasl.login.class": _NO_CLASS,
}
"""The ``kafka.*`` options about connections that are refused, without the prefix."""


@frozen
class TlsSettings:
    """
    TLS settings. Files are read where the connection is made.

    :ivar trusted_file: CA certificates in a PEM file; None: ``trusted``, which is PEM text, or else the system's.
    :ivar check_host: verify that the certificate is of the host's name.
    """

    trusted_file: str | None = None
    trusted: str | None = None
    own_file: str | None = None
    own_chain: str | None = None
    own_key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_host: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: str | None = None


@frozen
class SaslSettings:
    """
    SASL credentials: one of :data:`MECHANISMS`, a user, and a password.

    :ivar token: of OAUTHBEARER, which has no user and password.
    """

    mechanism: str
    username: str
    password: str = field(repr=False)
    token: TokenSource | None = None


@frozen
class ConnectionSettings:
    """
    The settings of connections to a cluster; times are in seconds.

    :ivar bootstrap: hosts and ports, tried in order until one answers.
    :ivar tls: None: no TLS.
    :ivar sasl: None: no authentication.
    :ivar retry_timeout: for how long retriable errors are retried (``default.api.timeout.ms``).
    :ivar max_idle: after which an idle connection is closed.
    """

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "logbus-pipeline"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    request_timeout: float = 30.0
    connect_timeout: float = 10.0
    retry_timeout: float = 60.0
    backoff: float = 0.1
    backoff_max: float = 1.0
    max_idle: float = 540.0
    receive_buffer: int = -1
    send_buffer: int = -1

    @classmethod
    def from_options(cls, given: Mapping[str, str], prefix: str = "") -> ConnectionSettings:
        """
        Read the options of :data:`CONNECTION_OPTIONS`; others are ignored.

        :param prefix: of the names, such as ``kafka.``.
        :raises OptionError: names the option that is wrong or missing, and what it takes.
        """
        values = CONNECTION_OPTIONS.read(given, prefix)
        if values["bootstrap.servers"] is None:
            raise OptionError(f"option {prefix + 'bootstrap.servers'!r} is missing; it takes HOST:PORT of the brokers")
        protocol = values["security.protocol"]
        return cls(
            bootstrap=values["bootstrap.servers"],
            client_id=values["client.id"],
            tls=_tls(values, prefix) if protocol.endswith("SSL") else None,
            sasl=_sasl(values, prefix) if protocol.startswith("SASL") else None,
            request_timeout=values["request.timeout.ms"],
            connect_timeout=values["socket.connection.setup.timeout.ms"],
            retry_timeout=values["default.api.timeout.ms"],
            backoff=values["retry.backoff.ms"],
            backoff_max=max(values["retry.backoff.max.ms"], values["retry.backoff.ms"]),
            max_idle=values["connections.max.idle.ms"],
            receive_buffer=values["receive.buffer.bytes"],
            send_buffer=values["send.buffer.bytes"],
        )


def _tls(values: Mapping[str, Any], prefix: str) -> TlsSettings:
    for one, other in (
        ("ssl.truststore.location", "ssl.truststore.certificates"),
        ("ssl.keystore.location", "ssl.keystore.key"),
    ):
        if values[one] is not None and values[other] is not None:
            raise OptionError(f"options {prefix + one!r} and {prefix + other!r}: give one of them, not both")
    if (values["ssl.keystore.key"] is None) != (values["ssl.keystore.certificate.chain"] is None):
        raise OptionError(
            f"options {prefix + 'ssl.keystore.key'!r} and {prefix + 'ssl.keystore.certificate.chain'!r} go together; "
            "one is missing"
        )
    return TlsSettings(
        trusted_file=values["ssl.truststore.location"],
        trusted=values["ssl.truststore.certificates"],
        own_file=values["ssl.keystore.location"],
        own_chain=values["ssl.keystore.certificate.chain"],
        own_key=values["ssl.keystore.key"],
        key_password=values["ssl.key.password"],
        check_host=values["ssl.endpoint.identification.algorithm"] == "https",
        versions=values["ssl.enabled.protocols"],
        ciphers=values["ssl.cipher.suites"],
    )


def _sasl(values: Mapping[str, Any], prefix: str) -> SaslSettings:
    mechanism = values["sasl.mechanism"]
    if mechanism is None:
        raise OptionError(
            f"option {prefix + 'sasl.mechanism'!r} is missing for {values['security.protocol']}; it takes one of "
            + ", ".join(MECHANISMS)
        )
    if mechanism == "OAUTHBEARER":
        return SaslSettings(mechanism, "", "", _token(values, prefix))
    user, password = values["sasl.username"], values["sasl.password"]
    if values["sasl.jaas.config"] is not None:
        try:
            user, password = jaas.user_and_password(values["sasl.jaas.config"])
        except ValueError as e:
            raise OptionError(f"option {prefix + 'sasl.jaas.config'!r}: {e}") from None
    if user is None or password is None:
        raise OptionError(
            f"user and password are missing for {mechanism}: give {prefix + 'sasl.jaas.config'!r}, or "
            f"{prefix + 'sasl.username'!r} and {prefix + 'sasl.password'!r}"
        )
    return SaslSettings(mechanism, user, password)


def _token(values: Mapping[str, Any], prefix: str) -> TokenSource:
    credentials: dict[str, str] = {}
    if values["sasl.jaas.config"] is not None:
        try:
            credentials = jaas.client_credentials(values["sasl.jaas.config"])
        except ValueError as e:
            raise OptionError(f"option {prefix + 'sasl.jaas.config'!r}: {e}") from None
    name = "sasl.oauthbearer.client.credentials.client"
    return TokenSource(
        url=values["sasl.oauthbearer.token.endpoint.url"] or "",
        callback=values["sasl.oauthbearer.token.callback"] or "",
        client_id=values[f"{name}.id"] or credentials.get("clientId", ""),
        client_secret=values[f"{name}.secret"] or credentials.get("clientSecret", ""),
        scope=values["sasl.oauthbearer.scope"] or credentials.get("scope", ""),
        timeout=values["socket.connection.setup.timeout.ms"],
    )
