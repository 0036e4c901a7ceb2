"""
API versions of Kafka releases, the names of all APIs, and the versions and features that a broker advertises.

Clients infer a release from the advertised versions, and some trust a release number without asking: the table must be
that of one release, and never more than is served. It leaves out APIs between Kafka's own brokers and controllers (4–7,
52–56, 58–59, 62–64, 67, 70, 73, 80–87), which are not supported, and the consumer group protocol of KIP-848 (68, 69)
before 4.0, where it was an early access feature, listed but off.

Four features go with the versions. ``group.version`` 1: the consumer group protocol is on. ``share.version`` 1: share
groups are on (KIP-932). ``streams.version`` 1: streams groups are on (KIP-1071). ``transaction.version`` 2: each
transaction has an epoch of its own (KIP-890), and clients omit AddPartitionsToTxn and rely on Produce, EndTxn and
TxnOffsetCommit instead. Clients fail if they find these versions without the feature, so both are advertised together
or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from logbus.errors import ConfigError
from logbus.wire.version_range import VersionRange

RELEASES = ("2.1", "2.8", "3.0", "3.5", "3.9", "4.0", "4.3")
"""The known releases, oldest first."""

DEFAULT_RELEASE = "4.3"
"""The release advertised by default."""

GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"

CONSUMER_GROUP_APIS = (68, 69)
"""The APIs of KIP-848."""

SHARE_GROUP_APIS = (76, 77, 78, 79)
"""The APIs that members of share groups use (KIP-932)."""

STREAMS_GROUP_APIS = (88, 89)
"""The APIs of KIP-1071."""

_PRODUCE = 0

# Produce, EndTxn, TxnOffsetCommit: the first version of each that belongs to the second version of transactions.
_TRANSACTIONS_2 = {_PRODUCE: 12, 26: 5, 28: 5}

# What brokers of each release answer to ApiVersions. A dash: the release does not have the API.
_TABLE = """
                                 2.1   2.8   3.0   3.5   3.9   4.0   4.3
 0  Produce                      0-7   0-9   0-9   0-9   0-11  0-12  0-13
 1  Fetch                        0-10  0-12  0-12  0-15  0-17  4-17  4-18
 2  ListOffsets                  0-4   0-6   0-7   0-8   0-9   1-10  1-11
 3  Metadata                     0-7   0-11  0-11  0-12  0-12  0-13  0-13
 8  OffsetCommit                 0-6   0-8   0-8   0-8   0-9   2-9   2-10
 9  OffsetFetch                  0-5   0-7   0-8   0-8   0-9   1-9   1-10
10  FindCoordinator              0-2   0-3   0-4   0-4   0-6   0-6   0-6
11  JoinGroup                    0-3   0-7   0-7   0-9   0-9   2-9   0-9
12  Heartbeat                    0-2   0-4   0-4   0-4   0-4   0-4   0-4
13  LeaveGroup                   0-2   0-4   0-4   0-5   0-5   0-5   0-5
14  SyncGroup                    0-2   0-5   0-5   0-5   0-5   0-5   0-5
15  DescribeGroups               0-2   0-5   0-5   0-5   0-5   0-6   0-6
16  ListGroups                   0-2   0-4   0-4   0-4   0-5   0-5   0-5
17  SaslHandshake                0-1   0-1   0-1   0-1   0-1   0-1   0-1
18  ApiVersions                  0-2   0-3   0-3   0-3   0-4   0-4   0-4
19  CreateTopics                 0-3   0-7   0-7   0-7   0-7   2-7   2-7
20  DeleteTopics                 0-3   0-6   0-6   0-6   0-6   1-6   1-6
21  DeleteRecords                0-1   0-2   0-2   0-2   0-2   0-2   0-2
22  InitProducerId               0-1   0-4   0-4   0-4   0-5   0-5   0-5
23  OffsetForLeaderEpoch         0-2   0-4   0-4   0-4   0-4   2-4   2-4
24  AddPartitionsToTxn           0-1   0-3   0-3   0-3   0-5   0-5   0-5
25  AddOffsetsToTxn              0-1   0-3   0-3   0-3   0-4   0-4   0-4
26  EndTxn                       0-1   0-3   0-3   0-3   0-4   0-5   0-5
27  WriteTxnMarkers              0     0-1   0-1   0-1   0-1   1     1-2
28  TxnOffsetCommit              0-2   0-3   0-3   0-3   0-4   0-5   0-5
29  DescribeAcls                 0-1   0-2   0-2   0-3   0-3   1-3   1-3
30  CreateAcls                   0-1   0-2   0-2   0-3   0-3   1-3   1-3
31  DeleteAcls                   0-1   0-2   0-2   0-3   0-3   1-3   1-3
32  DescribeConfigs              0-2   0-4   0-4   0-4   0-4   1-4   1-4
33  AlterConfigs                 0-1   0-2   0-2   0-2   0-2   0-2   0-2
34  AlterReplicaLogDirs          0-1   0-2   0-2   0-2   0-2   1-2   1-2
35  DescribeLogDirs              0-1   0-2   0-2   0-4   0-4   1-4   1-5
36  SaslAuthenticate             0     0-2   0-2   0-2   0-2   0-2   0-2
37  CreatePartitions             0-1   0-3   0-3   0-3   0-3   0-3   0-3
38  CreateDelegationToken        0-1   0-2   0-2   0-3   0-3   1-3   1-3
39  RenewDelegationToken         0-1   0-2   0-2   0-2   0-2   1-2   1-2
40  ExpireDelegationToken        0-1   0-2   0-2   0-2   0-2   1-2   1-2
41  DescribeDelegationToken      0-1   0-2   0-2   0-3   0-3   1-3   1-3
42  DeleteGroups                 0-1   0-2   0-2   0-2   0-2   0-2   0-2
43  ElectLeaders                 -     0-2   0-2   0-2   0-2   0-2   0-2
44  IncrementalAlterConfigs      -     0-1   0-1   0-1   0-1   0-1   0-1
45  AlterPartitionReassignments  -     0     0     0     0     0     0-1
46  ListPartitionReassignments   -     0     0     0     0     0     0
47  OffsetDelete                 -     0     0     0     0     0     0
48  DescribeClientQuotas         -     0-1   0-1   0-1   0-1   0-1   0-1
49  AlterClientQuotas            -     0-1   0-1   0-1   0-1   0-1   0-1
50  DescribeUserScramCredentials -     0     0     0     0     0     0
51  AlterUserScramCredentials    -     0     0     0     0     0     0
57  UpdateFeatures               -     0     0     0-1   0-1   0-2   0-2
60  DescribeCluster              -     0     0     0     0-1   0-2   0-2
61  DescribeProducers            -     0     0     0     0     0     0
65  DescribeTransactions         -     -     0     0     0     0     0
66  ListTransactions             -     -     0     0     0-1   0-1   0-2
68  ConsumerGroupHeartbeat       -     -     -     -     -     0-1   0-1
69  ConsumerGroupDescribe        -     -     -     -     -     0-1   0-1
74  ListConfigResources          -     -     -     -     -     0     0-1
75  DescribeTopicPartitions      -     -     -     -     -     0     0
76  ShareGroupHeartbeat          -     -     -     -     -     -     1
77  ShareGroupDescribe           -     -     -     -     -     -     1
78  ShareFetch                   -     -     -     -     -     -     1-2
79  ShareAcknowledge             -     -     -     -     -     -     1-2
88  StreamsGroupHeartbeat        -     -     -     -     -     -     0
89  StreamsGroupDescribe         -     -     -     -     -     -     0
90  DescribeShareGroupOffsets    -     -     -     -     -     -     0-1
91  AlterShareGroupOffsets       -     -     -     -     -     -     0
92  DeleteShareGroupOffsets      -     -     -     -     -     -     0
"""

_header, *_rows = [line.split() for line in _TABLE.strip("\n").splitlines()]

# APIs that the table leaves out.
_UNLISTED = {
    4: "LeaderAndIsr",
    5: "StopReplica",
    6: "UpdateMetadata",
    7: "ControlledShutdown",
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    55: "DescribeQuorum",
    56: "AlterPartition",
    58: "Envelope",
    59: "FetchSnapshot",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    64: "UnregisterBroker",
    67: "AllocateProducerIds",
    70: "ControllerRegistration",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    73: "AssignReplicasToDirs",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
}

KAFKA_API_NAMES = {int(key): name for key, name, *_ in _rows} | _UNLISTED
"""The names of Kafka's APIs by key, also of those without messages here."""


