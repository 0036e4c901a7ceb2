"""Our commands for Kafka's scripts answer as Kafka's own do, on the same broker."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import confluent_kafka
import pytest
from attrs import frozen

from logbus.testing import Broker
from logbus.testing.settings import Setting
from logbus.testing.waiting import wait_until
from tests.interop.kafka_tools import KafkaTools, Printed

SECONDS = 300.0

SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}

EXCEPTION = "org.apache.kafka.common.errors."


@frozen
class Side:
    """
    Kafka's commands or ours.

    :ivar own: in the names of what this side creates; of one length, since columns are as wide as names.
    """

    own: str
    bootstrap: str
    kafka: KafkaTools | None = None

    def run(self, command: str, *arguments: str, stdin: str = "") -> Printed:
        """
        Run a command; ``OWN`` in its arguments stands for this side's names.
        """
        own = [each.replace("OWN", self.own) for each in arguments]
        # Behind the words, as some of Kafka's commands want it, or before them.
        at = ["--bootstrap-server", self.bootstrap]
        given = [*at, *own] if command in ("kafka-features", "kafka-transactions") else [*own, *at]
        if self.kafka is not None:
            found = self.kafka.run(command, *given, stdin=stdin)
        else:
            words = [sys.executable, "-P", "-m", "logbus.cli.kafka_scripts", command, *given]
            done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False)
            found = Printed(done.returncode, done.stdout, done.stderr)
        return Printed(found.status, found.out.replace(self.own, "OWN"), found.err.replace(self.own, "OWN"))


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    """Kafka's commands and ours, and a broker with a topic, records and a group without members."""
    with Broker(SECURED) as broker, KafkaTools() as kafka:
        theirs, ours = Side("theirs", broker.bootstrap, kafka), Side("ourown", broker.bootstrap)
        theirs.run("kafka-topics", "--create", "--topic", "x", "--partitions", "3", "--config", "retention.ms=-1")
        properties = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
        lines = "h:1,i:2\ta\t1\nh:\tb\t2\nh:é\tc\té\n"
        theirs.run("kafka-console-producer", "--topic", "x", *properties, stdin=lines)
        for scope in (["--to-latest"], ["--to-offset", "1"]):
            reset = ["--reset-offsets", "--group", "gone", "--topic", "x", *scope, "--execute"]
            theirs.run("kafka-consumer-groups", *reset)
        yield theirs, ours


def answers(text: str) -> list[str]:
    """The lines of an answer, and settings in them, in one order, since Kafka's is that of hashes; without ids."""
    text = re.sub(r"(?<=TopicId: )\S+", "ID", text)
    # How long a transaction takes is more the second time.
    text = re.sub(r"(?<=\t)[0-9]+ +\t(?=\S+-[0-9]+ +\t$)", "DURATION\t", text, flags=re.MULTILINE)
    # Kafka puts a blank before the first ACL that is added, whichever it is.
    return sorted(re.sub(r"(?<=Configs: )\S+", _in_order, line).removeprefix(" ") for line in text.splitlines())


def _in_order(settings: re.Match[str]) -> str:
    return ",".join(sorted(settings[0].split(",")))


def same(sides: tuple[Side, Side], command: str, *arguments: str, stdin: str = "") -> Printed:
    """Check that both sides answer the same on standard output, with the same status; returns Kafka's."""
    theirs, ours = (side.run(command, *arguments, stdin=stdin) for side in sides)
    shown = f"{command} {' '.join(arguments)}\n{theirs}\n{ours}"
    assert answers(ours.out) == answers(theirs.out), shown
    assert ours.status == theirs.status, shown
    return theirs


def refused(sides: tuple[Side, Side], command: str, *arguments: str) -> None:
    """Check that both sides refuse in the same words; Kafka's has a table of options or a stack trace below it."""
    theirs, ours = (side.run(command, *arguments) for side in sides)
    assert ours.status == theirs.status == 1
    assert ours.out == theirs.out == ""
    first = theirs.err.splitlines()[0]
    # Options in brackets are in the order of hashes there.
    in_brackets = [sorted(re.findall(r"[^\s,\[\]]+", text)) for text in (first, ours.err)]
    assert ours.err.startswith(first) or in_brackets[0] == in_brackets[1], f"{theirs}\n{ours}"
    assert ours.err.count("\n") == 1, ours.err


