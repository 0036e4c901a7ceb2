"""Reads and writes the JSON of znodes; every error in it becomes a :class:`BadZnode` that names the node. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from logbus.metastore.operations import MetastoreError


class BadZnode(MetastoreError):
    """A node's data cannot be decoded; the message names the node."""


class ZnodeReader:
    """
    Context manager that reads one node's JSON object: errors inside become a :class:`BadZnode` that names the node.
    """

    def __init__(self, path: str, data: bytes, known: int) -> None:
        self._path = path
        self._data = data
        self._known = known

    def __enter__(self) -> Mapping[str, Any]:
        try:
            node = json.loads(self._data)
            version = int(node["version"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BadZnode(f"{self._path} holds {self._data[:80]!r}, not a versioned JSON object") from error
        if version > self._known:
            raise BadZnode(f"{self._path} has version {version}, of a newer release; this one knows {self._known}")
        found: Mapping[str, Any] = node
        return found

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, KeyError):
            raise BadZnode(f"{self._path} lacks {error}") from error
        if isinstance(error, ValueError | TypeError | AttributeError | IndexError):
            raise BadZnode(f"{self._path} cannot be read: {error}") from error


def dump(node: Mapping[str, Any]) -> bytes:
    """A node's JSON."""
    return json.dumps(node, separators=(",", ":")).encode("ascii")


def uuid_text(value: UUID) -> str:
    """A topic or cluster id as Kafka writes it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> UUID:
    """
    Decode an id of :func:`uuid_text`.

    :raise ValueError: it is not such an id.
    """
    return UUID(bytes=base64.b64decode(text + "==", b"-_", validate=True))
