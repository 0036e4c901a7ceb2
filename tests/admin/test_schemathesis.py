"""
Sends a running broker what its OpenAPI document allows and forbids, by schemathesis, and compares the answers with the
document: no error of the server, no undocumented status, type or member, no wrong request that is accepted.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from logbus.testing import Broker

pytest.importorskip("schemathesis")

CONFIG = Path(__file__).with_name("schemathesis.toml")
LEFT_OUT = "/shutdown$|/tail$|/events$"
"""What ends the broker, and streams, which have no end."""

SECONDS = 500

SECURED = {
    "listener.name.admin.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.admin.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required user_ada=countess;"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ada",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One that ada may do everything with, and others nearly nothing."""
    with Broker(SECURED, in_process=False) as started:
        yield started


def run(broker: Broker, directory: Path, *options: str) -> None:
    """Run all checks; the seed makes each run the same."""
    answered = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            *("--config-file", str(CONFIG)),
            *("run", f"{broker.admin_url}/api/v1/openapi.json"),
            *("--checks", "all", "--exclude-path-regex", LEFT_OUT),
            *("--seed", "1", "--no-shrink", "--continue-on-failure", "--warnings", "off"),
            *options,
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    told = answered.stdout.replace(urlsplit(broker.admin_url).netloc, "BROKER")
    assert answered.returncode == 0, f"{told[-20_000:]}\n{answered.stderr[-2000:]}\n{broker.output[-2000:]}"
    assert "Traceback" not in broker.output, broker.output


def test_administrator(broker: Broker, tmp_path: Path) -> None:
    """Somebody who may do everything tries each bound of each parameter and member, and what is beyond."""
    run(broker, tmp_path, "--phases", "coverage", "--auth", "ada:countess")


def test_stranger(broker: Broker, tmp_path: Path) -> None:
    """Somebody who has not logged in gets the same documented answers, or is refused."""
    run(broker, tmp_path, "--phases", "coverage", "--include-method", "GET")


@pytest.mark.long
def test_chains(broker: Broker, tmp_path: Path) -> None:
    """Random requests, and chains of them in which one has what another has made, find nothing, either."""
    # That check guesses that paths have the id of a topic, which have its name.
    left_out = ("--exclude-checks", "ensure_resource_availability")
    run(broker, tmp_path, "--phases", "fuzzing,stateful", "--max-examples", "30", *left_out, "--auth", "ada:countess")
