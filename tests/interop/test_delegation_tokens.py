"""Delegation tokens, by Kafka's own tool and clients."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.compare.jars import KAFKA_VERSION, tools_jars
from logbus.testing import Broker
from tests.interop.java_client import CACHE

SECONDS = 120
Tool = Callable[..., str]

USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="secret";'
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"


@pytest.fixture(scope="module")
def tokens_broker() -> Iterator[Broker]:
    """A broker with delegation tokens, and users with passwords."""
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,KAFKA:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.kafka.plain.sasl.jaas.config": USERS,
        "connection.failed.authentication.delay.ms": "10",
        "delegation.token.secret.key": "a secret of brokers",
    }
    with Broker(settings) as broker:
        yield broker


@pytest.fixture
def tool(tokens_broker: Broker, tmp_path: Path) -> Tool:
    """A tool of Apache Kafka's, by the settings of whoever logs in; what it prints."""
    jars = tools_jars(KAFKA_VERSION, CACHE)

    def run(login: dict[str, str], main: str, *arguments: str) -> str:
        properties = tmp_path / "client.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
        command = ["java", "-Xmx192m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", main]
        command += ["--bootstrap-server", tokens_broker.bootstrap, "--command-config", str(properties), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        return done.stdout + done.stderr

    return run


def by_password(user: str) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="{user}" password="secret";',
    }


def by_token(token_id: str, code: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{token_id}" password="{code}" tokenauth="true";',
    }


def test_kafka_delegation_tokens(tool: Tool, tokens_broker: Broker) -> None:
    """
    Kafka's tool creates, describes, renews and ends a token; with it Kafka's client logs in as its owner, for whom it
    cannot make another one; when it is gone nobody logs in by it.
    """
    alice, bob = by_password("alice"), by_password("bob")
    made = tool(alice, TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    found = re.search(r"^(\S{22})\s+(\S{88})\s+User:alice\s+User:alice\s+\[?User:bob", made, re.MULTILINE)
    assert found, made
    token_id, code = found.groups()
    assert token_id in tool(bob, TOKENS, "--describe", "--owner-principal", "User:alice")
    assert "Completed renew" in tool(bob, TOKENS, "--renew", "--hmac", code, "--renew-time-period", "-1")
    groups = ("org.apache.kafka.tools.TopicCommand", "--list")
    create = ("org.apache.kafka.tools.TopicCommand", "--create", "--topic")
    for number, mechanism in enumerate(("SCRAM-SHA-256", "SCRAM-SHA-512")):
        token = by_token(token_id, code, mechanism)
        assert "Created topic" in tool(token, *create, f"made-by-token-{number}")
    refused = tool(by_token(token_id, code), TOKENS, "--create", "--max-life-time-period", "-1")
    assert "DelegationTokenDisabledException" not in refused
    assert "Delegation Token requests are not allowed" in refused
    wrong = by_token(token_id, code[:-4] + "AAA=")
    assert "SaslAuthenticationException: Authentication failed" in tool(wrong, *groups)
    assert "Completed expire" in tool(alice, TOKENS, "--expire", "--hmac", code, "--expiry-time-period", "-1")
    assert "SaslAuthenticationException: Authentication failed" in tool(by_token(token_id, code), *groups)


def test_logbus_tokens(tokens_broker: Broker, tmp_path: Path) -> None:
    """Our command makes a token, logs in by it, and has it end; then nobody logs in by it."""

    def logbus(login: dict[str, str], *arguments: str, password: str = "") -> subprocess.CompletedProcess[str]:
        properties = tmp_path / "client.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
        command = [sys.executable, "-c", "from logbus.cli import main; main()", *arguments]
        command += ["--bootstrap", tokens_broker.bootstrap, "--command-config", str(properties)]
        return subprocess.run(command, input=password, capture_output=True, text=True, timeout=SECONDS, check=False)

    made = logbus(by_password("alice"), "tokens", "create", "--renewer", "User:bob", "--json")
    assert made.returncode == 0, made.stderr
    token = json.loads(made.stdout)
    login = by_token(token["id"], token["password"])
    assert logbus(login, "topics", "list").returncode == 0
    assert token["id"] in logbus(by_password("bob"), "tokens", "list").stdout
    ended = logbus(
        by_password("alice"),
        "tokens",
        "expire",
        "--hours",
        "0.0002",
        "--password-file",
        "-",
        password=token["password"],
    )
    assert "the token ends at" in ended.stdout, ended.stderr
    deadline = time.monotonic() + SECONDS
    while (refused := logbus(login, "topics", "list")).returncode == 0:
        assert time.monotonic() < deadline, "the token does not end"
    assert "Authentication failed" in refused.stderr
    assert token["password"] not in refused.stderr


def test_our_script(tool: Tool, tokens_broker: Broker, tmp_path: Path) -> None:
    """Our command for Kafka's script prints what Kafka's does, but for ids, codes and times."""
    properties = tmp_path / "client.properties"

    def ours(login: dict[str, str], *arguments: str) -> str:
        properties.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
        command = [sys.executable, "-P", "-m", "logbus.cli.kafka_scripts", "kafka-delegation-tokens", *arguments]
        command += ["--bootstrap-server", tokens_broker.bootstrap, "--command-config", str(properties)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        return done.stdout + done.stderr

    def theirs(login: dict[str, str], *arguments: str) -> str:
        return tool(login, TOKENS, *arguments)

    def told(text: str) -> list[str]:
        # Kafka's errors are followed by their stack; sentences about codes are each one's own.
        first = re.sub(r"Exception: .*", "Exception", re.split(r"(?m)^\S*ExecutionException:|^\tat ", text)[0])
        return re.sub(r"\S{88}|(?<![\w:])[\w-]{22}(?!\w)|\d{4}-\d\d-\d\dT\d\d:\d\d", "SOME", first).splitlines()

    alice, codes = by_password("alice"), []
    line = "User:alice      User:alice"
    # Other tests leave tokens as well.
    before = ours(alice, "--describe").count(line)
    create = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    for run in (theirs, ours):
        found = re.search(
            r"^[\w-]{22} (\S{88}) ", run(alice, *create, "--renewer-principal", "User:carol"), re.MULTILINE
        )
        assert found is not None
        codes.append(found[1])
    assert told(ours(alice, *create)) == told(theirs(alice, *create))
    described = ours(alice, "--describe", "--owner-principal", "User:alice")
    assert told(described) == told(theirs(alice, "--describe", "--owner-principal", "User:alice"))
    assert described.count(line) == before + 4
    for words in (
        ("--renew", "--renew-time-period", "-1", "--hmac"),
        ("--expire", "--expiry-time-period", "-1", "--hmac"),
        ("--renew", "--renew-time-period", "-1", "--hmac"),
    ):
        assert told(ours(alice, *words, codes[1])) == told(theirs(alice, *words, codes[0])), words
