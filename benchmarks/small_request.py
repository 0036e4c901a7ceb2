"""
Measures the cost of a small request in Python, from receiving to the page cache and back, without a real socket.

    python -m benchmarks.small_request

The socket is one that always has the same bytes and takes all it is given; the file is real. Runs are short and the
quickest of many count, so that the figures hold on a machine with other work.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import uuid
from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.testing import MemoryReactorClock

from benchmarks.compare import wire
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.partition import Partition
from logbus.cluster.replication.purgatory import Purgatory
from logbus.cluster.replication.replica_manager import Replica, ReplicaManager
from logbus.cluster.replication.replica_reader import ReplicaReader
from logbus.handlers.coalesced_produce import CoalescedProduceHandlers
from logbus.handlers.current_leaders import CurrentLeaders
from logbus.handlers.fetch import FetchHandlers
from logbus.handlers.fetch_contexts import FetchContexts
from logbus.handlers.fetch_sessions import FetchSessionCache
from logbus.handlers.produce import ProduceHandlers
from logbus.handlers.produce_appender import ProduceAppender
from logbus.handlers.produce_errors import ProduceErrors
from logbus.handlers.request_router import RequestRouter
from logbus.handlers.transaction_verification import TransactionVerification
from logbus.interpreter import InterpreterBuild
from logbus.model import LeaderAndIsr, TopicPartition
from logbus.net.factory import KafkaServerFactory
from logbus.net.shared_resources import SharedResources
from logbus.net.transport import ServerPort, ServerTransport
from logbus.storage.appends.append_as_leader import append_as_leader
from logbus.storage.filesystem.disk import Disk
from logbus.storage.log import Log

RUNS = 600
SOME = 200


class EndlessSocket:
    """
    Always has the same bytes to read, and takes what is sent.

    :ivar offset_at: where the bytes have the offset of a Fetch, which grows by 3 with each, up to ``last``.
    :ivar epoch_at: where they have the epoch of its session, which grows by 1 with each.
    """

    def __init__(self) -> None:
        self.received = self.answer = b""
        self.sent = 0
        self.offset_at = self.offset = self.last = self.epoch_at = self.epoch = 0

    def recv_into(self, room: memoryview) -> int:
        room[: len(self.received)] = self.received
        if self.offset_at:
            room[self.offset_at : self.offset_at + 8] = self.offset.to_bytes(8, "big")
            self.offset = self.offset + 3 if self.offset < self.last else 0
        if self.epoch_at:
            room[self.epoch_at : self.epoch_at + 4] = self.epoch.to_bytes(4, "big")
            self.epoch += 1
        return len(self.received)

    def send(self, data: bytes, flags: int = 0) -> int:
        self.answer = data
        self.sent += len(data)
        return len(data)

    def fileno(self) -> int:
        return 0

    def setblocking(self, blocking: bool) -> None:
        pass

    def setsockopt(self, *option: int) -> None:
        pass


def a_log(root: str, reactor: Any) -> Log:
    """An empty log on disk."""
    disk = Disk(root, reactor)
    disk.make_directory("bench-0")
    log = Log(TopicPartition("bench", 0), disk, "bench-0", wall_clock=time.time, jitter=random.Random(0))
    log.create()
    return log


def connection(log: Log, reactor: Any) -> tuple[ServerTransport, EndlessSocket]:
    """A connection to a broker that has nothing but this log."""
    replicas: Any = ReplicaManager(0, None, lambda overrides: log.config)  # type: ignore[arg-type]
    replica = Replica(Partition(log.partition, 0), uuid.uuid4(), log)
    replica.take_role(LeaderAndIsr(leader=0, leader_epoch=0, isr=(0,)))
    replicas._by_partition[log.partition] = replica
    router = RequestRouter()
    # No batch is transactional.
    metadata, verification = ClusterMetadata("bench"), cast(TransactionVerification, None)
    appender, errors = ProduceAppender(replicas, metadata, reactor, time.time), ProduceErrors(CurrentLeaders(metadata))
    router.add(ProduceHandlers(appender, replicas, reactor, errors, verification))
    router.add(CoalescedProduceHandlers(appender, errors))
    contexts = FetchContexts(replicas, metadata, FetchSessionCache(replicas, reactor.seconds, random.Random(0), 1000))
    reader = ReplicaReader(replicas, Purgatory(reactor))
    router.add(FetchHandlers(reader, replicas, metadata, CurrentLeaders(metadata), contexts, 50 << 20))
    sock = EndlessSocket()
    factory = KafkaServerFactory(
        router.served,
        router,
        SharedResources(reactor),
        coalesced_router=router.serve_coalesced,
        repeated_router=router.serve_repeated,
    )
    protocol: Any = factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
    transport = ServerTransport(sock, protocol, ("127.0.0.1", 1), ServerPort(0, factory), 1, reactor)
    protocol.makeConnection(transport)
    return transport, sock


def quickest(transport: ServerTransport, requests: int) -> float:
    """µs a request, when so many are found in one read."""
    reads = max(1, SOME // requests)
    times = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        for _ in range(reads):
            transport.doRead()
        times.append(time.perf_counter() - begun)
    # Not the very least: a clock that was set, too, looks like a quick run.
    return sorted(times)[RUNS // 100] / (reads * requests) * 1e6


def main() -> None:
    """Measure and print."""
    print(InterpreterBuild.running().name, flush=True)
    reactor: Any = MemoryReactorClock()
    frame = wire.produce_request("bench", {0: wire.record_batch(1, 100)}, 1)
    with tempfile.TemporaryDirectory() as root:
        log = a_log(root, reactor)
        transport, sock = connection(log, reactor)
        for requests in (1, 16):
            sock.received = frame * requests
            print(f"produce 100 B, {requests:2} in a read  {quickest(transport, requests):5.1f} µs")
    with tempfile.TemporaryDirectory() as root:
        log = a_log(root, reactor)
        for _ in range(6000):
            append_as_leader(log, wire.record_batch(3, 1000).data, 0)
        transport, sock = connection(log, reactor)
        fetch = wire.fetch_request("bench", [0], partition_max_bytes=4096)
        # The entry begins with the partition and a leader's epoch.
        sock.received, sock.offset_at, sock.last = fetch.data, fetch.entries_at + 8, 3 * 5000
        print(f"fetch of 4 KB              {quickest(transport, 1):5.1f} µs")
        transport, sock = connection(log, reactor)
        fetch = wire.fetch_request("bench", [0], partition_max_bytes=4096, session_epoch=0)
        sock.received = fetch.data
        transport.doRead()
        # After the frame's length, the header, a time to wait and an error code.
        session = sock.answer[15:19]
        sock.received = fetch.data[: fetch.session_at] + session + fetch.data[fetch.session_at + 4 :]
        sock.offset_at, sock.last = fetch.entries_at + 8, 3 * 5000
        sock.epoch_at, sock.epoch = fetch.session_at + 4, 1
        print(f"the same in a session      {quickest(transport, 1):5.1f} µs")
        if not log.log_end_offset or not sock.sent:
            sys.exit("nothing was written or answered")


if __name__ == "__main__":
    main()
