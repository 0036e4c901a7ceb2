"""
The view of the cluster's changes, as a stream of server-sent events.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from attrs import define, field
from twisted.internet.defer import succeed

from logbus.admin.authorization import HttpAccess
from logbus.admin.condition_watch import ConditionWatch
from logbus.admin.event_log import KEPT_EVENTS, ClusterEvent, EventLog, Need
from logbus.admin.event_stream import EVENT_STREAM, HEARTBEAT, LAST_EVENT_ID, EventStreams, Piece, event, wait_for
from logbus.admin.routing import ViewRequest, ViewResponse, route
from logbus.cluster import metadata_changes as changes
from logbus.cluster.cluster_metadata import ClusterMetadata, PartitionImage
from logbus.net.request_context import ANONYMOUS
from logbus.security.acl.acls import CLUSTER_NAME, AclOperation, ResourceType

HEARTBEAT_SECONDS = 10.0
"""Silence after which there is a heartbeat."""

PARTITIONS_TOLD = 100
"""Partitions of one event; more of them come in several."""

SEES_CLUSTER: Need = (AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)


@define(eq=False)
class ClusterEventViews:
    """
    Streams of what changes in the cluster.

    The log of events begins with the first stream: before, nobody could have missed any.

    :ivar conditions: looks at what is wrong; its ``told`` is :meth:`conditions_changed`.
    """

    metadata: ClusterMetadata
    log: EventLog
    streams: EventStreams
    conditions: ConditionWatch = field(init=False)
    _unwatch: Callable[[], None] | None = field(default=None, init=False)

    @route(
        "GET",
        "/api/v1/events",
        "What changes in the cluster, as a stream of events; its end is the client's",
        content_types=(EVENT_STREAM,),
        headers=LAST_EVENT_ID,
        rights="Leaves out what the client may not describe, asked at each event; who has not logged in needs Describe "
        "on the Cluster.",
        errors=(HTTPStatus.SERVICE_UNAVAILABLE,),
    )
    def follow(self, call: ViewRequest) -> ViewResponse:
        if call.access.is_restricted and call.access.principal == ANONYMOUS:
            call.access.require(*SEES_CLUSTER)  # there are only so many streams: they are not for everybody
        if self._unwatch is None:
            self._unwatch = self.metadata.watch(self.changed)
        (last,) = call.headers.get("last-event-id", ("",))[:1]
        place = self.log.place_of(last) if last else None
        access = call.access
        return self.streams.respond(lambda: self._followed(access, place, bool(last)))

    def stop(self) -> None:
        """Do not note changes any more."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def changed(self, batch: Sequence[changes.MetadataChange]) -> None:
        """Note a batch of changes of the metadata."""
        kept = batch[-KEPT_EVENTS:]
        self.log.append((told for change in kept for told in events_of(change)), len(batch) - len(kept))

    def conditions_changed(self, began: Sequence[dict[str, Any]], ended: Sequence[dict[str, Any]]) -> None:
        """Note conditions, as the API tells them."""
        events = [_event("condition-ended", SEES_CLUSTER, **row) for row in ended]
        events += [_event("condition-began", SEES_CLUSTER, **row) for row in began]
        self.log.append(events)

    def _followed(self, access: HttpAccess, place: int | None, comes_back: bool) -> Generator[Piece, None, None]:
        self.conditions.follow(access)
        try:
            yield from self._events(access, place, comes_back)
        finally:
            self.conditions.leave(access)

    def _events(self, access: HttpAccess, place: int | None, comes_back: bool) -> Generator[Piece, None, None]:
        log = self.log
        if place is None:
            place = log.last
            if comes_back:
                yield self._reset("this broker does not have the events after the last one", place)
            else:
                yield event("ready", {}, log.event_id(place))
        while True:
            while place != log.last:
                told = log.event_after(place)
                if told is None:
                    place = log.last
                    yield self._reset("there were more events than this broker keeps", place)
                    continue
                place += 1
                at, one = told
                if one.need is None or access.may(*one.need):
                    yield event(one.name, {"at": at, **one.tell()}, log.event_id(place))
                else:
                    yield succeed(None)  # a turn of the reactor
            yield from wait_for(log.more(HEARTBEAT_SECONDS))
            if place == log.last:
                yield HEARTBEAT

    def _reset(self, reason: str, place: int) -> bytes:
        told = {"reason": f"Read anew what you show: {reason}."}
        return event("reset", told, self.log.event_id(place))


def events_of(change: changes.MetadataChange) -> Iterator[ClusterEvent]:
    """Return the events that tell of a change."""
    match change:
        case changes.TopicCreated(topic, topic_id, partitions):
            yield _event("topic-created", _describes(topic), topic=topic, id=str(topic_id), partitions=partitions)
        case changes.TopicDeleted(topic, topic_id):
            yield _event("topic-deleted", _describes(topic), topic=topic, id=str(topic_id))
        case changes.PartitionsAdded(topic, partitions):
            yield _event("partitions-added", _describes(topic), topic=topic, partitions=partitions)
        case changes.PartitionsChanged(topic, images):
            for first in range(0, len(images), PARTITIONS_TOLD):
                some = images[first : first + PARTITIONS_TOLD]
                yield ClusterEvent("partitions-changed", partial(_partitions, topic, some), _describes(topic))
        case changes.TopicConfigsChanged(topic, names):
            need = (AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic)
            yield _event("topic-configs-changed", need, topic=topic, names=names)
        case changes.GroupConfigsChanged(group, names):
            need = (AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP, group)
            yield _event("group-configs-changed", need, group=group, names=names)
        case changes.BrokerConfigsChanged(broker, names):
            need = (AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
            yield _event("broker-configs-changed", need, broker=broker, names=names)
        case changes.BrokerJoined(image):
            yield _event("broker-joined", None, broker=image.broker_id, epoch=image.epoch)
        case changes.BrokerChanged(image):
            yield _event("broker-changed", None, broker=image.broker_id, shutting_down=image.in_controlled_shutdown)
        case changes.BrokerLeft(broker_id):
            yield _event("broker-left", None, broker=broker_id)
        case changes.ControllerChanged(broker_id):
            yield _event("controller-changed", SEES_CLUSTER, controller=broker_id if broker_id >= 0 else None)


def _event(name: str, need: Need | None, /, **members: Any) -> ClusterEvent:
    return ClusterEvent(name, lambda: members, need)


def _describes(topic: str) -> Need:
    return AclOperation.DESCRIBE, ResourceType.TOPIC, topic


def _partitions(topic: str, images: Sequence[tuple[int, PartitionImage]]) -> dict[str, Any]:
    items = [
        {
            "partition": number,
            "leader": image.leader if image.leader >= 0 else None,
            "leader_epoch": image.leader_epoch,
            "replicas": list(image.replicas),
            "isr": list(image.isr),
        }
        for number, image in images
    ]
    return {"topic": topic, "items": items}
