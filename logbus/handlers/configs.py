"""
DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: settings of topics, brokers and consumer groups.

Error codes are those of Kafka 4.3 (``ConfigAdminManager`` on its brokers, ``ConfigurationControlManager`` on its
controller), where they differ by the kind of resource.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Protocol, Self

from attrs import define

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller.config_admin import ConfigAdmin
from logbus.cluster.metadata_update import NO_OVERRIDES
from logbus.cluster.peers import Peers
from logbus.config import ConfigView, keys
from logbus.config.config_key import ConfigKey
from logbus.config.describe_configs import (
    ConfigEntry,
    describe_broker,
    describe_cluster,
    describe_group,
    describe_topic,
)
from logbus.config.key_table import GROUP_KEYS, TOPIC_KEYS, broker_key
from logbus.errors import ApiError, ConfigError, ErrorCode
from logbus.handlers.broker_loggers import check_broker, describe_loggers
from logbus.handlers.broker_parts import BrokerParts
from logbus.handlers.request_router import serves, task
from logbus.log_levels import LogLevels
from logbus.model import topic_name_problem
from logbus.net.request_context import RequestContext
from logbus.net.time_slices import TimeSlice
from logbus.wire.connection import Request
from logbus.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ResourceType(IntEnum):
    """Types of resources with settings (Kafka: ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    GROUP = 32


class Operation(IntEnum):
    """Operations of an incremental change (KIP-339; Kafka: AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class _Config(Protocol):
    """The common fields of a setting in both alter requests."""

    name: str
    value: str | None


class _Resource(Protocol):
    """The common fields of a resource in both alter requests."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[_Config]: ...


Edit = Callable[[Mapping[str, str]], Mapping[str, str | None]]

NO_DEFAULTS = {ResourceType.TOPIC: "topics", ResourceType.GROUP: "groups"}
"""Types of resources without common defaults, for which an empty name is invalid."""


@define(eq=False)
class ConfigHandlers:
    """Describes and alters settings."""

    _config: ConfigView
    _metadata: ClusterMetadata
    _admin: ConfigAdmin
    _peers: Peers
    _levels: LogLevels

    @classmethod
    def build(cls, broker: BrokerParts) -> Self:
        return cls(broker.config, broker.metadata, broker.config_admin, broker.peers, broker.log_levels)

    @serves(32, 1, 4, waits_for_metadata=True)
    @task
    async def describe_configs(self, context: RequestContext, request: Request) -> DescribeConfigsResponse:
        message: DescribeConfigsRequest = request.message
        time_slice = context.time_slice(request)
        results = []
        elsewhere: dict[int, list[DescribeConfigsResource]] = {}
        # Each resource is described once, since a request can repeat names at little cost.
        asked = {
            (resource.resource_type, resource.resource_name, tuple(resource.configuration_keys or ())): resource
            async for resource in time_slice.over(message.resources)
        }
        async for resource in time_slice.over(asked.values(), 4):
            # A broker asks another one only about itself.
            other = self._other(resource) if context.broker is None else None
            if other is not None:
                elsewhere.setdefault(other, []).append(resource)
                continue
            result = _result_of(resource)
            result.error_message = ""  # As in Kafka, if there is no error.
            try:
                result.configs = [
                    described(entry, synonyms=message.include_synonyms, document=message.include_documentation)
                    for entry in self._entries(resource)
                ]
            except ApiError as e:
                result.error_code, result.error_message = e.code, e.message
            results.append(result)
            if time_slice.used(5 * len(result.configs)):
                await time_slice.next()
        for broker_id, resources in elsewhere.items():
            results += await self._described_by(broker_id, resources, message)
        return DescribeConfigsResponse(results=results)

    def _other(self, resource: DescribeConfigsResource) -> int | None:
        """The broker that a resource names, if it is another live one, which must describe its own settings."""
        if resource.resource_type not in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
            return None
        others = self._metadata.brokers.keys() - {self._config.get(keys.BROKER_ID)}
        return next((one for one in others if str(one) == resource.resource_name), None)

    async def _described_by(
        self, broker_id: int, resources: list[DescribeConfigsResource], message: DescribeConfigsRequest
    ) -> list[DescribeConfigsResult]:
        request = DescribeConfigsRequest(
            resources=resources,
            include_synonyms=message.include_synonyms,
            include_documentation=message.include_documentation,
        )
        try:
            response: DescribeConfigsResponse = await self._peers.request(self._peers.broker(broker_id), request)
        except ApiError as e:
            failed = [_result_of(resource) for resource in resources]
            for result in failed:
                result.error_code, result.error_message = e.code, e.message
            return failed
        return response.results

    def _entries(self, resource: DescribeConfigsResource) -> list[ConfigEntry]:
        # Some clients send an empty list of keys to ask for all.
        names = frozenset(resource.configuration_keys or ()) or None
        if resource.resource_type == ResourceType.TOPIC:
            problem = topic_name_problem(resource.resource_name)
            if problem is not None:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
            topic = self._metadata.topic(resource.resource_name)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {resource.resource_name!r}")
            return describe_topic(self._config, topic.configs, names)
        if resource.resource_type == ResourceType.BROKER:
            broker_id = self._broker(resource.resource_name)
            if broker_id is None:
                return describe_cluster(self._config, names)
            return describe_broker(self._config, names)
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            check_broker(resource.resource_name, self._config)
            return describe_loggers(self._levels, names)
        if resource.resource_type == ResourceType.GROUP:
            if not resource.resource_name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "the name of the group is empty")
            overrides = self._metadata.group_configs.get(resource.resource_name, NO_OVERRIDES)
            return describe_group(self._config, overrides, names)
        raise self._unknown_type(resource.resource_type)

    @serves(33, 0, 2, forwarded=True)
    @task
    async def alter_configs(self, context: RequestContext, request: Request) -> AlterConfigsResponse:
        message: AlterConfigsRequest = request.message

        def replacement(resource: Any) -> Edit:
            _refuse_repeated(resource.configs)
            self._check_given(resource, resource.configs)
            wanted = {config.name: config.value for config in resource.configs}
            return lambda _: wanted

        responses = await self._alter(context.time_slice(request), message, replacement)
        return AlterConfigsResponse(responses=responses)

    @serves(44, 0, 1, forwarded=True)
    @task
    async def incremental_alter_configs(
        self, context: RequestContext, request: Request
    ) -> IncrementalAlterConfigsResponse:
        message: IncrementalAlterConfigsRequest = request.message

        def change(resource: Any) -> Edit:
            _refuse_repeated(resource.configs)
            for config in resource.configs:
                if config.value is None and config.config_operation != Operation.DELETE:
                    raise _without_value(config.name)
            self._check_given(resource, [c for c in resource.configs if c.config_operation == Operation.SET])

            def edit(now: Mapping[str, str]) -> Mapping[str, str | None]:
                context.terms.check(now)
                return self._changed(now, resource)

            return edit

        responses = await self._alter(context.time_slice(request), message, change)
        return IncrementalAlterConfigsResponse(responses=responses)

    async def _alter(
        self,
        time_slice: TimeSlice,
        message: AlterConfigsRequest | IncrementalAlterConfigsRequest,
        edit_of: Callable[[Any], Edit],
    ) -> list[AlterConfigsResourceResponse]:
        """
        Alter every resource, each with its own outcome.

        :param edit_of: makes the edit of a resource; raises ApiError if it is invalid for any present settings.
        """
        resources: Sequence[_Resource] = message.resources
        validate_only = message.validate_only
        duplicates = await time_slice.duplicates((each.resource_type, each.resource_name) for each in resources)
        outcomes: list[AlterConfigsResourceResponse] = []
        async for resource in time_slice.over(resources, 10):
            outcome = AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            outcomes.append(outcome)
            try:
                if (resource.resource_type, resource.resource_name) in duplicates:
                    raise ApiError(
                        ErrorCode.INVALID_REQUEST, f"the request names the resource {resource.resource_name!r} twice"
                    )
                self._check_name(resource)
                error = await self._alter_one(resource, edit_of(resource), validate_only=validate_only)
            except ApiError as e:
                outcome.error_code, outcome.error_message = e.code, e.message
            else:
                if error is not None:
                    outcome.error_code, outcome.error_message = error.code, error.message
        return outcomes

    async def _alter_one(self, resource: _Resource, edit: Edit, *, validate_only: bool) -> ApiError | None:
        if resource.resource_type == ResourceType.TOPIC:
            name = resource.resource_name
            return (await self._admin.alter_topic_configs({name: edit}, validate_only=validate_only))[name]
        if resource.resource_type == ResourceType.BROKER:
            broker_id = self._any_broker(resource.resource_name)
            return (await self._admin.alter_broker_configs({broker_id: edit}, validate_only=validate_only))[broker_id]
        if resource.resource_type == ResourceType.GROUP:
            name = resource.resource_name
            return (await self._admin.alter_group_configs({name: edit}, validate_only=validate_only))[name]
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "loggers are changed by IncrementalAlterConfigs, which is sent to the broker whose loggers they are",
            )
        raise self._unknown_type(resource.resource_type)

    def _check_name(self, resource: _Resource) -> None:
        """
        :raise ApiError: the name is invalid for this type of resource.
        """
        kind, name = resource.resource_type, resource.resource_name
        if not name and kind in NO_DEFAULTS:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{NO_DEFAULTS[ResourceType(kind)]} have no common defaults")
        problem = topic_name_problem(name) if kind == ResourceType.TOPIC else None
        if problem is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)

    def _check_given(self, resource: _Resource, configs: Sequence[_Config]) -> None:
        """
        Validate values, before the existence of the resource is checked.

        :raise ApiError: INVALID_REQUEST: a value is missing; INVALID_CONFIG: a key or a value is wrong.
        """
        for config in configs:
            if config.value is None:
                raise _without_value(config.name)
        try:
            if resource.resource_type == ResourceType.TOPIC:
                self._config.validate_topic_overrides({config.name: config.value for config in configs})
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None

    def _broker(self, name: str) -> int | None:
        """The broker a resource names: this one, or None for the defaults of all brokers."""
        if not name:
            return None
        mine = self._config.get(keys.BROKER_ID)
        if name != str(mine):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"there is no broker {name!r} alive; this is broker {mine}, and an empty name stands for all",
            )
        return mine

    def _any_broker(self, name: str) -> int | None:
        """The broker a resource names, whichever it is, or None for the defaults of all brokers."""
        if not name:
            return None
        if not (name.isascii() and name.isdigit()):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name!r} is not the number of a broker")
        return int(name)

    def _unknown_type(self, resource_type: int) -> ApiError:
        return ApiError(
            ErrorCode.INVALID_REQUEST,
            f"resources of type {resource_type} have no settings here; topics (2), brokers (4), their loggers (8) "
            "and groups (32) have",
        )

    def _changed(self, now: Mapping[str, str], resource: Any) -> Mapping[str, str | None]:
        """The overrides after an incremental change."""
        wanted: dict[str, str | None] = dict(now)
        for change in resource.configs:
            if change.config_operation == Operation.DELETE:
                wanted.pop(change.name, None)
            elif change.config_operation == Operation.SET:
                wanted[change.name] = change.value
            elif change.config_operation in (Operation.APPEND, Operation.SUBTRACT):
                wanted[change.name] = self._edited_list(wanted.get(change.name), change, resource.resource_type)
            else:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"{change.name}: there is no operation {change.config_operation}; 0 sets, 1 deletes, 2 appends, "
                    "3 subtracts",
                )
        return wanted

    def _edited_list(self, now: str | None, change: IncrementalAlterableConfig, resource_type: int) -> str:
        """A list with elements appended or subtracted, based on the value in effect."""
        known: dict[int, Callable[[str], ConfigKey[Any] | None]] = {
            ResourceType.TOPIC: TOPIC_KEYS.get,
            ResourceType.GROUP: GROUP_KEYS.get,
        }
        key = known.get(resource_type, broker_key)(change.name)
        if key is None or not key.is_list:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"{change.name} is not a list: it cannot be appended to or subtracted from"
            )
        text = now if now is not None else key.text(self._config.get(key)) or ""
        held = [element for element in text.split(",") if element]
        given = dict.fromkeys(element.strip() for element in (change.value or "").split(",") if element.strip())
        if change.config_operation == Operation.APPEND:
            return ",".join(dict.fromkeys([*held, *given]))
        return ",".join(element for element in held if element not in given)


def _refuse_repeated(configs: Sequence[_Config]) -> None:
    """:raise ApiError: INVALID_REQUEST: a key is named twice."""
    for name, times in Counter(config.name for config in configs).items():
        if times > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} is changed twice in one request")


def _without_value(name: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"{name}: a value is missing (it is null)")


def _result_of(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    return DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name, configs=[])


def described(entry: ConfigEntry, *, synonyms: bool, document: bool) -> DescribeConfigsResourceResult:
    """One setting in the format of the response."""
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_default=entry.is_default,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if synonyms else ())
        ],
        config_type=entry.type,
        documentation=entry.documentation if document else None,
    )
