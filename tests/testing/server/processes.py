"""Test servers as programs of other languages start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from logbus.testing.waiting import wait_until

LOGBUS = [sys.executable, "-c", "from logbus.cli import main; main()", "test-server"]
SECONDS = 120.0
"""A busy machine takes its time; nothing here waits longer than it has to."""


def addresses(file: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The content of a port file, once it is there."""
    wait_until(lambda: file.exists() or process.poll() is not None, "the port file")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one whose parent does not ask for its status has, too."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def send(told: dict[str, Any], method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    """Send a request to the control interface: the status, and the JSON."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {told['token']}", **headers}
    request = urllib.request.Request(told["control_url"] + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as e:
        with e:
            status, text = e.code, e.read()
    return status, json.loads(text) if text else None


def environment(home: Path) -> dict[str, str]:
    """Have temporary directories made below ``home``, where a test sees what is left."""
    return {**os.environ, "TMPDIR": str(home)}
