"""Tests of :mod:`logbus.admin.relay`: any broker answers for the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from uuid import UUID

from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from logbus.admin.relay import MAX_BYTES, RelayedRequest, decode_response, encode_response, merged
from logbus.admin.routing import ViewResponse
from logbus.cluster.cluster_metadata import PartitionImage
from logbus.errors import ApiError, ErrorCode
from logbus.model import OFFSETS_TOPIC, LeaderAndIsr
from logbus.security.acl.acls import AclOperation as Op
from logbus.security.acl.acls import ResourceType as Kind
from tests.admin.harness import Answered, World
from tests.admin.test_groups import classic

OFFSETS_ID = UUID(int=77)


@frozen
class Describers:
    """Lets users describe the group that has their name."""

    version: int = 0

    def authorize(self, principal: str, host: str, operation: Op, kind: Kind, name: str) -> bool:
        return (operation, kind) == (Op.DESCRIBE, Kind.GROUP) and principal == f"User:{name}"


class RelayCase(SynchronousTestCase):
    """Two brokers, of which the first is asked; the second coordinates the groups."""

    def setUp(self) -> None:
        self.first = World()
        self.second = self.joined(World(1, clock=self.first.clock))

    def joined(self, other: World) -> World:
        """Make another broker known to the first one, and the first to it."""
        self.first.others[other.broker_id], other.others[0] = other, self.first
        for world in (self.first, other):
            with world.metadata.changing() as metadata:
                own = metadata.brokers[0]
                metadata.set_brokers({number: evolve(own, broker_id=number) for number in (0, 1, other.broker_id)})
            self.lead(world, 1)
        return other

    def lead(self, world: World, leader: int) -> None:
        """Have a broker know another leader of the partition of all groups."""
        with world.metadata.changing() as metadata:
            image = PartitionImage((1,), LeaderAndIsr(leader, 1, (1,)))
            metadata.set_partitions(OFFSETS_TOPIC, OFFSETS_ID, [(0, image)])

    def ask(self, target: str, status: int = 200, method: str = "GET", body: Any = None) -> Any:
        answered: Answered = self.first.ask(method, target, body)
        self.assertEqual(answered.status, status, answered.body)
        return answered.json


class OneBrokerServesTests(RelayCase):
    def test_group(self) -> None:
        """A group is described by its coordinator, whoever is asked."""
        self.second.groups.add(classic("g", ("m", [0])))
        told = self.ask("/api/v1/groups/g")
        self.assertEqual((told["id"], told["members"][0]["id"]), ("g", "m"))
        self.assertIn("no group 'h'", self.ask("/api/v1/groups/h", 404)["detail"])

    def test_coordinator_is_gone(self) -> None:
        """The answer names the broker, and says that a retry may help."""
        del self.first.others[1]
        told = self.ask("/api/v1/groups/g", 503)
        self.assertIn("Broker 1, which this concerns, did not answer: it cannot be reached", told["detail"])
        self.assertTrue(told["retriable"])

    def test_no_coordinator(self) -> None:
        """While the partition of the group has no leader, a retry may help."""
        self.lead(self.first, -1)
        self.assertTrue(self.ask("/api/v1/groups/g", 503)["retriable"])

    def test_without_http(self) -> None:
        """A broker that serves no HTTP cannot be asked for what only it knows."""

        def ask(*_: object) -> Deferred[bytes]:
            return fail(ApiError(ErrorCode.UNSUPPORTED_VERSION, "there is no plugin 'http' on this broker"))

        self.first.site.relay._ask = ask
        self.assertIn("no admin listener, or is of an older version", self.ask("/api/v1/groups/g", 501)["detail"])

    def test_not_passed_on_again(self) -> None:
        """Brokers that disagree on who leads do not send a request to and fro."""
        self.lead(self.second, 0)
        self.second.groups.problem = ApiError(ErrorCode.NOT_COORDINATOR, "moved")
        self.assertTrue(self.ask("/api/v1/groups/g", 503)["retriable"])

    def test_changes(self) -> None:
        """Bodies are passed on, and other brokers are changed and stopped by way of this one."""
        stopped: list[int] = []
        self.second.stop = lambda: stopped.append(1)
        self.ask("/api/v1/brokers/1/shutdown", 400, "POST", {"force": 1})
        self.assertEqual(self.ask("/api/v1/brokers/1/shutdown", 202, "POST", {"force": True}), {"broker": 1})
        self.assertEqual(stopped, [1])
        self.assertIn("no live broker 9", self.ask("/api/v1/brokers/9/shutdown", 404, "POST", {})["detail"])

    def test_settings(self) -> None:
        """A broker's settings are those of that broker."""
        self.joined(World(2, clock=self.first.clock, settings={"num.partitions": "7"}))
        items = {item["name"]: item["value"] for item in self.ask("/api/v1/configs/brokers/2")["items"]}
        self.assertEqual(items["num.partitions"], "7")

    def test_rights(self) -> None:
        """The broker that serves asks for the rights of the client, not for those of the broker that sends."""
        self.second.site.authorization = evolve(self.second.site.authorization, authorizer=Describers())
        for principal, status in (("User:g", 200), ("User:h", 403), ("User:ANONYMOUS", 403), ("", 403)):
            self.second.groups.add(classic("g"))
            request = RelayedRequest("GET", "/api/v1/groups/g", {}, b"", principal, "192.0.2.1")
            served = Deferred.fromCoroutine(self.second.site.relay.answer(request.encode()))
            self.second.turn()
            self.assertEqual(decode_response(self.successResultOf(served)).status, status, principal)

    def test_credentials_stay(self) -> None:
        """What a client logged in with is not passed on."""
        sent: list[bytes] = []

        def ask(number: int, name: str, body: bytes, seconds: float) -> Deferred[bytes]:
            sent.append(body)
            return fail(ApiError(ErrorCode.BROKER_NOT_AVAILABLE))

        self.first.site.relay._ask = ask
        access = self.first.site.authorization.access("User:alice", "192.0.2.1", "GET /x")
        headers = {"authorization": ["Basic c2VjcmV0"], "cookie": ["c2VjcmV0"], "if-match": ["7"]}
        relayed = Deferred.fromCoroutine(self.first.site.relay.send(1, "GET", "/x", headers, b"", access))
        self.failureResultOf(relayed, ApiError)
        self.assertEqual(len(sent), 1)
        self.assertNotIn(b"c2VjcmV0", sent[0])
        self.assertIn(b"if-match", sent[0])

    def test_long_response(self) -> None:
        """What would be too long for the connections between brokers is refused."""
        response = ViewResponse(HTTPStatus.OK, "text/plain", lambda: iter([b"x" * MAX_BYTES, b"y"]))
        served = Deferred.fromCoroutine(self.first.site.relay._body_of(response))
        self.first.turn()
        self.assertEqual(self.failureResultOf(served, ApiError).value.code, ErrorCode.MESSAGE_TOO_LARGE)


