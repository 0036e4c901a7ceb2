"""
Refuses security settings that this version does not enforce: ignoring them would leave the broker open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from logbus.config import keys
from logbus.config.config_key import ConfigKey
from logbus.config.config_view import ConfigView, Source
from logbus.config.key_table import broker_key
from logbus.errors import ConfigError

_PREFIXES = ("sasl.", "ssl.", "connections.max.reauth.")
_ENFORCED: frozenset[ConfigKey[Any]] = frozenset({keys.SSL_HANDSHAKE_TIMEOUT_MS})
_KEYS: frozenset[ConfigKey[Any]] = frozenset(
    {
        keys.AUTHORIZER_CLASS_NAME,
        keys.SUPER_USERS,
        keys.SECURITY_INTER_BROKER_PROTOCOL,
        keys.ZOOKEEPER_SET_ACL,
        keys.ZOOKEEPER_SSL_CLIENT_ENABLE,
    }
)


def refuse_unenforced_settings(settings: Mapping[str, str | None]) -> None:
    """
    Check settings alone, as when they are changed while the broker runs.

    :raises ConfigError: names the key.
    """
    for name, text in settings.items():
        key = broker_key(name)
        if key is None or text is None or key in _ENFORCED:
            continue
        if not (key in _KEYS or key.name.startswith(_PREFIXES)):
            continue
        if key.parse(text, name) != key.default:
            raise ConfigError(f"{name}: this version does not enforce it, and would be open to all; remove the key")


def refuse_unenforced(config: ConfigView, listeners: Iterable[tuple[str, str]]) -> None:
    """
    Refuse settings that ask for authentication, authorization or encryption that this version does not provide.

    :param listeners: name and server endpoint of each Kafka listener in use.
    :raises ConfigError: names the key or the listener.
    """
    for name, text in config.layer(Source.STATIC).items():
        try:
            refuse_unenforced_settings({name: text})
        except ConfigError as error:
            raise config.located(name, error) from None
    protocols = {name.upper(): how for name, how in config.get(keys.LISTENER_SECURITY_PROTOCOL_MAP).items()}
    for listener, endpoint in listeners:
        protocol = protocols.get(listener.upper(), "PLAINTEXT")
        if protocol.startswith("SASL_"):
            raise ConfigError(f"listener {listener}: this version has no authentication: {protocol} is not possible")
        if protocol == "SSL" and not endpoint.startswith("ssl:"):
            raise ConfigError(
                f"listener {listener}: SSL needs an endpoint that says with which key, such as --listen "
                f"{listener}=kafka:ssl:9093:privateKey=key.pem:certKey=cert.pem"
            )
