"""Warnings that the client logged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from twisted.logger import formatEvent


def client_warnings(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """
    The client's warnings among captured events.

    Brokers that other tests left running in threads of this process log there, too.
    """
    return [
        formatEvent(dict(each))
        for each in events
        if each["log_level"].name == "warn" and each["log_namespace"].startswith("logbus.client.")
    ]
