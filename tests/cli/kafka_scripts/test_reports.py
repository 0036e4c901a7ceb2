"""The texts that commands print, as Kafka 4.3.1 prints them."""

from __future__ import annotations

import uuid

from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.groups.group_lag import GroupReport, PartitionLag
from logbus.cli.groups.offset_reset import OffsetResetPlan
from logbus.cli.hanging_transactions import OpenTransaction
from logbus.cli.kafka_scripts.acl_command import acl_lines
from logbus.cli.kafka_scripts.broker_api_versions_command import versions_text
from logbus.cli.kafka_scripts.config_entities import Entity
from logbus.cli.kafka_scripts.config_report import config_lines, quota_line, scram_line
from logbus.cli.kafka_scripts.consumer_group_report import (
    deletion_lines,
    list_lines,
    member_lines,
    offset_lines,
    reset_lines,
    state_lines,
    state_remark,
)
from logbus.cli.kafka_scripts.consumer_group_reset import export_lines, imported_targets
from logbus.cli.kafka_scripts.leader_election_command import result_lines
from logbus.cli.kafka_scripts.log_dirs_command import report
from logbus.cli.kafka_scripts.reassign_partitions_command import (
    elsewhere,
    plan_json,
    verify_lines,
)
from logbus.cli.kafka_scripts.reassign_partitions_command import list_lines as reassignment_lines
from logbus.cli.kafka_scripts.topic_description import (
    DescribedTopic,
    DescribeFilter,
    EligibleReplicas,
    topic_lines,
)
from logbus.cli.kafka_scripts.transactions_command import (
    description_table,
    hanging_table,
    list_table,
    producers_table,
)
from logbus.client.admin.config_admin import ConfigEntry, ConfigSource, ConfigSynonym
from logbus.client.admin.group_results import GroupDescription, GroupMember, ListedGroup
from logbus.client.admin.log_dir_admin import LogDir, ReplicaInfo
from logbus.client.admin.quota_admin import QuotaEntity
from logbus.client.admin.replica_admin import Reassignment
from logbus.client.admin.transaction_results import ActiveProducer, ListedTransaction, TransactionDescription
from logbus.client.cluster.cluster import Node, PartitionMetadata, TopicMetadata
from logbus.coordination.offset_target import OffsetChange
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.security.acl.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from logbus.wire.version_range import VersionRange

X0, X1, Y0 = TopicPartition("x", 0), TopicPartition("x", 1), TopicPartition("y", 0)
MEMBER = GroupMember("logbus-cli-e5ded5cc-fc43-4dde-9e2f-240c7383bad6", None, "logbus-cli", "127.0.0.1", (X0, X1))
GROUP = GroupDescription("live", "Stable", "classic", "consumer", "range", Node(0, "127.0.0.1", 9092, None), (MEMBER,))
EMPTY = GroupDescription("gone", "Empty", "classic", "consumer", "", Node(0, "127.0.0.1", 9092, None), ())


def text(lines: object) -> str:
    """Lines as one text, with a mark at the end of each, since spaces count."""
    return "".join(f"{line}|\n" for line in lines)  # type: ignore[attr-defined]


class TopicTextTest(SynchronousTestCase):
    """``kafka-topics --describe``."""

    topic = TopicMetadata(
        "x",
        uuid.UUID(int=1),
        False,
        {
            0: PartitionMetadata(0, 1, 5, (1, 2), (1, 2)),
            1: PartitionMetadata(1, -1, 5, (2, 1, 3), (2,)),
        },
    )
    described = DescribedTopic(
        topic,
        {"cleanup.policy": "compact", "retention.ms": "60000"},
        2,
        frozenset({1, 2, 3}),
        {0: EligibleReplicas(), 1: EligibleReplicas((3,), (1, 3))},
        {1: Reassignment((2, 1, 3), (3,), (1,))},
    )

    def test_lines(self) -> None:
        """The topic, then each partition, with tabs."""
        self.assertEqual(
            text(topic_lines(self.described, DescribeFilter())),
            "Topic: x\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\tPartitionCount: 2\tReplicationFactor: 2\t"
            "Configs: cleanup.policy=compact,retention.ms=60000|\n"
            "\tTopic: x\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: \tLastKnownElr: |\n"
            "\tTopic: x\tPartition: 1\tLeader: none\tReplicas: 2,1,3\tIsr: 2\tAdding Replicas: 3\t"
            "Removing Replicas: 1\tElr: 3\tLastKnownElr: 1,3|\n",
        )

    def test_filters(self) -> None:
        """Filters leave the first line out, and partitions to which none of them applies."""
        for name, numbers in (
            ("under-replicated-partitions", [1]),
            ("unavailable-partitions", [1]),
            ("under-min-isr-partitions", [1]),
            ("at-min-isr-partitions", [0]),
        ):
            lines = list(topic_lines(self.described, DescribeFilter.of([name])))
            self.assertEqual([line.split("\t")[2] for line in lines], [f"Partition: {each}" for each in numbers])

    def test_overrides(self) -> None:
        """Only the first line, of a topic with settings."""
        self.assertEqual(len(list(topic_lines(self.described, DescribeFilter(), only_overrides=True))), 1)
        plain = DescribedTopic(self.topic)
        self.assertEqual(list(topic_lines(plain, DescribeFilter(), only_overrides=True)), [])
        self.assertTrue(list(topic_lines(plain, DescribeFilter()))[1].endswith("\tElr: N/A\tLastKnownElr: N/A"))


