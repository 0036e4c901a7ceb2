"""Tests the pipeline's blocking client against Apache Kafka with TLS and SASL."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import frozen
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from benchmarks.compare.jars import KAFKA_VERSION, kafka_jars
from benchmarks.compare.systems import free_port, start
from logbus.model import TopicPartition
from logbus.pipeline.blocking import EARLIEST, LATEST, Brokers, ConnectionSettings
from logbus.pipeline.blocking.list_offsets import list_offsets
from logbus.pipeline.blocking.range_reader import read_range
from logbus.pipeline.errors import AuthenticationFailed, OptionError, Unreachable
from tests.interop.java_client import CACHE
from tests.interop.test_native_against_kafka import QuickKafka

SECONDS = 120
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
USER, PASSWORD = "al,i=ce", 'open "sesame"'


def certificate(directory: Path, name: str, subject: str) -> tuple[Path, Path]:
    """A key and a certificate that it signs itself, both PEM."""
    key, chain = directory / f"{name}.key", directory / f"{name}.crt"
    made = f"-newkey rsa:2048 -nodes -days 2 -subj /CN={name} -addext subjectAltName={subject}".split()
    command = ["openssl", "req", "-x509", *made, "-keyout", str(key), "-out", str(chain)]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
    return key, chain


@frozen
class SecureKafka(QuickKafka):
    """
    Kafka with a listener for each way to be secure.

    :ivar ports: by the listeners' names.
    """

    certificates: Path = Path()
    ports: tuple[tuple[str, int], ...] = ()

    def prepare(self, directory: Path, port: int, synced: bool | None) -> list[str]:
        command = list(super().prepare(directory, port, synced))
        properties = directory / "server.properties"
        listeners = next(line for line in properties.read_text().splitlines() if line.startswith("listeners="))
        more = "".join(f",{name}://127.0.0.1:{where}" for name, where in self.ports)
        with properties.open("a") as file:
            file.write(
                f"{listeners}{more}\n"
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MUTUAL:SSL,"
                "BOTH:SASL_SSL,BARE:SASL_PLAINTEXT\n"
                f"ssl.keystore.type=PEM\nssl.keystore.location={self.certificates / 'broker.pem'}\n"
                f"ssl.truststore.type=PEM\nssl.truststore.location={self.certificates / 'client.crt'}\n"
                "listener.name.mutual.ssl.client.auth=required\n"
                "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n"
            )
            for name in ("both", "bare"):
                file.write(
                    f'listener.name.{name}.plain.sasl.jaas.config={PLAIN} user_bob="secret";\n'
                    f"listener.name.{name}.scram-sha-256.sasl.jaas.config={SCRAM};\n"
                    f"listener.name.{name}.scram-sha-512.sasl.jaas.config={SCRAM};\n"
                    f"listener.name.{name}.connections.max.reauth.ms=60000\n"
                )
        return command


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The broker's, and a client's."""
    directory = tmp_path_factory.mktemp("certificates")
    for name in ("broker", "client"):
        key, chain = certificate(directory, name, "IP:127.0.0.1")
        (directory / f"{name}.pem").write_text(key.read_text() + chain.read_text())
    return directory


