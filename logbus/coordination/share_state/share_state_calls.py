"""
The calls of the share coordinator, as values and as requests between brokers. Pure.

A request has calls of one kind and one group, for any number of share partitions; its response has a result for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from attrs import frozen

from logbus.coordination.share_state.recorded_state import StateChange
from logbus.coordination.share_state.share_state import UNKNOWN_COUNT, LogEpochs, SharePartitionKey, ShareState
from logbus.coordination.share_state.share_state_records import state_batches, wire_batches
from logbus.errors import ApiError, ErrorCode, error_of
from logbus.model import NO_EPOCH, NO_OFFSET
from logbus.wire.messages import share_state as wire


@frozen
class Initialize:
    """See :meth:`.SharePersister.initialize`."""

    key: SharePartitionKey
    state_epoch: int
    start_offset: int


@frozen
class Read:
    """See :meth:`.SharePersister.read`."""

    key: SharePartitionKey
    leader_epoch: int
    log_end_offset: int = NO_OFFSET
    log_epochs: LogEpochs = ()


@frozen
class Write:
    """See :meth:`.SharePersister.write`."""

    key: SharePartitionKey
    change: StateChange


@frozen
class Summarize:
    """See :meth:`.SharePersister.summary`."""

    key: SharePartitionKey


@frozen
class Delete:
    """See :meth:`.SharePersister.delete`."""

    key: SharePartitionKey


Call: TypeAlias = Initialize | Read | Write | Summarize | Delete
Result: TypeAlias = ShareState | ApiError | None
"""The state that was asked for, or an error; None: it is done."""


# Requests.


def request_of(calls: Sequence[Call]) -> Any:
    """The request of calls of one kind and one group, at least one; each share partition is in one of them."""
    kind = _KINDS[type(calls[0])]
    topics: dict[UUID, list[Any]] = {}
    for call in calls:
        topics.setdefault(call.key.topic_id, []).append(kind.partition(call))
    return kind.request(
        group_id=calls[0].key.group_id,
        topics=[kind.topic(topic_id=topic_id.bytes, partitions=partitions) for topic_id, partitions in topics.items()],
    )


def calls_of(request: Any) -> Iterator[Call]:
    """The calls in a request."""
    call = _CALLS[type(request)]
    for topic in request.topics:
        topic_id = UUID(bytes=bytes(topic.topic_id))
        for partition in topic.partitions:
            yield call(SharePartitionKey(request.group_id, topic_id, partition.partition), partition)


def _initialized(call: Initialize) -> wire.InitializedSharePartition:
    return wire.InitializedSharePartition(
        partition=call.key.partition, state_epoch=call.state_epoch, start_offset=call.start_offset
    )


def _written(call: Write) -> wire.WrittenSharePartition:
    change = call.change
    return wire.WrittenSharePartition(
        partition=call.key.partition,
        state_epoch=change.state_epoch,
        leader_epoch=change.leader_epoch,
        start_offset=change.start_offset,
        delivery_complete_count=change.delivery_complete_count,
        state_batches=wire_batches(change.batches),
    )


def _leader(call: Read) -> wire.ShareLeader:
    return wire.ShareLeader(
        partition=call.key.partition,
        leader_epoch=call.leader_epoch,
        log_end_offset=call.log_end_offset,
        log_epochs=[wire.LeaderEpochStart(epoch=epoch, start_offset=start) for epoch, start in call.log_epochs],
    )


def _read_of(key: SharePartitionKey, leader: wire.ShareLeader) -> Read:
    epochs = tuple((each.epoch, each.start_offset) for each in leader.log_epochs)
    return Read(key, leader.leader_epoch, leader.log_end_offset, epochs)


def _write(key: SharePartitionKey, partition: wire.WrittenSharePartition) -> Write:
    return Write(
        key,
        StateChange(
            partition.state_epoch,
            partition.leader_epoch,
            partition.start_offset,
            partition.delivery_complete_count,
            state_batches(partition.state_batches),
        ),
    )


# Responses.


def response_of(request: Any, results: Iterable[tuple[SharePartitionKey, Result]]) -> Any:
    """The response to a request, from the results of its calls in order."""
    kind = _KINDS[_KIND_OF_REQUEST[type(request)]]
    topics: dict[UUID, list[Any]] = {}
    for key, result in results:
        if isinstance(result, ApiError):
            one = kind.result(partition=key.partition, error_code=result.code, error_message=result.message)
        else:
            one = kind.answer(key.partition, result)
        topics.setdefault(key.topic_id, []).append(one)
    return kind.response(
        results=[kind.topic_results(topic_id=topic_id.bytes, partitions=found) for topic_id, found in topics.items()]
    )


def results_of(calls: Sequence[Call], response: Any) -> Mapping[SharePartitionKey, Result]:
    """
    The results of calls, by share partition, from the response to their request.

    One that is missing in the response is an error.
    """
    kind, group_id = _KINDS[type(calls[0])], calls[0].key.group_id
    found: dict[SharePartitionKey, Any] = {
        SharePartitionKey(group_id, UUID(bytes=bytes(topic.topic_id)), partition.partition): partition
        for topic in response.results
        for partition in topic.partitions
    }
    results: dict[SharePartitionKey, Result] = {}
    for call in calls:
        partition = found.get(call.key)
        if partition is None:
            results[call.key] = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{call.key} is missing in the response")
        elif partition.error_code:
            results[call.key] = error_of(partition.error_code, partition.error_message)
        else:
            results[call.key] = kind.understood(call, partition)
    return results


def _done(number: int, result: ShareState | None) -> wire.ShareStateResult:
    return wire.ShareStateResult(partition=number)


def _read(number: int, state: ShareState | None) -> wire.ReadSharePartition:
    assert state is not None
    return wire.ReadSharePartition(
        partition=number,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=wire_batches(state.batches),
    )


def _state_read(call: Read, partition: wire.ReadSharePartition) -> ShareState:
    return ShareState(
        partition.state_epoch,
        call.leader_epoch,
        partition.start_offset,
        state_batches(partition.state_batches),
        UNKNOWN_COUNT,
    )


def _summarized(number: int, state: ShareState | None) -> wire.SummarizedSharePartition:
    assert state is not None
    return wire.SummarizedSharePartition(
        partition=number,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )


def _summary(call: Summarize, partition: wire.SummarizedSharePartition) -> ShareState:
    return ShareState(
        partition.state_epoch,
        partition.leader_epoch,
        partition.start_offset,
        (),
        partition.delivery_complete_count,
    )


@frozen
class _Kind:
    """
    The messages of a kind of call.

    :ivar partition: of a call in a request; ``answer``: of a result in a response; ``understood``: and back.
    """

    request: type[Any]
    topic: type[Any]
    partition: Callable[[Any], Any]
    response: type[Any]
    topic_results: type[Any]
    result: type[Any]
    answer: Callable[[int, ShareState | None], Any]
    understood: Callable[[Any, Any], ShareState | None]


def _changing(request: type[Any], topic: type[Any], partition: Callable[[Any], Any], response: type[Any]) -> _Kind:
    return _Kind(
        request,
        topic,
        partition,
        response,
        wire.ShareStateTopicResults,
        wire.ShareStateResult,
        _done,
        lambda call, partition: None,
    )


_KINDS: Mapping[type[Any], _Kind] = {
    Initialize: _changing(
        wire.InitializeShareGroupStateRequest,
        wire.InitializedShareTopic,
        _initialized,
        wire.InitializeShareGroupStateResponse,
    ),
    Write: _changing(
        wire.WriteShareGroupStateRequest, wire.WrittenShareTopic, _written, wire.WriteShareGroupStateResponse
    ),
    Delete: _changing(
        wire.DeleteShareGroupStateRequest,
        wire.DeletedShareTopic,
        lambda call: wire.DeletedSharePartition(partition=call.key.partition),
        wire.DeleteShareGroupStateResponse,
    ),
    Read: _Kind(
        wire.ReadShareGroupStateRequest,
        wire.ShareLeaderTopic,
        _leader,
        wire.ReadShareGroupStateResponse,
        wire.ReadShareTopic,
        wire.ReadSharePartition,
        _read,
        _state_read,
    ),
    Summarize: _Kind(
        wire.ReadShareGroupStateSummaryRequest,
        wire.SummarizedShareLeaderTopic,
        lambda call: wire.SummarizedShareLeader(partition=call.key.partition, leader_epoch=NO_EPOCH),
        wire.ReadShareGroupStateSummaryResponse,
        wire.SummarizedShareTopic,
        wire.SummarizedSharePartition,
        _summarized,
        _summary,
    ),
}

_KIND_OF_REQUEST: Mapping[type[Any], type[Any]] = {kind.request: call for call, kind in _KINDS.items()}

_CALLS: Mapping[type[Any], Callable[[SharePartitionKey, Any], Call]] = {
    wire.InitializeShareGroupStateRequest: lambda key, of: Initialize(key, of.state_epoch, of.start_offset),
    wire.ReadShareGroupStateRequest: _read_of,
    wire.WriteShareGroupStateRequest: _write,
    wire.ReadShareGroupStateSummaryRequest: lambda key, of: Summarize(key),
    wire.DeleteShareGroupStateRequest: lambda key, of: Delete(key),
}
