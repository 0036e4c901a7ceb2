"""A test server for a suite, as a project that has no Python starts one: by its command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOGBUS = str(Path(sys.executable).parent / "logbus")
SECONDS = 120.0


@contextmanager
def running_server(port_file: Path, settings: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """
    A test server with settings, each ``KEY=VALUE``, until the end of the block.

    :returns: the content of its port file.
    """
    command = [LOGBUS, "test-server", "--port-file", str(port_file)]
    command += [part for setting in settings for part in ("--set", setting)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        # It ends when its standard input does.
        assert process.stdin is not None
        try:
            until = time.monotonic() + SECONDS
            while not port_file.exists():
                if process.poll() is not None or time.monotonic() > until:
                    process.kill()
                    raise AssertionError("logbus test-server did not start")
                time.sleep(0.02)
            yield json.loads(port_file.read_text())
        finally:
            process.stdin.close()
            process.wait(SECONDS)
