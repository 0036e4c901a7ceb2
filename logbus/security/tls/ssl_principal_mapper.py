"""
Maps the distinguished names of clients' certificates to user names (KIP-371; Kafka: SslPrincipalMapper). Pure.

Expressions are RE2's, which take linear time: a certificate's name is what a client likes it to be.
"""

from __future__ import annotations

import re
from typing import Any, Self

from attrs import frozen

from logbus.errors import ConfigError
from logbus.re2_patterns import compile_re2

_RULE = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
_REFERENCE = re.compile(r"\\(.)|\$([0-9])")
_EXPECTED = "expected DEFAULT or RULE:pattern/replacement/[L|U], separated by commas"


class NoMatchingRule(Exception):
    """No rule applies to a certificate's name: its owner is not a user."""


@frozen
class _Rule:
    """
    A rule.

    :ivar pattern: a compiled expression for the whole name; None: any name, which stays as it is.
    :ivar case: ``L`` for lower case, ``U`` for upper case, or empty.
    """

    pattern: Any = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None

        def refer(reference: re.Match[str]) -> str:
            escaped, number = reference.groups()
            if escaped is not None:
                return escaped
            if int(number) > self.pattern.groups:
                return f"${number}"
            return found[int(number)] or ""

        user = _REFERENCE.sub(refer, self.replacement)
        return user.lower() if self.case == "L" else user.upper() if self.case == "U" else user


@frozen
class SslPrincipalMapper:
    """The rules of a listener, of which the first that matches a name applies."""

    _rules: tuple[_Rule, ...]

    @classmethod
    def parse(cls, rules: str, key: str = "ssl.principal.mapping.rules") -> Self:
        """
        Parse the value of ``ssl.principal.mapping.rules``.

        :param key: the key's name, for errors.
        :raises ConfigError: names the rule.
        """
        found = []
        rest = rules.strip() or "DEFAULT"
        while rest:
            match = _RULE.match(rest)
            if match is not None:
                found.append(_Rule(_compiled(match["pattern"], key), match["replacement"], match["case"]))
                rest = rest[match.end() :].lstrip(" \t\r")
            elif rest.startswith("DEFAULT"):
                found.append(_Rule())
                rest = rest[len("DEFAULT") :].lstrip(" \t\r")
            else:
                raise ConfigError(f"{key}: {rest!r} is not a rule; {_EXPECTED}")
            if rest and rest[0] not in ",\n":
                raise ConfigError(f"{key}: {rest!r} follows a rule; {_EXPECTED}")
            rest = rest.lstrip(", \t\r\n")
        return cls(tuple(found))

    def user(self, name: str) -> str:
        """
        Return the user that a certificate's name stands for.

        :param name: as by :func:`.distinguished_name`.
        :raises NoMatchingRule: no rule applies, or the user's name would be empty.
        """
        for rule in self._rules:
            user = rule.apply(name)
            if user is not None:
                if not user:
                    raise NoMatchingRule(f"ssl.principal.mapping.rules give {name!r} an empty name")
                return user
        raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules applies to {name!r}")


def _compiled(pattern: str, key: str) -> Any:
    try:
        return compile_re2(pattern)
    except ValueError as e:
        raise ConfigError(f"{key}: {pattern!r} is not an expression of RE2: {e}") from None
