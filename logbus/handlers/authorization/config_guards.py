"""Guards of settings (Kafka: KafkaApis, ConfigHelper, ControllerApis)."""

from __future__ import annotations

from typing import Any

from logbus.errors import ErrorCode
from logbus.handlers.authorization.access import Access
from logbus.handlers.authorization.guard import Serve, divided, guards
from logbus.handlers.configs import ResourceType as ConfigResourceType
from logbus.security.acl.acls import CLUSTER_NAME, AclOperation, ResourceType
from logbus.security.audit import REFUSED
from logbus.wire.connection import Request
from logbus.wire.messages.configs import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesResponse,
)


def _concerned(resource: Any) -> tuple[ResourceType, str]:
    """The resource of ACLs that a resource with settings belongs to: brokers and all others to the cluster."""
    if resource.resource_type == ConfigResourceType.TOPIC:
        return ResourceType.TOPIC, resource.resource_name
    if resource.resource_type == ConfigResourceType.GROUP:
        return ResourceType.GROUP, resource.resource_name
    return ResourceType.CLUSTER, CLUSTER_NAME


@guards(32)
async def describe_configs(access: Access, request: Request, serve: Serve) -> Any:
    """DescribeConfigs: DescribeConfigs on each topic and group, and on the cluster for all else."""
    if access.context.broker is not None:
        return await serve()
    message = request.message
    message.resources, gone = await divided(
        access, request, message.resources, lambda each: access.allows(AclOperation.DESCRIBE_CONFIGS, *_concerned(each))
    )
    answer = await serve() if message.resources or not gone else DescribeConfigsResponse(results=[])
    for each in gone:
        code = REFUSED[_concerned(each)[0]]
        answer.results.append(
            DescribeConfigsResult(
                error_code=code,
                error_message=code.sentence,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[],
            )
        )
    return answer


@guards(33, 44)
async def alter_configs(access: Access, request: Request, serve: Serve) -> Any:
    """AlterConfigs, IncrementalAlterConfigs: AlterConfigs on each topic and group, and on the cluster for all else."""
    message = request.message
    message.resources, gone = await divided(
        access, request, message.resources, lambda each: access.allows(AclOperation.ALTER_CONFIGS, *_concerned(each))
    )
    if message.resources or not gone:
        answer = await serve()
    else:
        # Both have the same fields, but not the same flexible versions, by which a forwarded request is answered.
        answer = (IncrementalAlterConfigsResponse if request.api_key == 44 else AlterConfigsResponse)(responses=[])
    for each in gone:
        code = REFUSED[_concerned(each)[0]]
        answer.responses.append(
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=code.sentence,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
        )
    return answer


@guards(74)
async def list_config_resources(access: Access, request: Request, serve: Serve) -> Any:
    """ListConfigResources: DescribeConfigs on the cluster."""
    if access.allows_on_cluster(AclOperation.DESCRIBE_CONFIGS):
        return await serve()
    return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
