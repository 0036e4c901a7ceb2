"""Scripts of Kafka for performance, the cluster and all groups, and those that are not served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logbus.cli.kafka_scripts import (
    cluster_command,
    consumer_performance_command,
    delegation_token_command,
    features_command,
    groups_command,
    producer_performance_command,
)
from logbus.cli.kafka_scripts.__main__ import main
from logbus.cli.kafka_scripts.absent_scripts import ABSENT, advice
from logbus.cli.kafka_scripts.client_settings import Settings
from logbus.cli.kafka_scripts.cluster_command import cluster_lines
from logbus.cli.kafka_scripts.consumer_performance_command import ReadSpeed
from logbus.cli.kafka_scripts.features_command import feature_lines, update_errors
from logbus.cli.kafka_scripts.groups_command import wanted_groups
from logbus.cli.kafka_scripts.option_parser import UsageError
from logbus.cli.kafka_scripts.producer_performance_command import Latencies, performance_request
from logbus.cli.kafka_scripts.scripts import COMMANDS
from logbus.client.admin.admin_client import ClusterDescription
from logbus.client.admin.group_results import ListedGroup
from logbus.errors import ErrorCode
from logbus.records.batch import Record, encode_batch
from logbus.wire.messages.api_versions import (
    ApiVersionsResponse,
    SupportedFeatureKey,
    UpdatableFeatureResult,
    UpdateFeaturesResponse,
)


def test_absent(capsys: pytest.CaptureFixture[str]) -> None:
    """A script that is not served says in one line what there is instead."""
    assert ABSENT.keys().isdisjoint(COMMANDS)
    for name in ABSENT:
        assert main([name, "--list"]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"{name} is not served: ")
        assert said.err.count("\n") == 1
    assert advice("kafka-topics") is None


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("", "argument --topic is required"),
        ("--topic t --num-records 5", "argument --throughput is required"),
        ("--topic t --num-records 5 --throughput -1 --broker-list x", "since Kafka 4.0 it is --bootstrap-server"),
        ("--topic t --num-records 5 --throughput -1 --bootstrap-server x", "one of --record-size, --payload-file and"),
        ("--topic t --num-records 0 --throughput -1 --record-size 1", "--num-records should be greater than zero"),
        ("--topic t --num-records 5 --throughput -1 --record-size 0", "--record-size should be greater than zero"),
        ("--topic t --num-records 5 --throughput fast --record-size 1", "could not convert 'fast' to a number"),
        ("--topic t --num-records 5 --throughput -1 --payload-file /nowhere", "/nowhere: No such file"),
        ("--topic t --num-records 5 --throughput -1 --record-size 1 --warmup-records 5", "must be strictly fewer"),
        ("--topic t --num-records 5 --throughput -1 --record-size 1 acks", "'acks' is not NAME=VALUE"),
        ("--topic t --num-records 5 --throughput -1 --record-size 1 --producer-props acks=1 linger.ms=x", "linger.ms"),
        (
            "--topic t --num-records 5 --throughput -1 --record-size 1 --transactional-id x",
            "is not served; it measures",
        ),
    ],
)
def test_wrong_producer_performance(arguments: str, line: str) -> None:
    """What is wrong is named."""
    with pytest.raises(UsageError, match=re.escape(line)):
        producer_performance_command.run(producer_performance_command.PARSER.parse(arguments.split()))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--bootstrap-server x", "arguments is required: [topic], [include]"),
        ("--bootstrap-server x --topic t", "arguments is required: [num-records], [messages]"),
        ("--bootstrap-server x --topic t --num-records 0", "--num-records should be greater than zero"),
        ("--bootstrap-server x --topic t --num-records many", "Cannot parse argument 'many' of option num-records"),
        ("--broker-list x --topic t --num-records 1", "since Kafka 4.0 it is --bootstrap-server"),
    ],
)
def test_wrong_consumer_performance(arguments: str, line: str) -> None:
    """What is wrong is named."""
    with pytest.raises(UsageError, match=re.escape(line)):
        consumer_performance_command.run(consumer_performance_command.PARSER.parse(arguments.split()))


def test_performance_request() -> None:
    """Several properties may follow one option; others are as those of the console producer."""
    text = "--topic t --num-records 5 --throughput 10 --record-size 3 --command-property acks=1 batch.size=7"
    options = producer_performance_command.PARSER.parse(text.split())
    assert options.words == ["batch.size=7"]
    request = performance_request(options, Settings({"acks": "1", "batch.size": "7"}))
    assert (request.count, request.rate, request.send.acks, request.send.batch_bytes) == (5, 10.0, 1, 7)
    assert [len(each) for each in request.payloads] == [3]


def test_latencies() -> None:
    """The lines about them are those of Kafka."""
    found = Latencies(10.0)
    found.add([float(each) for each in range(100)], 1024 * 1024)
    assert found.window_line(12.0) == (
        "100 records sent, 50.0 records/sec (0.50 MB/sec), 49.5 ms avg latency, 99.0 ms max latency."
    )
    found.add([1000.0], 0)
    assert found.window_line(13.0).startswith("1 records sent, 1.0 records/sec (0.00 MB/sec), 1000.0 ms avg")
    assert found.total_line(20.0) == (
        "101 records sent, 10.100000 records/sec (0.10 MB/sec), 58.91 ms avg latency, 1000.00 ms max latency, "
        "50 ms 50th, 95 ms 95th, 99 ms 99th, 1000 ms 99.9th."
    )
    assert Latencies(0.0).total_line(1.0).startswith("0 records sent, 0.000000 records/sec")


def test_read_speed() -> None:
    """Rates of fetching leave the joining of the group out."""
    speed = ReadSpeed(records=100, size=1024 * 1024, seconds=4.0, joining=2.0)
    assert speed.figures() == "1.0000, 0.2500, 100, 25.0000, 2000, 2000, 0.5000, 50.0000"
    later = ReadSpeed(records=150, size=2 * 1024 * 1024, seconds=5.0, joining=0.0)
    assert later.figures(speed) == "2.0000, 1.0000, 150, 50.0000, 0, 1000, 1.0000, 50.0000"


def test_groups() -> None:
    """The filters of groups, and which go together."""
    groups = [
        ListedGroup("a", "consumer", "Stable", "Classic", 0),
        ListedGroup("b", "consumer", "Stable", "Consumer", 0),
        ListedGroup("c", "connect", "Stable", "Classic", 0),
        ListedGroup("d", "", "Empty", "", 0),
    ]

    def chosen(text: str) -> str:
        wanted = wanted_groups(groups_command.PARSER.parse(text.split()))
        return "".join(each.group_id for each in groups if wanted(each))

    assert chosen("--list") == "abcd"
    assert chosen("--list --consumer") == "abd"
    assert chosen("--list --group-type CLASSIC") == "acd"
    assert chosen("--list --protocol connect") == "c"
    assert chosen("--list --share") == ""
    with pytest.raises(UsageError, match="--group-type must be a valid group type"):
        chosen("--list --group-type x")
    with pytest.raises(UsageError, match="must include exactly one action"):
        groups_command.run(groups_command.PARSER.parse(["--bootstrap-server", "x"]))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("", "too few arguments; give one of cluster-id, unregister, list-endpoints"),
        ("id", "invalid choice: 'id' (choose from 'cluster-id', 'unregister', 'list-endpoints')"),
        ("cluster-id", "--bootstrap-server is required"),
        ("unregister --bootstrap-server x", "unregister is not served; a broker that is stopped leaves"),
        ("unregister --id 3 --bootstrap-server x", "id is not served; a broker that is stopped leaves"),
        ("cluster-id --bootstrap-controller x", "is not served; brokers of logbus are controllers"),
    ],
)
def test_wrong_cluster_command(arguments: str, line: str) -> None:
    """What is wrong is named."""
    with pytest.raises(UsageError, match=re.escape(line)):
        cluster_command.run(cluster_command.PARSER.parse(arguments.split()))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("", "too few arguments"),
        (
            "show",
            "invalid choice: 'show' (choose from 'describe', 'upgrade', 'downgrade', 'disable', 'version-mapping'",
        ),
        ("describe", "You must specify --bootstrap-server"),
        ("version-mapping", "version-mapping is not served; brokers of logbus have no metadata.version; 'logbus start"),
        ("upgrade --release-version 4.3", "release-version is not served; brokers of logbus have no metadata.version"),
        ("upgrade", "You must specify at least one feature to upgrade, as --feature group.version=1"),
        ("upgrade --feature x", "Can't parse feature=level string x: equals sign not found."),
        ("upgrade --feature x=-1", "Can't parse feature=level string x=-1: unable to parse -1 as a short."),
        ("upgrade --feature x=32768", "unable to parse 32768 as a short."),
        ("upgrade --feature x=1 --feature x=2", "Feature x was specified more than once."),
        ("disable --feature x=1", "disable takes the name of a feature alone, and not 'x=1'"),
    ],
)
def test_wrong_features_command(arguments: str, line: str) -> None:
    """What is wrong is named."""
    with pytest.raises(UsageError, match=re.escape(line)):
        features_command.run(features_command.PARSER.parse(arguments.split()))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--bootstrap-server x --describe", 'Missing required argument "[command-config]"'),
        ("", "exactly one action: --create, --renew, --expire or --describe"),
        ("--create --describe", "exactly one action: --create, --renew, --expire or --describe"),
        ("--create", 'Missing required argument "[max-life-time-period]"'),
        ("--create --max-life-time-period soon", "Cannot parse argument 'soon' of option max-life-time-period"),
        ("--create --max-life-time-period -1 --renewer-principal bob", "principalType:principalName but got bob"),
        (
            "--create --max-life-time-period -1 --owner-principal User:a --owner-principal User:b",
            "a token has one owner",
        ),
        ("--renew --hmac AAAA", 'Missing required argument "[renew-time-period]"'),
        ("--renew --renew-time-period -1", 'Missing required argument "[hmac]"'),
        (
            "--expire --expiry-time-period 5 --hmac x --renew-time-period 5",
            'Option "[expire]" can\'t be used with option "[renew-time-period]"',
        ),
    ],
)
def test_wrong_delegation_token_command(arguments: str, line: str) -> None:
    """What is wrong is named."""
    given = arguments.split()
    if "--bootstrap-server" not in given:
        given += ["--bootstrap-server", "x", "--command-config", "/dev/null"]
    with pytest.raises(UsageError, match=re.escape(line)):
        delegation_token_command.run(delegation_token_command.PARSER.parse(given))


def test_features_of_former_brokers() -> None:
    """Before version 2 each feature has a result of its own; brokers without features have no epoch."""
    result = UpdatableFeatureResult(feature="x", error_code=ErrorCode.INVALID_UPDATE_VERSION)
    found = update_errors({"x": 1, "y": 1}, UpdateFeaturesResponse(results=[result]))
    assert found["y"] is None
    assert found["x"] is not None
    supported = [SupportedFeatureKey(name="x", min_version=0, max_version=3)]
    (line,) = feature_lines(ApiVersionsResponse(api_keys=[], supported_features=supported))
    assert line.startswith("Feature: x ")
    assert line.endswith("FinalizedVersionLevel: 0                Epoch: -")


def test_cluster_without_an_id() -> None:
    """As of old brokers."""
    assert cluster_lines(ClusterDescription(None, -1, ()), "cluster-id")[0].startswith("No cluster ID found")


def test_segments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A batch without a producer, one in a transaction, and what is damaged; each file has its lines."""
    record = Record(5, 1000, b"k", None, (("a", b"1"), ("b", None)))
    plain = encode_batch([record], base_offset=5)
    damaged = plain[:-1] + bytes([plain[-1] ^ 1])
    segment = tmp_path / "00000000000000000005.log"
    segment.write_bytes(plain + damaged + b"rest")
    assert main(["kafka-dump-log", "--files", f"{segment}, {tmp_path / 'x.y'}", "--print-data-log"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"Dumping {segment}", "Log starting offset: 5"]
    assert "baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1" in lines[2]
    assert lines[2].endswith("isvalid: true")
    assert lines[3] == "| offset: 5 CreateTime: 1000 keySize: 1 valueSize: -1 sequence: -1 headerKeys: [a,b] key: k"
    assert lines[4].endswith("isvalid: false")
    assert lines[5] == "Found 4 invalid bytes at the end of 00000000000000000005.log"
    assert lines[6:] == [f"Dumping {tmp_path / 'x.y'}", f"Ignoring unknown file {tmp_path / 'x.y'}"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("", 'Missing required argument "[files]"'),
        ("--files orders.log", "orders.log is no segment, whose name is its first offset"),
        ("--files 00000000000000000000.snapshot", "'logbus dump-log 00000000000000000000.snapshot' prints it"),
        ("--files 00000000000000000000.log", "00000000000000000000.log: No such file or directory"),
        ("--files x --offsets-decoder", "is not served; 'logbus dump-log --records' decodes"),
    ],
)
def test_wrong_segments(arguments: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong is named."""
    assert main(["kafka-dump-log", *arguments.split()]) == 1
    assert line in capsys.readouterr().err
