"""
Checks the rights of a request's principal, and logs the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from attrs import define, frozen

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import ApiError
from logbus.net.connection_limits import WarningLimiter
from logbus.net.request_context import BROKER_ITSELF, RequestContext
from logbus.security.acl.acls import CLUSTER_NAME, OPERATIONS_OF, AclOperation, ResourceType
from logbus.security.acl.iauthorizer import IAuthorizer
from logbus.security.audit import PRIVILEGED, REFUSED, log_decision
from logbus.wire.messages import api_name
from logbus.wire.wire_types import ZERO_UUID

_MAX_LINES = 10
"""Lines in the audit log for one request; it may name a hundred thousand topics."""


@frozen
class Authorization:
    """
    Asks the authorizer for requests.

    :ivar authorizer: decides.
    :ivar metadata: has the names of topics that are given by id.
    :ivar auto_create: whether missing topics are created.
    :ivar denials: limits their lines in the audit log. Nothing else counts there, so that no other warnings hide them.
    """

    authorizer: IAuthorizer
    metadata: ClusterMetadata
    auto_create: Callable[[], bool]
    denials: WarningLimiter

    def access(self, context: RequestContext, api_key: int) -> Access:
        """The rights of a request's principal."""
        return Access(self, context, api_key)


@define(eq=False)
class Access:
    """The rights of one request's principal."""

    authorization: Authorization
    context: RequestContext
    _api_key: int
    _lines: int = 0

    def allows(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Whether it may do something with a resource. A refusal is logged, and so is a privileged operation."""
        if self.may(operation, kind, name):
            if operation in PRIVILEGED:
                self._note("allowed", operation, kind, name)
            return True
        suppressed = self.authorization.denials.admit(self.context.host) if self._lines < _MAX_LINES else None
        if suppressed is not None:
            self._note("denied", operation, kind, name, suppressed)
        return False

    def note_allowed(self, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Log a privileged operation on a resource that a right to another one allows."""
        self._note("allowed", operation, kind, name)

    def may(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Whether it may do something, for an answer that leaves out the rest: nothing is logged."""
        context = self.context
        return context.principal == BROKER_ITSELF or self.authorization.authorizer.authorize(
            context.principal, context.host, operation, kind, name
        )

    def allows_on_cluster(self, operation: AclOperation) -> bool:
        """Whether it may do something with the cluster."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_some(self, operation: AclOperation, kind: ResourceType) -> bool:
        """Whether it may do something with at least one resource of a type."""
        context = self.context
        return self.authorization.authorizer.authorize_by_resource_type(
            context.principal, context.host, operation, kind
        )

    def require(self, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """
        Check that it may do something.

        :raise ApiError: the error of :data:`REFUSED`.
        """
        if not self.allows(operation, kind, name):
            raise ApiError(REFUSED[kind])

    @property
    def rights(self) -> tuple[str, str, int]:
        """Something else whenever earlier decisions may not hold any more."""
        context = self.context
        return context.principal, context.host, self.authorization.authorizer.version

    def topic_name(self, name: str | None, topic_id: bytes) -> str | None:
        """The name of a topic that a request names, or gives by id; None: no topic has this id."""
        if topic_id == ZERO_UUID:
            return name or ""
        topic = self.authorization.metadata.topic_by_id(UUID(bytes=bytes(topic_id)))
        return None if topic is None else topic.name

    def operations(self, kind: ResourceType, name: str) -> int:
        """The operations that it may do with a resource, as bits by their numbers (KIP-430)."""
        return bits(each for each in OPERATIONS_OF[kind] if self.may(each, kind, name))

    def _note(self, decision: str, operation: AclOperation, kind: ResourceType, name: str, suppressed: int = 0) -> None:
        self._lines += 1
        if self._lines > _MAX_LINES:
            return
        context = self.context
        log_decision(
            decision,
            context.principal or f"broker {context.broker}",
            context.host,
            context.listener,
            operation,
            kind,
            name,
            api_name(self._api_key),
            suppressed,
        )


def bits(operations: Iterable[AclOperation]) -> int:
    """Operations as bits by their numbers."""
    return sum(1 << operation for operation in operations)
