"""Logins, TLS and addresses of the client for asyncio."""

from __future__ import annotations

from pathlib import Path

import pytest

from logbus.client.aio import Producer
from logbus.errors import ApiError
from logbus.testing import Broker
from tests.certificates import Authority
from tests.client.aio.kit import run


async def round_trip(bootstrap: str, security: dict[str, str]) -> int:
    """Write a large record and a small one, which begins behind it."""
    async with Producer(bootstrap, security=security, create_topics=True, request_bytes=1 << 20) as producer:
        await producer.send("t", b"x" * 900_000)
        return (await producer.send_and_wait("t", b"1")).offset


def test_sasl() -> None:
    """With its password a client is let in; a wrong one is an error at the start that says so."""
    with Broker(users={"alice": "secret"}) as broker:
        right = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }
        assert run(round_trip(broker.bootstrap, right)) == 1
        with pytest.raises(ApiError, match="alice"):
            run(round_trip(broker.bootstrap, {**right, "sasl.password": "wrong"}))


def test_tls(tmp_path: Path) -> None:
    """Over TLS, with certificates of both sides; another authority's is an error at the start that says so."""
    authority = Authority.new()
    authority.write(tmp_path / "ca.pem")
    Authority.new("CN=Others").write(tmp_path / "others.pem")
    authority.issue("CN=server", hosts=("127.0.0.1", "localhost")).write(tmp_path / "server.pem")
    authority.issue("CN=alice").write(tmp_path / "alice.pem")
    config = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,KAFKA:SSL",
        "ssl.keystore.location": str(tmp_path / "server.pem"),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.client.auth": "required",
    }
    right = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.keystore.location": str(tmp_path / "alice.pem"),
    }
    with Broker(config) as broker:
        assert run(round_trip(broker.bootstrap, right)) == 1
        with pytest.raises(ApiError, match="no TLS with"):
            run(round_trip(broker.bootstrap, {**right, "ssl.truststore.location": str(tmp_path / "others.pem")}))
