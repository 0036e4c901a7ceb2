"""curl and Confluent's registry client over TLS, with users and rights."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from logbus.testing import Broker
from tests.certificates import Authority
from tests.cli.command_line import run
from tests.registry.kit import ORDER
from tests.security.sasl.tokens import AUDIENCE, ISSUER, Issuer

pytestmark = [pytest.mark.interop]
SECONDS = 120
TOKENS = Issuer()
ADMIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="admin-secret";'
ORDERS = "/api/v1/topics/orders"


@frozen
class Secured:
    """
    A broker whose HTTP listener has TLS and demands a login. Alice (SCRAM) may describe and write to ``orders``, Dora
    (certificates) describe it, the user ``admin`` (PLAIN) everything; Carol (tokens) nothing. Kafka's port is open, to
    prepare all this.
    """

    broker: Broker
    authority: Path
    kafka: AdminClient

    @property
    def url(self) -> str:
        return self.broker.admin_url.replace("http://", "https://").replace("127.0.0.1", "localhost")

    def password(self, user: str, password: str) -> None:
        """Give a user another password."""
        change = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192), password.encode()
        )
        for done in self.kafka.alter_user_scram_credentials([change]).values():
            done.result(SECONDS)

    def curl(self, path: str, *options: str) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        done = subprocess.run(
            ["curl", "-sS", "--cacert", self.authority, "-w", "\n%{http_code}", *options, self.url + path],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        body, _, status = done.stdout.rpartition("\n")
        return int(status), json.loads(body) if body else None


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("http")
    authority = Authority.new()
    authority.write(directory / "ca.pem")
    authority.issue("CN=dora,O=x").write(directory / "dora.pem")
    Authority.new("CN=Strangers").issue("CN=dora,O=x").write(directory / "mallory.pem")
    (directory / "keys.json").write_bytes(TOKENS.jwks)
    with Broker(
        {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ADMIN:SSL",
            "ssl.keystore.location": str(authority.issue().write(directory / "server.pem")),
            "admin.authentication": "required",
            "listener.name.admin.ssl.client.auth": "requested",
            "listener.name.admin.ssl.truststore.location": str(directory / "ca.pem"),
            "listener.name.admin.ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),.*$/$1/",
            "listener.name.admin.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.admin.plain.sasl.jaas.config": ADMIN,
            "sasl.oauthbearer.jwks.endpoint.url": (directory / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
        }
    ) as broker:
        secured = Secured(broker, directory / "ca.pem", AdminClient({"bootstrap.servers": broker.bootstrap}))
        secured.password("alice", "wonderland")
        for topic in secured.kafka.create_topics([NewTopic("orders", 1), NewTopic("secrets", 1)]).values():
            topic.result(SECONDS)
        rights = [
            ("User:alice", AclOperation.WRITE, "orders"),
            ("User:alice", AclOperation.DESCRIBE, "_schemas"),
            ("User:dora", AclOperation.DESCRIBE, "orders"),
        ]
        acls = [
            AclBinding(ResourceType.TOPIC, name, ResourcePatternType.LITERAL, who, "*", right, AclPermissionType.ALLOW)
            for who, right, name in rights
        ]
        for acl in secured.kafka.create_acls(acls).values():
            acl.result(SECONDS)
        yield secured


def test_nobody_gets_in(secured: Secured) -> None:
    """Without a login, and with a wrong one, there is nothing but the probes."""
    for path in ("/", "/metrics", ORDERS, "/registry/subjects", "/nope"):
        assert secured.curl(path)[0] == 401
    for wrong in (
        ["-u", "alice:carroll"],
        ["-u", "bob:wonderland"],
        ["-H", f"Authorization: Bearer {Issuer().token()}"],
    ):
        assert secured.curl(ORDERS, *wrong)[0] == 401
    assert secured.curl("/healthz")[0] == secured.curl("/readyz")[0] == 200


def test_rights(secured: Secured) -> None:
    """Each user sees and does what ACLs allow."""
    alice, admin = ["-u", "alice:wonderland"], ["-u", "admin:admin-secret"]
    status, found = secured.curl("/api/v1/topics", *alice)
    assert (status, [topic["name"] for topic in found["items"]]) == (200, ["orders"])
    assert secured.curl("/api/v1/topics/secrets", *alice)[0] == 403
    assert secured.curl(f"{ORDERS}?confirm=orders", "-X", "DELETE", *alice)[0] == 403
    assert secured.curl("/metrics", *alice)[0] == 403
    carol = ["-H", f"Authorization: Bearer {TOKENS.token(sub='carol')}"]
    assert secured.curl("/api/v1/topics", *carol) == (200, {"items": [], "next": None})
    assert secured.curl("/api/v1/topics/secrets", "-X", "DELETE", *admin)[0] == 400
    assert secured.curl("/api/v1/topics/secrets?confirm=secrets", "-X", "DELETE", *admin)[0] == 204
    internal = "/api/v1/topics/__consumer_offsets?confirm=__consumer_offsets"
    assert secured.curl(internal, "-X", "DELETE", *admin)[0] in (403, 404)
    status, configs = secured.curl("/api/v1/configs/brokers/0", *admin)
    assert status == 200
    assert not [one for one in configs["items"] if one["sensitive"] and one["value"] is not None]
    assert "admin-secret" not in json.dumps(configs)


def test_certificates(secured: Secured) -> None:
    """A certificate is a login; that of a stranger's authority is none."""
    own = str(secured.authority.with_name("dora.pem"))
    status, found = secured.curl("/api/v1/topics", "--cert", own)
    assert (status, [topic["name"] for topic in found["items"]]) == (200, ["orders"])
    assert secured.curl("/metrics", "--cert", own)[0] == 403
    with pytest.raises(subprocess.CalledProcessError):
        secured.curl("/api/v1/topics", "--cert", own.replace("dora", "mallory"))


