"""
Measures for how long a request of very many elements holds the reactor::

    python -m benchmarks.longest_turns [--elements 90000] [--only LIST] [--stacks MS]

A turn is all that the reactor does between two polls, in CPU of its thread: for so long everybody else waits. For each
request it prints the longest turn from the request's first byte to its response, and the CPU and the seconds in all.
The broker is a process of its own; requests are as large as the protocol's limit of elements allows.
"""

from __future__ import annotations

import argparse
import mmap
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

from benchmarks.compare.systems import Logbus, free_port
from benchmarks.turn_stacks import VARIABLE, TurnStacks
from logbus.interpreter import InterpreterBuild
from logbus.records.batch import Record, encode_batch
from logbus.records.compression import Codec
from logbus.records.file_slice import joined
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from logbus.wire.messages.api_versions import ApiVersionsRequest
from logbus.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from logbus.wire.messages.elections import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from logbus.wire.messages.groups import DescribeGroupsRequest, FindCoordinatorRequest
from logbus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logbus.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from logbus.wire.messages.partitions import NamedTopicPartitions, TopicPartitionIndexes
from logbus.wire.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from logbus.wire.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
)
from logbus.wire.messages.transaction_admin import DescribeProducersRequest
from logbus.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)

FIGURES = struct.Struct("<dd")
"""In a file that the broker maps: the longest turn since it was set to 0, and the CPU of all turns, in seconds."""

TIMEOUT = 300.0
COMPRESSED = 50
"""Partitions with a batch of so many records:"""
RECORDS = 100_000
LAST = RECORDS - 1
"""The time of the last of them, in ms."""


class TurnMeter:
    """An epoll object that notes the CPU between its polls."""

    def __init__(self, poller: Any, figures: mmap.mmap) -> None:
        self._poller = poller
        self._figures = figures
        self._stacks = TurnStacks.wanted()
        self._begun = time.thread_time()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)

    def poll(self, *args: Any) -> Any:
        turn = time.thread_time() - self._begun
        longest, total = FIGURES.unpack_from(self._figures)
        FIGURES.pack_into(self._figures, 0, max(longest, turn), total + turn)
        if self._stacks is not None:
            self._stacks.ended(turn)
        ready = self._poller.poll(*args)
        self._begun = time.thread_time()
        return ready


def serve(path: str, command: list[str], prepare: Callable[[], object] = lambda: None) -> None:
    """
    Be a broker whose turns are measured.

    :param prepare: called when its reactor runs.
    """
    from logbus.net import reactor

    class MeasuredReactor(reactor.BrokerReactor):
        def __init__(self) -> None:
            super().__init__()
            with open(path, "r+b") as file:
                self._poller = TurnMeter(self._poller, mmap.mmap(file.fileno(), FIGURES.size))
            self.callWhenRunning(prepare)

    reactor.BrokerReactor = MeasuredReactor  # type: ignore[misc]
    from twisted.scripts.twistd import run

    sys.argv = ["twistd", *command]
    run()


@attrs.define
class Client:
    """A blocking client of one broker."""

    port: int
    wire: ClientConnection = attrs.field(factory=lambda: ClientConnection("bench"))

    def ask(self, message: Any, version: int) -> Any:
        """The response to a request, over a connection of its own."""
        _, parts = self.wire.request(message, version)
        with socket.create_connection(("127.0.0.1", self.port), TIMEOUT) as sock:
            sock.sendall(joined(parts))
            with sock.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                return self.wire.receive(stream.read(size))[1]


def an_acl(resource: str = "t", principal: str = "User:u") -> AclCreation:
    """An ACL that lets a principal read a topic."""
    return AclCreation(
        resource_type=2, resource_name=resource, principal=principal, host="*", operation=3, permission_type=3
    )


