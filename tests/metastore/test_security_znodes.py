"""Znodes of users, quotas, ACLs and delegation tokens: Kafka's paths and JSON."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.metastore.sanitizer import desanitize, sanitize
from logbus.metastore.security_znodes import (
    AclEntry,
    AclZnode,
    DelegationToken,
    DelegationTokenZnode,
    EntityZnode,
    changed_entity,
    security_root,
)
from logbus.metastore.tree import check_path
from logbus.metastore.znode_json import BadZnode

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
named = st.none() | texts
entities = (
    st.fixed_dictionaries({"user": named})
    | st.fixed_dictionaries({"client-id": named})
    | st.fixed_dictionaries({"ip": named})
    | st.fixed_dictionaries({"user": named, "client-id": named})
)


class EntityTests(SynchronousTestCase):
    """Users, client ids and addresses."""

    def test_kafka_paths(self) -> None:
        """Paths are those that Kafka's tools read and write."""
        for entity, path in (
            ({"user": "alice"}, "/config/users/alice"),
            ({"user": None}, "/config/users/<default>"),
            ({"user": "CN=a/b, O=c*"}, "/config/users/CN%3Da%2Fb%2C%20O%3Dc%2A"),
            ({"user": "alice", "client-id": None}, "/config/users/alice/clients/<default>"),
            ({"client-id": "app"}, "/config/clients/app"),
            ({"ip": "10.0.0.1"}, "/config/ips/10.0.0.1"),
        ):
            self.assertEqual(EntityZnode.path(entity), path)
            self.assertEqual(EntityZnode.entity(path), entity)

    @given(entities)
    def test_any_name(self, entity: dict[str, str | None]) -> None:
        """Any name is a valid element of a path, and comes back."""
        path = EntityZnode.path(entity)
        check_path(path)
        self.assertEqual(EntityZnode.entity(path), entity)
        self.assertTrue(path.startswith(security_root(path)))

    def test_default_and_its_namesake(self) -> None:
        """A user who calls himself like the default is not the default."""
        self.assertNotEqual(EntityZnode.path({"user": "<default>"}), EntityZnode.path({"user": None}))

    def test_no_such_entities(self) -> None:
        """An address belongs to nobody, and other types are named."""
        for entity in ({}, {"ip": "::1", "user": "a"}, {"group": "g"}):
            self.assertIn("an entity is", str(self.assertRaises(ValueError, EntityZnode.path, entity)))
        for path in ("/config/users/a/clients", "/config/users/a%", "/config/topics/t", "/config/users/a/b/c"):
            self.assertRaises(BadZnode, EntityZnode.entity, path)

    def test_settings(self) -> None:
        """Settings come back; none at all need no node; a parent without content has none."""
        settings = {"producer_byte_rate": "1024"}
        data = EntityZnode.encode(settings)
        assert data is not None
        self.assertEqual(json.loads(data), {"version": 1, "config": settings})
        self.assertEqual(EntityZnode.decode("p", data), settings)
        self.assertIsNone(EntityZnode.encode({}))
        error = self.assertRaises(BadZnode, EntityZnode.decode, "/config/users/a", b"secret")
        self.assertIn("/config/users/a", str(error))
        self.assertNotIn("secret", str(error))
        self.assertEqual((EntityZnode.decode("p", b""), EntityZnode.decode("p", None)), ({}, {}))

    @given(texts)
    def test_sanitizer(self, name: str) -> None:
        """Encoded names decode to themselves, and what is not encoded is refused."""
        self.assertEqual(desanitize("/p", sanitize(name)), name)
        if sanitize(name) != name and "%" not in name:
            self.assertRaises(BadZnode, desanitize, "/p", name)

    def test_announcements(self) -> None:
        """Both forms of Kafka's change notifications name the node; anything else names none."""
        self.assertEqual(changed_entity(b'{"version":2,"entity_path":"users/alice"}'), "/config/users/alice")
        old = b'{"version":1,"entity_type":"clients","entity_name":"app"}'
        self.assertEqual(changed_entity(old), "/config/clients/app")
        for data in (b"", b"[]", b"{}", b'{"version":2}'):
            self.assertIsNone(changed_entity(data))


class AclTests(SynchronousTestCase):
    """ACLs of resources."""

    def test_kafka(self) -> None:
        """Paths and JSON are Kafka's; the wildcard is not encoded."""
        self.assertEqual(AclZnode.path("Topic", "*"), "/kafka-acl/Topic/*")
        self.assertEqual(AclZnode.path("Group", "a-", prefixed=True), "/kafka-acl-extended/prefixed/Group/a-")
        acl = AclEntry("User:alice", "Allow", "Read", "*")
        data = AclZnode.encode([acl])
        assert data is not None
        expected = {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}
        self.assertEqual(json.loads(data), {"version": 1, "acls": [expected]})
        self.assertEqual(AclZnode.decode("p", data), [acl])
        self.assertIsNone(AclZnode.encode([]))
        self.assertEqual(AclZnode.decode("p", None), [])

    @given(st.sampled_from(["Topic", "TransactionalId"]), texts, st.booleans())
    def test_any_name(self, resource_type: str, name: str, prefixed: bool) -> None:
        """Any name of a resource is a valid element of a path, and comes back."""
        path = AclZnode.path(resource_type, name, prefixed=prefixed)
        check_path(path)
        self.assertEqual(AclZnode.resource(path), (resource_type, name, prefixed))
        security_root(path)

    def test_unreadable(self) -> None:
        """What is not ACLs is refused, with its path."""
        for data in (b"{}", b'{"version":2,"acls":[]}', b'{"version":1}', b'{"version":1,"acls":[{}]}'):
            self.assertIn(
                "/kafka-acl/Topic/t", str(self.assertRaises(BadZnode, AclZnode.decode, "/kafka-acl/Topic/t", data))
            )
        self.assertRaises(BadZnode, AclZnode.resource, "/kafka-acl/Topic")

    def test_token(self) -> None:
        """A token's id comes back from its path."""
        self.assertEqual(DelegationTokenZnode.token_id(DelegationTokenZnode.path("a/b")), "a/b")
        self.assertRaises(BadZnode, DelegationTokenZnode.token_id, "/config/users/a")

    def test_token_content(self) -> None:
        """A token's node is Kafka's JSON; older ones name only the owner."""
        token = DelegationToken("id", "User:ann", "User:root", ("User:bob",), 1, 3, 2)
        path = DelegationTokenZnode.path("id")
        data = (
            b'{"version":3,"owner":"User:ann","tokenRequester":"User:root","renewers":["User:bob"],"issueTimestamp":1,'
            b'"maxTimestamp":3,"expiryTimestamp":2,"tokenId":"id"}'
        )
        self.assertEqual(DelegationTokenZnode.encode(token), data)
        self.assertEqual(DelegationTokenZnode.decode(path, data), token)
        older = data.replace(b'"version":3', b'"version":1').replace(b'"tokenRequester":"User:root",', b"")
        self.assertEqual(DelegationTokenZnode.decode(path, older).requester, "User:ann")
        self.assertEqual([token.is_expired(now) for now in (2, 3)], [False, True])
        for bad in (b"", b"{}", data.replace(b":3,", b":4,"), data.replace(b":2,", b":[],")):
            self.assertRaises(BadZnode, DelegationTokenZnode.decode, path, bad)

    def test_other_paths(self) -> None:
        """Nothing lies above the roots, below their levels, or beside them."""
        for path in ("/config/users", "/config/users/", "/kafka-acl/T/n/x", "/kafka-acls/T/n", "/config/topics/t"):
            self.assertRaises(ValueError, security_root, path)