class GroupTextTest(SynchronousTestCase):
    """``kafka-consumer-groups``."""

    lags = (PartitionLag(X0, 0, 0, MEMBER), PartitionLag(X1, 2, 3, MEMBER, "", 4))

    def test_list(self) -> None:
        """Names, and types and states if asked for."""
        groups = [ListedGroup("live", "consumer", "Stable", "classic", 0)]
        self.assertEqual(text(list_lines(groups, types=False, states=False)), "live|\n")
        self.assertEqual(
            text(list_lines(groups, types=True, states=True)),
            "GROUP                     TYPE                 STATE               |\n"
            "live                      Classic              Stable              |\n",
        )

    def test_offsets(self) -> None:
        """A row for each partition; the widths follow the longest names."""
        self.assertEqual(
            text(offset_lines(GroupReport(GROUP, self.lags), verbose=False)),
            "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
            "CONSUMER-ID                                     HOST            CLIENT-ID|\n"
            "live            x               0          0               0               0               "
            "logbus-cli-e5ded5cc-fc43-4dde-9e2f-240c7383bad6 /127.0.0.1      logbus-cli|\n"
            "live            x               1          2               3               1               "
            "logbus-cli-e5ded5cc-fc43-4dde-9e2f-240c7383bad6 /127.0.0.1      logbus-cli|\n",
        )

    def test_verbose_offsets(self) -> None:
        """With leader epochs; no member reads these partitions."""
        lags = (PartitionLag(X0, None, 0, None), PartitionLag(X1, 2, 3, None, "", 4))
        self.assertEqual(
            text(offset_lines(GroupReport(EMPTY, lags), verbose=True)),
            "GROUP           TOPIC           PARTITION  LEADER-EPOCH    CURRENT-OFFSET  LOG-END-OFFSET  "
            "LAG             CONSUMER-ID     HOST            CLIENT-ID|\n"
            "gone            x               0          -               -               0               "
            "-               -               -               -|\n"
            "gone            x               1          4               2               3               "
            "1               -               -               -|\n",
        )

    def test_members(self) -> None:
        """A row for each member; the column of instance ids is there if one has one."""
        self.assertEqual(
            text(member_lines(GROUP, verbose=False)),
            "GROUP           CONSUMER-ID                                     HOST            CLIENT-ID       "
            "#PARTITIONS     |\n"
            "live            logbus-cli-e5ded5cc-fc43-4dde-9e2f-240c7383bad6 /127.0.0.1      logbus-cli      "
            "2               |\n",
        )
        self.assertEqual(
            text(member_lines(EMPTY, verbose=False)),
            "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     |\n",
        )
        self.assertEqual(
            text(member_lines(GROUP, verbose=True)).splitlines()[1],
            "live            logbus-cli-e5ded5cc-fc43-4dde-9e2f-240c7383bad6 /127.0.0.1      logbus-cli      "
            "2               -               x:0,1                -               -                   |",
        )

    def test_state(self) -> None:
        """The state of a group, and what is said about it."""
        self.assertEqual(
            text(state_lines(GROUP, verbose=False)),
            "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS|\n"
            "live            127.0.0.1:9092  (0)       range                Stable               1|\n",
        )
        self.assertEqual(state_remark(EMPTY), "Consumer group 'gone' has no active members.")
        self.assertIsNone(state_remark(GROUP))

    def test_resets(self) -> None:
        """New offsets as a table and as CSV, which is read again."""
        changes = [OffsetChange(X0, None, 5), OffsetChange(X1, 7, 2)]
        self.assertEqual(
            text(reset_lines({"gone": changes})),
            "GROUP           TOPIC           PARTITION  NEW-OFFSET|\n"
            "gone            x               0          5|\n"
            "gone            x               1          2|\n",
        )
        plans = [OffsetResetPlan("gone", False, changes)]
        for one_group, first in ((True, "x,0,5"), (False, "gone,x,0,5")):
            lines = export_lines(plans, one_group=one_group)
            self.assertEqual(lines[0], first)
            found = imported_targets(lines, "gone", one_group=one_group)
            self.assertEqual({each: target.value for each, target in found.items()}, {X0: 5, X1: 2})

    def test_deletions(self) -> None:
        """The result of each partition."""
        self.assertEqual(
            text(deletion_lines({X1: "org.Foo: no", X0: None})),
            "TOPIC           PARTITION  STATUS         |\n"
            "x               0          Successful     |\n"
            "x               1          Error: org.Foo: no|\n",
        )


