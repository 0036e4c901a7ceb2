"""Reads credentials from ``sasl.jaas.config``, a line of Java's JAAS login configuration. Pure."""

from __future__ import annotations

from logbus.security.sasl.jaas import parse_jaas

MODULES = (
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
)
_SHAPE = 'MODULE required username="..." password="...";'


OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OAUTH_OPTIONS = ("clientId", "clientSecret", "scope")


def client_credentials(text: str) -> dict[str, str]:
    """
    ``clientId``, ``clientSecret`` and ``scope`` of OAUTHBEARER's login module; those that are missing are left out.

    :raises ValueError: the module is another one or the syntax wrong; the message never quotes the secret.
    """
    entry = parse_jaas(text)
    if not entry.module.endswith(OAUTH_MODULE):
        raise ValueError(f"the login module of OAUTHBEARER is {OAUTH_MODULE}, not {entry.module}")
    return {name: entry.options[name] for name in _OAUTH_OPTIONS if name in entry.options}


def user_and_password(text: str) -> tuple[str, str]:
    """
    :param text: such as ``org.apache.kafka...PlainLoginModule required username="me" password="secret";``
    :raises ValueError: the module is unknown or the syntax wrong; the message never quotes the password.
    """
    entry = parse_jaas(text)
    # Some platforms relocate ("shade") Kafka's client to another package.
    if not any(entry.module.endswith(module) for module in MODULES):
        raise ValueError(f"the login module {entry.module} is not known here; it takes {' or '.join(MODULES)}")
    missing = [name for name in ("username", "password") if name not in entry.options]
    if missing:
        raise ValueError(f"{' and '.join(missing)} missing; it is of the shape {_SHAPE}")
    return entry.options["username"], entry.options["password"]
