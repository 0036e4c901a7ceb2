"""
Settings that a target does not take, as brokers of another release have other limits: the others are copied, and it is
said which are not.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from logbus.client.admin.admin_client import AdminClient, NewTopic
from logbus.client.admin.config_admin import Resource
from logbus.errors import ApiError, ErrorCode


async def refused_at_creation(admin: AdminClient, new: NewTopic) -> dict[str, ApiError]:
    """
    Which settings of a new topic are refused, each for itself.

    :raises LogbusError: the target cannot be asked.
    """
    refused: dict[str, ApiError] = {}
    for name, value in new.configs.items():
        alone = evolve(new, configs={name: value})
        error = (await admin.create_topics([alone], validate_only=True))[new.name]
        if error is not None and error.code is ErrorCode.INVALID_CONFIG:
            refused[name] = error
    return refused


async def create_without_refused(admin: AdminClient, new: NewTopic) -> tuple[ApiError | None, dict[str, ApiError]]:
    """
    Create a topic that was refused for its settings, without those at fault.

    :returns: the error, if there is one still, and the settings that it lacks.
    :raises LogbusError: the target cannot be asked.
    """
    refused = await refused_at_creation(admin, new)
    taken = {name: value for name, value in new.configs.items() if name not in refused}
    return (await admin.create_topics([evolve(new, configs=taken)]))[new.name], refused


async def alter_without_refused(
    admin: AdminClient, resource: Resource, changes: Mapping[str, str | None]
) -> dict[str, ApiError]:
    """
    Make changes one by one, of which some are refused.

    :returns: the errors of these.
    :raises LogbusError: the target cannot be asked.
    """
    refused: dict[str, ApiError] = {}
    for name, value in changes.items():
        error = (await admin.alter_configs({resource: {name: value}}))[resource]
        if error is not None:
            refused[name] = error
    return refused


def shown_settings(settings: Mapping[str, object]) -> str:
    """Such as ``retention.ms=60000, segment.ms=``."""
    return ", ".join(f"{name}={'' if value is None else value}" for name, value in settings.items())
