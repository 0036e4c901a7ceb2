"""
Encodes and decodes metadata updates between brokers: pure.

The body does not name the receiver, so the same bytes go to all brokers that get the same update.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from types import MappingProxyType
from uuid import UUID

from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import NO_OVERRIDES, DeletedTopic, MetadataUpdate, PartitionState
from logbus.errors import DecodeError
from logbus.model import Endpoint, LeaderAndIsr, TopicPartition
from logbus.records.file_slice import joined
from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.element_budget import RESPONSE_ELEMENTS
from logbus.wire.messages.inter_broker import (
    AlteredPartition,
    DeletedTopicState,
    EntityConfig,
    MetadataUpdateBody,
    MetadataUpdateBroker,
    MetadataUpdateEndpoint,
    MetadataUpdatePartitionState,
    MetadataUpdateRequest,
    MetadataUpdateTopicState,
    SecurityNode,
    Setting,
)
from logbus.wire.schema import ZERO_UUID, Steps, element_budget, incremental_decoder, incremental_encoder

BODY_VERSION = 0


def update_request(update: MetadataUpdate) -> Steps[MetadataUpdateRequest]:
    """Encode an update as a request, some partitions at a time."""
    body = yield from _body(update)
    parts = yield from incremental_encoder(MetadataUpdateBody, BODY_VERSION)(body)
    return MetadataUpdateRequest(
        controller_id=update.controller_id,
        controller_epoch=update.controller_epoch,
        broker_epoch=update.broker_epoch,
        body=joined(parts),
        number=update.number,
    )


def decode_update(request: MetadataUpdateRequest) -> Steps[MetadataUpdate]:
    """
    Decode a request, some partitions at a time. Call it only once the sender is authenticated: it may build millions of
    objects.

    :raise DecodeError: the body cannot be decoded.
    """
    data = request.body
    decode = incremental_decoder(MetadataUpdateBody, BODY_VERSION)
    body, end = yield from decode(data, 0, element_budget(len(data), RESPONSE_ELEMENTS))
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes are left over after a metadata update")
    states: list[PartitionState] = []
    for topic in body.topics:
        for state in _states(topic):
            states.append(state)
            if not len(states) % ELEMENTS_PER_STEP:
                yield
    return MetadataUpdate(
        request.controller_id,
        request.controller_epoch,
        request.broker_epoch,
        brokers=None if body.brokers is None else {one.broker_id: _broker_image(one) for one in body.brokers},
        partitions=tuple(states),
        deleted=tuple(DeletedTopic(one.name, UUID(bytes=one.topic_id), one.partitions) for one in body.deleted),
        configs=_overrides_by_entity(body.configs),
        broker_configs=_overrides_by_entity(body.broker_configs),
        group_configs=_overrides_by_entity(body.group_configs),
        security_nodes=None if body.security_nodes is None else {one.path: one.data for one in body.security_nodes},
        full=body.full,
        unreadable=frozenset(body.unreadable),
        number=request.number,
    )


def _body(update: MetadataUpdate) -> Steps[MetadataUpdateBody]:
    brokers = update.brokers
    topics: list[MetadataUpdateTopicState] = []
    count = 0
    for (name, topic_id), states in groupby(
        update.partitions, lambda state: (state.topic_partition.topic, state.topic_id)
    ):
        partitions: list[MetadataUpdatePartitionState] = []
        for state in states:
            partitions.append(_partition_message(state))
            count += 1
            if not count % ELEMENTS_PER_STEP:
                yield
        overrides = _settings(state.overrides)
        topics.append(
            MetadataUpdateTopicState(name=name, topic_id=topic_id.bytes, overrides=overrides, partitions=partitions)
        )
    return MetadataUpdateBody(
        full=update.full,
        brokers=None if brokers is None else [_broker_message(one) for one in brokers.values()],
        deleted=[
            DeletedTopicState(name=one.name, topic_id=one.topic_id.bytes, partitions=one.partitions)
            for one in update.deleted
        ],
        topics=topics,
        configs=_by_entity(update.configs),
        broker_configs=_by_entity(update.broker_configs),
        group_configs=_by_entity(update.group_configs),
        security_nodes=None
        if update.security_nodes is None
        else [SecurityNode(path=path, data=data) for path, data in update.security_nodes.items()],
        unreadable=sorted(update.unreadable),
    )


def _broker_message(broker: BrokerImage) -> MetadataUpdateBroker:
    return MetadataUpdateBroker(
        broker_id=broker.broker_id,
        epoch=broker.epoch,
        incarnation=ZERO_UUID if broker.incarnation is None else broker.incarnation.bytes,
        feature_level=broker.feature_level,
        rack=broker.rack,
        endpoints=[
            MetadataUpdateEndpoint(listener=name, host=at.host, port=at.port, protocol=at.protocol)
            for name, at in broker.endpoints.items()
        ],
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )


def _broker_image(broker: MetadataUpdateBroker) -> BrokerImage:
    return BrokerImage(
        broker.broker_id,
        {one.listener: Endpoint(one.listener, one.host, one.port, one.protocol) for one in broker.endpoints},
        broker.rack,
        broker.epoch,
        None if broker.incarnation == ZERO_UUID else UUID(bytes=broker.incarnation),
        broker.feature_level,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )


def _partition_message(state: PartitionState) -> MetadataUpdatePartitionState:
    given = state.leader_and_isr
    return MetadataUpdatePartitionState(
        partition=state.topic_partition.partition,
        leader=given.leader,
        leader_epoch=given.leader_epoch,
        controller_epoch=given.controller_epoch,
        version=given.version,
        is_new=state.is_new,
        replicas=list(state.replicas),
        isr=list(given.isr),
        eligible=list(given.eligible),
        unclean_epoch=given.unclean_epoch,
    )


def _states(topic: MetadataUpdateTopicState) -> Iterable[PartitionState]:
    topic_id = UUID(bytes=topic.topic_id)
    overrides = _overrides(topic.overrides)  # One mapping for all partitions of a topic.
    for one in topic.partitions:
        name = TopicPartition(topic.name, one.partition)
        yield PartitionState(name, topic_id, tuple(one.replicas), leader_and_isr(one), one.is_new, overrides)


def leader_and_isr(one: MetadataUpdatePartitionState | AlteredPartition) -> LeaderAndIsr:
    """The state of a partition in a message."""
    return LeaderAndIsr(
        one.leader,
        one.leader_epoch,
        tuple(one.isr),
        one.controller_epoch,
        one.version,
        tuple(one.eligible),
        one.unclean_epoch,
    )


def _settings(overrides: Mapping[str, str]) -> list[Setting]:
    return [Setting(name=name, value=value) for name, value in overrides.items()]


def _overrides(settings: list[Setting]) -> Mapping[str, str]:
    return MappingProxyType({one.name: one.value for one in settings}) if settings else NO_OVERRIDES


def _by_entity(overrides: Mapping[str, Mapping[str, str]]) -> list[EntityConfig]:
    return [EntityConfig(entity=name, settings=_settings(given)) for name, given in overrides.items()]


def _overrides_by_entity(given: list[EntityConfig]) -> dict[str, Mapping[str, str]]:
    return {one.entity: _overrides(one.settings) for one in given}
