"""
The table of APIs: builds all handlers with their dependencies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logbus.cluster.forwarding_manager import FORWARDED_API_KEYS
from logbus.config import keys
from logbus.coordination.consumer_group_service import CONSUMER, ConsumerGroupService
from logbus.coordination.offset_commits import OffsetCommits
from logbus.coordination.transactions.add_partitions_to_txn_manager import RetryBackoff
from logbus.coordination.transactions.hanging_transactions import HangingTransactions
from logbus.coordination.transactions.transaction_lookup import TransactionLookup
from logbus.coordination.txn_offset_commits import TxnOffsetCommits
from logbus.handlers.api_versions import ApiVersionsHandlers
from logbus.handlers.ask_plugin import AskPluginHandlers
from logbus.handlers.classic_groups import ClassicGroupHandlers
from logbus.handlers.coalesced_produce import CoalescedProduceHandlers
from logbus.handlers.config_resources import ConfigResourceHandlers
from logbus.handlers.configs import ConfigHandlers
from logbus.handlers.consumer_groups import ConsumerGroupHandlers
from logbus.handlers.current_leaders import CurrentLeaders
from logbus.handlers.describe_producers import DescribeProducersHandlers
from logbus.handlers.describe_topic_partitions import DescribeTopicPartitionsHandlers
from logbus.handlers.elections import ElectionHandlers
from logbus.handlers.fetch import FetchHandlers
from logbus.handlers.fetch_sessions import FetchSessionCache
from logbus.handlers.find_coordinator import FindCoordinatorHandlers
from logbus.handlers.forward import ForwardHandlers
from logbus.handlers.group_admin import GroupAdminHandlers
from logbus.handlers.group_offsets import GroupOffsetHandlers
from logbus.handlers.init_producer_id import InitProducerIdHandlers
from logbus.handlers.inter_broker import InterBrokerHandlers
from logbus.handlers.inter_broker_identity import InterBrokerIdentity
from logbus.handlers.log_dirs import LogDirHandlers
from logbus.handlers.log_offsets import LogOffsetHandlers
from logbus.handlers.metadata import MetadataHandlers
from logbus.handlers.offset_commit_validator import OffsetCommitValidator
from logbus.handlers.produce import ProduceHandlers
from logbus.handlers.produce_errors import ProduceErrors
from logbus.handlers.request_router import RequestRouter
from logbus.handlers.startup_gate import ABOUT_THE_CLUSTER
from logbus.handlers.topics import TopicHandlers
from logbus.handlers.transaction_admin import TransactionAdminHandlers
from logbus.handlers.transaction_verification import TransactionVerification
from logbus.handlers.transactions import TransactionHandlers
from logbus.handlers.txn_offset_commit import TxnOffsetCommitHandlers
from logbus.handlers.write_txn_markers import WriteTxnMarkersHandlers
from logbus.model import INTERNAL_TOPICS
from logbus.wire.kafka_releases import CONSUMER_GROUP_APIS, advertised_table
from logbus.wire.version_range import VersionRange

if TYPE_CHECKING:
    from logbus.broker import Broker


def routes(broker: Broker, release: str | None) -> tuple[RequestRouter, ProduceHandlers, FetchHandlers]:
    """
    Return the table, and the handlers that have counters.

    :param release: advertise this Kafka release's versions; None: the default table.
    """
    config, metadata, replicas, topics = broker.config, broker.metadata, broker.replicas, broker.topic_admin
    groups, upkeep = broker.group_coordinator, broker.upkeep
    rules = OffsetCommitValidator(metadata, config)

    def verifies() -> bool:
        return config.get(keys.TRANSACTION_PARTITION_VERIFICATION_ENABLE)

    backoff = RetryBackoff.of(config)
    commits = TxnOffsetCommits(groups, broker.add_partitions_manager, verifies, backoff)
    verification = TransactionVerification(
        broker.add_partitions_manager, broker.reactor, verifies, backoff, broker.slice_scheduler
    )
    produce = ProduceHandlers(
        replicas,
        broker.reactor,
        broker.wall_clock,
        INTERNAL_TOPICS,
        ProduceErrors(CurrentLeaders(metadata)),
        metadata,
        verification,
    )
    lookup = TransactionLookup(broker.broker_id, metadata, broker.transactions, broker.peers)
    sessions = FetchSessionCache(
        replicas,
        broker.reactor.seconds,
        broker.random,
        config.get(keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS),
        config.get(keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_PARTITIONS),
    )
    fetch = FetchHandlers(broker.reader, replicas, metadata, sessions, config.get(keys.FETCH_MAX_BYTES))
    advertised: dict[int, VersionRange] = {}
    router = RequestRouter()
    identity = InterBrokerIdentity(broker.connections.warning_limiter)
    forwarding = ForwardHandlers(router, broker.controller, broker.forwarder, identity)
    router.add(
        [
            ApiVersionsHandlers(advertised),
            MetadataHandlers(
                metadata,
                broker.topics_anywhere,
                INTERNAL_TOPICS,
                lambda: config.get(keys.AUTO_CREATE_TOPICS_ENABLE),
                broker.internal_topics.plan,
            ),
            produce,
            CoalescedProduceHandlers(produce),
            fetch,
            LogOffsetHandlers(replicas, broker.reactor),
            DescribeProducersHandlers(replicas, broker.reactor),
            TopicHandlers(topics, metadata, config, lambda: config.get(keys.DELETE_TOPIC_ENABLE)),
            DescribeTopicPartitionsHandlers(
                metadata, INTERNAL_TOPICS, lambda: config.get(keys.MAX_REQUEST_PARTITION_SIZE_LIMIT)
            ),
            ConfigHandlers(config, metadata, topics, broker.peers),
            ConfigResourceHandlers(metadata),
            ElectionHandlers(broker.partition_admin),
            LogDirHandlers(replicas),
            InitProducerIdHandlers(broker.producer_ids, broker.transactions),
            FindCoordinatorHandlers(groups, broker.transactions, broker.internal_topics, metadata),
            ClassicGroupHandlers(groups),
            GroupOffsetHandlers(groups, OffsetCommits(groups), upkeep, rules),
            TxnOffsetCommitHandlers(groups, commits, rules),
            GroupAdminHandlers(groups, upkeep),
            ConsumerGroupHandlers(ConsumerGroupService(groups)),
            TransactionAdminHandlers(broker.transactions),
            TransactionHandlers(broker.transactions, groups, metadata, INTERNAL_TOPICS),
            WriteTxnMarkersHandlers(broker.marker_writer, HangingTransactions(replicas, lookup, INTERNAL_TOPICS)),
            InterBrokerHandlers(broker.broker_id, metadata, broker.store, broker.receiver, broker.controller, identity),
            forwarding,
            AskPluginHandlers(broker.plugin_calls, identity),
        ]
    )
    router.wrap(FORWARDED_API_KEYS, forwarding.wrap)
    router.wrap(ABOUT_THE_CLUSTER, broker.opening.wrap)
    served = dict(router.served)
    if CONSUMER not in config.get(keys.GROUP_COORDINATOR_REBALANCE_PROTOCOLS):
        for key in CONSUMER_GROUP_APIS:
            del served[key]
    advertised.update(advertised_table(release, served))
    return router, produce, fetch
