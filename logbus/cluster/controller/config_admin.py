"""
Administration of configs on the controller: those of topics, brokers and consumer groups.

Requests are checked and carried out on the controller's event queue, so that two for the same name cannot interleave.
Each topic, broker or group has its own outcome. The answer comes when the brokers have the new configs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from logbus.cluster.controller import topic_changes
from logbus.cluster.controller.active_controller import ActiveController
from logbus.cluster.controller.broker_channels import PendingUpdates
from logbus.cluster.controller.change_timeout import WAIT_MS, in_time
from logbus.cluster.controller.controller import Controller
from logbus.cluster.controller.topic_plan import (
    ConfigCheck,
    ConfigEdit,
    Overrides,
    changed,
    edited,
    existing,
    kept_if_internal,
)
from logbus.coroutines import returns_deferred
from logbus.errors import ApiError, ErrorCode
from logbus.metastore.znodes import DEFAULT_ENTITY

MAX_CONFIGURED_GROUPS = 10_000
"""Limit of groups with configs of their own: every broker keeps them all, and clients can invent group ids."""

T = TypeVar("T")


@define(eq=False)
class ConfigAdmin:
    """
    Changes configs; on a broker that is not the controller every call fails with NOT_CONTROLLER.

    :ivar check_topic: whether a topic's overrides are valid.
    :ivar check_broker: the same for a broker's (its id), or all brokers' (None).
    :ivar check_group: the same for a consumer group's.
    :ivar check_change: whether a topic's overrides may change so; raises ConfigError.
    """

    controller: Controller
    clock: IReactorTime
    check_topic: ConfigCheck
    check_broker: Callable[[int | None, Overrides], object]
    check_group: ConfigCheck
    check_change: Callable[[Mapping[str, str], Mapping[str, str]], object] = lambda before, after: None

    def alter_topic_configs(
        self, edits: Mapping[str, ConfigEdit], *, validate_only: bool = False
    ) -> Deferred[dict[str, ApiError | None]]:
        """
        Change topics' overrides; fires when the new ones are in force.

        :param edits: run on the controller's queue, so that concurrent edits are not lost.
        :return: by topic: None, or the error.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> tuple[dict[str, ApiError | None], PendingUpdates | None]:
            outcomes: dict[str, ApiError | None] = {}
            wanted: dict[str, Mapping[str, str]] = {}
            for name, edit in edits.items():
                try:
                    before = existing(active.state, name).overrides
                    overrides = edited(before, edit, self.check_topic)
                    changed(self.check_change, before, overrides)
                    wanted[name] = kept_if_internal(name, overrides)
                    outcomes[name] = None
                except ApiError as error:
                    outcomes[name] = error.without_frames()
            if validate_only or not wanted:
                return outcomes, None
            return outcomes, await topic_changes.configure_topics(active, wanted)

        return self._configured(run)

    def alter_broker_configs(
        self, edits: Mapping[int | None, ConfigEdit], *, validate_only: bool = False
    ) -> Deferred[dict[int | None, ApiError | None]]:
        """
        Change the dynamic configuration of brokers, or of all of them (None); fires when it is in force.

        :return: by broker: None, or the error.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> tuple[dict[int | None, ApiError | None], PendingUpdates | None]:
            outcomes: dict[int | None, ApiError | None] = {}
            delivery = None
            for broker_id, edit in edits.items():

                def check(given: Overrides, broker_id: int | None = broker_id) -> object:
                    return self.check_broker(broker_id, given)

                entity = DEFAULT_ENTITY if broker_id is None else str(broker_id)
                try:
                    if broker_id is not None and broker_id not in active.state.brokers:
                        raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no broker {broker_id} alive")
                    now = active.state.broker_configs.overrides.get(entity, {})
                    wanted = edited(now, edit, check, refused=ErrorCode.INVALID_REQUEST)
                    outcomes[broker_id] = None
                except ApiError as error:
                    outcomes[broker_id] = error.without_frames()
                    continue
                if not validate_only:
                    delivery = await topic_changes.configure_broker(active, entity, wanted)
            return outcomes, delivery  # Updates are applied in order: when the last one is, all are.

        return self._configured(run)

    def alter_group_configs(
        self, edits: Mapping[str, ConfigEdit], *, validate_only: bool = False
    ) -> Deferred[dict[str, ApiError | None]]:
        """
        Change the settings of consumer groups, which need not exist; fires when the new ones are in force.

        :return: by group: None, or the error.
        :raise ApiError: NOT_CONTROLLER.
        """

        async def run(active: ActiveController) -> tuple[dict[str, ApiError | None], PendingUpdates | None]:
            outcomes: dict[str, ApiError | None] = {}
            delivery = None
            known = active.state.group_configs.overrides
            for group_id, edit in edits.items():
                try:
                    wanted = edited(known.get(group_id, {}), edit, self.check_group)
                    if wanted and group_id not in known and len(known) >= MAX_CONFIGURED_GROUPS:
                        raise ApiError(
                            ErrorCode.POLICY_VIOLATION,
                            f"{MAX_CONFIGURED_GROUPS} groups have settings of their own, and no more can; "
                            "delete those of groups that are gone",
                        )
                    outcomes[group_id] = None
                except ApiError as error:
                    outcomes[group_id] = error.without_frames()
                    continue
                if not validate_only:
                    delivery = await topic_changes.configure_group(active, group_id, wanted)
            return outcomes, delivery

        return self._configured(run)

    @returns_deferred
    async def _configured(self, run: Callable[[ActiveController], Awaitable[tuple[T, PendingUpdates | None]]]) -> T:
        outcomes, delivery = await self.controller.submit(run)
        if delivery is not None:
            await in_time(self.clock, delivery.wait(), WAIT_MS)
        return outcomes
