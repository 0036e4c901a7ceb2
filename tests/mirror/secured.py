"""Two brokers that trust nobody, and a mirror between them in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from logbus.testing import Broker
from tests.certificates import Authority

LOGBUS = Path(sys.executable).with_name("logbus")
SECONDS = 120.0
PASSWORD = "only for tests"


class RunningMirror:
    """``logbus mirror`` in a process of its own; its lines are read as they come."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [LOGBUS, "mirror", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def line(self, pattern: str, after: int = 0) -> str:
        """The first line in which a regular expression is found, once it was printed."""
        deadline = time.monotonic() + SECONDS
        with self._changed:
            while True:
                for each in self.lines[after:]:
                    if re.search(pattern, each):
                        return each
                left = deadline - time.monotonic()
                ended = self.process.poll() is not None and not self._reader.is_alive()
                assert left > 0 and not ended, f"no line like {pattern!r} in {self.lines}"
                self._changed.wait(min(left, 1.0))

    def end(self) -> int:
        """Wait until it ends by itself; its exit status."""
        status = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        return status

    def stop(self) -> None:
        """End it in order."""
        if self.process.poll() is None:
            self.process.terminate()
        self.end()


class SecuredSide:
    """
    A broker with TLS, logins and ACLs.

    :ivar home: where certificates and files for clients are.
    """

    def __init__(self, home: Path, authority: Authority, *, by_certificate: bool) -> None:
        self.home, self.by_certificate = home, by_certificate
        home.mkdir()
        self.trusted = authority.write(home / "ca.pem")
        for name in ("broker", "admin", "mirror"):
            authority.issue(f"CN={name}").write(home / f"{name}.pem")
        config: dict[str, object] = {
            "ssl.keystore.location": str(home / "broker.pem"),
            "ssl.truststore.location": str(self.trusted),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:admin;User:CN=admin;User:CN=broker",
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.num.partitions": 1,
        }
        if by_certificate:
            config["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,KAFKA:SSL"
            config["ssl.client.auth"] = "required"
        else:
            config["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,KAFKA:SASL_SSL"
            config["sasl.enabled.mechanisms"] = "PLAIN"
            users = " ".join(f'user_{name}="{PASSWORD}"' for name in ("admin", "mirror"))
            config["listener.name.kafka.plain.sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            )
        self.broker = Broker(config)  # type: ignore[arg-type]

    @property
    def bootstrap(self) -> str:
        """Where it is reached."""
        return self.broker.bootstrap

    @property
    def principal(self) -> str:
        """Who the mirror is here."""
        return "User:CN=mirror" if self.by_certificate else "User:mirror"

    def config(self, user: str = "mirror", password: str = PASSWORD, **more: str | None) -> str:
        """A file for ``--from-config`` and ``--to-config``."""
        properties: dict[str, str | None] = {"ssl.truststore.location": str(self.trusted), "ssl.truststore.type": "PEM"}
        if self.by_certificate:
            properties |= {
                "security.protocol": "SSL",
                "ssl.keystore.location": str(self.home / f"{user}.pem"),
                "ssl.keystore.type": "PEM",
            }
        else:
            properties |= {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f'username="{user}" password="{password}";',
            }
        properties |= {name.replace("_", "."): text for name, text in more.items()}
        path = self.home / f"{user}-{len(list(self.home.iterdir()))}.properties"
        path.write_text("".join(f"{name}={text}\n" for name, text in properties.items() if text is not None))
        return str(path)

    def settings(self) -> dict[str, Any]:
        """How librdkafka connects as a super user."""
        shared = {"bootstrap.servers": self.bootstrap, "ssl.ca.location": str(self.trusted), "log_level": 0}
        if self.by_certificate:
            pem = str(self.home / "admin.pem")
            return {
                **shared,
                "security.protocol": "SSL",
                "ssl.certificate.location": pem,
                "ssl.key.location": pem,
            }
        return {
            **shared,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": PASSWORD,
        }

    def create(self, topic: str) -> None:
        """Create a topic of one partition."""
        admin = AdminClient(self.settings())  # It must live until all has been answered.
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(SECONDS)

    def write(self, topic: str, *values: str) -> None:
        """Write records."""
        producer = Producer(self.settings())
        for each in values:
            producer.produce(topic, each)
        assert producer.flush(SECONDS) == 0

    def read(self, topic: str, count: int) -> list[bytes | None]:
        """So many values, once they are there."""
        consumer = Consumer(
            {**self.settings(), "group.id": f"reader-{time.monotonic()}", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        try:
            found: list[bytes | None] = []
            deadline = time.monotonic() + SECONDS
            while len(found) < count:
                assert time.monotonic() < deadline, found
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    found.append(message.value())
            return found
        finally:
            consumer.close()

    def allow(self, resource: ResourceType, name: str, *operations: AclOperation, prefix: bool = False) -> None:
        """Give the mirror rights."""
        admin = AdminClient(self.settings())
        for made in admin.create_acls([self._acl(resource, name, each, prefix) for each in operations]).values():
            made.result(SECONDS)

    def forbid(self, resource: ResourceType, name: str, operation: AclOperation, prefix: bool = False) -> None:
        """Take a right from it."""
        wanted = self._acl(resource, name, operation, prefix)
        pattern = AclBindingFilter(
            wanted.restype,
            wanted.name,
            wanted.resource_pattern_type,
            wanted.principal,
            wanted.host,
            wanted.operation,
            wanted.permission_type,
        )
        admin = AdminClient(self.settings())
        for done in admin.delete_acls([pattern]).values():
            assert len(done.result(SECONDS)) == 1

    def _acl(self, resource: ResourceType, name: str, operation: AclOperation, prefix: bool) -> AclBinding:
        kind = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
        return AclBinding(resource, name, kind, self.principal, "*", operation, AclPermissionType.ALLOW)


@contextmanager
def secured_sides(home: Path) -> Iterator[tuple[SecuredSide, SecuredSide]]:
    """A source whose clients log in by passwords, and a target whose clients show certificates; both are started."""
    authority = Authority.new()
    source = SecuredSide(home / "paris", authority, by_certificate=False)
    target = SecuredSide(home / "rome", authority, by_certificate=True)
    with source.broker, target.broker:
        yield source, target
