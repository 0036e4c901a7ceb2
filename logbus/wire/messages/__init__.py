"""
The messages, one family per module, and the register of APIs by number.

* ``api_versions``: API versions and features
* ``metadata``: brokers, topics and leaders
* ``sasl``: SASL authentication
* ``records``: Produce, Fetch, and offsets by time and by epoch
* ``topics``: creation and deletion of topics, partitions and records
* ``configs``: settings
* ``elections``: leader elections and reassignments
* ``log_dirs``: log directories
* ``transactions``: producer ids and transactions
* ``transaction_admin``: states of producers and transactions
* ``groups``: coordinators, and groups of the classic protocol
* ``consumer_groups``: groups of the consumer protocol (KIP-848)
* ``offsets``: committed offsets of groups
* ``inter_broker``: messages between brokers
* ``api_names``: the names of APIs

Without an API of their own:

* ``consumer_protocol``: subscriptions and assignments in JoinGroup and SyncGroup
* ``group_log``: records of ``__consumer_offsets``
* ``transaction_log``: records of ``__transaction_state``

A family is imported when one of its APIs is first asked for: declaring all of them at once costs a part of a second.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from attrs import frozen

from logbus.wire.declaration import message_spec
from logbus.wire.messages.api_names import API_NAMES
from logbus.wire.version_range import VersionRange

__all__ = ["API_KEYS", "API_NAMES", "Api", "api"]

_FAMILIES = {
    "records": {0: "Produce", 1: "Fetch", 2: "ListOffsets", 23: "OffsetForLeaderEpoch"},
    "metadata": {3: "Metadata", 60: "DescribeCluster", 75: "DescribeTopicPartitions"},
    "api_versions": {18: "ApiVersions", 57: "UpdateFeatures"},
    "topics": {19: "CreateTopics", 20: "DeleteTopics", 21: "DeleteRecords", 37: "CreatePartitions"},
    "configs": {
        32: "DescribeConfigs",
        33: "AlterConfigs",
        44: "IncrementalAlterConfigs",
        74: "ListConfigResources",
    },
    "sasl": {17: "SaslHandshake", 36: "SaslAuthenticate"},
    "elections": {43: "ElectLeaders", 45: "AlterPartitionReassignments", 46: "ListPartitionReassignments"},
    "log_dirs": {34: "AlterReplicaLogDirs", 35: "DescribeLogDirs"},
    "transactions": {
        22: "InitProducerId",
        24: "AddPartitionsToTxn",
        25: "AddOffsetsToTxn",
        26: "EndTxn",
        27: "WriteTxnMarkers",
        28: "TxnOffsetCommit",
    },
    "transaction_admin": {61: "DescribeProducers", 65: "DescribeTransactions", 66: "ListTransactions"},
    "groups": {
        10: "FindCoordinator",
        11: "JoinGroup",
        12: "Heartbeat",
        13: "LeaveGroup",
        14: "SyncGroup",
        15: "DescribeGroups",
        16: "ListGroups",
        42: "DeleteGroups",
    },
    "consumer_groups": {68: "ConsumerGroupHeartbeat", 69: "ConsumerGroupDescribe"},
    "inter_broker": {
        1000: "Introduce",
        1001: "Announce",
        1002: "AlterPartitions",
        1003: "ShutDown",
        1004: "ReportFailed",
        1005: "Forward",
        1006: "AskPlugin",
        1007: "ReportReplicas",
        1008: "ReportLogEnds",
    },
    "offsets": {8: "OffsetCommit", 9: "OffsetFetch", 47: "OffsetDelete"},
}

_PLACES = {key: (family, name) for family, apis in _FAMILIES.items() for key, name in apis.items()}

#: The APIs that have messages here.
API_KEYS = frozenset(_PLACES)


@frozen
class Api:
    """
    One API: its messages and their supported versions.

    :ivar flexible: versions with compact lengths, tags, and (except for ApiVersions responses) flexible headers.
    """

    key: int
    name: str
    request: type[Any]
    response: type[Any]
    versions: VersionRange
    flexible: VersionRange


@cache
def api(key: int) -> Api:
    """
    The API with Kafka's API key ``key``; its family of messages is imported on first use.

    :raises LookupError: it has no messages here.
    """
    if key not in _PLACES:
        raise LookupError(f"there are no messages for the API {key} ({API_NAMES.get(key, 'unknown')})")
    family, name = _PLACES[key]
    module = import_module(f"{__name__}.{family}")
    request = getattr(module, f"{name}Request")
    response = getattr(module, f"{name}Response")
    spec = message_spec(request)
    return Api(key, name, request, response, spec.versions, spec.flexible)
