"""
Measures consumer groups: loading after a restart, heartbeats, commits, and rebalances::

    python -m benchmarks.groups [--groups 1000] [--members 3] [--partitions 100] [--seconds 5]

Sets up that many groups, has each commit an offset for every partition of a topic, restarts the broker, and prints
figures in reST.  The members share a few connections, as many as a group has members; only requests are counted, not
what a client library would add.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field

from benchmarks.compare.cells import Cell
from benchmarks.compare.native_programs import Programs, build
from benchmarks.compare.process_cost import cost
from benchmarks.compare.rounds import measure
from benchmarks.compare.systems import Logbus, start
from benchmarks.compare.workloads import prepare
from benchmarks.scale import again
from logbus.interpreter import InterpreterBuild
from logbus.records.file_slice import joined
from logbus.wire.connection import ClientConnection
from logbus.wire.messages.groups import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from logbus.wire.messages.offsets import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic

TOPIC = "grouped"
LOADING, COORDINATOR_NOT_AVAILABLE, REBALANCE_IN_PROGRESS = 14, 15, 27
SESSION_MS = 300_000
COMMITTERS = 50
REBALANCERS = 100
HEARTBEAT_SECONDS = 3.0


class Logbus0(Logbus):
    """A broker whose groups do not wait for more members before their first rebalance."""

    def prepare(self, directory: Path, port: int, synced: bool | None) -> list[str]:
        return [*super().prepare(directory, port, synced), "--set", "group.initial.rebalance.delay.ms=0"]


@define(eq=False)
class Peer:
    """One connection, used by turns."""

    port: int
    sock: socket.socket = field(init=False)
    wire: ClientConnection = field(factory=lambda: ClientConnection("benchmark"), init=False)
    _held: bytearray = field(factory=bytearray, init=False)

    def __attrs_post_init__(self) -> None:
        self.sock = socket.create_connection(("127.0.0.1", self.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(60)

    def send(self, message: Any, version: int) -> None:
        self.sock.sendall(joined(self.wire.request(message, version)[1]))

    def receive(self) -> Any:
        """The next answer."""
        held = self._held
        while len(held) < 4 or len(held) < 4 + int.from_bytes(held[:4], "big"):
            data = self.sock.recv(1 << 18)
            if not data:
                raise ConnectionError("the broker closed the connection")
            held += data
        size = 4 + int.from_bytes(held[:4], "big")
        frame = bytes(held[4:size])
        del held[:size]
        return self.wire.receive(frame)[1]

    def ask(self, message: Any, version: int) -> Any:
        self.send(message, version)
        return self.receive()


@define(eq=False)
class Member:
    """A member of a group, on some connection."""

    group: str
    peer: Peer
    member_id: str = ""
    generation: int = -1

    def join(self) -> None:
        self.peer.send(
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(100))],
            ),
            3,
        )

    def joined(self) -> Any:
        answer = self.peer.receive()
        check(answer)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, members: Sequence[str] = ()) -> None:
        self.peer.send(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                assignments=[SyncGroupRequestAssignment(member_id=name, assignment=bytes(100)) for name in members],
            ),
            3,
        )

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)

    def commit(self, partitions: Sequence[int], offset: int = 1) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                        for number in partitions
                    ],
                )
            ],
        )


def check(answer: Any) -> None:
    """:raises RuntimeError: the broker refused."""
    if answer.error_code:
        raise RuntimeError(f"{type(answer).__name__} with error {answer.error_code}")


def rebalance(first: Member, others: Sequence[Member]) -> None:
    """Have one join, the others as soon as they hear that they must, and the leader assign."""
    first.join()
    if others:
        while others[0].peer.ask(others[0].heartbeat(), 3).error_code != REBALANCE_IN_PROGRESS:
            pass
    for member in others:
        member.join()
    members = [first, *others]
    answers = [member.joined() for member in members]
    for member, answer in zip(members, answers, strict=True):
        member.sync([each.member_id for each in answer.members])
    for member in members:
        check(member.peer.receive())


def grown(members: Sequence[Member]) -> None:
    """Have members come to a group one after the other; each makes those before it join again."""
    for count, member in enumerate(members):
        rebalance(member, members[:count])


def wait_for_groups(peer: Peer, names: Sequence[str]) -> None:
    """Until the coordinator knows all of them."""
    missing = list(names)
    while missing:
        answer = peer.ask(DescribeGroupsRequest(groups=missing), 3)
        missing = [group.group_id for group in answer.groups if group.error_code == LOADING]
        if missing:
            time.sleep(0.005)


def find_coordinator(peer: Peer) -> None:
    """Until there is one: the first time the topic is made."""
    while (error := peer.ask(FindCoordinatorRequest(key="g"), 2).error_code) == COORDINATOR_NOT_AVAILABLE:
        time.sleep(0.01)
    if error:
        raise RuntimeError(f"no coordinator: error {error}")


def closed_loop(work: Sequence[tuple[Peer, Sequence[Any], int]], seconds: float) -> tuple[int, float]:
    """
    Keep one request under way on each connection for some seconds, taking its messages by turns.

    :returns: requests answered, and the seconds it took.
    """
    poll = select.epoll()
    frames: dict[int, tuple[Peer, Sequence[Any], int]] = {}
    for peer, messages, version in work:
        frames[peer.sock.fileno()] = (peer, messages, version)
        poll.register(peer.sock, select.EPOLLIN)
        peer.send(messages[0], version)
    turns = dict.fromkeys(frames, 0)
    answered, began, under_way = 0, time.monotonic(), len(frames)
    while under_way:
        for number, _ in poll.poll():
            peer, messages, version = frames[number]
            answer = peer.receive()
            if getattr(answer, "error_code", 0):
                check(answer)
            answered += 1
            turns[number] += 1
            if time.monotonic() - began < seconds:
                peer.send(messages[turns[number] % len(messages)], version)
            else:
                under_way -= 1
    poll.close()
    return answered, time.monotonic() - began


def many_groups(options: argparse.Namespace, directory: Path) -> Iterator[tuple[str, str]]:
    """Set up, restart, heartbeats."""
    broker = start(Logbus0(), directory)
    try:
        broker.admin.create_topic(TOPIC, options.partitions, {})
        peers = [Peer(broker.port) for _ in range(options.members)]
        find_coordinator(peers[0])
        names = [f"group-{number}" for number in range(options.groups)]
        before, began = cost(broker.pid).cpu, time.monotonic()
        groups = [[Member(name, peer) for peer in peers] for name in names]
        for members in groups:
            grown(members)
        what = f"{options.groups} groups of {options.members}"
        yield f"{what}: joined in", f"{time.monotonic() - began:.1f} s, {cost(broker.pid).cpu - before:.1f} s CPU"
        before, began = cost(broker.pid).cpu, time.monotonic()
        for members in groups:
            peers[0].ask(members[0].commit(range(options.partitions)), 7)
        offsets = options.groups * options.partitions
        spent = cost(broker.pid).cpu - before
        yield (
            f"{offsets} offsets: committed in",
            f"{time.monotonic() - began:.1f} s, {spent / offsets * 1e6:.1f} µs CPU each",
        )
        resident = cost(broker.pid).resident
        yield f"{what}, {offsets} offsets: memory", f"{resident / 1e6:.0f} MB resident"
        broker.stop()
        broker = again(directory, Logbus0)
        ready = time.monotonic()
        peers = [Peer(broker.port) for _ in range(options.members)]
        wait_for_groups(peers[0], names)
        loaded = time.monotonic() - ready
        yield f"{what}, {offsets} offsets: loaded", f"{loaded:.2f} s after the first answer"
        yield (
            "the same: start to first answer",
            f"{broker.start_seconds:.2f} s, {cost(broker.pid).cpu:.1f} s CPU in all",
        )
        for members in groups:
            for peer, member in zip(peers, members, strict=True):
                member.peer = peer
        beats = [(peer, [members[i].heartbeat() for members in groups], 3) for i, peer in enumerate(peers)]
        before = cost(broker.pid).cpu
        answered, took = closed_loop(beats, options.seconds)
        each = (cost(broker.pid).cpu - before) / answered
        steady = each * options.groups * options.members / HEARTBEAT_SECONDS
        yield "heartbeat", f"{each * 1e6:.1f} µs CPU, {answered / took:,.0f} a second"
        yield f"{what}, a heartbeat every {HEARTBEAT_SECONDS:g} s", f"{steady * 100:.1f} % of a core"
    finally:
        broker.stop()


def commits(options: argparse.Namespace, directory: Path, programs: Programs) -> Iterator[tuple[str, str]]:
    """Commits of many members at a time, beside small produce requests of the same number of connections."""
    broker = start(Logbus0(), directory)
    try:
        broker.admin.create_topic(TOPIC, max(COMMITTERS, options.partitions), {})
        peers = [Peer(broker.port) for _ in range(COMMITTERS)]
        find_coordinator(peers[0])
        members = [Member("committers", peer) for peer in peers]
        grown(members)
        work = [(member.peer, [member.commit([i])], 7) for i, member in enumerate(members)]
        before = cost(broker.pid).cpu
        answered, took = closed_loop(work, options.seconds)
        each = (cost(broker.pid).cpu - before) / answered
        yield f"commit, {COMMITTERS} members", f"{each * 1e6:.1f} µs CPU, {answered / took:,.0f} a second"
        for acks, text in ((-1, "acks=all"), (1, "acks=1")):
            cell = Cell(f"produce.{acks}", "produce", 100, acks=acks, connections=COMMITTERS)
            load = prepare(cell, f"small{acks}", directory / f"load{acks}", programs)
            found = measure(load, [broker], rounds=3, seconds=options.seconds / 3, max_bytes=1e9)["logbus"]
            yield (
                f"produce 100 B, {text}, {COMMITTERS} connections",
                f"{found.cpu_us_per_request:.1f} µs CPU, {found.requests_per_s:,.0f} a second",
            )
        more = [Member("rebalancers", Peer(broker.port)) for _ in range(REBALANCERS)]
        grown(more)
        before, began = cost(broker.pid).cpu, time.monotonic()
        # Its leader joins again, as it does when it sees that topics have changed.
        rebalance(more[0], more[1:])
        yield (
            f"rebalance of {REBALANCERS} members",
            f"{time.monotonic() - began:.3f} s, {cost(broker.pid).cpu - before:.2f} s CPU",
        )
    finally:
        broker.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000, help="groups")
    parser.add_argument("--members", type=int, default=3, help="members of each")
    parser.add_argument("--partitions", type=int, default=100, help="partitions of the topic that they read")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a measurement")
    options = parser.parse_args()
    print(InterpreterBuild.running().name, flush=True)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"), prefix="logbus-groups-") as name:
        directory = Path(name)
        programs = build(directory)
        for rows in (many_groups(options, directory / "many"), commits(options, directory / "commits", programs)):
            for what, figure in rows:
                print(f"{what:<56}  {figure}", flush=True)


if __name__ == "__main__":
    main()
