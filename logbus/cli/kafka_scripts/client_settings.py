"""Reads properties of Kafka's clients, and says which of them had no effect."""

from __future__ import annotations

import re
from collections.abc import Mapping

from logbus.cli.kafka_scripts.console import complain
from logbus.cli.kafka_scripts.option_parser import UsageError

_ELSEWHERE = ("bootstrap.servers", "client.id", "security.", "ssl.", "sasl.")
"""What :mod:`~logbus.cli.kafka_scripts.session` reads."""


class Settings:
    """
    The properties of a command's client.

    :ivar properties: all of them.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = properties
        self._read: set[str] = set()

    def text(self, name: str, default: str) -> str:
        """A property."""
        self._read.add(name)
        return self.properties.get(name, default).strip()

    def integer(self, name: str, default: int) -> int:
        """
        A property that is an integer.

        :raise UsageError: it is something else.
        """
        text = self.text(name, str(default))
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
            raise UsageError(f"Invalid value {text} for configuration {name}: Not a number of type INT")
        return int(text)

    def boolean(self, name: str, default: bool) -> bool:
        """
        A property that is true or false.

        :raise UsageError: it is something else.
        """
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise UsageError(
                f"Invalid value {text} for configuration {name}: Expected value to be either true or false"
            )
        return text == "true"

    def complain_unused(self) -> None:
        """Name the properties that were not read."""
        unused = sorted(name for name in self.properties if name not in self._read and not name.startswith(_ELSEWHERE))
        if unused:
            complain(f"These configurations '[{', '.join(unused)}]' were supplied but are not used yet.")
