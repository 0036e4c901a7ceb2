"""DescribeUserScramCredentials and AlterUserScramCredentials."""

from __future__ import annotations

from logbus.errors import ErrorCode
from logbus.metastore.security_znodes import EntityZnode
from logbus.metastore.znodes import USER_CONFIGS
from logbus.security.sasl.scram_credential import ScramCredential, salted_password
from logbus.wire.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from tests.handlers.kit import HandlerCase, MemoryBroker

SHA_256, SHA_512 = 1, 2
OK = 0


def put(
    name: str = "ann", mechanism: int = SHA_256, iterations: int = 4096, size: int = 32
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"p" * size
    )


def drop(name: str = "ann", mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


class ScramTests(HandlerCase):
    """Users and their credentials."""

    def alter(self, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, int]:
        request = AlterUserScramCredentialsRequest(
            deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
            upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
        )
        return {one.user: one.error_code for one in self.client.ask(request, 0).results}

    def describe(self, *names: str) -> dict[str, int | list[tuple[int, int]]]:
        users = [UserName(name=name) for name in names] if names else None
        response = self.client.ask(DescribeUserScramCredentialsRequest(users=users), 0)
        self.assertEqual(response.error_code, OK)
        return {
            one.user: one.error_code or [(each.mechanism, each.iterations) for each in one.credential_infos]
            for one in response.results
        }

    def test_life_of_a_user(self) -> None:
        """Credentials are set, described, replaced and deleted; with the last one the user is gone."""
        self.assertEqual(self.alter(put(), put("bob", SHA_512, 8192, 64)), {"ann": OK, "bob": OK})
        self.assertEqual(self.describe(), {"ann": [(1, 4096)], "bob": [(2, 8192)]})
        self.assertEqual(self.alter(put(iterations=5000), put(mechanism=SHA_512, size=64)), {"ann": OK})
        self.assertEqual(self.describe("ann"), {"ann": [(1, 5000), (2, 4096)]})
        self.assertEqual(self.alter(drop(), drop(mechanism=SHA_512)), {"ann": OK})
        missing = ErrorCode.RESOURCE_NOT_FOUND
        self.assertEqual(self.describe("ann", "bob", ""), {"ann": missing, "bob": [(2, 8192)], "": missing})

    def test_password(self) -> None:
        """What is stored is Kafka's text, of the keys that the password gives."""
        salted = salted_password("SCRAM-SHA-256", "pencil", b"salt", 4096)
        change = put()
        change.salted_password = salted
        self.alter(change)
        data = self.server.broker.member.metadata.security_nodes.get("/config/users/ann")
        stored = EntityZnode.decode("/config/users/ann", data)
        expected = ScramCredential.make("SCRAM-SHA-256", "pencil", 4096, b"salt")
        self.assertEqual(ScramCredential.decode(stored["SCRAM-SHA-256"]), expected)
        self.assertNotIn("pencil", stored["SCRAM-SHA-256"])

    def test_unacceptable(self) -> None:
        """Each wrong change is refused with Kafka's code, together with the user's others; other users have theirs."""
        code = ErrorCode
        empty_salt = put()
        empty_salt.salt = b""
        for change, error in (
            (put(iterations=4095), code.UNACCEPTABLE_CREDENTIAL),
            (put(iterations=16385), code.UNACCEPTABLE_CREDENTIAL),
            (put(size=31), code.UNACCEPTABLE_CREDENTIAL),
            (empty_salt, code.UNACCEPTABLE_CREDENTIAL),
            (put(mechanism=3), code.UNSUPPORTED_SASL_MECHANISM),
            (drop(mechanism=0), code.UNSUPPORTED_SASL_MECHANISM),
            (drop(), code.RESOURCE_NOT_FOUND),
        ):
            outcome = self.alter(change, put(mechanism=SHA_512, size=64), put("bob"))
            self.assertEqual(outcome, {"ann": error, "bob": OK})
        self.assertEqual(self.alter(put(""), drop("")), {"": code.UNACCEPTABLE_CREDENTIAL})
        self.assertEqual(self.alter(put(), drop()), {"ann": code.DUPLICATE_RESOURCE})
        self.assertEqual(self.describe(), {"bob": [(1, 4096)]})
        self.assertEqual(self.describe("bob", "bob"), {"bob": code.DUPLICATE_RESOURCE})

    def test_unreadable(self) -> None:
        """A user whose node cannot be read is named, without its content; others are described."""
        self.alter(put())
        nodes = self.server.broker.member.metadata.security_nodes
        nodes.change(
            {"/config/users/eve": b"secret", "/config/users/ned": EntityZnode.encode({"SCRAM-SHA-256": "secret"})}
        )
        response = self.client.ask(DescribeUserScramCredentialsRequest(users=[]), 0)
        self.assertEqual([one.error_code for one in response.results], [OK, -1, -1])
        self.assertNotIn("secret", repr(response))

    def test_after_a_restart(self) -> None:
        """A broker that starts again knows its users before it serves."""
        self.alter(put())
        self.server.stop()
        again = MemoryBroker(disks=self.server.disks, ensemble=self.server.ensemble)
        member, epochs = again.broker.member, list[int]()
        member.metadata.security_nodes.subscribe(USER_CONFIGS, lambda changes: epochs.append(member.epoch()))
        again.start()
        self.assertEqual((epochs, len(member.metadata.security_nodes)), ([-1], 1))
        again.stop()
        self.server = MemoryBroker(disks=self.server.disks, ensemble=self.server.ensemble).start()
