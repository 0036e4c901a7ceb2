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

_KEYS: frozenset[ConfigKey[Any]] = frozenset(
    {
        keys.SASL_MECHANISM_INTER_BROKER_PROTOCOL,
    }
)


def refuse_unenforced_settings(settings: Mapping[str, str | None]) -> None:
    """
    Check settings alone, as when they are changed while the broker runs.

    :raises ConfigError: names the key.
    """
    for name, text in settings.items():
        key = broker_key(name)
        if key is None or text is None:
            continue
        if key is keys.SECURITY_INTER_BROKER_PROTOCOL and key.parse(text, name).startswith("SASL_"):
            raise ConfigError(
                f"{name}: {text.strip()} is not possible between brokers; use SSL with client certificates"
            )
        if key in _KEYS and key.parse(text, name) != key.default:
            raise ConfigError(f"{name}: this version does not enforce it, and would be open to all; remove the key")


def refuse_unenforced(config: ConfigView, listeners: Iterable[tuple[str, str]]) -> None:
    """
    Refuse settings that ask for authentication between brokers, or authorization, which this version does not provide.

    :param listeners: name and security protocol of each listener in use.
    :raises ConfigError: names the key or the listener.
    """
    for name, text in config.layer(Source.STATIC).items():
        try:
            refuse_unenforced_settings({name: text})
        except ConfigError as error:
            raise config.located(name, error) from None
    if not config.get(keys.ZOOKEEPER_CONNECT):
        return
    named = config.get(keys.INTER_BROKER_LISTENER_NAME)
    for listener, protocol in listeners:
        if named is None or listener.upper() == named.upper():
            if protocol.startswith("SASL_"):
                raise ConfigError(
                    f"listener {listener}: brokers do not log in to each other in this version; name a listener "
                    f"without SASL for them in {keys.INTER_BROKER_LISTENER_NAME.name}"
                )
            return
