"""Real clients log in by SASL: PLAIN, SCRAM and OAUTHBEARER, with right and wrong credentials."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from ssl import create_default_context
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from attrs import frozen
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.net.sasl.oauth import AbstractTokenProvider

from benchmarks.compare.jars import KAFKA_VERSION, tools_jars
from logbus.pipeline.blocking import Brokers, ConnectionSettings
from logbus.pipeline.errors import AuthenticationFailed
from logbus.testing import Broker
from tests.certificates import Authority
from tests.interop.java_client import CACHE
from tests.security.sasl.tokens import AUDIENCE, ISSUER, Issuer

SECONDS = 120
PLAIN_USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
TOKENS = Issuer()


@frozen
class Credentials:
    """How a client logs in: with a name and a password, or with a token."""

    mechanism: str
    user: str = "alice"
    password: str = "secret"

    @property
    def token(self) -> str:
        return TOKENS.token(sub=self.user) if self.password == "secret" else Issuer().token(sub=self.user)


def secured(keys: Path, **more: str) -> dict[str, str]:
    """The configuration of a broker whose clients must log in."""
    keys.write_bytes(TOKENS.jwks)
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,KAFKA:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.kafka.plain.sasl.jaas.config": PLAIN_USERS,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connection.failed.authentication.delay.ms": "10",
        **more,
    }


#: Who issued the certificates of brokers with TLS, by their addresses.
AUTHORITIES: dict[str, str] = {}


def protocol(broker: Broker) -> str:
    """The security protocol of a broker's listener."""
    return "SASL_SSL" if broker.bootstrap in AUTHORITIES else "SASL_PLAINTEXT"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with TLS, and a user who has a password, SCRAM credentials and tokens."""
    home, authority = tmp_path_factory.mktemp("keys"), Authority.new()
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,KAFKA:SASL_SSL",
        "ssl.keystore.location": str(authority.issue().write(home / "server.pem")),
    }
    with Broker(secured(home / "keys.json", **settings)) as broker:
        AUTHORITIES[broker.bootstrap] = str(authority.write(home / "ca.pem"))
        admin = AdminClient(confluent_settings(broker, Credentials("PLAIN")))
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), b"secret")
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(SECONDS)
        yield broker


def confluent_settings(broker: Broker, who: Credentials) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": protocol(broker),
        "sasl.mechanism": who.mechanism,
    }
    if ca := AUTHORITIES.get(broker.bootstrap):
        settings["ssl.ca.location"] = ca
    if who.mechanism == "OAUTHBEARER":
        return {**settings, "oauth_cb": lambda _: (who.token, 4_000_000_000.0)}
    return {**settings, "sasl.username": who.user, "sasl.password": who.password}


def confluent(broker: Broker, topic: str, who: Credentials) -> bytes:
    failures: list[KafkaError] = []
    settings = {**confluent_settings(broker, who), "error_cb": failures.append}
    producer = Producer({**settings, "message.timeout.ms": SECONDS * 1000})
    producer.produce(topic, b"confluent", partition=0)
    while producer.flush(0.1):
        if any(one.code() == KafkaError._AUTHENTICATION for one in failures):
            producer.purge()
            raise PermissionError
    consumer = Consumer({**settings, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([ConfluentPartition(topic, 0, 0)])
        message = consumer.poll(SECONDS)
        assert message is not None
        value: bytes = message.value()
        return value
    finally:
        consumer.close()


class PythonToken(AbstractTokenProvider):
    def __init__(self, who: Credentials) -> None:
        super().__init__()
        self.who = who

    def token(self) -> str:
        return self.who.token


def kafka_python(broker: Broker, topic: str, who: Credentials) -> bytes:
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": protocol(broker),
        "ssl_cafile": AUTHORITIES.get(broker.bootstrap),
        "sasl_mechanism": who.mechanism,
        "sasl_plain_username": who.user,
        "sasl_plain_password": who.password,
    }
    if who.mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = PythonToken(who)
    patience = {"bootstrap_timeout_ms": 3000} if who.password != "secret" else {}
    try:
        producer = KafkaProducer(**settings, **patience)
    except Exception as e:
        raise PermissionError from e
    try:
        producer.send(topic, b"kafka-python", partition=0).get(3 if patience else SECONDS)
    except Exception as e:
        raise PermissionError from e
    finally:
        producer.close(1)
    consumer = KafkaConsumer(
        **settings, group_id=None, auto_offset_reset="earliest", consumer_timeout_ms=SECONDS * 1000
    )
    try:
        consumer.assign([PythonPartition(topic, 0)])
        value: bytes = next(consumer).value
        return value
    finally:
        consumer.close()


class AioToken(AioTokenProvider):
    def __init__(self, who: Credentials) -> None:
        self.who = who

    async def token(self) -> str:
        return self.who.token


def aiokafka(broker: Broker, topic: str, who: Credentials) -> bytes:
    async def run() -> bytes:
        settings: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap,
            "security_protocol": protocol(broker),
            "ssl_context": create_default_context(cafile=AUTHORITIES.get(broker.bootstrap)),
            "sasl_mechanism": who.mechanism,
            "sasl_plain_username": who.user,
            "sasl_plain_password": who.password,
        }
        if who.mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = AioToken(who)
        producer = AIOKafkaProducer(**settings)
        try:
            await producer.start()
        except Exception as e:
            raise PermissionError from e
        else:
            await producer.send_and_wait(topic, b"aiokafka", partition=0)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(**settings, auto_offset_reset="earliest")
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.start()
        try:
            value: bytes = (await consumer.getone()).value
            return value
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(run(), SECONDS))


def kcat(broker: Broker, topic: str, who: Credentials) -> bytes:
    command = ["kcat", "-b", broker.bootstrap, "-t", topic, "-p", "0", "-X", f"security.protocol={protocol(broker)}"]
    login = {
        "ssl.ca.location": AUTHORITIES[broker.bootstrap],
        "sasl.mechanism": who.mechanism,
        "sasl.username": who.user,
        "sasl.password": who.password,
    }
    for name, value in login.items():
        command += ["-X", f"{name}={value}"]
    if who.password != "secret":
        command += ["-X", "message.timeout.ms=2000"]
    wrote = subprocess.run([*command, "-P"], check=False, input=b"kcat", capture_output=True, timeout=SECONDS)
    if wrote.returncode:
        assert b"SASL authentication error: Authentication failed" in wrote.stderr
        raise PermissionError
    read = [*command, "-C", "-q", "-o", "beginning", "-c", "1"]
    return subprocess.run(read, capture_output=True, check=True, timeout=SECONDS).stdout.strip()


def logbus(broker: Broker, topic: str, who: Credentials) -> bytes:
    """Our command line, on our client for Twisted."""
    with TemporaryDirectory() as directory:
        config = Path(directory, "client.properties")
        options = {"security.protocol": protocol(broker), "sasl.mechanism": who.mechanism}
        options["ssl.truststore.location"] = AUTHORITIES[broker.bootstrap]
        if who.mechanism == "OAUTHBEARER":
            token = Path(directory, "token")
            token.write_text(who.token)
            options["sasl.oauthbearer.token.endpoint.url"] = token.as_uri()
        else:
            options |= {"sasl.username": who.user, "sasl.password": who.password}
        config.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
        secured = ["--bootstrap", broker.bootstrap, "--command-config", str(config)]
        wrote = run_logbus(["produce", topic, "--create", *secured], input="logbus")
        if wrote.returncode:
            assert f"refuses {who.mechanism}" in wrote.stderr or "invalid_token" in wrote.stderr, wrote.stderr
            assert "Traceback" not in wrote.stderr
            raise PermissionError
        return run_logbus(["consume", topic, *secured, "--from-beginning", "-n", "1"]).stdout.strip().encode()


def run_logbus(arguments: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from logbus.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, **more)


Exchange = Callable[[Broker, str, Credentials], bytes]
CASES = [
    pytest.param(client, mechanism, id=f"{client.__name__}-{mechanism}")
    for client in (confluent, kafka_python, aiokafka, kcat, logbus)
    for mechanism in MECHANISMS
    if not (client is kcat and mechanism == "OAUTHBEARER")
]


@pytest.mark.parametrize(("client", "mechanism"), CASES)
def test_right_credentials(broker: Broker, topic: str, client: Exchange, mechanism: str) -> None:
    """A client that logs in writes and reads."""
    assert client(broker, topic, Credentials(mechanism)).decode() == client.__name__.replace("_", "-")


@pytest.mark.parametrize(("client", "mechanism"), CASES)
def test_wrong_credentials(broker: Broker, topic: str, client: Exchange, mechanism: str) -> None:
    """A client that does not, gets nothing."""
    with pytest.raises(PermissionError):
        client(broker, topic, Credentials(mechanism, password="wrong"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_an_unknown_user(broker: Broker, topic: str, mechanism: str) -> None:
    """Somebody who does not exist is like somebody with a wrong password."""
    with pytest.raises(PermissionError):
        kcat(broker, topic, Credentials(mechanism, user="nobody", password="wrong"))


def test_without_login(broker: Broker) -> None:
    """A client that does not log in is not served."""
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=2)


def test_a_mechanism_that_is_not_enabled(tmp_path: Path) -> None:
    """A client learns which mechanisms there are."""
    failures: list[KafkaError] = []
    with Broker(secured(tmp_path / "keys.json", **{"sasl.enabled.mechanisms": "SCRAM-SHA-512"})) as broker:
        settings = {**confluent_settings(broker, Credentials("PLAIN")), "error_cb": failures.append}
        client = AdminClient(settings)
        with pytest.raises(KafkaException):
            client.list_topics(timeout=2)
        deadline = time.monotonic() + SECONDS
        while not failures and time.monotonic() < deadline:
            client.poll(1)
    assert any("SCRAM-SHA-512" in one.str() for one in failures)


def metric(broker: Broker, name: str) -> float:
    with urllib.request.urlopen(f"{broker.admin_url}/metrics", timeout=SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_logging_in_again(tmp_path: Path, mechanism: str) -> None:
    """librdkafka logs in again before its session ends, and goes on (KIP-368)."""
    with Broker(secured(tmp_path / "keys.json", **{"connections.max.reauth.ms": "2500"})) as broker:
        client = AdminClient(confluent_settings(broker, Credentials(mechanism)))
        while not metric(broker, "logbus_successful_reauthentications_total"):
            client.list_topics(timeout=SECONDS)
            client.poll(0.1)
        client.list_topics(timeout=SECONDS)
        assert metric(broker, "logbus_failed_reauthentications_total") == 0


LOGIN_MODULES = {"PLAIN": "plain.PlainLoginModule"} | dict.fromkeys(MECHANISMS[1:3], "scram.ScramLoginModule")


def client_properties(broker: Broker, who: Credentials) -> dict[str, str]:
    """The options of Java's clients, and of ours for Spark."""
    module = f"org.apache.kafka.common.security.{LOGIN_MODULES[who.mechanism]}"
    return {
        "security.protocol": protocol(broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": AUTHORITIES[broker.bootstrap],
        "sasl.mechanism": who.mechanism,
        "sasl.jaas.config": f'{module} required username="{who.user}" password="{who.password}";',
    }


@pytest.mark.parametrize("mechanism", LOGIN_MODULES)
@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_kafkas_own_client(broker: Broker, tmp_path: Path, mechanism: str, password: str) -> None:
    """Kafka's tools log in, and say why they cannot."""
    options = client_properties(broker, Credentials(mechanism, password=password))
    (tmp_path / "client.properties").write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    command = ["java", "-Xmx192m", "-XX:TieredStopAtLevel=1", "-cp", f"{tools_jars(KAFKA_VERSION, CACHE)}/*"]
    command += ["kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--describe"]
    command += ["--entity-type", "users", "--command-config", str(tmp_path / "client.properties")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if password == "secret":
        assert "SCRAM-SHA-256=iterations=4096" in done.stdout
    else:
        assert "SaslAuthenticationException: Authentication failed" in done.stdout + done.stderr


@pytest.mark.parametrize("mechanism", LOGIN_MODULES)
def test_our_client_for_spark(broker: Broker, mechanism: str) -> None:
    """The blocking client of Spark's workers logs in, and says why it cannot."""

    def asked(password: str) -> object:
        options = client_properties(broker, Credentials(mechanism, password=password))
        with closing(
            Brokers(ConnectionSettings.from_options({"bootstrap.servers": broker.bootstrap, **options}))
        ) as ours:
            return ours.metadata(())

    assert asked("secret") is not None
    with pytest.raises(AuthenticationFailed, match="the credentials for"):
        asked("wrong")


def test_our_client_for_spark_with_a_token(broker: Broker, tmp_path: Path) -> None:
    """A token of a file, which is read at each login; one that is not accepted is an error at once."""
    file = tmp_path / "token"
    options = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": AUTHORITIES[broker.bootstrap],
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
    }
    with closing(Brokers(ConnectionSettings.from_options(options))) as ours:
        with pytest.raises(AuthenticationFailed, match=r"the token in .* cannot be read"):
            ours.metadata(())
        file.write_text(Credentials("OAUTHBEARER", password="wrong").token)
        with pytest.raises(AuthenticationFailed, match="refuses the token"):
            ours.metadata(())
        file.write_text(Credentials("OAUTHBEARER").token + "\n")
        assert ours.metadata(()) is not None


def test_command_line(broker: Broker, tmp_path: Path) -> None:
    """Options come before the file; what is not about security is named; an unknown authority is said to be one."""
    config = tmp_path / "client.properties"
    config.write_text("sasl.username=alice\nsasl.password=secret\nsecurity.protocol=SSL\nacks=all\n")
    pairs = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    trusted = {**pairs, "ssl.truststore.location": AUTHORITIES[broker.bootstrap]}
    for options, said in ((trusted, ""), (pairs, "certificate verify failed; see ssl.truststore.location")):
        given = [part for name, value in options.items() for part in ("-X", f"{name}={value}")]
        listed = run_logbus(
            ["topics", "list", "--bootstrap", broker.bootstrap, "--command-config", str(config), *given]
        )
        assert listed.returncode == (1 if said else 0), listed.stderr
        assert said in listed.stderr
        assert "ignored: acks" in listed.stderr
        assert "Traceback" not in listed.stderr
