"""
Finds what to improve in a broker's configuration.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address

from logbus.cli.doctor.finding import Finding, Weight
from logbus.config import ConfigView, keys
from logbus.config.setting_checks import check_static
from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.listener_config import is_local

Resolve = Callable[[str], bool]
"""Whether a host name has an address."""


def resolves(host: str) -> bool:
    """Ask the system whether a host name has an address."""
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def all_errors(settings: Mapping[str, str], origins: Mapping[str, str]) -> Iterator[Finding]:
    """
    Say everything that is wrong with settings; a broker's start says the first one.

    :param origins: where each key is set.
    """
    right: dict[str, str] = {}
    for name, text in settings.items():
        try:
            check_static(name, text)
        except ConfigError as error:
            origin = origins.get(name)
            yield wrong(error if origin is None else ConfigError(f"{origin}: {error}"))
        else:
            right[name] = text
    try:
        # Values that contradict each other are told one after the other.
        ConfigView.load({}, right, origins)
    except ConfigError as error:
        yield wrong(error)


def wrong(error: ConfigError) -> Finding:
    """Return the finding of an error that a broker would not start with."""
    return Finding(
        Weight.BROKEN, "configuration", str(error), "The broker does not start.", "Correct or remove the setting."
    )


def config_findings(
    config: ConfigView, listeners: Sequence[Listener], resolve: Resolve = resolves
) -> Iterator[Finding]:
    """Say what is questionable about a configuration that a broker accepts."""
    for warning in config.warnings:
        yield Finding(
            Weight.BETTER, "configuration", warning, "The setting has no effect.", "Remove it, or use what is named."
        )
    yield from _replication(config)
    if not config.get(keys.LOG_FLUSH_BEFORE_ACK) and not config.get(keys.ZOOKEEPER_CONNECT):
        yield Finding(
            Weight.RISK,
            "log.flush.before.ack",
            "A single broker acknowledges records before they are synced",
            "A power failure takes the last acknowledged records.",
            "Set log.flush.before.ack to true, unless the records can be sent again.",
        )
    public = [listener for listener in listeners if not is_local(listener.endpoint)]
    for listener in public:
        if listener.protocol == "kafka" and not listener.has_tls:
            yield Finding(
                Weight.RISK,
                f"listener {listener.name}",
                f"Other machines reach {listener.endpoint} without TLS",
                "Whoever is on the way reads records and passwords.",
                "Use SSL or SASL_SSL, or listen on 127.0.0.1 (docs/howto/hardening.rst).",
            )
        if listener.protocol == "kafka" and "SASL" not in listener.security_protocol and not listener.has_tls:
            yield Finding(
                Weight.RISK,
                f"listener {listener.name}",
                "Its clients do not log in",
                "Whoever reaches it may do everything that an anonymous user may.",
                "Use SASL_SSL, or SSL with ssl.client.auth=required.",
            )
        yield from _advertised(listener, resolve)
    if public and not config.get(keys.AUTHORIZER_CLASS_NAME):
        yield Finding(
            Weight.RISK,
            "authorizer.class.name",
            "Other machines reach the broker, and it asks for no rights",
            "Every user may read, write and delete everything.",
            "Set authorizer.class.name, and give rights by `logbus acls`.",
        )


def _advertised(listener: Listener, resolve: Resolve) -> Iterator[Finding]:
    if listener.advertised is None or listener.protocol != "kafka":
        return
    host, port = listener.advertised
    at = f"{host}:{port}"
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
        if not resolve(host):
            yield Finding(
                Weight.BROKEN,
                f"listener {listener.name}",
                f"It advertises {at}, a name that this machine cannot resolve",
                "Clients that cannot either connect once, and then wait for ever.",
                "Advertise a name that all clients resolve (advertised.listeners, --advertise).",
            )
    if is_loopback:
        yield Finding(
            Weight.RISK,
            f"listener {listener.name}",
            f"It listens for other machines, and advertises {at}",
            "Their clients connect once, and then to themselves.",
            "Advertise a name that they reach (advertised.listeners, --advertise).",
        )


def _replication(config: ConfigView) -> Iterator[Finding]:
    factor, least = config.get(keys.DEFAULT_REPLICATION_FACTOR), config.get(keys.MIN_INSYNC_REPLICAS)
    if config.get(keys.ZOOKEEPER_CONNECT) and factor < 2:
        yield Finding(
            Weight.RISK,
            "default.replication.factor",
            "New topics of the cluster have one replica",
            "What is on a machine that is lost is lost.",
            "Set it to 3, with min.insync.replicas=2.",
        )
    if factor > 1 and least >= factor:
        yield Finding(
            Weight.RISK,
            "min.insync.replicas",
            f"It is {least}, as many as a topic has replicas by default",
            "While any one broker is away, producers with acks=all are refused.",
            f"Set it to {factor - 1}.",
        )
    if factor > 2 and least < 2:
        yield Finding(
            Weight.RISK,
            "min.insync.replicas",
            f"It is {least}, and topics have {factor} replicas",
            "A record may be acknowledged that only one broker has, and be lost with it.",
            "Set it to 2.",
        )
    if config.get(keys.UNCLEAN_LEADER_ELECTION_ENABLE):
        yield Finding(
            Weight.RISK,
            "unclean.leader.election.enable",
            "Replicas that are not in sync may become leaders",
            "Acknowledged records are lost when they do.",
            "Set it to false, and to true for topics that need to go on more than to be complete.",
        )
    if config.get(keys.ZOOKEEPER_CONNECT) and factor > 1:
        for key in (
            keys.OFFSETS_TOPIC_REPLICATION_FACTOR,
            keys.TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
            keys.SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
        ):
            if config.get(key) < 2:
                yield Finding(
                    Weight.RISK,
                    key.name,
                    "The state of groups, transactions or share groups has one replica",
                    "When its broker is lost, groups begin anew and transactions are forgotten.",
                    "Set it to 3.",
                )
