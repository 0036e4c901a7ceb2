"""Percent-encodes names for paths of nodes, and back (Kafka: Sanitizer). Pure."""

from __future__ import annotations

from urllib.parse import quote, unquote

from logbus.metastore.znode_json import BadZnode


def sanitize(name: str) -> str:
    """
    Encode any text as one element of a path.

    ``.`` and ``..`` are encoded as well: Kafka leaves them, and ZooKeeper refuses them.
    """
    encoded = quote(name, safe="")
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded


def desanitize(parent: str, encoded: str) -> str:
    """
    The text that :func:`sanitize` encoded.

    :param parent: the path of the node's parent, for the error.
    :raise BadZnode: it is not an encoded text.
    """
    name = unquote(encoded, errors="replace")
    if sanitize(name) != encoded:
        raise BadZnode(f"{parent}/{encoded} is not an encoded name")
    return name