def test_changed_password(secured: Secured) -> None:
    """A new password counts at once, and the old one no more, although it was right a moment ago."""
    secured.password("dave", "first")
    assert secured.curl("/api/v1/brokers", "-u", "dave:first")[0] == 200
    secured.password("dave", "second")
    assert secured.curl("/api/v1/brokers", "-u", "dave:second")[0] == 200
    assert secured.curl("/api/v1/brokers", "-u", "dave:first")[0] == 401


def test_shutdown_command(secured: Secured, tmp_path: Path) -> None:
    """The command that stops a broker logs in; this one cannot be stopped, and says so to who may."""
    command = ["cluster", "shutdown-broker", "0", "--admin", secured.url, "--ca", str(secured.authority)]
    assert "Log in with --user" in run(*command).err
    passwords = tmp_path / "passwords"
    for user, password, words in (
        ("alice", "wonderland", "Alter on the Cluster"),
        ("admin", "wonderland", "login failed"),
        ("admin", "admin-secret", "part of another process"),
    ):
        passwords.write_text(password)
        assert words in run(*command, "--user", user, "--password-file", str(passwords)).err
    assert "certificate verify failed" in run(*command[:-2]).err


def test_registry(secured: Secured) -> None:
    """Confluent's client registers the schema of a topic that its user may write to, and of no other."""
    settings = {"url": f"{secured.url}/registry", "ssl.ca.location": str(secured.authority)}
    schema = Schema(json.dumps(ORDER), "AVRO")
    with SchemaRegistryClient({**settings, "basic.auth.user.info": "alice:wonderland"}) as alice:
        number = alice.register_schema("orders-value", schema)
        assert json.loads(alice.get_schema(number).schema_str or "") == ORDER
        with pytest.raises(SchemaRegistryError) as refused:
            alice.register_schema("secrets-value", schema)
        assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)
        with pytest.raises(SchemaRegistryError):
            alice.delete_subject("orders-value")
    with SchemaRegistryClient({**settings, "basic.auth.user.info": "alice:carroll"}) as wrong:
        with pytest.raises(SchemaRegistryError) as refused:
            wrong.get_subjects()
        assert refused.value.http_status_code == 401
    with SchemaRegistryClient({**settings, "basic.auth.user.info": "admin:admin-secret"}) as admin:
        assert admin.delete_subject("orders-value") == [1]
