"""The SASL settings of a listener, from the keys ``sasl.*``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import field, frozen

from logbus.config import ConfigView, keys
from logbus.config.config_key import ConfigKey
from logbus.config.config_view import Source
from logbus.config.key_table import listener_key_name
from logbus.errors import ConfigError
from logbus.security.sasl.jaas import SHAPE, JaasEntry, parse_jaas

_PLAIN_MODULE = "PlainLoginModule"
_JWT_KEYS: tuple[ConfigKey[Any], ...] = (
    keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL,
    keys.SASL_OAUTHBEARER_EXPECTED_ISSUER,
    keys.SASL_OAUTHBEARER_EXPECTED_AUDIENCE,
)


@frozen
class JwtSettings:
    """
    The checks of OAUTHBEARER's tokens; the claims as in :class:`.jwt_validator.JwtRules`.

    :ivar keys_url: where the issuer's keys are.
    :ivar refresh_ms: how often they are read.
    """

    keys_url: str
    refresh_ms: int
    issuer: str
    audiences: tuple[str, ...]
    skew_seconds: int
    user_claim: str
    scope_claim: str


@frozen
class SaslConfig:
    """
    The settings of one listener.

    :ivar mechanisms: those enabled.
    :ivar passwords: of PLAIN, by user.
    :ivar jwt: of OAUTHBEARER; None: it is not enabled.
    """

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str] = field(repr=False)
    jwt: JwtSettings | None
    max_receive_bytes: int
    max_reauth_ms: int


def read_sasl_config(config: ConfigView, listener: str, *, private: bool) -> SaslConfig:
    """
    Read the settings of a listener.

    :param private: whether nobody can read what clients send: they are on this machine, or use TLS.
    :raises ConfigError: names the listener, the key and what is accepted.
    """
    mechanisms = config.listener_get(listener, keys.SASL_ENABLED_MECHANISMS)
    if not mechanisms:
        raise ConfigError(f"listener {listener}: {keys.SASL_ENABLED_MECHANISMS.name} is empty: nobody could log in")
    return _read(config, listener, mechanisms, private=private)


def read_http_sasl_config(config: ConfigView, listener: str) -> SaslConfig:
    """
    Read the settings of a listener of HTTP, whose clients send passwords as they are.

    Mechanisms that are enabled for all listeners count there if they have their settings there.

    :raises ConfigError: names the listener, the key and what is accepted.
    """
    mechanisms = config.listener_get(listener, keys.SASL_ENABLED_MECHANISMS)
    if config.listener_setting_name(listener, keys.SASL_ENABLED_MECHANISMS) == keys.SASL_ENABLED_MECHANISMS.name:
        users = listener_key_name(listener, keys.SASL_JAAS_CONFIG, "PLAIN")
        there = {
            "PLAIN": any(users in config.layer(each) for each in (Source.BROKER, Source.CLUSTER, Source.STATIC)),
            "OAUTHBEARER": all(config.listener_get(listener, key) for key in _JWT_KEYS),
        }
        mechanisms = tuple(each for each in mechanisms if there.get(each, True))
    return _read(config, listener, mechanisms, private=True)


def _read(config: ConfigView, listener: str, mechanisms: tuple[str, ...], *, private: bool) -> SaslConfig:
    passwords: dict[str, str] = {}
    if "PLAIN" in mechanisms:
        if not (private or config.listener_get(listener, keys.SASL_PLAIN_ALLOW_UNENCRYPTED)):
            raise ConfigError(
                f"listener {listener}: PLAIN would send passwords readable over the network; use SASL_SSL, a mechanism "
                f"such as SCRAM-SHA-512, or set {keys.SASL_PLAIN_ALLOW_UNENCRYPTED.name}=true"
            )
        passwords = _plain_entry(config, listener).users
        if not passwords:
            name = listener_key_name(listener, keys.SASL_JAAS_CONFIG, "PLAIN")
            raise ConfigError(f'listener {listener}: {name} has no user for PLAIN, such as user_alice="PASSWORD"')
    return SaslConfig(
        mechanisms,
        passwords,
        _jwt_settings(config, listener) if "OAUTHBEARER" in mechanisms else None,
        config.listener_get(listener, keys.SASL_SERVER_MAX_RECEIVE_SIZE),
        config.listener_get(listener, keys.CONNECTIONS_MAX_REAUTH_MS),
    )


def _plain_entry(config: ConfigView, listener: str) -> JaasEntry:
    name = listener_key_name(listener, keys.SASL_JAAS_CONFIG, "PLAIN")
    text = config.listener_get(listener, keys.SASL_JAAS_CONFIG, "PLAIN")
    if text is None:
        raise ConfigError(f"listener {listener}: PLAIN needs its users in {name}, as {SHAPE}")
    try:
        entry = parse_jaas(text)
    except ValueError as e:
        raise ConfigError(f"listener {listener}: {name}: {e}") from None
    if not entry.module.endswith(_PLAIN_MODULE):
        raise ConfigError(f"listener {listener}: {name} is for {entry.module}; PLAIN needs a {_PLAIN_MODULE}")
    return entry


def _jwt_settings(config: ConfigView, listener: str) -> JwtSettings:
    def required(key: ConfigKey[str | None], what: str) -> str:
        value = config.listener_get(listener, key)
        if not value:
            raise ConfigError(f"listener {listener}: OAUTHBEARER needs {key.name}: {what}")
        return value

    url_key = keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL
    url = required(url_key, "a file: or https: URL of the issuer's keys")
    if urlsplit(url).scheme not in ("file", "https"):
        raise ConfigError(f"listener {listener}: {url_key.name}: {url} is no URL that begins with file: or https:")
    audiences = config.listener_get(listener, keys.SASL_OAUTHBEARER_EXPECTED_AUDIENCE)
    if not audiences:
        key = keys.SASL_OAUTHBEARER_EXPECTED_AUDIENCE
        raise ConfigError(f"listener {listener}: OAUTHBEARER needs {key.name}: tokens for others would be accepted")
    return JwtSettings(
        url,
        config.listener_get(listener, keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS),
        required(keys.SASL_OAUTHBEARER_EXPECTED_ISSUER, "who issues the tokens"),
        audiences,
        config.listener_get(listener, keys.SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS),
        config.listener_get(listener, keys.SASL_OAUTHBEARER_SUB_CLAIM_NAME),
        config.listener_get(listener, keys.SASL_OAUTHBEARER_SCOPE_CLAIM_NAME),
    )
