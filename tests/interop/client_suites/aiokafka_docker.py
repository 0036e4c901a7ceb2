"""
Stands for the ``docker`` with which aiokafka's suite starts its broker: a container is a ``logbus test-server``.

A plugin of pytest: ``-p aiokafka_docker``, in the process of that suite. It imports nothing of this project, whose
package ``tests`` has the name of the suite's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SECONDS = 120.0


class Container:
    """A test server on a port."""

    def __init__(self, environment: Mapping[str, Any]) -> None:
        self._home = tempfile.TemporaryDirectory()
        port_file = Path(self._home.name) / "server.json"
        command = [os.environ["LOGBUS_COMMAND"], "test-server", "--port-file", str(port_file)]
        command += ["--port", str(environment["ADVERTISED_PORT"])]
        command += ["--set", f"num.partitions={environment['NUM_PARTITIONS']}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)
        until = time.monotonic() + SECONDS
        while not port_file.exists():
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError("logbus test-server did not start")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(SECONDS)
        self._home.cleanup()


class Client:
    """What ``docker.from_env()`` gives."""

    def __init__(self) -> None:
        self.containers = self

    def run(self, *, environment: Mapping[str, Any], **_: Any) -> Container:
        """Start a container."""
        return Container(environment)

    def close(self) -> None:
        """Close nothing: containers are stopped by themselves."""


sys.modules["docker"] = SimpleNamespace(  # type: ignore[assignment]
    from_env=Client, models=SimpleNamespace(containers=SimpleNamespace(Container=Container))
)
