"""
Sends a running broker what its OpenAPI document allows and forbids, by schemathesis, and compares the answers with the
document: no error of the server, no undocumented status, type or member, no wrong request that is accepted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from logbus.testing import Broker

pytest.importorskip("schemathesis")

HERE = Path(__file__).parent
API = ("/api/v1/openapi.json", HERE / "schemathesis.toml")
REGISTRY = ("/registry/openapi.json", HERE / "schemathesis_registry.toml")
"""The documents, and what cannot be said in them."""

METHODS = "unsupported_method"
"""
The check that a path refuses a method with 405: to a POST without a Content-Type the registry says 415, whether or not
it answers one.
"""

LEFT_OUT = "/shutdown$|/tail$|/events$"
"""What ends the broker, and streams, which have no end."""

SECONDS = 500

SECURED = {
    "listener.name.admin.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.admin.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required user_ada=countess user_eve=apple;"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ada",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One that ada may do everything with, and others, such as eve, nearly nothing."""
    with Broker(SECURED, in_process=False) as started:
        yield started


def run(broker: Broker, directory: Path, *options: str, of: tuple[str, Path] = API) -> None:
    """Run all checks; the seed makes each run the same."""
    document, config = of
    answered = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            *("--config-file", str(config)),
            *("run", f"{broker.admin_url}{document}"),
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


def test_without_rights(broker: Broker, tmp_path: Path) -> None:
    """Somebody who has logged in, and has no rights, gets the same documented answers, or is refused; nothing fails."""
    # Who only reads is a stranger, see above.
    run(broker, tmp_path, "--phases", "coverage", "--exclude-method", "GET", "--auth", "eve:apple")


def test_registry(broker: Broker, tmp_path: Path) -> None:
    """The schema registry answers as its own document says, whatever it is asked."""
    body = json.dumps({"schema": '"string"'}).encode()
    register = Request(f"{broker.admin_url}/registry/subjects/orders-value/versions", body)
    register.add_header("Content-Type", "application/json")
    register.add_header("Authorization", f"Basic {b64encode(b'ada:countess').decode()}")
    with urlopen(register) as answered:
        assert answered.status == 200
    left_out = ("--exclude-checks", METHODS)
    run(broker, tmp_path, "--phases", "coverage", *left_out, "--auth", "ada:countess", of=REGISTRY)


@pytest.mark.long
@pytest.mark.parametrize(("of", "more"), [(API, ""), (REGISTRY, f",{METHODS}")], ids=["api", "registry"])
def test_chains(broker: Broker, tmp_path: Path, of: tuple[str, Path], more: str) -> None:
    """Random requests, and chains of them in which one has what another has made, find nothing, either."""
    # That check guesses that paths have the id of a topic, which have its name.
    left_out = ("--exclude-checks", f"ensure_resource_availability{more}")
    options = ("--phases", "fuzzing,stateful", "--max-examples", "30", *left_out, "--auth", "ada:countess")
    run(broker, tmp_path, *options, of=of)
