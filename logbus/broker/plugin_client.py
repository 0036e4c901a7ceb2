"""The rights and quotas of the clients of a plugin's listener."""

from __future__ import annotations

from attrs import frozen
from zope.interface import implementer

from logbus.errors import ApiError
from logbus.handlers.authorization.access import Access, Authorization
from logbus.ilogbus import IPluginClient
from logbus.net.request_context import RequestContext, quota_user
from logbus.quotas.quota_managers import QuotaManagers
from logbus.security.acl.acls import CLUSTER_NAME, AclOperation, ResourceType
from logbus.security.audit import REFUSED

_PRODUCE, _FETCH, _LIST_OFFSETS = 0, 1, 2
"""Keys of Kafka's requests that do the same: the audit log names them."""


@implementer(IPluginClient)
@frozen
class PluginClient:
    """
    A client.

    :param authorization: asks the authorizer; None: everybody may do everything.
    """

    _context: RequestContext
    _authorization: Authorization | None
    _quotas: QuotaManagers

    @property
    def principal(self) -> str:
        return self._context.principal

    @property
    def host(self) -> str:
        return self._context.host

    def require_read(self, topic: str) -> None:
        self._require(_FETCH, AclOperation.READ, topic)

    def require_describe(self, topic: str) -> None:
        self._require(_LIST_OFFSETS, AclOperation.DESCRIBE, topic)

    def require_write(self, topic: str) -> None:
        self._require(_PRODUCE, AclOperation.WRITE, topic)
        authorization = self._authorization
        if authorization is None or authorization.metadata.topic(topic) is not None or not authorization.auto_create():
            return
        access = authorization.access(self._context, _PRODUCE)
        if not access.may(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
            self._check(access, AclOperation.CREATE, topic)

    def _require(self, api_key: int, operation: AclOperation, topic: str) -> None:
        if self._authorization is not None:
            self._check(self._authorization.access(self._context, api_key), operation, topic)

    def _check(self, access: Access, operation: AclOperation, topic: str) -> None:
        if not access.allows(operation, ResourceType.TOPIC, topic):
            raise ApiError(
                REFUSED[ResourceType.TOPIC], f"{self.principal} lacks a right: {operation.title} on topic {topic}"
            )

    def produced(self, size: int) -> float:
        quota = self._quotas.produce
        return quota.record(quota_user(self.principal), self._context.client_id, size) if quota.is_active else 0.0

    def fetched(self, size: int) -> float:
        quota = self._quotas.fetch
        return quota.record(quota_user(self.principal), self._context.client_id, size) if quota.is_active else 0.0
