"""
Creates the internal topics (``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``,
``__remote_log_metadata``) on first use (Kafka: AutoTopicCreationManager).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.controller.topic_plan import NewTopic
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.config import ConfigView, keys
from logbus.errors import ApiError, ErrorCode
from logbus.model import OFFSETS_TOPIC, REMOTE_LOG_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTIONS_TOPIC

CREATE_TIMEOUT_MS = 30_000


@define(eq=False)
class InternalTopics:
    """
    Creates an internal topic if it is missing. Concurrent requests for a topic share one creation.
    """

    _metadata: ClusterMetadata
    _topics: TopicAdminForwarder
    _config: ConfigView
    _waiting: dict[str, list[Deferred[None]]] = field(factory=dict, init=False)
    _log = Logger()

    def plan(self, name: str) -> NewTopic:
        """The settings of a topic to create: an internal one's from the configuration, any other's by default."""
        plan = self._plans.get(name)
        return NewTopic(name) if plan is None else plan()

    @property
    def _plans(self) -> Mapping[str, Callable[[], NewTopic]]:
        return {
            OFFSETS_TOPIC: self._offsets,
            TRANSACTIONS_TOPIC: self._transactions,
            SHARE_GROUP_STATE_TOPIC: self._share_states,
            REMOTE_LOG_METADATA_TOPIC: self._remote_log_metadata,
        }

    def _factor(self, wanted: int) -> int:
        """The replication factor, limited to the number of brokers."""
        return min(wanted, max(1, len(self._metadata.brokers)))

    def _transactions(self) -> NewTopic:
        get = self._config.get
        factor = self._factor(get(keys.TRANSACTION_STATE_LOG_REPLICATION_FACTOR))
        return NewTopic(
            TRANSACTIONS_TOPIC,
            num_partitions=get(keys.TRANSACTION_STATE_LOG_NUM_PARTITIONS),
            replication_factor=factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(min(get(keys.TRANSACTION_STATE_LOG_MIN_ISR), factor)),
                "segment.bytes": str(get(keys.TRANSACTION_STATE_LOG_SEGMENT_BYTES)),
                "unclean.leader.election.enable": "false",
            },
        )

    def _share_states(self) -> NewTopic:
        get = self._config.get
        factor = self._factor(get(keys.SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR))
        return NewTopic(
            SHARE_GROUP_STATE_TOPIC,
            num_partitions=get(keys.SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS),
            replication_factor=factor,
            configs={
                # The coordinator deletes what it does not need any more.
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(min(get(keys.SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR), factor)),
                "retention.bytes": "-1",
                "retention.ms": "-1",
                "segment.bytes": str(get(keys.SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES)),
                "unclean.leader.election.enable": "false",
            },
        )

    def _offsets(self) -> NewTopic:
        get = self._config.get
        return NewTopic(
            OFFSETS_TOPIC,
            num_partitions=get(keys.OFFSETS_TOPIC_NUM_PARTITIONS),
            replication_factor=self._factor(get(keys.OFFSETS_TOPIC_REPLICATION_FACTOR)),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(get(keys.OFFSETS_TOPIC_SEGMENT_BYTES)),
            },
        )

    def _remote_log_metadata(self) -> NewTopic:
        get = self._config.get
        return NewTopic(
            REMOTE_LOG_METADATA_TOPIC,
            num_partitions=get(keys.REMOTE_LOG_METADATA_TOPIC_NUM_PARTITIONS),
            replication_factor=self._factor(get(keys.REMOTE_LOG_METADATA_TOPIC_REPLICATION_FACTOR)),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "unclean.leader.election.enable": "false",
            },
        )

    def ensure(self, name: str) -> Deferred[None]:
        """
        Fires as soon as the topic is served.

        :raise ApiError: COORDINATOR_NOT_AVAILABLE: it cannot be made now.
        """
        done: Deferred[None] = Deferred()
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.append(done)
        elif self._metadata.topic(name) is not None:
            done.callback(None)
        else:
            self._waiting[name] = [done]
            Deferred.fromCoroutine(self._make(name))
        return done

    async def _make(self, name: str) -> None:
        refused: ApiError | None = None
        try:
            (outcome,) = await self._topics.create_topics([self.plan(name)], timeout_ms=CREATE_TIMEOUT_MS)
            if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                refused = outcome
        except ApiError as error:
            refused = error
        except Exception as error:
            self._log.failure("{topic} cannot be created", topic=name)
            refused = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error))
        for done in self._waiting.pop(name):
            # The caller may have cancelled.
            if done.called:
                continue
            if refused is None:
                done.callback(None)
            else:
                sentence = f"{name} cannot be created: {refused.message}"
                done.errback(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, sentence))
