"""
Resolves the listeners of a broker from ``--listen``, ``--advertise``, ``listeners``, ``advertised.listeners`` and
``admin.listeners``.

The security protocol of a listener is that of ``listener.security.protocol.map``, or else its endpoint's.

``listeners`` has those of Kafka, ``admin.listeners`` those of HTTP; a ``--listen`` replaces the one of its name there,
or adds one. Without ``listeners`` a broker has the default one unless a ``--listen`` is for Kafka, so that it is never
without; without ``admin.listeners``, the default one of HTTP only if there is no ``--listen``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address

from attrs import evolve, frozen

from logbus.config import ConfigView, Source, keys
from logbus.config.config_key import ConfigKey
from logbus.config.key_table import LISTENER_PREFIX
from logbus.config.listener_address import HTTPS, ListenerAddress
from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.protocols import parse_advertise, parse_listen
from logbus.security.sasl.sasl_config import SaslConfig, read_http_sasl_config, read_sasl_config

KAFKA, ADMIN = "kafka", "admin"
_INTERFACE = re.compile(r":interface=((?:\\.|[^:\\])*)")
PLAINTEXT, SSL = "PLAINTEXT", "SSL"


def resolve_listeners(
    listen: Sequence[str], advertise: Iterable[str], config: ConfigView, ports: Mapping[str, int] | None = None
) -> list[Listener]:
    """
    Return the listeners of a broker.

    :param listen: the values of ``--listen``.
    :param advertise: the values of ``--advertise``.
    :param ports: by protocol, the port of the first listener in place of its key's (``--port``, ``--admin-port``).
    :raise ConfigError: a listener is invalid, or named twice.
    """
    ports = ports or {}
    given = [parse_listen(text) for text in listen]
    _refuse_repeated(given)
    found: list[Listener] = []
    for protocol, addresses, with_default in (
        (KAFKA, _addresses(config, keys.LISTENERS), not _of_protocol(given, KAFKA)),
        (ADMIN, _addresses(config, keys.ADMIN_LISTENERS), not given),
    ):
        port = ports.get(protocol)
        key = keys.LISTENERS if protocol == KAFKA else keys.ADMIN_LISTENERS
        if port is not None or (addresses is None and with_default):
            first, *others = addresses or key.default
            addresses = (first if port is None else first._replace(port=port), *others)
        named = config.is_set(key)
        found += _merged(_key_listeners(protocol, addresses or (), named=named), _of_protocol(given, protocol), port)
    found += [listener for listener in given if listener.protocol not in (KAFKA, ADMIN)]
    _refuse_repeated(found)
    names = [listener.name for listener in found]
    # The key falls back to ``listeners``, whose hosts may be empty: only an explicit value counts.
    said = [setting for setting in config.settings(keys.ADVERTISED_LISTENERS) if setting.name == "advertised.listeners"]
    advertised = {at.name: (at.host, at.port) for setting in said[:1] for at in setting.value}
    advertised.update(parse_advertise(text) for text in advertise)
    for name in advertised:
        if name not in names:
            raise ConfigError(f"--advertise {name}: there is no such listener; there are: {', '.join(names)}")
    among = config.get(keys.INTER_BROKER_LISTENER_NAME)
    serving = [listener.name for listener in _of_protocol(found, KAFKA)]
    if among is not None and among.upper() not in {name.upper() for name in serving}:
        raise ConfigError(f"inter.broker.listener.name={among} is not one of the listeners: {', '.join(serving)}")
    return [evolve(secured(at, config), advertised=advertised.get(at.name)) for at in found]


def refuse_keys_of_none(config: ConfigView, listeners: Iterable[Listener], controllers: str = "") -> None:
    """
    Refuse keys of a listener that there is not: what they protect would not be protected.

    :param controllers: the value of ``controller.listener.names``: listeners of Kafka's controllers, which its brokers
        connect to.
    :raise ConfigError: there is one.
    """
    known = [listener.name.lower() for listener in listeners]
    foreign = {name.strip().lower() for name in controllers.split(",")}
    for key in config.layer(Source.STATIC):
        of = key.removeprefix(LISTENER_PREFIX).partition(".")[0]
        if key.startswith(LISTENER_PREFIX) and of not in known and of not in foreign:
            why = f"{key}: there is no listener {of}; there are, in such keys: {', '.join(known)}"
            raise config.located(key, ConfigError(why))


def secured(listener: Listener, config: ConfigView) -> Listener:
    """
    Return a listener with its security protocol.

    :raise ConfigError: the map and the endpoint contradict each other, or the endpoint cannot have TLS.
    """
    protocols = {name.upper(): how for name, how in config.get(keys.LISTENER_SECURITY_PROTOCOL_MAP).items()}
    name, endpoint, has_key = listener.name, listener.endpoint, listener.endpoint.startswith("ssl:")
    if listener.security_protocol == PLAINTEXT:
        listener = evolve(listener, security_protocol=protocols.get(name.upper(), SSL if has_key else PLAINTEXT))
    protocol = listener.security_protocol
    if has_key and not listener.has_tls:
        raise ConfigError(
            f"listener {name}: its endpoint is ssl:…, but listener.security.protocol.map says {protocol}; map it to "
            f"{protocol.replace('PLAINTEXT', 'SSL') if protocol != PLAINTEXT else SSL}, or use a tcp: endpoint"
        )
    if listener.has_tls and not endpoint.startswith(("ssl:", "tcp:", "tcp4:", "tcp6:")):
        raise ConfigError(f"listener {name}: {protocol} needs an endpoint that begins with tcp:, tcp6: or ssl:")
    return listener


def inter_broker_listener(listeners: Iterable[Listener], config: ConfigView) -> Listener | None:
    """Return the listener for other brokers (``inter.broker.listener.name``, ``security.inter.broker.protocol``)."""
    serving, named = _of_protocol(listeners, KAFKA), config.get(keys.INTER_BROKER_LISTENER_NAME)
    among = config.get(keys.SECURITY_INTER_BROKER_PROTOCOL)
    for listener in serving:
        if listener.security_protocol == among if named is None else listener.name.upper() == named.upper():
            return listener
    return None


def protected_listener(listeners: Iterable[Listener], config: ConfigView) -> str | None:
    """
    Return the listener that clients' connections must leave room at, where there are other brokers.

    It is theirs, as in Kafka; None: it is the only one, so that clients are there as well.
    """
    serving = _of_protocol(listeners, KAFKA)
    among = inter_broker_listener(serving, config)
    # Workers have each listener twice: where they listen together, and where each does alone.
    return None if among is None or len({listener.name for listener in serving}) == 1 else among.name


def check_inter_broker(listeners: Iterable[Listener], config: ConfigView, who: str = "brokers") -> None:
    """
    Check that there is a listener for other brokers; without one they would connect to the first.

    :param who: ``brokers`` or ``workers``.
    :raise ConfigError: none is named, and none has the security protocol between brokers.
    """
    serving = _of_protocol(listeners, KAFKA)
    if serving and inter_broker_listener(serving, config) is None:
        first = serving[0]
        raise ConfigError(
            f"listener {first.name}: {who} would connect to it, but {keys.SECURITY_INTER_BROKER_PROTOCOL.name} "
            f"is not {first.security_protocol}; name their listener in {keys.INTER_BROKER_LISTENER_NAME.name}"
        )


def require_kafka(listeners: Iterable[Listener]) -> None:
    """
    Check that clients and other brokers can connect.

    :raise ConfigError: no listener speaks the Kafka protocol.
    """
    if not _of_protocol(listeners, KAFKA):
        raise ConfigError(
            "no listener speaks the Kafka protocol: add --listen kafka:tcp:9092:interface=127.0.0.1, or set listeners"
        )


def _of_protocol(listeners: Iterable[Listener], protocol: str) -> list[Listener]:
    return [listener for listener in listeners if listener.protocol == protocol]


def _addresses(config: ConfigView, key: ConfigKey[tuple[ListenerAddress, ...]]) -> tuple[ListenerAddress, ...] | None:
    return config.get(key) if config.is_set(key) else None


def _key_listeners(protocol: str, addresses: Iterable[ListenerAddress], *, named: bool) -> list[Listener]:
    """
    Return the listeners of a key. Those of HTTP are ``admin``, ``admin-2`` and so on.

    :param named: whether the key is set; by default a listener is named after its protocol.
    """
    if protocol == KAFKA:
        return [Listener(at.name if named else KAFKA, KAFKA, _endpoint(at)) for at in addresses]
    return [
        Listener(
            ADMIN if n == 1 else f"{ADMIN}-{n}",
            ADMIN,
            _endpoint(at),
            security_protocol=SSL if at.name == HTTPS else PLAINTEXT,
        )
        for n, at in enumerate(addresses, 1)
    ]


def _merged(listeners: Iterable[Listener], given: Sequence[Listener], port: int | None) -> list[Listener]:
    """
    Return the listeners of a key, where those of the command line take the place of those of their names, or are added.

    :param port: an option's port for the first one.
    """
    replaced = {at.name.upper(): at for at in given}
    merged = []
    for n, listener in enumerate(listeners):
        other = replaced.pop(listener.name.upper(), None)
        if other is not None and port is not None and n == 0:
            option = "--port" if other.protocol == KAFKA else "--admin-port"
            raise ConfigError(f"{option} {port} and --listen both say where {other.name} listens: leave one out")
        merged.append(other or listener)
    return [*merged, *replaced.values()]


def _refuse_repeated(listeners: Iterable[Listener]) -> None:
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"--listen: two listeners are named {name}; give one another name: NAME={name}:…")


def _endpoint(at: ListenerAddress) -> str:
    """Return the string of a Twisted server endpoint."""
    return f"tcp:{at.port}:interface={at.host.replace(':', chr(92) + ':')}"


def listener_sasl_config(config: ConfigView, listener: Listener) -> SaslConfig | None:
    """
    Return the SASL settings of a listener; None: its clients do not log in.

    :raise ConfigError: names the listener, the key and what is accepted.
    """
    if not listener.security_protocol.startswith("SASL_"):
        return None
    if listener.protocol != KAFKA:
        raise ConfigError(
            f"listener {listener.name}: {listener.security_protocol} is for the protocol {KAFKA}; the clients of "
            f"{listener.protocol} would not have to log in"
        )
    return read_sasl_config(config, listener.name, private=listener.has_tls or is_local(listener.endpoint))


@frozen
class HttpLoginConfig:
    """
    The logins that clients of an HTTP listener may use.

    :ivar required: whether they must.
    :ivar sasl: the users of passwords and tokens; None: the network could read them, so that none are accepted.
    """

    required: bool
    sasl: SaslConfig | None


def http_login_config(config: ConfigView, listener: Listener) -> HttpLoginConfig:
    """
    Return how the clients of a listener of HTTP log in.

    :raise ConfigError: names the listener, the keys and what is accepted.
    """
    name, key = listener.name, keys.ADMIN_AUTHENTICATION.name
    local = is_local(listener.endpoint)
    said = config.listener_get(name, keys.ADMIN_AUTHENTICATION)
    required = said == "required" or not (said or local)
    private = listener.has_tls or local or config.listener_get(name, keys.SASL_PLAIN_ALLOW_UNENCRYPTED)
    if not private:
        if required:
            raise ConfigError(
                f"listener {name}: others than this machine reach it, so that its clients must log in, but without TLS "
                "everybody on the way could read their passwords; use https://… in admin.listeners (or SSL in "
                f"listener.security.protocol.map), listen on 127.0.0.1, set {key}=optional to let everybody in who "
                f"reaches it, or {keys.SASL_PLAIN_ALLOW_UNENCRYPTED.name}=true to accept that passwords can be read"
            )
        return HttpLoginConfig(required, None)
    sasl = read_http_sasl_config(config, name)
    certificates = listener.has_tls and config.listener_get(name, keys.SSL_CLIENT_AUTH) != "none"
    if required and not (sasl.mechanisms or certificates):
        raise ConfigError(
            f"listener {name}: nobody could log in: {keys.SASL_ENABLED_MECHANISMS.name} has no mechanism with users "
            f"here, and {keys.SSL_CLIENT_AUTH.name} asks for no certificate; set one of them, or {key}=optional"
        )
    return HttpLoginConfig(required, sasl)


def may_need_tls(config: ConfigView, listeners: Iterable[Listener]) -> bool:
    """Whether this broker may make or accept TLS connections by Twisted: it has TLS, fetches keys, or runs plugins."""
    if config.get(keys.LOG_DELETE_POLICY) != keys.LOG_DELETE_POLICY.default:
        return True
    return any(
        at.has_tls
        or at.protocol not in (KAFKA, ADMIN)
        or not at.endpoint.startswith(("tcp:", "tcp4:", "tcp6:", "unix:"))
        or config.listener_get(at.name, keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL)
        for at in listeners
    )


def interface_of(endpoint: str) -> str:
    """Return the address at which an endpoint listens; "": at all that there are."""
    found = _INTERFACE.search(endpoint)
    return "" if found is None else found[1].replace("\\", "")


def is_local(endpoint: str) -> bool:
    """Return whether only clients on this machine reach an endpoint."""
    host = interface_of(endpoint)
    if endpoint.startswith("unix:") or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
