"""A real YARN: Hadoop's ResourceManager and a NodeManager, each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from attrs import define, field

from benchmarks.compare.jars import yarn_jars
from tests.pipeline.hdfs_server import SMALL_JAVA, hadoop_jars, hadoop_version

_SECONDS = 240.0
_LOOK = 0.2
_SERVERS = ("resourcemanager.ResourceManager", "nodemanager.NodeManager")
_ADDRESSES = (
    "yarn.resourcemanager.address",
    "yarn.resourcemanager.scheduler.address",
    "yarn.resourcemanager.resource-tracker.address",
    "yarn.resourcemanager.admin.address",
    "yarn.resourcemanager.webapp.address",
    "yarn.nodemanager.localizer.address",
    "yarn.nodemanager.webapp.address",
)
_PAGES = "yarn.resourcemanager.webapp.address"


def _free_addresses() -> list[str]:
    """As many as are needed, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in _ADDRESSES]
    found = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


@define(eq=False)
class YarnServer:
    """
    Started in a directory of its own; a context manager. It has memory for four containers of a gigabyte.

    :param file_system: the URL of what paths are on that have no scheme; ``hdfs://HOST:PORT`` or ``file:///``.

    :ivar conf: the directory with the clients' settings, for ``HADOOP_CONF_DIR``.
    :raise RuntimeError: its jars cannot be fetched.
    """

    cache: Path
    file_system: str = "file:///"
    conf: Path = field(init=False)
    _pages: str = ""
    _directory: Path = field(factory=lambda: Path(tempfile.mkdtemp(prefix="logbus-yarn-")))
    _processes: list[subprocess.Popen[bytes]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.conf = self._directory / "conf"

    def __enter__(self) -> YarnServer:
        jars = [*hadoop_jars(self.cache), *yarn_jars(hadoop_version(), self.cache).glob("*.jar")]
        self._write_settings()
        path = ":".join(map(str, [self.conf, *jars]))
        environ = {**os.environ, "HADOOP_CONF_DIR": str(self.conf), "JAVA_HOME": _java_home()}
        for name in _SERVERS:
            command = [*SMALL_JAVA, "-cp", path, f"org.apache.hadoop.yarn.server.{name}"]
            with (self._directory / name).open("wb") as output:
                self._processes.append(
                    subprocess.Popen(command, stdout=output, stderr=output, env=environ, start_new_session=True)
                )
        deadline = time.monotonic() + _SECONDS
        while not self._has_node():
            if any(each.poll() is not None for each in self._processes) or time.monotonic() > deadline:
                said = "".join((self._directory / name).read_text()[-2000:] for name in _SERVERS)
                self.__exit__()
                raise AssertionError(f"YARN has not started: {said}")
            time.sleep(_LOOK)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._processes:
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def logs(self) -> str:
        """What all containers have said on both outputs."""
        files = sorted((self._directory / "logs").glob("*/*/std*"))
        return "\n".join(f"{each.parent.name} {each.name}: {each.read_text()}" for each in files)

    def answer(self, path: str) -> object:
        """
        What the ResourceManager says about itself, such as at ``cluster/apps``.

        :raise OSError: it does not answer.
        """
        with urllib.request.urlopen(f"http://{self._pages}/ws/v1/{path}", timeout=60) as answer:
            return json.loads(answer.read())

    def _has_node(self) -> bool:
        try:
            return '"RUNNING"' in json.dumps(self.answer("cluster/nodes"))
        except OSError:
            return False

    def _write_settings(self) -> None:
        addresses = dict(zip(_ADDRESSES, _free_addresses(), strict=True))
        self._pages = addresses[_PAGES]
        self.conf.mkdir()
        core = {"hadoop.tmp.dir": str(self._directory / "tmp"), "fs.defaultFS": self.file_system}
        yarn = {
            **addresses,
            "yarn.nodemanager.address": "127.0.0.1:0",
            # The capacity scheduler's settings are in a file of their own.
            "yarn.resourcemanager.scheduler.class": (
                "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
            ),
            "yarn.nodemanager.resource.memory-mb": "4096",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.local-dirs": str(self._directory / "local"),
            "yarn.nodemanager.log-dirs": str(self._directory / "logs"),
            "yarn.nodemanager.disk-health-checker.enable": "false",
        }
        for name, settings in (("core-site.xml", core), ("yarn-site.xml", yarn)):
            (self.conf / name).write_text(_xml(settings))


def _xml(settings: Mapping[str, str]) -> str:
    properties = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    return f"<configuration>\n{properties}</configuration>\n"


def _java_home() -> str:
    """As containers need it."""
    if given := os.environ.get("JAVA_HOME"):
        return given
    java = shutil.which("java")
    assert java is not None
    return str(Path(java).resolve().parents[1])
