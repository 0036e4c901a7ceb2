"""
Measures the cost of a follower: CPU per GB fetched, from the socket to the page cache.

    python benchmarks/replication_follower.py [--directory DIR] [--megabytes 2000] [--batch-records 16 100 1000]
        [--partitions 1 10] [--record-bytes 1000] [--batches-a-partition 0]

A leader that is none runs in a process of its own, and answers every fetch at once with as many batches as were asked
for, or with a few of each partition, as where many partitions get small batches::

    python benchmarks/replication_follower.py --megabytes 50 --partitions 1000 --batch-records 5 --record-bytes 100
        --batches-a-partition 1

 The follower is the real one: channel, session, loop and log. Its process's CPU is counted,
kernel and all. Rates move with the machine; compare the figures of one run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import socket
import struct
import sys
import tempfile
import time
from typing import Any
from uuid import UUID

from twisted.internet.main import installReactor

from logbus.cluster.follower.fetch_settings import ReplicaFetchSettings
from logbus.cluster.follower.replica_fetcher_manager import ReplicaFetcherManager
from logbus.cluster.replication.partition import Partition
from logbus.cluster.replication.replica import Replica
from logbus.config import TopicConfig
from logbus.interpreter import InterpreterBuild
from logbus.model import LeaderAndIsr, TopicPartition
from logbus.net import reactor as own_reactor
from logbus.net.channel import Channel
from logbus.net.connect import connect
from logbus.records.batch import encode_batch
from logbus.records.header import PREFIX_SIZE, patched_prefix, read_header
from logbus.records.record import Record
from logbus.storage.filesystem.disk import disks_at
from logbus.storage.log_manager import LogManager
from logbus.timers import Timers
from logbus.wire.connection import ServerConnection
from logbus.wire.messages.records import FetchableTopicResponse, FetchResponse, PartitionData
from logbus.wire.version_range import VersionRange

TOPIC = UUID(int=7)


def _batch(records: int, record_bytes: int) -> bytes:
    return encode_batch([Record(i, 1, None, os.urandom(record_bytes), ()) for i in range(records)])


def lead(listener: socket.socket, batch_records: int, record_bytes: int, most: int, total: int) -> None:
    """Answer one follower's fetches."""
    one = _batch(batch_records, record_bytes)
    header = read_header(one)
    wire = ServerConnection({1: (17, 17)})
    peer, _ = listener.accept()
    file = peer.makefile("rb")
    session, sent = 0, 0
    buffers: dict[int, bytearray] = {}
    while head := file.read(4):
        request = wire.receive(file.read(struct.unpack(">i", head)[0]))
        message = request.message
        session = session or 1
        topics = []
        left = message.max_bytes
        for topic in message.topics:
            parts = []
            for asked in topic.partitions:
                count = max(1, min(left, asked.partition_max_bytes) // len(one))
                if most:
                    count = min(count, most)
                if left <= 0 or sent >= total:
                    continue
                data = buffers.setdefault(asked.partition, bytearray(one * count))
                size = count * len(one)
                for i in range(count):
                    at, offset = i * len(one), asked.fetch_offset + i * batch_records
                    data[at : at + PREFIX_SIZE] = patched_prefix(header, offset, 0)
                parts.append(
                    PartitionData(
                        partition_index=asked.partition,
                        high_watermark=asked.fetch_offset,
                        log_start_offset=0,
                        records=bytes(memoryview(data)[:size]),
                    )
                )
                left -= size
                sent += size
            if parts:
                topics.append(FetchableTopicResponse(topic_id=topic.topic_id, partitions=parts))
        if not topics:
            time.sleep(0.05)
        for part in wire.respond(request, FetchResponse(session_id=session, responses=topics)):
            peer.sendall(part)  # type: ignore[arg-type]


def measure(directory: str, batch_records: int, record_bytes: int, most: int, total: int, partitions: int) -> None:
    """In a process of its own: the reactor runs once."""
    installReactor(own_reactor.BrokerReactor())
    from twisted.internet import reactor as running
    from twisted.internet.defer import Deferred
    from twisted.internet.endpoints import TCP4ClientEndpoint

    reactor: Any = running
    listener = socket.create_server(("127.0.0.1", 0))
    leader = multiprocessing.Process(
        target=lead, args=(listener, batch_records, record_bytes, most, total), daemon=True
    )
    leader.start()
    home = tempfile.mkdtemp(dir=directory)
    logs = LogManager(disks_at([home], reactor), reactor, time.time, jitter=random.Random(1))
    timers = Timers(reactor, slack=64)
    channels: list[Channel] = []

    async def introduced(channel: Channel) -> None:
        channel.versions = {1: VersionRange(17, 17)}

    def channel_for(broker_id: int, purpose: str) -> Deferred[Channel]:
        if channels:
            done: Deferred[Channel] = Deferred()
            done.callback(channels[0])
            return done
        endpoint = TCP4ClientEndpoint(reactor, "127.0.0.1", listener.getsockname()[1])
        made = connect(endpoint, timers, lends=True, begin=introduced)

        def connected(channel: Channel) -> Channel:
            channels.append(channel)
            return channel

        return made.addCallback(connected)

    fetcher = ReplicaFetcherManager(2, lambda: 1, logs, channel_for, timers, ReplicaFetchSettings)

    async def run() -> None:
        await logs.open()
        fetcher.startService()
        replicas = []
        for n in range(partitions):
            name = TopicPartition("t", n)
            log = await logs.create(name, TOPIC, TopicConfig(flush_before_ack=False))
            replica = Replica(Partition(name, 2), TOPIC, log)
            replica.take_role(LeaderAndIsr(1, 0, (1, 2)), (1, 2))
            replicas.append(replica)
        size = len(_batch(batch_records, record_bytes))
        begun, wall = time.process_time(), time.monotonic()
        for replica in replicas:
            fetcher.follow(replica, 1)
        while fetcher.counters.bytes < total:
            waiting: Deferred[None] = Deferred()
            reactor.callLater(0.05, waiting.callback, None)
            await waiting
        cpu, elapsed = time.process_time() - begun, time.monotonic() - wall
        counters = fetcher.counters
        assert not counters.failed_partitions and not counters.failed_fetches, counters
        gigabytes = counters.bytes / 1e9
        print(
            f"batches of {batch_records:5} records of {record_bytes} B, {partitions} partitions:"
            f" {cpu / gigabytes:.3f} s/GB CPU, {cpu * 1e6 / (counters.bytes / size):.1f} us a batch,"
            f" {gigabytes / elapsed:.2f} GB/s, {counters.bytes / counters.fetches / 1e6:.2f} MB a fetch",
            flush=True,
        )

    def over(result: object) -> None:
        if result is not None:
            print(result, file=sys.stderr)
        reactor.stop()

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(run()).addBoth(over))
    reactor.run()
    leader.terminate()
    shutil.rmtree(home, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", default=None, help="where the follower's logs go")
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--batch-records", type=int, nargs="+", default=[16, 100, 1000])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--record-bytes", type=int, default=1000)
    parser.add_argument("--batches-a-partition", type=int, default=0, help="the most in one response; 0: no limit")
    given = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    context = multiprocessing.get_context("spawn")
    for batch_records in given.batch_records:
        for partitions in given.partitions:
            arguments = (
                *(given.directory, batch_records, given.record_bytes, given.batches_a_partition),
                *(given.megabytes * 1_000_000, partitions),
            )
            process = context.Process(target=measure, args=arguments)
            process.start()
            process.join()


if __name__ == "__main__":
    main()
