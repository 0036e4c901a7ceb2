"""The interface of authorizers (Kafka: server.authorizer.Authorizer, KIP-504). Pure."""

from __future__ import annotations

from zope.interface import Attribute, Interface

from logbus.security.acl.acls import AclOperation, ResourceType


class IAuthorizer(Interface):
    """
    Decides who may do what. Its methods are called on the reactor thread, for each request: they must not block.
    """

    version: int = Attribute(
        "Grows whenever an earlier decision may not hold any more: decisions are remembered until then."
    )

    def authorize(principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """
        Whether a principal may do something with a resource.

        :param principal: ``User:name``; ``User:ANONYMOUS`` if it did not authenticate.
        :param host: the address of the client; empty on a UNIX socket.
        :param name: of the resource; ``kafka-cluster`` for the cluster.
        """

    def authorize_by_resource_type(
        principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether a principal may do something with at least one resource of a type, which need not exist (KIP-679)."""
