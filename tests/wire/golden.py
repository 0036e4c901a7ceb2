"""Bytes written by hand, with their meaning."""

from __future__ import annotations


def octets(text: str) -> bytes:
    """Read hexadecimal octets; from ``#`` to the end of a line is comment."""
    return bytes.fromhex(" ".join(line.partition("#")[0] for line in text.splitlines()))