def test_topics(sides: tuple[Side, Side]) -> None:
    """Topics are created, described, altered and deleted."""
    command = "kafka-topics"
    settings = ["--config", "retention.ms=60000", "--config=cleanup.policy=compact"]
    created = same(sides, command, "--create", "--topic", "OWN.t", "--partitions", "2", *settings)
    assert "Created topic OWN.t." in created.out
    same(sides, command, "--create", "--topic", "OWN.t")
    described = same(sides, command, "--describe", "--topic", "OWN.t")
    assert "Topic: OWN.t\tTopicId: " in described.out
    same(sides, command, "--delete", "--topic", "OWN.t")


def test_groups_of_all_kinds(sides: tuple[Side, Side]) -> None:
    """Groups are listed with their type and protocol."""
    listed = same(sides, "kafka-groups", "--list")
    assert re.search("^gone +Classic +", listed.out, re.MULTILINE)
    for more in (["--consumer"], ["--share"], ["--group-type", "classic"], ["--protocol", "connect"]):
        same(sides, "kafka-groups", "--list", *more)
    refused(sides, "kafka-groups", "--list", "--share", "--streams")
    refused(sides, "kafka-groups", "--consumer")


def test_segments(tmp_path: Path) -> None:
    """Batches and records of all kinds: compressed, with headers, in transactions, with markers, without a value."""
    with Broker() as broker, KafkaTools() as kafka:
        shared = {"bootstrap.servers": broker.bootstrap, "linger.ms": 100}
        for more in ({}, {"compression.type": "zstd", "enable.idempotence": True}, {"transactional.id": "t"}):
            producer = confluent_kafka.Producer({**shared, **more})
            if "transactional.id" in more:
                producer.init_transactions(SECONDS)
                producer.begin_transaction()
            for value in (b"1", None, "é".encode()):
                producer.produce("x", value, key=None if value == b"1" else b"k", headers=[("a", b"1"), ("b", None)])
            if "transactional.id" in more:
                producer.commit_transaction(SECONDS)
            assert producer.flush(SECONDS) == 0
        broker.stop()
        (segment,) = broker.data_dir.glob("x-0/*.log")
        for more in ([], ["--print-data-log"], ["--deep-iteration"]):
            arguments = ["--files", str(segment), *more]
            words = [sys.executable, "-P", "-m", "logbus.cli.kafka_scripts", "kafka-dump-log", *arguments]
            ours = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
            assert ours == kafka.run("kafka-dump-log", *arguments).out


def test_internal_topics(tmp_path: Path) -> None:
    """Kafka's tool decodes what is in them: offsets of groups, transactions, segments in remote storage."""
    pytest.importorskip("fsspec")
    tiered: dict[str, Setting] = {
        "remote.log.storage.system.enable": True,
        "remote.log.storage.uri": f"file://{tmp_path}/store",
        "remote.log.manager.task.interval.ms": 200,
    }
    with Broker(tiered) as broker, KafkaTools() as kafka:
        broker.admin.create_topic("t", 1, 1, **{"remote.storage.enable": "true", "segment.bytes": "16384"})
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "tid"})
        producer.init_transactions(SECONDS)
        for _ in range(4):
            producer.begin_transaction()
            producer.produce("t", bytes(9_000))
            producer.commit_transaction(SECONDS)
        group = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
        group.commit(offsets=[confluent_kafka.TopicPartition("t", 0, 3)], asynchronous=False)
        group.close()
        # Their records are complete by then.
        wait_until(lambda: any((tmp_path / "store").rglob("*.log")), "a segment in the store")
        broker.stop()

        def printed(topic: str, decoder: str) -> str:
            files = [str(file) for file in broker.data_dir.glob(f"{topic}-*/*.log") if file.stat().st_size]
            found = kafka.run("kafka-dump-log", "--files", ",".join(files), decoder)
            assert "skipping" not in found.out, found.out
            return found.out

        assert '"group":"readers","topic":"t","partition":0' in printed("__consumer_offsets", "--offsets-decoder")
        assert '"transactionalId":"tid"' in printed("__transaction_state", "--transaction-log-decoder")
        assert "startOffset=0" in printed("__remote_log_metadata", "--remote-log-metadata-decoder")


def test_the_cluster(sides: tuple[Side, Side]) -> None:
    """Its id, and the addresses of its brokers."""
    assert "Cluster ID: " in same(sides, "kafka-cluster", "cluster-id").out
    assert "unfenced" in same(sides, "kafka-cluster", "list-endpoints").out


