"""The modules that common commands import, which most of their processor time goes to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from logbus.testing import Broker

PROGRAM = """
import json, sys
from logbus.cli.app import run_app

status = run_app(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump(sorted(sys.modules), file)
sys.exit(status)
"""

UNUSED = {
    "OpenSSL": "TLS",
    "cryptography": "TLS",
    "service_identity": "TLS",
    "twisted.web": "schema registries",
    "twisted.trial": "tests",
    "prometheus_client": "metrics",
    "kazoo": "ZooKeeper",
    "logbus.storage": "brokers",
    "logbus.broker": "brokers",
    "logbus.testing": "tests",
    "pyarrow": "Spark",
    "pyspark": "Spark",
    "difflib": "mistyped names",
    "asyncio": "its event loop",
    "ssl": "asyncio",
    "http.cookiejar": "cookies, which Twisted knows of",
    "email": "cookies",
}
"""What none of them needs, and its use. A package stands for all its modules."""

PRODUCER, CONSUMER = "logbus.client.producer.producer", "logbus.client.consumer.consumer"
MEMBERSHIP = "logbus.client.membership"

COMMANDS = {
    "topics create t": (PRODUCER, CONSUMER, MEMBERSHIP),
    "topics list": (PRODUCER, CONSUMER, MEMBERSHIP),
    "topics describe t": (PRODUCER, CONSUMER, MEMBERSHIP),
    "groups list": (PRODUCER, CONSUMER),
    "produce t": (CONSUMER, MEMBERSHIP),
    "consume t --from-beginning --exit-at-end": (PRODUCER, CONSUMER, MEMBERSHIP),
}
"""Commands, and what each does not need besides."""


def test_imports_of_common_commands(tmp_path: Path) -> None:
    """A command imports what it uses: TLS only with the options for it, consumer groups only for --group."""
    with Broker() as broker:
        for command, others in COMMANDS.items():
            modules = tmp_path / "modules"
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, str(modules), *command.split(), "--bootstrap", broker.bootstrap],
                input="hello\n",
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            found = json.loads(modules.read_text())
            unwanted = [m for m in found for name in (*UNUSED, *others) if m == name or m.startswith(f"{name}.")]
            assert unwanted == [], command


@pytest.mark.parametrize("arguments", [["topics", "list", "-X", "security.protocol=SSL"], ["topics", "list"]])
def test_tls(arguments: list[str], tmp_path: Path) -> None:
    """With the options for it, TLS can be had; without, it is left out."""
    modules = tmp_path / "modules"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(modules), *arguments, "--bootstrap", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert ("OpenSSL.SSL" in json.loads(modules.read_text())) == ("-X" in arguments)
