"""Small files of plugins, in the directories of the logs that they belong to."""

from __future__ import annotations

import re

from attrs import frozen
from twisted.internet.defer import Deferred
from zope.interface import implementer

from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.ilogbus import IPluginFile
from logbus.storage import file_names
from logbus.storage.istorage import IOPool
from logbus.storage.log import Log

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@implementer(IPluginFile)
@frozen
class PluginFile:
    """A file; its log is looked up each time, since logs move between log directories."""

    _replicas: ReplicaManager
    _topic: str
    _partition: int
    _name: str

    def read(self) -> bytes:
        log = self._find()
        try:
            return log.disk.read(self._path(log))
        except FileNotFoundError:
            return b""

    def append(self, data: bytes) -> None:
        log = self._find()
        file = log.disk.open(self._path(log), create=True)
        file.write(file.size(), [data])

    def replace(self, data: bytes) -> Deferred[None]:
        log = self._find()
        return log.disk.submit(IOPool.BACKGROUND, log.disk.replace, self._path(log), data)

    def _find(self) -> Log:
        return self._replicas.get(self._topic, self._partition).log

    def _path(self, log: Log) -> str:
        return f"{log.directory}/{self._name}{file_names.PLUGIN}"


def plugin_file(replicas: ReplicaManager, topic: str, partition: int, name: str) -> PluginFile:
    """
    Return a file.

    :raise ValueError: its name is not lower-case letters, digits and '-'.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"the name of a plugin's file has lower-case letters, digits and '-', not {name!r}")
    return PluginFile(replicas, topic, partition, name)