@pytest.mark.parametrize(
    "words",
    [
        "describe",
        "upgrade --feature transaction.version=2",
        "upgrade --feature transaction.version=2 --feature group.version=1 --dry-run",
        "upgrade --feature kraft.version=1 --feature group.version=1",
        "downgrade --feature transaction.version=1",
        "downgrade --feature transaction.version=1 --unsafe --dry-run",
        "disable --feature group.version --feature none",
    ],
)
def test_features(words: str, sides: tuple[Side, Side]) -> None:
    """What there are, and changes, which only brokers of one version refuse."""
    theirs = same(sides, "kafka-features", *words.split())
    assert (theirs.status == 0) == ("was" in theirs.out or "can be" in theirs.out or words == "describe")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("kafka-producer-perf-test", "--num-records 500 --record-size 100 --throughput -1"),
        ("kafka-producer-perf-test", "--num-records 500 --payload-monotonic --throughput 5000 --producer-props acks=1"),
        ("kafka-consumer-perf-test", "--num-records 800"),
        ("kafka-consumer-perf-test", "--messages 800 --hide-header"),
        ("kafka-consumer-perf-test", "--num-records 100000 --timeout 1500"),
    ],
)
def test_performance(sides: tuple[Side, Side], command: str, arguments: str) -> None:
    """Lines of figures, which are others each time."""
    theirs, ours = (side.run(command, "--topic", "perf", *arguments.split()) for side in sides)
    shown = [
        re.sub(r"[0-9]+(\.[0-9]+)?", lambda found: "1.5" if found[1] else "1", each.out) for each in (theirs, ours)
    ]
    assert shown[0] == shown[1] != "", (theirs, ours)
    assert ours.status == theirs.status == 0


def test_topics_that_are_not_there(sides: tuple[Side, Side]) -> None:
    """Errors of the command are on standard output."""
    failed = same(sides, "kafka-topics", "--describe", "--topic", "none")
    assert failed.out == "Error while executing topic command : Topic 'none' does not exist as expected\n"
    refused(sides, "kafka-topics", "--frob")


def test_records(sides: tuple[Side, Side]) -> None:
    """What is printed of records that Kafka's command has produced."""
    properties = [f"print.{name}=true" for name in ("key", "partition", "offset", "headers", "timestamp")]
    options = [word for each in properties for word in ("--formatter-property", each)]
    read = ["--topic", "x", "--from-beginning", "--max-messages", "3"]
    found = same(sides, "kafka-console-consumer", *read, *options)
    assert "h:1,i:2\ta\t1\n" in found.out


def test_produced_records(sides: tuple[Side, Side]) -> None:
    """Records that either command has produced are the same."""
    properties = ["--reader-property", "parse.key=true", "--reader-property", "null.marker=NULL"]
    same(sides, "kafka-console-producer", "--topic", "OWN-records", *properties, stdin="a\t1\n\t\nb\tNULL\né\tf\tg\n")
    options = ["--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"]
    read = ["--topic", "OWN-records", "--from-beginning", "--max-messages", "4"]
    found = same(sides, "kafka-console-consumer", *read, *options)
    assert "NO_HEADERS\tb\tnull\n" in found.out


def test_groups(sides: tuple[Side, Side]) -> None:
    """Groups are described, and their offsets reset."""
    command = "kafka-consumer-groups"
    assert "CURRENT-OFFSET" in same(sides, command, "--describe", "--group", "gone").out
    failed = same(sides, command, "--describe", "--group", "none")
    assert f"Error: Executing consumer group command failed due to {EXCEPTION}GroupIdNotFound" in failed.out
    scope = ["--reset-offsets", "--group", "OWN", "--topic", "x"]
    same(sides, command, *scope, "--to-earliest", "--execute")
    same(sides, command, "--delete", "--group", "OWN")


def test_configs(sides: tuple[Side, Side]) -> None:
    """Settings, quotas and users are altered and described."""
    command = "kafka-configs"
    assert "DYNAMIC_TOPIC_CONFIG" in same(sides, command, "--describe", "--topic", "x").out
    for added in ("producer_byte_rate=10485760,consumer_byte_rate=2048", "SCRAM-SHA-256=[password=a-secret]"):
        same(sides, command, "--alter", "--user", "OWN", "--add-config", added)
    described = same(sides, command, "--describe", "--user", "OWN")
    assert "producer_byte_rate=1.048576E7" in described.out


def test_acls(sides: tuple[Side, Side]) -> None:
    """ACLs are added and listed."""
    command = "kafka-acls"
    principal = ["--allow-principal", "User:OWN"]
    added = same(sides, command, "--add", *principal, "--consumer", "--topic", "OWN", "--group", "OWN")
    assert "Adding ACLs for resource `ResourcePattern(resourceType=GROUP, name=OWN, patternType=LITERAL)`" in added.out
    same(sides, command, "--list", "--topic", "OWN")


