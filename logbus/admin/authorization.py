"""
Authorization of requests over HTTP. Each route says which rights it needs; views ask for single elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, evolve, frozen

from logbus.admin.problem_details import HttpProblem
from logbus.errors import ApiError, LogbusError
from logbus.net.connection_limits import WarningLimiter
from logbus.net.request_context import ANONYMOUS
from logbus.security.acl.acls import CLUSTER_NAME, AclOperation, ResourceType
from logbus.security.acl.iauthorizer import IAuthorizer
from logbus.security.audit import PRIVILEGED, REFUSED, log_decision


@frozen
class Right:
    """
    A right to a resource.

    :ivar variable: the variable of the path that names it; empty: the cluster.
    """

    operation: AclOperation
    kind: ResourceType = ResourceType.CLUSTER
    variable: str = ""

    def __str__(self) -> str:
        return f"{self.operation.title} on the {self.kind.title}"


@frozen
class HttpAuthorization:
    """
    Asks the authorizer for the requests of a listener.

    :ivar authorizer: decides; None: everybody may do everything.
    :ivar denials: limits their lines in the audit log.
    """

    listener: str
    authorizer: IAuthorizer | None
    denials: WarningLimiter

    def access(
        self, principal: str, host: str, request: str, challenge: Callable[[str], HttpProblem] | None = None
    ) -> HttpAccess:
        """
        Return what a principal may do.

        :param request: the method and the path, for the audit log.
        :param challenge: makes the error for somebody who has not logged in, and could.
        """
        return HttpAccess(self, principal, host, request, challenge if principal == ANONYMOUS else None)

    def public_access(self, host: str, request: str) -> HttpAccess:
        """Return what everybody may do who asks for a public path: to read it."""
        return HttpAccess(evolve(self, authorizer=None), ANONYMOUS, host, request)


@define(eq=False)
class HttpAccess:
    """
    The rights of one request's principal.

    :ivar principal: ``User:name``.
    :ivar host: the client's address.
    """

    _authorization: HttpAuthorization
    principal: str
    host: str
    _request: str = ""
    _challenge: Callable[[str], HttpProblem] | None = None

    @property
    def is_restricted(self) -> bool:
        """Whether there is an authorizer."""
        return self._authorization.authorizer is not None

    def may(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Whether it may do something, for an answer that leaves out the rest: nothing is logged."""
        authorizer = self._authorization.authorizer
        return authorizer is None or authorizer.authorize(self.principal, self.host, operation, kind, name)

    def may_on_cluster(self, operation: AclOperation) -> bool:
        """Whether it may do something with the cluster; nothing is logged."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def filter(self, operation: AclOperation, kind: ResourceType) -> Callable[[str], bool] | None:
        """Return whether it may do something with a resource of a type; None: with all of them."""
        return (lambda name: self.may(operation, kind, name)) if self.is_restricted else None

    def require(self, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """
        Check that it may do something. A refusal is logged, and so is a privileged operation.

        :raise ApiError: the error of :data:`.REFUSED`.
        :raise HttpProblem: 401: it has not logged in, which may help.
        """
        if not self.may(operation, kind, name):
            raise self.refusal(operation, kind, name)
        self.note_allowed(operation, kind, name)

    def refusal(self, operation: AclOperation, kind: ResourceType, name: str) -> LogbusError:
        """Log a refusal, and return its error."""
        suppressed = self._authorization.denials.admit(self.host)
        if suppressed is not None:
            self._note("denied", operation, kind, name, suppressed)
        which = kind.title if kind is ResourceType.CLUSTER else f"{kind.title} {name[:300]}"
        detail = f"{self.principal} lacks a right: {operation.title} on the {which}."
        return ApiError(REFUSED[kind], detail) if self._challenge is None else self._challenge(detail)

    def note_allowed(self, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Log an operation if it is privileged, and there is somebody to name."""
        if operation in PRIVILEGED and (self.is_restricted or self.principal != ANONYMOUS):
            self._note("allowed", operation, kind, name)

    def require_right(self, right: Right, path: Mapping[str, Any]) -> None:
        """
        Check the right that a route needs.

        :param path: the variables of the path.
        """
        self.require(right.operation, right.kind, str(path[right.variable]) if right.variable else CLUSTER_NAME)

    def _note(self, decision: str, operation: AclOperation, kind: ResourceType, name: str, suppressed: int = 0) -> None:
        listener = self._authorization.listener
        log_decision(decision, self.principal, self.host, listener, operation, kind, name, self._request, suppressed)
