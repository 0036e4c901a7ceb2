"""
The coordinators of groups, transactions and share partitions.
"""

from __future__ import annotations

from functools import partial

from logbus.broker.cluster_member import ClusterMember
from logbus.broker.environment import Environment
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.cluster.topic_admin_forwarder import TopicAdminForwarder
from logbus.config import keys
from logbus.coordination.group_cleanup import GroupCleanup
from logbus.coordination.group_coordinator import GroupCoordinator
from logbus.coordination.group_lag_history import LagHistory
from logbus.coordination.group_lags import GroupLags
from logbus.coordination.internal_topics import InternalTopics
from logbus.coordination.remote_end_offsets import RemoteEndOffsets
from logbus.coordination.share_group_offsets import ShareGroupOffsets
from logbus.coordination.share_group_service import ShareGroupService
from logbus.coordination.share_group_states import ShareGroupStates
from logbus.coordination.share_state.persister import SharePersister
from logbus.coordination.share_state.share_coordinator import ShareCoordinator
from logbus.coordination.share_state.share_state_upkeep import ShareStateUpkeep
from logbus.coordination.streams_group_service import StreamsGroupService
from logbus.coordination.streams_internal_topics import StreamsInternalTopics
from logbus.coordination.transactions.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from logbus.coordination.transactions.hanging_transactions import HangingTransactions
from logbus.coordination.transactions.marker_channel_manager import MarkerChannelManager
from logbus.coordination.transactions.marker_writer import MarkerWriter
from logbus.coordination.transactions.transaction_coordinator import TransactionCoordinator
from logbus.coordination.transactions.transaction_expiration import TransactionExpiration
from logbus.coordination.transactions.transaction_lookup import TransactionLookup
from logbus.coordination.transactions.transaction_metrics import TransactionMetrics
from logbus.model import INTERNAL_TOPICS


class Coordinators:
    """
    The coordinators of groups, transactions and share partitions, with their upkeep.

    :ivar add_partitions_manager: asks the coordinators of transactions, on any broker.
    :ivar hanging_transactions: finds transactions that no coordinator ends.
    :ivar share_persister: reads and writes the states of share partitions at their coordinators, on any broker.
    """

    def __init__(
        self, env: Environment, member: ClusterMember, replicas: ReplicaManager, topics: TopicAdminForwarder
    ) -> None:
        config, reactor, metadata, wall_ms = env.config, env.reactor, member.metadata, env.wall_ms
        self.groups = GroupCoordinator(replicas, metadata, config, reactor, wall_ms, env.random)
        self.group_cleanup = GroupCleanup(self.groups)
        self.internal_topics = InternalTopics(metadata, topics, config)
        self.share_states = ShareCoordinator(replicas, metadata, config, reactor, wall_ms)
        self.share_state_upkeep = ShareStateUpkeep(self.share_states, replicas, metadata)
        self.share_persister = SharePersister(
            env.broker_id, metadata, self.share_states, member.peers, self.internal_topics.ensure, reactor
        )
        self.share_groups = ShareGroupService(self.groups, ShareGroupStates(self.groups, self.share_persister))
        self.streams_groups = StreamsGroupService(self.groups, StreamsInternalTopics(topics, reactor))
        self._remote_ends = RemoteEndOffsets(env.broker_id, metadata, member.peers, reactor)
        self.group_lags = GroupLags(self.groups, replicas, self._remote_ends)
        states = self.share_groups.states
        self.groups.resume = states.resume
        self.share_group_offsets = ShareGroupOffsets(self.groups, states, self.group_lags)
        self.lag_history = LagHistory(self.group_lags, reactor, env.wall_clock)
        self.marker_writer = MarkerWriter(
            replicas,
            self.groups.transaction_completed,
            reactor,
            wall_ms,
            partial(config.get, keys.REQUEST_TIMEOUT_MS),
        )
        markers = MarkerChannelManager(env.broker_id, metadata, member.peers, self.marker_writer, env.timers, wall_ms)
        self.transactions = TransactionCoordinator(
            replicas, metadata, config, reactor, wall_ms, member.producer_ids, markers
        )
        self.transaction_expiration = TransactionExpiration(self.transactions)
        self.add_partitions_manager = AddPartitionsToTxnManager(
            env.broker_id, metadata, self.transactions, member.peers
        )
        lookup = TransactionLookup(env.broker_id, metadata, self.transactions, member.peers)
        self.hanging_transactions = HangingTransactions(replicas, lookup, INTERNAL_TOPICS)
        replicas.listeners += [self.groups, self.transactions, self.share_states]
        metadata.when_removed(self.group_cleanup.forget_topics)
        metadata.when_removed(states.forget_topics)
        metadata.when_removed(self.share_state_upkeep.forget_topics)
        for owner in (self.groups, self.share_states, self.group_lags, TransactionMetrics(self.transactions, replicas)):
            owner.register_metrics(env.registry)

    def release(self) -> None:
        """Answer requests that would wait for long: the broker stops."""
        self._remote_ends.stop()
        self.groups.stop()
        self.transactions.stop()
        self.share_persister.stop()
        self.share_states.stop()