@pytest.fixture(scope="module")
def kafka(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """Apache Kafka with a user and some records; the ports of its listeners."""
    ports = tuple((name, free_port()) for name in ("TLS", "MUTUAL", "BOTH", "BARE"))
    system = SecureKafka(kafka_jars(KAFKA_VERSION, CACHE), KAFKA_VERSION, certificates, ports)
    directory = tmp_path_factory.mktemp("secure") / "1"
    running = start(system, directory)
    try:
        plain = {"bootstrap.servers": f"127.0.0.1:{running.port}"}
        admin = AdminClient(plain)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            wanted = [UserScramCredentialUpsertion(USER, info, PASSWORD.encode())]
            for done in admin.alter_user_scram_credentials(wanted).values():
                done.result(SECONDS)
        producer = Producer(plain)
        for number in range(100):
            producer.produce("t", b"%d" % number, partition=0)
        assert producer.flush(SECONDS) == 0
        yield dict(ports)
    finally:
        if running.process.poll() is not None:
            print((directory / "output").read_text(errors="replace")[-5000:])
        running.stop()


def client(port: int, protocol: str, **options: object) -> Brokers:
    """As ``kafka.*`` options say; a double underscore is a dot."""
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    return Brokers(
        ConnectionSettings.from_options(
            {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": protocol, **given}
        )
    )


def values(brokers: Brokers) -> Sequence[bytes]:
    """The records of ``t-0``, read with all requests of a reader."""
    place = TopicPartition("t", 0)
    ends = [list_offsets(brokers, {place: time})[place].offset for time in (EARLIEST, LATEST)]
    found = []
    for rows in read_range(brokers, place, *ends):
        columns = rows.columns
        bounds = struct.unpack(f"={columns.rows + 1}i", columns.value_offsets)
        data = bytes(columns.value_data)
        found += [data[begin:end] for begin, end in pairwise(bounds)]
    brokers.close()
    return found


WRITTEN = [b"%d" % number for number in range(100)]


def test_tls(kafka: dict[str, int], certificates: Path) -> None:
    """By a file and by text; with a certificate of our own; both versions."""
    trusted = certificates / "broker.crt"
    assert values(client(kafka["TLS"], "SSL", ssl__truststore__location=trusted)) == WRITTEN
    text = {"ssl.truststore.certificates": trusted.read_text(), "ssl.enabled.protocols": "TLSv1.2"}
    assert values(client(kafka["TLS"], "SSL", **text)) == WRITTEN
    ours = {"ssl.truststore.location": trusted, "ssl.keystore.location": certificates / "client.pem"}
    assert values(client(kafka["MUTUAL"], "SSL", **ours)) == WRITTEN
    parts = {
        "ssl.truststore.location": trusted,
        "ssl.keystore.key": (certificates / "client.key").read_text(),
        "ssl.keystore.certificate.chain": (certificates / "client.crt").read_text(),
    }
    assert values(client(kafka["MUTUAL"], "SSL", **parts)) == WRITTEN


def test_untrusted_certificate(kafka: dict[str, int], certificates: Path, tmp_path: Path) -> None:
    """It is an error at once, and says why; a file that cannot be read is, too."""
    _, stranger = certificate(tmp_path, "stranger", "IP:127.0.0.1")
    with pytest.raises(AuthenticationFailed, match="certificate is not trusted"):
        values(client(kafka["TLS"], "SSL", ssl__truststore__location=stranger))
    with pytest.raises(OptionError, match=r"kafka\.ssl\.truststore\.location"):
        values(client(kafka["TLS"], "SSL", ssl__truststore__location=tmp_path / "none"))
    with pytest.raises(Unreachable):
        values(client(kafka["TLS"], "PLAINTEXT", default__api__timeout__ms=0, request__timeout__ms=2000))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_sasl(kafka: dict[str, int], certificates: Path, mechanism: str) -> None:
    """Each mechanism, bare and over TLS, as Java's clients and as librdkafka's are told; wrong passwords at once."""
    user, password = ("bob", "secret") if mechanism == "PLAIN" else (USER, PASSWORD)
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    quoted = password.replace('"', '\\"')
    jaas = {"sasl.mechanism": mechanism, "sasl.jaas.config": f'{module} username="{user}" password="{quoted}";'}
    bare = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    trusted = {"ssl.truststore.location": certificates / "broker.crt"}
    assert values(client(kafka["BARE"], "SASL_PLAINTEXT", **bare)) == WRITTEN
    assert values(client(kafka["BOTH"], "SASL_SSL", **jaas, **trusted)) == WRITTEN
    with pytest.raises(AuthenticationFailed, match=user):
        values(client(kafka["BARE"], "SASL_PLAINTEXT", **{**bare, "sasl.password": "wrong"}))