def requests(count: int, producer_id: int) -> Iterator[tuple[str, Callable[[], Any], int]]:
    """
    The requests: a name, what makes the message, and the version.

    :param producer_id: of the transactional id ``x``.
    """
    names = [f"n{number}" for number in range(count)]
    few = names[: count // 4]
    plain = encode_batch([Record(0, 1, b"k", b"v", ())], base_offset=0)
    yield (
        "Metadata, names",
        lambda: MetadataRequest(topics=[MetadataRequestTopic(name=n) for n in names], allow_auto_topic_creation=False),
        4,
    )
    yield (
        "Produce, batches",
        lambda: ProduceRequest(
            acks=1,
            timeout_ms=60_000,
            topic_data=[
                TopicProduceData(
                    name="t", partition_data=[PartitionProduceData(index=0, records=plain) for _ in range(count // 2)]
                )
            ],
        ),
        7,
    )
    yield (
        "Fetch, partitions",
        lambda: FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic="t",
                    partitions=[
                        FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=100) for n in range(count)
                    ],
                )
            ],
        ),
        11,
    )
    yield (
        "ListOffsets",
        lambda: ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(
                    name="t", partitions=[ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(count)]
                )
            ]
        ),
        5,
    )
    yield (
        "ListOffsets, by time, compressed",
        lambda: ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(
                    name="compressed",
                    partitions=[ListOffsetsPartition(partition_index=n, timestamp=LAST) for n in range(COMPRESSED)],
                )
            ]
        ),
        5,
    )
    yield (
        "OffsetForLeaderEpoch",
        lambda: OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0) for _ in range(count)]
                )
            ]
        ),
        3,
    )
    yield (
        "DeleteRecords",
        lambda: DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=0) for _ in range(count)]
                )
            ],
            timeout_ms=60_000,
        ),
        1,
    )
    yield (
        "OffsetCommit",
        lambda: OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=n % 2, committed_offset=n, committed_metadata="")
                        for n in range(count)
                    ],
                )
            ],
        ),
        6,
    )
    yield (
        "OffsetFetch, groups",
        lambda: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=n, topics=None) for n in names]),
        8,
    )
    yield (
        "TxnOffsetCommit",
        lambda: TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=producer_id,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=n % 2, committed_offset=n, committed_metadata=""
                        )
                        for n in range(count)
                    ],
                )
            ],
        ),
        5,
    )
    yield (
        "OffsetDelete",
        lambda: OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name="t", partitions=[OffsetDeleteRequestPartition(partition_index=n) for n in range(count)]
                )
            ],
        ),
        0,
    )
    yield (
        "CreateAcls, resources",
        lambda: CreateAclsRequest(creations=[an_acl(resource=n) for n in names[:5000]]),
        3,
    )
    yield (
        "CreateAcls, one resource",
        lambda: CreateAclsRequest(creations=[an_acl(principal=f"User:{n}") for n in few]),
        3,
    )
    yield (
        "CreateAcls, 3,000 of one resource",
        lambda: CreateAclsRequest(creations=[an_acl(resource="u", principal=f"User:{n}") for n in few[:3000]]),
        3,
    )
    yield (
        "DescribeAcls",
        lambda: DescribeAclsRequest(resource_type_filter=1, resource_name_filter=None, operation=1, permission_type=1),
        1,
    )
    yield (
        "DeleteAcls, 200 filters",
        lambda: DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter=n,
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
                for n in names[:200]
            ]
        ),
        3,
    )
    yield "DescribeGroups", lambda: DescribeGroupsRequest(groups=names), 5
    yield "FindCoordinator", lambda: FindCoordinatorRequest(key_type=0, coordinator_keys=names), 4
    yield (
        "AddPartitionsToTxn",
        lambda: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=[NamedTopicPartitions(name="none", partitions=list(range(count)))],
        ),
        3,
    )
    yield (
        "DescribeProducers",
        lambda: DescribeProducersRequest(
            topics=[TopicPartitionIndexes(name="none", partition_indexes=list(range(count)))]
        ),
        0,
    )
    yield (
        "WriteTxnMarkers, partitions",
        lambda: WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=-1,
                    producer_epoch=0,
                    transaction_result=True,
                    coordinator_epoch=0,
                    topics=[TopicPartitionIndexes(name="none", partition_indexes=list(range(count)))],
                )
            ]
        ),
        1,
    )
    yield (
        "CreateTopics, validated",
        lambda: CreateTopicsRequest(
            topics=[CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in few],
            timeout_ms=60_000,
            validate_only=True,
        ),
        5,
    )
    yield (
        "CreateTopics, 2,000",
        lambda: CreateTopicsRequest(
            topics=[CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in few[:2000]],
            timeout_ms=120_000,
        ),
        5,
    )
    yield "Metadata, everything", lambda: MetadataRequest(topics=None), 4
    yield "DeleteTopics", lambda: DeleteTopicsRequest(topic_names=few, timeout_ms=120_000), 3
    yield (
        "DescribeConfigs",
        lambda: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name=n) for n in few]
        ),
        1,
    )
    yield (
        "AlterPartitionReassignments",
        lambda: AlterPartitionReassignmentsRequest(
            timeout_ms=60_000,
            topics=[
                ReassignableTopic(
                    name="t",
                    partitions=[ReassignablePartition(partition_index=n, replicas=[0]) for n in range(count // 2)],
                )
            ],
        ),
        0,
    )


def prepare(client: Client) -> None:
    """Two topics, one with a large compressed batch in each partition, and a group with an offset."""
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in (("t", 2), ("compressed", COMPRESSED))
    ]
    client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 5)
    large = encode_batch([Record(n, n, None, bytes(20), ()) for n in range(RECORDS)], codec=Codec.LZ4)
    for index in range(COMPRESSED):
        data = [PartitionProduceData(index=index, records=large)]
        topic = TopicProduceData(name="compressed", partition_data=data)
        response = client.ask(ProduceRequest(acks=1, timeout_ms=60_000, topic_data=[topic]), 7)
        if error := response.responses[0].partition_responses[0].error_code:
            sys.exit(f"the compressed batch was refused with error {error}")
    asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    offsets = [OffsetCommitRequestTopic(name="t", partitions=[asked])]
    commit = OffsetCommitRequest(group_id="g", topics=offsets)
    deadline = time.monotonic() + 60
    # The first look-up creates the topic of the groups, which is then loaded.
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    while error := client.ask(commit, 6).topics[0].partitions[0].error_code:
        if time.monotonic() > deadline:
            sys.exit(f"offsets are refused with error {error}")
        time.sleep(0.05)


