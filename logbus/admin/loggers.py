"""
Views of a broker's loggers: shows and changes what it logs, until it is started again.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin import strict_json
from logbus.admin.authorization import Right
from logbus.admin.change_terms import IN_QUERY, is_only_checked
from logbus.admin.cluster import BROKER_ID, require_broker
from logbus.admin.entity_tags import CONDITION, ETAG, Precondition, entity_tag
from logbus.admin.json_schema import array, boolean, mapping, nullable, object_schema, string
from logbus.admin.kafka_requests import KafkaRequests
from logbus.admin.relay import live
from logbus.admin.routing import JSON, ViewRequest, ViewResponse, route
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import ApiError, error_of
from logbus.log_levels import LEVELS, LogLevels
from logbus.security.acl.acls import AclOperation
from logbus.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

LEVEL = string("A level: what is less is not logged.", enum=list(LEVELS))
LOGGER = object_schema(
    "A logger.",
    name=string("Its name: root, a package, or a module or class that has a level of its own."),
    level=LEVEL,
    changed=boolean("Whether it has another level than at the start."),
)
LOGGERS = object_schema("The loggers of a broker.", items=array("Loggers by name, root first.", LOGGER))
CHANGES = mapping(
    "Levels by logger; null restores that of the start, or of the next logger above.",
    nullable(string(f"One of {', '.join(LEVELS)}.", maxLength=20)),
    maxProperties=100,
)
_BROKER_LOGGER, _SET, _DELETE = 8, 0, 1


@frozen
class LoggerViews:
    """The loggers of brokers."""

    metadata: ClusterMetadata
    broker_id: int
    levels: LogLevels
    requests: KafkaRequests

    @route(
        "GET",
        "/api/v1/loggers/{broker}",
        "A broker's loggers",
        answer=LOGGERS,
        parameters={"broker": BROKER_ID},
        answer_headers=ETAG,
        right=Right(AclOperation.DESCRIBE_CONFIGS),
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def loggers(self, call: ViewRequest) -> ViewResponse:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
        return self._shown(self.levels.names())

    @route(
        "PATCH",
        "/api/v1/loggers/{broker}",
        "Change levels of a broker's loggers",
        answer=LOGGERS,
        body=CHANGES,
        parameters={"broker": BROKER_ID, **IN_QUERY},
        headers=CONDITION,
        answer_headers=ETAG,
        right=Right(AclOperation.ALTER_CONFIGS),
        rights="Needs AlterConfigs on the Cluster; the answer has the changed loggers.",
        served_by=lambda self, call: live(self.metadata, call.path["broker"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def alter(self, call: ViewRequest) -> Deferred[ViewResponse]:
        require_broker(call.path["broker"], self.broker_id, self.metadata)
        return Deferred.fromCoroutine(self._alter(call))

    async def _alter(self, call: ViewRequest) -> ViewResponse:
        condition = Precondition(f"What broker {self.broker_id} logs", call.headers, call.body)
        changes = [
            IncrementalAlterableConfig(name=name, config_operation=_DELETE if level is None else _SET, value=level)
            for name, level in call.body.items()
        ]
        resource = IncrementalAlterConfigsResource(
            resource_type=_BROKER_LOGGER, resource_name=str(self.broker_id), configs=changes
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=is_only_checked(call))
        try:
            condition.check(self._levels())  # nothing comes between this and the change
        except ApiError as error:
            raise condition.refusal(error) from None
        response: IncrementalAlterConfigsResponse = await self.requests.send(call.access, request, 1)
        (result,) = response.responses
        if result.error_code:
            raise error_of(result.error_code, result.error_message)
        return self._shown(call.body)

    def _levels(self) -> dict[str, str]:
        """What people have changed, which is what a tag stands for: there are hundreds of loggers."""
        return {name: self.levels.level(name) for name in self.levels.names() if self.levels.is_set(name)}

    def _shown(self, names: Iterable[str]) -> ViewResponse:
        told = {"items": [self._logger(name) for name in names]}
        return ViewResponse(HTTPStatus.OK, JSON, strict_json.dumps(told), {"ETag": entity_tag(self._levels())})

    def _logger(self, name: str) -> dict[str, Any]:
        return {"name": name, "level": self.levels.level(name), "changed": self.levels.is_set(name)}
