"""
The protocol plugins of listeners: the built-in ones, discovery of others, and the options ``--listen``,
``--advertise``.
"""

from __future__ import annotations

import re

from twisted.internet.interfaces import IProtocolFactory
from twisted.plugin import IPlugin
from zope.interface import implementer

from logbus.errors import ConfigError
from logbus.ilogbus import IBroker, IProtocolPlugin, Listener
from logbus.plugins import installed_plugins

_LISTEN = re.compile(r"(?:(?P<name>[A-Za-z0-9_.-]+)=)?(?P<protocol>[a-z0-9-]+):(?P<endpoint>.+)")
_ADVERTISE = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)=(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d+)")


@implementer(IPlugin, IProtocolPlugin)
class KafkaPlugin:
    """The Kafka protocol."""

    name = "kafka"
    summary = "the Kafka protocol, for every Kafka client"

    def factory(self, broker: IBroker, listener: Listener) -> IProtocolFactory:
        return broker.kafka_factory(listener)


@implementer(IPlugin, IProtocolPlugin)
class AdminPlugin:
    """Metrics, health and REST over HTTP."""

    name = "admin"
    summary = "HTTP: /metrics, /healthz, /readyz, /api/v1/"

    def factory(self, broker: IBroker, listener: Listener) -> IProtocolFactory:
        return broker.admin_factory(listener)


def protocol_plugins() -> dict[str, IProtocolPlugin]:
    """Return all installed protocol plugins, by name."""
    return {plugin.name: plugin for plugin in installed_plugins(IProtocolPlugin)}


def parse_listen(text: str) -> Listener:
    """
    Parse the value of ``--listen``: ``[NAME=]PROTOCOL:ENDPOINT``.

    :raise ConfigError: it does not have this form.
    """
    found = _LISTEN.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"--listen {text}: expected [NAME=]PROTOCOL:ENDPOINT, such as kafka:tcp:9092:interface=127.0.0.1"
        )
    return Listener(found["name"] or found["protocol"], found["protocol"], found["endpoint"])


def parse_advertise(text: str) -> tuple[str, tuple[str, int]]:
    """
    Parse the value of ``--advertise``: ``NAME=HOST:PORT``.

    :raise ConfigError: it does not have this form.
    """
    found = _ADVERTISE.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ConfigError(f"--advertise {text}: expected NAME=HOST:PORT, such as kafka=log.example.org:9092")
    return found["name"], (found["v6"] or found["host"], int(found["port"]))