def test_offsets(sides: tuple[Side, Side]) -> None:
    """Offsets of partitions."""
    assert same(sides, "kafka-get-offsets", "--topic", "x", "--time", "earliest").out == "x:0:0\nx:1:0\nx:2:0\n"


MORE: Sequence[tuple[str, ...]] = (
    ("kafka-topics", "--list", "--topic", "x,__.*"),
    ("kafka-topics", "--list", "--topic", "x,__.*", "--exclude-internal"),
    ("kafka-topics", "--list", "--topic", "none"),
    ("kafka-topics", "--describe", "--topics-with-overrides", "--topic", "x"),
    ("kafka-topics", "--describe", "--under-replicated-partitions"),
    ("kafka-topics", "--create", "--topic", "x", "--if-not-exists"),
    ("kafka-topics", "--create", "--topic", "x", "--partitions", "0"),
    ("kafka-topics", "--create", "--topic", "bad name"),
    ("kafka-topics", "--alter", "--topic", "x", "--partitions", "1"),
    ("kafka-topics", "--alter", "--topic", "none", "--partitions", "1", "--if-exists"),
    ("kafka-console-consumer", "--topic", "x", "--partition", "0", "--offset", "earliest", "--timeout-ms", "1500"),
    (
        "kafka-console-consumer",
        "--include",
        "x|none",
        "--from-beginning",
        "--max-messages",
        "3",
        "--property",
        "print.key=true",
    ),
    ("kafka-console-consumer", "--topic", "x", "--from-beginning", "--max-messages", "3", "--group", "g-OWN"),
    ("kafka-consumer-groups", "--describe", "--group", "gone", "--verbose"),
    ("kafka-consumer-groups", "--describe", "--group", "gone", "--members"),
    ("kafka-consumer-groups", "--describe", "--group", "gone", "--state", "--verbose"),
    ("kafka-consumer-groups", "--reset-offsets", "--group", "gone", "--all-topics", "--shift-by", "-1", "--dry-run"),
    (
        "kafka-consumer-groups",
        "--reset-offsets",
        "--group",
        "gone",
        "--all-topics",
        "--to-latest",
        "--export",
        "--dry-run",
    ),
    ("kafka-configs", "--describe", "--topic", "x", "--all"),
    ("kafka-configs", "--describe", "--topic", "none"),
    ("kafka-configs", "--describe", "--entity-type", "brokers"),
    ("kafka-configs", "--alter", "--topic", "x", "--add-config", "segment.ms=100000,cleanup.policy=[compact,delete]"),
    (
        "kafka-configs",
        "--alter",
        "--entity-type",
        "clients",
        "--entity-default",
        "--add-config",
        "request_percentage=50",
    ),
    ("kafka-configs", "--describe", "--entity-type", "clients"),
    (
        "kafka-acls",
        "--add",
        "--deny-principal",
        "User:OWN",
        "--deny-host",
        "10.0.0.1",
        "--topic",
        "OWN",
        "--resource-pattern-type",
        "prefixed",
    ),
    ("kafka-acls", "--add", "--allow-principal", "User:OWN", "--producer", "--topic", "OWN-p", "--idempotent"),
    ("kafka-acls", "--list", "--topic", "OWN", "--resource-pattern-type", "match"),
    ("kafka-acls", "--list", "--principal", "User:OWN"),
    ("kafka-acls", "--remove", "--topic", "OWN", "--force"),
    ("kafka-get-offsets", "--topic-partitions", "x:0,x:1-3"),
    ("kafka-get-offsets", "--topic", "x", "--partitions", "0,2", "--time", "max-timestamp"),
    ("kafka-leader-election", "--election-type", "preferred", "--topic", "x", "--partition", "0"),
    ("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions"),
)

MORE_REFUSED: Sequence[tuple[str, ...]] = (
    ("kafka-topics", "--create"),
    ("kafka-topics", "--list", "--create"),
    ("kafka-topics", "--alter", "--topic", "x", "--config", "a=b"),
    ("kafka-topics", "--topic"),
    ("kafka-console-producer", "--frob"),
    ("kafka-console-consumer",),
    ("kafka-console-consumer", "--topic", "x", "--offset", "1"),
    ("kafka-consumer-groups", "--describe"),
    ("kafka-consumer-groups", "--delete"),
    ("kafka-configs", "--describe"),
    ("kafka-configs", "--alter", "--topic", "x"),
    ("kafka-configs", "--alter", "--user", "x", "--add-config", "request_percentage=5,SCRAM-SHA-256=[password=a]"),
    ("kafka-configs", "--alter", "--topic", "x", "--add-config", "nope"),
    ("kafka-acls",),
    ("kafka-acls", "--add", "--topic", "x", "--operation", "Read"),
    ("kafka-get-offsets", "--topic", "none"),
    ("kafka-delete-records",),
    ("kafka-leader-election", "--election-type", "frob", "--all-topic-partitions"),
    ("kafka-log-dirs", "--describe", "--broker-list", "5"),
)


