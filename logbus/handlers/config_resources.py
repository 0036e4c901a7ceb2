"""
ListConfigResources: the resources that have settings (KIP-1142).

Version 0 lists subscriptions of client metrics (KIP-714), which do not exist here.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

from attrs import define

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import ErrorCode
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.metadata import reachable
from logbus.handlers.request_router import serves
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.configs import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse


class ListedType(IntEnum):
    """Types of resources (Kafka: ConfigResource.Type); client metrics have none here."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@define(eq=False)
class ConfigResourceHandlers:
    """Serves ListConfigResources."""

    _metadata: ClusterMetadata

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.metadata)

    @serves(74, 0, 1)
    def list_config_resources(self, context: RequestContext, request: Request) -> ListConfigResourcesResponse:
        message: ListConfigResourcesRequest = request.message
        if request.api_version == 0:
            return ListConfigResourcesResponse()
        known = {kind.value for kind in ListedType}
        wanted = set(message.resource_types) or known
        if not wanted <= known:
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        found = []
        if ListedType.TOPIC in wanted:
            found += [
                ConfigResource(resource_name=name, resource_type=ListedType.TOPIC)
                for name in sorted(self._metadata.topics)
            ]
        for kind in (ListedType.BROKER, ListedType.BROKER_LOGGER):
            if kind in wanted:
                found += [
                    ConfigResource(resource_name=str(broker.broker_id), resource_type=kind)
                    for broker, _ in reachable(self._metadata, context.listener)
                ]
        if ListedType.GROUP in wanted:
            found += [
                ConfigResource(resource_name=group_id, resource_type=ListedType.GROUP)
                for group_id in sorted(self._metadata.group_configs)
            ]
        return ListConfigResourcesResponse(config_resources=found)
