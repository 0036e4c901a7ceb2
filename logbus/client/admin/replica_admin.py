"""The admin client's part for replicas: leader elections and reassignments (KIP-455, KIP-460)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.client.admin.config_admin import response_error
from logbus.client.cluster.cluster import Cluster
from logbus.client.retry import api_error
from logbus.coroutines import returns_deferred, sleep
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition, group_by_topic, numbers_by_topic
from logbus.wire.messages.elections import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from logbus.wire.messages.partitions import TopicPartitionIndexes, TopicPartitions
from logbus.wire.messages.topics import DeleteTopicsRequest
from logbus.wire.schema import replaced

K = TypeVar("K")
V = TypeVar("V")

_ATTEMPTS = 5


@frozen
class Reassignment:
    """
    A reassignment in progress.

    :ivar replicas: the current replicas, including ``adding`` and ``removing``.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas at the end."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


class ReplicaAdmin:
    """The part of :class:`~logbus.client.admin.admin_client.AdminClient` for leaders and replicas."""

    _cluster: Cluster
    _timeout: float

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> Deferred[dict[TopicPartition, ApiError | None]]:
        """
        Elect the preferred leaders; partitions that they lead already are not in the result.

        :param partitions: None: all.
        :param unclean: instead, elect any live replica for partitions without a leader. Committed records that it lacks
            are lost.
        """
        wanted = None
        if partitions is not None:
            by_topic = numbers_by_topic(dict.fromkeys(partitions))
            wanted = [TopicPartitions(topic=topic, partitions=each) for topic, each in by_topic.items()]
        request = ElectLeadersRequest(
            election_type=int(unclean), topic_partitions=wanted, timeout_ms=int(self._timeout * 1000)
        )

        def read(response: ElectLeadersResponse) -> dict[TopicPartition, ApiError | None]:
            if response.error_code:
                raise api_error(response.error_code, "the election", None)
            answers = {}
            for topic in response.replica_election_results:
                self._cluster.forget(topic.topic)
                for each in topic.partition_result:
                    if each.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                        name = TopicPartition(topic.topic, each.partition_id)
                        answers[name] = response_error(each.error_code, str(name), each.error_message)
            return answers

        return self._at_controller(request, read)

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Deferred[dict[TopicPartition, ApiError | None]]:
        """
        Start to move replicas, or cancel it.

        :param targets: the brokers that get the replicas of each partition, preferred leader first; None cancels the
            current reassignment.
        """
        by_topic = group_by_topic(
            (
                each,
                ReassignablePartition(
                    partition_index=each.partition, replicas=None if replicas is None else list(replicas)
                ),
            )
            for each, replicas in targets.items()
        )
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=int(self._timeout * 1000),
            topics=[ReassignableTopic(name=topic, partitions=each) for topic, each in by_topic.items()],
        )

        def read(response: AlterPartitionReassignmentsResponse) -> dict[TopicPartition, ApiError | None]:
            if response.error_code:
                raise api_error(response.error_code, "the reassignment", response.error_message)
            answers = {}
            for topic in response.responses:
                self._cluster.forget(topic.name)
                for each in topic.partitions:
                    name = TopicPartition(topic.name, each.partition_index)
                    answers[name] = response_error(each.error_code, str(name), each.error_message)
            return answers

        return self._at_controller(request, read)

    def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> Deferred[dict[TopicPartition, Reassignment]]:
        """The reassignments in progress, of these partitions or (None) of all."""
        wanted = None
        if partitions is not None:
            wanted = [
                TopicPartitionIndexes(name=topic, partition_indexes=each)
                for topic, each in numbers_by_topic(dict.fromkeys(partitions)).items()
            ]
        request = ListPartitionReassignmentsRequest(timeout_ms=int(self._timeout * 1000), topics=wanted)

        def read(response: ListPartitionReassignmentsResponse) -> dict[TopicPartition, Reassignment]:
            if response.error_code:
                raise api_error(response.error_code, "the list of reassignments", response.error_message)
            return {
                TopicPartition(topic.name, each.partition_index): Reassignment(
                    tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
                )
                for topic in response.topics
                for each in topic.partitions
            }

        return self._at_controller(request, read)

    @returns_deferred
    async def _at_controller(self, request: Any, read: Callable[[Any], dict[K, V]]) -> dict[K, V]:
        """
        Send a request to the controller, and retry if that has moved; what is over a quota is retried after the time
        that the broker says, within the timeout (KIP-599).
        """
        attempt, done, clock = 0, dict[K, V](), self._cluster.reactor
        deadline = clock.seconds() + self._timeout
        while True:
            channel = await self._cluster.controller()
            response = await channel.request(request, None, self._timeout + self._cluster.timeout)
            attempt += 1
            try:
                answers = read(response)
            except ApiError as e:
                if e.code is not ErrorCode.NOT_CONTROLLER or attempt == _ATTEMPTS:
                    raise
            else:
                throttled = [name for name, one in answers.items() if _has(one, ErrorCode.THROTTLING_QUOTA_EXCEEDED)]
                wait = response.throttle_time_ms / 1000 if throttled else 0
                if throttled and clock.seconds() + wait <= deadline:
                    done |= {name: answer for name, answer in answers.items() if name not in throttled}
                    request = _only(request, throttled)
                    attempt -= 1
                    await sleep(clock, wait)
                    continue
                if attempt == _ATTEMPTS or not any(_has(one, ErrorCode.NOT_CONTROLLER) for one in answers.values()):
                    return done | answers
            await sleep(clock, self._cluster.backoff.before(attempt))


def _has(answer: object, code: ErrorCode) -> bool:
    return isinstance(answer, ApiError) and answer.code is code


def _only(request: Any, names: Collection[object]) -> Any:
    """A request about some of its topics."""
    some = replaced(request, topics=[topic for topic in request.topics if topic.name in names])
    if isinstance(some, DeleteTopicsRequest):
        some.topic_names = [name for name in some.topic_names if name in names]
    return some
