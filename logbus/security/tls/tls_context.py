"""
Makes the OpenSSL contexts of listeners, and of brokers that connect to them. Pure, but for reading files.

A client gets what today's practice asks for: TLS 1.2 or later, forward secrecy, no compression, no renegotiation.
Sessions are resumed by tickets alone, so that the broker keeps nothing about them.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen
from cryptography import x509
from OpenSSL import SSL, crypto

from logbus.errors import ConfigError
from logbus.security.tls.key_store import KeyPair, load_key_pairs, load_trusted, read_store
from logbus.security.tls.tls_errors import reason
from logbus.security.tls.tls_settings import TlsSettings

_VERSIONS = {"TLSv1.2": SSL.TLS1_2_VERSION, "TLSv1.3": SSL.TLS1_3_VERSION}
_VERIFY = {
    "none": SSL.VERIFY_NONE,
    "requested": SSL.VERIFY_PEER,
    "required": SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT,
}
_NOT_NOW = {9: "certificate is not yet valid", 10: "certificate has expired"}
"""OpenSSL's numbers (X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED) and words."""


@frozen
class TlsMaterial:
    """
    The key and the certificates of a listener, as read.

    :ivar pair: None: the listener's endpoint has its own.
    :ivar digest: differs when any of it does.
    :ivar others: more keys, for clients that ask for the hosts of their certificates (SNI).
    """

    pair: KeyPair | None = field(eq=False)
    trusted: tuple[x509.Certificate, ...] = field(eq=False)
    digest: bytes = field(repr=False)
    others: tuple[KeyPair, ...] = field(default=(), eq=False)

    @property
    def pairs(self) -> tuple[KeyPair, ...]:
        """All keys with their certificates."""
        return () if self.pair is None else (self.pair, *self.others)


def read_material(settings: TlsSettings, *, own_key: bool = False, between_brokers: bool = False) -> TlsMaterial:
    """
    Read the stores of a listener.

    :param own_key: whether the listener's endpoint has a key of its own.
    :param between_brokers: whether brokers connect to each other there, and check each other's certificates.
    :raises ConfigError: names the key of the configuration, and what is wrong.
    """
    key_store, trust_store = settings.key_store, settings.trust_store
    pairs: tuple[KeyPair, ...] = ()
    digest, trusted = b"", []
    if not own_key:
        if not key_store.is_set:
            raise ConfigError(
                f"TLS needs a key and its certificate: set {key_store.names['location']} to a PEM file with both"
            )
        read = read_store(key_store)
        pairs, digest = load_key_pairs(key_store, read.content), read.digest
    if settings.client_auth != "none" or between_brokers:
        if not trust_store.is_set and settings.client_auth == "none":
            raise ConfigError(
                f"brokers connect to each other there: set {trust_store.names['location']} to the certificates of "
                "those who issue brokers' certificates"
            )
        if not trust_store.is_set:
            raise ConfigError(
                f"{settings.client_auth_name}={settings.client_auth} needs {trust_store.names['location']}: the "
                "certificates of those who issue clients' certificates"
            )
        read = read_store(trust_store)
        trusted, digest = load_trusted(trust_store, read.content), digest + read.digest
    return TlsMaterial(pairs[0] if pairs else None, tuple(trusted), digest, pairs[1:])


def make_client_context(settings: TlsSettings, material: TlsMaterial) -> SSL.Context:
    """Return the context with which this broker connects to a listener of others with the same settings."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    if material.pair is not None:
        _use_pair(context, settings, material.pair)
    _restrict(context, settings)
    _trust(context, material)
    context.set_verify(SSL.VERIFY_PEER, _verify)
    return context


def _verify(connection: SSL.Connection, certificate: crypto.X509, error: int, depth: int, is_valid: int) -> bool:
    """
    Return whether a certificate is valid, as OpenSSL has found.

    :raises SSL.Error: it is not, now. OpenSSL says no more than that it has failed, as of an unknown authority.
    """
    if not is_valid and error in _NOT_NOW:
        raise SSL.Error([("SSL routines", "", f"certificate verify failed: {_NOT_NOW[error]}")])
    return bool(is_valid)


def make_context(settings: TlsSettings, material: TlsMaterial) -> SSL.Context:
    """
    Return the context of a listener.

    :raises ConfigError: OpenSSL refuses the key or a certificate.
    """
    contexts = [_server_context(settings, material, pair) for pair in material.pairs or (None,)]
    if material.others:
        _choose_by_host(contexts, material.pairs)
    return contexts[0]


def _server_context(settings: TlsSettings, material: TlsMaterial, pair: KeyPair | None) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    if pair is not None:
        _use_pair(context, settings, pair)
    restrict_context(context, settings, material)
    return context


def _choose_by_host(contexts: Sequence[SSL.Context], pairs: Sequence[KeyPair]) -> None:
    """
    Let a connection to the first of the contexts go on with that of the host which the client asks for (SNI). The first
    is for those that ask for no host, or for another one.
    """
    by_host: dict[str, SSL.Context] = {}
    for context, pair in zip(contexts, pairs, strict=True):
        for host in pair.hosts:
            by_host.setdefault(host, context)

    def choose(connection: SSL.Connection) -> None:
        host = (connection.get_servername() or b"").decode("latin-1").lower().removesuffix(".")
        found = by_host.get(host) or by_host.get(f"*.{host.partition('.')[2]}")
        if found is not None and found is not contexts[0]:
            connection.set_context(found)

    contexts[0].set_tlsext_servername_callback(choose)


def restrict_context(context: SSL.Context, settings: TlsSettings, material: TlsMaterial) -> None:
    """Apply the settings other than the key to a context that is not used yet."""
    _restrict(context, settings)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(b"logbus")
    _trust(context, material)
    for certificate in material.trusted:
        context.add_client_ca(certificate)
    context.set_verify(_VERIFY[settings.client_auth])


def _use_pair(context: SSL.Context, settings: TlsSettings, pair: KeyPair) -> None:
    try:
        context.use_certificate(pair.certificate)
        for issuer in pair.chain:
            context.add_extra_chain_cert(issuer)
        context.use_privatekey(pair.key)
        context.check_privatekey()
    except (SSL.Error, TypeError) as e:
        name = settings.key_store.names["location" if settings.key_store.location else "key"]
        raise ConfigError(f"{name}: OpenSSL refuses the key or its certificate: {reason(e)}") from None


def _restrict(context: SSL.Context, settings: TlsSettings) -> None:
    versions = [_VERSIONS[version] for version in settings.versions]
    context.set_min_proto_version(min(versions))
    context.set_max_proto_version(max(versions))
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE)
    if settings.suites.tls12:
        context.set_cipher_list(":".join(settings.suites.tls12).encode())
    if settings.suites.tls13:
        context.set_tls13_ciphersuites(":".join(settings.suites.tls13).encode())
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)  # of idle connections: 25 KB of 60 each


def _trust(context: SSL.Context, material: TlsMaterial) -> None:
    store = context.get_cert_store()
    assert store is not None, "each context has one"
    for certificate in material.trusted:
        store.add_cert(crypto.X509.from_cryptography(certificate))
