"""
Measures decoding and encoding: microseconds for each message, beside kio if it is installed.

Run ``python benchmarks/wire.py``. The least of several rounds is shown, since other work on the machine only adds.
"""

from __future__ import annotations

import argparse
import io
import timeit
from collections.abc import Callable
from importlib import import_module
from typing import Any

from logbus.interpreter import InterpreterBuild
from logbus.records.file_slice import joined
from logbus.wire.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol
from logbus.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from logbus.wire.messages.records import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from logbus.wire.schema import decoder, encoder


def produce(size: int) -> ProduceRequest:
    """One batch of ``size`` bytes."""
    data = PartitionProduceData(index=3, records=bytes(size))
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
    )


def produced() -> ProduceResponse:
    """The answer to one batch."""
    partition = PartitionProduceResponse(index=3, base_offset=123_456, log_start_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[partition])])


def fetch(partitions: int) -> FetchRequest:
    """A read of some partitions of a topic."""
    places = [FetchPartition(partition=n, fetch_offset=1000, partition_max_bytes=1 << 20) for n in range(partitions)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=places)])


def fetched(partitions: int, size: int) -> FetchResponse:
    """A fetch response with some partitions of a topic."""
    found = [PartitionData(partition_index=n, high_watermark=1000, records=bytes(size)) for n in range(partitions)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=found)])


def metadata(partitions: int) -> MetadataResponse:
    """One topic with some partitions, three replicas each, on three brokers."""
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host="broker.example.org", port=9092) for n in range(3)],
        cluster_id="abcdefghijklmnopqrstuv",
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name="orders",
                topic_id=bytes(range(16)),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=n, leader_id=n % 3, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
                    )
                    for n in range(partitions)
                ],
            )
        ],
    )


def join() -> JoinGroupRequest:
    """A member that knows two strategies."""
    return JoinGroupRequest(
        group_id="billing",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=bytes(40)) for name in ("range", "roundrobin")],
    )


CASES: list[tuple[str, Any, int]] = [
    ("Produce v9, 1 partition", produce(200), 9),
    ("Produce v9, 1 MiB", produce(1 << 20), 9),
    ("Produce v7, 1 partition", produce(200), 7),
    ("Produce response v9", produced(), 9),
    ("Fetch v11, 1 partition", fetch(1), 11),
    ("Fetch v12, 1 partition", fetch(1), 12),
    ("Fetch v12, 8 partitions", fetch(8), 12),
    ("Fetch response v12, 1 partition", fetched(1, 200), 12),
    ("Fetch response v12, 8 partitions", fetched(8, 200), 12),
    ("Metadata response v12, 100 partitions", metadata(100), 12),
    ("JoinGroup v9", join(), 9),
]


def microseconds(call: Callable[[], object], rounds: int) -> float:
    """The least time of one call."""
    timer = timeit.Timer(call)
    number, _ = timer.autorange()
    number = max(1, number // 10)
    return min(timer.repeat(rounds, number)) / number * 1e6


def kio_codec(message: Any, version: int) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]] | None:
    """kio's decoder and encoder for the same message, None without kio."""
    try:
        from kio.serial import entity_reader, entity_writer
    except ImportError:
        return None
    name = type(message).__name__
    kind = "request" if name.endswith("Request") else "response"
    words = name.removesuffix(kind.capitalize())
    module = "".join("_" + letter.lower() if letter.isupper() else letter for letter in words).lstrip("_")
    cls = getattr(import_module(f"kio.schema.{module}.v{version}.{kind}"), name)
    read, write = entity_reader(cls), entity_writer(cls)

    def encode(entity: Any) -> bytes:
        out = io.BytesIO()
        write(out, entity)
        return out.getvalue()

    return lambda data: read(data, 0)[0], encode


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each case; the least counts")
    rounds = parser.parse_args().rounds
    print(InterpreterBuild.running().name, flush=True)
    print(f"{'µs, decode / encode':<40}{'logbus':>16}{'from a view':>12}{'kio':>18}")
    for title, message, version in CASES:
        encode, decode = encoder(type(message), version), decoder(type(message), version)
        data = joined(encode(message))
        view = memoryview(bytearray(data))
        ours = [microseconds(call, rounds) for call in (lambda: decode(data), lambda: encode(message))]  # noqa: B023
        viewed = microseconds(lambda: decode(view), rounds)  # noqa: B023
        line = f"{title:<40}{ours[0]:>8.2f}/{ours[1]:<7.2f}{viewed:>12.2f}"
        theirs = kio_codec(message, version)
        if theirs is not None:
            entity = theirs[0](data)
            times = [microseconds(call, rounds) for call in (lambda: theirs[0](data), lambda: theirs[1](entity))]  # noqa: B023
            line += f"{times[0]:>9.2f}/{times[1]:<8.2f}"
        print(line)


if __name__ == "__main__":
    main()
