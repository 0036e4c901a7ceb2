"""
The loggers of a broker as a resource with settings (config resource ``BROKER_LOGGER``, KIP-412).

Levels belong to the process: they are changed on the broker that a request is sent to, not by the controller, and are
those of the configuration again after a restart.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.config import ConfigView, Source, keys
from logbus.config.describe_configs import ConfigEntry
from logbus.config.kinds import ConfigType
from logbus.errors import ApiError, ConfigError, ErrorCode
from logbus.handlers.request_router import Answer, Handler, response_of
from logbus.log_levels import LEVELS, ROOT, LogLevels
from logbus.net.request_context import RequestContext
from logbus.wire.connection import Request
from logbus.wire.messages.configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from logbus.wire.schema import decode

INCREMENTAL_ALTER_CONFIGS = 44
BROKER_LOGGER = 8
SET, DELETE = 0, 1


def check_broker(name: str, config: ConfigView) -> None:
    """
    Check that a resource of loggers is this broker's.

    :raise ApiError: it names another one, or none.
    """
    mine = config.get(keys.BROKER_ID)
    if name != str(mine):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"this is broker {mine}: ask broker {name[:50]!r} itself for its loggers"
        )


def describe_loggers(levels: LogLevels, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """
    Describe loggers and the levels in effect.

    :param names: those to describe, or None for the ones that :meth:`.LogLevels.names` has; unknown ones are omitted.
    """
    return [_entry(levels, name) for name in (levels.names() if names is None else names) if _exists(levels, name)]


def _exists(levels: LogLevels, name: str) -> bool:
    try:
        levels.check(name)
    except ConfigError:
        return False
    return True


def _entry(levels: LogLevels, name: str) -> ConfigEntry:
    source = Source.BROKER_LOGGER if levels.is_set(name) or name == ROOT else Source.DEFAULT
    doc = f"The level of the logger {name}: {', '.join(LEVELS)}."
    return ConfigEntry(name, levels.level(name), source, False, False, ConfigType.STRING, (), doc)


@frozen
class LoggerChanges:
    """Serves IncrementalAlterConfigs requests for loggers only."""

    _levels: LogLevels
    _config: ConfigView
    _log = Logger()

    def __call__(self, context: RequestContext, request: Request) -> IncrementalAlterConfigsResponse:
        """Change the levels of each resource, all of it or nothing."""
        message: IncrementalAlterConfigsRequest = request.message
        repeated = len(message.resources) > 1
        responses = []
        for resource in message.resources[:100]:
            outcome = AlterConfigsResourceResponse(
                resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            responses.append(outcome)
            try:
                if repeated:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "a broker has one resource of loggers: name it once")
                check_broker(resource.resource_name, self._config)
                self._alter(resource.configs, context, validate_only=message.validate_only)
            except ApiError as e:
                outcome.error_code, outcome.error_message = e.code, e.message
        return IncrementalAlterConfigsResponse(responses=responses)

    def _alter(self, changes: Any, context: RequestContext, *, validate_only: bool) -> None:
        if len(changes) > 1000:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{len(changes)} changes at once; 1000 are allowed")
        seen: set[str] = set()
        for change in changes:
            if change.name in seen:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"{change.name[:200]} is changed twice in one request")
            seen.add(change.name)
            self._check(change)
        if validate_only:
            return
        for change in changes:
            if change.config_operation == SET:
                self._levels.set(change.name, change.value)
            else:
                self._levels.unset(change.name)
            self._log.info(
                "the logger {name} has the level {now} now, set by {principal}",
                name=change.name,
                now=self._levels.level(change.name),
                principal=str(context.principal),
            )

    def _check(self, change: Any) -> None:
        """
        :raise ApiError: as Kafka's brokers answer.
        """
        if change.config_operation not in (SET, DELETE):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{change.name[:200]}: operation {change.config_operation} is not for loggers; 0 sets, 1 deletes",
            )
        if change.config_operation == DELETE and change.name.lower() == ROOT:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the level of root cannot be removed, only set")
        if change.config_operation == SET and change.value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{change.name[:200]}: a value is missing (it is null)")
        try:
            self._levels.check(change.name, change.value if change.config_operation == SET else None)
        except ConfigError as e:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(e)) from None


def divided_changes(loggers: Handler, others: Handler) -> Handler:
    """
    Return the handler of IncrementalAlterConfigs requests.

    :param loggers: serves requests for loggers, on this broker.
    :param others: serves requests for all else, wherever the controller is.
    """

    async def both(context: RequestContext, request: Request) -> Any:
        message: IncrementalAlterConfigsRequest = request.message
        mine = [resource for resource in message.resources if resource.resource_type == BROKER_LOGGER]
        rest = [resource for resource in message.resources if resource.resource_type != BROKER_LOGGER]
        responses: list[AlterConfigsResourceResponse] = []
        answer: Any = None
        for handler, resources in ((loggers, mine), (others, rest)):
            if resources:
                message.resources = resources
                answer = await response_of(handler(context, request))
                if isinstance(answer, bytes):  # From the controller, as it is sent to clients.
                    answer, _ = decode(IncrementalAlterConfigsResponse, request.api_version, answer)
                responses += answer.responses
        answer.responses = responses
        return answer

    def handle(context: RequestContext, request: Request) -> Answer:
        if any(resource.resource_type == BROKER_LOGGER for resource in request.message.resources):
            return Deferred.fromCoroutine(both(context, request))
        return others(context, request)

    return handle
