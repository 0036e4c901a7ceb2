"""
The znodes of users, quotas, ACLs and delegation tokens, in the layout and JSON of Kafka. Pure.

Brokers get these nodes as bytes by path (:class:`.SecurityNodes`); the classes here give them their meaning::

    /config/users/USER                        SCRAM credentials and quotas of a user
    /config/users/USER/clients/CLIENT         quotas of a client id of that user
    /config/clients/CLIENT, /config/ips/IP    quotas of a client id, and of an address
    /kafka-acl/TYPE/NAME                      ACLs of a resource
    /kafka-acl-extended/prefixed/TYPE/NAME    ACLs of resources whose names begin with NAME (KIP-290)
    /delegation_token/tokens/ID               delegation tokens (KIP-48)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote, unquote

from attrs import frozen

from logbus.metastore.sanitizer import desanitize, sanitize
from logbus.metastore.znode_json import BadZnode, ZnodeReader, dump
from logbus.metastore.znodes import (
    ACLS,
    CLIENT_CONFIGS,
    DEFAULT_ENTITY,
    DELEGATION_TOKENS,
    IP_CONFIGS,
    PREFIXED_ACLS,
    USER_CONFIGS,
)

SECURITY_ROOTS: Mapping[str, int] = MappingProxyType(
    {USER_CONFIGS: 3, CLIENT_CONFIGS: 1, IP_CONFIGS: 1, ACLS: 2, PREFIXED_ACLS: 2, DELEGATION_TOKENS: 1}
)
"""The nodes under which all these lie, with the number of levels below each."""

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""Types of quota entities (KIP-546, KIP-612; Kafka: ClientQuotaEntity)."""

Entity = Mapping[str, str | None]
"""
What quotas are set for: names by type, None for the default; such as ``{"user": "alice", "client-id": None}``.
"""

_CLIENTS = "clients"


def security_root(path: str) -> str:
    """
    The one of :data:`SECURITY_ROOTS` that a path lies under.

    :raise ValueError: under none of them, or too deep.
    """
    for root, levels in SECURITY_ROOTS.items():
        if path.startswith(root + "/") and "" not in (parts := path[len(root) + 1 :].split("/")):
            if len(parts) <= levels:
                return root
            break
    raise ValueError(f"{path} is not the path of a user, a quota, an ACL or a delegation token")


class EntityZnode:
    """
    ``/config/users/…``, ``/config/clients/…``, ``/config/ips/…``: quotas, and a user's SCRAM credentials, as strings by
    name.
    """

    VERSION = 1

    @staticmethod
    def path(entity: Entity) -> str:
        """
        The path of an entity's node.

        :raise ValueError: there are no such entities.
        """
        types = entity.keys()
        if types == {USER}:
            return f"{USER_CONFIGS}/{_encoded(entity[USER])}"
        if types == {CLIENT_ID}:
            return f"{CLIENT_CONFIGS}/{_encoded(entity[CLIENT_ID])}"
        if types == {IP}:
            return f"{IP_CONFIGS}/{_encoded(entity[IP])}"
        if types == {USER, CLIENT_ID}:
            return f"{USER_CONFIGS}/{_encoded(entity[USER])}/{_CLIENTS}/{_encoded(entity[CLIENT_ID])}"
        raise ValueError(
            f"nothing is set for {' and '.join(sorted(types)) or 'nothing'} together; an entity is a user, a "
            "client-id, both, or an ip"
        )

    @staticmethod
    def entity(path: str) -> dict[str, str | None]:
        """
        The entity of a node, user before client id.

        :raise BadZnode: the path is none of an entity.
        """
        for root, kind in ((USER_CONFIGS, USER), (CLIENT_CONFIGS, CLIENT_ID), (IP_CONFIGS, IP)):
            if path.startswith(root + "/"):
                parts = path[len(root) + 1 :].split("/")
                if len(parts) == 1:
                    return {kind: _decoded(root, parts[0])}
                if kind == USER and len(parts) == 3 and parts[1] == _CLIENTS:
                    user = f"{root}/{parts[0]}/{_CLIENTS}"
                    return {USER: _decoded(root, parts[0]), CLIENT_ID: _decoded(user, parts[2])}
        raise BadZnode(f"{path} is not the path of a user, a client id or an address")

    @classmethod
    def encode(cls, settings: Mapping[str, str]) -> bytes | None:
        """The node's content; None: there are no settings, so the node is to be removed."""
        return dump({"version": cls.VERSION, "config": dict(settings)}) if settings else None

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> dict[str, str]:
        """The settings; none if there is no node, or if it is only the parent of others."""
        if not data:
            return {}
        try:
            with ZnodeReader(path, data, cls.VERSION) as node:
                return {str(name): str(value) for name, value in node["config"].items()}
        except BadZnode:
            # That error quotes the node, which may have credentials.
            raise BadZnode(f"{path} holds no settings in JSON of version {cls.VERSION}") from None


class AclEntry(NamedTuple):
    """
    An ACL of a resource, in Kafka's words as they are stored.

    :ivar principal: ``User:alice``, ``User:*``; ``permission``: ``Allow`` or ``Deny``.
    :ivar operation: ``Read``, ``All``, …; ``host``: an address, or ``*``.
    """

    principal: str
    permission: str
    operation: str
    host: str


class AclZnode:
    """``/kafka-acl/TYPE/NAME`` and ``/kafka-acl-extended/prefixed/TYPE/NAME``: the ACLs of a resource."""

    VERSION = 1

    @staticmethod
    def path(resource_type: str, name: str, *, prefixed: bool = False) -> str:
        """
        The path of a resource's ACLs.

        :param resource_type: as stored: ``Topic``, ``Group``, ``Cluster``, ``TransactionalId``, …
        :param name: of the resource; ``*`` stands for all. Only what a path cannot have is encoded, as Kafka does not
            encode these names.
        """
        return f"{PREFIXED_ACLS if prefixed else ACLS}/{resource_type}/{_resource(name)}"

    @staticmethod
    def resource(path: str) -> tuple[str, str, bool]:
        """
        The resource type, the name, and whether it is a prefix.

        :raise BadZnode: the path is none of ACLs.
        """
        for root, prefixed in ((ACLS, False), (PREFIXED_ACLS, True)):
            if path.startswith(root + "/"):
                parts = path[len(root) + 1 :].split("/")
                if len(parts) == 2:
                    return parts[0], unquote(parts[1], errors="replace"), prefixed
        raise BadZnode(f"{path} is not the path of ACLs")

    @classmethod
    def encode(cls, acls: Sequence[AclEntry]) -> bytes | None:
        """The node's content; None: there are no ACLs, so the node is to be removed."""
        if not acls:
            return None
        return dump(
            {
                "version": cls.VERSION,
                "acls": [
                    {
                        "principal": one.principal,
                        "permissionType": one.permission,
                        "operation": one.operation,
                        "host": one.host,
                    }
                    for one in acls
                ],
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> list[AclEntry]:
        """The ACLs; none if there is no node."""
        if not data:
            return []
        with ZnodeReader(path, data, cls.VERSION) as node:
            return [
                AclEntry(
                    str(one["principal"]), str(one["permissionType"]), str(one["operation"]), str(one.get("host", "*"))
                )
                for one in node["acls"]
            ]


@frozen
class DelegationToken:
    """
    A delegation token (KIP-48; Kafka: TokenInformation). Times are in milliseconds since the epoch.

    :ivar owner: the principal that it stands for, such as ``User:alice``.
    :ivar requester: who asked for it.
    :ivar renewers: who may renew it, and end it, besides these.
    :ivar expiry_ms: when it ends, unless it is renewed; at ``max_ms`` it ends anyway.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int

    def is_expired(self, now_ms: float) -> bool:
        """Whether it has ended."""
        return min(self.expiry_ms, self.max_ms) < now_ms

    def is_of(self, principal: str) -> bool:
        """Whether a principal owns it, asked for it, or may renew it (Kafka: ownerOrRenewer)."""
        return principal in (self.owner, self.requester) or principal in self.renewers


class DelegationTokenZnode:
    """
    ``/delegation_token/tokens/ID``: a delegation token, as Kafka's JSON. Its secret is not there: it follows from the
    id and ``delegation.token.secret.key``.
    """

    VERSION = 3

    @staticmethod
    def path(token_id: str) -> str:
        return f"{DELEGATION_TOKENS}/{sanitize(token_id)}"

    @staticmethod
    def token_id(path: str) -> str:
        """
        The id of a token.

        :raise BadZnode: the path is none of a token.
        """
        parent, _, name = path.rpartition("/")
        if parent != DELEGATION_TOKENS:
            raise BadZnode(f"{path} is not the path of a delegation token")
        return desanitize(parent, name)

    @classmethod
    def encode(cls, token: DelegationToken) -> bytes:
        """The node's content."""
        return dump(
            {
                "version": cls.VERSION,
                "owner": token.owner,
                "tokenRequester": token.requester,
                "renewers": list(token.renewers),
                "issueTimestamp": token.issue_ms,
                "maxTimestamp": token.max_ms,
                "expiryTimestamp": token.expiry_ms,
                "tokenId": token.token_id,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> DelegationToken:
        """
        The token; before version 3 its owner had asked for it.

        :raise BadZnode: it cannot be read.
        """
        token_id = cls.token_id(path)
        with ZnodeReader(path, data, cls.VERSION) as node:
            owner = str(node["owner"])
            return DelegationToken(
                token_id,
                owner,
                str(node.get("tokenRequester", owner)),
                tuple(map(str, node["renewers"])),
                int(node["issueTimestamp"]),
                int(node["maxTimestamp"]),
                int(node["expiryTimestamp"]),
            )


def changed_entity(data: bytes) -> str | None:
    """
    The path of the node that a child of ``/config/changes`` announces (Kafka: ConfigEntityChangeNotificationZNode);
    None: it names none.
    """
    try:
        node = json.loads(data)
        entity = node["entity_path"] if node["version"] == 2 else f"{node['entity_type']}/{node['entity_name']}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return f"/config/{entity}"


def _encoded(name: str | None) -> str:
    return DEFAULT_ENTITY if name is None else sanitize(name)


def _decoded(parent: str, name: str) -> str | None:
    return None if name == DEFAULT_ENTITY else desanitize(parent, name)


_IN_PATHS = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in "/%")


def _resource(name: str) -> str:
    encoded = quote(name, safe=_IN_PATHS)
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded
