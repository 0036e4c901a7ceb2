"""Parses ``zookeeper.connect``: ZooKeeper's servers, and the chroot there. Pure."""

from __future__ import annotations

import re

from attrs import frozen

from logbus.errors import ConfigError
from logbus.metastore.operations import BadPath
from logbus.metastore.tree import check_path

DEFAULT_PORT = 2181

_SERVER = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/\[\]]+))(?::(?P<port>\d{1,5}))?")


@frozen
class ConnectString:
    """
    :ivar servers: host and port of each.
    :ivar chroot: begins with a slash and does not end with one; empty for ZooKeeper's own root.
    """

    servers: tuple[tuple[str, int], ...]
    chroot: str = ""

    @classmethod
    def parse(cls, text: str) -> ConnectString:
        """
        Read ``HOST:PORT,HOST:PORT/CHROOT``; ports may be left out.

        :raise ConfigError: it is not of this form.
        """
        servers, slash, chroot = text.partition("/")
        found = tuple(_server(one.strip(), text) for one in servers.split(","))
        path = (slash + chroot).rstrip("/")
        if "," in path or ":" in path:
            raise _wrong(text, "the chroot follows the last server, once")
        try:
            check_path(path or "/")
        except BadPath as e:
            raise _wrong(text, f"the chroot is not a path of ZooKeeper's ({e})") from None
        return cls(found, path)

    @property
    def hosts(self) -> str:
        """The servers, as ZooKeeper's clients take them."""
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers)

    def __str__(self) -> str:
        return self.hosts + self.chroot


def _server(text: str, whole: str) -> tuple[str, int]:
    found = _SERVER.fullmatch(text)
    if found is None:
        raise _wrong(whole, f"{text!r} is not HOST:PORT")
    port = int(found["port"] or DEFAULT_PORT)
    if not 0 < port < 65536:
        raise _wrong(whole, f"{port} is not a port")
    return found["v6"] or found["host"], port


def _wrong(whole: str, why: str) -> ConfigError:
    return ConfigError(f"zookeeper.connect: {whole!r} is not valid: {why}; expected HOST:PORT,HOST:PORT/CHROOT")
