"""Guards of the share coordinator's APIs, which are for brokers (Kafka: KafkaApis)."""

from __future__ import annotations

from typing import Any

from logbus.coordination.share_state.share_state_calls import calls_of, response_of
from logbus.errors import ApiError, ErrorCode
from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.guard import Serve, guards
from logbus.security.acl.acls import AclOperation
from logbus.wire.connection import Request


@guards(83, 84, 85, 86, 87)
async def share_state(access: Access, request: Request, serve: Serve) -> Any:
    """The share coordinator: for brokers; a client needs ClusterAction."""
    if access.context.broker is not None or access.allows_on_cluster(AclOperation.CLUSTER_ACTION):
        return await serve()
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    calls = access.context.time_slice(request).over(calls_of(request.message))
    return response_of(request.message, [(call.key, ApiError(code, code.sentence)) async for call in calls])