@pytest.mark.long
@pytest.mark.parametrize("words", MORE, ids=" ".join)
def test_more(words: Sequence[str], sides: tuple[Side, Side]) -> None:
    """Other options."""
    same(sides, *words)


@pytest.mark.long
@pytest.mark.parametrize("words", MORE_REFUSED, ids=" ".join)
def test_more_refused(words: Sequence[str], sides: tuple[Side, Side]) -> None:
    """Other errors in the options."""
    refused(sides, *words)


@pytest.mark.long
def test_files(sides: tuple[Side, Side], tmp_path: Path) -> None:
    """Commands that read a file, or whose answer has sizes in it."""
    file = tmp_path / "offsets.json"
    file.write_text('{"partitions": [{"topic": "x", "partition": 0, "offset": 0}], "version": 1}')
    assert "low_watermark: 0" in same(sides, "kafka-delete-records", "--offset-json-file", str(file)).out
    same(sides, "kafka-log-dirs", "--describe", "--topic-list", "none")


@pytest.mark.long
def test_api_versions(sides: tuple[Side, Side]) -> None:
    """The same APIs, of which each uses the newest version that it knows."""
    found = [side.run("kafka-broker-api-versions") for side in sides]
    theirs, ours = (re.sub(r" \[usable: [0-9]+\]", "", each.out).splitlines() for each in found)
    assert ours == theirs
    assert found[0].status == found[1].status == 0


@pytest.mark.long
def test_reassignments(sides: tuple[Side, Side], tmp_path: Path) -> None:
    """Replicas are moved by plans, by one that is printed for a rollback, too; to where they are, with one broker."""
    command, topics, plan = "kafka-reassign-partitions", tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text('{"version": 1, "topics": [{"topic": "x"}]}')
    generated = same(sides, command, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "0")
    rollback, proposed = generated.out.splitlines()[1::3]
    file = ["--reassignment-json-file", str(plan)]
    plan.write_text(proposed)
    assert "Successfully started" in same(sides, command, "--execute", *file, "--throttle", "100000").out
    assert "Clearing" in same(sides, command, "--verify", *file).out
    same(sides, command, "--cancel", *file, "--preserve-throttles")
    # Kafka's says that it moves replicas to the directories in which they are.
    plan.write_text(rollback)
    started = sides[1].run(command, "--execute", *file)
    assert started.out.endswith("Successfully started partition reassignments for x-0,x-1,x-2\n")
    assert same(sides, command, "--list").out == "No partition reassignments found.\n"
    plan.write_text('{"version": 1, "partitions": [{"topic": "x", "partition": 0, "replicas": [7]}]}')
    for side in sides:
        failed = side.run(command, "--execute", "--reassignment-json-file", str(plan))
        assert (failed.status, failed.out.splitlines()[0]) == (1, "Error: Unknown broker id 7")


@pytest.mark.long
def test_transactions(sides: tuple[Side, Side]) -> None:
    """Transactions are listed, described and ended."""
    command = "kafka-transactions"
    for name in ("billing", *(side.own for side in sides)):
        producer = confluent_kafka.Producer({"bootstrap.servers": sides[0].bootstrap, "transactional.id": name})
        producer.init_transactions(60)
        producer.begin_transaction()
        # With a key, since an earlier test may have had the topic compacted.
        producer.produce("x", b"value", b"key", partition=0)
        producer.flush(60)
    assert "Ongoing" in same(sides, command, "list", "--transactional-id-pattern", "b.*").out
    assert "\tx-0 " in same(sides, command, "describe", "--transactional-id", "billing").out
    producers = same(sides, command, "describe-producers", "--topic", "x", "--partition", "0")
    assert "CurrentTransactionStartOffset" in producers.out
    same(sides, command, "find-hanging", "--broker-id", "0")
    same(sides, command, "forceTerminateTransaction", "--transactionalId", "OWN")
    same(sides, command, "list", "--duration-filter", "1000000", "--transactional-id-pattern", "b.*")
    failed = [side.run(command, "describe", "--transactional-id", "none") for side in sides]
    assert failed[0].status == failed[1].status == 1
    assert failed[0].err.partition(": ")[0] == failed[1].err.partition(": ")[0]
