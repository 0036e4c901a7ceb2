"""
The credentials by which this broker logs in to others, from ``sasl.mechanism.inter.broker.protocol`` and
``sasl.jaas.config``. Pure.
"""

from __future__ import annotations

from logbus.config import ConfigView, keys
from logbus.config.key_table import listener_key_name
from logbus.errors import ConfigError
from logbus.security.sasl.client_login import ClientLogin
from logbus.security.sasl.jaas import SHAPE, parse_jaas
from logbus.security.sasl.plain import PLAIN
from logbus.security.sasl.scram_credential import SCRAM_DIGESTS


def read_broker_credentials(config: ConfigView, listener: str) -> ClientLogin:
    """
    Read the credentials for the listener of the brokers.

    :raises ConfigError: names the listener, the key and what is accepted.
    """
    key = keys.SASL_MECHANISM_INTER_BROKER_PROTOCOL
    mechanism = config.get(key)
    if mechanism != PLAIN and mechanism not in SCRAM_DIGESTS:
        known = ", ".join([PLAIN, *SCRAM_DIGESTS])
        raise ConfigError(f"{key.name}: brokers do not log in to each other by {mechanism}; they do by {known}")
    enabled = config.listener_get(listener, keys.SASL_ENABLED_MECHANISMS)
    if mechanism not in enabled:
        raise ConfigError(
            f"listener {listener}: {keys.SASL_ENABLED_MECHANISMS.name} lacks {mechanism}, by which brokers log in "
            f"({key.name})"
        )
    name = listener_key_name(listener, keys.SASL_JAAS_CONFIG, mechanism)
    text = config.listener_get(listener, keys.SASL_JAAS_CONFIG, mechanism)
    if text is None:
        raise ConfigError(f"listener {listener}: brokers log in by the username and password in {name}, as {SHAPE}")
    try:
        entry = parse_jaas(text)
    except ValueError as e:
        raise ConfigError(f"listener {listener}: {name}: {e}") from None
    module = "PlainLoginModule" if mechanism == PLAIN else "ScramLoginModule"
    if not entry.module.endswith(module):
        raise ConfigError(f"listener {listener}: {name} is for {entry.module}; {mechanism} needs a {module}")
    user, password = entry.options.get("username"), entry.options.get("password")
    if not user or not password:
        raise ConfigError(f"listener {listener}: {name} lacks username or password, by which brokers log in")
    return ClientLogin(mechanism, user, password)