class AllBrokersServeTests(RelayCase):
    def test_groups_of_all(self) -> None:
        """A page has the groups of all coordinators, in order; pages follow each other without gaps."""
        for name in "aceg":
            self.first.groups.add(classic(name))
        for name in "bdfhij":
            self.second.groups.add(classic(name))
        seen, after = [], ""
        for _ in range(4):
            told = self.ask(f"/api/v1/groups?limit=3{after}")
            self.assertEqual((told["unanswered"], told["loading"]), ([], False))
            seen += [group["id"] for group in told["items"]]
            after = f"&after={told['next']}"
        self.assertEqual(seen, list("abcdefghij"))
        self.assertEqual(told["next"], None)

    def test_some_do_not_answer(self) -> None:
        """What is known is told, and whose part is missing."""
        self.first.groups.add(classic("a"))
        self.second.groups.loading = True
        self.assertTrue(self.ask("/api/v1/groups")["loading"])
        del self.first.others[1]
        told = self.ask("/api/v1/groups")
        self.assertEqual([group["id"] for group in told["items"]], ["a"])
        [missing] = told["unanswered"]
        self.assertEqual(missing["broker"], 1)
        self.assertIn("cannot be reached", missing["reason"])

    def test_wrong_page(self) -> None:
        """What is wrong with the request is said at once."""
        self.ask("/api/v1/groups?limit=0", 400)


NAMES = st.text("abcdef", min_size=1, max_size=3)


@given(st.lists(st.sets(NAMES), min_size=1, max_size=4), st.integers(1, 5))
def test_merged_pages_are_one_list(parts: Sequence[set[str]], limit: int) -> None:
    """However the rows are spread, the pages together have each once, in order."""

    def page(part: set[str], after: str) -> dict[str, Any]:
        rest = sorted(name for name in part if name > after)
        more = len(rest) > limit
        return {
            "items": [{"id": name} for name in rest[:limit]],
            "next": rest[limit - 1] if more else None,
            "loading": False,
        }

    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        found = merged([page(part, after) for part in parts], "id", limit)
        assert len(found["items"]) <= limit
        seen += [row["id"] for row in found["items"]]
        after = found["next"]
    assert seen == sorted(set().union(*parts))


@given(
    st.builds(
        RelayedRequest,
        st.sampled_from(["GET", "POST"]),
        st.text(),
        st.dictionaries(st.text(), st.lists(st.text())),
        st.binary(),
        st.text(),
        st.text(),
    )
)
def test_requests_survive(request: RelayedRequest) -> None:
    """What is sent is what is read."""
    assert RelayedRequest.decode(request.encode()) == request


@given(st.binary() | st.sampled_from([b"{}", b"[]", b"null\n", b'{"headers": 3}\n', b'{"status": "x"}']))
def test_garbage(data: bytes) -> None:
    """A broker that sends garbage gets an error of its own."""
    for read, expected in ((RelayedRequest.decode, ApiError), (decode_response, ValueError)):
        try:
            found: Any = read(data)
        except expected:
            continue
        raise AssertionError(found)


def test_response() -> None:
    """Status, type, headers and body arrive."""
    response = ViewResponse(HTTPStatus.CREATED, "text/plain", b"a\nb", {"Location": "/x"})
    assert decode_response(encode_response(response, b"a\nb")) == response