class OtherTextTest(SynchronousTestCase):
    """The other commands."""

    def test_configs(self) -> None:
        """What is set for the entity, or all; with the values that apply without it."""
        synonyms = (
            ConfigSynonym("retention.ms", "1000", ConfigSource.TOPIC),
            ConfigSynonym("log.retention.ms", "604800000", ConfigSource.DEFAULT),
        )
        entries = [
            ConfigEntry("segment.ms", None, ConfigSource.DEFAULT, False, True),
            ConfigEntry("retention.ms", "1000", ConfigSource.TOPIC, False, False, None, synonyms),
        ]
        line = (
            "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000, "
            "DEFAULT_CONFIG:log.retention.ms=604800000}|\n"
        )
        topic = Entity("topics", "x")
        self.assertEqual(text(config_lines(topic, entries, every=False)), f"Dynamic configs for topic x are:|\n{line}")
        self.assertEqual(
            text(config_lines(topic, entries, every=True)),
            f"All configs for topic x are:|\n{line}  segment.ms=null sensitive=true synonyms={{}}|\n",
        )
        self.assertEqual(
            text(config_lines(Entity("brokers", ""), entries, every=False)),
            "Default configs for brokers in the cluster are:|\n",
        )

    def test_quotas(self) -> None:
        """Quotas have Java's form of numbers."""
        entity = QuotaEntity.of({"user": "alice", "client-id": None})
        self.assertEqual(
            quota_line(entity, {"producer_byte_rate": 10485760.0, "consumer_byte_rate": 2048.0}),
            "Quota configs for user-principal 'alice', the default client-id are consumer_byte_rate=2048.0, "
            "producer_byte_rate=1.048576E7",
        )
        self.assertEqual(
            scram_line("alice", {"SCRAM-SHA-512": 4096}),
            "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-512=iterations=4096",
        )

    def test_acls(self) -> None:
        """ACLs by resource."""
        pattern = ResourcePattern(ResourceType.TOPIC, "x", PatternType.PREFIXED)
        entries = [
            AccessControlEntry("User:bob", "*", operation, AclPermission.ALLOW)
            for operation in (AclOperation.WRITE, AclOperation.READ)
        ]
        self.assertEqual(
            text(acl_lines(AclBinding(pattern, entry) for entry in entries)),
            "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=x, patternType=PREFIXED)`:|\n"
            "\t(principal=User:bob, host=*, operation=READ, permissionType=ALLOW)|\n"
            "\t(principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW)|\n"
            "|\n",
        )

    def test_plans(self) -> None:
        """A plan with the directories of replicas; what of it is done, and what is under way."""
        plan = {X1: (1, 2), X0: (0,)}
        self.assertEqual(
            plan_json(plan, {(1, X1): "/data"}),
            '{"version":1,"partitions":[{"topic":"x","partition":0,"replicas":[0],"log_dirs":["any"]},'
            '{"topic":"x","partition":1,"replicas":[1,2],"log_dirs":["/data","any"]}]}',
        )
        self.assertEqual(
            verify_lines({**plan, Y0: (3,)}, {X0: "done", X1: "under way", Y0: "differs"}, {Y0: (1, 2)}),
            [
                "Status of partition reassignment:",
                "Reassignment of partition x-0 is completed.",
                "Reassignment of partition x-1 is still in progress.",
                "There is no active reassignment of partition y-0, but replica set is 1,2 rather than 3.",
                "",
            ],
        )
        self.assertEqual(reassignment_lines({}), ["No partition reassignments found."])
        self.assertEqual(
            reassignment_lines({X0: Reassignment((2, 1, 3), (3,), (1,)), X1: Reassignment((1,), (), ())}),
            [
                "Current partition reassignments:",
                "x-0: replicas: 2,1,3. adding: 3. removing: 1.",
                "x-1: replicas: 1.",
            ],
        )

    def test_transactions(self) -> None:
        """Values are padded to their columns, and have tabs behind them."""
        self.assertEqual(
            list_table([ListedTransaction("billing", 7, "Ongoing", 0)]),
            "TransactionalId\tCoordinator\tProducerId\tTransactionState\t\n"
            "billing        \t0          \t7         \tOngoing         \t",
        )
        producer = ActiveProducer(7, 0, 5, 1795667644246, -1, None)
        self.assertEqual(
            producers_table([producer]).splitlines()[1],
            "7         \t0            \t-1                    \t5           \t1795667644246\t"
            "None                         \t",
        )
        found = TransactionDescription("billing", "Empty", 7, 0, 60000, None, (), Node(0, "127.0.0.1", 9092, None))
        self.assertEqual(
            [each.strip() for each in description_table(found, 0).splitlines()[1].split("\t")],
            ["0", "billing", "7", "0", "Empty", "60000", "None", "None", "", ""],
        )
        hanging = OpenTransaction(X1, producer, 3)
        self.assertEqual(
            [each.strip() for each in hanging_table([hanging], 1795667764246).splitlines()[1].split("\t")],
            ["x", "1", "7", "0", "-1", "3", "1795667644246", "2", ""],
        )

    def test_api_versions(self) -> None:
        """Each API that clients may meet, and the version used of it."""
        served = {0: VersionRange(0, 13), 1: VersionRange(4, 4), 2: VersionRange(9, 11), 3: VersionRange(0, 1)}
        ours = {0: VersionRange(3, 12), 1: VersionRange(4, 18), 2: VersionRange(1, 8), 3: VersionRange(2, 13)}
        lines = versions_text(Node(1, "::1", 9092, "east"), served, ours).splitlines()
        self.assertEqual(
            lines[:6],
            [
                "::1:9092 (id: 1 rack: east isFenced: false) -> (",
                "\tProduce(0): 0 to 13 [usable: 12],",
                "\tFetch(1): 4 [usable: 4],",
                "\tListOffsets(2): 9 to 11 [unusable: node too new],",
                "\tMetadata(3): 0 to 1 [unusable: node too old],",
                "\tOffsetCommit(8): UNSUPPORTED,",
            ],
        )
        self.assertEqual(lines[-2:], ["\tDeleteShareGroupOffsets(92): UNSUPPORTED", ")"])

    def test_directories(self) -> None:
        """A plan can name the directories that replicas are in, as the one for a rollback does."""
        self.assertIsNone(elsewhere({(0, X0): "/a", (1, X0): "/b"}, {(0, X0): "/a"}))
        wrong = elsewhere({(0, X0): "/b"}, {(0, X0): "/a"})
        assert wrong is not None
        self.assertTrue(wrong.startswith("x-0 is in /a of broker 0, not in /b; logbus log-dirs move "))

    def test_elections(self) -> None:
        """Those elected, those that needed no election, and the errors."""
        error = ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "x-1: no")
        self.assertEqual(
            result_lines({X0: None, X1: error}, [X0, X1, TopicPartition("x", 2)], "PREFERRED"),
            [
                "Successfully completed leader election (PREFERRED) for partitions x-0",
                "Valid replica already elected for partitions x-2",
                "Error completing leader election (PREFERRED) for partition: x-1: "
                "org.apache.kafka.common.errors.EligibleLeadersNotAvailableException: no",
            ],
        )

    def test_log_dirs(self) -> None:
        """The directories of brokers, with the partitions of some topics."""
        replicas = {X0: ReplicaInfo(79, 0), TopicPartition("y", 0): ReplicaInfo(1, 2, True)}
        self.assertEqual(
            report({0: [LogDir("/data", replicas=replicas)]}, ["x"]),
            {
                "brokers": [
                    {
                        "broker": 0,
                        "logDirs": [
                            {
                                "partitions": [{"partition": "x-0", "size": 79, "offsetLag": 0, "isFuture": False}],
                                "error": None,
                                "logDir": "/data",
                            }
                        ],
                    }
                ],
                "version": 1,
            },
        )