def release_table(release: str) -> Mapping[int, VersionRange]:
    """
    The API versions of a Kafka release, by API key.

    :raises ConfigError: the release is none of :data:`RELEASES`.
    """
    if release not in RELEASES:
        raise ConfigError(f"{release!r} is not a Kafka release whose API table is known; known: {', '.join(RELEASES)}")
    return _columns()[release]


def advertised_table(release: str | None, served: Mapping[int, tuple[int, int]]) -> dict[int, VersionRange]:
    """
    The API versions to advertise: those that both the release and this broker have.

    Produce is advertised from version 0 on if it is served at all, though versions 0 to 2 are refused: librdkafka
    before 2.11 takes a broker without them for one that cannot decompress (KAFKA-18659: Kafka 4 does the same).

    :param release: one of :data:`RELEASES`, or None for :data:`DEFAULT_RELEASE`.
    :param served: the lowest and the highest supported version, by API key.
    :raises ConfigError: the release is unknown.
    """
    table = release_table(release or DEFAULT_RELEASE)
    advertised: dict[int, VersionRange] = {}
    for key, (lowest, highest) in sorted(served.items()):
        if key in table:
            common = VersionRange(max(lowest, table[key].min), min(highest, table[key].max))
            if common.min <= common.max:
                advertised[key] = common._replace(min=0) if key == _PRODUCE else common
    if not _has_transactions_2(advertised):
        for key in _TRANSACTIONS_2.keys() & advertised.keys():
            known = advertised.pop(key)
            if known.min < _TRANSACTIONS_2[key]:
                advertised[key] = known._replace(max=min(known.max, _TRANSACTIONS_2[key] - 1))
    return advertised


def finalized_features(advertised: Mapping[int, VersionRange]) -> Mapping[str, int]:
    """The finalized feature levels of a broker with this table (KIP-584)."""
    features = {}
    if all(key in advertised for key in CONSUMER_GROUP_APIS):
        features[GROUP_VERSION] = 1
    if all(key in advertised for key in SHARE_GROUP_APIS):
        features[SHARE_VERSION] = 1
    if all(key in advertised for key in STREAMS_GROUP_APIS):
        features[STREAMS_VERSION] = 1
    if _has_transactions_2(advertised):
        features[TRANSACTION_VERSION] = 2
    return features


def _has_transactions_2(advertised: Mapping[int, VersionRange]) -> bool:
    return all(key in advertised and advertised[key].includes(first) for key, first in _TRANSACTIONS_2.items())


@cache
def _columns() -> dict[str, dict[int, VersionRange]]:
    columns: dict[str, dict[int, VersionRange]] = {release: {} for release in RELEASES}
    if tuple(_header) != RELEASES:
        raise AssertionError(_header)
    for key, _, *cells in _rows:
        for release, cell in zip(RELEASES, cells, strict=True):
            if cell != "-":
                columns[release][int(key)] = VersionRange.parse(cell)
    return columns