def measure(client: Client, figures: mmap.mmap, count: int, only: str) -> None:
    """Print a line for each request."""
    print(f"{'request':34} {'longest turn':>12} {'CPU':>9} {'seconds':>8}")
    begun_id = client.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4).producer_id
    for name, message, version in requests(count, begun_id):
        if only.lower() not in name.lower():
            continue
        built = message()
        client.ask(ApiVersionsRequest(), 0)
        FIGURES.pack_into(figures, 0, 0.0, 0.0)
        begun = time.monotonic()
        client.ask(built, version)
        seconds = time.monotonic() - begun
        # A turn is noted when the next one begins.
        client.ask(ApiVersionsRequest(), 0)
        longest, total = FIGURES.unpack_from(figures)
        print(f"{name:34} {longest * 1e3:9.1f} ms {total * 1e3:6.0f} ms {seconds:8.2f}", flush=True)


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=90_000, help="of a request (default 90,000)")
    parser.add_argument("--only", default="", help="requests whose names contain this")
    add_stacks(parser)
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    with tempfile.TemporaryDirectory(prefix="logbus-turns-") as name:
        directory, port = Path(name), free_port()
        path = directory / "figures"
        path.write_bytes(bytes(FIGURES.size))
        twistd = Logbus().prepare(directory, port, None)
        command = [
            sys.executable,
            "-m",
            "benchmarks.longest_turns",
            "--serve",
            str(path),
            *twistd[twistd.index("-n") :],
            *("--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            *("--set", "super.users=User:ANONYMOUS"),
        ]
        with path.open("r+b") as file, open(os.devnull, "w") as nowhere:
            broker = subprocess.Popen(command, stdout=nowhere, env=environment(options))
            figures = mmap.mmap(file.fileno(), FIGURES.size)
            try:
                client = Client(port)
                wait_for(port, broker)
                prepare(client)
                measure(client, figures, options.elements, options.only)
            finally:
                broker.terminate()
                broker.wait(60)


def add_stacks(parser: argparse.ArgumentParser) -> None:
    """Let a caller ask for the stacks of long turns."""
    parser.add_argument("--stacks", default="", metavar="MS", help="show what turns did that took so long")


def environment(options: argparse.Namespace) -> dict[str, str]:
    """That of a measured broker."""
    return {**os.environ, VARIABLE: options.stacks}


def wait_for(port: int, broker: subprocess.Popen[bytes]) -> None:
    """Until the broker listens."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and broker.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    sys.exit("the broker did not start")


if __name__ == "__main__":
    main()
