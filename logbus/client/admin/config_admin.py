"""The admin client's part for settings of topics, brokers and consumer groups."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.client.cluster.cluster import Cluster
from logbus.client.retry import api_error
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, LogbusError
from logbus.net.channel import Channel
from logbus.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

_DESCRIBE_CONFIGS = 32
_DOCUMENTED = 3
"""The version from which on settings are explained."""


class ResourceType(IntEnum):
    """The types of resources that have settings."""

    TOPIC = 2
    BROKER = 4
    LOGGER = 8
    GROUP = 32


class Resource(NamedTuple):
    """A topic or consumer group by name, or a broker, or its loggers, by id; the name ``""`` stands for all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        if self.type is ResourceType.BROKER and not self.name:
            return "brokers"
        if self.type is ResourceType.LOGGER:
            return f"loggers of broker {self.name}"
        return f"{self.type.name.lower()} {self.name}"


class ConfigSource(IntEnum):
    """The origin of a setting's value."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigSynonym(NamedTuple):
    """A value of a setting that applies if those before it are not set."""

    name: str
    value: str | None
    source: ConfigSource


@frozen
class ConfigEntry:
    """
    One setting.

    :ivar value: None if it is sensitive or not set.
    :ivar synonyms: its value and those that apply without it, the first one first; empty unless asked for.
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()


class ConfigAdmin:
    """The part of :class:`~logbus.client.admin.admin_client.AdminClient` for settings."""

    _cluster: Cluster

    def describe_configs(
        self, resources: Iterable[Resource], *, synonyms: bool = False
    ) -> Deferred[dict[Resource, list[ConfigEntry] | ApiError]]:
        """
        The settings of topics, brokers and consumer groups.

        :param synonyms: with the values that apply where a setting is not set.
        """
        return Deferred.fromCoroutine(self._describe_configs(list(resources), synonyms=synonyms))

    @returns_deferred
    async def min_insync_replicas(self, names: Iterable[str]) -> dict[str, int]:
        """The setting ``min.insync.replicas`` of topics, by topic."""
        resources = [Resource(ResourceType.TOPIC, name) for name in names]
        answers = await self._describe_configs(resources, ["min.insync.replicas"]) if resources else {}
        return {
            resource.name: int(entry.value or 1)
            for resource, entries in answers.items()
            if not isinstance(entries, ApiError)
            for entry in entries
        }

    @returns_deferred
    async def alter_configs(
        self, changes: Mapping[Resource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[Resource, ApiError | None]:
        """
        Change some settings and keep the others (KIP-339).

        :param changes: the new values; None returns a setting to its default.
        :param validate_only: only check whether it would succeed.
        """
        answers: dict[Resource, ApiError | None] = {}
        for node_id, group in self._by_broker(list(changes)).items():
            channel = await (self._cluster.controller() if node_id is None else self._cluster.channel(node_id))
            request = IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsResource(
                        resource_type=each.type,
                        resource_name=each.name,
                        configs=[
                            IncrementalAlterableConfig(name=name, config_operation=value is None, value=value)
                            for name, value in changes[each].items()
                        ],
                    )
                    for each in group
                ],
                validate_only=validate_only,
            )
            response: IncrementalAlterConfigsResponse = await channel.request(request)
            for each in response.responses:
                resource = Resource(ResourceType(each.resource_type), each.resource_name)
                answers[resource] = response_error(each.error_code, str(resource), each.error_message)
        return answers

    # Internals.

    async def _describe_configs(
        self, resources: list[Resource], names: list[str] | None = None, *, synonyms: bool = False
    ) -> dict[Resource, list[ConfigEntry] | ApiError]:
        answers: dict[Resource, list[ConfigEntry] | ApiError] = {}
        for node_id, group in self._by_broker(resources).items():
            channel = await self._channel_to(node_id)
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=each.type, resource_name=each.name, configuration_keys=names)
                    for each in group
                ],
                # Brokers before Kafka 2.6 do not send it.
                include_documentation=names is None and channel.version(_DESCRIBE_CONFIGS) >= _DOCUMENTED,
                include_synonyms=synonyms,
            )
            response: DescribeConfigsResponse = await channel.request(request)
            for each in response.results:
                resource = Resource(ResourceType(each.resource_type), each.resource_name)
                answers[resource] = response_error(each.error_code, str(resource), each.error_message) or [
                    ConfigEntry(
                        entry.name,
                        entry.value,
                        _source(entry.config_source, entry.is_default),
                        entry.read_only,
                        entry.is_sensitive,
                        entry.documentation,
                        tuple(ConfigSynonym(one.name, one.value, _source(one.source, False)) for one in entry.synonyms),
                    )
                    for entry in each.configs
                ]
        return answers

    @staticmethod
    def _by_broker(resources: Sequence[Resource]) -> dict[int | None, list[Resource]]:
        """
        Group resources by the broker to ask: a broker answers for its own settings, any broker for the others (None).
        """
        groups: dict[int | None, list[Resource]] = {}
        for each in resources:
            node_id = None
            if each.type is ResourceType.LOGGER or (each.type is ResourceType.BROKER and each.name):
                if not each.name.isdigit():
                    raise LogbusError(f"{each.name!r} is not a broker's id; it is a number, such as 0")
                node_id = int(each.name)
            groups.setdefault(node_id, []).append(each)
        return groups

    def _channel_to(self, node_id: int | None) -> Awaitable[Channel]:
        return self._cluster.any_channel() if node_id is None else self._cluster.channel(node_id)


def response_error(code: int, what: str, message: str | None) -> ApiError | None:
    """The error for a response code; None for code 0."""
    return api_error(code, what, message) if code else None


def _source(number: int, is_default: bool) -> ConfigSource:
    """Version 0 only tells whether the value is the default."""
    if number < 0:
        return ConfigSource.DEFAULT if is_default else ConfigSource.UNKNOWN
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN
