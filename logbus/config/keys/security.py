"""Keys of authentication (TLS, SASL) and authorization (ACLs)."""

from __future__ import annotations

from logbus.config.keys.declare import (
    PER_BROKER,
    boolean,
    choice,
    int32,
    int64,
    optional_text,
    same,
    secret,
    text,
    texts,
)
from logbus.config.keys.network import SECURITY_PROTOCOLS

SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)

AUTHORIZER_CLASS_NAME = text(
    "authorizer.class.name",
    "",
    "Either of Kafka's ACL authorizers (``org.apache.kafka.metadata.authorizer.StandardAuthorizer``, "
    "``kafka.security.authorizer.AclAuthorizer``) enables ACLs, stored as in Kafka; the dotted name of a Python class, "
    "which provides ``logbus.security.acl.iauthorizer.IAuthorizer``, is one of your own; empty: no authorization.",
)
SUPER_USERS = texts(
    "super.users",
    (),
    "Principals that are always authorized, as ``User:name`` separated by semicolons.",
    separator=";",
)
ALLOW_EVERYONE_IF_NO_ACL_FOUND = boolean(
    "allow.everyone.if.no.acl.found", False, "Whether everybody may use a resource without ACLs."
)
SECURITY_INTER_BROKER_PROTOCOL = choice(
    "security.inter.broker.protocol",
    "PLAINTEXT",
    SECURITY_PROTOCOLS,
    "The security protocol between brokers, unless ``inter.broker.listener.name`` is set.",
)
CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = int32(
    "connection.failed.authentication.delay.ms",
    100,
    "Milliseconds, plus a random delay, before a connection that failed to authenticate is closed.",
    at_least=0,
)
CONNECTIONS_MAX_REAUTH_MS = int64(
    "connections.max.reauth.ms",
    0,
    "Milliseconds after which a SASL session must authenticate again or is closed; 0: only when its token ends.",
    at_least=0,
    per_listener=True,
)

