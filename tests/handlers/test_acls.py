"""logbus.handlers.acls: ACLs are created, listed and deleted by requests, and hold at once."""

from __future__ import annotations

from typing import Any

from logbus.cluster.acl_subscriber import DENIED
from logbus.errors import ErrorCode
from logbus.handlers.acls import MAX_ENTRIES
from logbus.security.acl.acls import AclBindingFilter, AclOperation, ResourceType
from logbus.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from tests.handlers.authorization.test_matrix import AuthorizedCase
from tests.handlers.kit import HandlerCase, a_batch, produce_request

LITERAL, PREFIXED, MATCH = 3, 4, 2
TOPIC, WRITE, READ, DENY, ALLOW = 2, 4, 3, 2, 3
ANY = 1


def creation(name: str = "t", **given: Any) -> AclCreation:
    values = {
        "resource_type": TOPIC,
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": "User:a",
        "host": "*",
        "operation": WRITE,
        "permission_type": ALLOW,
    }
    return AclCreation(**{**values, **given})


def selection(name: str | None = None, pattern_type: int = ANY, **given: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "resource_type_filter": ANY,
        "resource_name_filter": name,
        "pattern_type_filter": pattern_type,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return {**values, **given}


class AclTests(AuthorizedCase):
    """The client of the set-up is a super user."""

    def create(self, *creations: AclCreation) -> list[int]:
        return [each.error_code for each in self.client.ask(CreateAclsRequest(creations=list(creations)), 3).results]

    def listed(self, **given: Any) -> set[tuple[str, int, str, int]]:
        answer = self.client.ask(DescribeAclsRequest(**selection(**given)), 3)
        self.assertEqual(answer.error_code, 0)
        return {
            (resource.resource_name, resource.pattern_type, acl.principal, acl.operation)
            for resource in answer.resources
            for acl in resource.acls
        }

    def produced(self) -> int:
        answer = self.connect("User:a").ask(produce_request(a_batch(b"a")), 9)
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    def test_they_hold_at_once(self) -> None:
        """Created, then denied, then deleted."""
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        self.assertEqual(self.produced(), denied)
        self.assertEqual(self.create(creation()), [0])
        self.assertEqual(self.produced(), 0)
        self.assertEqual(self.create(creation("", resource_name="t", permission_type=DENY, operation=2)), [0])
        self.assertEqual(self.produced(), denied)
        wanted = DeleteAclsFilter(**selection("t", permission_type=DENY))
        (result,) = self.client.ask(DeleteAclsRequest(filters=[wanted]), 3).filter_results
        self.assertEqual([each.permission_type for each in result.matching_acls], [DENY])
        self.assertEqual(self.produced(), 0)

    def test_listing(self) -> None:
        """By name, by pattern, and those that apply to a name."""
        self.create(
            creation("orders"), creation("ord", resource_pattern_type=PREFIXED), creation("*"), creation("orders")
        )
        everything = {("orders", LITERAL), ("ord", PREFIXED), ("*", LITERAL)}
        self.assertEqual({each[:2] for each in self.listed()}, everything)
        self.assertEqual(len(self.listed()), 3)
        self.assertEqual({each[:2] for each in self.listed(name="orders", pattern_type=MATCH)}, everything)
        self.assertEqual({each[:2] for each in self.listed(name="orders", pattern_type=LITERAL)}, {("orders", LITERAL)})
        self.assertEqual(self.listed(principal_filter="User:b"), set())

    def test_wrong_creations(self) -> None:
        """Each has its own error, and the others are created."""
        bad = ErrorCode.INVALID_REQUEST
        self.assertEqual(
            self.create(
                creation("", resource_name=""),
                creation(principal="a"),
                creation(operation=ANY),
                creation(operation=99),
                creation(resource_pattern_type=MATCH),
                creation(principal="User:" + "x" * 2000),
                creation(),
            ),
            [bad, bad, bad, bad, bad, bad, 0],
        )
        answer = self.client.ask(DescribeAclsRequest(**selection(operation=99)), 3)
        self.assertEqual(answer.error_code, bad)
        self.assertIn("AclOperation is unknown", answer.error_message)

    def test_names_that_paths_cannot_have(self) -> None:
        """Groups have any names."""
        for name in ("a/b", "..", "é%2F"):
            self.assertEqual(self.create(creation(name, resource_type=ResourceType.GROUP, operation=READ)), [0])
        self.assertEqual({each[0] for each in self.listed()}, {"a/b", "..", "é%2F"})

    def test_many_of_one_resource(self) -> None:
        """They are made in slices, each once, and so they are listed and deleted."""
        scheduler = self.server.broker.env.slice_scheduler
        wanted = [creation(principal=f"User:{number}") for number in (*range(2000), 0, 0)]
        before = scheduler.slices
        self.assertEqual(set(self.create(*wanted)), {0})
        made = scheduler.slices
        self.assertGreaterEqual(made - before, 2)
        self.assertEqual(len(self.listed()), 2000)
        self.assertGreaterEqual(scheduler.slices - made, 1)
        deletion = DeleteAclsFilter(**selection("t"))
        (result,) = self.client.ask(DeleteAclsRequest(filters=[deletion]), 3).filter_results
        self.assertEqual({each.error_code for each in result.matching_acls}, {0})
        self.assertEqual((len(result.matching_acls), len(self.listed())), (2000, 0))

    def test_too_many_of_one_resource(self) -> None:
        """They are refused before they are encoded, whether they are too many at once or together with others."""
        self.assertEqual(self.create(creation(principal="User:first")), [0])
        some = [creation(principal=f"User:{number}") for number in range(MAX_ENTRIES + 1)]
        for refused in (some, some[1:]):
            results = self.client.ask(CreateAclsRequest(creations=[*refused, creation("other")]), 3).results
            *codes, other = [each.error_code for each in results]
            self.assertEqual((set(codes), other), ({ErrorCode.POLICY_VIOLATION}, 0))
            self.assertIn(f"{MAX_ENTRIES + 1} ACLs; {MAX_ENTRIES} at most", results[0].error_message)
        self.assertEqual({each[2] for each in self.listed(name="t")}, {"User:first"})

    def test_many_resources(self) -> None:
        """What matches no filter takes its time, too."""
        scheduler = self.server.broker.env.slice_scheduler
        self.assertEqual(set(self.create(*(creation(f"t{number}") for number in range(1000)))), {0})
        before = scheduler.slices
        self.assertEqual(self.listed(name="none"), set())
        self.assertGreaterEqual(scheduler.slices - before, 1)
        before = scheduler.slices
        filters = [DeleteAclsFilter(**selection("none"))] * 30
        self.client.ask(DeleteAclsRequest(filters=filters), 3)
        self.assertGreaterEqual(scheduler.slices - before, 2)

    def test_unreadable_node(self) -> None:
        """It denies its resource to all but super users, rather than allow what it was to deny."""
        self.create(creation())
        self.server.broker.member.metadata.security_nodes.change({"/kafka-acl/Topic/t": b"garbage"})
        self.assertEqual(len(self.flushLoggedErrors()), 0)
        ((binding,),) = self.authorizer.select(AclBindingFilter())
        self.assertEqual((binding.entry,), DENIED)
        self.assertEqual(self.produced(), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self.assertTrue(self.authorizer.authorize("User:ANONYMOUS", "h", AclOperation.WRITE, ResourceType.TOPIC, "t"))


class NoAuthorizerTests(HandlerCase):
    """A broker that authorizes nobody."""

    def test_refused(self) -> None:
        """The error names the key that would enable ACLs."""
        answer = self.client.ask(DescribeAclsRequest(**selection()), 3)
        self.assertEqual(answer.error_code, ErrorCode.SECURITY_DISABLED)
        self.assertIn("authorizer.class.name", answer.error_message)
        created = self.client.ask(CreateAclsRequest(creations=[creation()]), 3).results
        deleted = self.client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**selection())]), 3).filter_results
        self.assertEqual([created[0].error_code, deleted[0].error_code], [ErrorCode.SECURITY_DISABLED] * 2)
