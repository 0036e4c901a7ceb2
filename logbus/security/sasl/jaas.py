"""
Reads ``sasl.jaas.config``: a line of Java's JAAS login configuration (Kafka: JaasConfig). Pure.

Errors never quote values: they are passwords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import field, frozen

_FLAGS = ("required", "requisite", "sufficient", "optional")
_PAIR = re.compile(r"""\s*([A-Za-z0-9_.@+%/\\-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""")
SHAPE = 'MODULE required name="value" ...;'
USER = "user_"


@frozen
class JaasEntry:
    """
    A login module with its options.

    :ivar module: the class of a Java login module; its last part says for which mechanism.
    """

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def users(self) -> dict[str, str]:
        """The passwords of a server's users, by name: ``user_NAME="PASSWORD"``."""
        return {name[len(USER) :]: value for name, value in self.options.items() if name.startswith(USER)}


def parse_jaas(text: str) -> JaasEntry:
    """
    :param text: such as ``org.apache.kafka...PlainLoginModule required username="me" password="secret";``
    :raises ValueError: the syntax is wrong, or something is said twice.
    """
    words = text.split(None, 2)
    if len(words) == 2 and words[1].endswith(";"):
        words = [words[0], words[1][:-1], ";"]
    if len(words) < 3 or words[1].lower() not in _FLAGS:
        raise ValueError(f"it is not of the shape {SHAPE}")
    options: dict[str, str] = {}
    pos = 0
    while found := _PAIR.match(words[2], pos):
        if found[1] in options:
            raise ValueError(f"the option {found[1]} is there twice")
        options[found[1]] = _unquoted(found[2])
        pos = found.end()
    if words[2][pos:].strip() != ";":
        raise ValueError(f"it is not of the shape {SHAPE}; does it end in a semicolon?")
    return JaasEntry(words[0], options)


def _unquoted(word: str) -> str:
    if word[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word