SASL_ENABLED_MECHANISMS = texts(
    "sasl.enabled.mechanisms",
    ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "SASL mechanisms that clients may use.",
    choices=SASL_MECHANISMS,
    dynamic=PER_BROKER,
    per_listener=True,
)
SASL_MECHANISM_INTER_BROKER_PROTOCOL = choice(
    "sasl.mechanism.inter.broker.protocol",
    "SCRAM-SHA-256",
    SASL_MECHANISMS,
    "The mechanism by which brokers log in to each other: PLAIN or one of SCRAM, with ``username`` and ``password`` of "
    "``sasl.jaas.config``.",
    dynamic=PER_BROKER,
)
SASL_JAAS_CONFIG = secret(
    "sasl.jaas.config",
    'A JAAS line: users and passwords of PLAIN (``user_<name>="<password>"``), and ``username`` and ``password`` that '
    "this broker itself shows to others. Usually per listener and mechanism, as in "
    "``listener.name.secure.plain.sasl.jaas.config``.",
    dynamic=PER_BROKER,
    per_listener=True,
)
SASL_SERVER_MAX_RECEIVE_SIZE = int32(
    "sasl.server.max.receive.size",
    16_384,
    "Longest SASL message accepted, in bytes (tokens of OAUTHBEARER: 65536).",
    at_least=1,
    per_listener=True,
)
SASL_PLAIN_ALLOW_UNENCRYPTED = boolean(
    "sasl.plain.allow.unencrypted",
    False,
    "Whether listeners with SASL_PLAINTEXT may have PLAIN though others can reach them: everybody on the way can read "
    "the passwords.",
    per_listener=True,
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = optional_text(
    "sasl.oauthbearer.jwks.endpoint.url",
    "URL of the keys that sign tokens, ``https:`` or ``file:``; required for OAUTHBEARER.",
    per_listener=True,
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = int64(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    3_600_000,
    "Milliseconds between two refreshes of these keys.",
    at_least=1,
    per_listener=True,
)
SASL_OAUTHBEARER_EXPECTED_AUDIENCE = texts(
    "sasl.oauthbearer.expected.audience", (), "Audiences, of which a token must have one.", per_listener=True
)
SASL_OAUTHBEARER_EXPECTED_ISSUER = optional_text(
    "sasl.oauthbearer.expected.issuer", "Who must have issued a token.", per_listener=True
)
SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS = int32(
    "sasl.oauthbearer.clock.skew.seconds",
    30,
    "Seconds that the clocks of issuer and broker may differ.",
    at_least=0,
    per_listener=True,
)
SASL_OAUTHBEARER_SCOPE_CLAIM_NAME = text(
    "sasl.oauthbearer.scope.claim.name", "scope", "The claim of a token that holds its scope.", per_listener=True
)
SASL_OAUTHBEARER_SUB_CLAIM_NAME = text(
    "sasl.oauthbearer.sub.claim.name", "sub", "The claim of a token that holds the user's name.", per_listener=True
)

DELEGATION_TOKEN_MASTER_KEY = secret(
    "delegation.token.master.key", "The older name of ``delegation.token.secret.key``."
)
DELEGATION_TOKEN_SECRET_KEY = secret(
    "delegation.token.secret.key",
    "The secret from which those of delegation tokens are made, the same on all brokers; none: there are no delegation "
    "tokens.",
    fallbacks=(same(DELEGATION_TOKEN_MASTER_KEY),),
)
DELEGATION_TOKEN_MAX_LIFETIME_MS = int64(
    "delegation.token.max.lifetime.ms",
    604_800_000,
    "Milliseconds after which a delegation token ends, however often it is renewed.",
    at_least=1,
)
DELEGATION_TOKEN_EXPIRY_TIME_MS = int64(
    "delegation.token.expiry.time.ms",
    86_400_000,
    "Milliseconds for which a delegation token is valid before it must be renewed.",
    at_least=1,
)
DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS = int64(
    "delegation.token.expiry.check.interval.ms",
    3_600_000,
    "Milliseconds between two removals of delegation tokens that have ended.",
    at_least=1,
)
DELEGATION_TOKEN_MAX_COUNT = int32(
    "delegation.token.max.count", 10_000, "Most delegation tokens that there may be.", at_least=1
)
DELEGATION_TOKEN_MAX_COUNT_PER_OWNER = int32(
    "delegation.token.max.count.per.owner",
    1_000,
    "Most delegation tokens of one owner, and most that one user may have asked for.",
    at_least=1,
)

SSL_KEYSTORE_TYPE = choice(
    "ssl.keystore.type", "PEM", ("PEM", "PKCS12"), "Format of the key store.", dynamic=PER_BROKER, per_listener=True
)
SSL_KEYSTORE_LOCATION = optional_text(
    "ssl.keystore.location",
    "File with the broker's key and certificates; read again after ``SIGHUP``, and when a key is altered. PEM may have "
    "several keys, each with its certificates: a client gets those for the host that it asks for (SNI), or the first.",
    dynamic=PER_BROKER,
    per_listener=True,
)
SSL_KEYSTORE_PASSWORD = secret(
    "ssl.keystore.password", "Password of the key store.", dynamic=PER_BROKER, per_listener=True
)
SSL_KEY_PASSWORD = secret(
    "ssl.key.password", "Password of the broker's key in PEM.", dynamic=PER_BROKER, per_listener=True
)
SSL_KEYSTORE_KEY = secret(
    "ssl.keystore.key",
    "The broker's key itself, as PEM text, instead of a file.",
    dynamic=PER_BROKER,
    per_listener=True,
)
SSL_KEYSTORE_CERTIFICATE_CHAIN = secret(
    "ssl.keystore.certificate.chain",
    "The broker's certificates themselves, as PEM text, instead of a file.",
    dynamic=PER_BROKER,
    per_listener=True,
)
SSL_TRUSTSTORE_TYPE = choice(
    "ssl.truststore.type", "PEM", ("PEM", "PKCS12"), "Format of the trust store.", dynamic=PER_BROKER, per_listener=True
)
SSL_TRUSTSTORE_LOCATION = optional_text(
    "ssl.truststore.location",
    "File with the CA certificates that verify clients' certificates.",
    dynamic=PER_BROKER,
    per_listener=True,
)
SSL_TRUSTSTORE_PASSWORD = secret(
    "ssl.truststore.password", "Password of the trust store.", dynamic=PER_BROKER, per_listener=True
)
SSL_TRUSTSTORE_CERTIFICATES = secret(
    "ssl.truststore.certificates",
    "The CA certificates as PEM text, instead of a file.",
    dynamic=PER_BROKER,
    per_listener=True,
)
SSL_CLIENT_AUTH = choice(
    "ssl.client.auth",
    "none",
    ("none", "requested", "required"),
    "Whether clients must present a certificate. On listeners with SASL, only a listener's own key counts.",
    dynamic=PER_BROKER,
    per_listener=True,
)
SSL_ENABLED_PROTOCOLS = texts(
    "ssl.enabled.protocols",
    ("TLSv1.2", "TLSv1.3"),
    "TLS versions allowed.",
    choices=("TLSv1.2", "TLSv1.3"),
    empty=False,
    dynamic=PER_BROKER,
    per_listener=True,
)
SSL_CIPHER_SUITES = texts(
    "ssl.cipher.suites",
    (),
    "Cipher suites allowed, by OpenSSL's names or Java's, with forward secrecy only; none: the modern ones.",
    dynamic=PER_BROKER,
    per_listener=True,
)
SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = choice(
    "ssl.endpoint.identification.algorithm",
    "https",
    ("https", ""),
    "``https`` checks that another broker's certificate names the host connected to; empty does not.",
    dynamic=PER_BROKER,
    per_listener=True,
)
SSL_HANDSHAKE_TIMEOUT_MS = int32(
    "ssl.handshake.timeout.ms",
    10_000,
    "Milliseconds that a client's TLS handshake may take; then its connection is closed.",
    at_least=1,
)
SSL_PRINCIPAL_MAPPING_RULES = text(
    "ssl.principal.mapping.rules",
    "DEFAULT",
    "How a certificate's distinguished name becomes a user's name (KIP-371): ``RULE:pattern/replacement/[LU]`` or "
    "``DEFAULT``, separated by commas. Patterns are RE2's.",
    per_listener=True,
)
