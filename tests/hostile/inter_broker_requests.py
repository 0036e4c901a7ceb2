"""Requests between brokers, sent by a client that is not a broker."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import MetadataUpdate
from logbus.coordination.share_state.recorded_state import StateChange
from logbus.coordination.share_state.share_state import AVAILABLE, SharePartitionKey, StateBatch
from logbus.coordination.share_state.share_state_calls import (
    Call,
    Delete,
    Initialize,
    Read,
    Summarize,
    Write,
    request_of,
)
from logbus.wire.messages.inter_broker import (
    AlterPartitionData,
    AlterPartitionsRequest,
    AskPluginRequest,
    ForwardRequest,
    IntroduceRequest,
    ProveIdentityRequest,
    ReportedLogEnd,
    ReportedLogEnds,
    ReportedReplica,
    ReportFailedRequest,
    ReportLogEndsRequest,
    ReportReplicasRequest,
    ShutDownRequest,
)
from logbus.wire.messages.partitions import TopicPartitions
from tests.cluster.encoded_updates import update_request

_SHARED = SharePartitionKey("share", UUID(int=1), 0)


def broker_requests() -> list[Any]:
    """One of each API between brokers."""
    return [
        IntroduceRequest(cluster_id="c", broker_id=1, broker_epoch=1, receiver_id=0, feature_level=1, nonce=bytes(32)),
        ProveIdentityRequest(proof=bytes(32)),
        update_request(MetadataUpdate(1, 2**31 - 1, 2**63 - 1, brokers={1: BrokerImage(1, {})}, full=True)),
        AlterPartitionsRequest(
            broker_epoch=1,
            changes=[AlterPartitionData(topic="t", partition=0, leader_epoch=0, version=0, isr=[1], broker_epochs=[1])],
        ),
        ShutDownRequest(broker_epoch=1),
        ReportFailedRequest(broker_epoch=1, failed=[TopicPartitions(topic="t", partitions=[0, 1])]),
        ForwardRequest(api_key=20, api_version=6, principal="User:x", host="h", body=b"\x01\0\0\0\0\0"),
        AskPluginRequest(plugin="registry", body=b"{}"),
        ReportReplicasRequest(
            broker_epoch=1,
            replicas=[
                ReportedReplica(topic="t", partition=0, replica=0, leader_epoch=0, complete=False, reason="damaged")
            ],
        ),
        ReportLogEndsRequest(
            broker_epoch=1,
            topics=[
                ReportedLogEnds(
                    topic="t", partitions=[ReportedLogEnd(partition=0, leader_epoch=0, last_epoch=0, end_offset=9)]
                )
            ],
        ),
    ]


def share_state_requests() -> list[Any]:
    """One of each API of the share coordinator, whose responses have errors of partitions only."""
    calls: list[Call] = [
        Initialize(_SHARED, 1, -1),
        Read(_SHARED, 0),
        Write(_SHARED, StateChange(1, 0, 3, 0, (StateBatch(3, 4, AVAILABLE, 1),))),
        Summarize(_SHARED),
        Delete(_SHARED),
    ]
    return [request_of([call]) for call in calls]
