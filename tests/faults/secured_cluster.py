"""
A cluster whose parts trust nobody: clients log in over TLS and have ACLs, brokers show each other certificates
and log in, and their nodes in ZooKeeper belong to them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from logbus.testing.cluster import Cluster
from tests.certificates import Authority
from tests.faults.conftest import FAULTY_CONFIG

ADMIN, CLIENT = "admin", "client"
PASSWORD = "only for tests"
SECONDS = 120.0


class SecuredCluster(Cluster):
    """
    Three brokers that miss each other after two seconds. The connections to ZooKeeper stay readable, as the test kit
    expires sessions that it sees there.

    :ivar client_settings: what librdkafka needs to log in as a client with ACLs.
    :ivar admin_settings: as a super user.
    """

    def __init__(self) -> None:
        self._certificates = tempfile.TemporaryDirectory()
        home, authority = Path(self._certificates.name), Authority.new()
        trusted = authority.write(home / "ca.pem")
        broker = authority.issue("CN=broker").write(home / "broker.pem")
        users = " ".join(f'user_{name}="{PASSWORD}"' for name in (ADMIN, CLIENT))
        super().__init__(
            config={
                **FAULTY_CONFIG,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,KAFKA:SASL_SSL,REPLICATION:SASL_SSL",
                "ssl.keystore.location": str(broker),
                "ssl.truststore.location": str(trusted),
                "listener.name.replication.ssl.client.auth": "required",
                # Which addresses the ways between brokers have is not known yet.
                "listener.name.replication.ssl.endpoint.identification.algorithm": "",
                "listener.name.replication.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.replication.plain.sasl.jaas.config": (
                    "org.apache.kafka.common.security.plain.PlainLoginModule required "
                    f'username="broker" password="{PASSWORD}" user_broker="{PASSWORD}";'
                ),
                # So that sessions end, and connections log in again, among the faults.
                "listener.name.replication.connections.max.reauth.ms": "5000",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.kafka.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.kafka.plain.sasl.jaas.config": (
                    f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
                ),
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": f"User:broker;User:{ADMIN}",
                "zookeeper.set.acl": "true",
                "zookeeper.digest.username": "brokers",
                "zookeeper.digest.password": PASSWORD,
            }
        )
        shared = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(trusted),
            "sasl.mechanism": "PLAIN",
            "sasl.password": PASSWORD,
        }
        self.client_settings: Mapping[str, Any] = {**shared, "sasl.username": CLIENT}
        self.admin_settings: Mapping[str, Any] = {**shared, "sasl.username": ADMIN}

    def wait_known(self) -> None:
        """Wait until every running broker tells its clients of all that run."""
        wanted = len(self.running)
        for broker in self.running:
            admin = self._admin(broker.bootstrap)

            def knows_all(admin: AdminClient = admin) -> bool:
                try:
                    return len(admin.list_topics(timeout=5).brokers) == wanted
                except KafkaException:
                    return False

            self.wait_until(knows_all, "a full list of brokers")

    def allow(self, topic: str) -> None:
        """Let the client write and read a topic, and nothing else."""
        allowed = [
            AclBinding(
                ResourceType.TOPIC,
                topic,
                ResourcePatternType.LITERAL,
                f"User:{CLIENT}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for operation in (AclOperation.READ, AclOperation.WRITE)
        ]
        admin = self._admin(self.bootstrap)  # It must live until all has been answered.
        for made in admin.create_acls(allowed, request_timeout=SECONDS).values():
            made.result(SECONDS)

    def close(self) -> None:
        super().close()
        self._certificates.cleanup()

    def _admin(self, bootstrap: str) -> AdminClient:
        return AdminClient({**self.admin_settings, "bootstrap.servers": bootstrap, "log_level": 0})
