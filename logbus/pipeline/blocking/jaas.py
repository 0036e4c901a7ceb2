"""Reads user and password from ``sasl.jaas.config``, a line of Java's JAAS login configuration. Pure."""

from __future__ import annotations

import re

MODULES = (
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
)
_FLAGS = ("required", "requisite", "sufficient", "optional")
_PAIR = re.compile(r"""\s*([A-Za-z0-9_.]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""")
_SHAPE = 'MODULE required username="..." password="...";'


def user_and_password(text: str) -> tuple[str, str]:
    """
    :param text: such as ``org.apache.kafka...PlainLoginModule required username="me" password="secret";``
    :raises ValueError: the module is unknown or the syntax wrong; the message never quotes the password.
    """
    words = text.split(None, 2)
    if len(words) < 3 or words[1].lower() not in _FLAGS:
        raise ValueError(f"it is not of the shape {_SHAPE}")
    # Some platforms relocate ("shade") Kafka's client to another package.
    if not any(words[0].endswith(module) for module in MODULES):
        raise ValueError(f"the login module {words[0]} is not known here; it takes {' or '.join(MODULES)}")
    pairs, pos = {}, 0
    while found := _PAIR.match(words[2], pos):
        pairs[found[1]] = _unquoted(found[2])
        pos = found.end()
    if words[2][pos:].strip() != ";":
        raise ValueError(f"it is not of the shape {_SHAPE}; does it end in a semicolon?")
    missing = [name for name in ("username", "password") if name not in pairs]
    if missing:
        raise ValueError(f"{' and '.join(missing)} missing; it is of the shape {_SHAPE}")
    return pairs["username"], pairs["password"]


def _unquoted(word: str) -> str:
    if word[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word
